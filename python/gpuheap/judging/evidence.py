"""Finds the measurements from which claims are judged, by suite, case and metric."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gpuheap.errors import UserError
from gpuheap.formats.protocol import FAILING
from gpuheap.formats.results import EXPLAINING, Row, Statistics
from gpuheap.judging.language import SAME, Side
from gpuheap.judging.modes import modes
from gpuheap.judging.timeouts import LEAST_LIMIT_S, Bounds, bounds_of, limit_of
from gpuheap.metrics import METRICS
from gpuheap.running.runner import FAILURES_THAT_END_A_GRID
from gpuheap.units import parse_bytes

LEAST_RUNS = 5  # the fewest runs of a time that give an interval


class Fields(dict[str, str]):
    """The values of a point, as text. They never change, so what is asked for again and again, at each draw of the runs, is kept."""

    def __init__(self, pairs: Mapping[str, str]) -> None:
        super().__init__(pairs)
        self.names = tuple(self)
        self._values: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._along: dict[str, tuple[float | None, tuple[tuple[str, str], ...]]] = {}

    def values_of(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The values of these names; "" for each that the point does not have."""
        if names not in self._values:
            self._values[names] = tuple(self.get(name, "") for name in names)
        return self._values[names]

    def along(self, axis: str) -> tuple[float | None, tuple[tuple[str, str], ...]]:
        """The position on an axis, None if there is none, and the other values in order."""
        if axis not in self._along:
            rest = tuple(sorted((name, value) for name, value in self.items() if name != axis))
            self._along[axis] = (axis_number(self.get(axis, "")), rest)
        return self._along[axis]


@dataclass(frozen=True)
class Runs:
    """The runs behind a value."""

    source: str  # identifies the measurement
    statistic: str
    values: tuple[float, ...]
    exact: bool  # whether the value is a count, which has no noise
    estimated: bool = False  # whether the table keeps only percentiles, from which the runs are estimated

    @property
    def enough(self) -> bool:
        """Whether the runs show how noisy the value is."""
        return len(self.values) >= (1 if self.exact else LEAST_RUNS)


class Reading(NamedTuple):
    """The result of one allocator at one point: a value, or the reason for which there is none."""

    allocator: str
    fields: Fields
    value: float = math.nan
    # The reason: timeout, crash, wrong; failed_requests, because the time of a run with failed requests does not count; or untried, because the sweep
    # ended after failures.
    trouble: str = ""
    runs: Runs | None = None
    between: Bounds | None = None  # for a time-out: the values that its limit leaves open

    @property
    def is_open(self) -> bool:
        """Whether the point could have had a value with more time."""
        return self.trouble in ("timeout", "untried")

    @property
    def ok(self) -> bool:
        return not self.trouble


@dataclass(frozen=True)
class Found:
    """The readings of a side, and the allocators that have none."""

    readings: tuple[Reading, ...]
    missing: tuple[str, ...] = ()  # allocators of the side that have no row in its case
    unsupported: Mapping[str, str] = field(default_factory=dict)  # allocators that do not support the case, and why


class Evidence:
    """All rows of one device. Each reason why a claim fails is stated for one device, so no reason is shown if the device's name is not known."""

    def __init__(self, rows: Iterable[Row], device: str = "") -> None:
        self.device = device
        self._found: dict[tuple[Side, tuple[str, ...]], Found] = {}
        self._untried: dict[tuple[str, str], list[tuple[Reading, str]]] = {}
        self._points: dict[tuple[str, str], dict[tuple[object, ...], list[Row]]] = {}
        for row in rows:
            self._points.setdefault((row.suite, row.case), {}).setdefault(row.key, []).append(row)

    def suites(self) -> frozenset[str]:
        return frozenset(suite for suite, _ in self._points)

    def has(self, suite: str, case: str) -> bool:
        return (suite, case) in self._points

    def find(self, side: Side, of: Sequence[str] | None = None) -> Found:
        """The readings of a side. `of` replaces the side's allocators."""
        wanted = side.of if of is None else tuple(of)
        if (side, wanted) not in self._found:
            self._found[side, wanted] = self._find(side, wanted)
        return self._found[side, wanted]

    def _find(self, side: Side, wanted: tuple[str, ...]) -> Found:
        assert SAME not in wanted
        readings: list[Reading] = []
        unsupported: dict[str, str] = {}
        seen: set[str] = set()
        for rows in self._points.get((side.suite, side.case), {}).values():
            if rows[0].allocator not in wanted:
                continue
            fields = fields_of(rows[0])
            if not meets(side, fields):
                continue
            reading = _reading(rows, fields, side)
            if reading is not None:
                seen.add(reading.allocator)
                readings.append(reading)
            elif rows[0].status == "unsupported":
                unsupported.setdefault(rows[0].allocator, rows[0].reason)
        for reading, _ in self._untried_of(side.suite, side.case):
            if reading.allocator in wanted and meets(side, reading.fields):
                seen.add(reading.allocator)
                readings.append(reading)
        for name in seen:
            unsupported.pop(name, None)
        return Found(tuple(readings), tuple(name for name in wanted if name not in seen and name not in unsupported), unsupported)

    def endings(self, side: Side) -> list[tuple[Reading, str]]:
        """The status of each point of a side, unsupported points included. Values are ignored.

        A time-out under a limit below LEAST_LIMIT_S is left out: it says nothing about whether the allocator finishes.
        """
        found: list[tuple[Reading, str]] = []
        for rows in self._points.get((side.suite, side.case), {}).values():
            fields = fields_of(rows[0])
            if rows[0].allocator in side.of and meets(side, fields) and not _had_too_little_time(rows[0]):
                status = rows[0].status
                found.append((Reading(rows[0].allocator, fields), "failed_requests" if status == "ok" and _requests_failed(rows) else status))
        untried = self._untried_of(side.suite, side.case)
        return found + [pair for pair in untried if pair[1] and pair[0].allocator in side.of and meets(side, pair[0].fields)]

    def _untried_of(self, suite: str, case: str) -> list[tuple[Reading, str]]:
        """The points at which an allocator was not tried, with the failure that ended its sweep: the runner ends a sweep after failures in a row.
        The failure is "" if it was a time-out under a limit below LEAST_LIMIT_S.

        Only points that at least two other allocators have count. A point that a single allocator has is a setting of its own.
        """
        if (suite, case) not in self._untried:
            places: dict[tuple[object, ...], list[str]] = {}
            statuses: dict[str, list[str]] = {}
            example: dict[tuple[object, ...], Row] = {}
            hasty: set[str] = set()
            for rows in self._points.get((suite, case), {}).values():
                place = (rows[0].threads, rows[0].bytes, rows[0].key[6])
                places.setdefault(place, []).append(rows[0].allocator)
                example.setdefault(place, rows[0])
                statuses.setdefault(rows[0].allocator, []).append(rows[0].status)
                hasty |= {rows[0].allocator} if _had_too_little_time(rows[0]) else set()
            ended = {name: ending for name, found in statuses.items() if (ending := _ending(found))}
            self._untried[suite, case] = [
                (Reading(name, fields_of(example[place]), trouble="untried"), "" if ending == "timeout" and name in hasty else ending)
                for place, names in places.items()
                if len(names) > 1
                for name, ending in ended.items()
                if name not in names
            ]
        return self._untried[suite, case]


def _had_too_little_time(row: Row) -> bool:
    """Whether the point ran out of time under a limit that says nothing about whether the allocator finishes."""
    return row.status == "timeout" and 0 < limit_of(row.reason) < LEAST_LIMIT_S


def meets(side: Side, fields: Mapping[str, str]) -> bool:
    """Whether a point meets all of a side's conditions. A point without a page meets `page = ""`."""
    return all(condition.holds(fields.get(condition.key, "")) for condition in side.where)


def fields_of(row: Row) -> Fields:
    """Every value of a row's point as text."""
    pairs = [("threads", row.threads), ("bytes", row.bytes)]
    kept = {key: value for key, value in row.parameters.items() if key not in EXPLAINING}
    return Fields({key: str(value) for key, value in pairs if value is not None} | kept)


def axis_number(text: str) -> float | None:
    """A value of an axis, as `4096` or `2GiB`, as a number; None if it is not one."""
    try:
        return float(text)
    except ValueError:
        try:
            return float(parse_bytes(text, ""))
        except UserError:
            return None


def _reading(rows: Sequence[Row], fields: Fields, side: Side) -> Reading | None:
    """The reading of a point; None if the point has no value of the side's metric and did not fail."""
    first = rows[0]
    if first.status in FAILING:
        # A bound on a value is none on how it varies.
        bounded = first.status == "timeout" and side.statistic not in ("stddev", "variance", "modes")
        between = bounds_of(side.case, side.metric, first.reason) if bounded else None
        return Reading(first.allocator, fields, trouble=first.status, between=between)
    row = next((row for row in rows if row.metric == side.metric), None)
    if first.status != "ok" or row is None or row.statistics is None:
        return None
    if METRICS[side.metric].is_time and _requests_failed(rows):
        return Reading(first.allocator, fields, trouble="failed_requests")
    if side.statistic == "modes" and not row.values:  # percentiles do not tell how many bells there are
        return None
    runs = runs_of(row, side.statistic)
    if side.statistic == "modes":
        return Reading(first.allocator, fields, float(modes(np.asarray(row.values))[0]), runs=runs)
    if side.statistic == "variance":
        return Reading(first.allocator, fields, row.statistics.stddev**2, runs=runs)
    return Reading(first.allocator, fields, float(getattr(row.statistics, side.statistic)), runs=runs)


def runs_of(row: Row, statistic: str) -> Runs:
    """The runs behind a row's statistic."""
    exact = METRICS[row.metric].unit in ("count", "bytes")
    source = "|".join(map(str, (*row.key, row.metric)))
    if row.values or row.statistics is None:
        return Runs(source, statistic, row.values, exact)
    found = _estimated(row.statistics, row.runs)
    if statistic in ("mean", "stddev", "variance"):
        found = _moved(found, row.statistics)
    return Runs(source, statistic, found, exact, estimated=True)


def _estimated(known: Statistics, runs: int) -> tuple[float, ...]:
    """Estimates the runs of a row of an older table, which has only percentiles, by linear interpolation between them."""
    percentiles = ((0.0, known.min), (0.05, known.p5), (0.5, known.median), (0.95, known.p95), (1.0, known.max))
    found = []
    for run in range(runs):
        at = run / (runs - 1) if runs > 1 else 0.5
        (low, least), (high, most) = next(pair for pair in pairwise(percentiles) if at <= pair[1][0])
        found.append(least + (most - least) * (at - low) / (high - low))
    return tuple(found)


def _moved(values: Sequence[float], known: Statistics) -> tuple[float, ...]:
    """The values, moved and stretched to have the mean and the standard deviation of the row."""
    middle = statistics.fmean(values)
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    scale = known.stddev / spread if spread else 0.0
    return tuple(known.mean + (value - middle) * scale for value in values)


def _ending(statuses: Sequence[str]) -> str:
    """The failure that ended a sweep, or "" if it was not ended by failures in a row."""
    failures = 0
    for status in statuses:
        failures = failures + 1 if status in FAILING else 0
        if failures == FAILURES_THAT_END_A_GRID:
            return status
    return ""


def _requests_failed(rows: Sequence[Row]) -> bool:
    return any(row.metric == "failed_requests" and row.statistics is not None and row.statistics.median > 0 for row in rows)
