"""The language of claims: sides that choose measurements, and relations between them."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpuheap.formats.bounds import Condition
from gpuheap.units import format_factor

SAME = "same"  # stands for the right side's allocators: each allocator of the left is compared with itself
OTHERS = "others"  # all allocators that the paper compares, except those of the left side
ALL = "all"  # the group that every file of claims has: the allocators that the paper compares

STATISTICS = ("median", "mean", "stddev", "variance", "p5", "p95", "min", "max", "modes")
PICKS = ("each", "best", "worst", "median", "mean", "span")
QUANTIFIERS = ("all", "most", "any", "median")
SHAPES = ("flat", "rising", "falling", "linear")
ENDINGS = ("ok", "failed_requests", "timeout", "crash", "wrong", "unsupported")
MOST = 0.75  # the share that "most" means

_SPAN = re.compile(r"^\s*(?:([<>])\s*([0-9._]+)|([0-9._]+)?\s*\.\.\s*([0-9._]+)?)\s*$")


@dataclass(frozen=True)
class Span:
    """A range of numbers: `1.13..4.33`, `2..` and `..2` contain their ends; `>1` and `<1` do not."""

    low: float = -math.inf
    high: float = math.inf
    open: bool = False

    def holds(self, value: float) -> bool:
        if self.open:  # the range has one end only
            return value > self.low if self.high == math.inf else value < self.high
        return self.low <= value <= self.high

    def holds_each(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Of many numbers, which are in the range."""
        if self.open:
            return values > self.low if self.high == math.inf else values < self.high
        return (self.low <= values) & (values <= self.high)

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

    `pick` chooses among the measurements that share a key (see Better.by). `each` keeps all of them. The others make one value of them: `best` and
    `worst` in the metric's sense, `median`, `mean`, or `span`, the largest over the smallest. With `apart`, each allocator has a value of its own.
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
    """At the points that both sides have, the left side is better by a factor within `factor`."""

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
    """The values along an axis have a shape.

    flat: the largest value is at most `factor` times the smallest. rising: the last value is at least `factor` times the first, and at least three
    quarters of all pairs rise. falling: the same downwards. linear: a rising straight line explains at least the share `factor` of the variance.
    """

    left: Side
    axis: str
    shape: str
    factor: float
    over: str


@dataclass(frozen=True)
class Jump:
    """The largest rise between neighbours on an axis ends at a position within `at`, and its factor is at least `factor`."""

    left: Side
    axis: str
    at: Span
    factor: float
    over: str


@dataclass(frozen=True)
class Peak:
    """The largest value along an axis is at a position within `at`, and it is not the last value."""

    left: Side
    axis: str
    at: Span
    over: str


@dataclass(frozen=True)
class Crossover:
    """The first value of an axis at which the left side is no longer better lies within `at`."""

    left: Side
    right: Side
    axis: str
    at: Span
    over: str


@dataclass(frozen=True)
class FirstFailure:
    """The first value of an axis at which the point failed, or requests failed, lies within `at`."""

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
    differs: tuple[str, ...] = ()  # sentences on what is measured here in another way than in the paper


def sides_of(relation: Relation) -> tuple[Side, ...]:
    """All sides of a relation, including those of its parts. `others` has been replaced by names of allocators; `same` stays."""
    if isinstance(relation, (AllOf, MostOf, AnyOf)):
        return tuple(side for part in relation.parts for side in sides_of(part))
    if isinstance(relation, Order):
        return relation.sides
    sides = [getattr(relation, field.name) for field in dataclasses.fields(relation) if field.name in ("left", "right")]
    return tuple(sides)


def times_words(times: float) -> str:
    """A ratio in two or three digits, for example `1.20`, `3.4`, `27` or `0.85`."""
    if times == math.inf:
        return "∞"
    return format_factor(times) if times >= 0.995 or times == 0 else f"{times:.2g}"
