"""Advice in the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from gpuheap.host.advise.rules import FIRED, SILENT, Rule
from gpuheap.host.advise.samples import PLAIN, Kernel
from gpuheap.host.advise.statistics import FEWEST_FOR_SHAPES, Ratio
from gpuheap.host.advise.verdict import Advice, Choice, Line, Mode, Normalised, Verdict
from gpuheap.host.summary import time_words
from gpuheap.units import format_bytes, format_count, format_factor

ROWS_SHOWN = 12
KERNELS_SHOWN = 8


def ratio_words(ratio: Ratio | None) -> str:
    return "" if ratio is None else f"{format_factor(ratio.value)} ({format_factor(ratio.low)} to {format_factor(ratio.high)})"


def shape_words(tops: int | None) -> str:
    return "" if tops is None else "one top" if tops == 1 else f"{tops} tops"


def line_cells(line: Line) -> tuple[str, ...]:
    spread = line.spread
    times = (spread.mean, spread.deviation, spread.median, spread.p5, spread.p95, spread.most)
    return (line.mode, format_count(spread.runs), *(time_words(value) for value in times), ratio_words(line.to_plain), shape_words(spread.tops))


LINE_HEADS = ("mode", "runs", "mean", "deviation", "median", "5th percentile", "95th", "longest", "mean over plain's (95 %)", "distribution")


def factor_cell(value: float | None) -> str:
    return "" if value is None else format_factor(value)


def choice_words(what: str, choice: Choice) -> str:
    return f"{what}: {choice.mode}; {choice.why}" if choice.mode is not None else f"{what}: no verdict; {choice.why}"


def rule_words(rule: Rule) -> str:
    return {FIRED: f"recommends {' or '.join(rule.modes)}", SILENT: "does not hold"}.get(rule.outcome, "not known")


def decision_words(advice: Advice) -> str:
    rules = advice.rules
    if rules.decided is None:
        return "no rule holds" + (" of those that could be evaluated" if rules.unknown else "")
    words = f"rule {rules.decided.number} decides: {' or '.join(rules.decided.modes)}"
    if rules.conflicts:
        words += "; against it " + ", ".join(f"rule {rule.number} ({' or '.join(rule.modes)})" for rule in rules.conflicts)
    held = advice.verdicts[0].fastest
    if held.mode is not None:
        words += "; the measurements " + ("agree, or do not decide" if set(held.equals) & set(rules.decided.modes) else f"favour {held.mode}")
    return words


def program_words(advice: Advice) -> str:
    program = advice.session.program
    return (
        f"{format_count(program.allocations)} allocations, {format_count(program.copies)} copies between host and device of "
        f"{format_bytes(program.copied_bytes)} in all (largest {format_bytes(program.largest_copy_bytes)}), {format_count(program.launches)} launches of "
        f"{format_count(program.kernels)} kernels"
    )


def kernel_cells(kernel: Kernel) -> tuple[str, ...]:
    excess = None if not kernel.sectors or kernel.ideal_sectors is None else max(0.0, 1 - kernel.ideal_sectors / kernel.sectors)
    rates = ("" if value is None else f"{value:.0%}" for value in (kernel.l1_hit, kernel.l2_hit, excess, kernel.stalled))
    waits = sorted(kernel.stalls.items(), key=lambda pair: -pair[1])[:2]
    return (
        kernel.name, format_count(kernel.launches), "" if kernel.duration_ns is None else time_words(kernel.duration_ns), *rates,
        "" if kernel.shared_bytes is None else format_bytes(kernel.shared_bytes), "" if kernel.l1_requests is None else format_count(kernel.l1_requests),
        "" if kernel.dram_bytes is None else format_bytes(kernel.dram_bytes), ", ".join(reason.replace("_", " ") for reason, value in waits if value > 0),
    )  # fmt: skip


KERNEL_HEADS = (
    "kernel", "launches", "time", "L1 hits", "L2 hits", "excess sectors", "stalled warps", "shared memory", "L1 requests", "device memory", "waits most for",
)  # fmt: skip


def print_advice(console: Console, advice: Advice) -> None:
    session = advice.session
    console.print(" ".join(session.command), style="bold", soft_wrap=True)
    console.print(f"{program_words(advice)}; {session.device or 'no device'}", soft_wrap=True)
    for mode in advice.modes:
        _print_mode(console, mode)
    for verdict in advice.verdicts:
        _print_verdict(console, verdict)
    for title, rows in (("time of calls by their kind", advice.calls), ("time on the device by kernel", advice.kernels)):
        _print_normalised(console, title, rows)
    _print_rules(console, advice)
    if session.kernels:
        table = _table(*KERNEL_HEADS, title=f"kernels: {session.profiler}")
        for kernel in session.kernels[:KERNELS_SHOWN]:
            table.add_row(*kernel_cells(kernel))
        console.print(table)
    for words in advice.unknown:
        console.print(f"note: {words}", style="yellow", soft_wrap=True)
    for verdict in advice.verdicts:
        console.print(choice_words(f"{verdict.scope}, mean time", verdict.fastest), style="bold", soft_wrap=True)
        console.print(choice_words(f"{verdict.scope}, predictability", verdict.steadiest), style="bold", soft_wrap=True)


def _print_mode(console: Console, mode: Mode) -> None:
    if mode.barred:
        console.print(f"{mode.name}: not recommended: {mode.barred}", style="red", soft_wrap=True)
    for words in mode.notes:
        console.print(f"{mode.name}: {words}", style="bright_black", soft_wrap=True)


def _print_verdict(console: Console, verdict: Verdict) -> None:
    if not verdict.lines:
        return
    table = _table(*LINE_HEADS, title=f"{verdict.scope}" + ("" if verdict.scope == "whole program" else ": copies, sets, launches and waits"))
    for line in verdict.lines:
        table.add_row(*line_cells(line))
    console.print(table)


def _print_normalised(console: Console, title: str, rows: Sequence[Normalised]) -> None:
    if not rows:
        return
    modes = list(rows[0].ratios)
    table = _table("", PLAIN, *modes, title=f"{title}; plain = 1.00")
    for row in rows[:ROWS_SHOWN]:
        table.add_row(row.name, time_words(row.plain_ns), *(factor_cell(row.ratios[mode]) for mode in modes))
    console.print(table)


def _print_rules(console: Console, advice: Advice) -> None:
    title = "the paper's rules, as hypotheses: 1 to 6 for the whole program, 7 and 8 for the steady state"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for head in ("", "if", "", "here"):
        table.add_column(head, overflow="fold")
    for rule in (*advice.rules.rules, *advice.steady_rules):
        style = "green" if rule.outcome == FIRED else "default" if rule.outcome == SILENT else "yellow"
        table.add_row(str(rule.number), rule.condition, rule_words(rule), rule.why, style=style)
    console.print(table)
    console.print(decision_words(advice), soft_wrap=True)
    if advice.rules.caution:
        console.print(f"note: {advice.rules.caution}", style="yellow", soft_wrap=True)


def _table(*heads: str, title: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number == 0 else "right", overflow="fold")
    return table


def as_json(advice: Advice) -> dict[str, Any]:
    """The advice as JSON. Times are in nanoseconds. A distribution's number of tops is null under FEWEST_FOR_SHAPES runs."""
    found = asdict(advice)
    found["session"].pop("samples")
    return {**found, "fewest_runs_for_distributions": FEWEST_FOR_SHAPES}
