"""Computes rows that say how many times slower an allocator is than a reference, from the rows of both at the same points."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuheap import toml_checks
from gpuheap.errors import unknown_name
from gpuheap.formats.results import Key, Row, Statistics
from gpuheap.metrics import METRICS


@dataclass(frozen=True)
class Slowdown:
    """The slowdowns of a case: each run's value of a metric, divided by the reference's median at the same point."""

    metric: str
    reference: str  # the name of an allocator


def read_slowdown(said: Any, path: Path, where: str) -> Slowdown | None:
    """Reads an entry such as `{ of = "build_ms", over = "atomic_malloc" }`. Raises UserError for a mistake."""
    if said is None:
        return None
    entry = toml_checks.table(said, path, f"{where}: slowdown", ("of", "over"))
    of, over = (toml_checks.text(entry.get(key), path, f"{where}: slowdown.{key}") for key in ("of", "over"))
    if of not in METRICS:
        raise unknown_name(f"metric of {where}: slowdown.of", of, METRICS)
    return Slowdown(of, over)


def with_slowdowns(rows: list[Row], case: str, backend: str, what: Slowdown, variants: Sequence[str]) -> list[Row]:
    """Replaces the slowdown rows of a case by new ones, computed from its other rows. Returns the same list if nothing changes.

    `variants` are the axes that the reference does not have.
    """
    mine = [row for row in rows if row.case == case and row.backend == backend]
    measured = [row for row in mine if row.metric == what.metric and row.statistics is not None and row.ok]
    reference = {
        _point(row, variants): row for row in measured if row.allocator == what.reference and not set(variants) & set(row.parameters)
    }
    made = [_over(row, reference[point]) for row in measured if (point := _point(row, variants)) in reference]
    there = [row for row in mine if row.metric == "slowdown"]
    if sorted(made, key=_order) == sorted(there, key=_order):
        return rows
    gone = set(map(id, there))
    return [row for row in rows if id(row) not in gone] + made


def _point(row: Row, variants: Sequence[str]) -> tuple[int | None, int | None, str]:
    return (row.threads, row.bytes, ";".join(f"{key}={value}" for key, value in row.parameters.items() if key not in variants))


def _over(row: Row, reference: Row) -> Row:
    assert row.statistics is not None and reference.statistics is not None
    unit = _as_written(reference.statistics.median)
    scaled = Statistics(*(_as_written(_as_written(value) / unit) for value in dataclasses.astuple(row.statistics)))
    values = tuple(_as_written(_as_written(value) / unit) for value in row.values)
    return dataclasses.replace(row, metric="slowdown", unit=METRICS["slowdown"].unit, statistics=scaled, values=values)


def _as_written(value: float) -> float:
    """The value rounded as in a table, so that rows just measured and rows read back give the same slowdown."""
    return float(f"{value:.6g}")


def _order(row: Row) -> Key:
    key = row.key
    return (*key[:4], key[4] or 0, key[5] or 0, key[6])
