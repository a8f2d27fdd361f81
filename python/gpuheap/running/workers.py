"""The workers that measure, one sweep or program at a time each: this machine, or each of its GPUs. The dispatcher gives them work."""

from __future__ import annotations

import math
import queue
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from gpuheap.errors import UserError
from gpuheap.running.children import Processes
from gpuheap.running.executable import Executable
from gpuheap.running.runner import Sweep, SweepEvent, run_sweep
from gpuheap.toolkit import gpu_names

VISIBLE = "CUDA_VISIBLE_DEVICES"


class WorkerLost(Exception):
    """The worker is gone: other workers take its unfinished work. The text says what is known about the end."""


class TimeIsUp(Exception):
    """The time that was given for all work is over."""


class AnyWorker(Protocol):
    """Does one piece of work at a time: run(*work, stop) yields events, and ends early with Stopped once `stop` is set."""

    @property
    def name(self) -> str: ...
    @property
    def run(self) -> Callable[..., Iterator[Any]]: ...


class Worker(Protocol):
    """Runs one sweep at a time."""

    @property
    def name(self) -> str: ...
    def run(self, executable: Executable, sweep: Sweep, stop: threading.Event) -> Iterator[SweepEvent]:
        """Ends early with Stopped once `stop` is set."""
        ...


@dataclass(frozen=True)
class LocalWorker:
    """Processes of this machine, on the GPU that CUDA picks or on a given one."""

    gpu: str = ""  # as CUDA_VISIBLE_DEVICES names it; empty: CUDA's choice
    processes: Processes | None = field(default=None, compare=False)  # keeps a process for the next sweep; None: each sweep has a process of its own

    @property
    def name(self) -> str:
        return f"GPU {self.gpu}" if self.gpu else ""

    def run(self, executable: Executable, sweep: Sweep, stop: threading.Event) -> Iterator[SweepEvent]:
        processes = self.processes if executable.description.serves else None
        with closing(run_sweep(executable.path, sweep, {VISIBLE: self.gpu} if self.gpu else None, stop, processes)) as events:
            yield from events

    def close(self) -> None:
        """Ends the process that waits for the next sweep, if there is one."""
        if self.processes is not None:
            self.processes.close()


def local_workers(gpus: str | None, executable: Executable, apart: bool = False) -> list[LocalWorker]:
    """The workers for the GPUs that `--gpus` names: `all`, a number of GPUs, or indices as `0,2`. `apart`: each sweep has a process of its own."""
    return [replace(worker, processes=None if apart else Processes()) for worker in _named_gpus(gpus, executable)]


def _named_gpus(gpus: str | None, executable: Executable) -> list[LocalWorker]:
    if gpus is None:
        return [LocalWorker()]
    if executable.backend != "cuda":
        raise UserError(f"--gpus needs the backend cuda, and this is {executable.backend}")
    text = gpus.strip()
    if re.fullmatch(r"\d+(,\d+)+,?", text) or text.endswith(",") and text[:-1].isdigit():
        indices = [part for part in text.split(",") if part]
        if len(set(indices)) < len(indices):
            raise UserError(f"--gpus: '{gpus}' has a GPU twice")
        return [LocalWorker(index) for index in indices]
    if text != "all" and not (text.isdigit() and int(text) > 0):
        raise UserError(f"--gpus: '{gpus}' is neither all, a number of GPUs, nor their indices as 0,2 (one index as 2,)")
    # A table has rows of one kind of GPU, so GPUs of other kinds are left out.
    device = executable.description.device
    alike = [str(index) for index, name in enumerate(gpu_names()) if device is not None and name == device.name]
    if text == "all":
        return [LocalWorker(index) for index in alike] or [LocalWorker()]
    if int(text) > len(alike):
        kind = device.name if device is not None else "usable"
        raise UserError(f"--gpus: {text} GPUs were asked for, and nvidia-smi lists {len(alike)} of the kind {kind}: name fewer")
    return [LocalWorker(index) for index in alike[: int(text)]]


@dataclass
class _Job:
    """A piece of work that a worker is doing."""

    index: int
    worker: AnyWorker
    thread: threading.Thread


class Dispatcher:
    """Gives pieces of work to workers, in order. Calls `begin`, `event`, `end` and `lost` in the thread that calls run().

    `begin(index)` prepares a piece of work, or returns None if it is finished already. `event` and `end` report its progress and its end.
    """

    def __init__(
        self,
        workers: Sequence[AnyWorker],
        begin: Callable[[int], tuple[Any, ...] | None],
        event: Callable[[int, Any, AnyWorker], None],
        end: Callable[[int], None],
        lost: Callable[[str], None],
        until: float = math.inf,
    ) -> None:
        self._idle: deque[AnyWorker] = deque(workers)
        self._begin, self._event, self._end, self._lost, self._until = begin, event, end, lost, until
        self._inbox: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._jobs: dict[int, _Job] = {}
        self._stop = threading.Event()

    def run(self, count: int) -> None:
        """Does all `count` pieces of work. Raises TimeIsUp once the time is over.

        When it returns or raises, no work runs any more, and every event has been passed on.
        """
        waiting = deque(range(count))
        try:
            # Ends: each pass begins a piece of work or takes an event of one, and each piece of work has finitely many events.
            while waiting or self._jobs:
                while waiting and self._idle:
                    if time.monotonic() >= self._until:
                        raise TimeIsUp
                    self._start(waiting.popleft())
                if self._jobs:
                    self._take(*self._next(), waiting)
                elif waiting and not self._idle:
                    raise UserError("no worker is left: finished points are kept, and the same command goes on from there")
        finally:
            self._stop.set()
            for job in self._jobs.values():
                _wait_for(job.thread)
            self._drain()

    def _next(self) -> tuple[int, Any]:
        """The next message of a worker."""
        try:
            return self._inbox.get(timeout=None if self._until == math.inf else max(self._until - time.monotonic(), 0.0))
        except queue.Empty:
            raise TimeIsUp from None

    def _start(self, index: int) -> None:
        ready = self._begin(index)
        if ready is None:
            self._end(index)
            return
        worker = self._idle.popleft()
        thread = threading.Thread(target=self._work, args=(index, worker, ready), name=f"work {index}", daemon=True)
        self._jobs[index] = _Job(index, worker, thread)
        thread.start()

    def _work(self, index: int, worker: AnyWorker, work: tuple[Any, ...]) -> None:
        try:
            for event in worker.run(*work, self._stop):
                self._inbox.put((index, event))
        except BaseException as error:
            self._inbox.put((index, error))
        else:
            self._inbox.put((index, None))

    def _take(self, index: int, said: Any, waiting: deque[int]) -> None:
        job = self._jobs[index]
        if isinstance(said, WorkerLost):
            del self._jobs[index]
            self._lost(str(said))
            # Another worker begins the work again, and continues after the finished points.
            waiting.appendleft(index)
        elif isinstance(said, BaseException):
            raise said
        elif said is None:
            del self._jobs[index]
            self._end(index)
            self._idle.append(job.worker)
        else:
            self._event(index, said, job.worker)

    def _drain(self) -> None:
        """Passes on the events that arrived before the work was stopped."""
        while not self._inbox.empty():
            index, said = self._inbox.get()
            if said is not None and not isinstance(said, BaseException) and index in self._jobs:
                self._event(index, said, self._jobs[index].worker)


def _wait_for(thread: threading.Thread) -> None:
    """Waits for a thread that ends its process. Another Ctrl-C meanwhile has no effect.

    Ends: a worker that is told to stop does so within seconds.
    """
    while thread.is_alive():
        with suppress(KeyboardInterrupt):
            thread.join()
