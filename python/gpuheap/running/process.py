"""Runs a program from its start to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from gpuheap.errors import UserError


@dataclass(frozen=True)
class Ended:
    """A process that has ended. `in_time` is False if the process was killed at its time limit; `code` is then None."""

    code: int | None
    in_time: bool
    nanoseconds: int


def run_process(words: Sequence[str], environment: Mapping[str, str], output: Path, errors: Path, limit_s: float) -> Ended:
    """Runs the program in a process group of its own, with an empty standard input.

    The group is killed after `limit_s` seconds, or when this process is interrupted. Raises UserError if the program cannot be started.
    """
    late = threading.Event()
    with output.open("wb") as out, errors.open("wb") as error:
        process: subprocess.Popen[bytes] | None = None
        timer: threading.Timer | None = None
        begin = time.perf_counter_ns()
        try:
            with _signals_afterwards():
                process = subprocess.Popen(
                    list(words), env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=error, start_new_session=True
                )
            # A wait with a limit polls, while one without a limit returns as soon as the process ends.
            timer = threading.Timer(min(limit_s, threading.TIMEOUT_MAX), _end_late, (process, late))
            timer.daemon = True
            timer.start()
            code = process.wait()
            end = time.perf_counter_ns()
        except OSError as problem:
            raise UserError(f"{words[0]}: {problem.strerror}") from None
        except BaseException:
            if process is not None:
                _kill(process)
                process.wait()
            raise
        finally:
            if timer is not None:
                timer.cancel()
    return Ended(None if late.is_set() else code, not late.is_set(), end - begin)


@contextmanager
def _signals_afterwards() -> Iterator[None]:
    """Delays Ctrl-C, SIGTERM and SIGHUP until the `with` statement ends. A signal during the start of a child would leave the child running."""
    came: list[int] = []
    with answering(lambda number, frame: came.append(number)):
        yield
    if came:
        signal.raise_signal(came[0])


@contextmanager
def answering(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Sets the handler of the signals that end this process: Ctrl-C, SIGTERM and SIGHUP. An ignored signal stays ignored, as nohup requires."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    taken = {number: found for number, found in before.items() if found is not signal.SIG_IGN and found is not None}
    try:
        for number in taken:
            signal.signal(number, handler)
        yield
    finally:
        for number, found in taken.items():
            signal.signal(number, found)


def _end_late(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
