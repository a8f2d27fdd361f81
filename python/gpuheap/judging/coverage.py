"""Counts the points of the papers' sweeps that have rows, and estimates the GPU time of the points that have none."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuheap.formats.plots import Plot
from gpuheap.formats.points import Point
from gpuheap.formats.results import Row
from gpuheap.formats.suites import FEWEST_RUNS, Case, Suite
from gpuheap.judging.evidence import fields_of
from gpuheap.judging.timeouts import limit_of, needed_s

SECONDS_OF_A_START = 0.34  # of a point: its heap, its first run and its checks; on an H200, 1750 points of `--quick` took ten minutes
RECORDED_RUNS, RECORDED_ENOUGH_S = 20, 0.5  # most recorded points were measured with `--runs 20 --enough 0.5`
SECONDS = {"us": 1e-6, "ms": 1e-3, "cycles": 1 / 1.98e9}  # of each unit of time; the clock is that of an H200
WHOLE = ("total_ms", "call_ms")  # metrics that contain a run's other times
ONE_OF_MANY = ("wait_max_us",)  # metrics of one request among those of a run


@dataclass(frozen=True)
class Coverage:
    """Points of a sweep, over all allocators that take part."""

    measured: int
    in_full: int
    missing_minutes: float
    endless: int = 0  # the measured points that ran out of time

    @property
    def counted(self) -> str:
        """For example `30 of 120 points, 4 without an end`."""
        ended = f", {self.endless:,} without an end" if self.endless else ""
        return f"{self.measured:,} of {self.in_full:,} points{ended}"

    @property
    def words(self) -> str:
        """For example `all 120 points` or `30 of 120 points, 4 without an end, 1 minute of GPU time missing`."""
        counted = self.counted.replace(f"{self.in_full:,} of {self.in_full:,} points", f"all {self.in_full:,} points")
        return f"{counted}, {spoken_minutes(self.missing_minutes)} of GPU time missing" if self.missing_minutes else counted

    def __add__(self, other: Coverage) -> Coverage:
        minutes = self.missing_minutes + other.missing_minutes
        return Coverage(self.measured + other.measured, self.in_full + other.in_full, minutes, self.endless + other.endless)


NOTHING = Coverage(0, 0, 0.0)


def spoken_minutes(minutes: float) -> str:
    """For example `4 minutes` or `2.5 hours`."""
    if minutes >= 60:
        return f"{minutes / 60:.1f} hours"
    whole = max(1, round(minutes))
    return f"{whole} minute{'s' if whole > 1 else ''}"


@dataclass(frozen=True)
class Measured:
    """A measured point: how it ended, and how long it took."""

    status: str
    runs: int
    timed_s: float  # in all runs together; 0 for a case that times nothing
    limit_s: float  # of a point that ran out of time
    needed_s: float  # the time that such a point would have needed, as it told; 0 if it did not

    @property
    def is_endless(self) -> bool:
        return self.status == "timeout"

    def spent_s(self, start_s: float) -> float:
        """The seconds that the recorded point took, of which `start_s` before its runs."""
        if self.is_endless:
            return start_s + self.limit_s
        return start_s + self.timed_s if self.status == "ok" else 0.0

    def seconds_under(self, case: Case, start_s: float) -> float:
        """The seconds that the point takes with the runs and the limits of its suite."""
        if self.is_endless:
            return start_s + (_seconds(case, self.needed_s / FEWEST_RUNS) if self.needed_s else case.timeout_s)
        if self.status != "ok":
            return 0.0
        run_s = self.timed_s / self.runs
        if self.runs < min(case.runs, RECORDED_RUNS):  # the point made fewer runs, because these took so long
            run_s = max(run_s, RECORDED_ENOUGH_S / self.runs)
        return start_s + _seconds(case, run_s)


def _seconds(case: Case, run_s: float) -> float:
    """The seconds of a point whose runs take `run_s` each, as the executable ends points (harness/pace.hpp)."""
    whole = case.runs * run_s
    if case.enough_s:
        whole = min(whole, max(case.enough_s, FEWEST_RUNS * run_s))
    return min(whole, case.timeout_s)


def _measured(rows: Sequence[Row]) -> Measured:
    """What the rows of one point tell."""
    first = rows[0]
    times = {
        row.metric: row.statistics.mean * row.runs * SECONDS[row.unit]
        for row in rows
        if row.statistics is not None and row.unit in SECONDS and row.metric not in ONE_OF_MANY
    }
    timed_s = next((times[name] for name in WHOLE if name in times), sum(times.values()))
    runs, batches = min(row.runs for row in rows), int(fields_of(first).get("batches", "1"))
    if batches and runs % batches == 0:  # each batch of a run gives a value
        runs //= batches
    reason = first.reason
    return Measured(first.status, max(1, runs), timed_s, limit_of(reason), needed_s(reason))


class Rows:
    """The measured points of each case and allocator, by their values."""

    def __init__(self, rows: Iterable[Row]) -> None:
        found: dict[tuple[str, str], dict[str, dict[frozenset[tuple[str, str]], list[Row]]]] = {}
        for row in rows:
            of_case = found.setdefault((row.suite, row.case), {})
            of_case.setdefault(row.allocator, {}).setdefault(frozenset(fields_of(row).items()), []).append(row)
        self._points = {
            case: {name: {point: _measured(rows) for point, rows in points.items()} for name, points in of_case.items()} for case, of_case in found.items()
        }

    def allocators(self, suite: str) -> tuple[str, ...]:
        """The allocators of a suite's rows."""
        return tuple(dict.fromkeys(name for (of, _), found in self._points.items() if of == suite for name in found))

    def at(self, suite: str, case: str, allocator: str, point: Point) -> Measured | None:
        """The point with exactly these values, if it has rows. A row of a run with other settings, such as another heap size, does not count."""
        return self._points.get((suite, case), {}).get(allocator, {}).get(frozenset(point.fields.items()))

    def of_suite(self, suite: str) -> list[Measured]:
        return [point for (of, _), found in self._points.items() if of == suite for points in found.values() for point in points.values()]

    def expected_s(self, suite: Suite, case: Case, allocator: str) -> float:
        """The seconds that a point without rows takes with the runs and the limits of its suite.

        It ends as often, and as soon in the median, as the measured points of its case and allocator, else those of its case, else those of its suite. A
        point of a suite without rows takes all of its limit.
        """
        of_case = self._points.get((suite.name, case.name), {})
        alike = list(of_case.get(allocator, {}).values())
        alike = alike or [point for points in of_case.values() for point in points.values()] or self.of_suite(suite.name)
        if not alike:
            return case.timeout_s
        start_s = start_of(suite)
        endless = [point.seconds_under(case, start_s) for point in alike if point.is_endless]
        ended = [point.seconds_under(case, start_s) for point in alike if not point.is_endless]
        return (sum(endless) + (statistics.median(ended) * len(ended) if ended else 0.0)) / len(alike)


def start_of(suite: Suite) -> float:
    """The seconds that a point takes before its runs. A program's time contains its start."""
    return 0.0 if suite.programs else SECONDS_OF_A_START


def coverage_of(suite: Suite, case: Case, rows: Rows, allocators: Collection[str], plot: Plot | None = None) -> Coverage:
    """The coverage of a case by `allocators`. With a plot, only the points that the plot shows are counted.

    A point that ran out of time under a shorter limit than that of its suite is measured, but its time is missing.
    """
    found = NOTHING
    for name in allocators:
        points = [point for point in case.points(allocator=name) if plot is None or plot.shows(point.fields)]
        measured = [each for point in points if (each := rows.at(suite.name, case.name, name, point)) is not None]
        endless = [each for each in measured if each.is_endless]
        missing = len(points) - len(measured)
        seconds = missing * rows.expected_s(suite, case, name) if missing else 0.0
        seconds += sum(each.seconds_under(case, start_of(suite)) for each in endless if each.limit_s < case.timeout_s)
        found += Coverage(len(measured), len(points), seconds / 60, len(endless))
    return found


def taking_part(suite: Suite, rows: Rows, case: Case) -> tuple[str, ...]:
    """The allocators in a suite's rows that take part in a case. A baseline takes part only if the case names it; in a suite of programs, all modes do."""
    named = {name for each in suite.cases.values() for of_case in each.values() for name in of_case.baselines}
    every = dict.fromkeys([*rows.allocators(suite.name), *(suite.allocators if suite.programs else ())])
    return tuple(name for name in every if name not in named or name in case.baselines)


def coverage_of_suite(suite: Suite, rows: Rows) -> Coverage:
    found = NOTHING
    for name in suite.cases:
        case = suite.case(name, "cuda")
        found += coverage_of(suite, case, rows, taking_part(suite, rows, case))
    return found


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, and the cases of a suite that measure it again."""

    name: str  # for example `figure 9c`
    suite: str
    cases: tuple[str, ...]  # one, or several programs of a table
    metrics: tuple[str, ...]
    where: str
    coverage: Coverage

    @property
    def shown(self) -> str:
        """The cases in words: for example `alloc_single` in code, or 16 cases."""
        return f"`{self.cases[0]}`" if len(self.cases) == 1 else f"{len(self.cases)} cases"


def figures_of(names: Sequence[str], suites: Mapping[str, Suite], rows: Rows) -> list[Figure]:
    """The papers' figures that the cases of these suites repeat, in the order of the suites."""
    found: list[Figure] = []
    for name in names:
        suite = suites.get(name)
        for case_name in suite.cases if suite is not None else ():
            assert suite is not None
            case = suite.case(case_name, "cuda")
            for plot in case.plots:
                if plot.figure:
                    where = ", ".join(words for condition in plot.where if not (words := str(condition)).endswith("="))
                    metrics = plot.metrics or case.metrics
                    found.append(Figure(plot.figure, name, (case_name,), metrics, where, coverage_of(suite, case, rows, taking_part(suite, rows, case), plot)))
    return _together(found, suites)


def pictured(figures: Iterable[Figure], suites: Mapping[str, Suite]) -> list[tuple[str, str]]:
    """The suites and cases of the figures that have rows. Tables of programs are no pictures: the pages print their numbers."""
    shown = [figure for figure in figures if figure.coverage.measured and not suites[figure.suite].programs]
    return list(dict.fromkeys((figure.suite, case) for figure in shown for case in figure.cases))


def _together(figures: Sequence[Figure], suites: Mapping[str, Suite]) -> list[Figure]:
    """One entry for each figure and case. A plot that names no x axis is read once for each of its grids. The programs of a table are one entry."""
    found: dict[tuple[str, str, tuple[str, ...], tuple[str, ...], str], Figure] = {}
    for figure in figures:
        found.setdefault((figure.name, figure.suite, figure.cases, figure.metrics, figure.where), figure)
    tables: dict[tuple[str, ...], Figure] = {}
    for figure in found.values():
        of_table = (figure.name, figure.suite) if suites[figure.suite].programs else (figure.name, figure.suite, *figure.cases, *figure.metrics, figure.where)
        before = tables.get(of_table)
        tables[of_table] = figure if before is None else _joined(before, figure)
    return list(tables.values())


def _joined(one: Figure, other: Figure) -> Figure:
    """Two entries of a table as one."""
    metrics = tuple(dict.fromkeys((*one.metrics, *other.metrics)))
    cases = tuple(dict.fromkeys((*one.cases, *other.cases)))
    return replace(one, cases=cases, metrics=metrics, coverage=one.coverage + other.coverage)
