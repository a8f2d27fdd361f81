"""One sweep: one process of a benchmark executable, restarted after the points that it does not survive."""

from __future__ import annotations

import dataclasses
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.formats.points import Point
from gpuheap.formats.protocol import Begin, Measurement, PointResult, ProtocolError, Result, parse_event
from gpuheap.running.executable import exit_words, last_line
from gpuheap.units import format_seconds

FAILURES_THAT_END_A_GRID = 3
LONGEST_LINE_BYTES = 64 << 20
START_ALLOWANCE_S = 60.0  # the time allowed until the first point begins: device start-up, making the heap
EXIT_ALLOWANCE_S = 10.0  # the time allowed for the process to end after its last point


@dataclass(frozen=True)
class Sweep:
    """The work of one process."""

    case: str
    allocator: str
    points: tuple[Point, ...]
    heap_bytes: int
    runs: int
    timeout_s: float  # the limit for all runs of one point
    seed: int
    files: tuple[tuple[str, Path], ...] = ()  # the files that the cases read, by the option's name
    enough_s: float = 0.0  # after so many seconds a point makes no more than five of its runs; 0: it makes all
    # The points that have results already, by index. They are not run, but count in the failures in a row that end a grid.
    finished: Mapping[int, PointResult] = field(default_factory=dict)
    grids: tuple[int, ...] = ()  # the number of each point's grid; empty: all are of one
    first_runs: int = 0  # the number of runs of each point if each needs a process of its own; 0: one process makes all runs

    def grid(self, index: int) -> int:
        return self.grids[index] if self.grids else 0


@dataclass(frozen=True)
class PointBegan:
    index: int


@dataclass(frozen=True)
class PointEnded:
    index: int
    result: PointResult


@dataclass(frozen=True)
class SweepCutShort:
    """Three points of a grid in a row failed, so its remaining points are not tried."""

    remaining: int


SweepEvent = PointBegan | PointEnded | SweepCutShort


class Stopped(Exception):
    """The caller has ended the sweep."""


def run_sweep(
    executable: Path, sweep: Sweep, variables: Mapping[str, str] | None = None, stop: threading.Event | None = None
) -> Generator[SweepEvent, None, None]:
    """Runs the points that are not finished. Closing the iterator ends the process; so does `stop`, set by another thread: Stopped.

    `variables`: of the process's environment, beside those of this one.

    Ends: each pass of the outer loop settles or gives up at least one point.
    """
    results: dict[int, PointResult] = dict(sweep.finished)
    pending = [index for index in range(len(sweep.points)) if index not in results]
    settled = 0
    while settled < len(pending):
        ended = _ended_grids(sweep, results)
        tried = [index for index in pending[settled:] if sweep.grid(index) not in ended]
        if len(tried) < len(pending) - settled:
            yield SweepCutShort(len(pending) - settled - len(tried))
            pending = pending[:settled] + tried
            continue
        if sweep.first_runs:
            index = pending[settled]
            yield PointBegan(index)
            results[index] = _first_runs(executable, sweep, sweep.points[index], variables, stop)
            settled += 1
            yield PointEnded(index, results[index])
            continue
        with _Process(executable, sweep, [sweep.points[i] for i in pending], settled, variables, stop) as process:
            for event in process.events(len(pending)):
                index = pending[event.point]
                if isinstance(event, Begin):
                    yield PointBegan(index)
                    continue
                settled = event.point + 1
                results[index] = event.result
                yield PointEnded(index, event.result)
                if event.result.failing and sweep.grid(index) in _ended_grids(sweep, results):
                    break


def _first_runs(
    executable: Path, sweep: Sweep, point: Point, variables: Mapping[str, str] | None, stop: threading.Event | None
) -> PointResult:
    """Measures a point each of whose runs needs a process of its own. The limit is for all runs together."""
    began = time.monotonic()
    one = dataclasses.replace(sweep, runs=1, enough_s=0.0, finished={}, grids=())
    runs: list[PointResult] = []
    for _ in range(sweep.first_runs):
        left = sweep.timeout_s - (time.monotonic() - began)
        late = PointResult("timeout", f"{len(runs)} of {sweep.first_runs} runs, each in a process of its own, within {format_seconds(sweep.timeout_s)}")
        if left <= 0:
            return late
        with _Process(executable, dataclasses.replace(one, timeout_s=left), [point], 0, variables, stop) as process:
            ended = [event.result for event in process.events(1) if isinstance(event, Result)]
        if not ended or ended[-1].status != "ok":
            return late if ended and ended[-1].status == "timeout" else ended[-1] if ended else PointResult("crash", "ended without a result")
        runs.append(ended[-1])
    together = zip(*(run.measurements for run in runs), strict=True)
    return PointResult("ok", "", tuple(Measurement(each[0].metric, each[0].unit, tuple(m.samples[0] for m in each)) for each in together))


def _ended_grids(sweep: Sweep, results: Mapping[int, PointResult]) -> set[int]:
    """The grids in which so many points in a row have failed that they are ended."""
    ended: set[int] = set()
    failed: dict[int, int] = {}
    for index in range(len(sweep.points)):
        grid = sweep.grid(index)
        failed[grid] = failed.get(grid, 0) + 1 if index in results and results[index].failing else 0
        if failed[grid] == FAILURES_THAT_END_A_GRID:
            ended.add(grid)
    return ended


class _Process:
    """A running executable. Its events end with the first point that fails to give a result, for which a result is made up."""

    def __init__(
        self,
        executable: Path,
        sweep: Sweep,
        points: Sequence[Point],
        skip: int,
        variables: Mapping[str, str] | None,
        stop: threading.Event | None,
    ) -> None:
        command = [str(executable), "--case", sweep.case, "--allocator", sweep.allocator]
        command += ["--heap-bytes", str(sweep.heap_bytes), "--runs", str(sweep.runs), "--seed", str(sweep.seed)]
        command += ["--timeout-s", f"{sweep.timeout_s:g}", "--enough-s", f"{sweep.enough_s:g}"]
        for option, path in sweep.files:
            command += [f"--{option}", str(path)]
        for point in points:
            command += ["--point", point.argument]
        if sweep.first_runs:
            command += ["--first-run"]
        if skip:
            command += ["--skip", str(skip)]
        self._timeout_s = sweep.timeout_s
        self._next = skip
        try:
            # The process gets a session of its own: Ctrl-C reaches only this process, which then ends the other one and its children.
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, **variables} if variables else None,
            )
        except OSError as error:
            raise UserError(f"{executable} cannot be run: {error.strerror}") from None
        self._output = _Output(self._child, stop)

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self._output.close()
        self._child.wait()

    def events(self, count: int) -> Iterator[Begin | Result]:
        began: int | None = None
        deadline = time.monotonic() + max(self._timeout_s, START_ALLOWANCE_S)
        # Ends: every line moves to a later event, and waiting for one is bounded by the deadline.
        while True:
            try:
                line = self._output.line(deadline)
            except TimeoutError:
                waited = self._timeout_s if began is not None else max(self._timeout_s, START_ALLOWANCE_S)
                what = "no result" if began is not None else "did not begin the point"
                yield Result(self._next, PointResult("timeout", f"{what} within {format_seconds(waited)}"))
                return
            if line is None:
                break
            if not line.startswith("{"):
                continue  # a kernel's or a library's own output
            try:
                event = parse_event(line)
                if isinstance(event, Begin) and (began is not None or event.point != self._next):
                    raise ProtocolError(f"began point {event.point}, expected point {self._next}")
                if isinstance(event, Result) and event.point != began:
                    raise ProtocolError(f"a result for point {event.point}, which was not begun")
            except ProtocolError as error:
                # An incomplete last line means that the process died while it wrote.
                if self._output.at_end_of_half_line():
                    break
                yield Result(self._next, PointResult("crash", f"broke the protocol: {error}"))
                return
            if isinstance(event, Begin):
                began = event.point
                deadline = time.monotonic() + self._timeout_s
                yield event
                continue
            began = None
            self._next = event.point + 1
            yield event
            if self._next == count:
                self._wait(EXIT_ALLOWANCE_S)
                return
            deadline = time.monotonic() + max(self._timeout_s, START_ALLOWANCE_S)
        code = self._wait(EXIT_ALLOWANCE_S)
        said = last_line(self._output.errors())
        if code == 2 and began is None:
            raise UserError(said or "the benchmark executable refused its arguments")
        if code is None:
            reason = "closed its output without a result"
        elif code == 0:
            reason = "ended without a result"
        else:
            reason = exit_words(code) + (f": {said}" if said else "")
        yield Result(self._next, PointResult("crash", reason))

    def _wait(self, seconds: float) -> int | None:
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _kill(self) -> None:
        """Ends the process and its children. A process that already ended is left alone."""
        if self._child.poll() is None:
            # The process may end between the two calls.
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)


class _Output:
    """Reads the two pipes of a process: standard output by lines, and the last part of standard error."""

    def __init__(self, child: subprocess.Popen[bytes], stop: threading.Event | None) -> None:
        assert child.stdout is not None and child.stderr is not None
        self._child = child
        self._stop = stop
        self._out, self._err = child.stdout, child.stderr
        self._selector = selectors.DefaultSelector()
        for pipe in (self._out, self._err):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ)
        self._unread = b""
        self._errors = b""
        self._ended = False
        self._half_line = False

    def line(self, deadline: float) -> str | None:
        """The next line, None at the end. A last line without a line break is returned too. Raises TimeoutError at the deadline.

        Ends: each pass reads something, meets the end, or lets time pass towards the deadline.
        """
        while True:
            text, newline, rest = self._unread.partition(b"\n")
            if newline:
                self._unread = rest
                return text.decode(errors="replace")
            if self._ended or len(text) > LONGEST_LINE_BYTES:
                self._unread = b""
                self._half_line = bool(text)
                return text.decode(errors="replace") if text else None
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if self._stop is not None and self._stop.is_set():
                raise Stopped
            # Half a second at most: a process may end while something that it started holds the pipe open.
            ready = self._selector.select(min(left, 0.5))
            for key, _ in ready:
                self._read(key.fileobj)
            if not ready and self._child.poll() is not None:
                self._ended = True

    def at_end_of_half_line(self) -> bool:
        return self._half_line

    def errors(self) -> str:
        """The last part of standard error."""
        while True:
            before = len(self._errors)
            if self._err in [key.fileobj for key in self._selector.get_map().values()]:
                self._read(self._err)
            if len(self._errors) == before or len(self._errors) > 1 << 16:
                return self._errors[-4096:].decode(errors="replace")

    def close(self) -> None:
        self._selector.close()
        self._out.close()
        self._err.close()

    def _read(self, pipe: object) -> None:
        out = pipe is self._out
        try:
            part = os.read((self._out if out else self._err).fileno(), 1 << 16)
        except BlockingIOError:
            return
        if not part:
            self._selector.unregister(self._out if out else self._err)
            self._ended = self._ended or out
        elif out:
            self._unread += part
        else:
            self._errors = (self._errors + part)[-(1 << 16) :]
