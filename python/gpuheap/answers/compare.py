"""Compares two tables of results point by point, in view of the noise of their runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpuheap.errors import UserError
from gpuheap.formats.results import Key, Row, split_parameter
from gpuheap.metrics import METRICS

BETTER, WORSE, CHANGED, NOISE, ONE_RUN = "better", "worse", "changed", "within noise", "one run"
FEW_COLUMNS = 3  # _difference() tries sets of at most this many columns
_FEW_RUNS = 5  # with at least this many runs, the range of a median is that from the 5th to the 95th percentile


@dataclass(frozen=True)
class Change:
    """One measurement in both tables. `ratio` is the second median divided by the first; in view of noise it lies between `low` and `high`."""

    before: Row
    after: Row
    ratio: float
    low: float
    high: float
    verdict: str


@dataclass(frozen=True)
class Summary:
    """All measurements of one metric by one allocator in one case."""

    suite: str
    case: str
    allocator: str
    metric: str
    mean_ratio: float | None  # the geometric mean; None if a ratio is zero or infinite
    counts: dict[str, int]  # by verdict


@dataclass(frozen=True)
class Comparison:
    changes: tuple[Change, ...]
    summaries: tuple[Summary, ...]
    missing: tuple[Row, ...]  # one row for each point of the first table that the second lacks
    extra: tuple[Row, ...]  # one row for each point of the second table that the first lacks
    statuses: tuple[tuple[Row, Row], ...]  # a row of each table for each point whose status differs

    @property
    def worse(self) -> bool:
        return (
            any(change.verdict == WORSE for change in self.changes)
            or bool(self.missing)
            or any(before.ok and not after.ok for before, after in self.statuses)
        )


def compare_tables(before: Sequence[Row], after: Sequence[Row], tolerance: float = 0.0) -> Comparison:
    """Compares two tables. A change of at most `tolerance`, as a share of the first table's value, counts as noise.

    Raises UserError if the first table is empty, if the tables are of different backends, or if they have no point in common.
    """
    if not before:
        raise UserError("the first table holds no rows, so there is nothing to compare with: measure it with gpuheap bench")
    _same_backend(before, after)
    first, second = _points(before), _points(after)
    if after and not first.keys() & second.keys():
        raise UserError(f"the tables have no point in common: {_difference(list(first), list(second))}: measure both with the same command")
    changes: list[Change] = []
    statuses: list[tuple[Row, Row]] = []
    for key, rows in first.items():
        others = {row.metric: row for row in second.get(key, ())}
        if not others:
            continue
        other = second[key][0]
        if rows[0].status != other.status:
            statuses.append((rows[0], other))
            continue
        for row in rows:
            twin = others.get(row.metric)
            if row.ok and twin is not None and row.statistics is not None and twin.statistics is not None:
                changes.append(_change(row, twin, tolerance))
    return Comparison(
        tuple(changes),
        tuple(_summaries(changes)),
        tuple(rows[0] for key, rows in first.items() if key not in second),
        tuple(rows[0] for key, rows in second.items() if key not in first),
        tuple(statuses),
    )


def noise_of(row: Row) -> tuple[float, float] | None:
    """The range in which the row's median may lie, in the row's unit; None if its noise is unknown, as for a time of one run.

    With five runs or more, the range is that from the 5th to the 95th percentile. With two to four runs, it holds two standard deviations around
    the median, and every value seen. A count or a size of one run is taken as exact.
    """
    values = row.statistics
    assert values is not None
    if row.runs >= _FEW_RUNS:
        return values.p5, values.p95
    if row.runs > 1:
        return min(values.min, values.median - 2 * values.stddev), max(values.max, values.median + 2 * values.stddev)
    return (values.median, values.median) if row.unit in ("count", "bytes") else None


def _change(before: Row, after: Row, tolerance: float) -> Change:
    assert before.statistics is not None and after.statistics is not None
    ratio = _ratio(after.statistics.median, before.statistics.median)
    noise, other = noise_of(before), noise_of(after)
    if noise is None or other is None:
        return Change(before, after, ratio, ratio, ratio, NOISE if ratio == 1 else ONE_RUN)
    low, high = _ratio(max(other[0], 0), noise[1]), _ratio(other[1], max(noise[0], 0))
    if ratio == 1 or low <= 1 <= high or abs(ratio - 1) <= tolerance:
        return Change(before, after, ratio, low, high, NOISE)
    less_is_better = METRICS[before.metric].lower_is_better
    if less_is_better is None:
        return Change(before, after, ratio, low, high, CHANGED)
    return Change(before, after, ratio, low, high, BETTER if (ratio < 1) == less_is_better else WORSE)


def _summaries(changes: Iterable[Change]) -> list[Summary]:
    grouped: dict[tuple[str, str, str, str], list[Change]] = {}
    for change in changes:
        row = change.before
        grouped.setdefault((row.suite, row.case, row.allocator, row.metric), []).append(change)
    found: list[Summary] = []
    for (suite, case, allocator, metric), group in grouped.items():
        logs = [math.log(change.ratio) for change in group if 0 < change.ratio < math.inf]
        counts: dict[str, int] = {}
        for change in group:
            counts[change.verdict] = counts.get(change.verdict, 0) + 1
        mean = math.exp(math.fsum(logs) / len(logs)) if len(logs) == len(group) else None
        found.append(Summary(suite, case, allocator, metric, mean, counts))
    return found


def _points(rows: Sequence[Row]) -> dict[Key, list[Row]]:
    points: dict[Key, list[Row]] = {}
    for row in rows:
        points.setdefault(row.key, []).append(row)
    return points


def _ratio(after: float, before: float) -> float:
    if after == before:
        return 1.0
    return after / before if before > 0 else math.inf


def _same_backend(before: Sequence[Row], after: Sequence[Row]) -> None:
    backends = [sorted({row.backend for row in rows}) for rows in (before, after)]
    if all(backends) and backends[0] != backends[1]:
        one, other = (" and ".join(names) for names in backends)
        raise UserError(f"one table was measured on the backend {one}, the other on {other}: compare tables of one backend")


def _difference(before: Sequence[Key], after: Sequence[Key]) -> str:
    """Says why two tables have no common point: names the fewest columns without which the tables have one, and their values in these columns."""
    fields = [[_fields(key) for key in keys] for keys in (before, after)]
    columns = list(dict.fromkeys(column for points in fields for point in points for column in point))
    for count in range(1, len(columns)):
        for differing in combinations(columns, count):
            rest = [column for column in columns if column not in differing]
            one, other = ({tuple(point.get(column, "") for column in rest) for point in points} for points in fields)
            if one & other:
                return "; ".join(_in_column(column, *fields) for column in differing)
        if count == FEW_COLUMNS:
            break
    # The tables differ in more columns than were searched. The answer names the columns in which they have no value in common.
    apart = [column for column in columns if not {p.get(column, "") for p in fields[0]} & {p.get(column, "") for p in fields[1]}]
    return "; ".join(_in_column(column, *fields) for column in apart) or "their points combine the same values in other ways"


def _fields(key: Key) -> dict[str, str]:
    """A row's values by column. Each key of `parameter` counts as a column."""
    named = dict(zip(("suite", "case", "allocator", "backend", "threads", "bytes"), ("" if value is None else str(value) for value in key[:6]), strict=True))
    return named | split_parameter(key[6])


def _in_column(column: str, before: Sequence[dict[str, str]], after: Sequence[dict[str, str]]) -> str:
    one, other = (_some(list(dict.fromkeys(point.get(column, "") for point in points))) for points in (before, after))
    return f"{column} is {one} in the first and {other} in the second"


def _some(values: Sequence[str]) -> str:
    shown = ", ".join(value or "empty" for value in values[:3])
    return shown + (f" and {len(values) - 3} more" if len(values) > 3 else "")
