"""The certainty of a verdict: by a bootstrap over the runs, and by the values that time-outs leave possible.

A draw resamples the runs of each measurement, at random and with repetition, and judges the relation by the statistics of the new samples. A completion
gives each point that timed out one of the values that its time limit leaves possible.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuheap.judging import language as say
from gpuheap.judging.evidence import Evidence, Found, Reading, Runs
from gpuheap.judging.modes import modes
from gpuheap.judging.relations import NotMeasured, hold
from gpuheap.judging.series import Votes

CONFIDENCE = 0.95
# A verdict whose share of all possible draws is below 95 % is that of all FEW_DRAWS draws with a probability of less than 5 %. So DRAWS draws are made only
# if the first FEW_DRAWS do not all agree.
FEW_DRAWS, DRAWS = 60, 400
# The values tried for a time-out: the bound itself, multiples of it, and a run that never ends.
STRETCHES = (1.0, 3.0, 10.0, math.inf)
# For a time-out without bounds, these stand in place of the bound and its multiples: a value below all others, no value, which leaves the point out, and a
# value above all others. The values of the other allocators at the same point are tried too, each in turn.
UNBOUNDED = {1.0: 1e-9, 3.0: None, 10.0: 1e12}


@dataclass(frozen=True)
class Certainty:
    holds: bool | None  # None: undecided
    least: float  # the share of draws in which the relation holds, for the completion in which it is smallest
    most: float  # the same share, for the completion in which it is largest
    with_runs: int  # measurements whose runs are known
    measurements: int
    open_points: int  # points that timed out, or that were skipped after failures
    within_noise: bool = False  # the relation holds in few draws, but so many of its comparisons may hold that it may hold
    estimated: bool = False  # whether the runs of some measurements are estimated from percentiles

    @property
    def basis(self) -> str:
        """For example `95 %`, `no interval`, `95 %, 3 of 8 measurements` or `95 %, by percentiles`."""
        if not self.with_runs:
            return "no interval" if self.measurements else ""
        part = "" if self.with_runs == self.measurements else f", {self.with_runs} of {self.measurements} measurements"
        return f"{CONFIDENCE:.0%}{part}{', by percentiles' if self.estimated else ''}".replace("%", " %")

    @property
    def words(self) -> str:
        """The reason why the relation is undecided; "" if it is decided."""
        if self.holds is not None:
            return ""
        if self.within_noise:
            return f"holds in {self.most:.0%} of all draws of the runs, although enough of its comparisons hold in more than {1 - CONFIDENCE:.0%} each"
        if self.least == self.most:
            return f"holds in {self.least:.0%} of all draws of the runs"
        between = f"holds in {self.least:.0%} to {self.most:.0%} of all draws of the runs" if self.with_runs else "the verdict depends on them"
        return f"{self.open_points} point{'s' if self.open_points != 1 else ''} without an end: {between}"


def certainty(relation: say.Relation, evidence: Evidence) -> Certainty:
    """The certainty of a relation for which hold() does not raise NotMeasured."""
    readings = [reading for side in say.sides_of(relation) for reading in _readings_of(side, evidence)]
    measured = {reading.runs for reading in readings if reading.runs is not None}
    with_runs = {runs for runs in measured if runs.enough}
    open_points = {(reading.allocator, tuple(sorted(reading.fields.items()))) for reading in readings if reading.is_open}
    completions = [(stretch, "") for stretch in (STRETCHES if open_points else STRETCHES[-1:])]
    if any(reading.is_open and reading.between is None for reading in readings):
        completions += [(STRETCHES[0], name) for name in sorted({reading.allocator for reading in readings if reading.ok})]
    try:
        shares = [_share(relation, evidence, stretch, like, bool(with_runs)) for stretch, like in completions]
    except NotMeasured:  # no measurement is left without the open points, of whose values nothing is known
        shares = [(0.0, False), (1.0, False)]
    least, most = min(share for share, _ in shares), max(share for share, _ in shares)
    within_noise = most <= 1 - CONFIDENCE and any(may_hold for _, may_hold in shares)
    holds = True if least >= CONFIDENCE else False if most <= 1 - CONFIDENCE and not within_noise else None
    estimated = any(runs.estimated for runs in with_runs)
    return Certainty(holds, least, most, len(with_runs), len(measured), len(open_points), within_noise, estimated)


def _readings_of(side: say.Side, evidence: Evidence) -> Sequence[Reading]:
    named = tuple(name for name in side.of if name != say.SAME)
    return evidence.find(side, named).readings if named else ()


def _share(relation: say.Relation, evidence: Evidence, stretch: float, like: str, noisy: bool) -> tuple[float, bool]:
    """The share of draws in which the relation holds, and whether it may hold although that share is small.

    Of many comparisons that all hold by little, some fail in nearly every draw. So a relation may hold unless too few of its comparisons hold in more
    than 5 % of the draws each. If no runs are known, there is one draw: the measured statistics. Raises NotMeasured.
    """
    drawn = _Drawn(evidence, stretch, like)
    if not noisy:
        return float(hold(relation, drawn).holds), False
    held, counts, votes = _draw(relation, drawn, range(FEW_DRAWS))
    if held == FEW_DRAWS or (held == 0 and not votes.decided_by(count > 0 for count in counts)):
        return held / FEW_DRAWS, False
    more, more_counts, _ = _draw(relation, drawn, range(FEW_DRAWS, DRAWS))
    may_hold = votes.decided_by(count + again > (1 - CONFIDENCE) * DRAWS for count, again in zip(counts, more_counts, strict=True))
    return (held + more) / DRAWS, may_hold


def _draw(relation: say.Relation, drawn: _Drawn, numbers: range) -> tuple[int, list[int], Votes]:
    """In how many of these draws the relation holds, in how many each of its comparisons, and the votes of the last draw."""
    votes = []
    for drawn.draw in numbers:
        votes.append(hold(relation, drawn).votes)
    counts = [sum(each) for each in zip(*(one.comparisons() for one in votes), strict=True)]
    return sum(one.holds for one in votes), counts, votes[-1]


class _Drawn(Evidence):
    """The evidence with one completion of the open points and, if `draw` is not None, with the values of that draw.

    `like`: the allocator whose values the points without bounds get; "" if they get those of UNBOUNDED.
    """

    def __init__(self, base: Evidence, stretch: float, like: str = "") -> None:
        self._base, self._stretch, self._like = base, stretch, like
        self.draw: int | None = None  # the number of the draw; None: the measured statistics
        self._known: dict[tuple[say.Side, tuple[str, ...] | None], tuple[Found, list[tuple[Reading, list[float]]]]] = {}

    def has(self, suite: str, case: str) -> bool:
        return self._base.has(suite, case)

    def endings(self, side: say.Side) -> list[tuple[Reading, str]]:
        return self._base.endings(side)

    def find(self, side: say.Side, of: Sequence[str] | None = None) -> Found:
        key = (side, None if of is None else tuple(of))
        if key not in self._known:
            found = self._base.find(side, of)
            completed = [reading for each in found.readings if (reading := self._completed(side, each)) is not None]
            self._known[key] = (found, [(each, draws(each.runs) if each.runs is not None and each.runs.enough else []) for each in completed])
        found, drawn = self._known[key]
        if self.draw is None:
            return Found(tuple(reading for reading, _ in drawn), found.missing, found.unsupported)
        readings = (Reading(each.allocator, each.fields, values[self.draw], each.trouble) if values else each for each, values in drawn)
        return Found(tuple(readings), found.missing, found.unsupported)

    def _completed(self, side: say.Side, reading: Reading) -> Reading | None:
        """The reading, in which an open point has the value of the completion. None if the completion has no value, so that the point is left out."""
        if not reading.is_open:
            return reading
        low, high = reading.between or (0.0, math.inf)
        if self._stretch == math.inf:
            return reading if high == math.inf else reading._replace(value=high, trouble="")
        if reading.between is None:
            value = self._value_like(side, reading) if self._like else UNBOUNDED[self._stretch]
            return None if value is None else reading._replace(value=value, trouble="")
        value = low * self._stretch if high == math.inf else low + (high - low) * (self._stretch - 1) / STRETCHES[-2]
        return reading._replace(value=value, trouble="")

    def _value_like(self, side: say.Side, reading: Reading) -> float | None:
        """The value of the allocator `like` at the reading's point; None if it has none."""
        others = self._base.find(side, (self._like,)).readings
        return next((other.value for other in others if other.ok and other.fields == reading.fields), None)


_STATISTICS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "median": lambda runs: np.median(runs, axis=1),
    "mean": lambda runs: np.mean(runs, axis=1),
    "stddev": lambda runs: np.std(runs, axis=1, ddof=1),
    "variance": lambda runs: np.var(runs, axis=1, ddof=1),
    "p5": lambda runs: np.percentile(runs, 5, axis=1),
    "p95": lambda runs: np.percentile(runs, 95, axis=1),
    "min": lambda runs: np.min(runs, axis=1),
    "max": lambda runs: np.max(runs, axis=1),
    "modes": modes,
}


@cache
def draws(runs: Runs) -> list[float]:
    """The statistic of each draw of the runs. The random numbers depend only on the measurement, so all claims see the same draws."""
    source = np.random.default_rng(zlib.crc32(runs.source.encode()))
    drawn = source.choice(np.asarray(runs.values), (DRAWS, len(runs.values)))
    found: list[float] = _STATISTICS[runs.statistic](drawn).tolist()
    return found
