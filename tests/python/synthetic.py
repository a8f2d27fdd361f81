"""Tables that nobody measured, as large as those of a whole evaluation, for the tests of what reads them."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

from gpuheap.catalogue import ALLOCATORS, BASELINES
from gpuheap.formats.results import COLUMNS, Row, format_row, summarise
from gpuheap.metrics import METRICS

SIZES = sorted({*range(16, 257, 16), *(2**k + d for k in range(9, 14) for d in (-4, 0, 4))})
THREADS = [2**k for k in range(21)]
CASES: dict[str, tuple[list[int], list[int], list[str]]] = {  # threads, bytes, metrics
    "alloc_single": ([10_000, 100_000], SIZES, ["malloc_us", "free_us"]),
    "alloc_mixed": ([10_000, 100_000], SIZES, ["malloc_us", "free_us"]),
    "alloc_warp": ([10_000, 100_000], SIZES, ["malloc_us", "free_us"]),
    "alloc_scaling": (THREADS, [16, 64, 512, 8192], ["malloc_us", "free_us"]),
    "fragmentation": ([100_000], SIZES, ["range_ratio"]),
    "utilisation": ([100_000], SIZES, ["utilisation"]),
    "memory_access": ([131_072], SIZES, ["slowdown", "kernel_us"]),
    "work_generation": (THREADS, [64, 4096], ["total_ms"]),
}


def write_evaluation(root: Path) -> int:
    """A suite and a table of it for a GPU: every allocator at every point. Returns the number of rows."""
    suites, results = root / "benchmarks" / "suites", root / "results" / "nvidia-h200"
    results.mkdir(parents=True)
    source = random.Random(1)
    text = '[suite]\nname = "whole"\n'
    lines: list[str] = []
    for case, (threads, sizes, metrics) in CASES.items():
        text += f'\n[[case]]\nname = "{case}"\nheap_bytes = "8GiB"\nmetrics = {metrics}\n'
        text += f"axes = {{ threads = {threads}, bytes = {sizes} }}\n"
        every = itertools.product(enumerate([*ALLOCATORS, *BASELINES], start=1), threads, sizes, metrics)
        for (number, name), count, size, metric in every:
            middle = number * (1 + size / 1000) * (1 + count / 1e5)
            values = [middle * (1 + source.random() / 10) for _ in range(5)]
            row = Row(
                "whole",
                case,
                name,
                "cuda",
                count,
                size,
                "",
                metric,
                METRICS[metric].unit,
                summarise(values),
                5,
                "ok",
            )
            lines.append(format_row(row))
    (suites / "whole.toml").write_text(text)
    (results / "whole.csv").write_text(",".join(COLUMNS) + "\n" + "".join(lines))
    return len(lines)
