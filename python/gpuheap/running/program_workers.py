"""Measures programs. Each point has a plain run, from which pools are planned, and then rounds in which each mode runs once. Some suites use an instrument."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.formats.points import Point
from gpuheap.formats.protocol import Measurement, PointResult
from gpuheap.formats.suites import PROBE, TIMES, Case
from gpuheap.running.instruments import ask_driver, count_accesses, need_profiler
from gpuheap.running.plan import PlannedSweep
from gpuheap.running.program_modes import SHARED, Mode
from gpuheap.running.program_runs import Failed, Profile, Seat, run_once, take_profile, take_shared_profile
from gpuheap.running.workers import VISIBLE
from gpuheap.units import format_seconds


@dataclass(frozen=True)
class Left:
    """A point, by its index, and the modes that have no rows of it yet."""

    index: int
    modes: list[str]


@dataclass(frozen=True)
class RunBegan:
    mode: str
    index: int
    words: str  # the round, as text


@dataclass(frozen=True)
class ModeEnded:
    """All runs of a point in a mode."""

    mode: str
    index: int
    result: PointResult


@dataclass(frozen=True)
class ProgramWorker:
    """Runs one program at a time, on the GPU that CUDA picks or on a given one. All modes of a point run on one GPU."""

    gpu: str  # as CUDA_VISIBLE_DEVICES names it; empty: CUDA's choice
    library: Path
    folder: Path  # a folder of the worker's own for the files of runs

    @property
    def name(self) -> str:
        return f"GPU {self.gpu}" if self.gpu else ""

    def run(self, sweep: PlannedSweep, left: Sequence[Left], stop: threading.Event) -> Iterator[RunBegan | ModeEnded]:
        seat = Seat({VISIBLE: self.gpu} if self.gpu else {}, self.folder, stop)
        if sweep.suite.instrument != TIMES:
            for each in left:
                for mode in each.modes:
                    yield RunBegan(mode, each.index, "")
                    yield ModeEnded(mode, each.index, _by_instrument(sweep, sweep.points[each.index], seat))
            return
        for each in left:
            for mode, words, result in _measure(sweep, sweep.points[each.index], each.modes, self.library, seat):
                yield RunBegan(mode, each.index, words) if result is None else ModeEnded(mode, each.index, result)


def _by_instrument(sweep: PlannedSweep, point: Point, seat: Seat) -> PointResult:
    """The counters of one kernel, or series of requests to one of the driver's allocators."""
    case = sweep.case
    if sweep.suite.instrument == PROBE:
        return ask_driver(sweep.executable.path, case.command[1], point.bytes or 0, case.runs, case.timeout_s, seat)
    words = (str(sweep.executable.path), *case.command[1:])
    return count_accesses(need_profiler(), words, point.fields["kernel"], case.runs, case.timeout_s, seat)


def _measure(sweep: PlannedSweep, point: Point, modes: list[str], library: Path, seat: Seat) -> Iterator[tuple[str, str, PointResult | None]]:
    """Yields (mode, "profile" or the round as text, None) before the profile and before each run of a round, and at the end (mode, "", result) for each mode.

    Each round begins with another mode than the round before.
    """
    words = (str(sweep.executable.path), *sweep.case.command[1:], *(f"{key}={value}" for key, value in point.fields.items()))
    yield modes[0], "profile", None
    try:
        profile = take_profile(words, library, seat)
    except Failed as failed:
        for mode in modes:
            yield mode, "", failed.result
        return
    results: dict[str, PointResult] = {}
    profiles = {"": profile}  # by the kind of memory that host and device share; "": they share none
    ready: dict[str, tuple[Profile, Mode]] = {}
    for mode in modes:
        memory = SHARED.get(mode, "")
        try:
            if memory not in profiles:
                profiles[memory] = take_shared_profile(profile, memory)
            ready[mode] = profiles[memory], profiles[memory].mode(mode)
        except Failed as failed:
            results[mode] = failed.result
        except UserError as why:
            results[mode] = PointResult("unsupported", str(why))
    samples: dict[str, list[PointResult]] = {mode: [] for mode in modes}
    for number in range(sweep.case.runs):
        for mode in modes[number % len(modes) :] + modes[: number % len(modes)]:
            if mode in results:
                continue
            yield mode, f"round {number + 1} of {sweep.case.runs}", None
            result = _within_limit(*ready[mode], samples[mode], sweep.case)
            if result.status == "ok":
                samples[mode].append(result)
            else:
                results[mode] = result
    for mode in modes:
        yield mode, "", results.get(mode) or _together(samples[mode])


def _within_limit(profile: Profile, mode: Mode, earlier: Sequence[PointResult], case: Case) -> PointResult:
    """Makes the next run of a mode, with the time that the earlier runs left. The case's limit is for all runs of a mode together."""
    spent_s = sum(each.measurements[0].samples[0] for each in earlier) / 1e3
    result = run_once(profile, mode, case.timeout_s - spent_s)
    if result.status == "timeout":
        return PointResult("timeout", f"{len(earlier)} of {case.runs} runs in {format_seconds(case.timeout_s)}")
    return result


def _together(runs: Sequence[PointResult]) -> PointResult:
    """Joins the results of single runs."""
    measured = tuple(
        Measurement(first.metric, first.unit, tuple(each.measurements[place].samples[0] for each in runs))
        for place, first in enumerate(runs[0].measurements)
    )
    return PointResult("ok", "", measured)
