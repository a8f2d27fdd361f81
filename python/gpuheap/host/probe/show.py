"""The findings of a probe in the terminal, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from gpuheap.files import replace_file
from gpuheap.host.probe.analyse import Allocator, Bin, Rule
from gpuheap.host.probe.series import KERNEL, Machine, Series
from gpuheap.host.summary import time_words
from gpuheap.units import format_bytes, format_count

BINS_SHOWN = 16
SIZES_SHOWN = 6
HEADS = (
    "allocator",
    "requests",
    "granularity",
    "slots",
    "taken at a time",
    "kept after frees",
    "kernel after new memory",
    "after other requests",
    "same kernel again",
)
BIN_HEADS = ("request", "slot", "time of a request", "of a free")
REQUEST_COLUMNS = ("allocator", "bytes", "index", "address", "request", "release", "kernel_ns", "again_ns", "free_bytes", "unit")


def duration(allocator: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{format_count(round(value))} cycles" if allocator == KERNEL else time_words(value)


def rule_words(rule: Rule | None) -> str:
    if rule is None:
        return "no rule"
    if rule.kind == "powers":
        return f"powers of two, at least {format_bytes(rule.step)}"
    return f"multiples of {format_bytes(rule.step)}" + (f" and {format_bytes(rule.overhead)} more" if rule.overhead else "")


def slot_words(found: Allocator) -> str:
    if len(found.rules) == 1:
        return rule_words(found.rules[0].rule)
    return _several([f"{rule_words(each.rule)} ({_range(each.first, each.last)})" for each in found.rules]) or "not seen"


def chunk_words(found: Allocator) -> str:
    words = [("each request its own" if each.chunk_bytes == 0 else format_bytes(each.chunk_bytes), _range(each.first, each.last)) for each in found.chunks]
    return _several([f"{what} ({sizes})" for what, sizes in words]) or "not seen"


def _several(words: Sequence[str]) -> str:
    return "; ".join(words[:SIZES_SHOWN]) + (f"; {len(words) - SIZES_SHOWN} more" if len(words) > SIZES_SHOWN else "")


def allocator_cells(found: Allocator) -> tuple[str, ...]:
    kernels = found.kernels
    return (
        "malloc in kernels" if found.name == KERNEL else found.name,
        format_count(found.requests),
        "" if found.granularity is None else format_bytes(found.granularity),
        slot_words(found),
        "" if found.name == KERNEL else chunk_words(found),
        "" if found.kept_bytes is None else format_bytes(max(0, found.kept_bytes)),
        *(duration(found.name, value) for value in (kernels.after_new_memory, kernels.after_other, kernels.again)),
    )


def bin_cells(found: Allocator, each: Bin) -> tuple[str, ...]:
    return (_range(each.first, each.last), format_count(each.slot_bytes), duration(found.name, each.request), duration(found.name, each.release))


def _range(first: int, last: int) -> str:
    return format_bytes(first) if first == last else f"{format_bytes(first)} to {format_bytes(last)}"


def notes_of(machine: Machine, found: Sequence[Allocator], asked: Sequence[str]) -> list[str]:
    notes = [f"{name} was not measured: {why}" for name, why in machine.lacks.items() if why and name in asked]
    for each in found:
        if each.irregular:
            sizes = ", ".join(format_bytes(size) for size in each.irregular[:SIZES_SHOWN])
            more = f" and {len(each.irregular) - SIZES_SHOWN} more sizes" if len(each.irregular) > SIZES_SHOWN else ""
            notes.append(f"{each.name}: blocks of {sizes}{more} have no common distance, so their slots are not known")
        if each.unserved:
            notes.append(f"{each.name}: requests of {', '.join(format_bytes(size) for size in each.unserved[:SIZES_SHOWN])} failed because memory ran out")
    return notes


def print_found(console: Console, machine: Machine, found: Sequence[Allocator], asked: Sequence[str]) -> None:
    console.print(f"{machine.device}, driver {machine.driver}, {format_bytes(machine.memory_bytes)}", style="bold", soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, head in enumerate(HEADS):
        table.add_column(head, justify="left" if number in (0, 3, 4) else "right", overflow="fold")
    for each in found:
        table.add_row(*allocator_cells(each))
    console.print(table)
    for each in found:
        if any(stretch.rule is None for stretch in each.rules):
            _print_bins(console, each)
    for words in notes_of(machine, found, asked):
        console.print(f"note: {words}", style="yellow", soft_wrap=True)


def _print_bins(console: Console, found: Allocator) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"slots of {allocator_cells(found)[0]}", title_justify="left")
    for head in BIN_HEADS:
        table.add_column(head, justify="right")
    for each in found.bins[:BINS_SHOWN]:
        table.add_row(*bin_cells(found, each))
    console.print(table)
    if len(found.bins) > BINS_SHOWN:
        console.print(f"and {len(found.bins) - BINS_SHOWN} more; the page has them all", style="bright_black")


def as_json(machine: Machine, found: Sequence[Allocator], asked: Sequence[str]) -> dict[str, Any]:
    """The findings as JSON: bytes, nanoseconds on the host's clock, and cycles for malloc in kernels."""
    return {"machine": asdict(machine), "allocators": [asdict(each) for each in found], "notes": notes_of(machine, found, asked)}


def write_csv(path: Path, all_series: Sequence[Series]) -> None:
    """Writes a row for each request."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(REQUEST_COLUMNS)
    for series in all_series:
        unit = "cycles" if series.allocator == KERNEL else "ns"
        columns = [_padded(values, len(series.addresses)) for values in (series.request, series.release, series.kernel, series.again, series.free_bytes)]
        for index, (address, *rest) in enumerate(zip(series.addresses, *columns, strict=True)):
            writer.writerow((series.allocator, series.bytes, index, address, *rest, unit))
    replace_file(path, text.getvalue(), "name another folder with -o")


def _padded(values: Sequence[int], length: int) -> Sequence[int | str]:
    return values if values else [""] * length
