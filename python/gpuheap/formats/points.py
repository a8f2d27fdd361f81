"""The points of a case: every combination of the values on its axes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError, unknown_name
from gpuheap.toml_checks import table, tables, text, whole

DEFAULT_SEED = 1

Value = int | float | str


@dataclass(frozen=True)
class Draw:
    """An axis with random values: `count` different whole numbers from `low` to `high`. The seed decides which."""

    count: int
    low: int
    high: int

    def values(self, seed: int) -> tuple[int, ...]:
        """The numbers in rising order. A seed gives the same numbers on every machine, as Python promises for random()."""
        source = random.Random(seed)
        found: set[int] = set()
        # Ends: the range has at least `count` numbers, and each of them comes up sooner or later.
        while len(found) < self.count:
            found.add(self.low + int(source.random() * (self.high - self.low + 1)))
        return tuple(sorted(found))


Axis = tuple[Value, ...] | Draw
Grid = dict[str, Axis]  # the points are all combinations


@dataclass(frozen=True)
class Point:
    """One combination of values. `threads` and `bytes` have columns of their own in the results; the rest is the parameter."""

    threads: int | None
    bytes: int | None
    others: tuple[tuple[str, str], ...]  # sorted by key

    @property
    def parameter(self) -> str:
        return ";".join(f"{key}={value}" for key, value in self.others)

    @property
    def argument(self) -> str:
        """The text that the executable reads."""
        pairs = [("threads", self.threads), ("bytes", self.bytes)]
        return ",".join([f"{key}={value}" for key, value in pairs if value is not None] + [f"{key}={value}" for key, value in self.others])

    @property
    def fields(self) -> dict[str, str]:
        """Every value as text."""
        pairs = [("threads", self.threads), ("bytes", self.bytes)]
        return {key: str(value) for key, value in pairs if value is not None} | dict(self.others)

    def __str__(self) -> str:
        return self.argument.replace(",", " ")


def make_point(values: Mapping[str, Value]) -> Point:
    others = tuple(sorted((key, str(value)) for key, value in values.items() if key not in ("threads", "bytes")))
    threads, size = values.get("threads"), values.get("bytes")
    return Point(None if threads is None else int(threads), None if size is None else int(size), others)


def values_of(axis: Axis, seed: int = DEFAULT_SEED) -> tuple[Value, ...]:
    return axis.values(seed) if isinstance(axis, Draw) else axis


def numbered_points(grids: Sequence[Grid], seed: int) -> dict[Point, int]:
    """The points, grid after grid; within a grid the last axis varies fastest. Each point comes with the number of the first grid that has it."""
    points: dict[Point, int] = {}
    for number, grid in enumerate(grids):
        axes = [values_of(axis, seed) for axis in grid.values()]
        for values in itertools.product(*axes):
            points.setdefault(make_point(dict(zip(grid, values, strict=True))), number)
    return points


def points_of(grids: Sequence[Grid], seed: int) -> tuple[Point, ...]:
    return tuple(numbered_points(grids, seed))


def ends_of(grid: Grid) -> Grid:
    """The axes, each reduced to two values: its first and its last, or two random ones of a Draw."""
    ends: Grid = {}
    for key, axis in grid.items():
        if isinstance(axis, Draw):
            ends[key] = Draw(min(axis.count, 2), axis.low, axis.high)
        else:
            ends[key] = axis if len(axis) < 3 else (axis[0], axis[-1])
    return ends


def read_grids(said: Any, simulator: Any, path: Path, where: str, lists: Mapping[str, Any] | None = None) -> tuple[Grid, ...]:
    """The grids of a case: a table of axes, or a list of such tables. `lists` are the suite's named lists of values.

    `simulator` has the simulator's replacements: a table replaces axes of the same name in every grid, a list replaces the grids.
    """
    entries = simulator if isinstance(simulator, list) else said
    shown = f"{where}: axes"
    grids = [
        _read_grid(entry, path, where, lists or {})
        for entry in (tables(entries, path, shown, None) if isinstance(entries, list) else [entries])
    ]
    if isinstance(simulator, dict):
        over = _read_grid(simulator, path, f"{where}: simulator", lists or {})
        grids = [{**grid, **over} for grid in grids]
    elif not isinstance(simulator, list):
        raise UserError(f"{path}: {where}: simulator: axes is not a table or a list of tables")
    if not grids:
        raise UserError(f"{path}: {shown} is an empty list")
    # Two grids may be equal after the replacement.
    return tuple(grid for number, grid in enumerate(grids) if grid not in grids[:number])


def _read_grid(said: Any, path: Path, where: str, lists: Mapping[str, Any]) -> Grid:
    grid: Grid = {}
    for key, values in table(said, path, f"{where}: axes", None).items():
        if set(key) & set(",;="):
            raise UserError(f"{path}: {where}: axis '{key}' must not contain any of , ; =")
        shown = f"{where}: axis '{key}'"
        if isinstance(values, dict) and "draw" in values:
            grid[key] = _read_draw(values, path, shown)
        else:
            grid[key] = _read_values(key, _by_rule(values, path, shown, lists), path, where)
    return grid


def _by_rule(values: Any, path: Path, where: str, lists: Mapping[str, Any]) -> Any:
    """The values that a table stands for: one of the suite's lists, or numbers at equal distances or ratios. Other values are returned as they are."""
    if not isinstance(values, dict):
        return values
    if "list" in values:
        name = text(table(values, path, where, ("list",))["list"], path, f"{where}: list")
        if name not in lists:
            raise UserError(f"{path}: {where}: {unknown_name('list of suite.lists', name, lists)}")
        return lists[name]
    table(values, path, where, ("from", "to", "step", "times", "draw"))
    first, last = (whole(values.get(key), path, f"{where}: {key}") for key in ("from", "to"))
    if ("step" in values) == ("times" in values):
        raise UserError(f"{path}: {where}: give exactly one of draw, step and times, which chooses the numbers from {first} to {last}")
    if "step" in values:
        return list(range(first, last + 1, whole(values["step"], path, f"{where}: step")))
    times = whole(values["times"], path, f"{where}: times")
    if times < 2:
        raise UserError(f"{path}: {where}: times must be 2 or more")
    found = []
    # Ends: each number is at least twice the one before.
    while first <= last:
        found.append(first)
        first *= times
    return found


def _read_draw(said: dict[str, Any], path: Path, where: str) -> Draw:
    table(said, path, where, ("draw", "from", "to"))
    draw = Draw(*(whole(said.get(key), path, f"{where}: {key}") for key in ("draw", "from", "to")))
    if draw.high - draw.low + 1 < 2 * draw.count:
        raise UserError(f"{path}: {where}: {draw.count} numbers cannot be drawn from {draw.low} to {draw.high}: draw at most half of the numbers there")
    return draw


def _read_values(key: str, values: Any, path: Path, where: str) -> tuple[Value, ...]:
    values = values if isinstance(values, list) else [values]
    if not values or not all(isinstance(v, (int, float, str)) and not isinstance(v, bool) for v in values):
        raise UserError(f"{path}: {where}: axis '{key}' must be a list of numbers or words")
    if key in ("threads", "bytes") and not all(isinstance(v, int) and v > 0 for v in values):
        raise UserError(f"{path}: {where}: axis '{key}' must be a list of positive whole numbers")
    if any(isinstance(v, str) and set(v) & set(",;=") for v in values):
        raise UserError(f"{path}: {where}: axis '{key}' must not contain any of , ; =")
    if len(set(values)) != len(values):
        raise UserError(f"{path}: {where}: axis '{key}' has a value twice")
    return tuple(values)
