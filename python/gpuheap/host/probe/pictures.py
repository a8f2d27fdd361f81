"""Draws the pictures of a probe."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from gpuheap.host.pictures import legend
from gpuheap.host.probe.analyse import new_memory, slots_of
from gpuheap.host.probe.series import KERNEL, Series
from gpuheap.host.summary import time_words
from gpuheap.report.figures import PAGE, drawn_for_page
from gpuheap.units import format_bytes, format_count

# These colours are visible on a light and on a dark background.
COLOURS = {"device": "#1c7ed6", "managed": "#2f9e44", "host": "#e8590c", "async": "#9c36b5", KERNEL: "#d98a00"}
HALF, WIDE = (4.9, 2.9), (9.9, 2.9)
POINTS_SHOWN = 1500


def all_pictures(all_series: Sequence[Series]) -> dict[str, str]:
    """The pictures by name. A picture without data is left out."""
    driver = [series for series in all_series if series.allocator != KERNEL and series.addresses]
    kernel = [series for series in all_series if series.allocator == KERNEL and series.addresses]
    found = {}
    if driver:
        found["slots"] = slots("slots", "slots by size of request", driver)
        found["requests"] = times("requests", "time of a request by its size", driver)
        found["kernels"] = kernels_after(driver)
    if kernel:
        found["kernel-slots"] = slots("kernel-slots", "slots of malloc in kernels", kernel, linear=True)
        found["kernel-cycles"] = cycles(kernel)
    return found


def slots(name: str, title: str, all_series: Sequence[Series], linear: bool = False) -> str:
    """Draws the slot sizes over the requests. The distance from the dashed line is the loss."""

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for allocator, of in _by_allocator(all_series).items():
            points = sorted(slots_of(of).items())
            marker = "" if linear else "."
            axes.plot(*_columns(points), drawstyle="steps-pre", color=COLOURS[allocator], label=allocator, linewidth=1.3, marker=marker)
        low, high = min(s.bytes for s in all_series), max(s.bytes for s in all_series)
        axes.plot([low, high], [low, high], color=PAGE.axis, linewidth=0.9, linestyle="--")
        _byte_axes(axes, linear)
        if not linear:
            legend(axes)

    return drawn_for_page(f"probe-{name}", title, WIDE if linear else HALF, draw)


def times(name: str, title: str, all_series: Sequence[Series]) -> str:
    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for allocator, of in _by_allocator(all_series).items():
            points = sorted((series.bytes, statistics.median(series.request) / 1e3) for series in of)
            axes.plot(*_columns(points), color=COLOURS[allocator], label=allocator, linewidth=1.3)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        _bytes_along(axes)
        _time_up(axes)
        legend(axes)

    return drawn_for_page(f"probe-{name}", title, HALF, draw)


def kernels_after(all_series: Sequence[Series]) -> str:
    """Draws the time of the first kernel after each request over the request's size: a cross if the request took memory from the driver, else a dot."""

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for allocator, of in _by_allocator(all_series).items():
            points = [
                (series.bytes, first / 1e3, fall > 0) for series in of for fall, first in zip(new_memory(series), series.kernel, strict=False) if first > 0
            ]
            for is_new, marker in ((False, "."), (True, "x")):
                chosen = [(x, y) for x, y, new in points if new == is_new]
                chosen = chosen[:: max(1, math.ceil(len(chosen) / POINTS_SHOWN))]
                if chosen:
                    label = f"{allocator}, new memory" if is_new else allocator
                    axes.plot(*_columns(chosen), marker, color=COLOURS[allocator], markersize=4, linestyle="none", label=label, alpha=0.75)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        _bytes_along(axes)
        _time_up(axes)
        legend(axes)

    return drawn_for_page("probe-kernels", "time of the kernel after each request", WIDE, draw)


def cycles(all_series: Sequence[Series]) -> str:
    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for label, shade in (("malloc", COLOURS[KERNEL]), ("free", "#7b8794")):
            taken = [(series.bytes, series.request if label == "malloc" else series.release) for series in all_series]
            points = sorted((size, statistics.median(each)) for size, each in taken)
            axes.plot(*_columns(points), color=shade, label=label, linewidth=1)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(8))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(round(value))))
        axes.set_xlabel("bytes of a request; cycles", loc="left")
        axes.grid(color=PAGE.grid, linewidth=0.8)
        legend(axes)

    return drawn_for_page("probe-cycles", "cycles of malloc and free in a kernel", WIDE, draw)


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _by_allocator(all_series: Sequence[Series]) -> dict[str, list[Series]]:
    groups: dict[str, list[Series]] = {}
    for series in all_series:
        groups.setdefault(series.allocator, []).append(series)
    return groups


def _byte_axes(axes: Axes, linear: bool) -> None:
    if linear:
        axes.xaxis.set_major_locator(MaxNLocator(8))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel("bytes of a request; bytes of its slot", loc="left")
        axes.grid(color=PAGE.grid, linewidth=0.8)
        return
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    _bytes_along(axes)
    axes.yaxis.set_major_locator(LogLocator(2, numticks=7))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
    axes.grid(color=PAGE.grid, linewidth=0.8)


def _bytes_along(axes: Axes) -> None:
    axes.xaxis.set_major_locator(LogLocator(2, numticks=8))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))


def _time_up(axes: Axes) -> None:
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: time_words(value * 1e3)))
    axes.grid(axis="y", color=PAGE.grid, linewidth=0.8)
