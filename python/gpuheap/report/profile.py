"""Draws a standing: a curve for each allocator, with the share of its points at which it is at most x times worse than the best."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib

matplotlib.use("svg")

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from gpuheap.answers.standing import Standing
from gpuheap.catalogue import legend
from gpuheap.errors import UserError
from gpuheap.files import replace_file
from gpuheap.report.figures import FILE
from gpuheap.report.style import look

FURTHEST = 20.0  # the largest factor over the best that the picture shows
NAMED = 5  # the number of allocators in colour; the others are grey
GREY = "#a4acb5"


def profile_svg(found: Standing, subject: str) -> str:
    """Draws the performance profile of Dolan and Moré. The curve of an allocator that is the best at all points runs along the top."""
    settings = {"svg.fonttype": "none", "svg.hashsalt": "standing", "font.family": "sans-serif", "font.size": 9, "text.color": FILE.text}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(9, 4.2))
        axes = figure.add_subplot()
        shown = list(dict.fromkeys([subject, *(score.allocator for score in found.scores)]))[:NAMED]
        for score in sorted(found.scores, key=lambda score: (score.allocator in shown, score.allocator == subject)):
            named = score.allocator in shown
            times = sorted(value for value in score.times if value <= FURTHEST)
            heights = [place / score.points for place in range(1, len(times) + 1)]
            axes.plot(
                [1, *times, FURTHEST],
                [0, *heights, heights[-1] if heights else 0],
                drawstyle="steps-post",
                color=look(score.allocator).colour if named else GREY,
                linewidth=2.2 if score.allocator == subject else 1.4 if named else 0.7,
                label=f"{legend(score.allocator)}, {score.points} points" if named else "_",
            )
        axes.plot([], [], color=GREY, linewidth=0.7, label=f"{len(found.scores) - len(shown)} others")
        axes.set_xscale("log")
        axes.set_xlim(1, FURTHEST)
        axes.set_ylim(0, 1)
        axes.set_xticks([1, 1.1, 1.3, 1.5, 2, 3, 5, 10, 20])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set_xlabel("times the best contender at the same point", color=FILE.text)
        axes.set_ylabel("share of the allocator's points", color=FILE.text)
        axes.grid(color=FILE.grid, linewidth=0.4, alpha=0.5)
        axes.tick_params(colors=FILE.text)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("bottom", "left"):
            axes.spines[side].set_color(FILE.axis)
        handles = sorted(zip(*axes.get_legend_handles_labels(), strict=True), key=lambda pair: not pair[1].startswith(f"{legend(subject)}, "))
        axes.legend(*zip(*handles, strict=True), loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, labelcolor=FILE.text)
        figure.patch.set_alpha(0)
        axes.patch.set_alpha(0)
        figure.tight_layout()
        out = io.StringIO()
        FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None})
    return out.getvalue()


def write_profile(path: Path, found: Standing, subject: str) -> None:
    if path.suffix.lower() not in ("", ".svg"):
        raise UserError(f"--picture: '{path}' does not end in .svg, and the picture is an SVG file: name one that does")
    replace_file(path, profile_svg(found, subject), "name another file with --picture")
