"""Finds the neighbours of points within a radius, as a list for each point, in Numba: in one pass with dynamic memory, and in two passes without it.

The one-pass kernel gathers each point's neighbours in an array that it allocates, and makes twice as large whenever it is full. The baseline counts the
neighbours, scans the counts, and searches a second time to fill the lists. The program compares both results, and draws the lengths and the times.

    python ragged_neighbours_numba.py [--points 200000] [--output FOLDER]
"""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path

import cupy
import matplotlib
import numpy as np
from numba import cuda, int32

import gpuheap
import gpuheap.numba as gn

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

RUNS = 5
# The points are sorted by cell. A cell is as wide as the radius. starts[c] is the index of the first point of cell c.


# ---- one pass
@cuda.jit
def gather(heap, x, y, starts, cells, radius, lists, lengths):
    i = cuda.grid(1)
    if i < x.size:
        found = gn.array(heap, 8, int32)
        room, n = found.size, 0
        cx, cy = int(x[i] * cells), int(y[i] * cells)
        for row in range(max(cy - 1, 0), min(cy + 2, cells)):
            for j in range(starts[row * cells + max(cx - 1, 0)], starts[row * cells + min(cx + 1, cells - 1) + 1]):
                if (x[j] - x[i]) ** 2 + (y[j] - y[i]) ** 2 < radius * radius and j != i:
                    if n == room:
                        grown = gn.realloc(heap, gn.address_of(found), 8 * room)
                        if grown == 0:
                            break
                        found, room = gn.view(grown, 2 * room, int32), 2 * room
                    found[n] = j
                    n += 1
        lists[i] = gn.address_of(found)
        lengths[i] = n


def one_pass(heap, points, lists, lengths):
    n = points[0].size
    gather[(n + 127) // 128, 128](heap.handle, *points, lists, lengths)


# ---- two passes
@cuda.jit
def count(x, y, starts, cells, radius, lengths):
    i = cuda.grid(1)
    if i < x.size:
        n = 0
        cx, cy = int(x[i] * cells), int(y[i] * cells)
        for row in range(max(cy - 1, 0), min(cy + 2, cells)):
            for j in range(starts[row * cells + max(cx - 1, 0)], starts[row * cells + min(cx + 1, cells - 1) + 1]):
                if (x[j] - x[i]) ** 2 + (y[j] - y[i]) ** 2 < radius * radius and j != i:
                    n += 1
        lengths[i] = n


@cuda.jit
def fill(x, y, starts, cells, radius, offsets, neighbours):
    i = cuda.grid(1)
    if i < x.size:
        n = offsets[i]
        cx, cy = int(x[i] * cells), int(y[i] * cells)
        for row in range(max(cy - 1, 0), min(cy + 2, cells)):
            for j in range(starts[row * cells + max(cx - 1, 0)], starts[row * cells + min(cx + 1, cells - 1) + 1]):
                if (x[j] - x[i]) ** 2 + (y[j] - y[i]) ** 2 < radius * radius and j != i:
                    neighbours[n] = j
                    n += 1


def two_passes(points, lengths):
    n = points[0].size
    count[(n + 127) // 128, 128](*points, lengths)
    offsets = cupy.zeros(n + 1, dtype=cupy.int64)
    cupy.cumsum(lengths, out=offsets[1:])
    neighbours = cupy.empty(int(offsets[-1]), dtype=cupy.int32)
    fill[(n + 127) // 128, 128](*points, offsets, neighbours)
    return offsets, neighbours


# ---- the comparison


def points_in_cells(n: int, radius: float):
    """Random points, half of them in clusters, sorted by cell."""
    random = np.random.default_rng(1)
    centres = random.random((64, 2))
    spread = np.concatenate([random.random((n // 2, 2)), centres[random.integers(0, 64, n - n // 2)] + random.normal(0, 0.02, (n - n // 2, 2))])
    spread = np.clip(spread, 0, np.nextafter(1, 0)).astype(np.float32)
    cells = int(1 / radius)
    cell = np.minimum((spread[:, 1] * cells).astype(int), cells - 1) * cells + np.minimum((spread[:, 0] * cells).astype(int), cells - 1)
    order = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[order], np.arange(cells * cells + 1)).astype(np.int32)
    x, y = spread[order].T
    return cupy.asarray(x), cupy.asarray(y), cupy.asarray(starts), cells, np.float32(radius)


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


def lines_of(*functions) -> int:
    return sum(len(inspect.getsource(getattr(each, "py_func", each)).splitlines()) for each in functions)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--radius", type=float, default=0.004)
    parser.add_argument("--output", type=Path, default=Path("."))
    given = parser.parse_args()
    points = points_in_cells(given.points, given.radius)
    lists, lengths = cupy.zeros(given.points, dtype=cupy.int64), cupy.zeros(given.points, dtype=cupy.int32)
    counted = cupy.zeros(given.points, dtype=cupy.int32)
    with gpuheap.Heap("4 GiB") as heap:

        def dynamic():
            heap.reset()
            one_pass(heap, points, lists, lengths)

        one_ms = milliseconds(dynamic)
        heap.check()
        two_ms = milliseconds(lambda: two_passes(points, counted))
        offsets, neighbours = two_passes(points, counted)
        assert bool((lengths == counted).all()), "the lengths of the lists differ"
        held, bounds = neighbours.get(), offsets.get()
        for i in range(0, given.points, max(1, given.points // 1000)):
            found = heap.view(int(lists[i]), int(lengths[i]), "int32").numpy() if lengths[i] else np.empty(0)
            assert np.array_equal(found, held[bounds[i] : bounds[i + 1]]), f"the list of point {i} differs"
        live = heap.stats().live_bytes
    rows = [("one pass, gpuheap", one_ms, lines_of(gather, one_pass)), ("two passes", two_ms, lines_of(count, fill, two_passes))]
    print(f"{given.points} points, {held.size} neighbours, lists equal; the heap has {live} bytes live")
    for name, ms, lines in rows:
        print(f"{name:20} {ms:8.2f} ms {lines:4d} lines")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
    left.hist(counted.get(), bins=60)
    left.set(xlabel="neighbours of a point", ylabel="points", yscale="log")
    right.barh([row[0] for row in rows], [row[1] for row in rows])
    right.set(xlabel="ms")
    figure.tight_layout()
    given.output.mkdir(parents=True, exist_ok=True)
    figure.savefig(given.output / "ragged_neighbours_numba.png", dpi=120)
    return 0


if __name__ == "__main__":
    sys.exit(main())
