"""Splits lines of CSV into their fields, in CuPy: in one pass with strings that grow in a heap, and in two passes without dynamic memory.

A quoted field has two quotes for each quote in it, so its length is known only after it has been read. In the one pass each thread reads a line, and
appends the characters of a field to a string that gets a larger block whenever it is full. The baseline reads every line twice: it counts fields and
characters, scans both counts, and writes both into arrays. The program compares both results, and draws the lengths of the fields, and the times.

    python csv_fields_cupy.py [--lines 1000000] [--output FOLDER]
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
READER = """
// Reads one line. For each field the caller calls field(), and then next() until it returns -1. After the last field of the line `last`
// is true.
struct reader {
  const char *at, *end;
  bool quoted, last;
  __device__ void field() { quoted = at != end && *at == '"'; if (quoted) ++at; }
  // Returns the next character of the field, or -1 at its end.
  __device__ int next() {
    while (at != end) {
      char c = *at++;
      if (quoted && c == '"') {
        if (at != end && *at == '"') { ++at; return c; }
        quoted = false;
        continue;
      }
      if (!quoted && c == ',') return -1;
      return c;
    }
    last = true;
    return -1;
  }
};
"""
# ---- one pass
ONE_PASS = """
#include <gpuheap_device.h>
struct text { text* next; unsigned length, room; char characters[16]; };
__device__ text* resized(gpuheap_handle heap, text* old, unsigned room) {
  text* made = (text*)gpuheap_realloc(heap, old, 16 + room);
  if (made) made->room = room;
  return made;
}
extern "C" __global__ void split(gpuheap_handle heap, const char* all, const long long* starts, int n, text** lines) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  reader in{all + starts[i], all + starts[i + 1] - 1};
  text** place = lines + i;
  *place = nullptr;
  while (!in.last) {
    text* field = resized(heap, nullptr, 16);
    if (!field) return;  // no memory: check() raises an error
    field->length = 0;
    in.field();
    for (int c; (c = in.next()) >= 0; field->characters[field->length++] = c) {
      if (field->length < field->room) continue;
      text* larger = resized(heap, field, 2 * field->room);
      if (!larger) { gpuheap_free(heap, field); return; }
      field = larger;
    }
    field->next = nullptr;
    *place = field;
    place = &field->next;
  }
}
"""


def one_pass(module, heap, characters, starts, lines):
    n = starts.size - 1
    module.get_function("split")((-(-n // 256),), (256,), (heap, characters, starts, cupy.int32(n), lines))


# ---- without dynamic memory
TWO_PASSES = """
extern "C" __global__ void count(const char* all, const long long* starts, int n, long long* fields, long long* characters) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  reader in{all + starts[i], all + starts[i + 1] - 1};
  long long num_fields = 0, num_characters = 0;
  while (!in.last) {
    in.field();
    while (in.next() >= 0) ++num_characters;
    ++num_fields;
  }
  fields[i + 1] = num_fields;
  characters[i + 1] = num_characters;
}
extern "C" __global__ void fill(const char* all, const long long* starts, int n, const long long* fields, const long long* characters,
                                long long* field_ends, char* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  reader in{all + starts[i], all + starts[i + 1] - 1};
  long long field = fields[i], place = characters[i];
  while (!in.last) {
    in.field();
    for (int c; (c = in.next()) >= 0;) out[place++] = c;
    field_ends[field++] = place;
  }
}
"""


def two_passes(module, characters, starts):
    n = starts.size - 1
    fields, sums = cupy.zeros(n + 1, dtype=cupy.int64), cupy.zeros(n + 1, dtype=cupy.int64)
    grid, block = (-(-n // 256),), (256,)
    module.get_function("count")(grid, block, (characters, starts, cupy.int32(n), fields, sums))
    cupy.cumsum(fields, out=fields)
    cupy.cumsum(sums, out=sums)
    field_ends, out = cupy.empty(int(fields[-1]), dtype=cupy.int64), cupy.empty(int(sums[-1]), dtype=cupy.uint8)
    module.get_function("fill")(grid, block, (characters, starts, cupy.int32(n), fields, sums, field_ends, out))
    return fields, field_ends, out


# ---- the comparison
COMPARE = """
struct text { text* next; unsigned length, room; char characters[16]; };
extern "C" __global__ void compare(text** lines, int n, const long long* fields, const long long* field_ends, const char* out, unsigned long long* wrong) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long field = fields[i];
  for (text* each = lines[i]; each; each = each->next, ++field) {
    long long begin = field == 0 ? 0 : field_ends[field - 1];
    bool same = field < fields[i + 1] && field_ends[field] - begin == each->length;
    for (unsigned c = 0; same && c < each->length; ++c) same = out[begin + c] == each->characters[c];
    if (!same) { atomicAdd(wrong, 1ull); return; }
  }
  if (field != fields[i + 1]) atomicAdd(wrong, 1ull);
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


def csv(num_lines: int) -> tuple[bytes, np.ndarray]:
    """Random lines of 1 to 12 fields, most of them short, some quoted, a few long; and the position at which each line begins."""
    random = np.random.default_rng(1)
    plain = ["", "x", "42", "3.14159", "Tokyo", "2026-11-23", "some words in a row"]
    quoted = ['"a, b"', '"she said ""no"""', '""""', '""', '"' + "a long remark, with commas, " * 12 + '"']
    texts = [*plain * 4, *quoted]
    kinds = [",".join(texts[int(j)] for j in random.integers(0, len(texts), int(length))) + "\n" for length in random.integers(1, 13, 4096)]
    chosen = random.integers(0, len(kinds), num_lines)
    starts = np.concatenate([[0], np.cumsum(np.array([len(kind) for kind in kinds])[chosen])])
    return "".join(kinds[i] for i in chosen).encode(), starts.astype(np.int64)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, default=Path("."))
    given = parser.parse_args()
    characters, starts = csv(given.lines)
    characters, starts = cupy.asarray(np.frombuffer(characters, dtype=np.uint8)), cupy.asarray(starts)
    dynamic, plain = RawModule(READER + ONE_PASS), cupy.RawModule(code=READER + TWO_PASSES)
    lines = cupy.zeros(given.lines, dtype=cupy.uint64)
    with gpuheap.Heap("8 GiB") as heap:

        def split():
            heap.reset()
            one_pass(dynamic, heap, characters, starts, lines)

        one_ms = milliseconds(split)
        heap.check()
        two_ms = milliseconds(lambda: two_passes(plain, characters, starts))
        fields, field_ends, out = two_passes(plain, characters, starts)
        wrong = cupy.zeros(1, dtype=cupy.uint64)
        grid = (-(-given.lines // 256),)
        cupy.RawKernel(COMPARE, "compare")(grid, (256,), (lines, cupy.int32(given.lines), fields, field_ends, out, wrong))
        assert int(wrong[0]) == 0, f"{int(wrong[0])} of {given.lines} lines differ"
        live = heap.stats().live_bytes
    rows = [
        ("one pass, gpuheap", one_ms, len((ONE_PASS + inspect.getsource(one_pass)).splitlines())),
        ("two passes", two_ms, len((TWO_PASSES + inspect.getsource(two_passes)).splitlines())),
    ]
    print(f"{given.lines} lines, {characters.size} characters, {field_ends.size} fields, all equal; the heap has {live} bytes live")
    for name, ms, source in rows:
        print(f"{name:20} {ms:8.2f} ms {source:4d} lines")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
    left.hist(cupy.diff(field_ends, prepend=cupy.zeros(1, dtype=cupy.int64)).get(), bins=60)
    left.set(xlabel="characters of a field", ylabel="fields", yscale="log")
    right.barh([row[0] for row in rows], [row[1] for row in rows])
    right.set(xlabel="ms")
    figure.tight_layout()
    given.output.mkdir(parents=True, exist_ok=True)
    figure.savefig(given.output / "csv_fields_cupy.png", dpi=120)
    return 0


if __name__ == "__main__":
    sys.exit(main())
