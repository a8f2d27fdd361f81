"""Selects the positive elements of each row of a matrix, in Triton: in one pass with dynamic memory, and in two passes without it.

In the one pass each Triton program counts the positive elements of its row in registers, allocates memory for them, and writes them. The baseline
writes the counts, scans them, and reads the matrix a second time. The program compares both results, and draws the lengths and the times.

    python ragged_result_triton.py [--rows 65536] [--output FOLDER]
"""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path

import matplotlib
import torch
import triton
import triton.language as tl

import gpuheap
import gpuheap.triton as gt

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

RUNS = 5


# ---- one pass
@triton.jit
def select(heap, matrix, rows, lengths, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    value = tl.load(matrix + row.to(tl.int64) * B + i)
    chosen = value > 0
    place = tl.cumsum(chosen.to(tl.int32), 0) - 1
    n = tl.sum(chosen.to(tl.int32), 0)
    p = gt.malloc(heap, n * 4)
    tl.store(p.to(tl.pointer_type(tl.float32)) + place, value, mask=chosen & (p != 0))
    tl.store(rows + row, p)
    tl.store(lengths + row, n)


def one_pass(heap, matrix, rows, lengths):
    select[(matrix.shape[0],)](heap.handle, matrix, rows, lengths, B=matrix.shape[1], extern_libs=gt.extern_libs())


# ---- two passes
@triton.jit
def count(matrix, lengths, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    value = tl.load(matrix + row.to(tl.int64) * B + i)
    tl.store(lengths + row, tl.sum((value > 0).to(tl.int32), 0))


@triton.jit
def fill(matrix, offsets, values, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    value = tl.load(matrix + row.to(tl.int64) * B + i)
    chosen = value > 0
    place = tl.cumsum(chosen.to(tl.int32), 0) - 1
    tl.store(values + tl.load(offsets + row) + place, value, mask=chosen)


def two_passes(matrix, lengths):
    count[(matrix.shape[0],)](matrix, lengths, B=matrix.shape[1])
    offsets = torch.zeros(matrix.shape[0] + 1, dtype=torch.int64, device="cuda")
    torch.cumsum(lengths, 0, out=offsets[1:])
    values = torch.empty(int(offsets[-1]), device="cuda")
    fill[(matrix.shape[0],)](matrix, offsets, values, B=matrix.shape[1])
    return offsets, values


# ---- the comparison


def milliseconds(call) -> float:
    """The median time of RUNS calls, after one call that compiles."""
    times = []
    for _ in range(RUNS + 1):
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before.record()
        call()
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after))
    return sorted(times[1:])[RUNS // 2]


def lines_of(*functions) -> int:
    return sum(len(inspect.getsource(getattr(each, "fn", each)).splitlines()) for each in functions)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=65536)
    parser.add_argument("--columns", type=int, default=1024, help="a power of two")
    parser.add_argument("--output", type=Path, default=Path("."))
    given = parser.parse_args()
    torch.manual_seed(1)
    # The share of positive elements rises from row to row.
    matrix = torch.randn(given.rows, given.columns, device="cuda") + torch.linspace(-2, 1, given.rows, device="cuda")[:, None]
    rows = torch.zeros(given.rows, dtype=torch.int64, device="cuda")
    lengths, counted = torch.zeros_like(rows, dtype=torch.int32), torch.zeros_like(rows, dtype=torch.int32)
    with gpuheap.Heap("2 GiB") as heap:

        def dynamic():
            heap.reset()
            one_pass(heap, matrix, rows, lengths)

        one_ms = milliseconds(dynamic)
        heap.check()
        two_ms = milliseconds(lambda: two_passes(matrix, counted))
        offsets, values = two_passes(matrix, counted)
        assert torch.equal(lengths, counted), "the lengths of the rows differ"
        for row in range(0, given.rows, max(1, given.rows // 500)):
            if lengths[row] != 0:
                found = heap.view(int(rows[row]), int(lengths[row]), "float32").torch()
                assert torch.equal(found, values[offsets[row] : offsets[row + 1]]), f"row {row} differs"
    table = [("one pass, gpuheap", one_ms, lines_of(select, one_pass)), ("two passes", two_ms, lines_of(count, fill, two_passes))]
    print(f"{given.rows} rows, {values.numel()} values, rows equal")
    for name, ms, lines in table:
        print(f"{name:20} {ms:8.3f} ms {lines:4d} lines")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
    left.plot(counted.cpu().numpy(), linewidth=0.3)
    left.set(xlabel="row", ylabel="values in it")
    right.barh([row[0] for row in table], [row[1] for row in table])
    right.set(xlabel="ms")
    figure.tight_layout()
    given.output.mkdir(parents=True, exist_ok=True)
    figure.savefig(given.output / "ragged_result_triton.png", dpi=120)
    return 0


if __name__ == "__main__":
    sys.exit(main())
