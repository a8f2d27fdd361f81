"""Carries out suites of programs: for each point a plain run that pools are planned from, then rounds in which each mode runs once."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuheap.catalogue import ALLOCATORS, MODES
from gpuheap.errors import UserError, unknown_name
from gpuheap.formats.points import Point
from gpuheap.formats.protocol import Measurement, PointResult
from gpuheap.formats.results import Table
from gpuheap.formats.samples import SampleFile
from gpuheap.formats.suites import Case, Suite, select
from gpuheap.host.launch import find_library
from gpuheap.paths import Layout
from gpuheap.running.bench import Listener, Outcome, Policy, SweepWriter, TableOrder, keys_of, only_writer
from gpuheap.running.environment import Environment
from gpuheap.running.executable import Executable, describe
from gpuheap.running.plan import Plan, PlannedSweep, Request
from gpuheap.running.program_modes import Mode
from gpuheap.running.program_runs import Failed, Profile, run_once, take_profile
from gpuheap.running.runner import PointBegan, PointEnded
from gpuheap.units import format_seconds

BUILD = "cmake --preset cuda && cmake --build --preset cuda --target gpuheap_programs gpuheap_host"


@dataclass
class ProgramBuild:
    """The programs of a folder, each described when it is first asked for, and the library that goes before them."""

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

    def identity(self, name: str) -> str:
        """Of the program and the library: rows with another one were measured by other code."""
        return hashlib.sha256((self.folder / name).read_bytes() + self.library.read_bytes()).hexdigest()[:16]


def programs_folder(layout: Layout) -> Path:
    """GPUHEAP_PROGRAMS names another than that of the CUDA build."""
    named = os.environ.get("GPUHEAP_PROGRAMS")
    if named and not Path(named).is_dir():
        raise UserError(f"GPUHEAP_PROGRAMS is '{named}', which is no folder")
    return Path(named).resolve() if named else layout.build / "cuda" / "benchmarks" / "programs"


def find_build(layout: Layout) -> ProgramBuild:
    folder = programs_folder(layout)
    if not folder.is_dir():
        raise UserError(f"the programs are not built: run {BUILD} in {layout.root} (./demo puts cmake into build/venv/bin)")
    return ProgramBuild(folder, find_library(layout))


def make_program_plan(request: Request, suites: Mapping[str, Suite], build: ProgramBuild) -> Plan:
    """A sweep for each case and mode; those of a case are measured together."""
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
        for name in cases:
            as_written = suite.cases[name]["cuda"].command[0]
            executable = build.program(as_written)
            if executable.description.device is None:
                raise UserError(f"no usable GPU: {executable.description.device_error or 'the programs find none'} (see `gpuheap doctor`)")
            case = _adjusted(suite.case(name, executable.backend), request)
            for mode in request.allocators or suite.allocators:
                sweeps.append(PlannedSweep(suite, case, mode, case.points(), 0, executable, ""))
    return Plan(tuple(sweeps))


def _adjusted(case: Case, request: Request) -> Case:
    case = case.cut() if request.quick else case.widened() if request.full else case
    return dataclasses.replace(case, runs=request.runs or case.runs, timeout_s=request.timeout_s or case.timeout_s)


def carry_out_programs(
    plan: Plan, request: Request, policy: Policy, build: ProgramBuild, layout: Layout, folder: Path, listener: Listener
) -> Outcome:
    """Runs what has no rows yet, case by case. Ctrl-C ends the running program and returns what is finished: whole points."""
    outcome = Outcome()
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder), tempfile.TemporaryDirectory(prefix="gpuheap-programs-") as scratch:
        environment = Environment(folder)
        identities = {sweep.executable.path: build.identity(sweep.executable.path.name) for sweep in plan.sweeps}
        builds = {identities[sweep.executable.path]: sweep.executable for sweep in plan.sweeps}
        first = plan.sweeps[0].executable
        environment.check_machine(first)
        environment.describe(layout, first, identities[first.path], builds)
        suites = dict.fromkeys(sweep.suite.name for sweep in plan.sweeps)
        tables = {name: Table(folder / f"{name}.csv") for name in suites}
        samples = {name: SampleFile(folder / f"{name}.samples.parquet") for name in suites if policy.samples}
        outcome.tables = {name: table.path for name, table in tables.items()}
        try:
            for together in _by_case(plan):
                name = together[0].suite.name
                identity = identities[together[0].executable.path]
                kept_in = (environment, identity, tables[name], samples.get(name))
                writers = [SweepWriter(sweep, request, policy, *kept_in, listener, outcome) for sweep in together]
                _run_case(together, writers, build.library, Path(scratch))
        except KeyboardInterrupt:
            outcome.interrupted = True
        finally:
            for table in tables.values():
                table.arrange(TableOrder(plan))
            for file in samples.values():
                file.save()
        wanted = {key for sweep in plan.sweeps for key in keys_of(sweep, sweep.executable.backend)}
        outcome.rows = [row for table in tables.values() for row in table.rows if row.key in wanted]
    return outcome


def _by_case(plan: Plan) -> list[list[PlannedSweep]]:
    found: dict[tuple[str, str], list[PlannedSweep]] = {}
    for sweep in plan.sweeps:
        found.setdefault((sweep.suite.name, sweep.case.name), []).append(sweep)
    return list(found.values())


def _run_case(sweeps: Sequence[PlannedSweep], writers: Sequence[SweepWriter], library: Path, scratch: Path) -> None:
    begun = [writer.begin() for writer in writers]
    for index, point in enumerate(sweeps[0].points):
        left = {
            sweep.allocator: writer
            for sweep, writer, process in zip(sweeps, writers, begun, strict=True)
            if process is not None and index not in process[1].finished
        }
        if left:
            for mode, round_words, result in _measure(sweeps[0], point, list(left), library, scratch / "run"):
                left[mode].event(PointBegan(index) if result is None else PointEnded(index, result), round_words)
    for writer in writers:
        writer.end()


def _measure(
    sweep: PlannedSweep, point: Point, modes: list[str], library: Path, scratch: Path
) -> Iterator[tuple[str, str, PointResult | None]]:
    """(mode, round in words, None) before each run, and at the end (mode, "", result) for each mode.

    Each round begins with another mode than the one before.
    """
    words = (str(sweep.executable.path), *sweep.case.command[1:], *(f"{key}={value}" for key, value in point.fields.items()))
    yield modes[0], "profile", None
    try:
        profile = take_profile(words, library, scratch)
    except Failed as failed:
        for mode in modes:
            yield mode, "", failed.result
        return
    results: dict[str, PointResult] = {}
    ready: dict[str, Mode] = {}
    for mode in modes:
        try:
            ready[mode] = profile.mode(mode)
        except UserError as why:
            results[mode] = PointResult("unsupported", str(why))
    samples: dict[str, list[PointResult]] = {mode: [] for mode in modes}
    for number in range(sweep.case.runs):
        for mode in modes[number % len(modes) :] + modes[: number % len(modes)]:
            if mode in results:
                continue
            yield mode, f"round {number + 1} of {sweep.case.runs}", None
            result = _within_limit(profile, ready[mode], samples[mode], sweep.case)
            if result.status == "ok":
                samples[mode].append(result)
            else:
                results[mode] = result
    for mode in modes:
        yield mode, "", results.get(mode) or _together(samples[mode])


def _within_limit(profile: Profile, mode: Mode, earlier: Sequence[PointResult], case: Case) -> PointResult:
    """The next run, if the limit, which is for all runs of a mode, leaves time for one."""
    spent_s = sum(each.measurements[0].samples[0] for each in earlier) / 1e3
    result = run_once(profile, mode, case.timeout_s - spent_s)
    if result.status == "timeout":
        return PointResult("timeout", f"{len(earlier)} of {case.runs} runs in {format_seconds(case.timeout_s)}")
    return result


def _together(runs: Sequence[PointResult]) -> PointResult:
    """Results of single runs as one."""
    measured = tuple(
        Measurement(first.metric, first.unit, tuple(each.measurements[place].samples[0] for each in runs))
        for place, first in enumerate(runs[0].measurements)
    )
    return PointResult("ok", "", measured)
