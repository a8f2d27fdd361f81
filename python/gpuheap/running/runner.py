"""Runs one sweep in a process of a benchmark executable, which may serve several sweeps. If a point kills the process, another process continues."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.formats.points import Point
from gpuheap.formats.protocol import Begin, Measurement, PointResult, ProtocolError, Result, parse_event
from gpuheap.formats.suites import FEWEST_RUNS
from gpuheap.running.children import Child, Processes, Starts
from gpuheap.running.executable import exit_words, last_line
from gpuheap.units import format_seconds, parse_bytes

FAILURES_THAT_END_A_GRID = 3
START_ALLOWANCE_S = 60.0  # the least time allowed until a point begins: before the first one, the device starts up and the heap is made
EXIT_ALLOWANCE_S = 10.0  # the time allowed for the process to end after its last point
SERVES, DONE = '{"serves":true}', '{"done":true}'  # lines of a process that serves


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
    enough_s: float = 0.0  # a point that has taken this many seconds makes at most five runs; 0: it makes all runs
    # The points that already have results, by index. They are not run, but their failures count among the failures in a row that end a grid.
    finished: Mapping[int, PointResult] = field(default_factory=dict)
    grids: tuple[int, ...] = ()  # the number of each point's grid; empty: all points are of one grid
    process_wide: bool = False  # whether the heap belongs to the process, so that no other sweep can follow in it
    first_runs: int = 0  # the number of runs of each point if each needs a process of its own; 0: one process makes all runs

    def grid(self, index: int) -> int:
        return self.grids[index] if self.grids else 0

    @property
    def largest_heap(self) -> int:
        named = (point.fields.get("heap") for point in self.points)
        return max([self.heap_bytes, *(parse_bytes(str(size), "heap") for size in named if size)])


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


def run_sweep(
    executable: Path,
    sweep: Sweep,
    variables: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
    processes: Processes | None = None,
) -> Generator[SweepEvent, None, None]:
    """Runs the points that are not finished. Closing the iterator ends the process. If another thread sets `stop`, the process ends, and Stopped is raised.

    `variables` are added to the environment of the process. `processes` keeps a process for the next sweep; it is given only if the executable can
    serve, and always with the same `variables`.

    Ends: each pass of the outer loop finishes or gives up at least one point.
    """
    starts = Starts(executable, variables) if sweep.first_runs and processes is not None else None
    try:
        yield from _run_points(executable, sweep, variables, stop, processes, starts)
    finally:
        if starts is not None:
            starts.close()


def _run_points(
    executable: Path,
    sweep: Sweep,
    variables: Mapping[str, str] | None,
    stop: threading.Event | None,
    processes: Processes | None,
    starts: Starts | None,
) -> Iterator[SweepEvent]:
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
            if processes is not None:
                processes.close()
            results[index] = _first_runs(executable, sweep, sweep.points[index], variables, stop, starts)
            settled += 1
            yield PointEnded(index, results[index])
            continue
        with _Process(executable, sweep, [sweep.points[i] for i in pending], settled, variables, stop, processes) as process:
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
    executable: Path, sweep: Sweep, point: Point, variables: Mapping[str, str] | None, stop: threading.Event | None, starts: Starts | None
) -> PointResult:
    """Measures a point whose runs need a process each, one after the other. The time limit is for all runs together, without the starts of
    the processes. With the fewest runs that count the point ends before its limit would end it: two more runs must fit, as in the executable."""
    one = dataclasses.replace(sweep, runs=1, enough_s=0.0, finished={}, grids=())
    runs: list[PointResult] = []
    spent_s = 0.0
    for _ in range(sweep.first_runs):
        left = sweep.timeout_s - spent_s
        late = PointResult("timeout", f"{len(runs)} of {sweep.first_runs} runs, each in a process of its own, within {format_seconds(sweep.timeout_s)}")
        if left <= 0:
            return late
        ended: PointResult | None = None
        child = starts.take(min(sweep.first_runs - len(runs), FEWEST_RUNS), START_ALLOWANCE_S, stop) if starts is not None else None
        began = time.monotonic()
        with _Process(executable, dataclasses.replace(one, timeout_s=left), [point], 0, variables, stop, child=child) as process:
            for event in process.events(1):
                if isinstance(event, Begin):
                    began = time.monotonic()
                else:
                    ended = event.result
                    spent_s += time.monotonic() - began
        if ended is None:
            return PointResult("crash", "ended without a result")
        if ended.status != "ok":
            return late if ended.status == "timeout" else ended
        runs.append(ended)
        if len(runs) >= FEWEST_RUNS and spent_s + 2 * spent_s / len(runs) >= sweep.timeout_s:
            break
    together = zip(*(run.measurements for run in runs), strict=True)
    return PointResult("ok", "", tuple(Measurement(each[0].metric, each[0].unit, tuple(m.samples[0] for m in each)) for each in together))


def _ended_grids(sweep: Sweep, results: Mapping[int, PointResult]) -> set[int]:
    """The grids in which FAILURES_THAT_END_A_GRID points in a row have failed."""
    ended: set[int] = set()
    failed: dict[int, int] = {}
    for index in range(len(sweep.points)):
        grid = sweep.grid(index)
        failed[grid] = failed.get(grid, 0) + 1 if index in results and results[index].failing else 0
        if failed[grid] == FAILURES_THAT_END_A_GRID:
            ended.add(grid)
    return ended


class _Process:
    """A running executable. Its events end at the first point for which the process gives no result. That point gets a result that says why."""

    def __init__(
        self,
        executable: Path,
        sweep: Sweep,
        points: Sequence[Point],
        skip: int,
        variables: Mapping[str, str] | None,
        stop: threading.Event | None,
        processes: Processes | None = None,
        child: Child | None = None,
    ) -> None:
        """If `processes` is given, a process that serves is taken from it, and is kept there after the sweep.

        `child` is a process that serves this sweep only.
        """
        words = _request(sweep, points, skip)
        self._executable, self._allocator, self._stop = executable, sweep.allocator, stop
        self._timeout_s = sweep.timeout_s
        self._next = skip
        self._processes = processes
        self._waits = False  # whether the process has ended its sweep, and waits for another
        self._deadline = time.monotonic() + max(self._timeout_s, START_ALLOWANCE_S)
        if child is None and processes is not None:
            child = _serving(executable, sweep, variables, processes)
        self._child = child if child is not None else Child([str(executable), *words], variables)
        if self._child.serves:
            try:
                self._child.ask(words, self._deadline, stop)
            except BaseException:
                self._child.end()  # nobody else knows of the process
                raise

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self._waits and self._processes is not None:
            self._processes.keep(self._executable, self._allocator, self._child)
        else:
            self._child.end()

    def events(self, count: int) -> Iterator[Begin | Result]:
        began: int | None = None
        output = self._child.output
        deadline = self._deadline
        # Ends: the process begins and ends each point once, and the deadline bounds the wait for a line.
        while True:
            try:
                line = output.line(deadline, self._stop)
            except TimeoutError:
                waited = self._timeout_s if began is not None else max(self._timeout_s, START_ALLOWANCE_S)
                what = "no result" if began is not None else "did not begin the point"
                yield Result(self._next, PointResult("timeout", f"{what} within {format_seconds(waited)}"))
                return
            if line is None:
                break
            if not line.startswith("{") or line == SERVES:
                continue  # a kernel's or a library's own output
            try:
                event = parse_event(line)
                if isinstance(event, Begin) and (began is not None or event.point != self._next):
                    raise ProtocolError(f"began point {event.point}, expected point {self._next}")
                if isinstance(event, Result) and event.point != began:
                    raise ProtocolError(f"a result for point {event.point}, which was not begun")
            except ProtocolError as error:
                # An incomplete last line means that the process died while it wrote.
                if output.at_end_of_half_line():
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
                self._waits = self._at_end()
                return
            deadline = time.monotonic() + max(self._timeout_s, START_ALLOWANCE_S)
        code = self._child.wait(EXIT_ALLOWANCE_S)
        said = last_line(output.errors())
        if code == 2 and began is None:
            raise UserError(said or "the benchmark executable refused its arguments")
        if code is None:
            reason = "closed its output without a result"
        elif code == 0:
            reason = "ended without a result"
        else:
            reason = exit_words(code) + (f": {said}" if said else "")
        yield Result(self._next, PointResult("crash", reason))

    def _at_end(self) -> bool:
        """Waits for the end of the process or, if it serves, of the sweep. Returns whether the process now waits for another sweep."""
        if not self._child.serves:
            self._child.wait(EXIT_ALLOWANCE_S)
            return False
        with suppress(TimeoutError):
            return self._child.output.line(time.monotonic() + EXIT_ALLOWANCE_S, self._stop) == DONE
        return False


def _request(sweep: Sweep, points: Sequence[Point], skip: int) -> list[str]:
    """The arguments of the executable for a sweep."""
    words = ["--case", sweep.case, "--allocator", sweep.allocator]
    words += ["--heap-bytes", str(sweep.heap_bytes), "--runs", str(sweep.runs), "--seed", str(sweep.seed)]
    words += ["--timeout-s", f"{sweep.timeout_s:g}", "--enough-s", f"{sweep.enough_s:g}"]
    for option, path in sweep.files:
        words += [f"--{option}", str(path)]
    for point in points:
        words += ["--point", point.argument]
    if sweep.first_runs:
        words += ["--first-run"]
    if skip:
        words += ["--skip", str(skip)]
    return words


def _serving(executable: Path, sweep: Sweep, variables: Mapping[str, str] | None, processes: Processes) -> Child:
    """A process that serves: the waiting one or a new one. A heap that belongs to the process keeps its size, so such a sweep needs a new process."""
    if sweep.process_wide:
        processes.close()
    return processes.take(executable, sweep.allocator) or Child([str(executable), "--serve"], variables, serves=True)
