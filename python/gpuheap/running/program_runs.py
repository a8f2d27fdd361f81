"""Runs a program once. The mode decides the source of its memory, its calls are traced, and its output is compared with that of the plain run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gpuheap.errors import UserError
from gpuheap.formats.protocol import Measurement, PointResult
from gpuheap.host.history import History, history_of
from gpuheap.host.launch import find_program, prepare_folder
from gpuheap.host.trace import ALLOCATE, COPY, LAUNCH, Trace, find_traces, read_trace
from gpuheap.host.variables import for_trace, preloaded
from gpuheap.metrics import METRICS
from gpuheap.running.children import Stopped
from gpuheap.running.executable import exit_words, last_line
from gpuheap.running.program_modes import MEMORY, Mode, prepare_mode
from gpuheap.units import format_seconds

WRONG_RESULT = 4  # the exit code of a program that found its own result wrong
TIMES = "GPUHEAP_PROGRAM_TIMES"  # the variable that names the file into which a program writes the time in its kernels
PROFILE_TIMEOUT_S = 300.0
LOOK_S = 0.2  # the interval at which the request to stop is polled


@dataclass(frozen=True)
class Ended:
    code: int | None  # None: killed when its time was up
    output: bytes
    errors: str
    seconds: float

    @property
    def words(self) -> str:
        said = last_line(self.errors) or last_line(self.output.decode(errors="replace"))
        return exit_words(self.code or 0) + (f": {said}" if said else "")


@dataclass(frozen=True)
class Seat:
    """The place of a program's run: the variables that choose the GPU, a folder for files, and the event that requests the end."""

    variables: Mapping[str, str]
    folder: Path
    stop: threading.Event


@dataclass(frozen=True)
class Profile:
    """The plain run of a program: its history, from which pools are planned, and its output, with which the outputs of other runs are compared."""

    words: tuple[str, ...]
    library: Path
    seat: Seat
    name: str  # the name of the program's file
    history: History
    digest: str  # the digest of its output

    @property
    def folder(self) -> Path:
        return self.seat.folder

    @property
    def traces(self) -> Path:
        """The folder for the traces of runs."""
        return self.folder / "trace"

    def mode(self, name: str) -> Mode:
        """Prepares a mode. Raises UserError if this build or this program has no memory for it."""
        return prepare_mode(name, self.history, self.library, self.folder, self._empty_traces(), self.name, self._rehearse)

    def _empty_traces(self) -> Path:
        shutil.rmtree(self.traces, ignore_errors=True)
        self.traces.mkdir()
        return self.traces

    def _rehearse(self, library: Path, variables: dict[str, str]) -> str:
        ended = run_process(self.words, preloaded(library, variables), PROFILE_TIMEOUT_S, self.seat)
        failure = _failure(ended, PROFILE_TIMEOUT_S)
        if failure is not None:
            return f"it ended with {failure.status} ({failure.reason})"
        return "" if _digest(ended.output) == self.digest else "its output is not that of the plain run"

    def run(self, mode: Mode, limit_s: float, times: Path) -> tuple[Ended, list[Trace]]:
        """One run in a mode, and its traces. The program writes the time in its kernels to `times`."""
        traces = self._empty_traces()
        times.unlink(missing_ok=True)
        ended = run_process(self.words, preloaded(mode.library, {**mode.variables, TIMES: str(times)}), limit_s, self.seat)
        return ended, [read_trace(path) for path in sorted(traces.glob("*.trace"))]


class Failed(Exception):
    """The plain run failed, so other runs cannot be compared with it."""

    def __init__(self, result: PointResult) -> None:
        super().__init__(result.reason)
        self.result = result


def run_process(words: Sequence[str], environment: Mapping[str, str], limit_s: float, seat: Seat) -> Ended:
    """Runs a program in a session of its own, and kills it when its time is up. Raises Stopped, after the program's end, once `seat.stop` is set."""
    begin = time.perf_counter()
    try:
        process = subprocess.Popen(
            list(words),
            env={**environment, **seat.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise UserError(f"{words[0]}: {error.strerror}") from None
    late = threading.Event()

    def stop() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(max(limit_s, 0.0), stop)
    timer.daemon = True
    timer.start()
    ends: list[float] = []
    waiter = threading.Thread(target=_note_end, args=(process.pid, ends), daemon=True)
    waiter.start()
    try:
        # Ends: the program ends, at the latest because the timer kills it.
        while True:
            with suppress(subprocess.TimeoutExpired):
                output, errors = process.communicate(timeout=LOOK_S)
                break
            if seat.stop.is_set():
                raise Stopped
        waiter.join()  # ends: the process has ended
        seconds = ends[0] - begin
    except BaseException:
        _kill(process)
        process.wait()
        raise
    finally:
        timer.cancel()
    return Ended(None if late.is_set() else process.returncode, output, errors.decode(errors="replace"), seconds)


def _note_end(process: int, ends: list[float]) -> None:
    """Waits for the end of a process, and notes when it was. communicate() looks for the end at intervals of up to 50 ms, which are a tenth of some runs."""
    with suppress(ChildProcessError):  # communicate() has met the end first
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    ends.append(time.perf_counter())


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def take_profile(words: Sequence[str], library: Path, seat: Seat) -> Profile:
    """Makes the plain, traced run of a program. Raises Failed if the program fails, and UserError if it cannot be traced.

    Makes the seat's folder, or empties it.
    """
    shutil.rmtree(seat.folder, ignore_errors=True)
    seat.folder.mkdir(parents=True)
    program = find_program(words)
    traces = prepare_folder(seat.folder / "profile")
    ended = run_process(words, preloaded(library, for_trace(traces, program.name)), PROFILE_TIMEOUT_S, seat)
    failure = _failure(ended, PROFILE_TIMEOUT_S)
    if failure is not None:
        raise Failed(failure)
    longest = max((read_trace(path) for path in find_traces(traces)), key=lambda trace: len(trace.events))
    return Profile(tuple(words), library, seat, program.name, history_of(longest), _digest(ended.output))


def take_shared_profile(plain: Profile, memory: str) -> Profile:
    """Profiles the program as one that is written for memory of this kind. Raises Failed if it fails, or if its output differs from the plain run's."""
    seat = Seat({**plain.seat.variables, MEMORY: memory}, plain.folder / memory, plain.seat.stop)
    found = take_profile(plain.words, plain.library, seat)
    if found.digest != plain.digest:
        raise Failed(PointResult("wrong", f"with {memory} memory its output is not that of the plain run"))
    return found


def run_once(profile: Profile, mode: Mode, limit_s: float) -> PointResult:
    """Runs the program once in a mode. Returns a sample of each metric."""
    times = profile.folder / "times"
    ended, traces = profile.run(mode, limit_s, times)
    refused = _unsupported(traces, mode)
    if refused is not None:
        return PointResult("unsupported", refused)
    failure = _failure(ended, limit_s)
    if failure is not None:
        return failure
    if _digest(ended.output) != profile.digest:
        return PointResult("wrong", "its output is not that of the plain run")
    try:
        kernel_us = float(json.loads(times.read_text(encoding="utf-8"))["kernel_us"])
    except (OSError, ValueError, KeyError, TypeError):
        return PointResult("crash", f"{profile.name} wrote no time in kernels to the file that {TIMES} names: build the programs again")
    dropped = sum(trace.counters["elided"] - trace.counters["separated"] for trace in traces)
    if dropped != mode.downloads:
        return PointResult("unsupported", f"E09: {dropped} downloads were dropped, and the rehearsal proved {mode.downloads}")
    events = [trace.events for trace in traces]
    values = {
        "total_ms": ended.seconds * 1e3,
        "api_us": sum(float(each["duration_ns"].sum(dtype="f8")) for each in events) / 1e3,
        "copy_us": sum(float(each["duration_ns"][each["kind"] == COPY].sum(dtype="f8")) for each in events) / 1e3,
        "kernel_us": kernel_us,
        "allocations": _count(events, ALLOCATE),
        "copies": _count(events, COPY) - dropped,
        "kernels": _count(events, LAUNCH),
    }
    return PointResult("ok", "", tuple(Measurement(name, METRICS[name].unit, (value,)) for name, value in values.items()))


def _count(events: Sequence[NDArray[Any]], kind: int) -> float:
    """The number of calls of a kind that did not fail."""
    return float(sum(int(((each["kind"] == kind) & (each["result"] == 0)).sum()) for each in events))


def _failure(ended: Ended, limit_s: float) -> PointResult | None:
    if ended.code is None:
        return PointResult("timeout", f"killed after {format_seconds(limit_s)}")
    if ended.code == WRONG_RESULT:
        return PointResult("wrong", last_line(ended.output.decode(errors="replace")) or ended.words)
    return PointResult("crash", ended.words) if ended.code != 0 else None


def _unsupported(found: Sequence[Trace], mode: Mode) -> str | None:
    """The reason why the library served no request of a run; None if it served one, or if the mode serves none."""
    if mode.requests == 0:
        return None
    if any(trace.counters["served"] for trace in found):
        return None
    said = [f"{message.code}: {message.words}" for trace in found for message in trace.messages]
    # The reason why the pools stopped is more useful than the requests that went to the driver afterwards.
    cause = next((words for words in said if not words.startswith(("E03", "E04"))), None)
    return cause or (said[0] if said else "the library served nothing and did not say why")


def _digest(output: bytes) -> str:
    return hashlib.sha256(output).hexdigest()
