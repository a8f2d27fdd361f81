"""`gpuheap standing`: compares each allocator with the best one at every point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuheap.answers.patterns import is_contender
from gpuheap.answers.views import PointId, point_id, point_words
from gpuheap.catalogue import place
from gpuheap.formats.protocol import FAILING
from gpuheap.formats.results import Row
from gpuheap.judging.draws import draws
from gpuheap.judging.evidence import Runs, runs_of
from gpuheap.judging.timeouts import bounds_of
from gpuheap.metrics import METRICS
from gpuheap.units import format_value

SUITES = ("survey", "gallatin", "regeff", "stress")  # the suites whose points make up the project's own score
MEMORY = ("utilisation", "address_range_ratio", "footprint_ratio", "internal_fragmentation")
LEFT_OUT = ("total_ms",)  # the time that the host measures around a kernel: the kernel's own time is another metric of the same point
WITHIN = (1.05, 1.1)
BEYOND = (1.3, 1.5)


@dataclass(frozen=True)
class Entry:
    """One allocator at one point."""

    allocator: str
    value: float  # of the metric; nan where it failed
    times: float  # how many times worse than the best value: 1 for the best itself, infinite for a failure
    rank: int
    interval: tuple[float, float] | None = None  # the 95 % confidence interval of `times`; None for the best, or if single runs are not known


@dataclass(frozen=True)
class Contest:
    """One metric at one point that at least two contenders tried and at least one finished."""

    suite: str
    case: str
    metric: str
    point: PointId
    entries: tuple[Entry, ...]  # the best first

    @property
    def words(self) -> str:
        return " ".join(part for part in (f"{self.suite}/{self.case}", point_words(self.point), self.metric) if part)

    def of(self, allocator: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.allocator == allocator), None)

    def rival(self, allocator: str) -> Entry:
        """The best entry of another allocator."""
        return next(entry for entry in self.entries if entry.allocator != allocator)


@dataclass(frozen=True)
class Score:
    """The standing of one allocator over all contests that it took part in."""

    allocator: str
    times: tuple[float, ...]  # its `Entry.times` in each contest
    failed: int  # the contests in which it has no value

    @property
    def points(self) -> int:
        return len(self.times)

    @property
    def best(self) -> int:
        return self.within(1.0)

    @property
    def typical(self) -> float:
        """The geometric mean of the ratios, failures left out."""
        finished = [times for times in self.times if math.isfinite(times)]
        return math.exp(math.fsum(map(math.log, finished)) / len(finished)) if finished else math.inf

    def within(self, factor: float) -> int:
        return sum(times <= factor for times in self.times)

    def beyond(self, factor: float) -> int:
        return self.points - self.within(factor)


@dataclass(frozen=True)
class Standing:
    contests: tuple[Contest, ...]
    scores: tuple[Score, ...]  # the allocator that is best at the most points first
    left_out: Mapping[str, str]  # allocators that are in no contest, and why

    def score(self, allocator: str) -> Score:
        return next(score for score in self.scores if score.allocator == allocator)

    def worst(self, allocator: str) -> list[tuple[Contest, Entry]]:
        """The contests that an allocator does not win, the one that it loses most clearly first."""
        lost = [(contest, entry) for contest in self.contests if (entry := contest.of(allocator)) is not None and entry.times > 1]
        return sorted(lost, key=lambda pair: -pair[1].times)


def is_compared(metric: str) -> bool:
    """Whether a metric counts in the standing: it is a time for which a program waits, or a measure of memory use."""
    return metric in METRICS and (METRICS[metric].is_time or metric in MEMORY) and metric not in LEFT_OUT


def standing(rows: Iterable[Row], traits: Mapping[str, Mapping[str, Any]]) -> Standing:
    """Compares the allocators that free single blocks and never hand out live memory.

    An allocator that fails requests at a point counts as failed in every time of that point. One that ran out of time counts as failed in the metrics of
    which its limit shows that another allocator is better, and in no others: the limit of a quick run may be too short for what surrounds the metric.
    """
    by_point: dict[tuple[str, str, PointId], dict[str, list[Row]]] = {}
    left_out: dict[str, str] = {}
    for row in rows:
        if not is_contender(row.allocator, traits):
            left_out[row.allocator] = _why(row.allocator, traits)
        else:
            by_point.setdefault((row.suite, row.case, point_id(row)), {}).setdefault(row.allocator, []).append(row)
    contests = [contest for (suite, case, point), found in by_point.items() for contest in _contests(suite, case, point, found)]
    entries: dict[str, list[Entry]] = {}
    for contest in contests:
        for entry in contest.entries:
            entries.setdefault(entry.allocator, []).append(entry)
    scores = [Score(name, tuple(one.times for one in found), sum(math.isnan(one.value) for one in found)) for name, found in entries.items()]
    scores.sort(key=lambda score: (-score.best, score.typical, place(score.allocator)))
    return Standing(tuple(contests), tuple(scores), dict(sorted(left_out.items(), key=lambda pair: place(pair[0]))))


def value_words(contest: Contest, entry: Entry) -> str:
    return "failed" if math.isnan(entry.value) else format_value(entry.value, METRICS[contest.metric].unit)


def _contests(suite: str, case: str, point: PointId, found: Mapping[str, Sequence[Row]]) -> list[Contest]:
    metrics = dict.fromkeys(row.metric for rows in found.values() for row in rows if row.ok and is_compared(row.metric))
    contests: list[Contest] = []
    for metric in metrics:
        values = {name: value for name, rows in found.items() if (value := _value(rows, metric)) is not None}
        finished = [value for value in values.values() if not math.isnan(value)]
        lower_is_better = METRICS[metric].lower_is_better is not False
        if finished:
            best = min(finished) if lower_is_better else max(finished)
            values = {name: value for name, value in values.items() if not _is_open(found[name][0], metric, best, lower_is_better)}
        if finished and len(values) > 1:
            entries = _ranked(values, lower_is_better)
            drawn = {name: draws(runs) for name, rows in found.items() if (runs := _runs(rows, metric)) is not None}
            contests.append(Contest(suite, case, metric, point, tuple(_with_interval(entry, entries[0], drawn) for entry in entries)))
    return contests


def _runs(rows: Sequence[Row], metric: str) -> Runs | None:
    """The runs of a measurement; None if they are too few to estimate its noise."""
    row = next((row for row in rows if row.metric == metric and row.values), None)
    runs = runs_of(row, "median") if row is not None else None
    return runs if runs is not None and runs.enough else None


def _with_interval(entry: Entry, best: Entry, drawn: Mapping[str, Sequence[float]]) -> Entry:
    if entry is best or math.isinf(entry.times) or not {entry.allocator, best.allocator} <= set(drawn):
        return entry
    mine, others = np.asarray(drawn[entry.allocator]), np.asarray(drawn[best.allocator])
    over, under = (mine, others) if entry.value >= best.value else (others, mine)
    if not np.all(under > 0):
        return entry
    low, high = np.percentile(over / under, [2.5, 97.5])
    return replace(entry, interval=(float(low), float(high)))


def _value(rows: Sequence[Row], metric: str) -> float | None:
    """The allocator's value; nan if it failed; None if it does not take part, because it is unsupported or has no such measurement."""
    if rows[0].status in FAILING:
        return math.nan
    served = not any(row.metric == "failed_requests" and row.statistics is not None and row.statistics.median > 0 for row in rows)
    row = next((row for row in rows if row.metric == metric and row.ok and row.statistics is not None), None)
    if row is None or row.statistics is None:
        return None
    return row.statistics.median if served or not METRICS[metric].is_time else math.nan


def _is_open(row: Row, metric: str, best: float, lower_is_better: bool) -> bool:
    """Whether the allocator ran out of time, and might have been better than the best value with more of it."""
    if row.status != "timeout":
        return False
    low, high = bounds_of(row.case, metric, row.reason) or (-math.inf, math.inf)
    return low <= best if lower_is_better else high >= best


def _ranked(values: Mapping[str, float], lower_is_better: bool) -> tuple[Entry, ...]:
    finished = [value for value in values.values() if not math.isnan(value)]
    best = min(finished) if lower_is_better else max(finished)

    def times(value: float) -> float:
        if math.isnan(value):
            return math.inf
        if value == best:
            return 1.0
        over, under = (value, best) if lower_is_better else (best, value)
        return over / under if under > 0 else math.inf

    entries = sorted(((name, value, times(value)) for name, value in values.items()), key=lambda entry: (entry[2], place(entry[0])))
    ratios = [ratio for _, _, ratio in entries]
    return tuple(Entry(name, value, ratio, ratios.index(ratio) + 1) for name, value, ratio in entries)


def _why(name: str, traits: Mapping[str, Mapping[str, Any]]) -> str:
    known = traits.get(name)
    if known is None:
        return "no allocator"
    if known.get("overwrites"):
        return "overwrites live memory"
    return {"never": "never frees", "individually": "no allocator"}.get(str(known.get("free")), "frees collectively")
