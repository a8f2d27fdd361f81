"""The plots of a case: the axis along x, the scales, the metrics. Settings that the suite leaves out follow from the sweep."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gpuheap.catalogue import ALLOCATORS, BASELINES, MODES
from gpuheap.errors import UserError, unknown_name
from gpuheap.formats.bounds import Condition, read_condition
from gpuheap.formats.points import Axis, Draw, Grid, Value, values_of
from gpuheap.metrics import METRICS
from gpuheap.toml_checks import names, table, text
from gpuheap.units import format_bytes

KEYS = ("x", "curves", "where", "allocators", "metrics", "x_scale", "y_scale", "over", "statistic", "in_bytes", "figure")
WORDS = ("x_scale", "y_scale", "over", "statistic", "figure")
X_SCALES = ("log", "linear", "words")  # words: values side by side in the suite's order
Y_SCALES = ("log", "linear")
STATISTICS = ("median", "mean", "variance")
BYTES_AXES = ("bytes", "page", "heap", "then")


@dataclass(frozen=True)
class Plot:
    """One kind of picture of a case: a panel for each combination of the axes that are neither `x` nor `curves`."""

    grids: tuple[Grid, ...] = ()  # the grids whose points the picture shows; empty: all points
    x: tuple[str, ...] = ()  # one axis, or several whose combinations lie side by side; empty: the axis with the most values
    curves: str = ""  # an axis of which each value has a curve in the same panel
    where: tuple[Condition, ...] = ()
    allocators: tuple[str, ...] = ()  # empty: all
    metrics: tuple[str, ...] = ()  # empty: the case's metrics
    x_scale: str = ""  # empty: chosen by the values
    y_scale: str = ""  # empty: chosen by the metric and the values
    over: str = ""  # the allocator by whose value at the same point each value is divided; empty: none
    statistic: str = "median"
    in_bytes: bool = False  # ratios to the requested bytes are drawn as bytes
    figure: str = ""  # the paper's figure that the plot repeats

    @property
    def axis(self) -> str:
        """The name of the axis along x; empty: the name that the values suggest."""
        return ", ".join(self.x)

    def shows(self, fields: Mapping[str, str]) -> bool:
        """Whether the plot shows a point with these values: it meets all conditions, and lies on a grid or between two points of one."""
        on_grid = not self.grids or any(
            all(key in fields and values.hold(fields[key]) for key, values in sweep.items()) for sweep in self._sweeps
        )
        return on_grid and all(condition.holds(fields.get(condition.key, "")) for condition in self.where)

    def names_all_of(self, fields: Mapping[str, str]) -> bool:
        """Whether a grid has an axis for each value. A value that the command line set for all points has no axis."""
        return any(set(fields) <= set(grid) for grid in self.grids)

    def fields_of(self, fields: Mapping[str, str]) -> Mapping[str, str]:
        """The values of a point as they are drawn: several axes along x become one axis, whose values are words."""
        if len(self.x) < 2 or any(key not in fields for key in self.x):
            return fields
        rest = {key: value for key, value in fields.items() if key not in self.x}
        return rest | {self.axis: _words(self.x, [fields[key] for key in self.x])}

    def place(self, key: str, value: str) -> int:
        """The position of a value along an axis, in the suite's order; unknown values come last."""
        listed = self._places.get(key, {})
        return listed.get(value, len(listed))

    @cached_property
    def _sweeps(self) -> tuple[dict[str, _Values], ...]:
        return tuple({key: _values_of(axis) for key, axis in grid.items()} for grid in self.grids)

    @cached_property
    def _places(self) -> dict[str, dict[str, int]]:
        listed: dict[str, dict[str, None]] = {}
        for grid in self.grids:
            for key, axis in grid.items():
                if not isinstance(axis, Draw):
                    listed.setdefault(key, {}).update(dict.fromkeys(str(value) for value in axis))
            if len(self.x) > 1:
                combined = itertools.product(*(values_of(grid[key]) for key in self.x))
                listed.setdefault(self.axis, {}).update(
                    dict.fromkeys(_words(self.x, [str(value) for value in values]) for values in combined)
                )
        return {key: {value: number for number, value in enumerate(values)} for key, values in listed.items()}


def read_plots(said: Any, grids: Sequence[Grid], metrics: Sequence[str], path: Path, case: str) -> tuple[Plot, ...]:
    """Reads the plots of a case from its key `plot`, a table or a list of tables. Without that key, each grid has a plot.

    `grids` are all grids, including those of a single allocator. `metrics` are the case's metrics; if there are none, any metric will do. Raises
    UserError for a mistake.
    """
    if said is None:
        return tuple(Plot((grid,)) for grid in grids)
    entries = said if isinstance(said, list) else [said]
    found: list[Plot] = []
    for number, entry in enumerate(entries, start=1):
        where = f"{case}: plot" if len(entries) == 1 else f"{case}: plot, entry {number}"
        found += _read_plot(table(entry, path, where, KEYS), grids, metrics or tuple(METRICS), path, where)
    return tuple(found)


def _read_plot(said: dict[str, Any], grids: Sequence[Grid], measured: Sequence[str], path: Path, where: str) -> Sequence[Plot]:
    axes = sorted({key for grid in grids for key in grid})
    x = names([said["x"]] if isinstance(said.get("x"), str) else said.get("x", []), path, f"{where}: x")
    for key, found in [("x", axis) for axis in x] + ([("curves", said["curves"])] if "curves" in said else []):
        if found not in axes:
            raise UserError(f"{path}: {where}: {key}: {unknown_name('axis', str(found), axes)}")
    for key, allowed in (("x_scale", X_SCALES), ("y_scale", Y_SCALES), ("statistic", STATISTICS)):
        if key in said and said[key] not in allowed:
            raise UserError(f"{path}: {where}: {key} is '{said[key]}', expected {' or '.join(allowed)}")
    metrics = names(said.get("metrics", []), path, f"{where}: metrics")
    for metric in metrics:
        if metric not in measured:
            raise UserError(f"{path}: {where}: {unknown_name('metric', metric, measured)}")
    known = [*ALLOCATORS, *MODES, *BASELINES]
    allocators = names(said.get("allocators", []), path, f"{where}: allocators")
    for allocator in (*allocators, *([said["over"]] if "over" in said else [])):
        if allocator not in known:
            raise UserError(f"{path}: {where}: {unknown_name('allocator', str(allocator), known)}")
    in_bytes = said.get("in_bytes", False)
    if not isinstance(in_bytes, bool):
        raise UserError(f"{path}: {where}: in_bytes is '{in_bytes}', expected true or false")
    if in_bytes and not (metrics and all(METRICS[metric].over_requested for metric in metrics)):
        fitting = ", ".join(metric.name for metric in METRICS.values() if metric.over_requested)
        raise UserError(f"{path}: {where}: in_bytes needs metrics that are ratios to requested bytes: {fitting}")
    conditions = []
    for key, value in table(said.get("where", {}), path, f"{where}: where", axes).items():
        try:
            conditions.append(read_condition(key, value))
        except ValueError as error:
            raise UserError(f"{path}: {where}: {error}") from None
    # The plot shows the grids that have all axes along x and, for each condition, a value that meets it.
    meant = [grid for grid in grids if set(x) <= set(grid) and all(_has(grid, condition) for condition in conditions)]
    curves = str(said.get("curves", ""))
    if not meant or (curves and not any(curves in grid for grid in meant)):
        raise UserError(f"{path}: {where}: no sweep of the case has these axes and values")
    words = {key: text(said[key], path, f"{where}: {key}") if key in said else "" for key in WORDS}
    # If the suite names x, the plot shows these grids together. Otherwise each grid has its own plot.
    plot = Plot(
        grids=tuple(meant),
        x=x,
        curves=curves,
        where=tuple(conditions),
        allocators=allocators,
        metrics=metrics,
        x_scale=words["x_scale"],
        y_scale=words["y_scale"],
        over=words["over"],
        statistic=words["statistic"] or "median",
        in_bytes=in_bytes,
        figure=words["figure"],
    )
    return [plot] if x else [replace(plot, grids=(grid,)) for grid in meant]


def default_metrics(measured: Sequence[str]) -> list[str]:
    """The metrics of a plot that names none: of those with a better direction, except failed_requests, the first and all times; all if none is a time."""
    judged = [metric for metric in measured if METRICS[metric].lower_is_better is not None and metric != "failed_requests"]
    times = [metric for metric in judged if METRICS[metric].is_time]
    return [metric for metric in judged if not times or metric in times or metric == judged[0]]


def _words(keys: Sequence[str], values: Sequence[str]) -> str:
    """Values in words: `surface 20K` for a scene and its triangles, `64 × 16 MiB` for threads and bytes, `512 B 4 KiB` for two sizes."""
    words = []
    for key, value in zip(keys, values, strict=True):
        number = int(value) if value.isdigit() else None
        if number is not None and key in BYTES_AXES:
            words.append(format_bytes(number))
        else:
            words.append(f"{number // 1000}K" if number is not None and number >= 10_000 and number % 1000 == 0 else value)
        if key == "threads":
            words.append("×")
    return " ".join(words)


def _has(grid: Grid, condition: Condition) -> bool:
    """Whether some point of a sweep meets a condition. A point without the axis `page` meets `page = ""`."""
    axis: Axis = grid.get(condition.key, ("",))
    values: Sequence[Value] = (axis.low, axis.high) if isinstance(axis, Draw) else axis
    return any(condition.holds(str(value)) for value in values)


@dataclass(frozen=True)
class _Values:
    """The values of an axis as a set. It is made once, because every row of a table is looked up in it."""

    texts: frozenset[str]
    low: float = float("inf")  # the ends of the range in which every number counts; by default the range is empty
    high: float = float("-inf")

    def hold(self, value: str) -> bool:
        if value in self.texts:
            return True
        if self.low > self.high:
            return False
        try:
            return self.low <= float(value) <= self.high
        except ValueError:
            return False


def _values_of(axis: Axis) -> _Values:
    """For an axis of at least three numbers, every number between its ends counts as a value of the axis."""
    if isinstance(axis, Draw):
        return _Values(frozenset(), axis.low, axis.high)
    numbers = [float(value) for value in axis if not isinstance(value, str)]
    sweeps = len(axis) > 2 and len(numbers) == len(axis)
    return _Values(frozenset(map(str, axis)), *((min(numbers), max(numbers)) if sweeps else ()))
