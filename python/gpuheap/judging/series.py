"""Judges values along an axis, for the relations trend, jump, peak, crossover and first_failure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpuheap.judging import language as say
from gpuheap.judging.evidence import Reading
from gpuheap.metrics import METRICS
from gpuheap.units import format_bytes, format_count, format_value

Step = tuple[float, Reading]  # a position on the axis, and the reading there
Rest = tuple[tuple[str, str], ...]  # the values of a point but that of the axis
Words = Callable[[], str]  # makes words of numbers; nobody reads those of most draws of the runs
Held = tuple[bool, Words]  # whether the relation holds, and the numbers in words


@dataclass(frozen=True)
class Votes:
    """What decides a relation: it holds if at least `needed` of its comparisons hold, or of its parts."""

    each: tuple[bool | Votes, ...]
    needed: int

    @property
    def holds(self) -> bool:
        return self.decided_by(iter(self.comparisons()))

    def comparisons(self) -> list[bool]:
        """Of all parts, in order."""
        return [held for one in self.each for held in (one.comparisons() if isinstance(one, Votes) else [one])]

    def decided_by(self, comparisons: Iterator[bool]) -> bool:
        """Whether the relation would hold if these were its comparisons."""
        return sum([one.decided_by(comparisons) if isinstance(one, Votes) else next(comparisons) for one in self.each]) >= self.needed


def votes_of(over: str, held: Iterable[bool]) -> Votes:
    """The votes of comparisons of which all, most or any must hold."""
    each = tuple(held)
    return Votes(each, 1 if over == "any" else len(each) if over == "all" else math.ceil(say.MOST * len(each)))


@dataclass(frozen=True)
class Outcome:
    votes: Votes
    words: Words
    points: int  # the number of points that it was judged from

    @property
    def holds(self) -> bool:
        return self.votes.holds

    @property
    def numbers(self) -> str:
        return self.words()


Along = say.Trend | say.Jump | say.Peak | say.FirstFailure | say.Crossover


def held_along(relation: Along, found: Sequence[Reading]) -> Outcome | None:
    """Judges by the series of each allocator; None if no allocator has enough values on the axis. The points of a series differ in the axis only."""
    series: dict[tuple[str, Rest], list[Step]] = {}
    for reading in found:
        place, rest = reading.fields.along(relation.axis)
        if place is not None:
            series.setdefault((reading.allocator, rest), []).append((place, reading))
    least = 1 if isinstance(relation, say.FirstFailure) else 3 if isinstance(relation, say.Trend) and relation.shape == "linear" else 2
    ask: Callable[[Any, Sequence[Step]], Held] = _ASK[type(relation)]
    held = [(ask(relation, sorted(steps, key=lambda step: step[0])), who) for who, steps in series.items() if len(steps) >= least]
    if not held:
        return None
    votes = votes_of(relation.over, (so for (so, _), _ in held))

    def words() -> str:
        holds, count = votes.holds, sum(so for (so, _), _ in held)
        # Series that contradict the verdict come first, because readers look for them.
        shown = sorted(held, key=lambda entry: entry[0][0] == holds)[:3]
        counted = f"; holds for {count} of {len(held)}" if len(held) > 1 else ""
        return "; ".join(f"{allocator}{_rest_words(rest, series)} {say_it()}" for (_, say_it), (allocator, rest) in shown) + counted

    return Outcome(votes, words, sum(len(steps) for steps in series.values()))


def _trend(relation: say.Trend, steps: Sequence[Step]) -> Held:
    worst = 0.0 if METRICS[relation.left.metric].lower_is_better is False else math.inf  # a point without a value is worse than all others
    values = [reading.value if reading.ok else worst for _, reading in steps]
    first, last = values[0], values[-1]
    if relation.shape == "flat":
        spread = _ratio(max(values), min(values))
        return spread <= relation.factor, lambda: f"{_ends(relation, steps)}, largest over smallest {say.times_words(spread)}"
    if relation.shape == "linear":
        finished = [(place, reading.value) for place, reading in steps if reading.ok]
        if len(finished) < 3 or len(finished) < len(steps):
            return False, lambda: f"has {len(steps) - len(finished)} points without a value"
        slope, explained = _line(finished)
        return slope > 0 and explained >= relation.factor, lambda: f"{_ends(relation, steps)}, a line explains {explained:.0%}"
    rising = relation.shape == "rising"
    ratio = _ratio(last, first) if rising else _ratio(first, last)
    pairs = [(a, b) for index, a in enumerate(values) for b in values[index + 1 :]]
    share = sum((b > a) if rising else (b < a) for a, b in pairs) / len(pairs)
    return ratio >= relation.factor and share >= say.MOST, lambda: f"{_ends(relation, steps)}, {relation.shape} in {share:.0%} of all pairs"


def _jump(relation: say.Jump, steps: Sequence[Step]) -> Held:
    ups: list[tuple[float, float, str]] = []  # the factor of the rise, the position at its end, and the failure there; "" if there is none
    for (_, before), (place, after) in zip(steps, steps[1:], strict=False):
        if before.ok:
            ups.append((_ratio(after.value, before.value) if after.ok else math.inf, place, after.trouble))
    if not ups:
        return False, lambda: "has no step between values"
    times, place, trouble = max(ups, key=lambda up: up[0])

    def words() -> str:
        return f"{trouble or f'steps {say.times_words(times)} times'} {'at' if trouble else 'to'} {_place(relation.axis, place)}"

    return relation.at.holds(place) and times >= relation.factor, words


def _peak(relation: say.Peak, steps: Sequence[Step]) -> Held:
    finished = [(reading.value, place) for place, reading in steps if reading.ok]
    if not finished:
        return False, lambda: "has no value"
    value, place = max(finished)
    after = [later for later, at in finished if at > place]

    def words() -> str:
        then = f", then {_value(relation, min(after))}" if after else ", the last value"
        return f"peaks at {_place(relation.axis, place)} with {_value(relation, value)}{then}"

    return relation.at.holds(place) and bool(after), words


def _first_failure(relation: say.FirstFailure, steps: Sequence[Step]) -> Held:
    failed = next(((place, reading) for place, reading in steps if not reading.ok), None)
    if failed is None:
        return False, lambda: f"has a result at all {len(steps)}"
    place, reading = failed
    return relation.at.holds(place), lambda: f"{reading.trouble} first at {_place(relation.axis, place)}"


def _crossover(relation: say.Crossover, steps: Sequence[Step]) -> Held:
    crossed = next(((place, reading.value) for place, reading in steps if reading.value <= 1), None)
    if crossed is None:
        least = min(reading.value for _, reading in steps)
        return False, lambda: f"is better at all {len(steps)}, {say.times_words(least)} times or more"
    place, times = crossed
    return relation.at.holds(place), lambda: f"is no longer better at {_place(relation.axis, place)} ({say.times_words(times)} times)"


_ASK: dict[type, Callable[[Any, Sequence[Step]], Held]] = {
    say.Trend: _trend,
    say.Jump: _jump,
    say.Peak: _peak,
    say.FirstFailure: _first_failure,
    say.Crossover: _crossover,
}


def _ratio(above: float, below: float) -> float:
    if above == below:
        return 1.0
    return above / below if below > 0 else math.inf


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The slope of the straight line of least squares, and the share of the variance that it explains."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    if min(xs) == max(xs) or min(ys) == max(ys):
        return 0.0, 0.0
    return statistics.linear_regression(xs, ys).slope, statistics.correlation(xs, ys) ** 2


def _ends(relation: Along, steps: Sequence[Step]) -> str:
    ends = [(place, _value(relation, reading.value) if reading.ok else reading.trouble) for place, reading in (steps[0], steps[-1])]
    return " to ".join(f"{value} at {_place(relation.axis, place)}" for place, value in ends)


def _value(relation: Along, value: float) -> str:
    return format_value(value, METRICS[relation.left.metric].unit)


def _place(axis: str, place: float) -> str:
    if axis in ("bytes", "heap", "page"):
        return format_bytes(place)
    return f"{format_count(place)} {axis.removesuffix('s') if place == 1 else axis}"


def _rest_words(rest: Any, series: Any) -> str:
    """Names this series by its values of the keys that differ between the series."""
    everywhere = set.intersection(*(set(other) for _, other in series))
    words = [format_bytes(int(value)) if key == "bytes" else f"{key}={value}" for key, value in rest if (key, value) not in everywhere]
    return f" ({', '.join(words)})" if words else ""
