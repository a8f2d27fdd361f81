"""Carries out a plan: runs the sweeps, keeps finished points, continues where an earlier run stopped."""

from __future__ import annotations

import fcntl
import math
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpuheap.catalogue import is_known, place
from gpuheap.errors import UserError
from gpuheap.files import make_folder, naming, remove_leftovers
from gpuheap.formats.points import Point
from gpuheap.formats.protocol import FAILING, PointResult
from gpuheap.formats.results import ELSEWHERE, Key, Row, Table, point_key, rows_of
from gpuheap.formats.slowdowns import with_slowdowns
from gpuheap.formats.suites import Case
from gpuheap.paths import Layout
from gpuheap.running.again import Again
from gpuheap.running.environment import Environment
from gpuheap.running.executable import Executable
from gpuheap.running.plan import Plan, PlannedSweep, Request
from gpuheap.running.runner import PointBegan, PointEnded, Sweep, SweepEvent
from gpuheap.running.workers import Dispatcher, LocalWorker, TimeIsUp, Worker


class Listener(Protocol):
    """Receives the events of a plan while it is carried out."""

    def goes_on(self, since: str) -> None: ...
    def sweep_begins(self, sweep: PlannedSweep, kept: int) -> None: ...
    def point_begins(self, sweep: PlannedSweep, point: Point, worker: str) -> None: ...
    def point_ends(self, sweep: PlannedSweep, point: Point, result: PointResult) -> None: ...
    def sweep_ends(self, sweep: PlannedSweep, rows: list[Row], untried: int) -> None: ...
    def worker_lost(self, words: str) -> None: ...


@dataclass
class Outcome:
    """The outcome of a plan, also after an interruption."""

    tables: dict[str, Path] = field(default_factory=dict)  # by suite
    rows: list[Row] = field(default_factory=list)  # of the plan's points, measured now or kept
    measured: int = 0  # the number of points measured by this run
    kept: int = 0  # the number of points that had rows from an earlier run of the same build
    interrupted: bool = False
    time_is_up: bool = False  # whether the policy's time limit ended the run
    again_since: str = ""  # with --fresh: the begin of the stopped run that this run continued


@dataclass(frozen=True)
class Policy:
    """Which rows of earlier runs are kept.

    Rows of another build are never kept: a table has one build, which environment.json names for each sweep.
    """

    fresh: bool = False  # no earlier rows are kept, except those of a stopped run with --fresh that this run continues
    retry: bool = False  # rows of failed points are not kept
    until: float = math.inf  # the time of time.monotonic() at which to stop
    anew: bool = False  # whether tables of another build are replaced; else they are refused


def carry_out(
    plan: Plan,
    request: Request,
    policy: Policy,
    executable: Executable,
    layout: Layout,
    folder: Path,
    listener: Listener,
    workers: Sequence[Worker] = (LocalWorker(),),
) -> Outcome:
    """Runs the points without rows, one sweep at a time on each worker. Ctrl-C ends the running processes, and the finished points are returned.

    The tables do not depend on the number of workers. `executable` is the executable that describes the machine.
    """
    outcome = Outcome()
    identities = {build.path: build.identity() for build in (executable, *(sweep.executable for sweep in plan.sweeps))}
    builds = {identities[sweep.executable.path]: sweep.executable for sweep in plan.sweeps}
    with only_writer(folder):
        environment = Environment(folder)
        environment.check_machine(executable)
        environment.describe(layout, executable, identities[executable.path], builds)
        again = Again(policy.fresh, environment, [keys_of(sweep, executable.backend) for sweep in plan.sweeps])
        outcome.again_since = again.since
        if again.since:
            listener.goes_on(again.since)
        tables: dict[str, Table] = {}
        for sweep in plan.sweeps:
            name = sweep.suite.name
            if name not in tables:
                tables[name] = Table(folder / f"{name}.csv")
                outcome.tables[name] = tables[name].path
        keep_to_one_build(tables, environment, identities[executable.path], policy, layout)
        writers = [
            SweepWriter(
                sweep,
                request,
                policy,
                again,
                environment,
                identities[sweep.executable.path],
                tables[sweep.suite.name],
                listener,
                outcome,
            )
            for sweep in plan.sweeps
        ]
        dispatcher = Dispatcher(
            workers,
            begin=lambda index: writers[index].begin(),
            event=lambda index, event, worker: writers[index].event(event, worker.name),
            end=lambda index: writers[index].end(),
            lost=listener.worker_lost,
            until=policy.until,
        )
        try:
            dispatcher.run(len(writers))
            again.finished()
        except KeyboardInterrupt:
            outcome.interrupted = True
        except TimeIsUp:
            outcome.time_is_up = True
        finally:
            put_in_order(plan, tables, lambda: _compare(plan, executable.backend, tables))
        wanted = {key for sweep in plan.sweeps for key in keys_of(sweep, executable.backend)}
        outcome.rows = [row for table in tables.values() for row in table.rows if row.key in wanted]
    return outcome


def keep_to_one_build(tables: Mapping[str, Table], environment: Environment, identity: str, policy: Policy, layout: Layout) -> None:
    """Raises UserError for tables with rows of another build, before anything is changed; with `policy.anew`, removes these rows."""
    others = {name: builds for name, table in tables.items() if (builds := environment.builds_of(table.rows) - {identity})}
    if others and not policy.anew:
        name, builds = next(iter(others.items()))
        known = ", ".join(sorted(environment.words_of(build) for build in builds)[:2])
        more = f" and {len(builds) - 2} more" if len(builds) > 2 else ""
        raise UserError(
            f"{layout.shown(tables[name].path)} has rows of another build ({known}{more}), and a table has rows of one: "
            "--anew drops them and begins the table anew, --output DIR leaves the table as it is"
        )
    for name in others:
        tables[name].drop(lambda row: is_known(row.allocator))
        environment.forget(name)


def put_in_order(plan: Plan, tables: Mapping[str, Table], compare: Callable[[], None] = lambda: None) -> None:
    """The steps after a run, however it ended. Each step is tried even if an earlier one fails."""
    with uninterrupted(), ExitStack() as at_end:
        # The steps run in the reverse of this order.
        for table in tables.values():
            at_end.callback(table.arrange, TableOrder(plan))
        at_end.callback(compare)


def _compare(plan: Plan, backend: str, tables: Mapping[str, Table]) -> None:
    """Computes the rows that follow from other rows."""
    for suite, case in {(sweep.suite.name, sweep.case.name): (sweep.suite.name, sweep.case) for sweep in plan.sweeps}.values():
        if suite in tables:
            rows = compared(tables[suite].rows, case, backend)
            if rows is not tables[suite].rows:
                tables[suite].replace(rows)


def compared(rows: list[Row], case: Case, backend: str) -> list[Row]:
    """The rows, with the slowdown rows of the case computed anew; the same list if nothing changes."""
    if case.slowdown is None:
        return rows
    variants = [axis for axes in case.variants.values() for axis in axes]
    return with_slowdowns(rows, case.name, backend, case.slowdown, variants)


def keys_of(sweep: PlannedSweep, backend: str) -> list[Key]:
    return [point_key(sweep.suite.name, sweep.case.name, sweep.allocator, backend, point, sweep.extra) for point in sweep.points]


class SweepWriter:
    """Writes the rows of one sweep into its table."""

    def __init__(
        self,
        sweep: PlannedSweep,
        request: Request,
        policy: Policy,
        again: Again,
        environment: Environment,
        identity: str,
        table: Table,
        listener: Listener,
        outcome: Outcome,
    ) -> None:
        self._sweep = sweep
        self._request = request
        self._policy = policy
        self._again = again
        self._environment = environment
        self._identity = identity
        self._table = table
        self._listener = listener
        self._outcome = outcome
        self._keys = keys_of(sweep, sweep.executable.backend)
        self._begun = False
        self._measured: set[int] = set()  # the indices of points measured by this run
        self._untried = 0

    def begin(self) -> tuple[Executable, Sweep] | None:
        """Removes the rows that are to be measured again. Returns the sweep to run, or None if no point is left. A second call continues the sweep."""
        sweep = self._sweep
        finished = self._make_room()
        if not self._begun:
            self._begun = True
            self._outcome.kept += len(finished)
            self._listener.sweep_begins(sweep, len(finished))
        described = sweep.executable.description.allocator(sweep.allocator)
        if described is not None and not described.supported:
            for index in range(len(sweep.points)):
                if index not in finished:
                    self._point_ended(index, PointResult("unsupported", described.why_not))
            return None
        return (sweep.executable, self._process(finished)) if len(finished) < len(sweep.points) else None

    def event(self, event: SweepEvent, worker: str) -> None:
        if isinstance(event, PointBegan):
            self._listener.point_begins(self._sweep, self._sweep.points[event.index], worker)
        elif isinstance(event, PointEnded):
            self._point_ended(event.index, event.result)
        else:
            self._untried += event.remaining

    def end(self) -> None:
        keys = set(self._keys)
        self._listener.sweep_ends(self._sweep, [row for row in self._table.rows if row.key in keys], self._untried)

    def _process(self, finished: dict[int, PointResult]) -> Sweep:
        sweep = self._sweep
        grids = sweep.case.numbered_points(self._request.chosen_seed, sweep.allocator)
        return Sweep(
            case=sweep.case.name,
            allocator=sweep.allocator,
            points=sweep.points,
            heap_bytes=sweep.heap_bytes,
            runs=sweep.case.runs,
            timeout_s=sweep.case.timeout_s,
            seed=self._request.chosen_seed,
            files=tuple((name, path.resolve()) for name, path in self._request.files.items()),
            enough_s=sweep.case.enough_s,
            finished=finished,
            grids=tuple(grids[point] for point in sweep.points),
            process_wide=(described := sweep.executable.description.allocator(sweep.allocator)) is not None and described.process_wide,
            first_runs=sweep.case.runs_that_count() if sweep.first_runs else 0,
        )

    def _make_room(self) -> dict[int, PointResult]:
        """Removes the rows that are to be measured again. Returns the points whose rows stay, by index."""
        sweep = self._sweep
        names = (sweep.suite.name, sweep.case.name, sweep.allocator)
        same_build = self._environment.build_of(*names) == self._identity
        mine = (sweep.case.name, sweep.allocator, sweep.executable.backend)
        if not same_build:
            self._table.drop(lambda row: row.sweep == mine)
        rows: dict[Key, list[Row]] = {}
        for row in self._table.rows:
            if row.sweep == mine:
                rows.setdefault(row.key, []).append(row)
        finished: dict[int, PointResult] = {}
        unwanted: set[Key] = set()
        of_before = self._again.to_measure(self._keys)
        for index, key in enumerate(self._keys):
            if key not in rows:
                continue
            if index not in self._measured and (of_before or self._out_of_date(rows[key])):
                unwanted.add(key)
            else:
                finished[index] = PointResult(rows[key][0].status, rows[key][0].reason)
        if unwanted:
            self._table.drop(lambda row: row.sweep == mine and row.key in unwanted)
        # The environment is saved after the old rows are removed. If the process is killed in between, the next run repeats both steps.
        begins = self._again.begins(self._keys)
        if not same_build:
            self._environment.measured_by(*names, self._identity)
        if begins or not same_build:
            self._environment.save()
        return finished

    def _out_of_date(self, rows: list[Row]) -> bool:
        if rows[0].status == "ok":
            return rows[0].runs < self._sweep.case.runs_that_count()
        return (self._policy.retry or self._sweep.retry) and rows[0].status in FAILING

    def _point_ended(self, index: int, result: PointResult) -> None:
        sweep = self._sweep
        if index in self._measured:
            return
        point = sweep.points[index]
        rows = rows_of(sweep.suite.name, sweep.case.name, sweep.allocator, sweep.executable.backend, point, sweep.extra, result)
        with uninterrupted():
            self._measured.add(index)
            self._table.append(rows)
            self._outcome.measured += 1
        self._listener.point_ends(sweep, point, result)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delays Ctrl-C, SIGTERM and SIGHUP until the `with` statement ends, so that file and memory agree.

    It sets handlers, because a blocked signal would go to a worker's thread.
    """
    came: list[int] = []
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(signal.Signals(came[0]))


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Makes the folder if it is missing, and holds a lock on it. The system releases the lock when the process ends. Folders that were made go again if
    they are empty at the end."""
    made = [each for each in (folder, *folder.parents) if not os.path.exists(each)]  # a name that is too long counts as missing
    make_folder(folder, ELSEWHERE)
    with naming(folder, "opened", ELSEWHERE):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        with naming(folder, "locked", ELSEWHERE):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"another gpuheap bench is writing to {folder}: wait for it, or {ELSEWHERE}") from None
        remove_leftovers(folder)
        yield
    finally:
        os.close(descriptor)
        with suppress(OSError):  # the first folder that is not empty ends it
            for each in made:
                each.rmdir()


class TableOrder:
    """The sort key of a table's rows: cases as in the suite, allocators as in the catalogue, points as in the plan, and then rows of other points."""

    def __init__(self, plan: Plan) -> None:
        self._cases: dict[str, int] = {}
        self._points: dict[tuple[str, int | None, int | None, str], int] = {}
        for sweep in plan.whole or plan.sweeps:
            for name in sweep.suite.cases:
                self._cases.setdefault(name, len(self._cases))
            for key in keys_of(sweep, ""):
                self._points.setdefault((sweep.case.name, *key[4:]), len(self._points))

    def __call__(self, row: Row) -> tuple[int, ...]:
        unknown = len(self._points)
        return (
            self._cases.get(row.case, len(self._cases)),
            place(row.allocator),
            self._points.get((row.case, *row.key[4:]), unknown),
        )
