"""Finds the profile for a run of a program, and prints the outcome of the run."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from gpuheap.errors import UserError
from gpuheap.host.heaps import PREFIX
from gpuheap.host.history import History, history_of
from gpuheap.host.launch import Program
from gpuheap.host.plan import Plan
from gpuheap.host.stacks import Symbols
from gpuheap.host.summary import elided_words
from gpuheap.host.trace import Trace, find_traces, read_trace
from gpuheap.units import format_bytes, format_count

PLACES_SHOWN = 5


def profile_of(profile: Path, program: Program, only: str) -> History:
    """Reads the program's trace from `profile`. Raises UserError (E01) if there is none, or only one of another program or another build."""
    if not profile.exists():
        raise UserError(f"E01: {profile} does not exist: make a profile with `gpuheap host trace -- program arguments`, or name one with --profile")
    traces = [read_trace(path) for path in find_traces(profile)]
    wanted = only or program.name
    own = [trace for trace in traces if trace.path.name.removesuffix(".trace").rpartition(".")[0] == wanted]
    if not own:
        others = ", ".join(sorted({trace.program for trace in traces}))
        raise UserError(f"E01: {profile} is a profile of another program ({others}, not {wanted}): trace this program")
    chosen = max(own, key=lambda trace: len(trace.events))
    for build_id in _build_ids(chosen, program):
        if program.build_id and build_id and build_id != program.build_id:
            raise UserError(f"E01: {profile} is a profile of another build of {program.path}: its call sites lie elsewhere; trace the program again")
    return history_of(chosen)


def _build_ids(trace: Trace, program: Program) -> set[str]:
    modules = (frame.module for stack in trace.stacks.values() for frame in stack.frames if frame.module is not None)
    return {module.build_id for module in modules if Path(module.path).name == program.name}


def print_outcome(console: Console, plan: Plan, folder: Path, mode: str, heap_bytes: int) -> None:
    """Prints how many requests the pools served, and why they did not serve others. `heap_bytes` is the size of the heap on each device, 0 for none."""
    traces = [read_trace(path) for path in sorted(folder.glob("*.trace"))]
    if heap_bytes:
        console.print(f"device memory from a heap of {mode.removeprefix(PREFIX)}, {format_bytes(heap_bytes)} on each device that is used")
    if plan.pools or not heap_bytes:
        _print_pools(console, plan, mode)
    if not traces:
        console.print("no process used the CUDA driver")
    for trace in traces:
        _print_counts(console, trace, bool(heap_bytes))


def _print_pools(console: Console, plan: Plan, mode: str) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"pools, mode {mode}", title_justify="left")
    for column in ("memory", "device", "bytes", "lower bound", "side by side", "slots", "requests in the profile"):
        table.add_column(column, justify="left" if column == "memory" else "right")
    for pool in plan.pools:
        table.add_row(
            pool.memory, str(pool.device), format_bytes(pool.bytes), f"{format_bytes(pool.lower_bound)} ({pool.bytes / pool.lower_bound:.2f}x)",
            format_bytes(pool.bump_bytes), format_count(len(pool.slots)), format_count(pool.requests),
        )  # fmt: skip
    console.print(table)


def _print_counts(console: Console, trace: Trace, heap: bool) -> None:
    counts = trace.counters
    line = f"process {trace.process}: {format_count(counts['served'])} requests served, {format_bytes(counts['served_bytes'])} in all"
    line += f"; {format_count(counts['driver_allocations'])} went to the driver"
    line += f"; {format_count(counts['refused'])} refused" if counts["refused"] else ""
    console.print(line, soft_wrap=True)
    if counts["elided"] or counts["not_elided"]:
        console.print(f"  {elided_words(counts)}", soft_wrap=True)
    busy, large = ("no room in the heap", "than the heap") if heap else ("their slots in use", "than their slots")
    reasons = {"unprofiled": "not in the profile (E04)", "slot_busy": f"found {busy} (E05)", "too_large": f"larger {large} (E06)"}
    for counter, words in reasons.items():
        if counts[counter]:
            console.print(f"  {format_count(counts[counter])} {words}", style="yellow")
    if counts["foreign_frees"]:
        console.print(f"  {format_count(counts['foreign_frees'])} frees of addresses that were not allocated (E07)", style="yellow")
    _print_places(console, trace)


def _print_places(console: Console, trace: Trace) -> None:
    numbers = [int(m.words.split("(stack ")[1].split(" ")[0]) for m in trace.messages if "(stack " in m.words]
    stacks = {number: trace.stacks[number] for number in dict.fromkeys(numbers) if number in trace.stacks}
    symbols = Symbols()
    symbols.learn(stacks.values())
    places = list(dict.fromkeys(symbols.site_words(stack) for stack in stacks.values()))
    for place in places[:PLACES_SHOWN]:
        console.print(f"    {place}", style="bright_black", soft_wrap=True)
    if len(places) > PLACES_SHOWN:
        console.print(f"    and {len(places) - PLACES_SHOWN} more places", style="bright_black")
