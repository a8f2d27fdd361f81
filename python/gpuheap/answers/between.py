"""Rows for a size that was not measured, from the rows of the next smaller and the next larger measured size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuheap.formats.results import Row


def neighbours(size: float, measured: Iterable[int]) -> tuple[int, int] | None:
    """The nearest measured sizes below and above; None for a size outside of the measured range."""
    sizes = list(measured)
    below = max((one for one in sizes if one <= size), default=None)
    above = min((one for one in sizes if one >= size), default=None)
    return None if below is None or above is None else (below, above)


def interpolated(rows: Sequence[Row], size: int, below: int, above: int) -> list[Row]:
    """Makes a row at `size` from each pair of rows at `below` and `above` that differ in nothing but size and values.

    The median is interpolated linearly in the logarithms of size and value. If one of the two medians is not positive, the logarithm is taken
    of the size only. If one of the two measurements failed, the new row has that failure. `size`, `below` and `above` are in bytes.
    """
    share = math.log(size / below) / math.log(above / below)
    partners = {(*row.key[:5], row.key[6], row.metric): row for row in rows if row.bytes == above}
    made = []
    for low in (row for row in rows if row.bytes == below):
        high = partners.get((*low.key[:5], low.key[6], low.metric))
        if high is None:
            continue
        if low.status != "ok" or low.statistics is None:
            made.append(replace(low, bytes=size))
        elif high.status != "ok" or high.statistics is None:
            made.append(replace(high, bytes=size))
        else:
            median = _value(low.statistics.median, high.statistics.median, share)
            made.append(replace(low, bytes=size, statistics=replace(low.statistics, median=median)))
    failed = {(*row.key[:5], row.key[6]): row for row in rows if row.bytes in (below, above) and row.status != "ok"}
    present = {(*row.key[:5], row.key[6]) for row in made}
    return made + [replace(row, bytes=size) for key, row in failed.items() if key not in present]


def _value(low: float, high: float, share: float) -> float:
    if low > 0 and high > 0:
        return math.exp((1 - share) * math.log(low) + share * math.log(high))
    return (1 - share) * low + share * high
