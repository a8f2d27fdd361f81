"""The tables of a report: allocators by columns, computed from rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuheap.answers.views import CaseView, PointId, point_id, point_words, status_words
from gpuheap.catalogue import BASELINES, TOOLKIT, is_rival
from gpuheap.metrics import METRICS
from gpuheap.report.recorded import Recording
from gpuheap.report.style import MARKER_PATHS, look
from gpuheap.units import format_factor, format_value

# The ratios in a table are relative to the first of these that the table has: CUDA's allocator, the plain mode of whole programs, or atomic_malloc.
COMPARED_WITH = (TOOLKIT, "plain", "atomic_malloc")

Traits = Mapping[str, dict[str, Any]]  # the traits of allocators, by name, as in environment.json


@dataclass(frozen=True)
class Chip:
    """An allocator's name with the colour and the path of its marker."""

    name: str
    colour: str
    path: str


@dataclass(frozen=True)
class Cell:
    value: str = ""
    ratio: str = ""
    better: bool = False  # better than the reference
    best: bool = False  # the best of the allocators that free memory
    status: str = ""  # the status if it is not ok; `short` if requests failed
    reason: str = ""


@dataclass(frozen=True)
class Column:
    metric: str
    point: str


@dataclass(frozen=True)
class ColumnGroup:
    case: str
    columns: tuple[Column, ...]
    point: str = ""  # the values that all its columns share


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


MOST_COLUMNS = 6  # the number of columns that fit next to the names in a window of 1280 pixels


def pieces(table: Grid) -> list[Grid]:
    """The table as several tables of at most MOST_COLUMNS columns each. A line that is empty in one of these is left out there."""
    made: list[Grid] = []
    groups: list[ColumnGroup] = []
    taken = start = 0

    def close(end: int) -> None:
        lines = tuple(replace(one, cells=one.cells[start:end]) for one in table.lines)
        filled = tuple(one for one in lines if any(cell.value or cell.status for cell in one.cells))
        made.append(Grid(tuple(groups), filled or lines, table.compared_with))

    for group in table.groups:
        left = group.columns
        while left:
            space = MOST_COLUMNS - (taken - start)
            if space == 0:
                close(taken)
                groups, start, space = [], taken, MOST_COLUMNS
            part, left = left[:space], left[space:]
            groups.append(replace(group, columns=part))
            taken += len(part)
    if groups or not made:
        close(taken)
    return made


def name_of(view: CaseView, views: list[CaseView]) -> str:
    """The name of a case, with its suite if several suites were measured, because suites share cases."""
    return view.name if len({other.suite for other in views}) == 1 else f"{view.suite}/{view.name}"


def chip(name: str) -> Chip:
    style = look(name)
    return Chip(name, style.colour, MARKER_PATHS[style.marker])


def traits_of(recording: Recording) -> dict[str, dict[str, Any]]:
    return {str(entry.get("name")): entry for entry in recording.environment.get("allocators") or []}


def line(name: str, cells: list[Cell], traits: Traits) -> Line:
    known = traits.get(name, {})
    paper, year = str(known.get("paper") or ""), str(known.get("year") or "")
    published = " ".join(part for part in (paper, "" if year in paper else year) if part)
    title = ", ".join(str(part) for part in (known.get("title"), known.get("variant"), published) if part)
    note = "overwrites" if known.get("overwrites") else "never frees" if known.get("free") == "never" else ""
    note = "baseline" if name in BASELINES else note
    return Line(chip(name), title, note, tuple(cells), name in BASELINES)


def summary_table(views: list[CaseView], names: list[str], traits: Traits, ratios: bool = True) -> Grid:
    groups: list[ColumnGroup] = []
    columns: list[dict[str, Cell]] = []
    compared = next((name for name in COMPARED_WITH if ratios and name in names), "")
    for view in views:
        headlines = view.headlines()
        if not headlines:
            continue
        groups.append(_headline_group(view, name_of(view, views), headlines))
        columns += [_cells(view, metric, point, names, compared, traits) for metric, point in headlines]
    lines = [line(name, [column[name] for column in columns], traits) for name in names]
    return Grid(tuple(groups), tuple(lines), compared)


def _headline_group(view: CaseView, name: str, headlines: list[tuple[str, PointId]]) -> ColumnGroup:
    words = [point_words(point, hide=unvaried(view)) for _, point in headlines]
    shared = words[0] if len(set(words)) == 1 else ""
    columns = [Column(METRICS[metric].label, "" if shared else point) for (metric, _), point in zip(headlines, words, strict=True)]
    return ColumnGroup(name, tuple(columns), shared)


def unvaried(view: CaseView) -> set[str]:
    """Keys that a column head leaves out: those with one value at all points of the case, and `phase`, which the metric implies."""
    values: dict[str, set[str]] = {}
    for _, _, parameter in view.points:
        for part in parameter.split(";"):
            key, _, value = part.partition("=")
            values.setdefault(key, set()).add(value)
    return {key for key, found in values.items() if len(found) == 1} | {"phase"}


def _cells(view: CaseView, metric: str, point: PointId, names: list[str], compared: str, traits: Traits) -> dict[str, Cell]:
    rows = {name: view.find(name, metric, point) for name in names}
    medians = {name: row.statistics.median for name, row in rows.items() if row is not None and row.ok and row.statistics is not None}
    rivals = [
        name
        for name in medians
        if is_rival(name)
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
                ratio, better = ratio_words(medians[name], medians[compared])
            cells[name] = Cell(format_value(medians[name], METRICS[metric].unit), ratio, better, name == best)
    return cells


def ratio_words(value: float, reference: float) -> tuple[str, bool]:
    if value <= 0 or reference <= 0:
        return "", False
    if value <= reference:
        return f"{format_factor(reference / value)}× faster", True
    return f"{format_factor(value / reference)}× slower", False


def points_table(view: CaseView, traits: Traits) -> Grid:
    groups: list[ColumnGroup] = []
    columns: list[dict[str, Cell]] = []
    for metric in view.metrics:
        if metric == "failed_requests" and not any(map(view.failed_requests, view.allocators)):
            continue  # all values are zero
        points = [p for p in view.points if any(row.metric == metric and point_id(row) == p for row in view.rows)]
        hidden = unvaried(view)
        if len({p[0] for p in points}) == 1:
            hidden |= {"threads"}
        if len({p[1] for p in points}) == 1:
            hidden |= {"bytes"}
        groups.append(ColumnGroup(METRICS[metric].label, tuple(Column(point_words(p, hide=hidden) or "median", "") for p in points)))
        columns += [_cells(view, metric, point, view.allocators, "", traits) for point in points]
    return Grid(tuple(groups), tuple(line(name, _said_once([column[name] for column in columns]), traits) for name in view.allocators))


def _said_once(cells: list[Cell]) -> list[Cell]:
    """The cells with each reason only at the first cell that has it. An unsupported case has the same reason at hundreds of points."""
    said: set[str] = set()
    kept = []
    for cell in cells:
        kept.append(replace(cell, reason="") if cell.reason in said else cell)
        said.add(cell.reason)
    return kept


def timeouts_table(views: list[CaseView], names: list[str], traits: Traits) -> Grid | None:
    """For each allocator and case: the number of tried points that ran out of time, and the first of these points with its reason."""
    late = {
        (view.suite, view.name, name): [row for row in view.failures if row.allocator == name and row.status == "timeout"]
        for view in views
        for name in names
    }
    shown = [view for view in views if any(late[view.suite, view.name, name] for name in names)]
    if not shown:
        return None
    lines = []
    for name in names:
        cells = []
        for view in shown:
            rows = late[view.suite, view.name, name]
            words = f"{len(rows)} of {view.statuses(name).total()}" if rows else ""
            reason = f"{point_words(point_id(rows[0]))}: {rows[0].reason}" if rows else ""
            cells.append(Cell(value=words, status="timeout" if rows else "", reason=reason))
        if any(cell.value for cell in cells):
            lines.append(line(name, cells, traits))
    return Grid(tuple(ColumnGroup(name_of(view, views), (Column("points", ""),)) for view in shown), tuple(lines))


def statuses_table(views: list[CaseView], names: list[str], traits: Traits) -> Grid:
    lines = []
    for name in names:
        cells = []
        for view in views:
            statuses = view.statuses(name)
            reason = next((row.reason for row in view.failures if row.allocator == name and row.reason), "")
            if not statuses:
                cells.append(Cell())
            elif set(statuses) == {"ok"} and view.failed_requests(name):
                cells.append(Cell(value=status_words(statuses, view.failed_requests(name)), status="short", reason="requests that got no memory"))
            elif set(statuses) == {"ok"}:
                cells.append(Cell(value=status_words(statuses, view.failed_requests(name)), best=True))
            else:
                worst = next(s for s in ("wrong", "crash", "timeout", "unsupported") if s in statuses)
                cells.append(Cell(value=status_words(statuses, view.failed_requests(name)) if len(statuses) > 1 else "", status=worst, reason=reason))
        lines.append(line(name, cells, traits))
    return Grid(tuple(ColumnGroup(name_of(view, views), (Column("points", ""),)) for view in views), tuple(lines))


def counts_table(views: list[CaseView], names: list[str], traits: Traits) -> Grid | None:
    """The simulator's counts of allocations, failed requests and scheduling points: the sums of the medians of a case's points."""
    groups: list[ColumnGroup] = []
    columns: list[dict[str, Cell]] = []
    for view in views:
        metrics = [metric for metric in view.metrics if METRICS[metric].unit == "count"]
        if not metrics:
            continue
        groups.append(ColumnGroup(name_of(view, views), tuple(Column(METRICS[metric].label, "") for metric in metrics)))
        columns += [{name: Cell(value=_total(view, name, metric)) for name in names} for metric in metrics]
    if not groups:
        return None
    counted = [name for name in names if any(column[name].value for column in columns)]
    return Grid(tuple(groups), tuple(line(name, [column[name] for column in columns], traits) for name in counted))


def _total(view: CaseView, name: str, metric: str) -> str:
    found = [row.statistics.median for row in view.rows if row.allocator == name and row.metric == metric and row.statistics is not None]
    return format_value(sum(found), "count") if found else ""
