"""The best allocator for each pattern of use, from measured rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuheap.answers.views import CaseView, PointId, point_id, point_words
from gpuheap.catalogue import is_rival
from gpuheap.formats.results import Row
from gpuheap.metrics import METRICS
from gpuheap.units import format_bytes, format_count

SIZES = (64, 512, 2048)  # bytes: the upper ends of the ranges of sizes for which the literature recommends allocators
THREADS = (10_000, 100_000)
ANY = "any size"
LEAST_CONTENDERS = 3


@dataclass(frozen=True)
class Best:
    """The best of the allocators that served every point of a pattern."""

    allocator: str
    ahead: float  # how many times better it is than the second, at least 1; 0 if there is no second, or if the smaller mean is not positive
    second: str
    points: int
    complete: int  # contenders that served every point
    contenders: int  # contenders that were measured


@dataclass(frozen=True)
class Pattern:
    """A line of the matrix: a case and its metric, at a number of threads."""

    suite: str
    case: str
    metric: str
    where: str  # the number of threads and the parameters, in words
    best: Mapping[str, Best]  # by class of sizes


def best_per_pattern(views: Iterable[CaseView], traits: Mapping[str, Mapping[str, Any]]) -> list[Pattern]:
    """A line for each case, metric, number of threads and parameters at which at least LEAST_CONTENDERS contenders were measured."""
    return [pattern for view in views for metric in view.metrics if _is_judged(metric) for pattern in _patterns(view, metric, traits)]


def size_classes(patterns: Iterable[Pattern]) -> list[str]:
    """The columns of the matrix that are used, in rising order."""
    used = {size for pattern in patterns for size in pattern.best}
    every = [*(_size_words(limit) for limit in SIZES), _size_words(SIZES[-1] + 1), ANY]
    return [size for size in every if size in used]


def is_contender(name: str, traits: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether an allocator frees single blocks and never hands out live memory, so that a program can use it in place of another contender."""
    known = traits.get(name, {})
    return is_rival(name) and known.get("free", "individually") == "individually" and not known.get("overwrites")


def _is_judged(metric: str) -> bool:
    return METRICS[metric].lower_is_better is not None and metric != "failed_requests"


def _patterns(view: CaseView, metric: str, traits: Mapping[str, Mapping[str, Any]]) -> list[Pattern]:
    rows = [
        row for row in view.rows if row.metric == metric and row.ok and row.statistics is not None and is_contender(row.allocator, traits)
    ]
    short = {  # where an allocator failed requests
        (row.allocator, point_id(row))
        for row in view.rows
        if row.metric == "failed_requests" and row.statistics is not None and row.statistics.median > 0
    }
    sizes = {row.bytes for row in rows}
    threads = {row.threads for row in rows}
    size_of: Callable[[Row], str] = (lambda row: _size_words(row.bytes)) if len(sizes) > 1 else (lambda _: ANY)
    threads_of: Callable[[Row], str] = (lambda row: _threads_words(row.threads)) if len(threads) > 1 else (lambda _: "")
    fixed = _fixed(rows)
    lines: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        words = point_words((None, None, row.key[6]), hide=fixed)
        where = ", ".join(part for part in (threads_of(row), words) if part)
        lines.setdefault(where, {}).setdefault(size_of(row), []).append(row)
    found = []
    for where, by_size in lines.items():
        best = {size: winner for size, of_size in by_size.items() if (winner := _winner(of_size, metric, short)) is not None}
        if best:
            found.append(Pattern(view.suite, view.name, metric, where, best))
    return found


def _fixed(rows: Sequence[Row]) -> set[str]:
    """Keys of the parameter that are no part of a pattern: keys with one value, keys with more than three values (they are swept like sizes), and the seed."""
    values: dict[str, set[str]] = {}
    for row in rows:
        for key, value in row.parameters.items():
            values.setdefault(key, set()).add(value)
    return {key for key, found in values.items() if len(found) == 1 or len(found) > 3} | {"seed"}


def _winner(rows: Sequence[Row], metric: str, short: set[tuple[str, PointId]]) -> Best | None:
    """The best allocator by the mean over all points: the geometric mean, or the arithmetic one if a value is not positive.

    An allocator that fails requests at a point, or has no value there, is left out. With fewer than LEAST_CONTENDERS contenders, there is no best one.
    """
    values: dict[str, dict[PointId, float]] = {}
    for row in rows:
        assert row.statistics is not None
        values.setdefault(row.allocator, {})
        if (row.allocator, point_id(row)) not in short:
            values[row.allocator][point_id(row)] = row.statistics.median
    points = {point for found in values.values() for point in found}
    complete = {name: list(found.values()) for name, found in values.items() if len(found) == len(points)}
    if len(values) < LEAST_CONTENDERS or not complete:
        return None
    positive = all(value > 0 for found in complete.values() for value in found)
    mean = {name: _geometric(found) if positive else math.fsum(found) / len(found) for name, found in complete.items()}
    ranked = sorted(mean, key=lambda name: mean[name] if METRICS[metric].lower_is_better else -mean[name])
    best, second = ranked[0], ranked[1] if len(ranked) > 1 else ""
    pair = sorted((mean[best], mean[second])) if second else [0.0, 0.0]
    return Best(best, pair[1] / pair[0] if pair[0] > 0 else 0.0, second, len(points), len(complete), len(values))


def _geometric(values: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def _size_words(size: int | None) -> str:
    if size is None:
        return ANY
    limit = next((limit for limit in SIZES if size <= limit), None)
    return f"up to {format_bytes(limit)}" if limit is not None else f"over {format_bytes(SIZES[-1])}"


def _threads_words(threads: int | None) -> str:
    if threads is None:
        return ""
    limit = next((limit for limit in THREADS if threads <= limit), None)
    return f"up to {format_count(limit)} threads" if limit is not None else f"over {format_count(THREADS[-1])} threads"
