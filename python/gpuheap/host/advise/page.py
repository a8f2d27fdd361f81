"""Writes advice as one HTML file, which needs no other file and no network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuheap.host.advise.pictures import all_pictures
from gpuheap.host.advise.samples import PLAIN
from gpuheap.host.advise.show import (
    KERNEL_HEADS,
    LINE_HEADS,
    choice_words,
    decision_words,
    factor_cell,
    kernel_cells,
    line_cells,
    program_words,
    rule_words,
    shape_words,
)
from gpuheap.host.advise.verdict import Advice, Normalised
from gpuheap.host.html import Grid, write_html
from gpuheap.host.summary import time_words


def write_page(path: Path, advice: Advice) -> Path:
    """Writes the page and returns its path. Raises UserError if it cannot be written."""
    session = advice.session
    return write_html(
        path,
        "host_advise.html.j2",
        command=" ".join(session.command),
        note=f"{session.device or 'no device'}; driver {session.driver or 'unknown'}; {session.runs} runs of each mode requested",
        program=program_words(advice),
        answers=tuple(
            (verdict.scope, choice_words("mean time", verdict.fastest), choice_words("predictability", verdict.steadiest)) for verdict in advice.verdicts
        ),
        barred=tuple(f"{mode.name} is not recommended: {mode.barred}" for mode in advice.modes if mode.barred),
        notes=(*advice.unknown, *([advice.rules.caution] if advice.rules.caution else [])),
        mode_notes=tuple(f"{mode.name}: {words}" for mode in advice.modes for words in mode.notes),
        lines=tuple((verdict.scope, Grid(LINE_HEADS, 1, tuple(line_cells(line) for line in verdict.lines))) for verdict in advice.verdicts),
        rules=Grid(
            ("", "if", "", "here"), 4,
            tuple((str(rule.number), rule.condition, rule_words(rule), rule.why) for rule in (*advice.rules.rules, *advice.steady_rules)),
        ),  # fmt: skip
        decision=decision_words(advice),
        profiler=session.profiler,
        shapes=_shapes(advice),
        kernels=Grid(KERNEL_HEADS, 1, tuple(kernel_cells(kernel) for kernel in session.kernels)),
        functions=_grid(advice.functions, "driver function"),
        launches=_grid(advice.launches, "kernel"),
        device=_grid(advice.kernels, "kernel"),
        pictures=all_pictures(advice),
    )


def _grid(rows: Sequence[Normalised], what: str) -> Grid:
    modes = list(rows[0].ratios) if rows else []
    cells = tuple((row.name, time_words(row.plain_ns), *(factor_cell(row.ratios[mode]) for mode in modes)) for row in rows)
    return Grid((what, PLAIN, *modes), 1, cells)


def _shapes(advice: Advice) -> Grid:
    modes = [mode for mode in advice.session.modes if any(mode in of for of in advice.shapes.values())]
    rows = tuple((f"{kind} calls", *(shape_words(of.get(mode)) for mode in modes)) for kind, of in advice.shapes.items())
    return Grid(("", *modes), 1, rows)
