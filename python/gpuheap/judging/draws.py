"""Draws of the runs, and relations judged in many of them.

The pairs of `better` and `order` are the same in every draw, and only their values differ. So they are found once, and a value is an array with a number for
each draw. The other relations are judged draw by draw.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuheap.judging import language as say
from gpuheap.judging.evidence import Evidence, Found, Reading, Runs
from gpuheap.judging.modes import modes
from gpuheap.judging.relations import NotMeasured, groups_to_pair, hold, less_is_better, needed_of, no_pairs, parts_to_pick_from
from gpuheap.judging.series import Votes, votes_of
from gpuheap.metrics import METRICS

DRAWS = 400  # of each measurement
# The values tried for a time-out: the bound itself, multiples of it, and a run that never ends.
STRETCHES = (1.0, 3.0, 10.0, math.inf)
# For a time-out without bounds, these stand in place of the bound and its multiples: a value below all others, no value, which leaves the point out, and a
# value above all others. The values of the other allocators at the same point are tried too, each in turn.
UNBOUNDED = {1.0: 1e-9, 3.0: None, 10.0: 1e12}

Values = NDArray[np.float64]  # in each draw
Held = NDArray[np.bool_]  # in each draw


class Drawn(Evidence):
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

    def values(self, reading: Reading, numbers: range) -> NDArray[np.float64]:
        """The values of a reading, which find() has returned without a draw, in these draws."""
        if reading.runs is not None and reading.runs.enough:
            return np.asarray(draws(reading.runs)[numbers.start : numbers.stop])
        return np.full(len(numbers), reading.value)

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


# ---- relations in many draws


def hold_in_draws(relation: say.Relation, drawn: Drawn, numbers: range) -> tuple[Votes, list[Held]]:
    """The votes of a draw, and of each of their comparisons, in which of these draws it holds. Raises NotMeasured."""
    at_once = _votes_at_once(relation, drawn, numbers)
    if at_once is not None:
        return at_once
    votes = []
    for drawn.draw in numbers:
        votes.append(hold(relation, drawn).votes)
    return votes[-1], [np.asarray(each) for each in zip(*(one.comparisons() for one in votes), strict=True)]


def held_in_draws(votes: Votes, comparisons: Iterator[Held]) -> Held:
    """In which draws the relation holds, if these are its comparisons."""
    each = [held_in_draws(one, comparisons) if isinstance(one, Votes) else next(comparisons) for one in votes.each]
    held: Held = np.sum(each, axis=0) >= votes.needed
    return held


def _votes_at_once(relation: say.Relation, drawn: Drawn, numbers: range) -> tuple[Votes, list[Held]] | None:
    """As hold_in_draws(). None if the relation is to be judged draw by draw."""
    if isinstance(relation, say.Better):
        return _better(relation.left, relation.right, relation, relation.factor, drawn, numbers)
    if isinstance(relation, say.Order):
        pairs = zip(relation.sides, relation.sides[1:], strict=False)
        steps = [_better(left, right, relation, say.Span(1, open=True), drawn, numbers) for left, right in pairs]
        return _together(steps, len(steps))
    if isinstance(relation, (say.AllOf, say.MostOf, say.AnyOf)):
        try:
            parts = [hold_in_draws(part, drawn, numbers) for part in relation.parts]
        except NotMeasured:  # the measured parts may decide the relation in some draws
            return None
        return _together(parts, needed_of(relation))
    return None


def _together(parts: Sequence[tuple[Votes, list[Held]]], needed: int) -> tuple[Votes, list[Held]]:
    return Votes(tuple(votes for votes, _ in parts), needed), [held for _, comparisons in parts for held in comparisons]


def _better(left: say.Side, right: say.Side, relation: say.Better | say.Order, factor: say.Span, drawn: Drawn, numbers: range) -> tuple[Votes, list[Held]]:
    """The votes on whether the left side is better than the right one by such a factor."""
    drawn.draw = None
    _, lefts, rights = groups_to_pair(left, right, relation.by, drawn)
    picks = {key: _picked(right, group, drawn, numbers) for key, group in rights.items()}
    times: list[Values] = []
    for key, group in lefts.items():
        for one in _picked(left, group, drawn, numbers):
            times += [_times(one, other, left, len(numbers)) for other in picks.get(key, ()) if one is not None or other is not None]
    if not times:
        raise no_pairs(left, right)
    if relation.over == "median":
        times = [np.median(times, axis=0)]
    held = [factor.holds_each(each) for each in times]
    return Votes((True,), 1) if relation.over == "median" else votes_of(relation.over, [True] * len(held)), held


def _picked(side: say.Side, group: list[Reading], drawn: Drawn, numbers: range) -> list[Values | None]:
    """The values that a group of readings gives; None for one without a value."""
    if side.pick == "each":
        return [drawn.values(reading, numbers) if reading.ok else None for reading in group]
    low = METRICS[side.metric].lower_is_better is not False
    picked: list[Values | None] = []
    for part in parts_to_pick_from(side, group):
        finished = np.array([drawn.values(reading, numbers) for reading in part if reading.ok])
        if len(finished) == 0 or (side.pick == "worst" and len(finished) < len(part)):
            picked.append(None)
        elif side.pick in ("best", "worst"):
            picked.append(finished.min(axis=0) if low == (side.pick == "best") else finished.max(axis=0))
        elif side.pick == "median":  # a failed reading counts as the worst
            place = (len(part) - 1) // 2
            ranked = np.sort(finished if low else -finished, axis=0)
            picked.append(None if place >= len(finished) else ranked[place] if low else -ranked[place])
        elif side.pick == "mean":
            picked.append(finished.mean(axis=0))
        elif len(finished) > 1:
            picked.append(_over(finished.max(axis=0), finished.min(axis=0)))
    return picked


def _times(left: Values | None, right: Values | None, side: say.Side, number: int) -> Values:
    """The factors by which the left value is better: 0 if it is missing, infinite if the right one is."""
    if left is None:
        return np.zeros(number)
    if right is None:
        return np.full(number, math.inf)
    return _over(right, left) if less_is_better(side) else _over(left, right)


def _over(above: Values, below: Values) -> Values:
    """One over the other: 1 if they are equal, and infinite if the one below is not positive."""
    with np.errstate(invalid="ignore"):  # infinite over infinite: these are equal
        quotients = np.divide(above, below, out=np.full(len(above), math.inf), where=below > 0)
    return np.where(above == below, 1.0, quotients)
