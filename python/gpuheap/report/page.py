"""Everything that the report's template shows, worked out from tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuheap.catalogue import BASELINES, ordered
from gpuheap.metrics import METRICS
from gpuheap.report.charts import charts_of
from gpuheap.report.figures import chart_for_page
from gpuheap.report.recorded import Recording
from gpuheap.report.style import MARKER_PATHS, look
from gpuheap.results import Row
from gpuheap.suites import Suite
from gpuheap.units import format_bytes, format_factor, format_value
from gpuheap.verdicts import AIM, FAILED, MET, NOTHING, PART, Verdict, summary_words, verdicts
from gpuheap.views import CaseView, PointId, case_views, point_id, point_words, status_words

COMPARED_WITH = "cuda"  # the allocator that every CUDA program has
REST = "atomic"  # stands in where that one was not measured


@dataclass(frozen=True)
class Chip:
    """An allocator's name with its mark."""

    name: str
    colour: str
    path: str


@dataclass(frozen=True)
class Cell:
    value: str = ""
    ratio: str = ""
    better: bool = False  # than the allocator compared with
    best: bool = False  # of those that give memory back
    status: str = ""  # if not ok; `short` if requests failed
    reason: str = ""


@dataclass(frozen=True)
class Column:
    metric: str
    point: str


@dataclass(frozen=True)
class ColumnGroup:
    case: str
    columns: tuple[Column, ...]
    point: str = ""  # what all its columns share


@dataclass(frozen=True)
class Line:
    chip: Chip
    title: str
    note: str
    cells: tuple[Cell, ...]
    baseline: bool = False


@dataclass(frozen=True)
class Grid:
    """A table of allocators by columns."""

    groups: tuple[ColumnGroup, ...]
    lines: tuple[Line, ...]
    compared_with: str = ""


@dataclass(frozen=True)
class Figure:
    svg: str
    title: str
    fixed: str


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
    kind: str  # of the verdict, for its colour
    failing: tuple[str, ...]


@dataclass(frozen=True)
class Bounds:
    """A suite's bounds against what was measured."""

    suite: str
    allocators: str
    on: str
    summary: str
    lines: tuple[BoundLine, ...]


@dataclass(frozen=True)
class GpuSection:
    anchor: str
    name: str
    date: str
    tiles: tuple[Tile, ...]
    chips: tuple[Chip, ...]
    summary: Grid
    bounds: tuple[Bounds, ...]
    cases: tuple[CaseSection, ...]
    failures: tuple[FailureLine, ...]
    environment: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SimulatedSection:
    date: str
    words: str
    statuses: Grid
    counts: Grid | None
    times: Grid
    failures: tuple[FailureLine, ...]
    environment: tuple[tuple[str, str], ...]


def gpu_section(recording: Recording, suites: Mapping[str, Suite]) -> GpuSection:
    views = case_views(recording.rows, suites)
    traits = _traits(recording)
    names = ordered(row.allocator for row in recording.rows)
    return GpuSection(
        anchor=recording.folder.name,
        name=recording.name,
        date=str(recording.environment.get("date", "")),
        tiles=tuple(_tiles(views)),
        chips=tuple(_chip(name) for name in names),
        summary=_summary(views, names, traits),
        bounds=tuple(_bounds(recording, suites)),
        cases=tuple(_case_section(recording, view, _name_of(view, views), traits) for view in views),
        failures=tuple(_failures(views)),
        environment=tuple(_environment_words(recording.environment)),
    )


def simulated_section(recording: Recording, suites: Mapping[str, Suite]) -> SimulatedSection:
    views = case_views(recording.rows, suites)
    traits = _traits(recording)
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
        statuses=_statuses(views, names, traits),
        counts=_counts(views, names, traits),
        times=_summary(views, names, traits, ratios=False),
        failures=tuple(_failures(views)),
        environment=tuple(_environment_words(recording.environment)),
    )


def _name_of(view: CaseView, views: list[CaseView]) -> str:
    """With its suite where several suites were measured: they share cases."""
    return view.name if len({other.suite for other in views}) == 1 else f"{view.suite}/{view.name}"


def _chip(name: str) -> Chip:
    style = look(name)
    return Chip(name, style.colour, MARKER_PATHS[style.marker])


def _traits(recording: Recording) -> dict[str, dict[str, Any]]:
    return {str(entry.get("name")): entry for entry in recording.environment.get("allocators") or []}


def _line(name: str, cells: list[Cell], traits: Mapping[str, dict[str, Any]]) -> Line:
    known = traits.get(name, {})
    published = " ".join(str(part) for part in (known.get("paper"), known.get("year")) if part)
    title = ", ".join(str(part) for part in (known.get("title"), known.get("variant"), published) if part)
    note = "overwrites" if known.get("overwrites") else "never frees" if known.get("free") == "never" else ""
    note = "baseline" if name in BASELINES else note
    return Line(_chip(name), title, note, tuple(cells), name in BASELINES)


def _summary(views: list[CaseView], names: list[str], traits: Mapping[str, dict[str, Any]], ratios: bool = True) -> Grid:
    groups: list[ColumnGroup] = []
    columns: list[dict[str, Cell]] = []
    compared = COMPARED_WITH if any(name == COMPARED_WITH for name in names) else REST
    for view in views:
        headlines = view.headlines()
        if not headlines:
            continue
        groups.append(_headline_group(view, _name_of(view, views), headlines))
        columns += [_cells(view, metric, point, names, compared if ratios else "", traits) for metric, point in headlines]
    lines = [_line(name, [column[name] for column in columns], traits) for name in names]
    return Grid(tuple(groups), tuple(lines), compared if ratios else "")


def _headline_group(view: CaseView, name: str, headlines: list[tuple[str, PointId]]) -> ColumnGroup:
    words = [point_words(point, hide=_unvaried(view)) for _, point in headlines]
    shared = words[0] if len(set(words)) == 1 else ""
    columns = [Column(METRICS[metric].label, "" if shared else point) for (metric, _), point in zip(headlines, words, strict=True)]
    return ColumnGroup(name, tuple(columns), shared)


def _unvaried(view: CaseView) -> set[str]:
    """Keys that a column head leaves out: those with one value at all points of the case, and `phase`, which goes with the metric."""
    values: dict[str, set[str]] = {}
    for _, _, parameter in view.points:
        for part in parameter.split(";"):
            key, _, value = part.partition("=")
            values.setdefault(key, set()).add(value)
    return {key for key, found in values.items() if len(found) == 1} | {"phase"}


def _cells(
    view: CaseView, metric: str, point: PointId, names: list[str], compared: str, traits: Mapping[str, dict[str, Any]]
) -> dict[str, Cell]:
    rows = {name: view.find(name, metric, point) for name in names}
    medians = {name: row.statistics.median for name, row in rows.items() if row is not None and row.ok and row.statistics is not None}
    rivals = [
        name
        for name in medians
        if name not in BASELINES
        and traits.get(name, {}).get("free", "individually") != "never"
        and not traits.get(name, {}).get("overwrites")
    ]
    best = min(rivals, key=lambda name: medians[name]) if len(rivals) > 1 and METRICS[metric].is_time else ""
    cells = {}
    for name, row in rows.items():
        if row is None:
            cells[name] = Cell()
        elif name not in medians:
            cells[name] = Cell(status=row.status, reason=row.reason)
        else:
            ratio, better = "", False
            if METRICS[metric].is_time and compared in medians and name != compared and name not in BASELINES:
                ratio, better = _ratio(medians[name], medians[compared])
            cells[name] = Cell(format_value(medians[name], METRICS[metric].unit), ratio, better, name == best)
    return cells


def _ratio(value: float, reference: float) -> tuple[str, bool]:
    if value <= 0 or reference <= 0:
        return "", False
    if value <= reference:
        return f"{format_factor(reference / value)}× faster", True
    return f"{format_factor(value / reference)}× slower", False


def _tiles(views: list[CaseView]) -> list[Tile]:
    """What a reader looks for first: our allocator's times at the headline points."""
    tiles: list[Tile] = []
    for case, metric in (("alloc_single", "malloc_us"), ("alloc_single", "free_us"), ("churn", "kernel_us"), ("graph_update", "kernel_us")):
        view = next((view for view in views if view.name == case), None)
        point = view.headline(metric) if view is not None else None
        row = view.find("gpuheap", metric, point) if view is not None and point is not None else None
        if view is None or point is None or row is None or row.statistics is None or not row.ok:
            continue
        compared = next(
            (r for name in (COMPARED_WITH, REST) if (r := view.find(name, metric, point)) is not None and r.ok and r.statistics), None
        )
        ratio = ""
        if compared is not None and compared.statistics is not None:
            words, _ = _ratio(row.statistics.median, compared.statistics.median)
            ratio = f"{words} than {compared.allocator}" if words else ""
        what = METRICS[metric].label if case == "alloc_single" else f"{case}"
        where = point_words(point, hide=_unvaried(view))
        tiles.append(Tile(format_value(row.statistics.median, row.unit), f"{what}, {where}", ratio))
    return tiles


def _case_section(recording: Recording, view: CaseView, name: str, traits: Mapping[str, dict[str, Any]]) -> CaseSection:
    figures = [Figure(chart_for_page(chart), chart.title, chart.fixed) for chart in charts_of(view) if any(s.marks for s in chart.series)]
    return CaseSection(
        anchor=f"{recording.folder.name}-{view.suite}-{view.name}",
        name=name,
        suite=view.suite,
        brief=view.brief,
        figures=tuple(figures),
        chips=tuple(_chip(name) for name in view.allocators),
        table=_all_points(view, traits),
    )


def _all_points(view: CaseView, traits: Mapping[str, dict[str, Any]]) -> Grid:
    groups: list[ColumnGroup] = []
    columns: list[dict[str, Cell]] = []
    for metric in view.metrics:
        points = [p for p in view.points if any(row.metric == metric and point_id(row) == p for row in view.rows)]
        hidden = _unvaried(view)
        if len({p[0] for p in points}) == 1:
            hidden |= {"threads"}
        if len({p[1] for p in points}) == 1:
            hidden |= {"bytes"}
        groups.append(ColumnGroup(METRICS[metric].label, tuple(Column(point_words(p, hide=hidden) or "median", "") for p in points)))
        columns += [_cells(view, metric, point, view.allocators, "", traits) for point in points]
    return Grid(tuple(groups), tuple(_line(name, [column[name] for column in columns], traits) for name in view.allocators))


def _statuses(views: list[CaseView], names: list[str], traits: Mapping[str, dict[str, Any]]) -> Grid:
    lines = []
    for name in names:
        cells = []
        for view in views:
            statuses = view.statuses(name)
            reason = next((row.reason for row in view.failures if row.allocator == name and row.reason), "")
            if not statuses:
                cells.append(Cell())
            elif set(statuses) == {"ok"} and view.nulls(name):
                cells.append(Cell(value=status_words(statuses, view.nulls(name)), status="short", reason="requests that got no memory"))
            elif set(statuses) == {"ok"}:
                cells.append(Cell(value=status_words(statuses, view.nulls(name)), best=True))
            else:
                worst = next(s for s in ("wrong", "crash", "timeout", "unsupported") if s in statuses)
                cells.append(Cell(value=status_words(statuses, view.nulls(name)) if len(statuses) > 1 else "", status=worst, reason=reason))
        lines.append(_line(name, cells, traits))
    return Grid(tuple(ColumnGroup(_name_of(view, views), (Column("points", ""),)) for view in views), tuple(lines))


def _counts(views: list[CaseView], names: list[str], traits: Mapping[str, dict[str, Any]]) -> Grid | None:
    """What the simulator counts: allocations, failed requests, scheduling points; the medians of all points of a case added up."""
    groups: list[ColumnGroup] = []
    columns: list[dict[str, Cell]] = []
    for view in views:
        metrics = [metric for metric in view.metrics if METRICS[metric].unit == "count"]
        if not metrics:
            continue
        groups.append(ColumnGroup(_name_of(view, views), tuple(Column(METRICS[metric].label, "") for metric in metrics)))
        columns += [{name: Cell(value=_total(view, name, metric)) for name in names} for metric in metrics]
    if not groups:
        return None
    counted = [name for name in names if any(column[name].value for column in columns)]
    return Grid(tuple(groups), tuple(_line(name, [column[name] for column in columns], traits) for name in counted))


def _total(view: CaseView, name: str, metric: str) -> str:
    found = [row.statistics.median for row in view.rows if row.allocator == name and row.metric == metric and row.statistics is not None]
    return format_value(sum(found), "count") if found else ""


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
    """One line for what ended alike for the same reason: the points of a sweep, or all that an allocator does not support."""
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
    order = ("wrong", "crash", "timeout", "unsupported")
    return sorted(lines, key=lambda line: order.index(line.status))


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
        ("Flags", facts.get("flags")),
        ("Build type", facts.get("build_type")),
        ("gpuheap", facts.get("version")),
        ("Commit", commit + (" with changes" if facts.get("modified") and commit else "")),
        ("CPU", f"{system['cpu']}, {system.get('cores')} cores" if system.get("cpu") else None),
        ("System", system.get("os")),
        ("Measured", _date_words(str(facts.get("date") or ""))),
    ]
    return [(name, str(value)) for name, value in words if value]


def _date_words(date: str) -> str:
    return date.replace("T", " ").replace("Z", " UTC")
