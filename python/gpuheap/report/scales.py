"""The layout of a picture in a page or a file: its size, the limits of its axes, and the values that are labelled."""

from __future__ import annotations

import math

from gpuheap.formats.plots import BYTES_AXES
from gpuheap.report.charts import Chart

WIDTH, HEIGHT = 4.9, 3.0  # of a picture, in inches
INCHES_PER_LETTER = 0.068  # the width of a letter of a label
AXIS_WORDS = {
    "bytes": "bytes of a request",
    "threads": "threads",
    "heap": "bytes of the heap",
    "page": "bytes of a page",
    "floats": "floats of a thread",
    "iterations": "requests of a lane",
    "range": "vertices that a batch is for",
}
WIDE_MARKS = 130  # a picture over words with more marks than this takes a row of its own
MARGIN = 0.03  # the margin on both sides along x, as a share of its range


def is_wide(chart: Chart) -> bool:
    """Whether a chart has so many marks side by side that it needs the width of several pictures."""
    return chart.axis is not None and chart.x_scale == "words" and len(chart.labels) * len(chart.series) > WIDE_MARKS


def dots_height(chart: Chart) -> float:
    """The height in inches of a picture with a row for each series."""
    return 0.75 + 0.27 * max(3, len(chart.series))


def slanted(chart: Chart, width: float) -> float:
    """The height in inches of the axis labels if they are too long to stand side by side and are slanted; 0 if they fit.

    `width` is the width of the whole picture in inches.
    """
    if chart.axis is None or chart.x_scale != "words":
        return 0.0
    longest = max(len(chart.x_words(place)) for place in range(len(chart.labels))) * INCHES_PER_LETTER
    return 0.5 * longest if longest > 0.85 * width / len(chart.labels) else 0.0


def shifts(chart: Chart) -> dict[str, float]:
    """The offset along x of each series' marks by its label. On a scale of words, the marks above a word stand side by side; else there are no offsets."""
    if chart.x_scale != "words":
        return {}
    count = len(chart.series)
    return {series.label: 0.7 * ((number + 0.5) / count - 0.5) for number, series in enumerate(chart.series)}


def x_limits(chart: Chart) -> tuple[float, float]:
    """The ends of the axis along x. On a logarithmic scale both are above 0."""
    if chart.x_scale == "words":
        return -0.5, len(chart.labels) - 0.5
    low, high = chart.xs[0], chart.xs[-1]
    if chart.x_scale == "log":
        room = (high / low) ** MARGIN if high > low else 1.2
        return low / room, high * room
    room = MARGIN * (high - low) or 1.0
    return low - room, high + room


def x_ticks(chart: Chart) -> list[float]:
    """The labelled values: every word of a scale of words, else values of the sweep that are so far apart that their labels do not touch."""
    xs = chart.xs
    if chart.x_scale == "words":
        return [float(place) for place in range(len(chart.labels))]
    scale = math.log if chart.x_scale == "log" else float
    gap = (scale(xs[-1]) - scale(xs[0])) / 7.5 if len(xs) > 1 else 0.0
    # On a sweep of powers of two and their neighbours, only the powers are labelled.
    shown: list[float] = []
    for x in sorted(xs, key=lambda x: (not _is_power_of_two(x), x)):
        if all(abs(scale(x) - scale(other)) >= gap for other in shown):
            shown.append(x)
    return sorted(shown)


def x_words(chart: Chart, x: float) -> str:
    """The label of a value. Multiples of 1024 of a count are shortened, as `16K`, so that the labels fit side by side."""
    if chart.x_scale != "words" and chart.axis not in BYTES_AXES and x >= 1024 and x % 1024 == 0:
        return f"{x / 1024:.0f}K" if x < 1 << 20 else f"{x / (1 << 20):.3g}M"
    return chart.x_words(x)


def x_title(chart: Chart) -> str:
    return AXIS_WORDS.get(chart.axis or "", chart.axis or "")


def value_limits(chart: Chart) -> tuple[float, float]:
    """The ends of the axis of values in a picture with lines: with some room around the values, and from 0 if the values begin near 0."""
    values = chart.y_range or (1.0, 1.0)
    if chart.y_scale == "log":
        return values[0] / 1.35, values[1] * 1.35
    room = 0.06 * (values[1] - values[0] or values[1] or 1.0)
    return (0.0 if values[0] < 0.6 * values[1] else values[0] - room), values[1] + room


def dots_limits(chart: Chart) -> tuple[float, float]:
    """The ends of the axis of values in a picture with a row for each series: with room for the words right of the dots."""
    values = [mark.median for series in chart.series for mark in series.marks]
    shown = values + [number.value for number in chart.printed]
    if chart.y_scale == "log":
        return min(values) * 0.5, max(shown) * (max(shown) / min(shown)) ** 0.28 * 1.6
    return min(0.0, *values, 0.0), (max(shown) or 1.0) * 1.35


def value_ticks(chart: Chart, low: float, high: float) -> list[float]:
    """The labelled values: decades, with 2 and 5 between them if the range is short; powers of two for bytes; at most six round numbers on a linear scale."""
    if chart.y_scale != "log":
        step = _round_step((high - low) / 5)
        return [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    decades = math.log10(high / low)
    if chart.unit == "bytes":
        power = max(2, math.ceil(decades / math.log10(2) / 6))
        ticks = [2.0 ** (power * number) for number in range(math.floor(math.log2(low) / power), math.ceil(math.log2(high) / power) + 1)]
    else:
        every = max(1, math.ceil(decades / 8))
        between = (1, 2, 5) if decades < (1.8 if chart.axis is not None else 1.0) else (1,)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        # 10 ** -6 is not 1e-6 to the last bit, and a label would show it.
        ticks = [float(f"{times}e{power}") for power in powers if power % every == 0 for times in between]
    return [tick for tick in ticks if low <= tick <= high]


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(times * power for times in (1, 2, 2.5, 5, 10) if times * power >= least * (1 - 1e-9))


def _is_power_of_two(x: float) -> bool:
    return x >= 1 and math.frexp(x)[0] == 0.5
