"""Draws charts with matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

import matplotlib

matplotlib.use("svg")

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from gpuheap.catalogue import ordered, place
from gpuheap.report import svg
from gpuheap.report.charts import BYTES_AXES, Chart, Printed, Series
from gpuheap.report.style import look

PIXELS_PER_INCH = 96
INCHES_PER_LETTER = 0.068  # at the size of labels
AXIS_WORDS = {"bytes": "bytes of a request", "threads": "threads", "heap": "bytes of the heap", "page": "bytes of a page"}
CURVE_DASHES = ("", "--", "-.", ":")  # of an allocator's further curves; the first has the allocator's own
FAILURE_ROWS = 3  # of crosses above a chart
COLUMNS = 3  # of a case's file


@dataclass(frozen=True)
class Theme:
    """Colours of everything but the series."""

    text: str
    grid: str
    axis: str


# In a page these stand for CSS variables, which follow the reader's light or dark setting; black text takes the page's colour.
PAGE = Theme(text="#000000", grid="#010101", axis="#020202")
PAGE_COLOURS = {"#010101": "var(--grid)", "#020202": "var(--axis)"}
# In a file: greys that read on light and on dark ground.
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


def chart_for_page(chart: Chart) -> str:
    """One chart as SVG to stand in a page."""
    width, height = 4.9, 2.9 if chart.axis is not None else _dots_height(chart)
    with matplotlib.rc_context(_settings(chart.name, PAGE)):
        # Margins from the words beside the axes: a layout engine would draw everything twice to find them.
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes((0.1, 0.1, 0.8, 0.8))
        titles = _draw(axes, chart, PAGE)
        left = 0.16 + INCHES_PER_LETTER * max(len(words) for words in _side_words(axes, chart))
        bottom = 0.42 if chart.axis is not None else 0.26
        if axes.xaxis.get_tick_params().get("labelrotation"):
            bottom += 0.5 * INCHES_PER_LETTER * max(map(len, chart.labels))
        axes.set_position((left / width, bottom / height, 1 - (left + 0.16) / width, 1 - (bottom + 0.1) / height))
        return svg.inline(_finish(figure, titles, f"{chart.case}: {chart.title}"), PAGE_COLOURS)


def _side_words(axes: Axes, chart: Chart) -> list[str]:
    if chart.axis is None:
        return [series.label for series in chart.series]
    low, high = axes.get_ylim()
    return [chart.y_words(value) for value in axes.yaxis.get_majorticklocs() if low <= value <= high] or [""]


def case_file(charts: Sequence[Chart], heading: str) -> str:
    """All charts of a case side by side, with a legend, as an SVG file."""
    with matplotlib.rc_context(_settings(charts[0].name, FILE)):
        figure, titles = _case_figure(charts, heading, FILE)
        width, height = figure.get_size_inches() * PIXELS_PER_INCH
        return svg.standalone(_finish(figure, titles, f"{heading}: {charts[0].case}"), width, height)


def case_pdf(charts: Sequence[Chart], heading: str) -> bytes:
    """The same as a PDF file, for papers: black text."""
    out = io.BytesIO()
    with matplotlib.rc_context({**_settings(charts[0].name, PAPER), "pdf.fonttype": 42, "font.sans-serif": ["DejaVu Sans"]}):
        figure, _ = _case_figure(charts, heading, PAPER)
        figure.savefig(out, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return out.getvalue()


def _case_figure(charts: Sequence[Chart], heading: str, theme: Theme) -> tuple[Figure, dict[str, list[str]]]:
    columns = min(COLUMNS, len(charts))
    rows = [charts[first : first + columns] for first in range(0, len(charts), columns)]
    heights = [max(3.0 if chart.axis is not None else _dots_height(chart) for chart in row) for row in rows]
    names = ordered({series.allocator for chart in charts if chart.axis is not None for series in chart.series})
    legend_columns = max(1, min(len(names), 3 * columns))
    legend = 0.17 * math.ceil(len(names) / legend_columns)
    figure = Figure(figsize=(4.9 * columns, sum(heights) + 0.5 + legend), layout="constrained")
    grid = figure.add_gridspec(len(rows), columns, height_ratios=heights)
    titles: dict[str, list[str]] = {}
    shared = charts[0].fixed if len({chart.fixed for chart in charts}) == 1 else ""
    handles: dict[str, Any] = {}
    for number, chart in enumerate(charts):
        axes = figure.add_subplot(grid[number // columns, number % columns])
        titles |= _draw(axes, chart, theme, suffix=f"--{number}")
        words = chart.title if shared or not chart.fixed else f"{chart.title}, {chart.fixed}"
        axes.set_title(words, loc="left", fontsize=9, fontweight="bold")
        # A dot's allocator stands beside it.
        if chart.axis is not None:
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.suptitle(f"{heading}: {charts[0].case}" + (f", {shared}" if shared else ""), x=0.01, ha="left", fontsize=10)
    if handles:
        shown = sorted(handles, key=lambda label: (place(label.split(", ")[0]), label))
        figure.legend([handles[name] for name in shown], shown, loc="outside lower left", ncols=legend_columns, fontsize=8)
    return figure, titles


def overview_file(lines: Chart, dots: Chart | None, heading: str, note: str) -> str:
    """The picture of the README: one chart over sizes with names at the lines' ends, and beside it one value for each allocator."""
    width, height = 9.2, 3.7
    with matplotlib.rc_context(_settings("overview", FILE)):
        figure = Figure(figsize=(width, height))
        # The names between the two charts get what they need; the charts share the rest.
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
    shift = _shifts(chart)
    for order, series in enumerate(series for series in reversed(chart.series) if series.marks):
        titles |= _draw_series(axes, chart, series, suffix, order, shift.get(series.label, 0.0))
    _value_axis(axes.yaxis, axes, chart, theme, "y")
    _x_ticks(axes, chart)
    axes.margins(x=0.03)
    titles |= _draw_printed(axes, chart, suffix, lambda number: (number.x + _middle(chart, number.allocator, shift), number.value))
    failing = [series for series in chart.series if series.failures]
    for number, series in enumerate(failing):
        # Above the upper edge, where the value would be if it had come; allocators beside each other.
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
    """Numbers of papers: open marks, faint."""
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


def _middle(chart: Chart, allocator: str, shifts: dict[str, float]) -> float:
    return next((shifts.get(series.label, 0.0) for series in chart.series if series.allocator == allocator), 0.0)


def _shifts(chart: Chart) -> dict[str, float]:
    """Above a word the allocators stand side by side; above a number they stand on it."""
    if chart.x_scale != "words":
        return {}
    count = len(chart.series)
    return {series.label: 0.7 * ((number + 0.5) / count - 0.5) for number, series in enumerate(chart.series)}


def _draw_series(axes: Axes, chart: Chart, series: Series, suffix: str, order: int, shift: float) -> dict[str, list[str]]:
    style = look(series.allocator)
    xs = [mark.x + shift for mark in series.marks]
    suffix = f"{suffix}-{series.curve_index}" if series.curve else suffix
    name = f"{series.allocator}--line{suffix}"
    axes.plot(
        xs,
        [mark.median for mark in series.marks],
        color=style.colour,
        linestyle="none" if chart.x_scale == "words" else CURVE_DASHES[series.curve_index % len(CURVE_DASHES)] or style.dashes,
        linewidth=2.2 if style.emphasis else 1.3,
        marker=style.marker,
        markersize=5.2 if style.emphasis else 4.2,
        markeredgewidth=1.1 if style.marker in "x+" else 0,
        clip_on=False,
        label=series.label,
        zorder=10 + order,
        gid=name,
    )
    spread = any(mark.high > 1.15 * mark.low for mark in series.marks) and all(mark.low > 0 for mark in series.marks)
    if spread and chart.x_scale != "words":
        band = f"{series.allocator}--band{suffix}"
        axes.fill_between(
            xs,
            [m.low for m in series.marks],
            [m.high for m in series.marks],
            color=style.colour,
            alpha=0.13,
            linewidth=0,
            zorder=5,
            gid=band,
        )
        return {name: [mark.words for mark in series.marks], band: []}
    return {name: [mark.words for mark in series.marks]}


def _draw_dots(axes: Axes, chart: Chart, theme: Theme, suffix: str) -> dict[str, list[str]]:
    """One row for each allocator: a dot at its median, a line from its 5th to its 95th percentile, the value in words."""
    titles: dict[str, list[str]] = {}
    names = [series.label for series in chart.series]
    values = [mark.median for series in chart.series for mark in series.marks]
    logarithmic = chart.y_scale == "log"
    low = min(values, default=0.0) * 0.5 if logarithmic else min(0.0, *values, 0.0)
    axes.set_xscale(chart.y_scale)
    for row, series in enumerate(chart.series):
        style = look(series.allocator)
        for mark in series.marks:
            name = f"{series.allocator}--dot{suffix}{row}"
            axes.plot([low, mark.median], [row, row], color=style.colour, linewidth=1.2, alpha=0.35, zorder=3, solid_capstyle="butt")
            axes.plot(
                [mark.low, mark.high],
                [row, row],
                color=style.colour,
                linewidth=3.0,
                alpha=0.35,
                zorder=4,
                gid=f"{series.allocator}--range{suffix}{row}",
            )
            axes.plot(
                [mark.median],
                [row],
                color=style.colour,
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
                color=style.colour,
            )
    rows = {series.allocator: float(row) for row, series in enumerate(chart.series)}
    titles |= _draw_printed(axes, chart, suffix, lambda number: (number.value, rows[number.allocator]))
    values += [number.value for number in chart.printed]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    if values and logarithmic:
        axes.set_xlim(low, max(values) * (max(values) / min(values)) ** 0.28 * 1.6)
    elif values:
        axes.set_xlim(low, (max(values) or 1.0) * 1.35)
    _value_axis(axes.xaxis, axes, chart, theme, "x")
    return titles


def _dots_height(chart: Chart) -> float:
    return 0.75 + 0.27 * max(3, len(chart.series))


def _value_axis(axis: Any, axes: Axes, chart: Chart, theme: Theme, which: str) -> None:
    """Decades with words such as 10 µs; 2 and 5 between them where the range is short. Round numbers where the scale is linear."""
    low, high = axes.get_ylim() if which == "y" else axes.get_xlim()
    if which == "y" and chart.y_range is not None:
        low, high = _limits(chart.y_range, chart.y_scale)
        axes.set_ylim(low, high)
    if chart.y_scale == "log":
        decades = math.log10(high / low) if low > 0 else 9
        axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if decades < (1.8 if which == "y" else 1.0) else (1.0,), numticks=12))
    else:
        axis.set_major_locator(MaxNLocator(5))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: chart.y_words(value)))
    axes.grid(True, axis="y" if which == "y" else "x", color=theme.grid, linewidth=0.7, alpha=1.0 if theme is PAGE else 0.35)


def _limits(values: tuple[float, float], scale: str) -> tuple[float, float]:
    if scale == "log":
        return values[0] / 1.35, values[1] * 1.35
    room = 0.06 * (values[1] - values[0] or values[1] or 1.0)
    return (0.0 if values[0] < 0.6 * values[1] else values[0] - room), values[1] + room


def _x_ticks(axes: Axes, chart: Chart) -> None:
    axes.xaxis.set_major_locator(FixedLocator(_shown_ticks(axes, chart)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _compact(chart, value)))
    axes.set_xlabel(AXIS_WORDS.get(chart.axis or "", chart.axis or ""), loc="right", labelpad=2)


def _shown_ticks(axes: Axes, chart: Chart) -> list[float]:
    """Values of the sweep so far apart that their words do not touch; every word of a scale of words."""
    xs = chart.xs
    if chart.x_scale == "words":
        if len(chart.labels) > 4 or max(map(len, chart.labels)) > 12:
            axes.tick_params(axis="x", labelrotation=28)
            for label in axes.get_xticklabels():
                label.set_horizontalalignment("right")
        return [float(place) for place in range(len(chart.labels))]
    scale = math.log if chart.x_scale == "log" else float
    gap = (scale(xs[-1]) - scale(xs[0])) / 7.5 if len(xs) > 1 else 0.0
    # On a sweep of powers of two and of what lies beside them, the powers.
    shown: list[float] = []
    for x in sorted(xs, key=lambda x: (not _is_power_of_two(x), x)):
        if all(abs(scale(x) - scale(other)) >= gap for other in shown):
            shown.append(x)
    return sorted(shown)


def _is_power_of_two(x: float) -> bool:
    return x >= 1 and math.frexp(x)[0] == 0.5


def _compact(chart: Chart, x: float) -> str:
    """`16K` for powers of two of a count, which would not fit side by side in full."""
    if chart.x_scale != "words" and chart.axis not in BYTES_AXES and x >= 1024 and x % 1024 == 0:
        return f"{x / 1024:.0f}K" if x < 1 << 20 else f"{x / (1 << 20):.3g}M"
    return chart.x_words(x)


def _label_ends(axes: Axes, chart: Chart) -> None:
    """Names at the right ends of the lines, moved apart where they would touch."""
    low, high = (math.log(value) for value in axes.get_ylim())
    ends = (
        sorted(
            ((math.log(series.marks[-1].median) - low) / (high - low), series)
            for series in chart.series
            if series.marks and series.marks[-1].median > 0
        )
        if high > low
        else []
    )
    gap = 0.062
    places = [place for place, _ in ends]
    # Ends: each pass moves touching neighbours apart by what is missing; a hundred passes bring the rest below what the eye sees.
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
            color=style.colour,
            fontweight=weight,
            annotation_clip=False,
        )


def _end_words(chart: Chart, series: Series) -> str:
    """`gpuheap 115 µs`; a line that ends early says where."""
    end = series.marks[-1]
    words = f"{series.allocator} {chart.y_words(end.median)}"
    return words if end.x == max(chart.xs) else f"{words} at {chart.x_words(end.x)}"


def _longest_name(chart: Chart | None) -> int:
    return max((len(series.allocator) for series in chart.series), default=0) if chart is not None else 0


def drawn_for_page(name: str, label: str, size: tuple[float, float], draw: Callable[[Figure], None]) -> str:
    """Any picture, `size` in inches, in the style of the report, as SVG to stand in a page."""
    with matplotlib.rc_context(_settings(name, PAGE)):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        return svg.inline(_finish(figure, {}, label), PAGE_COLOURS)
