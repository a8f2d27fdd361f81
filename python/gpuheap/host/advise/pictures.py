"""Draws the pictures of an advice: times of calls and programs, mode by mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpuheap.host.advise.samples import PLAIN, Sample
from gpuheap.host.advise.verdict import Advice, Normalised, good_samples, steady_state, whole_program
from gpuheap.host.pictures import legend
from gpuheap.host.summary import time_words
from gpuheap.report.figures import PAGE, drawn_for_page
from gpuheap.units import format_factor

# These colours are visible on light and on dark backgrounds.
COLOURS = {PLAIN: "#7b8794", "device": "#1c7ed6", "zero-copy": "#e8590c", "unified": "#2f9e44", "elide": "#ae3ec9"}
_OTHERS = ("#9c36b5", "#d98a00", "#0ca678", "#a5673f")
ROWS_SHOWN = 14
BINS = 40


def colour(mode: str, modes: Sequence[str]) -> str:
    others = [name for name in modes if name not in COLOURS]
    return COLOURS[mode] if mode in COLOURS else _OTHERS[others.index(mode) % len(_OTHERS)]


def all_pictures(advice: Advice) -> dict[str, str]:
    """The pictures by name. A picture without data is left out."""
    modes = advice.session.modes
    good = {mode: good_samples(advice.session, mode) for mode in modes}
    good = {mode: samples for mode, samples in good.items() if samples}
    found = {}
    series: tuple[tuple[str, str, Callable[[Sample], float]], ...] = (
        ("total", "time of the whole program", whole_program),
        ("steady", "time of copies, sets, launches and waits", steady_state),
        *((kind, f"time of {kind} calls", lambda sample, kind=kind: sample.calls.get(kind, 0)) for kind in ("copy", "allocate")),
    )
    for name, title, value in series:
        values = {mode: [value(sample) for sample in samples] for mode, samples in good.items()}
        if any(max(each) > 0 for each in values.values()):
            found[name] = histograms(name, title, values, modes)
    for name, title, rows in (
        ("calls", "calls by their kind", advice.calls), ("functions", "driver functions", advice.functions),
        ("launches", "launch calls by kernel", advice.launches), ("kernels", "kernels on the device", advice.kernels),
    ):  # fmt: skip
        if rows and rows[0].ratios:
            found[name] = beside_plain(name, title, rows, modes)
    return found


def histograms(name: str, title: str, values: Mapping[str, Sequence[float]], modes: Sequence[str]) -> str:
    """Draws a histogram for each mode above one shared axis, with the mean as a line."""
    everything = np.concatenate([np.asarray(each, dtype="f8") for each in values.values()])
    # A few very long runs would squeeze all others into one bar, so the last bar holds every run above the 99.5th percentile.
    low, high = float(everything.min()), float(np.percentile(everything, 99.5))
    high = high if high > low else low * 1.01 + 1
    edges = np.linspace(low - 0.02 * (high - low), high + 0.02 * (high - low), BINS + 1)

    def draw(figure: Figure) -> None:
        rows = figure.subplots(len(values), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (mode, found) in zip(rows, values.items(), strict=True):
            shade = colour(mode, modes)
            axes.hist(np.clip(found, edges[0], edges[-1]), bins=edges, color=shade)
            axes.axvline(float(np.mean(found)), color=shade, linewidth=1.2, linestyle="--")
            axes.set_yticks([])
            axes.set_ylabel(mode, rotation=0, ha="right", va="center")
        rows[-1].xaxis.set_major_locator(MaxNLocator(5))
        rows[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: time_words(value)))

    return drawn_for_page(f"advise-{name}", title, (4.9, 0.45 + 0.5 * len(values)), draw)


def beside_plain(name: str, title: str, rows: Sequence[Normalised], modes: Sequence[str]) -> str:
    """Draws a bar for each mode: its time over that of `plain`, from the line at 1.00. The scale is logarithmic: half and double have equal bars."""
    shown = [row for row in rows[:ROWS_SHOWN] if any(ratio for ratio in row.ratios.values())]
    others = [mode for mode in modes if any(mode in row.ratios for row in shown)]
    if not shown:
        return ""

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        height = 0.8 / max(1, len(others))
        for number, mode in enumerate(others):
            known = [(place, row.ratios[mode]) for place, row in enumerate(shown) if row.ratios.get(mode)]
            places = [place - 0.4 + (number + 0.5) * height for place, _ in known]
            widths = [math.log2(ratio) for _, ratio in known if ratio]
            axes.barh(places, widths, height=height * 0.9, color=colour(mode, modes), label=mode)
        axes.axvline(0, color=PAGE.axis, linewidth=1)
        axes.set_yticks(range(len(shown)), [_short(row.name) for row in shown])
        axes.set_ylim(len(shown) - 0.45, -0.55)
        _factor_axis(axes)
        legend(axes)

    return drawn_for_page(f"advise-{name}", title, (9.9, 0.75 + len(shown) * (0.1 + 0.1 * len(others))), draw)


def _factor_axis(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_factor(2**value)))
    axes.grid(axis="x", color=PAGE.grid, linewidth=0.8)


def _short(name: str) -> str:
    return name if len(name) <= 44 else name[:41] + "..."
