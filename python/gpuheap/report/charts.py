"""Which pictures a case gets: its points as series over one axis, without any drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuheap.catalogue import BASELINES
from gpuheap.metrics import METRICS, Metric
from gpuheap.results import Row
from gpuheap.units import format_bytes, format_count, format_value
from gpuheap.views import CaseView

BYTES_AXES = ("bytes", "page")


@dataclass(frozen=True)
class Mark:
    """One measured value."""

    x: float
    median: float
    low: float  # 5th percentile
    high: float  # 95th
    words: str


@dataclass(frozen=True)
class Failure:
    x: float
    words: str


@dataclass(frozen=True)
class Series:
    allocator: str
    marks: tuple[Mark, ...]
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class Chart:
    """One picture. `axis` is the key along which points vary; None: a single point, one value for each allocator."""

    name: str
    case: str
    title: str
    fixed: str  # what holds for all its points, in words
    size: str  # of that, the threads and the bytes
    metric: Metric
    axis: str | None
    series: tuple[Series, ...]
    y_range: tuple[float, float] | None = None  # shared with other charts of the case

    @property
    def xs(self) -> list[float]:
        return sorted(
            {mark.x for series in self.series for mark in series.marks} | {f.x for series in self.series for f in series.failures}
        )

    def x_words(self, x: float) -> str:
        return format_bytes(x) if self.axis in BYTES_AXES else format_count(x)


def charts_of(view: CaseView) -> list[Chart]:
    """The charts of all times that a case measures. Charts of one unit share their range, so that malloc and free compare at a glance."""
    charts = [chart for metric in view.times for chart in _charts(view, METRICS[metric])]
    shared: list[Chart] = []
    for chart in charts:
        values = [
            mark.median for other in charts if _alike(chart, other) for series in other.series for mark in series.marks if mark.median > 0
        ]
        shared.append(replace(chart, y_range=(min(values), max(values)) if values else None))
    return shared


def cut(chart: Chart, most: int) -> Chart:
    """The chart with so many series at most: those that every reader knows, then the fastest by their last point."""
    known = [series for series in chart.series if series.allocator in ("gpuheap", "cuda", *BASELINES)]
    others = sorted((s for s in chart.series if s not in known and s.marks), key=lambda s: s.marks[-1].median)
    kept = {series.allocator for series in known + others[: max(0, most - len(known))]}
    return replace(chart, series=tuple(series for series in chart.series if series.allocator in kept))


def _alike(one: Chart, other: Chart) -> bool:
    return one.metric.unit == other.metric.unit and one.axis == other.axis


def _charts(view: CaseView, metric: Metric) -> list[Chart]:
    measured = [row for row in view.rows if row.metric == metric.name and row.statistics is not None]
    fields = [_fields(row) for row in measured]
    values = {key: list(dict.fromkeys(f.get(key, "") for f in fields)) for key in dict.fromkeys(key for f in fields for key in f)}
    axis = _axis(values)
    panel_keys = [key for key, found in values.items() if len(found) > 1 and key != axis]
    panels = list(dict.fromkeys(tuple(f.get(key, "") for key in panel_keys) for f in fields))
    charts = []
    for number, panel in enumerate(panels):
        rows = [
            row for row in view.rows if tuple(_fields(row).get(key, "") for key in panel_keys) == panel and row.metric in (metric.name, "")
        ]
        # A point that failed says which fields it had; one of another phase has no part in this chart.
        rows = [row for row in rows if all(_fields(row).get(k, "") in found for k, found in values.items() if k != axis)]
        fixed = {key: found[0] for key, found in values.items() if len(found) == 1} | dict(zip(panel_keys, panel, strict=True))
        charts.append(
            Chart(
                name=f"{view.suite}-{view.name}-{metric.name}" + (f"-{number}" if len(panels) > 1 else ""),
                case=view.name,
                title=metric.label,
                fixed=", ".join(_field_words(key, value) for key, value in fixed.items() if value),
                size=", ".join(_field_words(key, value) for key, value in fixed.items() if value and key in ("threads", "bytes")),
                metric=metric,
                axis=axis,
                series=_all_series(rows, view.allocators, axis),
            )
        )
    return charts


def _all_series(rows: Sequence[Row], allocators: Sequence[str], axis: str | None) -> tuple[Series, ...]:
    """In the order of all tables; where there is no axis, by value."""
    found = [series for name in allocators if (series := _series(rows, name, axis)) is not None]
    if axis is None:
        found.sort(key=lambda series: series.marks[0].median if series.marks else float("inf"))
    return tuple(found)


def _series(rows: Sequence[Row], allocator: str, axis: str | None) -> Series | None:
    marks: list[Mark] = []
    failures: list[Failure] = []
    for row in rows:
        if row.allocator != allocator:
            continue
        fields = _fields(row)
        x = float(fields[axis]) if axis is not None and fields.get(axis) else 0.0
        where = f" at {_field_words(axis, fields[axis])}" if axis is not None and axis in fields else ""
        if row.statistics is not None and row.ok:
            s = row.statistics
            median, low, high = (format_value(value, row.unit) for value in (s.median, s.p5, s.p95))
            marks.append(Mark(x, s.median, s.p5, s.p95, f"{allocator}{where}: {median} (p5 {low}, p95 {high})"))
        elif row.status != "unsupported":
            failures.append(Failure(x, f"{allocator}{where}: {row.status}" + (f", {row.reason}" if row.reason else "")))
    if not marks and not failures:
        return None
    return Series(allocator, tuple(sorted(marks, key=lambda m: m.x)), tuple(sorted(failures, key=lambda f: f.x)))


def _fields(row: Row) -> dict[str, str]:
    """Everything that tells the row's point apart, as text."""
    fields = {} if row.threads is None else {"threads": str(row.threads)}
    fields |= {} if row.bytes is None else {"bytes": str(row.bytes)}
    return fields | {key: value for key, value in row.parameters.items() if key not in ("reason", "reached")}


def _axis(values: dict[str, list[str]]) -> str | None:
    """The numeric field with the most values, if any varies."""
    varying = {key: found for key, found in values.items() if len(found) > 1 and all(_is_number(v) for v in found)}
    return max(varying, key=lambda key: len(varying[key])) if varying else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _field_words(key: str, value: str) -> str:
    if key == "threads":
        return f"{format_count(int(value))} thread{'' if value == '1' else 's'}"
    if key == "bytes":
        return format_bytes(int(value))
    return f"{key} {value}"
