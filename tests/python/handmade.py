"""Small tables of results and a small file of claims, written by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpuheap.formats.results import COLUMNS, Row, Statistics
from gpuheap.metrics import METRICS

HEADER = ",".join([*COLUMNS, "values"])

# A file of claims: its head, the beginning of a claim, a relation.
HEAD = """[paper]
name = "small"
title = "A small paper"
cite = "Nobody 2020"
machine = "a machine"
suite = "survey"

[groups]
pages = ["ouroboros_p_s", "ouroboros_p_va"]
all = ["cuda_malloc", "halloc", "scatteralloc", "pages"]

"""
CLAIM = """[[claim]]
name = "one"
says = "what the paper says"
at = "section 1"
case = "alloc_single"
metric = "malloc_us"
"""
BETTER = 'relation = "better"\nleft = "halloc"\nright = "cuda_malloc"\n'


def row(
    allocator: str,
    value: float | None = None,
    *,
    suite: str = "survey",
    case: str = "alloc_single",
    metric: str = "malloc_us",
    threads: int | None = 1000,
    size: int | None = 16,
    parameter: str = "",
    status: str = "ok",
    runs: int = 10,
    spread: float = 0.0,
    mean: float | None = None,
    backend: str = "cuda",
) -> Row:
    """A row whose every number is `value`, but for what `spread` (from the 5th to the 95th percentile, as a share) and `mean` say."""
    statistics = None
    if value is not None:
        value = float(value)
        low, high = value * (1 - spread / 2), value * (1 + spread / 2)
        middle = value if mean is None else float(mean)
        least, most = min(low, middle), max(high, middle)
        statistics = Statistics(middle, value, value * spread / 4, low, high, least, most)
    has = value is not None
    return Row(
        suite, case, allocator, backend, threads, size, parameter, metric if has else "", METRICS[metric].unit if has else "", statistics,
        runs if has else 0, status,
    )  # fmt: skip


def failed(allocator: str, status: str = "timeout", **point: object) -> Row:
    reason = "no result within 60 s" if status == "timeout" else "why"
    given = str(point.pop("parameter", ""))
    return row(allocator, None, status=status, parameter=";".join(part for part in (given, f"reason={reason}") if part), **point)  # type: ignore[arg-type]


def save(path: Path, rows: Iterable[Row]) -> Path:
    from gpuheap.formats.results import format_row

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER + "\n" + "".join(format_row(one) for one in rows))
    return path
