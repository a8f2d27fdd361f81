"""Means, spreads and shapes of samples. Pure functions; random numbers have a fixed seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST_FOR_MEANS = 5
FEWEST_FOR_SHAPES = 100  # with fewer samples nothing is said about a distribution
_RESAMPLES = 2000
_GRID = 512
_VALLEY = 0.7  # two tops count as one unless the density between them falls below this share of the lower top's density
_LEAST_MASS = 0.06  # the share of the samples that a top must have


@dataclass(frozen=True)
class Spread:
    """The statistics of one series, in its unit."""

    runs: int
    mean: float
    deviation: float  # the standard deviation of the samples; 0 for one sample
    median: float
    p5: float
    p95: float
    least: float
    most: float
    tops: int | None  # the number of tops of the distribution; None: too few runs to say

    @property
    def width(self) -> float:
        """The distance from the 5th to the 95th percentile, divided by the median."""
        return (self.p95 - self.p5) / self.median if self.median > 0 else 0.0


@dataclass(frozen=True)
class Ratio:
    """The ratio of one series to another, with its 95 % confidence interval from `low` to `high`."""

    value: float
    low: float
    high: float

    @property
    def is_one(self) -> bool:
        return self.low <= 1.0 <= self.high


def spread_of(values: Sequence[float]) -> Spread:
    data = np.asarray(values, dtype="f8")
    p5, median, p95 = np.percentile(data, (5, 50, 95))
    deviation = float(data.std(ddof=1)) if len(data) > 1 else 0.0
    tops = num_tops(data) if len(data) >= FEWEST_FOR_SHAPES else None
    return Spread(len(data), float(data.mean()), deviation, float(median), float(p5), float(p95), float(data.min()), float(data.max()), tops)


def ratio_of_means(values: Sequence[float], base: Sequence[float]) -> Ratio | None:
    """The ratio of two means. Its interval is from a bootstrap, which assumes nothing about the distributions.

    None with fewer than FEWEST_FOR_MEANS runs, or if the mean of `base` is not positive.
    """
    return _ratio(values, base, lambda data: data.mean(axis=-1), FEWEST_FOR_MEANS)


def ratio_of_widths(values: Sequence[float], base: Sequence[float]) -> Ratio | None:
    """The ratio of two distributions' widths. Each width is divided by the median of its distribution.

    None with fewer than FEWEST_FOR_SHAPES runs, or if the width of `base` is 0.
    """
    return _ratio(values, base, _widths, FEWEST_FOR_SHAPES)


def _widths(data: NDArray[np.float64]) -> NDArray[np.float64]:
    p5, median, p95 = np.percentile(data, (5, 50, 95), axis=-1)
    widths: NDArray[np.float64] = np.divide(p95 - p5, median, out=np.zeros_like(median), where=median > 0)
    return widths


def _ratio(values: Sequence[float], base: Sequence[float], measure, fewest: int) -> Ratio | None:  # type: ignore[no-untyped-def]
    if min(len(values), len(base)) < fewest:
        return None
    above, below = np.asarray(values, dtype="f8"), np.asarray(base, dtype="f8")
    middle = float(measure(below[None, :])[0])
    if middle <= 0:
        return None
    random = np.random.default_rng(20250101)
    drawn = measure(above[random.integers(len(above), size=(_RESAMPLES, len(above)))])
    against = measure(below[random.integers(len(below), size=(_RESAMPLES, len(below)))])
    ratios = drawn[against > 0] / against[against > 0]
    low, high = np.percentile(ratios, (2.5, 97.5))
    return Ratio(float(measure(above[None, :])[0]) / middle, float(low), float(high))


def num_tops(values: Sequence[float] | NDArray[np.float64]) -> int:
    """The number of tops of the distribution: local maxima of a density estimate over the logarithms.

    A top counts only if a deep enough valley separates it from its neighbours, and if enough of the samples belong to it.
    """
    data = np.sort(np.log(np.maximum(np.asarray(values, dtype="f8"), 1e-9)))
    quarters = np.percentile(data, (25, 75))
    scale = min((s for s in (data.std(), (quarters[1] - quarters[0]) / 1.349) if s > 0), default=0.0)
    if scale == 0 or data[-1] - data[0] < 1e-6:
        return 1
    width = 0.9 * scale * len(data) ** -0.2
    # Far outliers would stretch the grid until the middle has too few points, so they are moved to the edge.
    inner = np.clip(data, quarters[0] - 12 * scale, quarters[1] + 12 * scale)
    grid = np.linspace(inner[0] - 3 * width, inner[-1] + 3 * width, max(_GRID, min(8192, int((inner[-1] - inner[0]) / width * 6))))
    density = np.zeros_like(grid)
    for part in np.array_split(inner, max(1, len(inner) // 256)):
        density += np.exp(-0.5 * ((grid[:, None] - part[None, :]) / width) ** 2).sum(axis=1)
    inside = (density[1:-1] > density[:-2]) & (density[1:-1] >= density[2:])
    tops = [int(at) + 1 for at in np.flatnonzero(inside)]
    # Ends: each pass takes one top away.
    while len(tops) > 1:
        valleys = [int(a + np.argmin(density[a : b + 1])) for a, b in zip(tops, tops[1:], strict=False)]
        borders = [-np.inf, *(grid[at] for at in valleys), np.inf]
        masses = [np.count_nonzero((inner >= low) & (inner < high)) / len(inner) for low, high in zip(borders, borders[1:], strict=False)]
        depth = [float(density[at] / min(density[a], density[b])) for at, a, b in zip(valleys, tops, tops[1:], strict=False)]
        smallest = int(np.argmin(masses))
        if masses[smallest] < _LEAST_MASS:
            tops.pop(smallest)
        elif max(depth) > _VALLEY:
            at = int(np.argmax(depth))
            tops.pop(at if density[tops[at]] < density[tops[at + 1]] else at + 1)
        else:
            break
    return len(tops)
