"""Benchmark suites: TOML files that say which cases run at which points."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError, unknown_name
from gpuheap.metrics import METRICS
from gpuheap.paths import Layout
from gpuheap.units import parse_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Value = int | float | str
Axes = dict[str, tuple[Value, ...]]

_SUITE_KEYS = {"name", "brief", "allocators", "baselines"}
_CASE_KEYS = {"name", "section", "brief", "heap_bytes", "runs", "timeout_s", "axes", "headline", "metrics", "baselines", "host"}
_HOST_KEYS = {"heap_bytes", "runs", "timeout_s", "axes", "headline"}


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
        """As the executable reads it."""
        pairs = [("threads", self.threads), ("bytes", self.bytes)]
        return ",".join([f"{key}={value}" for key, value in pairs if value is not None] + [f"{key}={value}" for key, value in self.others])

    def __str__(self) -> str:
        return self.argument.replace(",", " ")


@dataclass(frozen=True)
class Case:
    """A case of a suite, for one backend."""

    name: str
    section: str
    brief: str
    heap_bytes: int
    runs: int
    timeout_s: float
    axes: Axes
    headline: dict[str, Value]
    metrics: tuple[str, ...]
    baselines: tuple[str, ...]

    def points(self) -> tuple[Point, ...]:
        """Every combination of the axes; the last axis varies fastest."""
        return tuple(make_point(dict(zip(self.axes, values, strict=True))) for values in itertools.product(*self.axes.values()))

    def headline_point(self) -> Point:
        """The point that summaries show."""
        return make_point({key: self.headline.get(key, values[0]) for key, values in self.axes.items()})

    def cut(self) -> Case:
        """The same sweep with the ends of each axis only and three runs at most."""
        ends: Axes = {key: values if len(values) < 3 else (values[0], values[-1]) for key, values in self.axes.items()}
        headline = {key: value for key, value in self.headline.items() if value in ends[key]}
        return Case(**{**vars(self), "axes": ends, "headline": headline, "runs": min(self.runs, 3)})


@dataclass(frozen=True)
class Suite:
    name: str
    brief: str
    path: Path
    allocators: tuple[str, ...]  # empty: all that the executable has
    cases: dict[str, dict[str, Case]]  # name, then backend

    def case(self, name: str, backend: str) -> Case:
        return self.cases[name][backend]


def make_point(values: Mapping[str, Value]) -> Point:
    others = tuple(sorted((key, str(value)) for key, value in values.items() if key not in ("threads", "bytes")))
    threads, size = values.get("threads"), values.get("bytes")
    return Point(None if threads is None else int(threads), None if size is None else int(size), others)


def load_suites(layout: Layout) -> dict[str, Suite]:
    """Every suite of the checkout, by name."""
    suites: dict[str, Suite] = {}
    for path in sorted(layout.suites.glob("*.toml")):
        suite = load_suite(path)
        if suite.name in suites:
            raise UserError(f"{layout.shown(path)}: suite '{suite.name}' is also in {suites[suite.name].path.name}")
        suites[suite.name] = suite
    if not suites:
        raise UserError(f"no suites in {layout.suites}")
    return suites


def load_suite(path: Path) -> Suite:
    """Reads and checks one file. Every complaint names the file and the key."""
    try:
        with path.open("rb") as file:
            said = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: {error}") from None
    suite = _table(said.get("suite"), path, "[suite]", _SUITE_KEYS)
    name = _text(suite.get("name"), path, "suite.name")
    baselines = _names(suite.get("baselines", []), path, "suite.baselines")
    cases: dict[str, dict[str, Case]] = {}
    for entry in said.get("case", []):
        case = _case(entry, path, baselines)
        if case["cuda"].name in cases:
            raise UserError(f"{path}: case '{case['cuda'].name}' comes twice")
        cases[case["cuda"].name] = case
    if not cases:
        raise UserError(f"{path}: the suite has no [[case]]")
    return Suite(name, str(suite.get("brief", "")), path, _names(suite.get("allocators", []), path, "suite.allocators"), cases)


def select(suites: Mapping[str, Suite], targets: list[str]) -> list[tuple[Suite, tuple[str, ...]]]:
    """What the command line names: suites, cases (of the first suite that has them, `quick` before others), or `suite/case`."""
    ordered = sorted(suites.values(), key=lambda suite: (suite.name != "quick", suite.name))
    chosen: dict[str, list[str]] = {}
    for target in targets:
        suite_name, _, case_name = target.partition("/")
        if case_name:
            if suite_name not in suites:
                raise unknown_name("suite", suite_name, suites)
            if case_name not in suites[suite_name].cases:
                raise unknown_name(f"case of suite {suite_name}", case_name, suites[suite_name].cases)
            wanted = [case_name]
        elif target in suites:
            wanted = list(suites[target].cases)
        else:
            holder = next((suite for suite in ordered if target in suite.cases), None)
            if holder is None:
                raise unknown_name("suite or case", target, [*suites, *(case for suite in ordered for case in suite.cases)])
            suite_name, wanted = holder.name, [target]
        cases = chosen.setdefault(suite_name, [])
        cases += [case for case in wanted if case not in cases]
    return [(suites[name], tuple(case for case in suites[name].cases if case in cases)) for name, cases in chosen.items()]


def _case(entry: Any, path: Path, suite_baselines: tuple[str, ...]) -> dict[str, Case]:
    """The case for each backend: `host` overrides what it names; its axes replace those of the same name."""
    table = _table(entry, path, "[[case]]", _CASE_KEYS)
    name = _text(table.get("name"), path, "case.name")
    host = _table(table.get("host", {}), path, f"{name}: [case.host]", _HOST_KEYS)
    metrics = _names(table.get("metrics", []), path, f"{name}: metrics")
    for metric in metrics:
        if metric not in METRICS:
            raise UserError(f"{path}: {name}: {unknown_name('metric', metric, METRICS)}")
    made: dict[str, Case] = {}
    for backend, over in (("cuda", {}), ("host", host)):
        axes = {**_axes(table.get("axes", {}), path, name), **_axes(over.get("axes", {}), path, f"{name}: host")}
        headline = dict(_table(over.get("headline", table.get("headline", {})), path, f"{name}: headline", set(axes)))
        for key in list(headline):
            if headline[key] not in axes[key]:
                if "headline" in over or backend == "cuda":
                    raise UserError(f"{path}: {name}: headline {key}={headline[key]} is not on that axis")
                del headline[key]
        made[backend] = Case(
            name=name,
            section=str(table.get("section", "")),
            brief=str(table.get("brief", "")),
            heap_bytes=parse_bytes(over.get("heap_bytes", table.get("heap_bytes", 0)), f"{path}: {name}: heap_bytes"),
            runs=_whole(over.get("runs", table.get("runs", 10)), path, f"{name}: runs"),
            timeout_s=float(_positive(over.get("timeout_s", table.get("timeout_s", 60)), path, f"{name}: timeout_s")),
            axes=axes,
            headline=headline,
            metrics=metrics,
            baselines=_names(table.get("baselines", list(suite_baselines)), path, f"{name}: baselines"),
        )
    return made


def _axes(said: Any, path: Path, where: str) -> Axes:
    axes: Axes = {}
    for key, values in _table(said, path, f"{where}: axes", None).items():
        values = values if isinstance(values, list) else [values]
        if not values or not all(isinstance(v, (int, float, str)) and not isinstance(v, bool) for v in values):
            raise UserError(f"{path}: {where}: axis '{key}' must be a list of numbers or words")
        if key in ("threads", "bytes") and not all(isinstance(v, int) and v > 0 for v in values):
            raise UserError(f"{path}: {where}: axis '{key}' must be a list of positive whole numbers")
        if any(isinstance(v, str) and set(v) & set(",;=") for v in values) or set(key) & set(",;="):
            raise UserError(f"{path}: {where}: axis '{key}' must not contain any of , ; =")
        if len(set(values)) != len(values):
            raise UserError(f"{path}: {where}: axis '{key}' has a value twice")
        axes[key] = tuple(values)
    return axes


def _table(said: Any, path: Path, where: str, keys: set[str] | None) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise UserError(f"{path}: {where} is missing or not a table")
    for key in said:
        if keys is not None and key not in keys:
            raise UserError(f"{path}: {where}: {unknown_name('key', key, keys)}")
    return said


def _text(said: Any, path: Path, where: str) -> str:
    if not isinstance(said, str) or not said:
        raise UserError(f"{path}: {where} is missing")
    return said


def _names(said: Any, path: Path, where: str) -> tuple[str, ...]:
    if not isinstance(said, list) or not all(isinstance(name, str) for name in said):
        raise UserError(f"{path}: {where} must be a list of names")
    return tuple(said)


def _whole(said: Any, path: Path, where: str) -> int:
    if not isinstance(said, int) or isinstance(said, bool) or said <= 0:
        raise UserError(f"{path}: {where} must be a positive whole number")
    return said


def _positive(said: Any, path: Path, where: str) -> int | float:
    if not isinstance(said, (int, float)) or isinstance(said, bool) or said <= 0:
        raise UserError(f"{path}: {where} must be a positive number")
    return said
