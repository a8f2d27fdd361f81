"""Writes a chart as SVG that is a part of a page.

The SVG is written as text, because a page has hundreds of charts, and a drawing library takes most of a minute for them. Colours and fonts come from
the page's style sheet. The page holds each marker once (`marker_symbols`), and charts refer to it. A mark has its text in `data-t`, and a series has
its name in `data-n`. The page's script makes tooltips from both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from gpuheap.report import scales
from gpuheap.report.charts import Chart, Series
from gpuheap.report.style import CURVE_DASHES, DENSE, FAILURE_ROWS, MARKER_PATHS, Look, has_spread, look

POINTS = 72  # the points of an inch
# Scales of the markers' paths, which lie in a box of 10 points: on lines, on lines of many points, on emphasised lines, on dots, for a paper's numbers.
SIZES = {"l": 0.46, "n": 0.32, "b": 0.62, "d": 0.68, "p": 0.75}
CROSS = "M-2.5-2.5L2.5 2.5M-2.5 2.5L2.5-2.5"
DASHES = {"-": "", "--": "5 2", ":": "1.3 2", "-.": "6 2 1.3 2"}

Place = Callable[[float], float]


def marker_symbols() -> str:
    """The SVG of all markers, which a page holds once for all its charts."""
    paths = [
        f'<path id="{_symbol(marker, size)}" transform="scale({scale})" d="{path}"/>'
        for marker, path in MARKER_PATHS.items()
        for size, scale in SIZES.items()
    ]
    return f'<svg width="0" height="0" class="symbols" aria-hidden="true"><defs>{"".join(paths)}<path id="cross" d="{CROSS}"/></defs></svg>'


def chart_for_page(chart: Chart) -> str:
    return _lines(chart) if chart.axis is not None else _dots(chart)


def _lines(chart: Chart) -> str:
    width = scales.WIDTH * (2 if scales.is_wide(chart) else 1)
    low, high = scales.value_limits(chart)
    ticks = scales.value_ticks(chart, low, high)
    slant = scales.slanted(chart, width)
    left = 0.16 + scales.INCHES_PER_LETTER * max((len(chart.y_words(tick)) for tick in ticks), default=0)
    box = _Box(width, scales.HEIGHT - 0.1, left, 0.16, 0.1, 0.42 + slant)
    x_low, x_high = scales.x_limits(chart)
    x_of = _scale(x_low, x_high, box.left, box.right, chart.x_scale == "log")
    y_of = _scale(low, high, box.bottom, box.top, chart.y_scale == "log")
    parts = [f'<path class="grid" d="M{box.left:.1f} {y_of(tick):.1f}H{box.right:.1f}"/>' for tick in ticks]
    parts += [_text(box.left - 4, y_of(tick) + 3, chart.y_words(tick), "end") for tick in ticks]
    if chart.x_scale == "words":
        between = [x_of(place + 0.5) for place in range(len(chart.labels) - 1)]
        parts += [f'<path class="grid" d="M{x:.1f} {box.top:.1f}V{box.bottom:.1f}"/>' for x in between]
    parts += [_x_tick(chart, x_of(tick), box, scales.x_words(chart, tick), slant > 0) for tick in scales.x_ticks(chart)]
    parts.append(f'<path class="axis" d="M{box.left:.1f} {box.bottom:.1f}H{box.right:.1f}"/>')
    parts.append(_text(box.right, box.height - 5, scales.x_title(chart), "end"))
    shift = scales.shifts(chart)
    drawn = [series for series in reversed(chart.series) if series.marks]
    parts += [_band(chart, series, x_of, y_of) for series in drawn]
    parts += [_series(chart, series, x_of, y_of, shift.get(series.label, 0.0)) for series in drawn]
    for number in chart.printed:
        parts.append(_printed(number.allocator, x_of(number.x + shift.get(number.label, 0.0)), y_of(number.value), number.words))
    for row, series in enumerate(series for series in chart.series if series.failures):
        y = box.top - 0.03 * (row % FAILURE_ROWS) * (box.bottom - box.top)
        crosses = [
            _use("cross", x_of(failure.x + shift.get(series.label, 0.0)), y, _rest(series, failure.words)) for failure in series.failures
        ]
        parts.append(f'<g {_named(series, "crosses")} stroke="{look(series.allocator).colour}">{"".join(crosses)}</g>')
    return _svg(box, f"{chart.case}: {chart.title}", parts)


def _dots(chart: Chart) -> str:
    """Draws one row for each series: a dot at its median, a line from its 5th to its 95th percentile, and the value as text."""
    left = 0.16 + scales.INCHES_PER_LETTER * max(len(series.label) for series in chart.series)
    box = _Box(scales.WIDTH, scales.dots_height(chart), left, 0.16, 0.1, 0.26)
    low, high = scales.dots_limits(chart)
    x_of = _scale(low, high, box.left, box.right, chart.y_scale == "log")
    y_of = _scale(-0.5, len(chart.series) - 0.5, box.top, box.bottom, False)
    ticks = scales.value_ticks(chart, low, high)
    parts = [f'<path class="grid" d="M{x_of(tick):.1f} {box.top:.1f}V{box.bottom:.1f}"/>' for tick in ticks]
    parts += [_x_tick(chart, x_of(tick), box, chart.y_words(tick), False) for tick in ticks]
    parts.append(f'<path class="axis" d="M{box.left:.1f} {box.bottom:.1f}H{box.right:.1f}"/>')
    for row, series in enumerate(chart.series):
        style, y = look(series.allocator), y_of(row)
        weight = ' class="ours"' if style.emphasis else ""
        parts.append(_text(box.left - 4, y + 3, series.label, "end"))
        inside = []
        for mark in series.marks:
            x = x_of(mark.median)
            inside.append(f'<path class="stem" d="M{box.left:.1f} {y:.1f}H{x:.1f}"/>')
            inside.append(f'<path class="range" d="M{x_of(mark.low):.1f} {y:.1f}H{x_of(mark.high):.1f}"/>')
            inside.append(_use(_symbol(style.marker, "d"), x, y, _rest(series, mark.words), ' stroke="none"'))
            parts.append(_text(x + 9, y + 3, chart.y_words(mark.median), "start", weight))
        if not series.marks and series.failures:
            parts.append(_text(box.left + 6, y + 3, series.failures[0].words.split(": ")[1].split(",")[0], "start"))
        parts.append(_group(series, style, "".join(inside), _rank(chart, series)))
    rows = {series.label: float(row) for row, series in enumerate(chart.series)}
    parts += [_printed(number.allocator, x_of(number.value), y_of(rows[number.label]), number.words) for number in chart.printed]
    return _svg(box, f"{chart.case}: {chart.title}", parts)


class _Box:
    """The size of a picture and the positions of its axes, in points from the upper left corner. The constructor takes inches."""

    def __init__(self, width: float, height: float, left: float, right: float, top: float, bottom: float) -> None:
        self.width, self.height = width * POINTS, height * POINTS
        self.left, self.right = left * POINTS, self.width - right * POINTS
        self.top, self.bottom = top * POINTS, self.height - bottom * POINTS


def _scale(low: float, high: float, first: float, last: float, logarithmic: bool) -> Place:
    """Returns the function that maps `low` to `first` and `high` to `last`. On a logarithmic scale, a value of 0 or less maps to `first`."""
    if not logarithmic:
        times = (last - first) / (high - low)
        return lambda value: first + (value - low) * times
    base, times = math.log(low), (last - first) / (math.log(high) - math.log(low))
    return lambda value: first + (math.log(value) - base) * times if value > 0 else first


def _series(chart: Chart, series: Series, x_of: Place, y_of: Place, shift: float) -> str:
    style = look(series.allocator)
    places = [(x_of(mark.x + shift), y_of(mark.median)) for mark in series.marks]
    line = ""
    if chart.x_scale != "words":
        dashes = DASHES[CURVE_DASHES[series.curve_index % len(CURVE_DASHES)] or style.dashes]
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        parts = [[(x_of(mark.x + shift), y_of(mark.median)) for mark in piece] for piece in series.pieces]
        line = f'<path class="line"{dashed} d="{"".join(map(_path, parts))}"/>'
    symbol = _symbol(style.marker, "b" if style.emphasis else "n" if len(places) > DENSE else "l")
    marks = "".join(_use(symbol, x, y, _rest(series, mark.words)) for (x, y), mark in zip(places, series.marks, strict=True))
    hollow = ' class="hollow"' if series.curve_index else ' stroke="none"'
    return _group(series, style, f"{line}<g{hollow}>{marks}</g>", _rank(chart, series))


def _band(chart: Chart, series: Series, x_of: Place, y_of: Place) -> str:
    """Draws the band from the 5th to the 95th percentile."""
    if chart.x_scale == "words" or not has_spread(series):
        return ""
    edges = []
    for piece in series.pieces:
        edge = [(x_of(mark.x), y_of(mark.low)) for mark in piece]
        edges.append(_path(edge + [(x_of(mark.x), y_of(mark.high)) for mark in reversed(piece)]) + "z")
    rank = _rank(chart, series)
    return (
        f'<path class="series s-{escape(series.allocator)}{" " if rank else ""}{rank}" fill="{look(series.allocator).colour}" '
        f'fill-opacity=".13" d="{"".join(edges)}"/>'
    )


def _rank(chart: Chart, series: Series) -> str:
    """The CSS class of a series that is grey until the pointer is over its name; "" for a highlighted series."""
    return "" if series.allocator in chart.highlighted else "rest"


def _group(series: Series, style: Look, inside: str, rank: str = "") -> str:
    return f'<g {_named(series, "ours" if style.emphasis else rank)} fill="{style.colour}" stroke="{style.colour}">{inside}</g>'


def _named(series: Series, kind: str = "") -> str:
    return f'class="series s-{escape(series.allocator)}{" " if kind else ""}{kind}" data-n="{escape(series.label)}"'


def _rest(series: Series, words: str) -> str:
    """The text of a mark without the name of its series at its beginning."""
    return words.removeprefix(series.label)


def _printed(allocator: str, x: float, y: float, words: str) -> str:
    """Draws a number from a paper as a faint, open mark."""
    style = look(allocator)
    mark = _use(_symbol(style.marker, "p"), x, y, words)
    return f'<g class="series s-{escape(allocator)} printed" data-n="" stroke="{style.colour}">{mark}</g>'


def _x_tick(chart: Chart, x: float, box: _Box, words: str, slant: bool) -> str:
    tick = f'<path class="axis" d="M{x:.1f} {box.bottom:.1f}v3"/>'
    if slant:
        return tick + f'<text text-anchor="end" transform="translate({x + 3:.1f} {box.bottom + 11:.1f}) rotate(-28)">{escape(words)}</text>'
    return tick + _text(x, box.bottom + 12.5, words, "middle")


def _text(x: float, y: float, words: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def _use(symbol: str, x: float, y: float, words: str, more: str = "") -> str:
    return f'<use href="#{symbol}" x="{x:.1f}" y="{y:.1f}"{more} data-t="{escape(words)}"/>'


def _symbol(marker: str, size: str) -> str:
    return f"{size}{list(MARKER_PATHS).index(marker)}"


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _svg(box: _Box, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {box.width:.1f} {box.height:.1f}" role="img" aria-label="{escape(label)}" class="chart">{"".join(parts)}</svg>'
    )
