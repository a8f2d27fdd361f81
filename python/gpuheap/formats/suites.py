"""Benchmark suites: TOML files that say which cases run at which points."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuheap import toml_checks
from gpuheap.catalogue import MODES
from gpuheap.errors import UserError, unknown_name
from gpuheap.files import check_file
from gpuheap.formats.bounds import Bound, read_bounds
from gpuheap.formats.plots import Plot, read_plots
from gpuheap.formats.points import DEFAULT_SEED, Grid, Point, Value, ends_of, make_point, numbered_points, read_grids, values_of
from gpuheap.formats.results import NAME
from gpuheap.formats.slowdowns import Slowdown, read_slowdown
from gpuheap.metrics import METRICS
from gpuheap.paths import Layout
from gpuheap.units import parse_bytes

_SUITE_KEYS = {"name", "brief", "paper", "lists", "allocators", "baselines", "bounds", "programs", "instrument"}
_BOUNDS_KEYS = {"of", "on"}
_SIMULATOR_KEYS = {"heap_bytes", "runs", "timeout_s", "enough_s", "axes", "headline", "bounds", "quick", "full", "variants"}
_CASE_KEYS = _SIMULATOR_KEYS | {"name", "section", "paper", "brief", "metrics", "baselines", "plot", "simulator", "slowdown", "command"}
# The fewest runs of a finished point on a GPU, and of a case in a paper's suite.
FEWEST_RUNS = 5
SHORTEST_TIMEOUT_S = 60
QUICK_RUNS = 3
# The ways to measure the programs of a suite: timed runs, the GPU's counters (by Nsight Compute), or the probe of the driver's allocators.
TIMES, COUNTERS, PROBE = INSTRUMENTS = ("times", "counters", "probe")
ALL = "all"  # on the command line: every suite but `quick`
_FILE_TARGET = re.compile(r"(?P<path>.*\.toml)(/(?P<case>[^/]*))?", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    """A case of a suite, for one backend."""

    name: str
    section: str
    brief: str
    heap_bytes: int
    runs: int
    timeout_s: float
    grids: tuple[Grid, ...]
    headline: dict[str, Value]
    metrics: tuple[str, ...]
    baselines: tuple[str, ...]
    bounds: tuple[Bound, ...]
    paper: str = ""  # the section or figure of the suite's paper that has the case
    enough_s: float = 0.0  # a point that has taken this many seconds makes at most five runs; 0: it makes all runs
    fewest_runs: int = 1  # --quick leaves a point at least this many runs, if it has so many
    quick_grids: tuple[Grid, ...] = ()  # for --quick, in place of `grids`; empty: the ends of each axis
    full_grids: tuple[Grid, ...] = ()  # for --full, in place of `grids`; empty: `grids` stay
    slowdown: Slowdown | None = None  # rows that are computed from the other rows after all points have run
    variants: dict[str, Grid] = dataclasses.field(default_factory=dict)  # by allocator: the axes of points that it has in addition to the common ones
    plots: tuple[Plot, ...] = ()
    command: tuple[str, ...] = ()  # in a suite of programs: the program and its arguments, before those of a point

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of all axes."""
        return tuple(dict.fromkeys(key for grid in (*self.grids, *self.variants.values()) for key in grid))

    def points(self, seed: int = DEFAULT_SEED, allocator: str = "") -> tuple[Point, ...]:
        """Every combination of the axes; the last axis varies fastest. An allocator with variants has its own points after these."""
        return tuple(self.numbered_points(seed, allocator))

    def numbered_points(self, seed: int = DEFAULT_SEED, allocator: str = "") -> dict[Point, int]:
        """The points, each with the number of its grid. Failures in one grid say nothing about the points of another."""
        more = self.variants.get(allocator, {})
        return numbered_points((*self.grids, *({**grid, **more} for grid in self.grids if more)), seed)

    def headline_point(self) -> Point:
        """The point that summaries show."""
        grid = next((grid for grid in self.grids if _holds(grid, self.headline)), self.grids[0])
        return make_point({key: self.headline.get(key, values_of(axis)[0]) for key, axis in grid.items()})

    def cut(self) -> Case:
        """The case for --quick: the suite's quick grids, or the ends of each axis, and few runs."""
        grids = self.quick_grids or tuple(ends_of(grid) for grid in self.grids)
        variants = {name: ends_of(grid) for name, grid in self.variants.items()}
        return dataclasses.replace(self._with(grids), variants=variants, runs=min(self.runs, max(QUICK_RUNS, self.fewest_runs)))

    def widened(self) -> Case:
        """The case for --full: with the suite's full grids, if it has any."""
        return self._with(self.full_grids) if self.full_grids else self

    def runs_that_count(self) -> int:
        """The fewest runs with which a point counts as finished."""
        return min(self.runs, FEWEST_RUNS) if self.enough_s else self.runs

    def _with(self, grids: tuple[Grid, ...]) -> Case:
        headline = self.headline if any(_holds(grid, self.headline) for grid in grids) else {}
        return dataclasses.replace(self, grids=grids, headline=headline)


@dataclass(frozen=True)
class Suite:
    name: str
    brief: str
    path: Path
    allocators: tuple[str, ...]  # empty: all that the executable has
    cases: dict[str, dict[str, Case]]  # name, then backend
    bounds_of: tuple[str, ...] = ()  # the allocators that the cases' bounds are for
    bounds_on: str = ""  # the device that the bounds are stated for
    paper: str = ""  # the paper whose evaluation the suite repeats
    programs: bool = False  # the cases are whole programs, and the allocators are the ways in which a program gets its memory
    instrument: str = TIMES  # of programs: one of INSTRUMENTS

    def case(self, name: str, backend: str) -> Case:
        return self.cases[name][backend]


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
    """Reads and checks one file. Raises UserError for a mistake, and names the file and the key."""
    said, _ = toml_checks.read(path)
    suite = toml_checks.table(said.get("suite"), path, "[suite]", _SUITE_KEYS)
    name = _name(suite.get("name"), path, "suite.name")
    if name == ALL:
        raise UserError(f"{path}: suite.name is '{ALL}', which stands for all suites on the command line: choose another name")
    baselines = toml_checks.names(suite.get("baselines", []), path, "suite.baselines")
    paper = str(suite.get("paper", ""))
    lists = toml_checks.table(suite.get("lists", {}), path, "suite.lists", None)
    programs = bool(suite.get("programs", False))
    instrument = toml_checks.text(suite.get("instrument", TIMES), path, "suite.instrument")
    if instrument not in INSTRUMENTS:
        raise UserError(f"{path}: {unknown_name('suite.instrument', instrument, INSTRUMENTS)}")
    if instrument != TIMES and not programs:
        raise UserError(f"{path}: suite.instrument is for suites with programs = true")
    cases: dict[str, dict[str, Case]] = {}
    for entry in toml_checks.tables(said.get("case", []), path, "[[case]]", None):
        case = _case(entry, path, baselines, lists, programs)
        if paper:
            _check_of_paper(case["cuda"], path, 1 if instrument == COUNTERS else FEWEST_RUNS)
        if case["cuda"].name in cases:
            raise UserError(f"{path}: case '{case['cuda'].name}' comes twice")
        cases[case["cuda"].name] = case
    if not cases:
        raise UserError(f"{path}: the suite has no [[case]]")
    if programs and not suite.get("allocators"):
        raise UserError(f"{path}: suite.allocators is missing: it names the ways in which the programs get their memory, such as {', '.join(MODES)}")
    bounds = toml_checks.table(suite.get("bounds", {}), path, "suite.bounds", _BOUNDS_KEYS)
    bounds_of = toml_checks.names(bounds.get("of", []), path, "suite.bounds.of")
    if not bounds_of and any(case.bounds for backends in cases.values() for case in backends.values()):
        raise UserError(f"{path}: cases have bounds, and suite.bounds.of names no allocator: write bounds = {{ of = [\"sharded_spans\"] }} into [suite]")
    return Suite(
        name=name,
        brief=str(suite.get("brief", "")),
        path=path,
        allocators=toml_checks.names(suite.get("allocators", []), path, "suite.allocators"),
        cases=cases,
        bounds_of=bounds_of,
        bounds_on=str(bounds.get("on", "")),
        paper=paper,
        programs=programs,
        instrument=instrument,
    )


def add_files(suites: Mapping[str, Suite], targets: Sequence[str]) -> tuple[dict[str, Suite], tuple[str, ...]]:
    """The suites and those whose files the targets name, and the targets with the name of the suite in place of its file.

    A file is named as FILE.toml, or with one of its cases as FILE.toml/CASE. Raises UserError for a file that cannot be used, and for one whose suite has the
    name of a suite from another file.
    """
    known, named = dict(suites), []
    for target in targets:
        found = _FILE_TARGET.fullmatch(target)
        if found is None:
            named.append(target)
            continue
        path = Path(found["path"])
        if path.stem in suites and not path.exists():
            raise UserError(f"there is no file '{path}': did you mean the suite '{path.stem}'?")
        check_file(path, "SUITE", f"the file of a suite, as docs/benchmarks.md shows one, or one of the suites {', '.join(suites)}")
        suite = load_suite(path)
        other = known.setdefault(suite.name, suite)
        if not os.path.samefile(other.path, path):
            raise UserError(f"{path}: suite.name is '{suite.name}', as in {other.path}, and both would write {suite.name}.csv: choose another name")
        named.append(f"{suite.name}/{found['case']}" if found["case"] else suite.name)
    return known, tuple(named)


def select(suites: Mapping[str, Suite], targets: list[str]) -> list[tuple[Suite, tuple[str, ...]]]:
    """The cases that the command line names, by suite. Each target is a suite, a case, `suite/case` or `all`.

    A case without a suite is taken from the first suite that has it: `quick`, then a suite of no paper, then a suite of a paper. Suites that measure only one
    allocator come last. `all` is every suite but `quick`, whose cases other suites have too. Raises UserError for an unknown name.
    """
    ordered = sorted(suites.values(), key=lambda suite: (suite.name != "quick", len(suite.allocators) == 1, suite.paper != "", suite.name))
    chosen: dict[str, list[str]] = {}
    whole = [name for name in suites if name != "quick"]
    for target in [name for named in targets for name in (whole if named == ALL else [named])]:
        suite_name, _, case_name = target.partition("/")
        if case_name:
            if suite_name not in suites:
                # A target with two slashes names no case of a suite, so the error quotes the whole target.
                raise _no_suite_file(target) or unknown_name("suite", target if "/" in case_name or not suite_name else suite_name, suites)
            if case_name not in suites[suite_name].cases:
                raise unknown_name(f"case of suite {suite_name}", case_name, suites[suite_name].cases)
            wanted = [case_name]
        elif target in suites:
            wanted = list(suites[target].cases)
        else:
            holder = next((suite for suite in ordered if target in suite.cases), None)
            if holder is None:
                raise _no_suite_file(target) or unknown_name("suite or case", target, [*suites, *(case for suite in ordered for case in suite.cases)])
            suite_name, wanted = holder.name, [target]
        cases = chosen.setdefault(suite_name, [])
        cases += [case for case in wanted if case not in cases]
    return [(suites[name], tuple(case for case in suites[name].cases if case in cases)) for name, cases in chosen.items()]


def _no_suite_file(target: str) -> UserError | None:
    """The error for an unknown target that is a path; None if it is none."""
    if os.path.isdir(target):
        return UserError(f"'{target}' is a folder: name the file of a suite in it, or a suite")
    if os.path.exists(target):
        return UserError(f"'{target}' is neither a suite nor a case, and the name of a suite's file ends in .toml: rename the file if it is a suite")
    return UserError(f"there is no suite or case '{target}': did you mean the file '{target}.toml'?") if os.path.isfile(f"{target}.toml") else None


def _check_of_paper(case: Case, path: Path, fewest_runs: int) -> None:
    """Checks a case of a paper's suite. It needs `fewest_runs` runs or more: one suffices for counters, because each run of a program counts the same."""
    if not case.paper:
        raise UserError(f"{path}: {case.name}: paper is missing: it says where the suite's paper has the case, such as 'section 4.1'")
    if case.runs < fewest_runs:
        raise UserError(f"{path}: {case.name}: runs is {case.runs}: a case of a paper's suite has at least {fewest_runs}")
    if case.timeout_s < SHORTEST_TIMEOUT_S:
        least = f"a point of a paper's suite has at least {SHORTEST_TIMEOUT_S} s"
        raise UserError(f"{path}: {case.name}: timeout_s is {case.timeout_s:g}: {least}")


def _name(said: Any, path: Path, where: str) -> str:
    """A name that may stand in a table."""
    name = toml_checks.text(said, path, where)
    if not NAME.fullmatch(name):
        raise UserError(f"{path}: {where} is '{name}': expected a letter, then letters, digits and underscores")
    return name


def _case(entry: Any, path: Path, suite_baselines: tuple[str, ...], lists: Mapping[str, Any], program: bool) -> dict[str, Case]:
    """The case for each backend. Its table `simulator` overrides the keys that it names. Bounds outside of that table hold on the GPU only."""
    said = toml_checks.table(entry, path, "[[case]]", _CASE_KEYS)
    name = _name(said.get("name"), path, "case.name")
    simulator = toml_checks.table(said.get("simulator", {}), path, f"{name}: [case.simulator]", _SIMULATOR_KEYS)
    metrics = toml_checks.names(said.get("metrics", []), path, f"{name}: metrics")
    for metric in metrics:
        if metric not in METRICS:
            raise UserError(f"{path}: {name}: {unknown_name('metric', metric, METRICS)}")
    command = toml_checks.names(said.get("command", []), path, f"{name}: command")
    if program != bool(command):
        raise UserError(f"{path}: {name}: {'command is missing' if program else 'command is for suites with programs = true'}")
    made: dict[str, Case] = {}
    for backend, over in (("cuda", {}), ("simulator", simulator)):
        grids = read_grids(said.get("axes", {}), over.get("axes", {}), path, name, lists)
        # The GPU's grids for --quick and --full are too large for the simulator, so it has only those that its own table names.
        own = said if backend == "cuda" else over
        others = {key: read_grids(own[key], {}, path, f"{name}: {key}", lists) if key in own else () for key in ("quick", "full")}
        paper = str(said.get("paper", ""))
        axes = {key for grid in grids for key in grid}
        inherited = backend == "simulator" and "headline" not in over  # then the headline loses the values that the simulator's axes lack
        named = over.get("headline", said.get("headline", {}))
        headline = dict(toml_checks.table(named, path, f"{name}: headline", None if inherited else axes))
        for key in list(headline):
            if not any(_holds(grid, {key: headline[key]}) for grid in grids):
                if not inherited:
                    raise UserError(f"{path}: {name}: headline {key}={headline[key]} is not on that axis")
                del headline[key]
        if not any(_holds(grid, headline) for grid in grids):
            if not inherited:
                raise UserError(f"{path}: {name}: the headline is not a point of the case")
            headline = {}
        bounds = said.get("bounds", []) if backend == "cuda" else over.get("bounds", [])
        variants = _variants(over.get("variants", said.get("variants", {})), path, name)
        made[backend] = Case(
            name=name,
            section=str(said.get("section", "")),
            brief=str(said.get("brief", "")),
            # The benchmark makes no heap for a program.
            heap_bytes=0 if command else _heap_bytes(over.get("heap_bytes", said.get("heap_bytes")), path, name),
            runs=toml_checks.whole(over.get("runs", said.get("runs", 10)), path, f"{name}: runs"),
            timeout_s=float(toml_checks.positive(over.get("timeout_s", said.get("timeout_s", 60)), path, f"{name}: timeout_s")),
            grids=grids,
            headline=headline,
            metrics=metrics,
            baselines=toml_checks.names(said.get("baselines", list(suite_baselines)), path, f"{name}: baselines"),
            bounds=read_bounds(bounds, grids, path, name if backend == "cuda" else f"{name}: simulator"),
            paper=paper,
            enough_s=toml_checks.number(over.get("enough_s", said.get("enough_s", 0)), path, f"{name}: enough_s"),
            fewest_runs=FEWEST_RUNS if backend == "cuda" else 1,
            quick_grids=others["quick"],
            full_grids=others["full"],
            slowdown=read_slowdown(said.get("slowdown"), path, name),
            variants=variants,
            # Pictures show what GPUs measured.
            plots=read_plots(said.get("plot"), with_variants(others["full"] or grids, variants), metrics, path, name)
            if backend == "cuda"
            else (),
            command=command,
        )
    return made


def _heap_bytes(said: Any, path: Path, name: str) -> int:
    if said is None:
        raise UserError(f"{path}: {name}: heap_bytes is missing: write the size of the case's heap, as heap_bytes = \"1GiB\"")
    return parse_bytes(said, f"{path}: {name}: heap_bytes")


def with_variants(grids: Sequence[Grid], variants: Mapping[str, Grid]) -> tuple[Grid, ...]:
    """The grids of a case. The grids that only one allocator has come last."""
    return (*grids, *({**grid, **more} for more in variants.values() if more for grid in grids))


def _variants(said: Any, path: Path, name: str) -> dict[str, Grid]:
    entries = toml_checks.table(said, path, f"{name}: variants", None)
    return {allocator: read_grids(axes, {}, path, f"{name}: variants of {allocator}")[0] for allocator, axes in entries.items()}


def _holds(grid: Grid, values: Mapping[str, Value]) -> bool:
    """Whether some point of the grid has these values."""
    return all(key in grid and value in values_of(grid[key]) for key, value in values.items())
