"""Evaluates relations on measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuheap.catalogue import ordered
from gpuheap.judging import language as say
from gpuheap.judging.evidence import Evidence, Found, Reading
from gpuheap.judging.series import Outcome, Votes, held_along, votes_of
from gpuheap.metrics import METRICS
from gpuheap.units import format_bytes, format_count, format_value

Key = tuple[str, ...]
Groups = dict[Key, list[Reading]]


class NotMeasured(Exception):
    """Rows are missing; the text says which."""


class Unsupported(NotMeasured):
    """The rows say that the allocators cannot do the case; the text says why."""


def hold(relation: say.Relation, evidence: Evidence) -> Outcome:
    """Whether a relation holds by the measurements, and the numbers that show it. Raises NotMeasured."""
    if isinstance(relation, (say.AllOf, say.MostOf, say.AnyOf)):
        return _hold_parts(relation, evidence)
    return _HOLDERS[type(relation)](relation, evidence)


def _hold_parts(relation: say.AllOf | say.MostOf | say.AnyOf, evidence: Evidence) -> Outcome:
    """Combines the parts of a claim. A part that decides the claim does so even if other parts were not measured."""
    num, needed = len(relation.parts), needed_of(relation)
    found: list[Outcome] = []
    lacking: list[NotMeasured] = []
    for part in relation.parts:
        try:
            found.append(hold(part, evidence))
        except NotMeasured as why:
            lacking.append(why)
    held = sum(outcome.holds for outcome in found)
    decided = held >= needed or len(found) - held > num - needed
    if lacking and not decided:
        kind = Unsupported if all(isinstance(why, Unsupported) for why in lacking) else NotMeasured
        raise kind("; ".join(dict.fromkeys(map(str, lacking))))

    def words() -> str:
        return "; ".join(("" if outcome.holds else "does not hold: ") + outcome.numbers for outcome in found)

    return Outcome(Votes(tuple(outcome.votes for outcome in found), needed), words, sum(outcome.points for outcome in found))


def needed_of(relation: say.AllOf | say.MostOf | say.AnyOf) -> int:
    """The number of parts that must hold."""
    num = len(relation.parts)
    return num if isinstance(relation, say.AllOf) else 1 if isinstance(relation, say.AnyOf) else math.ceil(say.MOST * num)


def _hold_better(relation: say.Better, evidence: Evidence) -> Outcome:
    pairs = _pairs(relation.left, relation.right, relation.by, evidence)
    times = [pair.times for pair in pairs]
    return Outcome(_votes(relation.over, times, relation.factor.holds), lambda: _pair_words(pairs, relation), len(pairs))


def _hold_order(relation: say.Order, evidence: Evidence) -> Outcome:
    steps: list[tuple[say.Side, say.Side, list[float], Votes]] = []
    for left, right in zip(relation.sides, relation.sides[1:], strict=False):
        times = [pair.times for pair in _pairs(left, right, relation.by, evidence)]
        steps.append((left, right, times, _votes(relation.over, times, lambda t: t > 1)))

    def words(left: say.Side, right: say.Side, times: Sequence[float], votes: Votes) -> str:
        before = f"{sum(t > 1 for t in times)} of {len(times)} (median {say.times_words(statistics.median(times))})"
        return f"{_names(left.of)} {'before' if votes.holds else 'NOT before'} {_names(right.of)} at {before}"

    votes = Votes(tuple(of_step for _, _, _, of_step in steps), len(steps))
    return Outcome(votes, lambda: "; ".join(words(*step) for step in steps), sum(len(times) for _, _, times, _ in steps))


def _hold_value(relation: say.Value, evidence: Evidence) -> Outcome:
    found = _subject(relation.left, evidence)
    values = [reading.value if reading.ok else math.nan for reading in found]

    def words() -> str:
        measured = sorted((reading for reading in found if reading.ok), key=lambda reading: reading.value)
        ends = [measured[0], measured[-1]] if len(measured) > 1 else measured
        shown = " to ".join(f"{_value(reading.value, relation.left)} ({_who(reading)})" for reading in ends) or "no value"
        return f"{shown}{_trouble_words(found)}; {sum(map(relation.within.holds, values))} of {len(found)} within"

    return Outcome(_votes(relation.over, values, relation.within.holds), words, len(found))


def _hold_alike(relation: say.Alike, evidence: Evidence) -> Outcome:
    found = _subject(relation.left, evidence)
    keys = _keys_among(found, relation.by)
    spreads = [(_span(group), group) for group in _grouped(found, keys).values() if len(group) > 1]
    if not spreads:
        raise NotMeasured(f"nothing to compare with {_names(relation.left.of)} in {_where(relation.left)}")

    def words() -> str:
        worst, group = max(spreads, key=lambda pair: pair[0])
        ends = sorted((reading for reading in group if reading.ok), key=lambda reading: reading.value)
        place = _point(ends[0].fields, keys) if ends else ""
        between = f", {ends[0].allocator} to {ends[-1].allocator}{f' at {place}' if place else ''}" if len(ends) > 1 else ""
        middle = statistics.median(spread for spread, _ in spreads)
        text = f"largest over smallest {say.times_words(worst)} at most{between}, {say.times_words(middle)} in the median"
        return text + _trouble_words(found)

    return Outcome(_votes(relation.over, [spread for spread, _ in spreads], lambda spread: spread <= relation.factor), words, len(spreads))


def _hold_along(relation: say.Trend | say.Jump | say.Peak | say.FirstFailure, evidence: Evidence) -> Outcome:
    return _along(relation, _subject(relation.left, evidence))


def _hold_crossover(relation: say.Crossover, evidence: Evidence) -> Outcome:
    """Judges the factors by which the left side is better, as a series along the axis. The sides cross over where a factor is one or less."""
    pairs = _pairs(relation.left, relation.right, None, evidence)
    # Picked values are one series, although they belong to different allocators from point to point.
    one = "" if relation.left.pick == "each" else f"{relation.left.pick} of {_names(relation.left.of)}"
    return _along(relation, [Reading(one or pair.left.allocator, pair.left.fields, pair.times) for pair in pairs])


def _hold_status(relation: say.Status, evidence: Evidence) -> Outcome:
    found = evidence.endings(relation.left)
    _require(relation.left, evidence, {reading.allocator for reading, _ in found}, {})
    votes = _votes(relation.over, [float(ending in relation.endings) for _, ending in found], bool)

    def words() -> str:
        by_allocator: dict[str, dict[str, int]] = {}
        for reading, ending in found:
            counts = by_allocator.setdefault(reading.allocator, {})
            counts[ending] = counts.get(ending, 0) + 1
        return "; ".join(f"{name} {', '.join(f'{count} {ending}' for ending, count in by_allocator[name].items())}" for name in ordered(by_allocator))

    return Outcome(votes, words, len(found))


def _hold_winners(relation: say.Winners, evidence: Evidence) -> Outcome:
    found = _subject(relation.left, evidence)
    keys = _keys_among(found, relation.by)
    wins: dict[str, int] = {}
    for group in _grouped(found, keys).values():
        finished = [reading for reading in group if reading.ok]
        if len(finished) > 1:
            best = _best(finished, relation.left.metric).allocator
            wins[best] = wins.get(best, 0) + 1
    if not wins:
        raise NotMeasured(f"nothing to compare with {_names(relation.left.of)} in {_where(relation.left)}")

    def words() -> str:
        return "best: " + ", ".join(f"{name} at {wins[name]}" for name in sorted(wins, key=lambda name: -wins[name]))

    return Outcome(Votes((relation.within.holds(len(wins)),), 1), words, sum(wins.values()))


_HOLDERS: dict[type, Callable[..., Outcome]] = {
    say.Better: _hold_better,
    say.Order: _hold_order,
    say.Value: _hold_value,
    say.Alike: _hold_alike,
    say.Trend: _hold_along,
    say.Jump: _hold_along,
    say.Peak: _hold_along,
    say.FirstFailure: _hold_along,
    say.Crossover: _hold_crossover,
    say.Status: _hold_status,
    say.Winners: _hold_winners,
}


@dataclass(frozen=True)
class _Pair:
    left: Reading
    right: Reading
    times: float  # the factor by which the left is better: 0 if the left failed, infinite if the right did
    key: Key
    keys: tuple[str, ...]

    def at(self, pairs: Sequence[_Pair]) -> str:
        """The pair's place, by the keys that distinguish it from the other pairs."""
        varying = [name for place, name in enumerate(self.keys) if len({pair.key[place] for pair in pairs}) > 1]
        return _point(dict(zip(self.keys, self.key, strict=True)), [name for name in varying if name != "allocator"])


def _along(relation: say.Trend | say.Jump | say.Peak | say.FirstFailure | say.Crossover, found: Sequence[Reading]) -> Outcome:
    outcome = held_along(relation, found)
    if outcome is None:
        raise NotMeasured(f"no two values of {relation.axis} for {_names(relation.left.of)} in {_where(relation.left)}")
    return outcome


def _pairs(left: say.Side, right: say.Side, by: tuple[str, ...] | None, evidence: Evidence) -> list[_Pair]:
    """Pairs every left reading with every right reading of the same key. Pairs without a finished reading are left out. Raises NotMeasured."""
    keys, lefts, rights = groups_to_pair(left, right, by, evidence)
    left_groups, right_groups = _picked(left, lefts), _picked(right, rights)
    pairs: list[_Pair] = []
    for key, group in left_groups.items():
        for one in group:
            for other in right_groups.get(key, ()):
                if one.ok or other.ok:
                    pairs.append(_Pair(one, other, _times(one, other, left), key, keys))
    if not pairs:
        raise no_pairs(left, right)
    return pairs


def groups_to_pair(left: say.Side, right: say.Side, by: tuple[str, ...] | None, evidence: Evidence) -> tuple[Key, Groups, Groups]:
    """The keys by which readings are paired, and the readings of both sides by their values of these keys. Raises NotMeasured."""
    same = right.of == (say.SAME,)
    lefts = _subject(left, evidence)
    rights = _readings(right, evidence, left.of if same else None)
    keys = by if by is not None else _common_keys([lefts, rights], left.own | right.own)
    if same:
        keys = (*keys, "allocator")
    return keys, _grouped(lefts, keys), _grouped(rights, keys)


def no_pairs(left: say.Side, right: say.Side) -> NotMeasured:
    words = f"no point where both {_names(left.of)} and {_names(left.of if right.of == (say.SAME,) else right.of)} were measured in {_where(left)}"
    return NotMeasured(words + (f" and {_where(right)}" if _where(right) != _where(left) else ""))


def less_is_better(side: say.Side) -> bool:
    """Whether the smaller one of two values of a side is the better one."""
    return METRICS[side.metric].lower_is_better is not False or side.statistic in ("stddev", "variance", "modes") or side.pick == "span"


def parts_to_pick_from(side: say.Side, group: list[Reading]) -> Iterable[list[Reading]]:
    """The parts of a group of which each gives one value."""
    return _grouped(group, ("allocator",)).values() if side.apart else [group]


def _times(left: Reading, right: Reading, side: say.Side) -> float:
    if not left.ok:
        return 0.0
    if not right.ok:
        return math.inf
    better, worse = (left.value, right.value) if less_is_better(side) else (right.value, left.value)
    if better == worse:
        return 1.0
    return worse / better if better > 0 else math.inf


def _subject(side: say.Side, evidence: Evidence) -> list[Reading]:
    """The readings of a claim's subject. Raises Unsupported if most allocators of the subject do not support the case."""
    unsupported = evidence.find(side).unsupported
    if 2 * len(unsupported) > len(side.of):
        raise Unsupported(_unsupported_words(side, unsupported))
    return _readings(side, evidence)


def _readings(side: say.Side, evidence: Evidence, of: Sequence[str] | None = None) -> list[Reading]:
    """The readings of a side. Allocators that do not support the case are left out. Raises NotMeasured if another allocator was not tried."""
    found = evidence.find(side, of)
    _require(side, evidence, {reading.allocator for reading in found.readings}, found.unsupported, found)
    return list(found.readings)


def _require(side: say.Side, evidence: Evidence, seen: set[str], unsupported: Mapping[str, str], found: Found | None = None) -> None:
    wanted = found.missing if found is not None else tuple(name for name in side.of if name not in seen)
    if wanted:
        if not evidence.has(side.suite, side.case):
            raise NotMeasured(f"no rows of {side.suite}/{side.case}")
        raise NotMeasured(f"no {side.metric} of {_names(wanted)} in {_where(side)}")
    if not seen:
        raise Unsupported(_unsupported_words(side, unsupported))


def _unsupported_words(side: say.Side, unsupported: Mapping[str, str]) -> str:
    why = next(iter(unsupported.values()), "")
    return f"{_names(tuple(unsupported))} unsupported in {_where(side)}{': ' + why if why else ''}"


def _common_keys(sides: Iterable[Iterable[Reading]], own: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The keys that occur in every side. A key that only one side has does not distinguish pairs."""
    keys: dict[str, None] | None = None
    for readings in sides:
        there = dict.fromkeys(key for names in dict.fromkeys(reading.fields.names for reading in readings) for key in names)
        keys = there if keys is None else {key: None for key in keys if key in there}
    return tuple(key for key in keys or () if key not in own)


def _keys_among(found: Sequence[Reading], by: tuple[str, ...] | None) -> tuple[str, ...]:
    """The keys by which the points of different allocators are matched: `by`, or the keys that points of every allocator have."""
    return by if by is not None else _common_keys(_grouped(found, ("allocator",)).values())


def _grouped(readings: Iterable[Reading], keys: tuple[str, ...]) -> Groups:
    """Readings by the values of these keys. `allocator` may be one of them."""
    groups: Groups = {}
    if "allocator" not in keys:
        for reading in readings:
            groups.setdefault(reading.fields.values_of(keys), []).append(reading)
        return groups
    at = keys.index("allocator")
    for reading in readings:
        values = reading.fields.values_of(keys)
        groups.setdefault((*values[:at], reading.allocator, *values[at + 1 :]), []).append(reading)
    return groups


def _picked(side: say.Side, groups: Groups) -> Groups:
    if side.pick == "each":
        return groups
    picked: Groups = {}
    for key, group in groups.items():
        picked[key] = [reading for part in parts_to_pick_from(side, group) if (reading := _pick(side, part)) is not None]
    return picked


def _pick(side: say.Side, group: Sequence[Reading]) -> Reading | None:
    finished = [reading for reading in group if reading.ok]
    if not finished:
        return group[0]
    if side.pick == "best":
        return _best(finished, side.metric)
    if side.pick == "worst":
        failed = [reading for reading in group if not reading.ok]
        return failed[0] if failed else _best(finished, side.metric, worst=True)
    if side.pick == "median":
        # A failed reading counts as the worst.
        low = METRICS[side.metric].lower_is_better is not False
        ranked = sorted(group, key=lambda reading: (not reading.ok, reading.value if low else -reading.value))
        return ranked[(len(ranked) - 1) // 2]
    value = statistics.fmean(reading.value for reading in finished) if side.pick == "mean" else _span(finished)
    if side.pick == "span" and len(finished) < 2:
        return None
    names = tuple(dict.fromkeys(reading.allocator for reading in group))
    return Reading(names[0] if len(names) == 1 else f"{side.pick} of {len(names)}", group[0].fields, value)


def _best(finished: Sequence[Reading], metric: str, worst: bool = False) -> Reading:
    low = METRICS[metric].lower_is_better is not False
    return (min if low != worst else max)(finished, key=lambda reading: reading.value)


def _span(group: Sequence[Reading]) -> float:
    """The largest reading over the smallest; infinite if one of them failed."""
    values = [reading.value for reading in group]
    if not all(reading.ok for reading in group):
        return math.inf
    low, high = min(values), max(values)
    return 1.0 if low == high else high / low if low > 0 else math.inf


def _votes(over: str, values: Sequence[float], holds: Callable[[float], bool]) -> Votes:
    if over == "median":
        return Votes((holds(statistics.median(values)),), 1)
    return votes_of(over, (bool(holds(value)) for value in values))


def _pair_words(pairs: Sequence[_Pair], relation: say.Better) -> str:
    """For example `1.2 to 5.3 times, median 2.0; 9 of 9 within; least: gallatin 12 µs, cuda_malloc 14 µs at 16 B`."""
    ranked = sorted(pairs, key=lambda pair: pair.times)
    least, most = ranked[0], ranked[-1]
    middle = say.times_words(statistics.median(pair.times for pair in pairs))
    held = sum(relation.factor.holds(pair.times) for pair in pairs)

    def one(reading: Reading, side: say.Side) -> str:
        if not reading.ok:
            return f"{reading.allocator} {reading.trouble}"
        return f"{reading.allocator} {say.times_words(reading.value) if side.pick == 'span' else _value(reading.value, side)}"

    def shown(pair: _Pair) -> str:
        at = pair.at(pairs)
        return f"{one(pair.left, relation.left)}, {one(pair.right, relation.right)}{' at ' + at if at else ''}"

    if len(pairs) == 1:
        return f"{say.times_words(least.times)} times: {shown(least)}"
    span = f"{say.times_words(least.times)} to {say.times_words(most.times)} times, median {middle}"
    ends = f"least: {shown(least)}" + ("" if held == len(pairs) else f"; most: {shown(most)}")
    return f"{span}; {held} of {len(pairs)} within; {ends}"


def _trouble_words(found: Sequence[Reading]) -> str:
    failed: dict[str, int] = {}
    for reading in found:
        if not reading.ok:
            failed[f"{reading.allocator} {reading.trouble}"] = failed.get(f"{reading.allocator} {reading.trouble}", 0) + 1
    return "".join(f", {words} at {count}" for words, count in failed.items())


def _value(value: float, side: say.Side) -> str:
    unit = METRICS[side.metric].unit
    if side.statistic == "modes":
        return f"{value:g} bell{'' if value == 1 else 's'}"
    return f"{value:.3g} {unit}²" if side.statistic == "variance" else format_value(value, unit)


def _who(reading: Reading) -> str:
    at = _point(reading.fields, [key for key in ("bytes", "threads") if key in reading.fields])
    return f"{reading.allocator}{', ' + at if at else ''}"


def _point(fields: Mapping[str, str], keys: Sequence[str]) -> str:
    words = []
    for key in keys:
        value = fields.get(key, "")
        if key == "bytes" and value:
            words.append(format_bytes(int(value)))
        elif key == "threads" and value:
            words.append(f"{format_count(int(value))} thread{'' if value == '1' else 's'}")
        else:
            words.append(f"{key}={value}")
    return ", ".join(words)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]} and {len(names) - 2} more"


def _where(side: say.Side) -> str:
    conditions = ", ".join(str(condition) for condition in side.where)
    return f"{side.suite}/{side.case}" + (f" ({conditions})" if conditions else "")
