"""Runs pieces of work at the same time. They are chosen one by one, so that what the earlier pieces have done decides which comes next."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def run(jobs: int, choose: Callable[[], Piece | None], work: Callable[[Piece], Result], note: Callable[[Piece, Result], bool]) -> None:
    """Runs up to `jobs` pieces at the same time. `choose` returns the next piece; None: there is none, at least until a running piece ends. `work` runs a
    piece. `note` hears its result, and returns whether further pieces may begin. One thread at a time is in `choose` or `note`.

    After Ctrl-C no further piece begins. The signal ends the processes of the running pieces too, so they are noted before KeyboardInterrupt goes on."""
    changed = threading.Condition()
    running, stopping = 0, False

    def worker() -> None:
        nonlocal running, stopping
        # Ends if the pieces do: `choose` answers None in the end, and each piece that is waited for ends.
        while True:
            with changed:
                while (piece := None if stopping else choose()) is None:
                    if stopping or running == 0:
                        return
                    changed.wait()
                running += 1
            goes_on = False
            try:
                result = work(piece)
                with changed:
                    goes_on = note(piece, result)
            finally:
                with changed:
                    running -= 1
                    stopping = stopping or not goes_on
                    changed.notify_all()

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for future in [pool.submit(worker) for _ in range(jobs)]:
                future.result()
        except BaseException:
            # This is before the end of `with`, which waits for the workers.
            with changed:
                stopping = True
                changed.notify_all()
            raise


def stop_at_sigterm() -> None:
    """Lets SIGTERM, with which scripts/nightly stops a script, do what Ctrl-C does. A second signal changes nothing: the first one's pieces are noted."""

    def stop(*_: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    for number in numbers:
        signal.signal(number, stop)
