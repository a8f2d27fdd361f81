"""The output of `gpuheap compare`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuheap.answers.compare import BETTER, CHANGED, NOISE, ONE_RUN, WORSE, Change, Comparison
from gpuheap.answers.views import point_id, point_words
from gpuheap.formats.results import Row
from gpuheap.units import format_value

STYLE = {BETTER: "green", WORSE: "red", CHANGED: "yellow", NOISE: "bright_black", ONE_RUN: "yellow"}
LISTED = 40  # the most lines of a list; --json prints all


def print_comparison(console: Console, comparison: Comparison, before: str, after: str) -> None:
    console.print(f"A: {before}", soft_wrap=True)
    console.print(f"B: {after}", soft_wrap=True)
    if comparison.summaries:
        console.print(_summary_table(comparison))
    beyond = [change for change in comparison.changes if change.verdict not in (NOISE,)]
    if beyond:
        console.print(_change_table(sorted(beyond, key=_rank)[:LISTED]))
        _more(console, len(beyond))
    for title, rows in (("only in A", comparison.missing), ("only in B", comparison.extra)):
        if rows:
            console.print(f"{title}: {len(rows)} point{'s' if len(rows) != 1 else ''}", style="yellow")
            for row in rows[:LISTED]:
                console.print(f"  {_point(row)}", soft_wrap=True)
            _more(console, len(rows))
    if comparison.statuses:
        console.print(f"with another status in B: {len(comparison.statuses)}", style="yellow")
        for one, other in comparison.statuses[:LISTED]:
            why = f": {other.reason}" if other.reason else ""
            console.print(f"  {_point(one)}: {one.status} in A, {other.status} in B{why}", soft_wrap=True)
        _more(console, len(comparison.statuses))
    console.print(verdict_text(comparison))


def verdict_text(comparison: Comparison) -> Text:
    counts = Counter(change.verdict for change in comparison.changes)
    text = Text(f"{len(comparison.changes)} measurements in both: ")
    known = [verdict for verdict in (WORSE, BETTER, CHANGED, ONE_RUN, NOISE) if counts[verdict]]
    for number, verdict in enumerate(known):
        text.append(", " if number else "").append(f"{counts[verdict]} {verdict}", STYLE[verdict])
    return text.append("; B is worse" if comparison.worse else "; nothing of B is worse", "bold")


def as_object(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON, for programs."""

    def place(row: Row) -> dict[str, Any]:
        return {
            "suite": row.suite,
            "case": row.case,
            "allocator": row.allocator,
            "backend": row.backend,
            "threads": row.threads,
            "bytes": row.bytes,
            "parameter": row.key[6],
        }

    def number(value: float | None) -> float | None:
        return value if value is not None and math.isfinite(value) else None

    return {
        "worse": comparison.worse,
        "changes": [
            {
                **place(change.before),
                "metric": change.before.metric,
                "unit": change.before.unit,
                "before": change.before.statistics and change.before.statistics.median,
                "after": change.after.statistics and change.after.statistics.median,
                "ratio": number(change.ratio),
                "low": number(change.low),
                "high": number(change.high),
                "verdict": change.verdict,
            }
            for change in comparison.changes
        ],
        "summary": [
            {
                "suite": each.suite,
                "case": each.case,
                "allocator": each.allocator,
                "metric": each.metric,
                "mean_ratio": number(each.mean_ratio),
                "counts": each.counts,
            }
            for each in comparison.summaries
        ],
        "missing": [place(row) for row in comparison.missing],
        "extra": [place(row) for row in comparison.extra],
        "statuses": [
            {**place(one), "before": one.status, "after": other.status, "reason": other.reason} for one, other in comparison.statuses
        ],
    }


def _summary_table(comparison: Comparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    several = len({summary.suite for summary in comparison.summaries}) > 1
    for column in ("case", "allocator", "metric"):
        table.add_column(column, overflow="fold")
    for column in ("B over A", WORSE, BETTER, NOISE, "points"):
        table.add_column(column, justify="right", overflow="fold")
    for each in comparison.summaries:
        cells = [f"{each.suite}/{each.case}" if several else each.case, each.allocator, each.metric]
        counts = [Text(str(each.counts.get(verdict, "")), STYLE[verdict]) for verdict in (WORSE, BETTER, NOISE)]
        mean = f"{each.mean_ratio:.3f}" if each.mean_ratio is not None else ""
        table.add_row(*cells, mean, *counts, str(sum(each.counts.values())))
    return table


def _change_table(changes: Sequence[Change]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("point beyond noise", "metric"):
        table.add_column(column, overflow="fold")
    for column in ("A", "B", "B over A", "with noise", ""):
        table.add_column(column, justify="right", no_wrap=True)
    for change in changes:
        row, after = change.before, change.after
        assert row.statistics is not None and after.statistics is not None
        values = [format_value(one.statistics.median, one.unit) for one in (row, after) if one.statistics is not None]
        noise = "unknown" if change.verdict == ONE_RUN else f"{_number(change.low)} to {_number(change.high)}"
        table.add_row(_point(row), row.metric, *values, _number(change.ratio), noise, Text(change.verdict, STYLE[change.verdict]))
    return table


def _rank(change: Change) -> tuple[int, float]:
    """The sort key of the list of changes: by verdict, worse ones first, and within a verdict the largest change first."""
    size = abs(math.log(change.ratio)) if 0 < change.ratio < math.inf else math.inf
    return ((WORSE, BETTER, CHANGED, ONE_RUN).index(change.verdict), -size)


def _more(console: Console, count: int) -> None:
    if count > LISTED:
        console.print(f"  and {count - LISTED} more: --json lists all", style="bright_black")


def _point(row: Row) -> str:
    return f"{row.suite}/{row.case} {row.allocator} {point_words(point_id(row))}".rstrip()


def _number(value: float) -> str:
    return "∞" if value == math.inf else f"{value:.3f}"
