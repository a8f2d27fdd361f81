"""The language of claims: sides that choose measurements, and relations between them."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from pathlib import Path

from gpuheap.formats.bounds import Condition
from gpuheap.units import format_factor

SAME = "same"  # stands for the right side's allocators: each allocator of the left is compared with itself
OTHERS = "others"  # all allocators that the paper compares, except those of the left side
ALL = "all"  # the group that every file of claims has: the allocators that the paper compares

STATISTICS = ("median", "mean", "stddev", "variance", "p5", "p95", "min", "max")
PICKS = ("each", "best", "worst", "median", "mean", "span")
QUANTIFIERS = ("all", "most", "any", "median")
SHAPES = ("flat", "rising", "falling", "linear")
ENDINGS = ("ok", "failed_requests", "timeout", "crash", "wrong", "unsupported")
MOST = 0.75  # the share that "most" means

_SPAN = re.compile(r"^\s*(?:([<>])\s*([0-9._]+)|([0-9._]+)?\s*\.\.\s*([0-9._]+)?)\s*$")


@dataclass(frozen=True)
class Span:
    """A range of numbers: `1.13..4.33`, `2..`, `..2` with their ends; `>1`, `<1` without."""

    low: float = -math.inf
    high: float = math.inf
    open: bool = False

    def holds(self, value: float) -> bool:
        if self.open:  # the range has one end only
            return value > self.low if self.high == math.inf else value < self.high
        return self.low <= value <= self.high

    def __str__(self) -> str:
        def show(value: float) -> str:
            return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"

        if self.open:
            return f"more than {show(self.low)}" if self.high == math.inf else f"less than {show(self.high)}"
        if self.high == math.inf:
            return f"{show(self.low)} or more"
        return f"{show(self.high)} at most" if self.low == -math.inf else f"{show(self.low)} to {show(self.high)}"


def parse_span(text: str) -> Span:
    """Reads a range. Raises ValueError if the text is no range, or an empty one."""
    match = _SPAN.match(text)
    if match is None:
        raise ValueError
    sign, bound, low, high = match.groups()
    if sign:
        return Span(low=float(bound), open=True) if sign == ">" else Span(high=float(bound), open=True)
    if low is None and high is None:
        raise ValueError
    span = Span(float(low) if low else -math.inf, float(high) if high else math.inf)
    if span.low > span.high:
        raise ValueError
    return span


@dataclass(frozen=True)
class Side:
    """The measurements that one side of a relation means: those of some allocators, at the points of a case that meet all conditions.

    `pick` makes one of all that share a key (see Relation.by): the best of them in the metric's sense, their mean, or with `span` the
    largest over the smallest. `apart` picks for each allocator on its own.
    """

    of: tuple[str, ...]
    suite: str
    case: str
    metric: str
    where: tuple[Condition, ...] = ()
    own: frozenset[str] = frozenset()  # the keys that have conditions on this side only; pairs are not matched by them
    statistic: str = "median"
    pick: str = "each"
    apart: bool = False


@dataclass(frozen=True)
class Better:
    """At the points that both sides have, the left is better by a factor within `factor`."""

    left: Side
    right: Side
    factor: Span
    over: str
    by: tuple[str, ...] | None  # the keys by which pairs are matched; None: all that both sides have


@dataclass(frozen=True)
class Order:
    """Each side is better than the next."""

    sides: tuple[Side, ...]
    over: str
    by: tuple[str, ...] | None


@dataclass(frozen=True)
class Value:
    """The values themselves lie in a range, in the metric's unit."""

    left: Side
    within: Span
    over: str


@dataclass(frozen=True)
class Alike:
    """At each point the largest value is at most `factor` times the smallest."""

    left: Side
    factor: float
    over: str
    by: tuple[str, ...] | None


@dataclass(frozen=True)
class Trend:
    """How values go along an axis.

    flat: the largest is at most `factor` times the smallest. rising, falling: the last is `factor` times the first, or the first the last,
    and three quarters of all pairs go that way. linear: a straight line explains `factor` of the variance, and rises.
    """

    left: Side
    axis: str
    shape: str
    factor: float
    over: str


@dataclass(frozen=True)
class Jump:
    """The largest rise between neighbours on an axis ends at a position within `at`, and is at least by `factor`."""

    left: Side
    axis: str
    at: Span
    factor: float
    over: str


@dataclass(frozen=True)
class Peak:
    """The largest value along an axis is at a position within `at`, and later values are smaller."""

    left: Side
    axis: str
    at: Span
    over: str


@dataclass(frozen=True)
class Crossover:
    """The first value of an axis at which the left is no longer better lies within `at`."""

    left: Side
    right: Side
    axis: str
    at: Span
    over: str


@dataclass(frozen=True)
class FirstFailure:
    """The first value of an axis at which there is no result (status, or failed requests) lies within `at`."""

    left: Side
    axis: str
    at: Span
    over: str


@dataclass(frozen=True)
class Status:
    """Points end with one of these statuses. `failed_requests`: status ok, but requests failed."""

    left: Side
    endings: tuple[str, ...]
    over: str


@dataclass(frozen=True)
class Winners:
    """The number of different allocators that are the best at some point lies within a range."""

    left: Side
    within: Span
    by: tuple[str, ...] | None


@dataclass(frozen=True)
class AllOf:
    parts: tuple[Relation, ...]


@dataclass(frozen=True)
class MostOf:
    parts: tuple[Relation, ...]


@dataclass(frozen=True)
class AnyOf:
    parts: tuple[Relation, ...]


Relation = Better | Order | Value | Alike | Trend | Jump | Peak | Crossover | FirstFailure | Status | Winners | AllOf | MostOf | AnyOf


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper. Without a relation it is about the published code only, and `published` says why."""

    paper: str
    name: str
    says: str
    at: str  # section or figure
    relation: Relation | None
    published: str
    path: Path
    line: int
    why: str = ""  # one sentence: why it does not hold by the rows of the GPU `why_on`
    why_on: str = ""  # the GPU whose rows `why` is about

    @property
    def sides(self) -> tuple[Side, ...]:
        return () if self.relation is None else sides_of(self.relation)


@dataclass(frozen=True)
class Paper:
    """A file of claims."""

    name: str
    title: str
    cite: str
    machine: str
    claims: tuple[Claim, ...]
    path: Path
    headline: tuple[str, ...] = ()  # the names of the claims that the paper rests on


def sides_of(relation: Relation) -> tuple[Side, ...]:
    """All sides, those of its parts included. `same` and `others` have been replaced by names of allocators."""
    if isinstance(relation, (AllOf, MostOf, AnyOf)):
        return tuple(side for part in relation.parts for side in sides_of(part))
    if isinstance(relation, Order):
        return relation.sides
    sides = [getattr(relation, field.name) for field in dataclasses.fields(relation) if field.name in ("left", "right")]
    return tuple(sides)


def times_words(times: float) -> str:
    """A ratio in two or three digits: `1.20`, `3.4`, `27`, `0.85`."""
    if times == math.inf:
        return "∞"
    return format_factor(times) if times >= 0.995 or times == 0 else f"{times:.2g}"
