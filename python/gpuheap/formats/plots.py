"""How a case is drawn: which axis lies along x, which scales, which metrics. What a suite does not say follows from the sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError, unknown_name
from gpuheap.formats.points import Axis, Draw, Grid, values_of
from gpuheap.metrics import METRICS
from gpuheap.toml_checks import names, table, text

KEYS = ("x", "curves", "where", "metrics", "x_scale", "y_scale", "over", "statistic", "figure")
X_SCALES = ("log", "linear", "words")  # words: values side by side in the suite's order
Y_SCALES = ("log", "linear")
STATISTICS = ("median", "variance")


@dataclass(frozen=True)
class Plot:
    """One kind of picture of a case: a panel for each combination of what is neither `x` nor `curves`."""

    grid: Grid = field(default_factory=dict)  # the points it shows; empty: all
    x: str = ""  # an axis; empty: the one with the most values
    curves: str = ""  # an axis whose values are curves of one panel
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()  # empty: those that the case is about
    x_scale: str = ""  # empty: by the values
    y_scale: str = ""  # empty: by the metric and the values
    over: str = ""  # values are ratios to this allocator's at the same point
    statistic: str = "median"
    figure: str = ""  # of the paper

    def shows(self, fields: Mapping[str, str]) -> bool:
        """Whether a point with these values is on the sweep, or between its points: a finer sweep is drawn like it."""
        on_grid = all(key in fields and (_lies_on(axis, fields[key]) or _lies_within(axis, fields[key])) for key, axis in self.grid.items())
        return on_grid and all(fields.get(key) in values for key, values in self.where.items())

    def names_all_of(self, fields: Mapping[str, str]) -> bool:
        """Whether the sweep has an axis for each value. What a command line changed for all points has none."""
        return set(fields) <= set(self.grid)

    def place(self, key: str, value: str) -> int:
        """Where a value comes along an axis, as the suite lists it; unknown values last."""
        axis = self.grid.get(key)
        listed = [str(v) for v in axis] if axis is not None and not isinstance(axis, Draw) else []
        return listed.index(value) if value in listed else len(listed)


def read_plots(said: Any, grids: Sequence[Grid], path: Path, case: str) -> tuple[Plot, ...]:
    """The plots of a case: what `plot` says, a table or a list of tables; without it one for each sweep."""
    if said is None:
        return tuple(Plot(grid) for grid in grids)
    entries = said if isinstance(said, list) else [said]
    found: list[Plot] = []
    for number, entry in enumerate(entries, start=1):
        where = f"{case}: plot" if len(entries) == 1 else f"{case}: plot, entry {number}"
        found += _read_plot(table(entry, path, where, KEYS), grids, path, where)
    return tuple(found)


def _read_plot(said: dict[str, Any], grids: Sequence[Grid], path: Path, where: str) -> Iterable[Plot]:
    axes = {key for grid in grids for key in grid}
    for key in ("x", "curves"):
        if key in said and said[key] not in axes:
            raise UserError(f"{path}: {where}: {key}: {unknown_name('axis', str(said[key]), axes)}")
    for key, allowed in (("x_scale", X_SCALES), ("y_scale", Y_SCALES), ("statistic", STATISTICS)):
        if key in said and said[key] not in allowed:
            raise UserError(f"{path}: {where}: {key} is '{said[key]}', expected {' or '.join(allowed)}")
    metrics = names(said.get("metrics", []), path, f"{where}: metrics")
    for metric in metrics:
        if metric not in METRICS:
            raise UserError(f"{path}: {where}: {unknown_name('metric', metric, METRICS)}")
    conditions = {
        key: tuple(str(v) for v in (value if isinstance(value, list) else [value]))
        for key, value in table(said.get("where", {}), path, f"{where}: where", axes).items()
    }
    # The sweeps that have the axes it names, and some of the values.
    meant = [
        grid
        for grid in grids
        if all(said[key] in grid for key in ("x", "curves") if key in said)
        and all(key in grid and any(_lies_on(grid[key], value) for value in values) for key, values in conditions.items())
    ]
    if not meant:
        raise UserError(f"{path}: {where}: no sweep of the case has these axes and values")
    words = {key: text(said[key], path, f"{where}: {key}") for key in KEYS if key in said and key not in ("where", "metrics")}
    return [Plot(grid=grid, where=conditions, metrics=metrics, **words) for grid in meant]


def default_metrics(measured: Sequence[str]) -> list[str]:
    """What pictures show where the suite does not say: the case's first metric and all times; without times, all that has a better end."""
    judged = [metric for metric in measured if METRICS[metric].lower_is_better is not None and metric != "nulls"]
    times = [metric for metric in judged if METRICS[metric].is_time]
    return [metric for metric in judged if not times or metric in times or metric == judged[0]]


def _lies_on(axis: Axis, value: str) -> bool:
    if isinstance(axis, Draw):
        return value.isdigit() and axis.low <= int(value) <= axis.high
    return value in {str(v) for v in values_of(axis)}


def _lies_within(axis: Axis, value: str) -> bool:
    """Whether a number lies between the ends of an axis of numbers that sweeps: one of three values at least."""
    values = values_of(axis)
    if len(values) < 3 or not all(isinstance(v, (int, float)) for v in values):
        return False
    try:
        return min(float(v) for v in values) <= float(value) <= max(float(v) for v in values)
    except ValueError:
        return False
