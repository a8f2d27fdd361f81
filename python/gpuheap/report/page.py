"""Computes the contents of the report's template from tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuheap.answers.patterns import best_per_pattern, size_classes
from gpuheap.answers.verdicts import AIM, FAILED, MET, NOTHING, PART, Verdict, summary_words, verdicts
from gpuheap.answers.views import CaseView, case_views, point_id, point_words
from gpuheap.catalogue import DEFAULT, ordered
from gpuheap.formats.results import Row
from gpuheap.formats.suites import Suite
from gpuheap.judging.printed import PrintedValue
from gpuheap.metrics import METRICS
from gpuheap.report.charts import Chart, charts_of, failed_words
from gpuheap.report.inline import chart_for_page
from gpuheap.report.questions import Answer, answers
from gpuheap.report.recorded import Recording
from gpuheap.report.scales import is_wide
from gpuheap.report.tables import (
    COMPARED_WITH,
    Chip,
    Grid,
    Traits,
    chip,
    counts_table,
    name_of,
    points_table,
    ratio_words,
    statuses_table,
    summary_table,
    timeouts_table,
    traits_of,
    unvaried,
)
from gpuheap.running.environment import spoken
from gpuheap.units import format_bytes, format_factor, format_value


@dataclass(frozen=True)
class Figure:
    svg: str
    title: str
    fixed: str
    source: str  # the paper's figure that the picture repeats
    wide: bool  # whether it takes the width of several pictures
    failed: str = ""  # the allocators that failed at one of its points, and how


@dataclass(frozen=True)
class BestCell:
    chip: Chip
    words: str  # the lead over the next best, in words
    title: str


@dataclass(frozen=True)
class BestLine:
    case: str
    metric: str
    where: str
    cells: tuple[BestCell | None, ...]


@dataclass(frozen=True)
class BestMatrix:
    """The best allocator for each pattern of use."""

    sizes: tuple[str, ...]
    lines: tuple[BestLine, ...]


@dataclass(frozen=True)
class CaseSection:
    anchor: str
    name: str
    suite: str
    brief: str
    figures: tuple[Figure, ...]
    chips: tuple[Chip, ...]
    table: Grid


@dataclass(frozen=True)
class FailureLine:
    status: str
    case: str
    allocator: str
    points: str
    reason: str


@dataclass(frozen=True)
class Tile:
    value: str
    what: str
    ratio: str


@dataclass(frozen=True)
class BoundLine:
    case: str
    bound: str
    worst: str
    where: str
    must: str
    aim: str
    verdict: str
    kind: str  # the kind of verdict, which decides its colour
    failing: tuple[str, ...]


@dataclass(frozen=True)
class Bounds:
    """A suite's bounds, with the measured values."""

    suite: str
    allocators: str
    on: str
    summary: str
    lines: tuple[BoundLine, ...]


@dataclass(frozen=True)
class Summary:
    """A suite's medians at its headline points."""

    suite: str
    table: Grid


@dataclass(frozen=True)
class GpuSection:
    anchor: str
    name: str
    date: str
    answers: tuple[Answer, ...]
    tiles: tuple[Tile, ...]
    chips: tuple[Chip, ...]
    summaries: tuple[Summary, ...]
    bounds: tuple[Bounds, ...]
    best: BestMatrix | None
    cases: tuple[CaseSection, ...]
    timeouts: Grid | None
    failures: tuple[FailureLine, ...]
    environment: tuple[tuple[str, str], ...]
    pages: tuple[tuple[str, str], ...] = ()  # suites that have pages of their own: name, link
    suite: str = ""  # the suite of this page; empty on the first page

    @property
    def suites(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(case.suite for case in self.cases))

    def cases_of(self, suite: str) -> tuple[CaseSection, ...]:
        return tuple(case for case in self.cases if case.suite == suite)


@dataclass(frozen=True)
class SimulatedSection:
    date: str
    words: str
    statuses: Grid
    counts: Grid | None
    times: Grid
    failures: tuple[FailureLine, ...]
    environment: tuple[tuple[str, str], ...]


def gpu_section(recording: Recording, suites: Mapping[str, Suite], printed: Sequence[PrintedValue] = ()) -> GpuSection:
    views = case_views(recording.rows, suites)
    traits = traits_of(recording)
    names = ordered(row.allocator for row in recording.rows)
    return GpuSection(
        anchor=recording.folder.name,
        name=recording.name,
        date=str(recording.environment.get("date", "")),
        answers=answers(views, traits),
        tiles=tuple(_tiles(views)),
        chips=tuple(chip(name) for name in names),
        summaries=tuple(_summaries(views, traits)),
        bounds=tuple(_bounds(recording, suites)),
        best=_best(views, traits),
        cases=tuple(_case_section(recording, view, name_of(view, views), traits, printed) for view in views),
        timeouts=timeouts_table(views, names, traits),
        failures=tuple(_failures(views)),
        environment=tuple(_environment_words(recording.environment)),
    )


def _summaries(views: list[CaseView], traits: Traits) -> Iterator[Summary]:
    """A table for each suite, with the allocators that it measured."""
    for suite in dict.fromkeys(view.suite for view in views):
        of_suite = [view for view in views if view.suite == suite]
        yield Summary(suite, summary_table(of_suite, ordered(name for view in of_suite for name in view.allocators), traits))


def simulated_section(recording: Recording, suites: Mapping[str, Suite]) -> SimulatedSection:
    views = case_views(recording.rows, suites)
    traits = traits_of(recording)
    names = ordered(row.allocator for row in recording.rows)
    points = {(row.allocator, row.case, point_id(row)): row.status for row in recording.rows}
    ok = sum(status == "ok" for status in points.values())
    unsupported = sum(status == "unsupported" for status in points.values())
    words = f"{ok} of {len(points) - unsupported} points passed" + (
        f"; {unsupported} are unsupported in the simulator" if unsupported else ""
    )
    return SimulatedSection(
        date=str(recording.environment.get("date", "")),
        words=words,
        statuses=statuses_table(views, names, traits),
        counts=counts_table(views, names, traits),
        times=summary_table(views, names, traits, ratios=False),
        failures=tuple(_failures(views)),
        environment=tuple(_environment_words(recording.environment)),
    )


def _tiles(views: list[CaseView]) -> list[Tile]:
    """The numbers at the top of the page: the default allocator's times at the headline points."""
    tiles: list[Tile] = []
    for case, metric in (("alloc_single", "malloc_us"), ("alloc_single", "free_us"), ("churn", "kernel_us"), ("graph_update", "kernel_us")):
        view = next((view for view in views if view.name == case), None)
        point = view.headline(metric) if view is not None else None
        row = view.find(DEFAULT, metric, point) if view is not None and point is not None else None
        if view is None or point is None or row is None or row.statistics is None or not row.ok:
            continue
        compared = next(
            (r for name in COMPARED_WITH if (r := view.find(name, metric, point)) is not None and r.ok and r.statistics), None
        )
        ratio = ""
        if compared is not None and compared.statistics is not None:
            words, _ = ratio_words(row.statistics.median, compared.statistics.median)
            ratio = f"{words} than {compared.allocator}" if words else ""
        what = METRICS[metric].label if case == "alloc_single" else f"{case}"
        where = point_words(point, hide=unvaried(view))
        tiles.append(Tile(format_value(row.statistics.median, row.unit), f"{what}, {where}", ratio))
    return tiles


def _case_section(recording: Recording, view: CaseView, name: str, traits: Traits, printed: Sequence[PrintedValue]) -> CaseSection:
    figures = [_figure(chart) for chart in charts_of(view, printed)]
    return CaseSection(
        anchor=f"{recording.folder.name}-{view.suite}-{view.name}",
        name=name,
        suite=view.suite,
        brief=view.brief,
        figures=tuple(figures),
        chips=tuple(chip(name) for name in view.allocators),
        table=points_table(view, traits),
    )


def _figure(chart: Chart) -> Figure:
    fixed = "; ".join(words for words in (chart.fixed, chart.curve_words) if words)
    return Figure(chart_for_page(chart), chart.title, fixed, chart.figure, is_wide(chart), failed_words([chart]))


def _best(views: list[CaseView], traits: Traits) -> BestMatrix | None:
    patterns = best_per_pattern(views, traits)
    if not patterns:
        return None
    sizes = size_classes(patterns)
    case_of = {(view.suite, view.name): name_of(view, views) for view in views}
    lines = []
    for pattern in patterns:
        cells: list[BestCell | None] = []
        for size in sizes:
            best = pattern.best.get(size)
            if best is None:
                cells.append(None)
                continue
            words = f"{format_factor(best.ahead)}× {best.second}" if best.ahead else ""
            points = f"{best.points} point{'' if best.points == 1 else 's'}"
            cells.append(
                BestCell(chip(best.allocator), words, f"{points}; {best.complete} of {best.contenders} allocators served all of them")
            )
        lines.append(BestLine(case_of[pattern.suite, pattern.case], METRICS[pattern.metric].label, pattern.where, tuple(cells)))
    return BestMatrix(tuple(sizes), tuple(lines))


def _bounds(recording: Recording, suites: Mapping[str, Suite]) -> list[Bounds]:
    found = verdicts(recording.rows, suites)
    tables = []
    for name in dict.fromkeys(verdict.suite for verdict in found):
        of_suite = [verdict for verdict in found if verdict.suite == name]
        allocators = list(dict.fromkeys(verdict.allocator for verdict in of_suite))
        lines = tuple(_bound_line(verdict, len(allocators) > 1) for verdict in of_suite)
        tables.append(Bounds(name, ", ".join(allocators), suites[name].bounds_on, summary_words(of_suite), lines))
    return tables


def _bound_line(verdict: Verdict, several_allocators: bool) -> BoundLine:
    return BoundLine(
        case=f"{verdict.case} {verdict.allocator}" if several_allocators else verdict.case,
        bound=verdict.bound.words,
        worst=verdict.worst_words,
        where=verdict.where_words,
        must=verdict.bound.limit_words(verdict.bound.must),
        aim=verdict.bound.limit_words(verdict.bound.aim),
        verdict=verdict.verdict_words,
        kind={AIM: "aim", MET: "met", FAILED: "failed", PART: "part", NOTHING: "nothing"}[verdict.verdict],
        failing=tuple(verdict.failing_words),
    )


def _failures(views: list[CaseView]) -> list[FailureLine]:
    """One line for all points of a sweep with the same failure and reason, one for all points that an allocator does not support for the same reason, and
    one for the points of a sweep that were not tried."""
    alike: dict[tuple[str, str, str, str], list[Row]] = {}
    for view in views:
        for row in view.failures:
            case = "" if row.status == "unsupported" else row.case
            alike.setdefault((row.status, row.allocator, case, row.reason), []).append(row)
    lines = []
    for (status, allocator, _, reason), rows in alike.items():
        cases = list(dict.fromkeys(row.case for row in rows))
        points = point_words(point_id(rows[0])) if len(rows) == 1 else f"{len(rows)} points"
        where = cases[0] if len(cases) == 1 else f"{len(cases)} cases"
        lines.append(FailureLine(status, where, allocator, points, reason))
    for view in views:
        for name in {row.allocator: None for row in view.failures if row.status != "unsupported"}:
            untried = view.untried(name)
            if untried:
                points = f"{untried} point{'' if untried == 1 else 's'}"
                lines.append(FailureLine("untried", view.name, name, points, "not tried: three failures in a row end a sweep over the same axes"))
    order = ("wrong", "crash", "timeout", "untried", "unsupported")
    return sorted(lines, key=lambda line: order.index(line.status))


def _flags_by_suite(facts: dict[str, Any]) -> str | None:
    """The flags of the builds; with the suites of each, if tables were measured with different flags."""
    suites: dict[str, dict[str, None]] = {}
    for suite, cases in (facts.get("sweeps") or {}).items():
        for build in (build for allocators in cases.values() for build in allocators.values()):
            flags = ((facts.get("builds") or {}).get(build) or {}).get("flags")
            if flags:
                suites.setdefault(str(flags), {})[suite] = None
    if len(suites) < 2:
        return None if facts.get("flags") is None else str(facts["flags"])
    return "; ".join(f"{flags} ({', '.join(names)})" for flags, names in suites.items())


def _environment_words(facts: dict[str, Any]) -> list[tuple[str, str]]:
    gpu = facts.get("gpu") or {}
    system = facts.get("system") or {}
    commit = str(facts.get("commit") or "")[:12]
    words = [
        ("GPU", gpu.get("name")),
        ("Compute capability", gpu.get("compute_capability")),
        ("SMs", gpu.get("sms")),
        ("GPU memory", format_bytes(gpu["memory_bytes"]) if gpu.get("memory_bytes") else None),
        ("Driver", facts.get("driver")),
        ("CUDA of the driver", facts.get("driver_cuda")),
        ("CUDA runtime", facts.get("runtime_cuda")),
        ("Toolkit", facts.get("toolkit")),
        ("Compiler", facts.get("compiler")),
        ("Flags", _flags_by_suite(facts)),
        ("Build type", facts.get("build_type")),
        ("gpuheap", facts.get("version")),
        ("Commit", commit + (" with changes" if facts.get("modified") and commit else "")),
        ("CPU", f"{system['cpu']}, {system.get('cores')} cores" if system.get("cpu") else None),
        ("System", system.get("os")),
        ("Measured", spoken(str(facts.get("date") or ""))),
    ]
    return [(name, str(value)) for name, value in words if value]
