"""Adds the rows of another folder of tables, which another machine of the same kind measured, or a run with another output folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuheap.catalogue import place
from gpuheap.errors import UserError, unknown_name
from gpuheap.files import replace_files
from gpuheap.formats.results import ELSEWHERE, Key, Row, Table, text_of
from gpuheap.formats.suites import Suite
from gpuheap.running.bench import compared, only_writer, uninterrupted
from gpuheap.running.environment import FILE_NAME, Environment


@dataclass
class Merged:
    """The outcome of a merge."""

    points: dict[str, int] = field(default_factory=dict)  # the number of points taken, by suite
    left: list[str] = field(default_factory=list)  # tables and sweeps that were not taken, each with the reason
    dropped: dict[str, int] = field(default_factory=dict)  # the number of replaced points of another build, by suite


def merge(source: Path, into: Path, suites: Mapping[str, Suite], anew: bool = False, only: Sequence[str] = ()) -> Merged:
    """Adds the tables of `source` to those of `into`: those that `only` names, or all of them if it is empty.

    If both tables are of the same build, the points of `source` are added, and replace equal points. A table of another build replaces the whole
    table, because a table has rows of one build; if it has fewer points, or was measured before, it does so only with `anew`. In suites of programs, each
    sweep has its own build, and the same holds of sweeps. Slowdowns are computed from the merged rows.

    Raises UserError for another machine, and for tables that cannot be read, before anything is changed.
    """
    if source.resolve() == into.resolve():
        raise UserError(f"{source} is the folder to merge into: name another one")
    there = Environment(source)
    if not there.facts:
        raise UserError(f"{source} has no {FILE_NAME}, so gpuheap bench has not written it: name a folder that gpuheap bench --output has written")
    paths = {suite: source / f"{suite}.csv" for suite in there.facts.get("sweeps", {})}
    for suite in only:
        if suite not in paths:
            raise unknown_name(f"table of {source}", suite, paths)
    paths = {suite: path for suite, path in paths.items() if not only or suite in only}
    theirs = {suite: Table(path) for suite, path in paths.items()}
    _check_machine(Environment(into), there)
    merged = Merged(left=[f"{suite}: {path} is missing, although {FILE_NAME} names its sweeps" for suite, path in paths.items() if not path.exists()])
    with only_writer(into):
        here = Environment(into)
        ours = {suite: Table(into / f"{suite}.csv") for suite in theirs}
        here.join(there)
        changed: dict[Path, str] = {}
        for suite, table in ours.items():
            known = suites.get(suite)
            of_programs = known is not None and known.programs
            if of_programs:
                joined = _together(theirs[suite].rows, table.rows, here, there, merged, anew)
            else:
                joined = _of_one_build(theirs[suite].rows, table.rows, here, there, merged, anew)
            rows = _in_order(joined, known)
            if rows != table.rows:
                changed[table.path] = text_of(rows)
        # All files are replaced or none, because the rows and the record of their builds belong together.
        with uninterrupted():
            replace_files({**changed, here.path: here.text()}, f"{ELSEWHERE}; nothing was changed")
    return merged


def _check_machine(here: Environment, there: Environment) -> None:
    names = [(each.facts.get("gpu") or {}).get("name") or "the simulator" for each in (here, there)]
    if here.facts and names[0] != names[1]:
        raise UserError(f"{there.path.parent} holds results of {names[1]}, {here.path.parent} those of {names[0]}: one folder is of one kind of machine")


def _of_one_build(theirs: list[Row], ours: list[Row], here: Environment, there: Environment, merged: Merged, anew: bool) -> list[Row]:
    """The rows of the merged table, all of one build. Records this build in `here`."""
    their_builds, our_builds = there.builds_of(theirs), here.builds_of(ours)
    if not theirs or len(their_builds | our_builds) == 1:
        return _together(theirs, ours, here, there, merged, anew)
    suite = theirs[0].suite
    if len(their_builds) > 1:
        merged.left.append(f"{suite}: {there.path.parent} has rows of {len(their_builds)} builds, and a table has rows of one: measure it again")
        return ours
    new, old = len({row.key for row in theirs}), len({row.key for row in ours})
    if new < old and not anew:
        merged.left.append(f"{suite}: {new} points, and there are {old} of another build here, which --anew drops")
        return ours
    if old and not anew and all(here.is_later(build, than) for build in our_builds for than in their_builds):
        merged.left.append(f"{suite}: measured before the table here, which --anew drops")
        return ours
    if old:
        merged.dropped[suite] = old
    here.forget(suite)
    return _together(theirs, [], here, there, merged, anew)


def _together(theirs: list[Row], ours: list[Row], here: Environment, there: Environment, merged: Merged, anew: bool) -> list[Row]:
    """The rows of the merged table. Records in `here` the build of each sweep."""
    kept = _by_sweep(ours)
    swept = _by_sweep(theirs)
    # The builds in `theirs` that are left out of a case because `ours` has a later one there: with all their sweeps, so that a case has rows of one build.
    before = {
        (case, build)
        for suite, case, allocator in swept.keys() & kept.keys()
        if (build := there.build_of(suite, case, allocator)) and not anew and here.is_later(here.build_of(suite, case, allocator), build)
    }
    gone: set[Key] = set()
    taken: list[Row] = []
    for (suite, case, allocator), rows in swept.items():
        build = there.build_of(suite, case, allocator)
        if build is None:
            merged.left.append(f"{suite}/{case} {allocator}: {there.path} does not name its build")
            continue
        new = {row.key for row in rows}
        old = {row.key for row in kept.get((suite, case, allocator), [])}
        same = here.build_of(suite, case, allocator) == build
        if not same and not anew and len(new) < len(old):
            merged.left.append(f"{suite}/{case} {allocator}: {len(new)} points, and there are {len(old)} of another build here, which --anew drops")
            continue
        if (case, build) in before:
            continue
        gone |= new if same else old
        taken += rows
        here.measured_by(suite, case, allocator, build)
        merged.points[suite] = merged.points.get(suite, 0) + len(new)
    if before:
        cases = dict.fromkeys(f"{suite}/{case}" for suite, case, allocator in swept if (case, there.build_of(suite, case, allocator)) in before)
        merged.left.append(f"{', '.join(cases)}: measured before those here, which --anew drops")
    return [row for row in ours if row.key not in gone] + taken


def _in_order(rows: list[Row], suite: Suite | None) -> list[Row]:
    """The sorted rows, with the slowdowns computed anew."""
    if suite is not None:
        for cases in suite.cases.values():
            for backend in {row.backend for row in rows} & set(cases):
                rows = compared(rows, cases[backend], backend)
    return sorted(rows, key=_Order(rows, suite))


def _by_sweep(rows: list[Row]) -> dict[tuple[str, str, str], list[Row]]:
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.suite, row.case, row.allocator), []).append(row)
    return found


class _Order:
    """The sort key of rows: cases as in the suite, allocators as in the catalogue, points as in the first sweep of a case."""

    def __init__(self, rows: list[Row], suite: Suite | None) -> None:
        names = [*(suite.cases if suite is not None else ()), *(row.case for row in rows)]
        self._cases = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self._points: dict[tuple[object, ...], int] = {}
        for row in rows:
            self._points.setdefault(_point(row.key), len(self._points))

    def __call__(self, row: Row) -> tuple[int, ...]:
        return (self._cases[row.case], place(row.allocator), self._points[_point(row.key)])


def _point(key: Key) -> tuple[object, ...]:
    return (key[1], *key[4:])
