"""The limits of a suite's measurements: bounds that must be kept, and aims beyond them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError, unknown_name
from gpuheap.formats.points import Draw, Grid, values_of
from gpuheap.formats.results import Row
from gpuheap.metrics import METRICS
from gpuheap.toml_checks import number, table, tables
from gpuheap.units import format_bytes, format_value

KEYS = ("metric", "where", "must", "aim", "each")


@dataclass(frozen=True)
class Condition:
    """A condition on a value of a point: one of several words, or a number within a range."""

    key: str
    words: tuple[str, ...] = ()
    low: float = float("-inf")
    high: float = float("inf")

    def holds(self, value: str | None) -> bool:
        if value is None:
            return False
        if self.words:
            return value in self.words
        try:
            return self.low <= float(value) <= self.high
        except ValueError:
            return False

    def __str__(self) -> str:
        def show(v: float | str) -> str:
            if self.key == "bytes":
                return format_bytes(float(v))
            return f"{float(v):,.0f}" if self.key == "threads" else str(v)

        if self.words:
            shown = " or ".join(show(word) for word in self.words)
        else:
            ends = [show(end) if abs(end) != float("inf") else "" for end in (self.low, self.high)]
            shown = f"{ends[0]} to {ends[1]}" if all(ends) else f"from {ends[0]}" if ends[0] else f"up to {ends[1]}"
        if self.key == "threads":
            return "1 thread" if shown == "1" else f"{shown} threads"
        return shown if self.key == "bytes" else f"{self.key}={shown}"


@dataclass(frozen=True)
class Bound:
    """A limit on one metric at the points of a case that meet all conditions.

    The median of a point must keep the limit; with `each`, every single run must. The metric decides whether the limit is an upper or a lower one.
    """

    metric: str
    where: tuple[Condition, ...]
    must: float | None
    aim: float | None
    each: bool

    @property
    def at_most(self) -> bool:
        return bool(METRICS[self.metric].lower_is_better)

    def covers(self, fields: Mapping[str, str]) -> bool:
        return all(condition.holds(fields.get(condition.key)) for condition in self.where)

    def value_of(self, row: Row) -> float | None:
        if row.statistics is None or not row.ok:
            return None
        if not self.each:
            return row.statistics.median
        return row.statistics.max if self.at_most else row.statistics.min

    def keeps(self, value: float, limit: float | None) -> bool:
        return limit is None or (value <= limit if self.at_most else value >= limit)

    def limit_words(self, limit: float | None) -> str:
        return "" if limit is None else f"{'≤' if self.at_most else '≥'} {format_value(limit, METRICS[self.metric].unit)}"

    @property
    def words(self) -> str:
        conditions = ", ".join(str(condition) for condition in self.where)
        return METRICS[self.metric].label + (" of each run" if self.each else "") + (f": {conditions}" if conditions else "")


def read_bounds(said: Any, grids: Iterable[Grid], path: Path, case: str) -> tuple[Bound, ...]:
    """Reads the bounds of a case. Raises UserError for a mistake, such as a bound that covers no point of the case."""
    grids = tuple(grids)
    axes = {key for grid in grids for key in grid}
    return tuple(_read_bound(entry, grids, axes, path, f"{case}: bounds, entry {n}") for n, entry in _numbered(said, path, case))


def _numbered(said: Any, path: Path, case: str) -> list[tuple[int, dict[str, Any]]]:
    return list(enumerate(tables(said, path, f"{case}: bounds", KEYS), start=1))


def _read_bound(said: dict[str, Any], grids: tuple[Grid, ...], axes: set[str], path: Path, where: str) -> Bound:
    metric = said.get("metric")
    if not isinstance(metric, str) or metric not in METRICS:  # the lookup of a list would raise TypeError
        raise UserError(f"{path}: {where}: {unknown_name('metric', str(metric), METRICS)}")
    if METRICS[metric].lower_is_better is None:
        raise UserError(f"{path}: {where}: {metric} has no better direction, so it cannot have a bound")
    limits = {key: number(said[key], path, f"{where}: {key}") for key in ("must", "aim") if key in said}
    if not limits:
        raise UserError(f"{path}: {where}: the bound has neither must nor aim: give at least one")
    if not isinstance(said.get("each", False), bool):
        raise UserError(f"{path}: {where}: each must be true or false")
    conditions = tuple(
        _read_condition(key, value, path, where) for key, value in table(said.get("where", {}), path, f"{where}: where", axes).items()
    )
    bound = Bound(metric, conditions, limits.get("must"), limits.get("aim"), bool(said.get("each", False)))
    if bound.must is not None and bound.aim is not None and not bound.keeps(bound.aim, bound.must):
        raise UserError(f"{path}: {where}: the aim is weaker than must: swap them")
    if not any(_covers_some(bound, grid) for grid in grids):
        raise UserError(f"{path}: {where}: the bound fits no point of the case")
    return bound


def _covers_some(bound: Bound, grid: Grid) -> bool:
    for condition in bound.where:
        axis = grid.get(condition.key)
        if axis is None:
            return False
        # Random values depend on the seed, so the condition is compared with the range of the axis.
        if isinstance(axis, Draw):
            if not condition.words and (condition.high < axis.low or condition.low > axis.high):
                return False
        elif not any(condition.holds(str(value)) for value in values_of(axis)):
            return False
    return True


def read_condition(key: str, said: Any) -> Condition:
    """Reads a condition. Raises a ValueError that names the expected form."""
    if isinstance(said, str) and ".." in said:
        ends = said.split("..")
        try:
            low, high = (float(end) if end.strip() else None for end in ends)
        except ValueError:
            raise ValueError(f"where {key} is '{said}', expected a range like 16..256, ..256 or 16..") from None
        return Condition(key, (), float("-inf") if low is None else low, float("inf") if high is None else high)
    values = said if isinstance(said, list) else [said]
    if not values or not all(isinstance(v, (int, float, str)) and not isinstance(v, bool) for v in values):
        raise ValueError(f"where {key} must be a value, a list of values or a range like 16..256")
    return Condition(key, tuple(str(value) for value in values))


def _read_condition(key: str, said: Any, path: Path, where: str) -> Condition:
    try:
        return read_condition(key, said)
    except ValueError as error:
        raise UserError(f"{path}: {where}: {error}") from None
