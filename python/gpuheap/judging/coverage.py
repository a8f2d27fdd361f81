"""Counts the points of the papers' sweeps that have rows, and estimates the GPU time of the points that have none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuheap.formats.plots import Plot
from gpuheap.formats.points import Point
from gpuheap.formats.results import Row
from gpuheap.formats.suites import Case, Suite
from gpuheap.judging.evidence import fields_of

POINTS_PER_MINUTE = 175  # measured with `--quick` on an H200: 1750 points took ten minutes
SECONDS_OF_A_PROGRAM = 1.2  # a run of a host program on an H200, the start of the driver included


@dataclass(frozen=True)
class Coverage:
    """Points of a sweep, over all allocators that take part."""

    measured: int
    in_full: int
    missing_minutes: float

    @property
    def words(self) -> str:
        """For example `all 120 points` or `30 of 120 points, 1 minute of GPU time missing`."""
        if self.measured == self.in_full:
            return f"all {self.in_full:,} points"
        return f"{self.measured:,} of {self.in_full:,} points, {spoken_minutes(self.missing_minutes)} of GPU time missing"

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(self.measured + other.measured, self.in_full + other.in_full, self.missing_minutes + other.missing_minutes)


NOTHING = Coverage(0, 0, 0.0)


def spoken_minutes(minutes: float) -> str:
    """For example `4 minutes` or `2.5 hours`."""
    if minutes >= 60:
        return f"{minutes / 60:.1f} hours"
    whole = max(1, round(minutes))
    return f"{whole} minute{'s' if whole > 1 else ''}"


class Rows:
    """The measured points of each case and allocator, by their values."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._points: dict[tuple[str, str], dict[str, set[frozenset[tuple[str, str]]]]] = {}
        for row in rows:
            self._points.setdefault((row.suite, row.case), {}).setdefault(row.allocator, set()).add(frozenset(fields_of(row).items()))

    def allocators(self, suite: str) -> tuple[str, ...]:
        """The allocators of a suite's rows."""
        return tuple(dict.fromkeys(name for (of, _), found in self._points.items() if of == suite for name in found))

    def has(self, suite: str, case: str, allocator: str, point: Point) -> bool:
        """Whether the point has a row with exactly its values. A row of a run with other settings, such as another heap size, does not count."""
        return frozenset(point.fields.items()) in self._points.get((suite, case), {}).get(allocator, ())


def coverage_of(suite: Suite, case: Case, rows: Rows, allocators: Collection[str], plot: Plot | None = None) -> Coverage:
    """The coverage of a case by `allocators`. With a plot, only the points that the plot shows are counted."""
    measured = in_full = 0
    for name in allocators:
        for point in case.points(allocator=name):
            if plot is None or plot.shows(point.fields):
                in_full += 1
                measured += rows.has(suite.name, case.name, name, point)
    missing = in_full - measured
    minutes = missing * case.runs * SECONDS_OF_A_PROGRAM / 60 if suite.programs else missing / POINTS_PER_MINUTE
    return Coverage(measured, in_full, minutes)


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
    """A figure of a paper, and the case of a suite that measures it again."""

    name: str  # for example `figure 9c`
    suite: str
    case: str
    metrics: tuple[str, ...]
    where: str
    coverage: Coverage


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
                    found.append(Figure(plot.figure, name, case_name, metrics, where, coverage_of(suite, case, rows, taking_part(suite, rows, case), plot)))
    return _together(found)


def _together(figures: Sequence[Figure]) -> list[Figure]:
    """One entry for each figure and case. A plot that names no x axis is read once for each of its grids."""
    found: dict[tuple[str, str, str, tuple[str, ...], str], Figure] = {}
    for figure in figures:
        found.setdefault((figure.name, figure.suite, figure.case, figure.metrics, figure.where), figure)
    return list(found.values())
