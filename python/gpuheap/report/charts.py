"""Chooses the pictures of a case: its points as series over one axis. Nothing is drawn here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuheap.answers.views import CaseView, PointId, point_id
from gpuheap.catalogue import BASELINES, DEFAULT, TOOLKIT, is_rival, legend
from gpuheap.catalogue import place as place_of
from gpuheap.errors import UserError
from gpuheap.formats.plots import BYTES_AXES, Plot, default_metrics
from gpuheap.formats.results import Row
from gpuheap.formats.suites import with_variants
from gpuheap.judging.printed import PrintedValue, printed_for
from gpuheap.metrics import METRICS, Metric
from gpuheap.units import format_bytes, format_count, format_value, parse_bytes

AGREE = 0.02  # the range of runs that differ by less than this share is not written out
CURVE_WORDS = ("solid", "dashed", "dash-dotted", "dotted")
UNFREED = ("atomic_malloc", "atomic_wrap_malloc")  # allocators that never reuse memory; they are not compared with allocators that do
IN_COLOUR = 4  # the number of allocators in colour, in addition to the default one
FAR = 100.0  # a point without a value counts as this many times worse than the best
FAILED_WORDS = {"timeout": "timed out", "crash": "crashed", "wrong": "gave wrong results", "failed_requests": "requests failed"}
WIDE = 16.0  # an axis whose ends are farther apart than this factor is logarithmic


@dataclass(frozen=True)
class Mark:
    """One measured value."""

    x: float
    median: float  # the value that the plot shows, usually the median of the runs
    low: float  # 5th percentile
    high: float  # 95th
    words: str


@dataclass(frozen=True)
class Failure:
    x: float
    words: str
    status: str = "failed"


@dataclass(frozen=True)
class Printed:
    """A number that a paper prints and that can be compared with measured ones."""

    allocator: str
    x: float
    value: float
    words: str
    label: str  # the label of the series that it belongs to


@dataclass(frozen=True)
class Series:
    allocator: str
    marks: tuple[Mark, ...]
    failures: tuple[Failure, ...] = ()
    curve: str = ""  # the words that distinguish it from other series of the allocator
    curve_value: str = ""
    curve_index: int = 0

    @property
    def label(self) -> str:
        return _label(self.allocator, self.curve)

    @property
    def pieces(self) -> list[tuple[Mark, ...]]:
        """The marks in groups, which are drawn as lines: a point that failed ends a group."""
        parts: list[list[Mark]] = [[]]
        for mark in self.marks:
            if parts[-1] and any(parts[-1][-1].x < failure.x <= mark.x for failure in self.failures):
                parts.append([])
            parts[-1].append(mark)
        return [tuple(part) for part in parts if part]


@dataclass(frozen=True)
class Chart:
    """One picture. `axis` is the key along which points vary; None for a picture of a single point, with one value for each allocator."""

    name: str
    case: str
    title: str
    fixed: str  # the fields that all its points share, in words
    size: str  # the threads and the bytes among these fields
    metric: Metric
    axis: str | None
    series: tuple[Series, ...]
    x_scale: str = "log"  # log, linear, words
    y_scale: str = "log"
    labels: tuple[str, ...] = ()  # the words at x = 0, 1, ... on a scale of words
    unit: str = ""
    figure: str = ""  # the paper's figure that the chart repeats
    printed: tuple[Printed, ...] = ()
    y_range: tuple[float, float] | None = None  # shared with other charts of the case
    highlighted: frozenset[str] = frozenset()  # the allocators in colour, the same in all charts of the case

    @property
    def xs(self) -> list[float]:
        return sorted(
            {mark.x for series in self.series for mark in series.marks} | {f.x for series in self.series for f in series.failures}
        )

    def x_words(self, x: float) -> str:
        if self.x_scale == "words":
            word = self.labels[round(x)] if 0 <= round(x) < len(self.labels) else ""
            number = as_number(self.axis or "", word)
            return format_bytes(number) if number is not None and self.axis in BYTES_AXES else word
        return format_bytes(x) if self.axis in BYTES_AXES else format_count(x)

    def y_words(self, y: float) -> str:
        return format_value(y, self.unit)

    @property
    def curve_words(self) -> str:
        """Explains the curves of one allocator, for example `solid: page 4 KiB, dashed: page 64 KiB`."""
        curves = {series.curve_index: series.curve for series in self.series if series.curve and self.axis is not None}
        if self.x_scale == "words":
            later = ", ".join(words for index, words in sorted(curves.items()) if index)
            return f"open marks: {later}" if later else ""
        return ", ".join(f"{CURVE_WORDS[index % len(CURVE_WORDS)]}: {words}" for index, words in sorted(curves.items()))


def charts_of(view: CaseView, printed: Sequence[PrintedValue] = ()) -> list[Chart]:
    """The charts of a case: its suite's plots or, without these, one for each sweep. Each chart gets the papers' numbers at its points.

    Charts of one unit and one axis share their range, so that a reader can compare malloc and free.
    """
    charts: list[Chart] = []
    for plot, rows in _plots(view):
        measured = dict.fromkeys(row.metric for row in rows if row.metric)
        listed = [metric for metric in view.metrics if metric in measured]
        for metric in [metric for metric in plot.metrics if metric in measured] or default_metrics(listed):
            charts += _charts(view, rows, METRICS[metric], plot, printed)
    several: dict[str, int] = {}
    for chart in charts:
        several[chart.name] = several.get(chart.name, 0) + 1
    named: list[Chart] = []
    coloured = highlight(charts)
    for number, chart in enumerate(charts):
        alike = [other for other in charts if _alike(chart, other)]
        values = [mark.median for other in alike for series in other.series for mark in series.marks]
        values += [number.value for other in alike for number in other.printed]
        name = chart.name if several[chart.name] == 1 else f"{chart.name}-{number}"
        named.append(replace(chart, name=name, y_range=(min(values), max(values)) if values else None, highlighted=coloured))
    return named


def cut(chart: Chart, most: int) -> Chart:
    """The chart cut down to about `most` series: the default allocator's, CUDA's, the baselines', then those with the least values at their last points."""
    known = [series for series in chart.series if series.allocator in (DEFAULT, TOOLKIT, *BASELINES)]
    others = sorted((s for s in chart.series if s not in known and s.marks), key=lambda s: s.marks[-1].median)
    kept = {series.allocator for series in known + others[: max(0, most - len(known))]}
    return replace(chart, series=tuple(series for series in chart.series if series.allocator in kept))


def highlight(charts: Sequence[Chart]) -> frozenset[str]:
    """The allocators that a case's pictures show in colour: the default one, and the IN_COLOUR others that are nearest to the best over all points."""
    scores: dict[str, float] = {}
    for chart in charts:
        lower = chart.metric.lower_is_better is not False
        rivals = [series for series in chart.series if _competes(series.allocator)]
        points: dict[float, dict[str, float]] = {}
        for series in rivals:
            for mark in series.marks:
                found = points.setdefault(mark.x, {})
                known = found.get(series.allocator, mark.median)  # if an allocator has several curves, the better one counts
                found[series.allocator] = min(known, mark.median) if lower else max(known, mark.median)
        for found in points.values():
            best = min(found.values()) if lower else max(found.values())
            for name, value in found.items():
                # An allocator without a value at a point counts as FAR from the best.
                scores[name] = scores.get(name, 0.0) + FAR - _distance(value, best)
    others = sorted((name for name in scores if name != DEFAULT), key=lambda name: (-scores[name], place_of(name)))
    return frozenset([DEFAULT, *others[:IN_COLOUR]])


def _competes(allocator: str) -> bool:
    return is_rival(allocator) and allocator not in UNFREED


def failed_words(charts: Iterable[Chart]) -> str:
    """The allocators that failed at a point of the pictures, for example `timed out: cuda_malloc, halloc; crashed: xmalloc`."""
    found: dict[str, dict[str, None]] = {}
    for chart in charts:
        for series in chart.series:
            for failure in series.failures:
                found.setdefault(FAILED_WORDS.get(failure.status, failure.status), {})[series.allocator] = None
    return "; ".join(f"{how}: {', '.join(names)}" for how, names in sorted(found.items()))


def _distance(value: float, best: float) -> float:
    """How many times worse than the best, at most FAR; 1 for the best."""
    if value <= 0 or best <= 0:
        return 1.0 if value == best else FAR
    return min(FAR, max(value / best, best / value))


def _alike(one: Chart, other: Chart) -> bool:
    return (one.unit, one.axis, one.y_scale) == (other.unit, other.axis, other.y_scale)


def _plots(view: CaseView) -> list[tuple[Plot, list[Row]]]:
    """The plots of the case with the rows that each shows. Rows on no sweep of the case, such as those of a user's graph, have a plot of their own."""
    plots = view.case.plots if view.case is not None else ()
    sweeps = [Plot((grid,)) for grid in with_variants(view.case.grids, view.case.variants)] if view.case is not None else []
    shown: dict[int, list[Row]] = {}
    others: list[Row] = []
    meant: dict[PointId, list[int]] = {}  # rows of one point go together
    for row in view.rows:
        point = point_id(row)
        if point not in meant:
            on = [number for number, plot in enumerate(plots) if plot.shows(row.fields)]
            meant[point] = [number for number in on if plots[number].names_all_of(row.fields)] or on
        for number in meant[point]:
            if not plots[number].allocators or row.allocator in plots[number].allocators:
                shown.setdefault(number, []).append(row)
        if not meant[point] and not any(sweep.shows(row.fields) for sweep in sweeps):
            others.append(row)
    found = [(plot, shown[number]) for number, plot in enumerate(plots) if number in shown]
    return found + ([(Plot(), others)] if others else [])


def _charts(view: CaseView, all_rows: Sequence[Row], metric: Metric, plot: Plot, printed: Sequence[PrintedValue]) -> list[Chart]:
    measured = [row for row in all_rows if row.metric == metric.name and row.statistics is not None]
    if plot.in_bytes:
        measured = [row for row in measured if _requested(row) > 0]
    drawn = [plot.fields_of(row.fields) for row in measured]
    values: dict[str, list[str]] = {}
    for key in dict.fromkeys(key for fields in drawn for key in fields):
        found = dict.fromkeys(fields.get(key, "") for fields in drawn)
        values[key] = sorted(found, key=lambda value: plot.place(key, value) if value else -1)
    axis = plot.axis if len(values.get(plot.axis, ())) > 1 else _axis(values, plot)
    curves = plot.curves if len(values.get(plot.curves, ())) > 1 and plot.curves != axis else ""
    panel_keys = [key for key, found in values.items() if len(found) > 1 and key not in (axis, curves)]
    panels = sorted(
        dict.fromkeys(tuple(fields.get(key, "") for key in panel_keys) for fields in drawn),
        key=lambda panel: [plot.place(key, value) for key, value in zip(panel_keys, panel, strict=True)],
    )
    # The chart also needs failed points, which have no metric. Points of a phase without this metric do not belong to the chart.
    rows = [
        row
        for row in all_rows
        if row.metric in (metric.name, "")
        and all(fields.get(k, "") in found for fields in [plot.fields_of(row.fields)] for k, found in values.items() if k != axis)
    ]
    by_panel: dict[tuple[str, ...], list[Row]] = {panel: [] for panel in panels}
    for row in rows:
        fields = plot.fields_of(row.fields)
        panel = tuple(fields.get(key, "") for key in panel_keys)
        if panel in by_panel:
            by_panel[panel].append(row)
    charts = []
    for panel, of_panel in by_panel.items():
        fixed = {key: found[0] for key, found in values.items() if len(found) == 1} | dict(zip(panel_keys, panel, strict=True))
        chart = _chart(view, of_panel, metric, plot, axis, curves, fixed)
        charts.append(replace(chart, printed=_printed(chart, view, plot, curves, fixed, printed)))
    return [chart for chart in charts if any(series.marks for series in chart.series)]


def _chart(view: CaseView, rows: list[Row], metric: Metric, plot: Plot, axis: str | None, curves: str, fixed: Mapping[str, str]) -> Chart:
    places = [fields[axis] for row in rows if axis in (fields := plot.fields_of(row.fields))] if axis is not None else []
    x_scale, labels, place = _x_scale(axis, list(dict.fromkeys(places)), plot)
    reference = _Reference(view.rows, metric.name, plot.over, plot.curves) if plot.over else None
    curve_values = (
        sorted(dict.fromkeys(row.fields.get(curves, "") for row in rows), key=lambda v: plot.place(curves, v) if v else -1)
        if curves
        else [""]
    )
    series: list[Series] = []
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.allocator, row.fields.get(curves, "") if curves else ""), []).append(row)
    for allocator in view.allocators:
        for index, value in enumerate(curve_values):
            of_series = groups.get((allocator, value), [])
            words = field_words(curves, value) if curves and value else ""
            one = _series(of_series, allocator, axis, place, plot, reference, words, index)
            if one is not None:
                series.append(replace(one, curve_value=value))
    several = {one.allocator for one in series if len([other for other in series if other.allocator == one.allocator]) > 1}
    # An allocator's only curve needs no name of its own.
    series = [one if one.allocator in several else replace(one, curve="", curve_index=0) for one in series]
    if axis is None:
        series.sort(key=lambda s: s.marks[0].median if s.marks else float("inf"))
    unit = "ratio" if plot.over else "bytes" if plot.in_bytes else f"{metric.unit}²" if plot.statistic == "variance" else metric.unit
    values = [mark.median for s in series for mark in s.marks]
    size = [field_words(key, value) for key, value in fixed.items() if value and key in ("threads", "bytes")]
    label = metric.label.removesuffix(" over requested") if plot.in_bytes else metric.label
    return Chart(
        name=f"{view.suite}-{view.name}-{metric.name}" + ("" if plot.statistic == "median" else f"-{plot.statistic}"),
        case=view.name,
        title=label + (f", over {plot.over}" if plot.over else "") + ("" if plot.statistic == "median" else f", {plot.statistic}"),
        fixed=", ".join(field_words(key, value) for key, value in fixed.items() if value),
        size=", ".join(size),
        metric=metric,
        axis=axis,
        series=tuple(series),
        x_scale=x_scale,
        y_scale=_y_scale(values, unit, plot),
        labels=labels,
        unit=unit,
        figure=_figure(view, plot),
    )


def _figure(view: CaseView, plot: Plot) -> str:
    """The figure that the plot names, or the case's place in the paper if no plot of the case names one."""
    if plot.figure or view.case is None:
        return plot.figure
    return "" if any(other.figure for other in view.case.plots) else view.case.paper


def _printed(
    chart: Chart, view: CaseView, plot: Plot, curves: str, fixed: Mapping[str, str], printed: Sequence[PrintedValue]
) -> tuple[Printed, ...]:
    """The printed numbers of the chart's series at its values. Numbers that a paper measured under other conditions are left out."""
    if plot.statistic != "median" or plot.in_bytes:
        return ()
    drawn = {(series.allocator, series.curve_value): series.label for series in chart.series}
    found = []
    ratio = "slowdown" if chart.metric.lower_is_better else "speedup"
    for value in printed_for(printed, view.suite, view.name, ratio if plot.over else chart.metric.name):
        pairs = [("threads", value.threads), ("bytes", value.bytes)]
        fields = dict(plot.fields_of({key: str(number) for key, number in pairs if number is not None} | value.parameters))
        x = _place_of(chart, fields.pop(chart.axis, "")) if chart.axis is not None else 0.0
        curve = fields.pop(curves, "") if curves else ""
        label = drawn.get((value.allocator, curve))
        if x is None or label is None or any(fixed.get(key) != said for key, said in fields.items()):
            continue
        words = f"{label} in {value.paper}, {value.at} ({value.machine}): {format_value(value.value, value.unit)}"
        found.append(Printed(value.allocator, x, value.value, words, label))
    return tuple(found)


def _place_of(chart: Chart, text: str) -> float | None:
    if chart.x_scale == "words":
        return float(chart.labels.index(text)) if text in chart.labels else None
    return as_number(chart.axis or "", text)


class _Reference:
    """The medians by which a plot divides its values: for each point, the median at the same point, else at a point that differs in the curve only."""

    def __init__(self, rows: Iterable[Row], metric: str, allocator: str, curves: str) -> None:
        self._curves = curves
        self._exact: dict[PointId, float] = {}
        self._near: dict[frozenset[tuple[str, str]], float] = {}
        for row in rows:
            if row.allocator == allocator and row.metric == metric and row.ok and row.statistics is not None:
                self._exact[point_id(row)] = row.statistics.median
                self._near.setdefault(self._without_curve(row), row.statistics.median)

    def at(self, row: Row) -> float:
        """The median by which the value of a row is divided; 0 if there is none."""
        return self._exact.get(point_id(row), self._near.get(self._without_curve(row), 0.0))

    def _without_curve(self, row: Row) -> frozenset[tuple[str, str]]:
        return frozenset(pair for pair in row.fields.items() if pair[0] != self._curves)


def _requested(row: Row) -> float:
    """The bytes that all threads of a point request together; 0 if the sizes are random."""
    drawn = row.fields.get("dist", "equal") != "equal"
    return 0.0 if drawn or row.threads is None or row.bytes is None else float(row.threads) * row.bytes


def _x_scale(axis: str | None, found: Sequence[str], plot: Plot) -> tuple[str, tuple[str, ...], Mapping[str, float]]:
    """The scale of x, its words if it is a scale of words, and the position of each value."""
    if axis is None:
        return "log", (), {}
    numbers = {value: number for value in found if (number := as_number(axis, value)) is not None}
    if len(numbers) < len(found) or plot.x_scale == "words":
        inorder = sorted(found, key=lambda value: plot.place(axis, value))
        return "words", tuple(inorder), {value: float(place) for place, value in enumerate(inorder)}
    least, most = min(numbers.values()), max(numbers.values())
    scale = plot.x_scale or ("log" if least > 0 and len(numbers) > 2 and most / least >= WIDE else "linear")
    return ("linear" if least <= 0 else scale), (), numbers


def _y_scale(values: Sequence[float], unit: str, plot: Plot) -> str:
    """The scale of y: linear if a value is not positive; else the plot's own; else linear for ratios, counts and bytes that lie close together."""
    if not values or min(values) <= 0:
        return "linear"
    if plot.y_scale:
        return plot.y_scale
    return "linear" if unit in ("ratio", "count", "bytes") and max(values) / min(values) < WIDE else "log"


def _label(allocator: str, curve: str) -> str:
    return f"{legend(allocator)}, {curve}" if curve else legend(allocator)


def _series(
    rows: Sequence[Row],
    allocator: str,
    axis: str | None,
    place: Mapping[str, float],
    plot: Plot,
    reference: _Reference | None,
    curve: str,
    curve_index: int,
) -> Series | None:
    marks: list[Mark] = []
    failures: list[Failure] = []
    name = _label(allocator, curve)
    for row in rows:
        fields = plot.fields_of(row.fields)
        if axis is not None and axis not in fields:
            continue
        x = place[fields[axis]] if axis is not None else 0.0
        where = f" at {field_words(axis, fields[axis])}" if axis is not None else ""
        if row.statistics is not None and row.ok:
            mark = _mark(row, x, f"{name}{where}", plot, None if reference is None else reference.at(row))
            marks += [mark] if mark is not None else []
        elif row.status != "unsupported":
            failures.append(Failure(x, f"{name}{where}: {row.status}" + (f", {row.reason}" if row.reason else ""), row.status))
    if not marks and not failures:
        return None
    return Series(
        allocator, tuple(sorted(marks, key=lambda m: m.x)), tuple(sorted(failures, key=lambda f: f.x)), curve=curve, curve_index=curve_index
    )


def _mark(row: Row, x: float, name: str, plot: Plot, reference: float | None) -> Mark | None:
    """Makes a mark of a row. `reference`: the value to divide by; 0 if there is none."""
    s = row.statistics
    assert s is not None
    if plot.statistic == "variance":
        variance = s.stddev**2
        return Mark(x, variance, variance, variance, f"{name}: {format_value(variance, f'{row.unit}²')} in {row.runs} runs")
    if reference is not None:
        if reference <= 0:
            return None
        ratio = s.median / reference
        return Mark(x, ratio, s.p5 / reference, s.p95 / reference, f"{name}: {format_value(ratio, 'ratio')} × {plot.over}")
    times, unit = (_requested(row), "bytes") if plot.in_bytes else (1.0, row.unit)
    if times <= 0:
        return None
    middle, least, most = ((s.mean if plot.statistic == "mean" else s.median) * times, s.p5 * times, s.p95 * times)
    median, low, high = (format_value(value, unit) for value in (middle, least, most))
    apart = abs(most - least) > AGREE * abs(middle) and high != low
    return Mark(x, middle, least, most, f"{name}: {median} ({_shortened(low, high)} to {high})" if apart else f"{name}: {median}")


def _shortened(low: str, high: str) -> str:
    """The low end of a range without its unit if the high end has the same unit: `12` for `12 µs` and `14 µs`."""
    number, _, unit = low.rpartition(" ")
    return number if number and high.endswith(f" {unit}") else low


def _axis(values: Mapping[str, list[str]], plot: Plot) -> str | None:
    """The axis along x: the field with the most values, numbers before words. The field of the suite's curves is not taken."""
    varying = {key: found for key, found in values.items() if len(found) > 1 and key != plot.curves}
    numeric = {key: found for key, found in varying.items() if all(as_number(key, v) is not None for v in found)}
    candidates = numeric or {key: found for key, found in varying.items() if len(found) > 2}
    return max(candidates, key=lambda key: (len(candidates[key]), key == "bytes")) if candidates else None


def as_number(key: str, text: str) -> float | None:
    """A value of an axis as a number, also with a unit if the axis is one of bytes, as `8GiB`; None if it is not a number."""
    try:
        return float(text)
    except ValueError:
        pass
    if key not in BYTES_AXES:
        return None
    try:
        return float(parse_bytes(text, key))
    except UserError:
        return None


def field_words(key: str, value: str) -> str:
    """For example `1,000 threads`, `16 B`, `page 4 KiB`, `state warm` or `range 10,000`. Words of several axes stay as they are."""
    if key == "threads":
        return f"{format_count(int(value))} thread{'' if value == '1' else 's'}"
    if key in BYTES_AXES and (number := as_number(key, value)) is not None:
        return format_bytes(number) if key == "bytes" else f"{key} {format_bytes(number)}"
    if ", " in key:
        return value
    return f"{key} {format_count(int(value))}" if value.isdigit() and len(value) > 4 else f"{key} {value}"
