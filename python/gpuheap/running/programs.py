"""Carries out suites of programs: runs them and writes their rows."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuheap.catalogue import ALLOCATORS, MODES
from gpuheap.errors import UserError, unknown_name
from gpuheap.formats.results import Table
from gpuheap.formats.suites import COUNTERS, PROBE, TIMES, Case, Suite, select
from gpuheap.host.launch import find_library
from gpuheap.host.probe.series import find_program
from gpuheap.paths import Layout
from gpuheap.running.again import Again
from gpuheap.running.bench import Listener, Outcome, Policy, SweepWriter, keys_of, only_writer, put_in_order
from gpuheap.running.environment import Environment
from gpuheap.running.executable import Executable, describe
from gpuheap.running.instruments import need_profiler
from gpuheap.running.plan import Plan, PlannedSweep, Request
from gpuheap.running.program_modes import PLAIN
from gpuheap.running.program_workers import Left, ModeEnded, ProgramWorker, RunBegan
from gpuheap.running.runner import PointBegan, PointEnded
from gpuheap.running.workers import Dispatcher, TimeIsUp

TARGETS = "gpuheap_programs gpuheap_host gpuheap_host_merging gpuheap-host-probe"
BUILD = f"cmake --preset cuda -DGPUHEAP_BUILD_TESTS=OFF && cmake --build --preset cuda --target {TARGETS}"


@dataclass
class ProgramBuild:
    """The programs of a folder, and the library that is preloaded into them. A program is described when it is first needed."""

    folder: Path
    library: Path
    _known: dict[str, Executable] = field(default_factory=dict)

    def program(self, name: str) -> Executable:
        if name not in self._known:
            path = self.folder / name
            if not os.access(path, os.X_OK):
                raise UserError(f"the program '{name}' is not built at {path}: run {BUILD}")
            self._known[name] = Executable(path, describe(path), "the programs are built for it")
        return self._known[name]

    def probe(self, layout: Layout) -> Executable:
        """The program that asks the driver's allocators, which lies with the host tools."""
        if PROBE not in self._known:
            path = find_program(layout)
            self._known[PROBE] = Executable(path, describe(path), "the host tools are built for it")
        return self._known[PROBE]

    def identity(self, program: Path) -> str:
        """The identity of the program and the library: rows with another identity were measured by other code.

        The library that drops copies is linked from the same parts at the same time. It has no part in the identity, because it may be missing.
        """
        return hashlib.sha256(program.read_bytes() + self.library.read_bytes()).hexdigest()[:16]


def programs_folder(layout: Layout) -> Path:
    """The folder of the programs: the one that GPUHEAP_PROGRAMS names, else the one in the CUDA build."""
    named = os.environ.get("GPUHEAP_PROGRAMS")
    if named and not Path(named).is_dir():
        raise UserError(f"GPUHEAP_PROGRAMS is '{named}', which is not a folder: name the folder of the programs, or unset it")
    return Path(named).resolve() if named else layout.build / "cuda" / "benchmarks" / "programs"


def find_build(layout: Layout) -> ProgramBuild:
    folder = programs_folder(layout)
    if not folder.is_dir():
        raise UserError(f"the programs are not built: run {BUILD} in {layout.root} (./demo puts cmake into build/venv/bin)")
    return ProgramBuild(folder, find_library(layout))


def make_program_plan(request: Request, suites: Mapping[str, Suite], build: ProgramBuild, layout: Layout) -> Plan:
    """The sweeps: one for each case and mode. Those of a case are measured together.

    Raises UserError if this machine lacks something that a measurement needs.
    """
    known = (*MODES, *ALLOCATORS)
    for name in request.allocators:
        if name not in known:
            raise unknown_name("mode", name, known)
    given = {"heap_bytes": request.heap_bytes, "seed": request.seed, **request.files}
    for option, value in given.items():
        if value is not None:
            raise UserError(f"--{option.replace('_', '-')} is for cases of allocators: programs have inputs of their own")
    sweeps: list[PlannedSweep] = []
    for suite, cases in select(suites, list(request.targets)):
        modes = request.allocators or suite.allocators
        if suite.instrument != TIMES and PLAIN not in modes:
            raise UserError(f"{suite.name}: the counts are of the program as it is: the only mode is '{PLAIN}', and not {', '.join(modes)}")
        if suite.instrument == COUNTERS:
            need_profiler()
        for name in cases:
            as_written = suite.cases[name]["cuda"].command[0]
            executable = build.probe(layout) if suite.instrument == PROBE else build.program(as_written)
            if executable.description.device is None:
                raise UserError(f"no usable GPU: {executable.description.device_error or 'the programs find none'} (see `gpuheap doctor`)")
            case = _adjusted(suite.case(name, executable.backend), request)
            for mode in modes if suite.instrument == TIMES else (PLAIN,):
                sweeps.append(PlannedSweep(suite, case, mode, case.points(), 0, executable, ""))
    return Plan(tuple(sweeps))


def _adjusted(case: Case, request: Request) -> Case:
    case = case.cut() if request.quick else case.widened() if request.full else case
    # The limit is for all runs of a mode: more runs than the suite has get as much more time.
    runs = request.runs or case.runs
    return dataclasses.replace(case, runs=runs, timeout_s=request.timeout_s or case.timeout_s * max(1, runs / case.runs))


def carry_out_programs(
    plan: Plan, request: Request, policy: Policy, build: ProgramBuild, layout: Layout, folder: Path, listener: Listener, gpus: Sequence[str] = ("",)
) -> Outcome:
    """Runs the points without rows, one case at a time on each GPU. Ctrl-C ends the running programs, and the finished points are returned."""
    outcome = Outcome()
    with only_writer(folder), tempfile.TemporaryDirectory(prefix="gpuheap-programs-") as scratch:
        environment = Environment(folder)
        identities = {sweep.executable.path: build.identity(sweep.executable.path) for sweep in plan.sweeps}
        builds = {identities[sweep.executable.path]: sweep.executable for sweep in plan.sweeps}
        first = plan.sweeps[0].executable
        environment.check_machine(first)
        environment.describe(layout, first, identities[first.path], builds)
        again = Again(policy.fresh, environment, [keys_of(sweep, first.backend) for sweep in plan.sweeps])
        outcome.again_since = again.since
        if again.since:
            listener.goes_on(again.since)
        suites = dict.fromkeys(sweep.suite.name for sweep in plan.sweeps)
        tables = {name: Table(folder / f"{name}.csv") for name in suites}
        outcome.tables = {name: table.path for name, table in tables.items()}
        cases = []
        for together in _by_case(plan):
            name, identity = together[0].suite.name, identities[together[0].executable.path]
            kept_in = (again, environment, identity, tables[name])
            cases.append(CaseWriter(together, [SweepWriter(sweep, request, policy, *kept_in, listener, outcome) for sweep in together]))
        dispatcher = Dispatcher(
            [ProgramWorker(gpu, build.library, Path(scratch) / f"run{gpu}") for gpu in gpus],
            begin=lambda index: cases[index].begin(),
            event=lambda index, event, worker: cases[index].event(event, worker.name),
            end=lambda index: cases[index].end(),
            lost=listener.worker_lost,
            until=policy.until,
        )
        try:
            dispatcher.run(len(cases))
            again.finished()
        except KeyboardInterrupt:
            outcome.interrupted = True
        except TimeIsUp:
            outcome.time_is_up = True
        finally:
            put_in_order(plan, tables)
        wanted = {key for sweep in plan.sweeps for key in keys_of(sweep, sweep.executable.backend)}
        outcome.rows = [row for table in tables.values() for row in table.rows if row.key in wanted]
    return outcome


def _by_case(plan: Plan) -> list[list[PlannedSweep]]:
    found: dict[tuple[str, str], list[PlannedSweep]] = {}
    for sweep in plan.sweeps:
        found.setdefault((sweep.suite.name, sweep.case.name), []).append(sweep)
    return list(found.values())


class CaseWriter:
    """The sweeps of a case, one for each mode, which are measured together."""

    def __init__(self, sweeps: Sequence[PlannedSweep], writers: Sequence[SweepWriter]) -> None:
        self._sweeps = sweeps
        self._writers = {sweep.allocator: writer for sweep, writer in zip(sweeps, writers, strict=True)}

    def begin(self) -> tuple[PlannedSweep, Sequence[Left]] | None:
        begun = {mode: writer.begin() for mode, writer in self._writers.items()}
        left = [
            Left(index, [mode for mode, process in begun.items() if process is not None and index not in process[1].finished])
            for index in range(len(self._sweeps[0].points))
        ]
        left = [each for each in left if each.modes]
        return (self._sweeps[0], left) if left else None

    def event(self, event: RunBegan | ModeEnded, worker: str) -> None:
        writer = self._writers[event.mode]
        if isinstance(event, RunBegan):
            writer.event(PointBegan(event.index), f"{worker}, {event.words}" if worker else event.words)
        else:
            writer.event(PointEnded(event.index, event.result), "")

    def end(self) -> None:
        for writer in self._writers.values():
            writer.end()
