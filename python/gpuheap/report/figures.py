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
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from gpuheap.catalogue import ordered
from gpuheap.report import svg
from gpuheap.report.charts import Chart, Series
from gpuheap.report.style import look
from gpuheap.units import format_value

PIXELS_PER_INCH = 96
INCHES_PER_LETTER = 0.068  # at the size of labels
AXIS_WORDS = {"bytes": "bytes of a request", "threads": "threads"}


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
    height = 2.9 if chart.axis is not None else _dots_height(chart)
    with matplotlib.rc_context(_settings(chart.name, PAGE)):
        figure = Figure(figsize=(4.9, height), layout="constrained")
        titles = _draw(figure.add_subplot(), chart, PAGE)
        return svg.inline(_finish(figure, titles, f"{chart.case}: {chart.title}"), PAGE_COLOURS)


def case_file(charts: Sequence[Chart], heading: str) -> str:
    """All charts of a case side by side, with a legend, as a file."""
    height = max(3.4 if chart.axis is not None else _dots_height(chart) + 0.7 for chart in charts)
    width = 4.9 * len(charts)
    with matplotlib.rc_context(_settings(charts[0].name, FILE)):
        figure = Figure(figsize=(width, height), layout="constrained")
        titles: dict[str, list[str]] = {}
        for number, axes in enumerate(_row(figure, len(charts))):
            titles |= _draw(axes, charts[number], FILE, suffix=f"--{number}")
            axes.set_title(charts[number].title, loc="left", fontsize=9, fontweight="bold")
        figure.suptitle(f"{heading}: {charts[0].case}, {charts[0].fixed}", x=0.01, ha="left", fontsize=10)
        handles: dict[str, Any] = {}
        for axes, chart in zip(figure.axes, charts, strict=True):
            # A dot's allocator stands beside it.
            if chart.axis is not None:
                handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        if handles:
            names = ordered(handles)
            figure.legend(
                [handles[name] for name in names], names, loc="outside lower left", ncols=min(len(names), 3 * len(charts)), fontsize=8
            )
        return svg.standalone(_finish(figure, titles, f"{heading}: {charts[0].case}"), width * PIXELS_PER_INCH, height * PIXELS_PER_INCH)


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


def _row(figure: Figure, count: int) -> list[Axes]:
    return [figure.add_subplot(1, count, 1 + number) for number in range(count)]


def _finish(figure: Figure, titles: dict[str, list[str]], label: str) -> Element:
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Creator": None, "Date": None, "Format": None, "Type": None})
    return svg.clean(out.getvalue(), titles, label)


def _draw(axes: Axes, chart: Chart, theme: Theme, suffix: str = "") -> dict[str, list[str]]:
    """Draws the chart. Returns the tooltips of each group of marks, by the group's id."""
    return _draw_lines(axes, chart, theme, suffix) if chart.axis is not None else _draw_dots(axes, chart, theme, suffix)


def _draw_lines(axes: Axes, chart: Chart, theme: Theme, suffix: str) -> dict[str, list[str]]:
    titles: dict[str, list[str]] = {}
    axes.set_yscale("log")
    logarithmic = min(chart.xs, default=1) > 0 and len(chart.xs) > 2
    if logarithmic:
        axes.set_xscale("log", base=2)
    for order, series in enumerate(reversed(chart.series)):
        titles |= _draw_series(axes, series, suffix, order)
    _time_axis(axes.yaxis, axes, chart, theme, "y")
    _x_ticks(axes, chart)
    axes.margins(x=0.03)
    for number, series in enumerate(chart.series):
        if series.failures:
            # On the upper edge, where the value would be if it had come.
            name = f"{series.allocator}--failed{suffix}{number}"
            axes.plot(
                [f.x for f in series.failures],
                [1.0] * len(series.failures),
                transform=axes.get_xaxis_transform(),
                color=look(series.allocator).colour,
                marker="x",
                markersize=6,
                markeredgewidth=1.6,
                linestyle="none",
                clip_on=False,
                zorder=60,
                gid=name,
            )
            titles[name] = [f.words for f in series.failures]
    return titles


def _draw_series(axes: Axes, series: Series, suffix: str, order: int) -> dict[str, list[str]]:
    style = look(series.allocator)
    xs = [mark.x for mark in series.marks]
    name = f"{series.allocator}--line{suffix}"
    axes.plot(
        xs,
        [mark.median for mark in series.marks],
        color=style.colour,
        linestyle=style.dashes,
        linewidth=2.2 if style.emphasis else 1.3,
        marker=style.marker,
        markersize=5.2 if style.emphasis else 4.2,
        markeredgewidth=1.1 if style.marker in "x+" else 0,
        clip_on=False,
        label=series.allocator,
        zorder=10 + order,
        gid=name,
    )
    if any(mark.high > 1.15 * mark.low for mark in series.marks) and all(mark.low > 0 for mark in series.marks):
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
    names = [series.allocator for series in chart.series]
    values = [mark.median for series in chart.series for mark in series.marks]
    axes.set_xscale("log")
    for row, series in enumerate(chart.series):
        style = look(series.allocator)
        for mark in series.marks:
            name = f"{series.allocator}--dot{suffix}"
            axes.plot(
                [min(values) * 0.5, mark.median], [row, row], color=style.colour, linewidth=1.2, alpha=0.35, zorder=3, solid_capstyle="butt"
            )
            axes.plot(
                [mark.low, mark.high],
                [row, row],
                color=style.colour,
                linewidth=3.0,
                alpha=0.35,
                zorder=4,
                gid=f"{series.allocator}--range{suffix}",
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
            titles[f"{series.allocator}--range{suffix}"] = []
            weight = "bold" if style.emphasis else "normal"
            text = format_value(mark.median, chart.metric.unit)
            axes.annotate(text, (mark.median, row), xytext=(9, 0), textcoords="offset points", va="center", fontweight=weight)
        if not series.marks and series.failures:
            axes.annotate(
                series.failures[0].words.split(": ")[1].split(",")[0],
                (0.02, row),
                xycoords=("axes fraction", "data"),
                va="center",
                color=style.colour,
            )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    if values:
        axes.set_xlim(min(values) * 0.5, max(values) * (max(values) / min(values)) ** 0.28 * 1.6)
    _time_axis(axes.xaxis, axes, chart, theme, "x")
    return titles


def _dots_height(chart: Chart) -> float:
    return 0.75 + 0.27 * max(3, len(chart.series))


def _time_axis(axis: Any, axes: Axes, chart: Chart, theme: Theme, which: str) -> None:
    """Decades with words such as 10 µs; 2 and 5 between them where the range is short."""
    low, high = axes.get_ylim() if which == "y" else axes.get_xlim()
    if which == "y" and chart.y_range is not None:
        low, high = chart.y_range[0] / 1.35, chart.y_range[1] * 1.35
        axes.set_ylim(low, high)
    decades = math.log10(high / low) if low > 0 else 9
    axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if decades < 1.8 and which == "y" else (1.0,), numticks=12))
    if which == "x" and decades < 1.0:
        axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0), numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value, chart.metric.unit)))
    axes.grid(True, axis="y" if which == "y" else "x", color=theme.grid, linewidth=0.7, alpha=1.0 if theme is PAGE else 0.35)


def _x_ticks(axes: Axes, chart: Chart) -> None:
    xs = chart.xs
    step = max(1, math.ceil(len(xs) / 7))
    shown = xs[::step]
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _compact(chart, value)))
    axes.set_xlabel(AXIS_WORDS.get(chart.axis or "", chart.axis or ""), loc="right", labelpad=2)


def _compact(chart: Chart, x: float) -> str:
    """`16K` for powers of two of a count, which would not fit side by side in full."""
    if chart.axis is not None and chart.axis != "bytes" and x >= 1024 and x % 1024 == 0:
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
    for place, (_, series) in zip(places, ends, strict=True):
        style = look(series.allocator)
        weight = "bold" if style.emphasis else "normal"
        axes.annotate(
            _end_words(chart, series),
            (1.03, place),
            xycoords="axes fraction",
            va="center",
            color=style.colour,
            fontweight=weight,
            annotation_clip=False,
        )


def _end_words(chart: Chart, series: Series) -> str:
    """`gpuheap 115 µs`; a line that ends early says where."""
    end = series.marks[-1]
    words = f"{series.allocator} {format_value(end.median, chart.metric.unit)}"
    return words if end.x == max(chart.xs) else f"{words} at {chart.x_words(end.x)}"


def _longest_name(chart: Chart | None) -> int:
    return max((len(series.allocator) for series in chart.series), default=0) if chart is not None else 0


def drawn_for_page(name: str, label: str, size: tuple[float, float], draw: Callable[[Figure], None]) -> str:
    """Any picture, `size` in inches, in the style of the report, as SVG to stand in a page."""
    with matplotlib.rc_context(_settings(name, PAGE)):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        return svg.inline(_finish(figure, {}, label), PAGE_COLOURS)
