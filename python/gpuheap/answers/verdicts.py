"""Judges whether measurements keep a suite's bounds. The closing table of a run and the report show the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuheap.answers.views import PointId, point_id, point_words
from gpuheap.formats.bounds import Bound
from gpuheap.formats.points import Point
from gpuheap.formats.results import Row, split_parameter
from gpuheap.formats.suites import Suite
from gpuheap.metrics import METRICS
from gpuheap.units import format_value

AIM, MET, FAILED, PART, NOTHING = "aim met", "met", "FAILED", "in part", "not measured"


@dataclass(frozen=True)
class Failing:
    """A point that breaks a bound."""

    point: PointId
    value: float | None  # None: the point has no value, and its status says why
    status: str


@dataclass(frozen=True)
class Verdict:
    """The verdict on one allocator's measurements for one bound."""

    suite: str
    case: str
    allocator: str
    bound: Bound
    verdict: str
    worst: Row | None  # the row of the worst value
    failing: tuple[Failing, ...]
    measured: int  # points with a value
    wanted: int  # points of the suite to which the bound applies
    varying: frozenset[str]  # keys whose values differ among these points

    @property
    def worst_words(self) -> str:
        value = self.bound.value_of(self.worst) if self.worst is not None else None
        if value is None:
            return next((failing.status for failing in self.failing), "")
        unit = METRICS[self.bound.metric].unit
        words = format_value(value, unit)
        # A value just beyond the limit would otherwise be rounded to the limit itself.
        must = self.bound.must
        if self.verdict != FAILED or must is None or words != format_value(must, unit):
            return words
        return f"{value:.6g}" + ("" if unit in ("ratio", "count") else f" {unit.replace('us', 'µs')}")

    @property
    def where_words(self) -> str:
        """The point of the worst value, without the keys that are the same at all points."""
        if self.worst is None:
            return ""
        fixed = set(_fields(self.worst)) - self.varying
        return point_words(point_id(self.worst), hide=fixed)

    @property
    def verdict_words(self) -> str:
        if self.verdict == FAILED and self.wanted > 1:
            return f"{FAILED} at {len(self.failing)} of {self.wanted} points"
        return f"{self.verdict}: {self.measured} of {self.wanted} points" if self.verdict == PART else self.verdict

    @property
    def failing_words(self) -> list[str]:
        """Each point that fails, with its value or its status."""
        unit = METRICS[self.bound.metric].unit
        return [
            f"{point_words(failing.point)}: {failing.status if failing.value is None else format_value(failing.value, unit)}"
            for failing in self.failing
        ]


def verdicts(rows: Iterable[Row], suites: Mapping[str, Suite]) -> list[Verdict]:
    """The verdicts for each case that has rows, and for each allocator to which the suite's bounds apply, in the order of the suites."""
    by_sweep: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        by_sweep.setdefault((row.suite, row.case, row.backend, row.allocator), []).append(row)
    found: list[Verdict] = []
    for suite in suites.values():
        for name, backends in suite.cases.items():
            for backend, case in backends.items():
                for allocator in suite.bounds_of:
                    measured = by_sweep.get((suite.name, name, backend, allocator))
                    if measured:
                        found += judge(measured, case.bounds, case.points(), suite.name, name, allocator)
    return found


def summary_words(found: Iterable[Verdict]) -> str:
    """For example `40 of 55 bounds met, 12 of these also reach the aim; 3 FAILED; 12 not measured in full`."""
    all_of_them = list(found)
    count = {verdict: sum(v.verdict == verdict for v in all_of_them) for verdict in (AIM, MET, FAILED, PART, NOTHING)}
    words = [f"{count[AIM] + count[MET]} of {len(all_of_them)} bounds met, {count[AIM]} of these also reach the aim"]
    words += [f"{count[FAILED]} {FAILED}"] if count[FAILED] else []
    words += [f"{count[PART] + count[NOTHING]} not measured in full"] if count[PART] + count[NOTHING] else []
    return "; ".join(words)


def judge(rows: Iterable[Row], bounds: Iterable[Bound], points: Iterable[Point], suite: str, case: str, allocator: str) -> list[Verdict]:
    """Judges the rows of one case and allocator. `points` are the points that the suite asks for."""
    rows, points = tuple(rows), tuple(points)
    return [_judge(rows, bound, [p for p in points if bound.covers(p.fields)], suite, case, allocator) for bound in bounds]


def _judge(rows: tuple[Row, ...], bound: Bound, wanted: list[Point], suite: str, case: str, allocator: str) -> Verdict:
    covered = [row for row in rows if row.metric in (bound.metric, "") and bound.covers(_fields(row))]
    values = [(value, row) for row in covered if (value := bound.value_of(row)) is not None]
    failing = [Failing(point_id(row), value, row.status) for value, row in values if not bound.keeps(value, bound.must)]
    failing += [Failing(point_id(row), None, row.status) for row in covered if row.status not in ("ok", "unsupported")]
    worst = (max if bound.at_most else min)(values, key=lambda pair: pair[0])[1] if values else None
    if failing:
        verdict = FAILED
    elif not values:
        verdict = NOTHING
    elif len(values) < len(wanted):
        verdict = PART
    else:
        verdict = AIM if bound.aim is not None and all(bound.keeps(value, bound.aim) for value, _ in values) else MET
    fields = [point.fields for point in wanted]
    varying = frozenset(key for key in {key for each in fields for key in each} if len({each.get(key) for each in fields}) > 1)
    return Verdict(suite, case, allocator, bound, verdict, worst, tuple(failing), len(values), max(len(wanted), len(values)), varying)


def _fields(row: Row) -> dict[str, str]:
    """Every value of a row's point by its key, including the values that the command line set for all points."""
    pairs = [("threads", row.threads), ("bytes", row.bytes)]
    return {key: str(value) for key, value in pairs if value is not None} | split_parameter(row.parameter)
