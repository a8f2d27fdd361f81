"""Prints the report of a trace in the terminal, and makes its JSON."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from gpuheap.host.history import History
from gpuheap.host.pairs import PlacePairs, pairs_by_place
from gpuheap.host.sites import api_times, flows_of, peaks_of, sites_of
from gpuheap.host.stacks import Symbols
from gpuheap.units import format_bytes, format_count, format_value

SITES_SHOWN = 12
LEAKS_SHOWN = 5
# Allocators that cache memory, by the name of the library that a stack shows. The driver does not see the requests that a cache serves.
_CACHING = {"libc10_cuda": "PyTorch's", "librmm": "RMM's", "cupy": "CuPy's", "libtensorflow": "TensorFlow's", "libjax": "JAX's", "xla_extension": "JAX's"}


def time_words(ns: float) -> str:
    return format_value(ns / 1e3, "us")


def elided_words(counts: dict[str, int]) -> str:
    """The counts of dropped copies in words."""
    words = f"{format_count(counts['elided'])} downloads needed no copy, {format_bytes(counts['elided_bytes'])}"
    if counts["separated"]:
        words += f"; {format_count(counts['separated'])} of them, {format_bytes(counts['separated_bytes'])}, were copied after all (E09)"
    if counts["not_elided"]:
        words += f"; {format_count(counts['not_elided'])} downloads of proven pairs were copied (E09)"
    return words


def warnings_of(history: History) -> list[str]:
    trace = history.trace
    found = []
    if not trace.ended:
        found.append("the process did not end by exit: it was killed, left through _exit, or still runs; the trace holds its calls until then")
    if trace.counters["lost_events"]:
        found.append(f"{trace.counters['lost_events']} calls are missing: the disk was full")
    if trace.counters["lookups"] and not trace.counters["hooks"]:
        found.append("E11: the process looked up functions of the driver, but none that the library wraps: its calls are not recorded")
    paths = {frame.module.path for stack in trace.stacks.values() for frame in stack.frames if frame.module is not None}
    for library, whose in _CACHING.items():
        if any(library in path for path in paths):
            found.append(f"W03: the program allocates through {whose} own cache: the driver sees its large blocks only, and a pool below it gains nothing")
    if trace.counters["elided"] or trace.counters["not_elided"]:
        found.append(elided_words(trace.counters))
    return found + [f"{message.code}: {message.words}" for message in trace.messages]


def print_history(console: Console, history: History, symbols: Symbols) -> None:
    trace = history.trace
    console.print(f"{' '.join(trace.command) or trace.program} (process {trace.process})", style="bold", soft_wrap=True)
    devices = ", ".join(f"{number}: {name}" for number, (name, _) in sorted(trace.devices.items())) or "none used"
    console.print(f"{time_words(history.end_ns)} from the first call to the last, {format_count(len(trace.events))} calls; devices {devices}", soft_wrap=True)
    for words in dict.fromkeys(warnings_of(history)):
        console.print(f"note: {words}", style="yellow", soft_wrap=True)
    _print_peaks(console, history)
    _print_sites(console, history, symbols)
    _print_flows(console, history)
    _print_pairs(console, history, symbols)
    if history.launches:
        table = _table(("kernel", "l"), ("launches", "r"), ("time of launch calls", "r"))
        for name, launches in sorted(history.launches.items(), key=lambda pair: -pair[1].count)[:SITES_SHOWN]:
            table.add_row(name, format_count(launches.count), time_words(launches.api_ns))
        console.print(table)
    for failure in history.failures:
        console.print(f"{failure.entry} failed {failure.count} times with error {failure.result}", style="red")
    _print_leaks(console, history, symbols)


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, side in columns:
        table.add_column(name, justify="right" if side == "r" else "left", overflow="fold")
    return table


def _print_peaks(console: Console, history: History) -> None:
    if not history.allocations:
        console.print("the program requested no memory")
        return
    table = _table(("memory", "l"), ("device", "r"), ("peak", "r"), ("allocations", "r"), ("requested in all", "r"), ("never freed", "r"))
    for peak in peaks_of(history):
        device = "" if peak.device < 0 else str(peak.device)
        table.add_row(
            peak.memory, device, format_bytes(peak.bytes), format_count(peak.count), format_bytes(peak.total_bytes),
            format_bytes(peak.left_bytes) if peak.left_bytes else "",
        )  # fmt: skip
    console.print(table)


def _print_sites(console: Console, history: History, symbols: Symbols) -> None:
    sites = sites_of(history)
    if not sites:
        return
    table = _table(("allocated in", "l"), ("memory", "l"), ("count", "r"), ("sizes", "r"), ("live at once", "r"), ("peak", "r"), ("median life", "r"))
    for site in sites[:SITES_SHOWN]:
        sizes = format_bytes(site.smallest) if site.smallest == site.largest else f"{format_bytes(site.smallest)} to {format_bytes(site.largest)}"
        table.add_row(
            symbols.site_words(history.trace.stacks.get(site.stack)), site.memory, format_count(site.count), sizes, format_count(site.most_live),
            format_bytes(site.peak_bytes), time_words(site.median_life_ns),
        )  # fmt: skip
    console.print(table)
    if len(sites) > SITES_SHOWN:
        console.print(f"and {len(sites) - SITES_SHOWN} more places; the page has them all", style="bright_black")


def _print_flows(console: Console, history: History) -> None:
    flows = flows_of(history.copies) + flows_of(history.sets)
    if not flows:
        return
    table = _table(("copies", "l"), ("host side", "l"), ("", "l"), ("count", "r"), ("bytes", "r"), ("sizes", "r"), ("time of calls", "r"))
    for flow in flows:
        host = "" if "host" not in flow.direction else "pinned" if flow.pinned else "pageable"
        sizes = format_bytes(flow.smallest) if flow.smallest == flow.largest else f"{format_bytes(flow.smallest)} to {format_bytes(flow.largest)}"
        table.add_row(
            flow.direction, host, "async" if flow.asynchronous else "", format_count(flow.count), f"{format_count(flow.bytes)}", sizes, time_words(flow.api_ns)
        )
    console.print(table)


def pair_words(place: PlacePairs) -> tuple[str, str]:
    """Whether the copies cover whole buffers, and whether the two buffers may be a pair."""
    return "whole" if place.whole else "parts", place.refuted or "candidate"


def _print_pairs(console: Console, history: History, symbols: Symbols) -> None:
    places = pairs_by_place(history)
    if not places:
        return
    table = _table(("device buffers from", "l"), ("buffers", "r"), ("to device", "r"), ("to host", "r"), ("bytes", "r"), ("cover", "l"), ("pair", "l"))
    for place in places[:SITES_SHOWN]:
        where = symbols.site_words(history.trace.stacks.get(place.stack))
        table.add_row(where, *(format_count(count) for count in (place.buffers, place.up, place.down, place.bytes)), *pair_words(place))
    console.print(table)
    if len(places) > SITES_SHOWN:
        console.print(f"and {len(places) - SITES_SHOWN} more; the page has them all", style="bright_black")


def _print_leaks(console: Console, history: History, symbols: Symbols) -> None:
    leaks = history.leaks
    if not leaks:
        return
    console.print(f"{len(leaks)} allocations, {format_bytes(sum(each.bytes for each in leaks))}, were never freed:", style="yellow")
    for each in sorted(leaks, key=lambda leak: -leak.bytes)[:LEAKS_SHOWN]:
        why = f" ({each.lost})" if each.lost else ""
        console.print(f"  {format_bytes(each.bytes)} of {each.memory} memory{why}", soft_wrap=True)
        stack = history.trace.stacks.get(each.stack)
        for place in symbols.places(stack) if stack is not None else []:
            if not place.of_runtime:
                console.print(f"    {place.words}", style="bright_black", soft_wrap=True)
    if len(leaks) > LEAKS_SHOWN:
        console.print(f"  and {len(leaks) - LEAKS_SHOWN} more", style="bright_black")


def as_json(history: History, symbols: Symbols) -> dict[str, Any]:
    """The report as JSON: counts and bytes as numbers, times in nanoseconds."""
    trace = history.trace
    stacks = trace.stacks
    return {
        "command": list(trace.command),
        "process": trace.process,
        "ended": trace.ended,
        "devices": [{"number": number, "name": name, "bytes": total} for number, (name, total) in sorted(trace.devices.items())],
        "calls": len(trace.events),
        "duration_ns": history.end_ns,
        "peaks": [vars(peak) for peak in peaks_of(history)],
        "sites": [
            {**vars(site), "sizes": [list(size) for size in site.sizes], "place": symbols.site_words(stacks.get(site.stack)),
             "site": f"{stacks[site.stack].site:016x}" if site.stack in stacks else ""}
            for site in sites_of(history)
        ],
        "copies": [vars(flow) for flow in flows_of(history.copies)],
        "sets": [vars(flow) for flow in flows_of(history.sets)],
        "pairs": [
            {**vars(place), "place": symbols.site_words(stacks.get(place.stack)), "site": f"{stacks[place.stack].site:016x}" if place.stack in stacks else ""}
            for place in pairs_by_place(history)
        ],
        "kernels": [{"name": name, **vars(launches)} for name, launches in sorted(history.launches.items())],
        "functions": [vars(time) for time in api_times(history)],
        "failures": [vars(failure) for failure in history.failures],
        "leaks": [
            {"memory": each.memory, "device": each.device, "bytes": each.bytes, "why": each.lost or "never freed",
             "stack": [place.words for place in symbols.places(stacks[each.stack])] if each.stack in stacks else []}
            for each in history.leaks
        ],
        "foreign_frees": history.foreign_frees,
        "null_frees": history.null_frees,
        "counters": trace.counters,
        "notes": warnings_of(history),
    }  # fmt: skip
