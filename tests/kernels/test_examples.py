"""The results of the examples' kernels, where a CPU can run them. Needs no GPU."""

from __future__ import annotations

import ast
import csv
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "python"


def texts_of(example: str) -> dict[str, str]:
    """The texts that an example names: its CUDA sources."""
    named = {}
    for line in ast.parse((FOLDER / f"{example}.py").read_text()).body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) and isinstance(line.value, ast.Constant):
            named[line.targets[0].id] = str(line.value.value)
    return named


def test_fields_are_those_that_pythons_csv_reads(tmp_path: Path) -> None:
    source = tmp_path / "fields.cpp"
    source.write_text(
        "#include <cstdio>\n#include <iostream>\n#include <string>\n#define __device__\n"
        + texts_of("csv_fields_cupy")["READER"]
        + """
int main() {
  for (std::string line; std::getline(std::cin, line);) {
    reader in{line.data(), line.data() + line.size()};
    int fields = 0;
    while (!in.last) {
      std::putchar(fields++ == 0 ? '[' : '|');
      in.field();
      for (int c; (c = in.next()) >= 0;) std::putchar(c);
    }
    std::puts("]");
  }
}
"""
    )
    subprocess.run(["g++", "-std=c++20", "-Wall", "-Werror", source, "-o", tmp_path / "fields"], check=True)
    lines = ["a,b,c", ",", "a,", ",,x", "one", '"a, b",c', '"she said ""no""",""', '""""', '"",""', 'x,"y"', '"",', "a b,  c", '"""a""b"""']
    ran = subprocess.run([tmp_path / "fields"], input="\n".join(lines), capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [f"[{'|'.join(fields)}]" for fields in csv.reader(lines)]


def test_the_table_of_kmers_grows_and_counts(tmp_path: Path) -> None:
    """Threads of the CPU count the k-mers of a sequence in which most occur several times, from a few slots on."""
    texts = texts_of("kmers_cupy")
    source = tmp_path / "kmers.cpp"
    source.write_text(
        """
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>
#define __device__
#define __global__
struct { unsigned x; } thread_local blockIdx, blockDim{1}, threadIdx;
void __threadfence() { __sync_synchronize(); }
using word = unsigned long long;
word atomicCAS(word* at, word expected, word made) { return __sync_val_compare_and_swap(at, expected, made); }
unsigned atomicAdd(unsigned* at, unsigned more) { return __sync_fetch_and_add(at, more); }
long live = 0;
"""
        + texts["KMER"]
        + texts["ONE_PASS"]
        + """
extern "C" {
void* gpuheap_v1_malloc(gpuheap_handle, size_t bytes) { __sync_fetch_and_add(&live, 1); return std::malloc(bytes); }
void* gpuheap_v1_calloc(gpuheap_handle, size_t count, size_t bytes) { __sync_fetch_and_add(&live, 1); return std::calloc(count, bytes); }
int gpuheap_v1_free(gpuheap_handle, void* p) { if (p) __sync_fetch_and_add(&live, -1); std::free(p); return 0; }
}
namespace of_list {
"""
        + texts["LIST"]
        + """
}
int main() {
  constexpr int k = 7, n = 20000, bits = 2, num_threads = 8;
  std::vector<unsigned char> bases(n + k - 1);
  unsigned state = 1;
  for (auto& base : bases) base = (state = state * 1664525u + 1013904223u) >> 30;
  slot roots[1 << bits] = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < num_threads; ++t)
    threads.emplace_back([&, t] {
      blockDim.x = 1;
      for (int i = t; i < n; i += num_threads) { blockIdx.x = i; count(nullptr, roots, bits, bases.data(), n, k); }
    });
  for (auto& each : threads) each.join();
  std::map<unsigned long long, unsigned> expected;
  for (int i = 0; i < n; ++i) ++expected[kmer(bases.data(), i, k)];
  std::vector<unsigned long long> keys(n);
  std::vector<unsigned> counts(n);
  unsigned found = 0;
  for (unsigned i = 0; i < 1u << bits; ++i) { blockIdx.x = i; of_list::list(roots, 1 << bits, keys.data(), counts.data(), n, &found); }
  std::map<unsigned long long, unsigned> got;
  for (unsigned i = 0; i < found; ++i) got[keys[i]] = counts[i];
  std::printf("%d %d %d\\n", found == expected.size(), got == expected, live > static_cast<long>(found));
}
"""
    )
    include = FOLDER.parents[1] / "include"
    subprocess.run(["g++", "-std=c++20", "-O1", "-w", f"-I{include}", str(source), "-pthread", "-o", str(tmp_path / "kmers")], check=True)
    ran = subprocess.run([str(tmp_path / "kmers")], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["1", "1", "1"]
