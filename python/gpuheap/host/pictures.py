"""Draws the pictures of a traced process."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpuheap.files import replace_file
from gpuheap.host.history import Allocation, History
from gpuheap.host.sites import live_over_time
from gpuheap.host.trace import ALLOCATE, COPY, LAUNCH, RELEASE, SET, SYNCHRONISE
from gpuheap.report.figures import PAGE, drawn_for_page, page_picture_as_file
from gpuheap.units import format_bytes, format_count, format_value

# These colours are visible on a light and on a dark background.
COLOURS = {
    "device": "#1c7ed6", "managed": "#2f9e44", "pinned": "#e8590c", "stream-ordered": "#9c36b5", "registered": "#d98a00", "array": "#0ca678",
    "physical": "#7b8794", "imported": "#a5673f", "unknown": "#98a0a8",
    "host to device": "#e8590c", "device to host": "#1c7ed6", "device to device": "#2f9e44", "host to host": "#7b8794", "peer": "#9c36b5",
}  # fmt: skip
WIDE, HALF = (9.9, 2.7), (4.9, 2.7)
BARS_SHOWN = 250
STEPS_SHOWN = 3000
COLUMNS = 330  # the number of columns of the timeline


def colour(name: str) -> str:
    return COLOURS.get(name.removesuffix(" (array)"), "#98a0a8")


def live_bytes(history: History, key: str) -> str:
    """Live bytes of each kind of memory over time."""

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for memory, allocations in _by_memory(history).items():
            times, live, _ = live_over_time(allocations)
            x, y = _thinned(np.array([0, *times, history.end_ns]), np.array([0, *live, live[-1]]))
            axes.step(x / 1e9, y, where="post", color=colour(memory), label=memory, linewidth=1.4)
            axes.fill_between(x / 1e9, y, step="post", color=colour(memory), alpha=0.12, linewidth=0)
        _bytes_axis(axes)
        _time_axis(axes, history)
        legend(axes)

    return drawn_for_page(f"live-{key}", "live bytes over time", WIDE, draw)


def lifetimes(history: History, key: str) -> str:
    """A bar for each allocation from its begin to its end; if there are more than BARS_SHOWN, for the largest ones."""
    shown = sorted(sorted(history.allocations, key=lambda a: -a.bytes)[:BARS_SHOWN], key=lambda a: a.begin_ns)

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for memory in dict.fromkeys(a.memory for a in shown):
            rows = [i for i, a in enumerate(shown) if a.memory == memory]
            begins = np.array([shown[i].begin_ns for i in rows]) / 1e9
            ends = np.array([history.end_ns if shown[i].end_ns is None else shown[i].end_ns for i in rows]) / 1e9
            # Each bar gets a minimal width, so that short lives can be seen.
            widths = np.maximum(ends - begins, history.end_ns / 1e9 / 800)
            axes.barh(rows, widths, left=begins, height=0.8, color=colour(memory), label=memory)
        leaked = [i for i, a in enumerate(shown) if a.leaked]
        axes.plot([history.end_ns / 1e9] * len(leaked), leaked, ">", color="#c92a2a", markersize=3, label="never freed" if leaked else None, linestyle="")
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_yticks([])
        _time_axis(axes, history)
        legend(axes)

    return drawn_for_page(f"lives-{key}", "lifetimes of allocations", (9.9, 1.2 + min(len(shown), 120) * 0.03), draw)


def sizes(history: History, key: str) -> str:
    """The number of allocations for each power of two."""

    def draw(figure: Figure) -> None:
        groups = {memory: [a.bytes for a in allocations] for memory, allocations in _by_memory(history).items()}
        _histogram(figure.add_subplot(), groups, "allocations")

    return drawn_for_page(f"sizes-{key}", "sizes of allocations", HALF, draw)


def copies(history: History, key: str) -> str:
    """The number of copies for each power of two."""
    groups: dict[str, list[int]] = {}
    for each in history.copies:
        groups.setdefault(each.direction, []).append(each.bytes)
    return drawn_for_page(f"copies-{key}", "sizes of copies", HALF, lambda figure: _histogram(figure.add_subplot(), groups, "copies"))


def timeline(history: History, key: str) -> str:
    """The calls of each kind over time. A column is the darker, the more calls it holds."""
    events = history.trace.events
    rows: list[tuple[str, np.ndarray, str]] = []
    for kind, name, shade in ((ALLOCATE, "allocations", "#1c7ed6"), (RELEASE, "frees", "#7b8794")):
        rows.append((name, events["begin_ns"][events["kind"] == kind], shade))
    for direction in dict.fromkeys(each.direction for each in history.copies):
        rows.append((direction, np.array([c.begin_ns for c in history.copies if c.direction == direction]), colour(direction)))
    for kind, name, shade in ((SET, "sets", "#d98a00"), (LAUNCH, "launches", "#9c36b5"), (SYNCHRONISE, "waits", "#c92a2a")):
        rows.append((name, events["begin_ns"][events["kind"] == kind], shade))
    rows = [row for row in rows if len(row[1])]

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        begin = _begin_ns(history)
        span = max(history.end_ns - begin, 1)
        width = span / 1e9 / COLUMNS
        for number, (_, times, shade) in enumerate(rows):
            counts = Counter(((times.astype("f8") - begin) / span * (COLUMNS - 1)).astype(int).tolist())
            most = max(counts.values())
            for column, count in counts.items():
                axes.barh(number, width, left=begin / 1e9 + column * width, height=0.72, color=shade, alpha=0.35 + 0.65 * count / most, linewidth=0)
        axes.set_yticks(range(len(rows)), [f"{name} ({format_count(len(times))})" for name, times, _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        _time_axis(axes, history)

    return drawn_for_page(f"timeline-{key}", "calls over time", (9.9, 0.8 + 0.26 * len(rows)), draw)


def _by_memory(history: History) -> dict[str, list[Allocation]]:
    groups: dict[str, list[Allocation]] = {}
    for each in history.allocations:
        groups.setdefault(each.memory, []).append(each)
    return groups


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduces a curve to about STEPS_SHOWN steps. Each stretch keeps its lowest and its highest value, so that no peak is lost."""
    if len(x) <= STEPS_SHOWN:
        return x, y
    kept = {0, len(x) - 1}
    for part in np.array_split(np.arange(len(x)), STEPS_SHOWN // 2):
        kept |= {int(part[np.argmin(y[part])]), int(part[np.argmax(y[part])])}
    index = sorted(kept)
    return x[index], y[index]


def _histogram(axes: Axes, groups: dict[str, list[int]], what: str) -> None:
    powers = {name: Counter(max(size, 1).bit_length() - 1 for size in found) for name, found in groups.items()}
    low = min(min(counts) for counts in powers.values())
    high = max(max(counts) for counts in powers.values())
    base = np.zeros(high - low + 1)
    for name, counts in powers.items():
        heights = np.array([counts.get(power, 0) for power in range(low, high + 1)])
        axes.bar(range(low, high + 1), heights, bottom=base, width=0.82, color=colour(name), label=name)
        base += heights
    step = max(1, (high - low) // 6)
    axes.set_xticks(range(low, high + 1, step), [format_bytes(2**power) for power in range(low, high + 1, step)])
    axes.set_xlabel(f"bytes, from each power of two to the next: number of {what}", loc="left")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y", color=PAGE.grid, linewidth=0.8)
    legend(axes)


def _bytes_axis(axes: Axes) -> None:
    """The ticks of an axis of bytes: from 0 in steps of a power of two, so that labels are round in units of 1024."""
    top = max(axes.get_ylim()[1], 1)
    step = 2 ** math.ceil(math.log2(top / 5))
    axes.set_ylim(0, top)
    axes.set_yticks(np.arange(0, top, step), [format_bytes(value) for value in np.arange(0, top, step)])


def _begin_ns(history: History) -> float:
    """The time at which pictures begin: 0, or shortly before the first allocation, free, copy, set or launch, if that is in the second half of the run."""
    events = history.trace.events
    work = events["begin_ns"][np.isin(events["kind"], (ALLOCATE, RELEASE, COPY, SET, LAUNCH))]
    first = int(work.min()) if len(work) else 0
    return first - 0.03 * (history.end_ns - first) if first > history.end_ns / 2 else 0.0


def _time_axis(axes: Axes, history: History) -> None:
    axes.set_xlim(_begin_ns(history) / 1e9, max(history.end_ns, 1) / 1e9)
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value * 1e6, "us")))
    axes.grid(axis="x" if not axes.get_yticklabels() else "both", color=PAGE.grid, linewidth=0.8)


def legend(axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1), ncols=min(len(labels), 5), fontsize=8, borderaxespad=0, handlelength=1.2)


def all_pictures(histories: Sequence[History]) -> list[dict[str, str]]:
    """The pictures of each history, by name, without empty ones."""
    found = []
    for number, history in enumerate(histories):
        key = f"{number}-{history.trace.process}"
        pictures: dict[str, str] = {}
        if history.allocations:
            pictures |= {"live": live_bytes(history, key), "lifetimes": lifetimes(history, key), "sizes": sizes(history, key)}
        if history.copies:
            pictures["copies"] = copies(history, key)
        if len(history.trace.events):
            pictures["timeline"] = timeline(history, key)
        found.append(pictures)
    return found


def write_files(folder: Path, histories: Sequence[History]) -> list[Path]:
    """Writes the pictures as SVG files under their names, which begin with the process's number if there are several. Raises UserError."""
    written = []
    for history, pictures in zip(histories, all_pictures(histories), strict=True):
        before = f"{history.trace.process}-" if len(histories) > 1 else ""
        for name, picture in pictures.items():
            written.append(folder / f"{before}{name}.svg")
            replace_file(written[-1], page_picture_as_file(picture), "name another folder with --figures")
    return written
