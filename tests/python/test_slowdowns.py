"""Slowdowns: rows that follow from a case's other rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuheap.errors import UserError
from gpuheap.formats.points import make_point
from gpuheap.formats.protocol import Measurement, PointResult
from gpuheap.formats.results import Row, Table, read_table, rows_of
from gpuheap.formats.slowdowns import Slowdown, read_slowdown, with_slowdowns

WHAT = Slowdown("build_ms", "atomic_malloc")


def rows(allocator: str, samples: list[float], **others: str | int) -> list[Row]:
    result = PointResult(
        "ok", "", (Measurement("build_ms", "ms", tuple(samples)), Measurement("references", "count", (7.0,) * len(samples)))
    )
    return rows_of("regeff", "kdtree", allocator, "simulator", make_point({"threads": 256, **others}), "", result)


def filled(tmp_path: Path) -> Table:
    table = Table(tmp_path / "regeff.csv")
    table.append(rows("sharded_spans", [3.0, 4.0, 8.0], scene="hall"))
    table.append(rows("atomic_malloc", [2.0, 1.0, 6.0], scene="hall"))
    table.append(rows("scatteralloc", [6.0, 6.0, 6.0], scene="hall") + rows("scatteralloc", [5.0, 5.0, 5.0], scene="hall", page=8192))
    table.append(rows("sharded_spans", [9.0], scene="soup"))
    table.replace(with_slowdowns(table.rows, "kdtree", "simulator", WHAT, ["page"]))
    return table


def made(table: Table) -> dict[tuple[str, str], float]:
    return {(row.allocator, row.parameter): row.statistics.median for row in table.rows if row.metric == "slowdown" and row.statistics}


def test_each_run_is_divided_by_the_references_median_at_the_same_point(tmp_path: Path) -> None:
    table = filled(tmp_path)
    assert made(table) == {
        ("sharded_spans", "scene=hall"): 2.0,
        ("atomic_malloc", "scene=hall"): 1.0,
        ("scatteralloc", "scene=hall"): 3.0,
        ("scatteralloc", "page=8192;scene=hall"): 2.5,
    }
    row = next(row for row in read_table(table.path) if row.metric == "slowdown")
    assert row.statistics is not None
    assert (row.statistics.min, row.statistics.max, row.runs, row.unit) == (1.5, 4.0, 3, "ratio")


def test_they_follow_when_rows_change_and_stay_when_they_do_not(tmp_path: Path) -> None:
    table = filled(tmp_path)
    again = Table(table.path)
    assert with_slowdowns(again.rows, "kdtree", "simulator", WHAT, ["page"]) is again.rows
    again.drop(lambda row: row.allocator == "atomic_malloc" and row.metric != "slowdown")
    again.replace(with_slowdowns(again.rows, "kdtree", "simulator", WHAT, ["page"]))
    assert made(again) == {} and len(again.rows) == len(table.rows) - 6


def test_what_a_suite_says_is_checked() -> None:
    assert read_slowdown({"of": "build_ms", "over": "atomic_malloc"}, Path("s.toml"), "kdtree") == WHAT
    assert read_slowdown(None, Path("s.toml"), "kdtree") is None
    with pytest.raises(UserError, match="build_s"):
        read_slowdown({"of": "build_s", "over": "atomic_malloc"}, Path("s.toml"), "kdtree")
