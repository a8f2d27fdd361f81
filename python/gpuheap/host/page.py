"""Writes the report of traces as one HTML file, which needs no other file and no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuheap.host.history import Allocation, History
from gpuheap.host.html import Grid, write_html
from gpuheap.host.pairs import pairs_by_place
from gpuheap.host.sites import api_times, flows_of, peaks_of, sites_of
from gpuheap.host.stacks import Symbols
from gpuheap.host.summary import pair_words, time_words, warnings_of
from gpuheap.units import format_bytes, format_count

LEAKS_SHOWN = 50
FUNCTIONS_SHOWN = 20
SIZES_SHOWN = 4


@dataclass(frozen=True)
class LeakLine:
    words: str
    stack: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """The page's section on one process."""

    anchor: str
    title: str
    note: str
    notes: tuple[str, ...]
    tiles: tuple[tuple[str, str], ...]
    pictures: dict[str, str]
    peaks: Grid
    sites: Grid
    copies: Grid
    pairs: Grid
    kernels: Grid
    functions: Grid
    leaks: tuple[LeakLine, ...]
    more_leaks: int


def write_page(path: Path, histories: Sequence[History], symbols: Symbols) -> Path:
    """Writes the page and returns its path. Raises UserError if it cannot be written."""
    from gpuheap.host.pictures import all_pictures

    pictures = all_pictures(histories)
    return write_html(path, "host_report.html.j2", sections=[_section(history, symbols, found) for history, found in zip(histories, pictures, strict=True)])


def _section(history: History, symbols: Symbols, pictures: dict[str, str]) -> Section:
    trace = history.trace
    leaks = sorted(history.leaks, key=lambda leak: -leak.bytes)
    devices = ", ".join(f"device {number}: {name}" for number, (name, _) in sorted(trace.devices.items())) or "no device used"
    return Section(
        anchor=f"process-{trace.process}",
        title=" ".join(trace.command) or trace.program,
        note=f"process {trace.process}; {devices}; driver {trace.facts.get('driver', 'unknown')}",
        notes=tuple(dict.fromkeys(warnings_of(history))),
        tiles=_tiles(history),
        pictures=pictures,
        peaks=_peaks(history),
        sites=_sites(history, symbols),
        copies=_copies(history),
        pairs=_pairs(history, symbols),
        kernels=_kernels(history),
        functions=_functions(history),
        leaks=tuple(_leak(history, symbols, leak) for leak in leaks[:LEAKS_SHOWN]),
        more_leaks=max(0, len(leaks) - LEAKS_SHOWN),
    )


def _tiles(history: History) -> tuple[tuple[str, str], ...]:
    tiles = [
        (format_bytes(peak.bytes), f"peak of {peak.memory} memory" + (f", device {peak.device}" if peak.device >= 0 else ""))
        for peak in peaks_of(history)[:2]
    ]
    launches = sum(each.count for each in history.launches.values())
    tiles.append((format_count(len(history.allocations)), "allocations"))
    tiles.append((format_count(len(history.copies)), f"copies, {format_bytes(sum(c.bytes for c in history.copies))} in all"))
    tiles.append((format_count(launches), "kernel launches"))
    tiles.append((format_count(len(history.leaks)), f"allocations never freed, {format_bytes(sum(each.bytes for each in history.leaks))}"))
    return tuple(tiles)


def _peaks(history: History) -> Grid:
    rows = tuple(
        (
            peak.memory, "" if peak.device < 0 else str(peak.device), format_bytes(peak.bytes), time_words(peak.at_ns), format_count(peak.count),
            format_bytes(peak.total_bytes), format_bytes(peak.left_bytes) if peak.left_bytes else "",
        )
        for peak in peaks_of(history)
    )  # fmt: skip
    return Grid(("memory", "device", "peak", "reached at", "allocations", "requested in all", "never freed"), 1, rows)


def _sites(history: History, symbols: Symbols) -> Grid:
    rows = []
    for site in sites_of(history):
        shown = ", ".join(f"{format_bytes(size)} × {format_count(count)}" for size, count in site.sizes[:SIZES_SHOWN])
        more = f", {len(site.sizes) - SIZES_SHOWN} more" if len(site.sizes) > SIZES_SHOWN else ""
        rows.append(
            (
                symbols.site_words(history.trace.stacks.get(site.stack)), site.memory, shown + more, format_count(site.count), format_count(site.most_live),
                format_bytes(site.peak_bytes), time_words(site.median_life_ns), time_words(site.longest_life_ns),
                format_count(site.leaked) if site.leaked else "",
            )
        )  # fmt: skip
    heads = ("allocated in", "memory", "sizes", "count", "live at once", "peak", "median life", "longest life", "never freed")
    return Grid(heads, 3, tuple(rows))


def _copies(history: History) -> Grid:
    rows = []
    for flow in flows_of(history.copies) + flows_of(history.sets):
        host = "" if "host" not in flow.direction else "pinned" if flow.pinned else "pageable"
        rows.append(
            (
                flow.direction, host, "asynchronous" if flow.asynchronous else "", format_count(flow.count), format_count(flow.bytes),
                format_bytes(flow.smallest), format_bytes(flow.largest), time_words(flow.api_ns),
            )
        )  # fmt: skip
    return Grid(("direction", "host side", "", "count", "bytes", "smallest", "largest", "time of calls"), 3, tuple(rows))


def _pairs(history: History, symbols: Symbols) -> Grid:
    rows = tuple(
        (
            symbols.site_words(history.trace.stacks.get(place.stack)), *pair_words(place), format_count(place.buffers), format_count(place.up),
            format_count(place.down), format_count(place.bytes),
        )
        for place in pairs_by_place(history)
    )  # fmt: skip
    return Grid(("device buffers from", "cover", "pair", "buffers", "copies to device", "copies to host", "bytes"), 3, rows)


def _kernels(history: History) -> Grid:
    launches = sorted(history.launches.items(), key=lambda pair: -pair[1].count)
    rows = tuple((name, format_count(each.count), format_count(each.blocks), time_words(each.api_ns)) for name, each in launches)
    return Grid(("kernel", "launches", "blocks in all", "time of launch calls"), 1, rows)


def _functions(history: History) -> Grid:
    rows = tuple(
        (time.entry, format_count(time.count), time_words(time.total_ns), time_words(time.median_ns), time_words(time.longest_ns))
        for time in api_times(history)[:FUNCTIONS_SHOWN]
    )
    return Grid(("driver function", "calls", "time in all", "median", "longest"), 1, rows)


def _leak(history: History, symbols: Symbols, leak: Allocation) -> LeakLine:
    stack = history.trace.stacks.get(leak.stack)
    places = symbols.places(stack) if stack is not None else []
    words = f"{format_bytes(leak.bytes)} of {leak.memory} memory" + (f", {leak.lost}" if leak.lost else "")
    return LeakLine(words, tuple(place.words for place in places if not place.of_runtime))
