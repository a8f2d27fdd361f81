"""Draws charts with matplotlib."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

import matplotlib

matplotlib.use("svg")

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from gpuheap.catalogue import place
from gpuheap.report import svg
from gpuheap.report.charts import Chart, Printed, Series, failed_words
from gpuheap.report.scales import (
    HEIGHT,
    INCHES_PER_LETTER,
    WIDTH,
    dots_height,
    dots_limits,
    is_wide,
    shifts,
    slanted,
    value_limits,
    value_ticks,
    x_limits,
    x_ticks,
    x_title,
    x_words,
)
from gpuheap.report.style import CURVE_DASHES, DENSE, FAILURE_ROWS, has_spread, look

PIXELS_PER_INCH = 96
CURVE_FILLS = ("full", "none", "left", "bottom")  # the fill styles of the markers of an allocator's curves
COLUMNS = 3  # the columns of pictures in a case's file


@dataclass(frozen=True)
class Theme:
    """Colours of everything but the series."""

    text: str
    grid: str
    axis: str


# In a page, these colours are replaced by CSS variables, which follow the reader's light or dark setting. Black text takes the page's colour.
PAGE = Theme(text="#000000", grid="#010101", axis="#020202")
PAGE_COLOURS = {"#010101": "var(--grid)", "#020202": "var(--axis)"}
REST = "#a9b1b9"  # allocators that are not highlighted
# In a file: greys that are legible on a light and on a dark background.
FILE = Theme(text="#737c87", grid="#a4acb5", axis="#8b949e")
PAPER = Theme(text="#000000", grid="#a4acb5", axis="#333333")


def _settings(name: str, theme: Theme) -> dict[str, Any]:
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": name,  # ids depend on the content only, and differ between pictures of a page
        "font.family": "sans-serif",
        "font.sans-serif": ["Inter", "Helvetica Neue", "Arial", "DejaVu Sans"],
        "font.size": 8.5,
        "text.color": theme.text,
        "axes.labelcolor": theme.text,
        "axes.edgecolor": theme.axis,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "axes.linewidth": 0.8,
        "xtick.color": theme.axis,
        "ytick.color": theme.axis,
        "xtick.labelcolor": theme.text,
        "ytick.labelcolor": theme.text,
        "ytick.major.size": 0,
        "ytick.minor.size": 0,
        "xtick.major.size": 3,
        "xtick.minor.size": 0,
        "legend.frameon": False,
        "axes.axisbelow": True,
    }


def case_file(charts: Sequence[Chart], heading: str) -> str:
    """All charts of a case side by side, with a legend, as an SVG file."""
    with matplotlib.rc_context(_settings(charts[0].name, FILE)):
        figure, titles = _case_figure(charts, heading, FILE)
        width, height = figure.get_size_inches() * PIXELS_PER_INCH
        return svg.standalone(_finish(figure, titles, f"{heading}: {charts[0].case}"), width, height)


def case_pdf(charts: Sequence[Chart], heading: str) -> bytes:
    """The charts of a case as a PDF file, for papers: with black text."""
    out = io.BytesIO()
    with matplotlib.rc_context({**_settings(charts[0].name, PAPER), "pdf.fonttype": 42, "font.sans-serif": ["DejaVu Sans"]}):
        figure, _ = _case_figure(charts, heading, PAPER)
        figure.savefig(out, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return out.getvalue()


def _rows_of(charts: Sequence[Chart]) -> tuple[int, list[list[Chart]]]:
    """The number of columns of a case's file, and the pictures in each of its rows. A wide picture has a row to itself."""
    # Pictures whose number is a multiple of four, such as those of two metrics at four values, fill rows of four.
    fitting = 2 if len(charts) == 4 else 4 if len(charts) % 4 == 0 else COLUMNS
    most = min(fitting, max(len(charts), 2 if any(map(is_wide, charts)) else 1))
    rows: list[list[Chart]] = []
    for chart in charts:
        if not rows or is_wide(chart) or is_wide(rows[-1][0]) or len(rows[-1]) == most:
            rows.append([])
        rows[-1].append(chart)
    columns = max(len(row) for row in rows)
    return max(columns, most if any(map(is_wide, charts)) else 1), rows


def _case_figure(charts: Sequence[Chart], heading: str, theme: Theme) -> tuple[Figure, dict[str, list[str]]]:
    columns, rows = _rows_of(charts)
    heights = [max(HEIGHT if chart.axis is not None else dots_height(chart) for chart in row) for row in rows]
    labels = {
        series.label: (place(series.allocator), series.allocator, series.curve_index)
        for chart in charts
        if chart.axis is not None
        for series in chart.series
    }
    # A legend's handle and the space around a name take the room of ten letters.
    widest = INCHES_PER_LETTER * (10 + max(map(len, labels), default=0))
    legend_columns = max(1, min(len(labels), int(WIDTH * columns / widest)))
    legend = 0.17 * math.ceil(len(labels) / legend_columns)
    shared = _shared_words(charts)
    # At 10 points a letter is a quarter wider than in a legend.
    title = textwrap.wrap(", ".join([f"{heading}: {charts[0].case}", *shared]), int(WIDTH * columns / INCHES_PER_LETTER / 1.25))
    failed = textwrap.wrap(failed_words(charts), int(WIDTH * columns / INCHES_PER_LETTER / 1.25))
    lines = len(title) + len(failed)
    figure = Figure(figsize=(WIDTH * columns, sum(heights) + 0.5 + 0.17 * (lines - 1) + legend), layout="constrained")
    grid = figure.add_gridspec(len(rows), columns, height_ratios=heights)
    titles: dict[str, list[str]] = {}
    handles: dict[str, Any] = {}
    placed = [(chart, line, column) for line, of_line in enumerate(rows) for column, chart in enumerate(of_line)]
    for number, (chart, line, column) in enumerate(placed):
        axes = figure.add_subplot(grid[line, :] if is_wide(chart) else grid[line, column])
        titles |= _draw(axes, chart, theme, suffix=f"--{number}")
        words = ", ".join([chart.title, *(word for word in chart.fixed.split(", ") if word and word not in shared)])
        crossed = any(series.failures for other in rows[line] if other.axis is not None for series in other.series)
        _write_title(axes, chart, words, crossed)
        if chart.axis is not None and INCHES_PER_LETTER * len(chart.figure) < 0.7 * WIDTH:
            below = -17 - 72 * _slant(axes, chart)
            beside = axes.annotate(chart.figure, (0, 0), (0, below), "axes fraction", "offset points", fontsize=7.5, va="top")
            beside.set_in_layout(False)
        # A chart without an axis has the allocators' names at its rows, so only charts with an axis need the legend.
        if chart.axis is not None:
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.suptitle("\n".join(title + failed), x=0.01, ha="left", fontsize=10)
    if handles:
        shown = sorted(handles, key=lambda label: labels[label])
        legend_of = figure.legend([handles[name] for name in shown], shown, loc="outside lower left", ncols=legend_columns, fontsize=8)
        for handle in legend_of.legend_handles:
            if isinstance(handle, Line2D):
                handle.set_markersize(5)
    return figure, titles


def _shared_words(charts: Sequence[Chart]) -> list[str]:
    """The fixed values, in words, that all pictures of a case share."""
    return [word for word in charts[0].fixed.split(", ") if word and all(word in chart.fixed.split(", ") for chart in charts)]


def _write_title(axes: Axes, chart: Chart, words: str, crossed: bool) -> None:
    """Writes a title above the crosses of failed points. If names stand left of the axes, the title begins above the names, where there is more room."""
    look_of: dict[str, Any] = {"fontsize": 9, "fontweight": "bold"}
    above = 6 + (0.03 * FAILURE_ROWS * HEIGHT * 72 if crossed else 0)
    if chart.axis is not None:
        axes.set_title(words, loc="left", pad=above, **look_of)
        return
    axes.set_title(" ", pad=above, **look_of)  # an empty title keeps the room
    names = INCHES_PER_LETTER * max(len(series.label) for series in chart.series)
    axes.annotate(words, (0, 1), (-65 * names, above), "axes fraction", "offset points", **look_of).set_in_layout(False)


def overview_file(lines: Chart, dots: Chart | None, heading: str, note: str) -> str:
    """The picture of the README: a chart over sizes with names at the ends of its lines, and right of it a chart of one value for each allocator."""
    width, height = 9.2, 3.7
    with matplotlib.rc_context(_settings("overview", FILE)):
        figure = Figure(figsize=(width, height))
        # The names between the two charts get the width that they need, and the charts share the rest.
        left, right = 0.64, 0.14
        gap = 0.25 + INCHES_PER_LETTER * (
            max(len(_end_words(lines, series)) for series in lines.series if series.marks) + _longest_name(dots)
        )
        room = width - left - right - gap
        share = 0.58 * room if dots is not None else room
        axes = figure.add_axes((left / width, 0.14, share / width, 0.66))
        titles = _draw(axes, lines, FILE, suffix="--0")
        axes.set_title(f"{lines.title} by size, {lines.size}", loc="left", fontsize=9)
        _label_ends(axes, lines)
        if dots is not None:
            beside = figure.add_axes(((left + share + gap) / width, 0.14, (room - share) / width, 0.66))
            titles |= _draw(beside, dots, FILE, suffix="--1")
            beside.set_title(f"{dots.case}, {dots.size}", loc="left", fontsize=9)
        figure.text(0.012, 0.955, heading, fontsize=11.5, fontweight="bold", va="top")
        figure.text(0.988, 0.95, note, fontsize=8, va="top", ha="right")
        return svg.standalone(_finish(figure, titles, heading), width * PIXELS_PER_INCH, height * PIXELS_PER_INCH)


def _finish(figure: Figure, titles: dict[str, list[str]], label: str) -> Element:
    out = io.StringIO()
    for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
        patch.set_visible(False)
    # print_svg draws once; savefig would do so twice.
    FigureCanvasSVG(figure).print_svg(out, metadata={"Creator": None, "Date": None, "Format": None, "Type": None})
    return svg.clean(out.getvalue(), titles, label)


def _draw(axes: Axes, chart: Chart, theme: Theme, suffix: str = "") -> dict[str, list[str]]:
    """Draws the chart. Returns the tooltips of each group of marks, by the group's id."""
    return _draw_lines(axes, chart, theme, suffix) if chart.axis is not None else _draw_dots(axes, chart, theme, suffix)


def _draw_lines(axes: Axes, chart: Chart, theme: Theme, suffix: str) -> dict[str, list[str]]:
    titles: dict[str, list[str]] = {}
    axes.set_yscale(chart.y_scale)
    if chart.x_scale == "log":
        axes.set_xscale("log", base=2)
    shift = shifts(chart)
    for order, series in enumerate(series for series in reversed(chart.series) if series.marks):
        titles |= _draw_series(axes, chart, series, suffix, order, shift.get(series.label, 0.0))
    _value_axis(axes.yaxis, axes, chart, theme, "y")
    _x_ticks(axes, chart)
    axes.set_xlim(*x_limits(chart))
    if chart.x_scale == "words":
        for place in range(1, len(chart.labels)):
            axes.axvline(place - 0.5, color=theme.grid, linewidth=0.7, alpha=1.0 if theme is PAGE else 0.35, zorder=1)
    titles |= _draw_printed(axes, chart, suffix, lambda number: (number.x + shift.get(number.label, 0.0), number.value))
    failing = [series for series in chart.series if series.failures]
    for number, series in enumerate(failing):
        # A failed point is a cross above the upper edge, at its position along x. Crosses of different allocators have different heights.
        name = f"{series.allocator}--failed{suffix}{number}"
        (crosses,) = axes.plot(
            [f.x + shift.get(series.label, 0.0) for f in series.failures],
            [1.0 + 0.03 * (number % FAILURE_ROWS)] * len(series.failures),
            transform=axes.get_xaxis_transform(),
            color=look(series.allocator).colour,
            marker="x",
            markersize=5,
            markeredgewidth=1.5,
            linestyle="none",
            clip_on=False,
            label="" if series.marks else series.label,
            zorder=60,
            gid=name,
        )
        crosses.set_in_layout(False)
        titles[name] = [f.words for f in series.failures]
    return titles


def _draw_printed(axes: Axes, chart: Chart, suffix: str, where: Callable[[Printed], tuple[float, float]]) -> dict[str, list[str]]:
    """Draws the numbers of papers as faint, open marks."""
    titles = {}
    for order, number in enumerate(chart.printed):
        name = f"{number.allocator}--printed{suffix}{order}"
        x, y = where(number)
        style = look(number.allocator)
        axes.plot(
            [x], [y], color=style.colour, marker=style.marker, markerfacecolor="none", markersize=7, alpha=0.45, linestyle="none", gid=name
        )
        titles[name] = [number.words]
    return titles


def _draw_series(axes: Axes, chart: Chart, series: Series, suffix: str, order: int, shift: float) -> dict[str, list[str]]:
    style = look(series.allocator)
    colour = _colour(chart, series)
    # A line has a gap where a point failed: a NaN between two pieces.
    gap = [(math.nan, math.nan)]
    places = [place for number, piece in enumerate(series.pieces) for place in gap * (number > 0) + [(m.x + shift, m.median) for m in piece]]
    xs = [mark.x + shift for mark in series.marks]
    suffix = f"{suffix}-{series.curve_index}" if series.curve else suffix
    name = f"{series.allocator}--line{suffix}"
    axes.plot(
        [x for x, _ in places],
        [y for _, y in places],
        color=colour,
        linestyle="none" if chart.x_scale == "words" else CURVE_DASHES[series.curve_index % len(CURVE_DASHES)] or style.dashes,
        linewidth=2.2 if style.emphasis else 1.3,
        marker=style.marker,
        markersize=(5.2 if style.emphasis else 4.2) * (0.7 if len(xs) > DENSE else 1.0),
        fillstyle=CURVE_FILLS[series.curve_index % len(CURVE_FILLS)],
        markeredgewidth=1.1 if style.marker in "x+" else 0.8 if series.curve_index else 0,
        clip_on=False,
        label=series.label,
        zorder=(10 if series.allocator in chart.highlighted else 6) + order / 100,
        gid=name,
    )
    if has_spread(series) and chart.x_scale != "words":
        band = f"{series.allocator}--band{suffix}"
        axes.fill_between(
            [x for x, _ in places],
            [low for piece in series.pieces for low in [*(m.low for m in piece), math.nan]][: len(places)],
            [high for piece in series.pieces for high in [*(m.high for m in piece), math.nan]][: len(places)],
            color=colour,
            alpha=0.13,
            linewidth=0,
            zorder=5,
            gid=band,
        )
        return {name: [mark.words for mark in series.marks], band: []}
    return {name: [mark.words for mark in series.marks]}


def _colour(chart: Chart, series: Series) -> str:
    """The colour of a series: the allocator's own colour if it is highlighted, else grey."""
    return look(series.allocator).colour if series.allocator in chart.highlighted else REST


def _draw_dots(axes: Axes, chart: Chart, theme: Theme, suffix: str) -> dict[str, list[str]]:
    """One row for each allocator: a dot at its median, a line from its 5th to its 95th percentile, the value in words."""
    titles: dict[str, list[str]] = {}
    names = [series.label for series in chart.series]
    low, high = dots_limits(chart)
    axes.set_xscale(chart.y_scale)
    for row, series in enumerate(chart.series):
        style, colour = look(series.allocator), _colour(chart, series)
        for mark in series.marks:
            name = f"{series.allocator}--dot{suffix}{row}"
            axes.plot([low, mark.median], [row, row], color=colour, linewidth=1.2, alpha=0.35, zorder=3, solid_capstyle="butt")
            axes.plot(
                [mark.low, mark.high],
                [row, row],
                color=colour,
                linewidth=3.0,
                alpha=0.35,
                zorder=4,
                gid=f"{series.allocator}--range{suffix}{row}",
            )
            axes.plot(
                [mark.median],
                [row],
                color=colour,
                marker=style.marker,
                markersize=7 if style.emphasis else 6,
                markeredgewidth=1.2 if style.marker in "x+" else 0,
                linestyle="none",
                clip_on=False,
                zorder=10,
                label=series.allocator,
                gid=name,
            )
            titles[name] = [mark.words]
            titles[f"{series.allocator}--range{suffix}{row}"] = []
            weight = "bold" if style.emphasis else "normal"
            text = chart.y_words(mark.median)
            beside = axes.annotate(text, (mark.median, row), xytext=(9, 0), textcoords="offset points", va="center", fontweight=weight)
            beside.set_in_layout(False)
        if not series.marks and series.failures:
            axes.annotate(
                series.failures[0].words.split(": ")[1].split(",")[0],
                (0.02, row),
                xycoords=("axes fraction", "data"),
                va="center",
                color=colour,
            )
    rows = {series.label: float(row) for row, series in enumerate(chart.series)}
    titles |= _draw_printed(axes, chart, suffix, lambda number: (number.value, rows[number.label]))
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(low, high)
    _value_axis(axes.xaxis, axes, chart, theme, "x")
    return titles


def _value_axis(axis: Any, axes: Axes, chart: Chart, theme: Theme, which: str) -> None:
    """Labels the axis with values such as 10 µs at round positions."""
    if which == "y":
        axes.set_ylim(*value_limits(chart))
    axis.set_major_locator(FixedLocator(value_ticks(chart, *(axes.get_ylim() if which == "y" else axes.get_xlim()))))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: chart.y_words(value)))
    axes.grid(True, axis="y" if which == "y" else "x", color=theme.grid, linewidth=0.7, alpha=1.0 if theme is PAGE else 0.35)


def _x_ticks(axes: Axes, chart: Chart) -> None:
    axes.xaxis.set_major_locator(FixedLocator(x_ticks(chart)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: x_words(chart, value)))
    if _slant(axes, chart):
        axes.tick_params(axis="x", labelrotation=28)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
    axes.set_xlabel(x_title(chart), loc="right", labelpad=2)


def _slant(axes: Axes, chart: Chart) -> float:
    whole = axes.get_figure()
    assert isinstance(whole, Figure)
    return slanted(chart, whole.get_size_inches()[0] if is_wide(chart) else WIDTH)


def _label_ends(axes: Axes, chart: Chart) -> None:
    """Writes names at the right ends of the lines, and moves them apart if they would touch."""
    low, high = (math.log(value) for value in axes.get_ylim())
    ends = (
        sorted(
            (
                ((math.log(series.marks[-1].median) - low) / (high - low), series)
                for series in chart.series
                if series.marks and series.marks[-1].median > 0
            ),
            key=lambda end: end[0],
        )
        if high > low
        else []
    )
    gap = 0.062
    places = [place for place, _ in ends]
    # Ends: each pass moves touching neighbours apart by the missing distance; after a hundred passes the rest is too small to be seen.
    for _ in range(100):
        for i in range(1, len(places)):
            missing = gap - (places[i] - places[i - 1])
            if missing > 0:
                places[i - 1] -= missing / 2
                places[i] += missing / 2
    for height, (_, series) in zip(places, ends, strict=True):
        style = look(series.allocator)
        weight = "bold" if style.emphasis else "normal"
        axes.annotate(
            _end_words(chart, series),
            (1.03, height),
            xycoords="axes fraction",
            va="center",
            color=_colour(chart, series),
            fontweight=weight,
            annotation_clip=False,
        )


def _end_words(chart: Chart, series: Series) -> str:
    """The name and the last value of a line, as `sharded_spans 115 µs`; for a line that ends early, also its last position."""
    end = series.marks[-1]
    words = f"{series.allocator} {chart.y_words(end.median)}"
    return words if end.x == max(chart.xs) else f"{words} at {chart.x_words(end.x)}"


def _longest_name(chart: Chart | None) -> int:
    return max((len(series.allocator) for series in chart.series), default=0) if chart is not None else 0


def drawn_for_page(name: str, label: str, size: tuple[float, float], draw: Callable[[Figure], None]) -> str:
    """A picture in the style of the report as SVG for a page. `size` is in inches."""
    with matplotlib.rc_context(_settings(name, PAGE)):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        return svg.inline(_finish(figure, {}, label), PAGE_COLOURS)


def page_picture_as_file(picture: str) -> str:
    """Makes a file of the result of drawn_for_page(): visible on a light and on a dark background."""
    faint = f"stroke: {FILE.grid}; stroke-opacity: 0.35"
    return svg.alone(picture, {f"stroke: {PAGE_COLOURS[PAGE.grid]}": faint, PAGE_COLOURS[PAGE.axis]: FILE.axis}, FILE.text)
