"""Carries out a plan: runs the sweeps, keeps what is finished, goes on where an earlier run stopped."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpuheap.catalogue import place
from gpuheap.environment import Environment
from gpuheap.errors import UserError
from gpuheap.executable import Executable
from gpuheap.paths import Layout
from gpuheap.plan import Plan, PlannedSweep, Request
from gpuheap.points import Point
from gpuheap.protocol import FAILING, PointResult
from gpuheap.results import Key, Row, Table, point_key, rows_of
from gpuheap.runner import PointBegan, PointEnded, Sweep, SweepCutShort, run_sweep
from gpuheap.samples import SampleFile
from gpuheap.slowdowns import write_slowdowns


class Listener(Protocol):
    """What is told as a plan is carried out."""

    def sweep_begins(self, sweep: PlannedSweep, kept: int) -> None: ...
    def point_begins(self, sweep: PlannedSweep, point: Point) -> None: ...
    def point_ends(self, sweep: PlannedSweep, point: Point, result: PointResult) -> None: ...
    def sweep_ends(self, sweep: PlannedSweep, rows: list[Row], untried: int) -> None: ...


@dataclass
class Outcome:
    """What came of a plan, also after an interruption."""

    tables: dict[str, Path] = field(default_factory=dict)  # by suite
    rows: list[Row] = field(default_factory=list)  # of the plan's points, measured now or kept
    measured: int = 0  # points
    kept: int = 0  # points that had rows from an earlier run of the same build
    interrupted: bool = False


@dataclass(frozen=True)
class Policy:
    """Which rows of earlier runs are kept.

    Those of another build never are: all rows of a sweep are of one build, which environment.json names.
    """

    fresh: bool = False  # none
    retry: bool = False  # not those of points that failed
    samples: bool = False  # keep every run's value as well


def carry_out(
    plan: Plan, request: Request, policy: Policy, executable: Executable, layout: Layout, folder: Path, listener: Listener
) -> Outcome:
    """Runs what has no rows yet. Ctrl-C ends the running process and returns what is finished."""
    outcome = Outcome()
    identity = executable.identity()
    folder.mkdir(parents=True, exist_ok=True)
    with _only_writer(folder):
        environment = Environment(folder)
        environment.check_machine(executable)
        environment.describe(layout, executable, identity)
        tables: dict[str, Table] = {}
        samples: dict[str, SampleFile] = {}
        for sweep in plan.sweeps:
            name = sweep.suite.name
            if name not in tables:
                tables[name] = Table(folder / f"{name}.csv")
                outcome.tables[name] = tables[name].path
                if policy.samples:
                    samples[name] = SampleFile(folder / f"{name}.samples.parquet")
        try:
            for sweep in plan.sweeps:
                writer = _SweepWriter(sweep, request, policy, executable, environment, identity, tables[sweep.suite.name])
                writer.run(samples.get(sweep.suite.name), listener, outcome)
        except KeyboardInterrupt:
            outcome.interrupted = True
        finally:
            _compare(plan, executable.backend, tables)
            for table in tables.values():
                table.arrange(_order(plan))
            for file in samples.values():
                file.save()
        wanted = {key for sweep in plan.sweeps for key in keys_of(sweep, executable.backend)}
        outcome.rows = [row for table in tables.values() for row in table.rows if row.key in wanted]
    return outcome


def _compare(plan: Plan, backend: str, tables: Mapping[str, Table]) -> None:
    """The rows that follow from others."""
    for suite, case in {(sweep.suite.name, sweep.case.name): (sweep.suite.name, sweep.case) for sweep in plan.sweeps}.values():
        if case.slowdown is not None and suite in tables:
            variants = [axis for axes in case.variants.values() for axis in axes]
            write_slowdowns(tables[suite], case.name, backend, case.slowdown, variants)


def keys_of(sweep: PlannedSweep, backend: str) -> list[Key]:
    return [point_key(sweep.suite.name, sweep.case.name, sweep.allocator, backend, point, sweep.extra) for point in sweep.points]


class _SweepWriter:
    """One sweep and its place in a table."""

    def __init__(
        self,
        sweep: PlannedSweep,
        request: Request,
        policy: Policy,
        executable: Executable,
        environment: Environment,
        identity: str,
        table: Table,
    ) -> None:
        self._sweep = sweep
        self._request = request
        self._policy = policy
        self._executable = executable
        self._environment = environment
        self._identity = identity
        self._table = table
        self._keys = keys_of(sweep, executable.backend)

    def run(self, samples: SampleFile | None, listener: Listener, outcome: Outcome) -> None:
        sweep = self._sweep
        finished = self._make_room()
        outcome.kept += len(finished)
        listener.sweep_begins(sweep, len(finished))
        untried = 0
        unsupported = self._executable.description.allocator(sweep.allocator)
        if unsupported is not None and not unsupported.supported:
            for index in range(len(sweep.points)):
                if index not in finished:
                    self._end(index, PointResult("unsupported", unsupported.why_not), samples, listener, outcome)
        elif len(finished) < len(sweep.points):
            # closing: the process ends with this block, whatever ends it.
            with closing(run_sweep(self._executable.path, self._process(finished))) as events:
                for event in events:
                    if isinstance(event, PointBegan):
                        listener.point_begins(sweep, sweep.points[event.index])
                    elif isinstance(event, PointEnded):
                        self._end(event.index, event.result, samples, listener, outcome)
                    elif isinstance(event, SweepCutShort):
                        untried = event.remaining
        keys = set(self._keys)
        listener.sweep_ends(sweep, [row for row in self._table.rows if row.key in keys], untried)

    def _process(self, finished: dict[int, PointResult]) -> Sweep:
        sweep = self._sweep
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
        )

    def _make_room(self) -> dict[int, PointResult]:
        """Removes the rows that are to be measured again. Returns the points whose rows stay, by index."""
        sweep = self._sweep
        names = (sweep.suite.name, sweep.case.name, sweep.allocator)
        same_build = self._environment.build_of(*names) == self._identity
        if not same_build:
            mine = (sweep.case.name, sweep.allocator, self._executable.backend)
            self._table.drop(lambda row: row.sweep == mine)
        rows: dict[Key, list[Row]] = {}
        for row in self._table.rows:
            rows.setdefault(row.key, []).append(row)
        finished: dict[int, PointResult] = {}
        again: set[Key] = set()
        for index, key in enumerate(self._keys):
            if key not in rows:
                continue
            if self._policy.fresh or self._out_of_date(rows[key]):
                again.add(key)
            else:
                finished[index] = PointResult(rows[key][0].status, rows[key][0].reason)
        self._table.drop(lambda row: row.key in again)
        if not same_build:
            self._environment.measured_by(*names, self._identity)
            self._environment.save()
        return finished

    def _out_of_date(self, rows: list[Row]) -> bool:
        if rows[0].status == "ok":
            return rows[0].runs < self._sweep.case.runs_that_count()
        return self._policy.retry and rows[0].status in FAILING

    def _end(self, index: int, result: PointResult, samples: SampleFile | None, listener: Listener, outcome: Outcome) -> None:
        sweep = self._sweep
        point = sweep.points[index]
        rows = rows_of(sweep.suite.name, sweep.case.name, sweep.allocator, self._executable.backend, point, sweep.extra, result)
        with _uninterrupted():
            self._table.append(rows)
            if samples is not None:
                samples.add(rows, result)
            outcome.measured += 1
        listener.point_ends(sweep, point, result)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the block is done, so that file and memory agree."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Holds a lock on the folder. It goes with the process, however that ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another gpuheap bench is writing to {folder}") from None
        yield
    finally:
        os.close(descriptor)


class _order:
    """The order of a table: cases as in the suite, allocators as everywhere, points as in the plan; rows of other points after those."""

    def __init__(self, plan: Plan) -> None:
        self._cases: dict[str, int] = {}
        self._points: dict[tuple[str, int | None, int | None, str], int] = {}
        for sweep in plan.sweeps:
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
