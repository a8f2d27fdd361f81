"""The time left for a plan, estimated from the points measured so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from gpuheap.running.plan import PlannedSweep


class Estimate:
    """The time left: the sum of the remaining points' expected times, divided by the number of workers.

    The expected time of a point is the mean over the measured points of its case and allocator, else over those of its case, else over all.
    """

    def __init__(self, sweeps: Iterable[PlannedSweep], workers: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._workers = workers
        self._clock = clock
        self._left: dict[tuple[str, str, str], int] = {}
        for sweep in sweeps:
            self._left[_kind(sweep)] = self._left.get(_kind(sweep), 0) + len(sweep.points)
        self._spent: dict[tuple[str, ...], tuple[float, int]] = {}
        self._since: dict[int, float] = {}  # the time of each sweep's last event

    def begins(self, sweep: PlannedSweep, kept: int) -> None:
        self._since[id(sweep)] = self._clock()
        self._settle(sweep, kept)

    def point_ends(self, sweep: PlannedSweep) -> None:
        """Counts the time since the sweep's last event as this point's time, which may include the start of a process."""
        now = self._clock()
        seconds = now - self._since.get(id(sweep), now)
        self._since[id(sweep)] = now
        suite, case, allocator = _kind(sweep)
        for key in ((suite, case, allocator), (suite, case), ()):
            total, count = self._spent.get(key, (0.0, 0))
            self._spent[key] = (total + seconds, count + 1)
        self._settle(sweep, 1)

    def untried(self, sweep: PlannedSweep, points: int) -> None:
        self._settle(sweep, points)

    @property
    def seconds_left(self) -> float | None:
        """The seconds left; None until the first point ended."""
        if () not in self._spent:
            return None
        return sum(count * self._mean(kind) for kind, count in self._left.items()) / self._workers

    def _mean(self, kind: tuple[str, str, str]) -> float:
        total, count = next(self._spent[key] for key in (kind, kind[:2], ()) if key in self._spent)
        return total / count

    def _settle(self, sweep: PlannedSweep, points: int) -> None:
        self._left[_kind(sweep)] -= points


def _kind(sweep: PlannedSweep) -> tuple[str, str, str]:
    return (sweep.suite.name, sweep.case.name, sweep.allocator)
