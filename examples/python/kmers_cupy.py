"""Counts how often each k-mer occurs in a sequence of DNA, in CuPy: in one pass with a hash table that grows in a heap, and without dynamic memory.

In the one pass each thread looks up its k-mer, and adds it to the table if no thread has added it before. If two k-mers need the same slot, a table of
16 more slots takes both. So the heap allocates memory for distinct k-mers only, however many there are. The baseline writes all k-mers into an array as
long as the sequence, sorts it, and counts equal neighbours. The program compares both results, and draws how often k-mers occur, and the times.

    python kmers_cupy.py [--bases 20000000] [--output FOLDER]
"""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path

import cupy
import matplotlib
import numpy as np

import gpuheap
from gpuheap.cupy import RawModule

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RUNS = 5
KMER = """
__device__ unsigned long long kmer(const unsigned char* bases, int i, int k) {
  unsigned long long code = 0;
  for (int j = 0; j < k; ++j) code = code << 2 | bases[i + j];
  return code;
}
"""
# ---- one pass
ONE_PASS = """
#include <gpuheap_device.h>
// A slot holds 0, or the address of a k-mer's entry, or the address of a table of 16 more slots plus 1.
typedef unsigned long long slot;
struct entry { unsigned long long key; unsigned count; };
struct table { slot slots[16]; };
__device__ unsigned long long mixed(unsigned long long key) { return key * 0x9e3779b97f4a7c15ull; }  // different for each key
__device__ entry* make(gpuheap_handle heap, unsigned long long key) {
  entry* made = (entry*)gpuheap_malloc(heap, sizeof(entry));
  if (made) *made = entry{key, 1};
  return made;
}
// Counts a key in the slot `at` or in the tables below. The first `used` bits of the key's hash have chosen this slot.
__device__ void add(gpuheap_handle heap, slot* at, int used, unsigned long long key) {
  entry* fresh = nullptr;
  for (;;) {
    slot seen = *(volatile slot*)at;
    __threadfence();
    if (seen & 1) {
      at = ((table*)(seen - 1))->slots + (mixed(key) << used >> 60);
      used += 4;
    } else if (seen == 0) {
      if (!fresh) fresh = make(heap, key);
      __threadfence();
      if (!fresh || atomicCAS(at, 0ull, (slot)fresh) == 0) return;  // if there was no memory, check() raises an error
    } else if (((entry*)seen)->key == key) {
      atomicAdd(&((entry*)seen)->count, 1u);
      break;
    } else {  // the slot has another key: a new table takes its place
      table* larger = (table*)gpuheap_calloc(heap, 1, sizeof(table));
      if (!larger) break;
      larger->slots[mixed(((entry*)seen)->key) << used >> 60] = seen;
      __threadfence();
      if (atomicCAS(at, seen, (slot)larger + 1) != seen) gpuheap_free(heap, larger);
    }
  }
  gpuheap_free(heap, fresh);
}
extern "C" __global__ void count(gpuheap_handle heap, slot* roots, int bits, const unsigned char* bases, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned long long key = kmer(bases, i, k);
  add(heap, roots + (mixed(key) >> (64 - bits)), bits, key);
}
"""
BITS = 20  # the bits of the hash that choose a slot of the first table; in each further table 4 bits choose one


def one_pass(module, heap, roots, bases, k):
    n = bases.size - k + 1
    roots.fill(0)
    module.get_function("count")((-(-n // 256),), (256,), (heap, roots, cupy.int32(BITS), bases, cupy.int32(n), cupy.int32(k)))


# ---- without dynamic memory
ALL_KMERS = """
extern "C" __global__ void write(const unsigned char* bases, int n, int k, unsigned long long* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = kmer(bases, i, k);
}
"""


def by_sorting(module, bases, k):
    n = bases.size - k + 1
    codes = cupy.empty(n, dtype=cupy.uint64)
    module.get_function("write")((-(-n // 256),), (256,), (bases, cupy.int32(n), cupy.int32(k), codes))
    codes.sort()
    first = cupy.flatnonzero(cupy.concatenate([cupy.ones(1, dtype=bool), codes[1:] != codes[:-1]]))
    return codes[first], cupy.diff(cupy.concatenate([first, cupy.asarray([n])]))


# ---- the comparison
LIST = """
typedef unsigned long long slot;
struct entry { unsigned long long key; unsigned count; };
extern "C" __global__ void list(slot* roots, unsigned n, unsigned long long* keys, unsigned* counts, unsigned most, unsigned* found) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  slot ahead[192];  // slots still to visit: 15 for each of up to 12 tables on the way, and some to spare
  int left = 0;
  for (ahead[left++] = roots[i]; left != 0;) {
    slot at = ahead[--left];
    if (at & 1) {
      for (int j = 0; j < 16; ++j) ahead[left++] = ((slot*)(at - 1))[j];
    } else if (at != 0) {
      unsigned place = atomicAdd(found, 1u);
      if (place < most) { keys[place] = ((entry*)at)->key; counts[place] = ((entry*)at)->count; }
    }
  }
}
"""


def milliseconds(call) -> float:
    """The median time of RUNS calls, after one call that compiles."""
    before, after = cupy.cuda.Event(), cupy.cuda.Event()
    times = []
    for _ in range(RUNS + 1):
        before.record()
        call()
        after.record()
        after.synchronize()
        times.append(cupy.cuda.get_elapsed_time(before, after))
    return float(np.median(times[1:]))


def sequence(n: int):
    """Random bases, numbered 0 to 3, with repeats as in genomes."""
    random = np.random.default_rng(1)
    repeats = random.integers(0, 4, (200, 500), dtype=np.uint8)
    bases = random.integers(0, 4, n, dtype=np.uint8)
    for start in random.integers(0, n - 500, n // 1000):
        bases[start : start + 500] = repeats[random.integers(0, 200)]
    return cupy.asarray(bases)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bases", type=int, default=20_000_000)
    parser.add_argument("--k", type=int, default=21, help="1 to 31")
    parser.add_argument("--output", type=Path, default=Path("."))
    given = parser.parse_args()
    bases = sequence(given.bases)
    dynamic, plain = RawModule(KMER + ONE_PASS), cupy.RawModule(code=KMER + ALL_KMERS)
    roots = cupy.zeros(1 << BITS, dtype=cupy.uint64)
    with gpuheap.Heap("4 GiB") as heap:

        def count():
            heap.reset()
            one_pass(dynamic, heap, roots, bases, given.k)

        one_ms = milliseconds(count)
        heap.check()
        sorted_ms = milliseconds(lambda: by_sorting(plain, bases, given.k))
        kmers, counts = by_sorting(plain, bases, given.k)
        keys, found = cupy.empty_like(kmers), cupy.zeros(kmers.size, dtype=cupy.uint32)
        total = cupy.zeros(1, dtype=cupy.uint32)
        cupy.RawKernel(LIST, "list")((-(-roots.size // 256),), (256,), (roots, cupy.uint32(roots.size), keys, found, cupy.uint32(kmers.size), total))
        assert int(total[0]) == kmers.size, f"{int(total[0])} distinct k-mers in the table, and {kmers.size} by sorting"
        order = cupy.argsort(keys)
        assert bool((keys[order] == kmers).all()) and bool((found[order] == counts).all()), "the counts differ"
        live = heap.stats().live_bytes
    source = len((ONE_PASS + inspect.getsource(one_pass)).splitlines())
    rows = [("one pass, gpuheap", one_ms, source), ("sorting", sorted_ms, len((ALL_KMERS + inspect.getsource(by_sorting)).splitlines()))]
    print(f"{given.bases} bases, {kmers.size} distinct {given.k}-mers, counts equal; the heap has {live} bytes live")
    for name, ms, lines in rows:
        print(f"{name:20} {ms:8.2f} ms {lines:4d} lines")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
    left.hist(counts.get(), bins=60)
    left.set(xlabel="times that a k-mer occurs", ylabel="k-mers", yscale="log")
    right.barh([row[0] for row in rows], [row[1] for row in rows])
    right.set(xlabel="ms")
    figure.tight_layout()
    given.output.mkdir(parents=True, exist_ok=True)
    figure.savefig(given.output / "kmers_cupy.png", dpi=120)
    return 0


if __name__ == "__main__":
    sys.exit(main())
