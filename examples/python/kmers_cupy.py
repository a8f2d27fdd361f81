"""How often each k-mer stands in a sequence of DNA, in CuPy: one pass into a hash table whose nodes come from a heap, and without dynamic memory.

In one pass each thread looks its k-mer up, and adds a node to the table when it is the first to see it: memory is taken for distinct k-mers alone. The
baseline writes every k-mer down, sorts them, and counts equal neighbours, as arrays have to be as long as the sequence. Both results are compared; a
picture shows how often k-mers occur, and the times.

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
struct node { unsigned long long key; unsigned count; node* next; };
// The node of a key in the list from `head` to `end`, or null.
__device__ node* find(node* head, node* end, unsigned long long key) {
  for (; head != end; head = head->next) if (head->key == key) return head;
  return nullptr;
}
extern "C" __global__ void count(gpuheap_handle heap, node** table, unsigned buckets, const unsigned char* bases, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned long long key = kmer(bases, i, k);
  node** bucket = table + (key * 0x9e3779b97f4a7c15ull >> 32) % buckets;
  node *end = nullptr, *fresh = nullptr;
  for (;;) {
    node* head = *(node* volatile*)bucket;
    __threadfence();
    if (node* found = find(head, end, key)) {
      atomicAdd(&found->count, 1);
      if (fresh) gpuheap_free(heap, fresh);
      return;
    }
    if (!fresh) fresh = (node*)gpuheap_malloc(heap, sizeof(node));
    if (!fresh) return;  // the heap has a record of it
    *fresh = node{key, 1, head};
    __threadfence();
    if (atomicCAS((unsigned long long*)bucket, (unsigned long long)head, (unsigned long long)fresh) == (unsigned long long)head) return;
    end = head;  // others came first: only what they have put before it is new
  }
}
"""


def one_pass(module, heap, table, bases, k):
    n = bases.size - k + 1
    table.fill(0)
    module.get_function("count")((-(-n // 256),), (256,), (heap, table, cupy.uint32(table.size), bases, cupy.int32(n), cupy.int32(k)))


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


# ---- both, compared
LIST = """
struct node { unsigned long long key; unsigned count; node* next; };
extern "C" __global__ void list(node** table, unsigned buckets, unsigned long long* keys, unsigned* counts, unsigned most, unsigned* found) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= buckets) return;
  for (node* at = table[i]; at; at = at->next) {
    unsigned place = atomicAdd(found, 1);
    if (place < most) { keys[place] = at->key; counts[place] = at->count; }
  }
}
"""


def milliseconds(call) -> float:
    """The median of some runs after one that compiles."""
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
    """Bases as 0..3, with repeats, as genomes have them."""
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
    table = cupy.zeros(1 << 24, dtype=cupy.uint64)
    with gpuheap.Heap("4 GiB") as heap:

        def count():
            heap.reset()
            one_pass(dynamic, heap, table, bases, given.k)

        one_ms = milliseconds(count)
        heap.check()
        sorted_ms = milliseconds(lambda: by_sorting(plain, bases, given.k))
        kmers, counts = by_sorting(plain, bases, given.k)
        keys, found = cupy.empty_like(kmers), cupy.zeros(kmers.size, dtype=cupy.uint32)
        total = cupy.zeros(1, dtype=cupy.uint32)
        cupy.RawKernel(LIST, "list")((-(-table.size // 256),), (256,), (table, cupy.uint32(table.size), keys, found, cupy.uint32(kmers.size), total))
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
