"""The steps of `gpuheap host advise`."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gpuheap import terminal
from gpuheap.errors import EXIT_INTERRUPTED, UserError
from gpuheap.host.advise import nsight
from gpuheap.host.advise.measure import program_of
from gpuheap.host.advise.modes import Modes
from gpuheap.host.advise.page import write_page
from gpuheap.host.advise.runs import Campaign, measure, patterns_of
from gpuheap.host.advise.samples import ABOUT, PLAIN, PROFILE, REPORT, SAMPLES, Session, read_session, write_about
from gpuheap.host.advise.show import as_json as as_json_of
from gpuheap.host.advise.show import print_advice
from gpuheap.host.advise.verdict import judge
from gpuheap.host.folders import prepare, remove
from gpuheap.host.history import History, history_of
from gpuheap.host.launch import find_library, find_program
from gpuheap.host.trace import find_traces, read_trace
from gpuheap.paths import find_layout
from gpuheap.running.process import run_process
from gpuheap.units import format_seconds

_OWN = {ABOUT, SAMPLES, PROFILE, REPORT, "plans", "output", "errors", "run", "nsight"}
_LEAST_LIMIT_S, _LIMIT_FACTOR = 60.0, 20.0  # the time limit of a run: _LIMIT_FACTOR times the traced run's time, at least _LEAST_LIMIT_S
_PROFILER_LIMIT_S = 1800.0


@dataclass(frozen=True)
class Wanted:
    """The options of the command line."""

    words: Sequence[str]
    runs: int
    heaps: Sequence[str]
    ignored: Sequence[str]
    folder: Path
    only: str
    profiler: bool
    most_launches: int
    elide: bool


class Listener:
    """Shows a bar with the time left. Without a terminal it prints a line after each tenth of the runs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said = -1
        columns = (BarColumn(bar_width=16), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Listener:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def run_begins(self, mode: str, done: int, total: int, seconds_left: float | None) -> None:
        left = f"about {format_seconds(seconds_left)} left" if seconds_left is not None and seconds_left >= 1 else ""
        self._bar.update(self._task, completed=done, total=total, description=f"{mode}  {left}")
        if not self._console.is_terminal and done * 10 // total > self._said:
            self._said = done * 10 // total
            self._console.print(f"gpuheap: {done} of {total} runs" + (f", {left}" if left else ""), soft_wrap=True)

    def step(self, words: str) -> None:
        self._bar.update(self._task, description=words)
        if not self._console.is_terminal:
            self._console.print(f"gpuheap: {words}", soft_wrap=True)


def advised(wanted: Wanted, source: Path | None, as_json: bool) -> int:
    """Measures the program, or reads the runs that the folder `source` keeps. Then prints the advice and writes the page. Returns the exit code."""
    session, complete = (read_session(source), True) if source is not None else measured(wanted, Console(stderr=True, highlight=False, markup=False))
    advice = judge(session)
    page = write_page((source or wanted.folder) / REPORT, advice)
    if as_json:
        terminal.print_json(as_json_of(advice))
    else:
        console = terminal.console()
        print_advice(console, advice)
        console.print(f"report: {find_layout().shown(page.resolve())}", soft_wrap=True)
    if not complete:
        print("gpuheap: interrupted: the advice is from the runs so far, whose samples are kept", file=sys.stderr)
    return 0 if complete else EXIT_INTERRUPTED


def measured(wanted: Wanted, console: Console) -> tuple[Session, bool]:
    """Makes all runs. Returns the session, and whether it is complete: after an interruption it holds the runs that had ended.

    Raises UserError if the traced run, which comes first, fails.
    """
    layout = find_layout()
    library = find_library(layout)
    program = find_program(wanted.words)
    ignored = patterns_of(wanted.ignored)
    only = wanted.only or program.name
    folder = wanted.folder.resolve()
    modes = Modes(library, layout, folder / "run", folder / "plans", only, wanted.heaps)
    prepare(folder, _OWN, "the samples")
    with Listener(console) as listener:
        listener.step("a traced run, for the profile")
        traces = folder / PROFILE
        traces.mkdir()
        seconds = _traced(wanted.words, modes.for_profile(traces), folder, only)
        if wanted.elide:
            listener.step("a rehearsal, for pairs of buffers whose copies can be dropped")
            (folder / "run").mkdir()
            _traced(wanted.words, modes.for_rehearsal(traces, program), folder, only)
            if modes.learn_pairs() == 0:
                console.print("gpuheap: no copy can safely be dropped, so the mode 'elide' is left out; gpuheap host validate says why", soft_wrap=True)
        session = _session(wanted, modes.names, _histories(traces))
        environments = modes.after_profile(traces, program)
        write_about(folder, session)
        limit_s = max(_LEAST_LIMIT_S, _LIMIT_FACTOR * seconds)
        campaign = Campaign(wanted.words, environments, wanted.runs, folder, folder / "run", ignored, limit_s)
        complete = measure(campaign, listener.run_begins)
        if complete:
            try:
                session = _profiled(wanted, session, environments, folder, listener)
            except KeyboardInterrupt:
                complete = False
                session = dataclasses.replace(session, profiler="Nsight Compute was interrupted")
        else:
            session = dataclasses.replace(session, profiler="interrupted before Nsight Compute was started")
        write_about(folder, session)
    for name in ("run", "output", "errors"):
        remove(folder / name)
    return read_session(folder), complete


def _traced(words: Sequence[str], environment: Mapping[str, str], folder: Path, only: str) -> float:
    """Runs the program with a library that traces it, and returns the seconds that the run took.

    Raises UserError if a signal ended the program, or if `folder`/PROFILE holds no trace afterwards.
    """
    ended = run_process(words, environment, folder / "output", folder / "errors", 24 * 3600.0)
    said = (folder / "errors").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = f"; it said last: {said[-1]}" if said else ""
    if ended.code is None or ended.code < 0:
        raise UserError(f"the program was ended by signal {-(ended.code or 0)} in the traced run{last}")
    if not list((folder / PROFILE).glob("*.trace")):
        failed = f" (the program ended with exit code {ended.code}{last})" if ended.code else ""
        raise UserError(f"no process named {only} used the CUDA driver, so there is nothing to advise on{failed}; --only NAME names another program")
    return ended.nanoseconds / 1e9


def _histories(traces: Path) -> list[History]:
    return [history_of(read_trace(path)) for path in find_traces(traces)]


def _session(wanted: Wanted, modes: tuple[str, ...], histories: Sequence[History]) -> Session:
    trace = histories[0].trace
    devices = "; ".join(f"{name}" for _, (name, _) in sorted(trace.devices.items()))
    return Session(tuple(wanted.words), modes, wanted.runs, program_of(histories), devices, trace.facts.get("driver", ""), tuple(wanted.ignored))


def _profiled(wanted: Wanted, session: Session, environments: Mapping[str, Mapping[str, str]], folder: Path, listener: Listener) -> Session:
    """Profiles the plain program for the metrics of its kernels, then each mode for their times."""
    if session.program.launches == 0:
        return dataclasses.replace(session, profiler="the program launches no kernel")
    if not wanted.profiler:
        return dataclasses.replace(session, profiler="Nsight Compute was not used (--no-ncu)")
    tool = nsight.find_profiler()
    if tool is None:
        return dataclasses.replace(session, profiler="Nsight Compute (ncu) is not on PATH: it comes with the CUDA toolkit")
    reports = folder / "nsight"
    reports.mkdir(exist_ok=True)

    def run(words: Sequence[str], environment: Mapping[str, str], log: Path) -> bool:
        return run_process(words, environment, log, log.with_suffix(".err"), _PROFILER_LIMIT_S).in_time

    def launches_of(mode: str, name: str, metrics: Sequence[str]) -> tuple[list[tuple[str, nsight.Launch]], str]:
        report = reports / f"{name}.ncu-rep"
        (folder / "run").mkdir(exist_ok=True)
        environment = os.environ if mode == PLAIN else environments[mode]  # the plain program is profiled without gpuheap's library
        why = nsight.profile(tool, wanted.words, environment, report, metrics, wanted.most_launches, run)
        return ([], why) if why else nsight.read_report(tool, report)

    listener.step("Nsight Compute: metrics of the kernels")
    found, why = launches_of(PLAIN, "metrics", nsight.METRICS)
    if not found:
        return dataclasses.replace(session, profiler=why)
    session = dataclasses.replace(
        session, kernels=nsight.kernels_of(found), profiler=f"Nsight Compute profiled {len(found)} of {session.program.launches} launches"
    )
    allowed = {mode.name for mode in judge(read_session(folder)).modes if not mode.barred}
    times = {}
    for mode in session.modes:
        if mode in allowed:
            listener.step(f"Nsight Compute: times of the kernels, {mode}")
            launches, _ = launches_of(mode, "times-" + mode.replace(":", "-"), [nsight.DURATION])
            times[mode] = nsight.times_of(launches)
    return dataclasses.replace(session, kernel_times={mode: of for mode, of in times.items() if of} if times.get(PLAIN) else {})

