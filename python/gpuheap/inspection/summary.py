"""The contents of a dump: totals, groups of blocks, gaps between them, and how full each part of the heap is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuheap.errors import printable
from gpuheap.inspection.dump import Dump, Part
from gpuheap.units import format_bytes, format_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CELLS = 64 * 64  # the number of cells of the map
_COUNTED_SIZES = 1 << 20  # each size below has a counter of its own


@dataclass(frozen=True)
class Group:
    """The blocks of one tag, or the blocks of one size that have no tag."""

    name: str
    blocks: int
    bytes: int


@dataclass(frozen=True)
class Summary:
    dump: Dump
    blocks: int
    bytes: int
    groups: tuple[Group, ...]  # most bytes first
    span_bytes: int  # from the begin of the first block to the end of the last
    gaps: int  # free stretches within the span
    largest_gap: int
    cell_bytes: int
    cells: NDArray[np.float64]  # the live share of each part of the region

    @property
    def unused(self) -> float:
        """The share of the span that is in no block."""
        return 1 - self.bytes / self.span_bytes if self.span_bytes else 0.0

    def as_json(self, most_groups: int) -> dict[str, object]:
        return {
            "file": str(self.dump.path),
            "allocator": self.dump.allocator,
            "heap_bytes": self.dump.heap_bytes,
            "blocks": self.blocks,
            "bytes": self.bytes,
            "span_bytes": self.span_bytes,
            "gaps": self.gaps,
            "largest_gap_bytes": self.largest_gap,
            "unused_share_of_span": self.unused,
            "groups": [vars(group) for group in self.groups[:most_groups]],
        }


def summarise(dump: Dump, told: Callable[[int], None] = lambda _: None) -> Summary:
    """Reads all blocks once. `told` is called with the number of blocks that were read so far."""
    import numpy as np

    cell = max(16, -(-dump.region_bytes // CELLS))
    filled = np.zeros(CELLS + 1)
    steps = np.zeros(CELLS + 2)  # +1 at the first cell that a block fills completely, -1 after the last one
    tag_blocks = np.zeros(len(dump.names) + 1, dtype=np.int64)
    tag_bytes = np.zeros(len(dump.names) + 1)
    small = np.zeros(_COUNTED_SIZES, dtype=np.int64)
    large: dict[int, int] = {}
    total = gaps = largest = read = 0
    begin = end = -1
    for part in dump.parts():
        total += int(part.bytes.sum())
        if begin < 0:
            begin = end = int(part.offsets[0])
        between = np.concatenate(([part.offsets[0] - end], part.offsets[1:] - (part.offsets[:-1] + part.bytes[:-1])))
        gaps += int(np.count_nonzero(between))
        largest = max(largest, int(between.max()))
        end = int(part.offsets[-1] + part.bytes[-1])
        tag_blocks += np.bincount(part.names, minlength=len(tag_blocks))
        tag_bytes += np.bincount(part.names, weights=part.bytes, minlength=len(tag_bytes))
        sizes = part.bytes[part.names == 0]
        small += np.bincount(sizes[sizes < _COUNTED_SIZES], minlength=_COUNTED_SIZES)
        for size, count in zip(*np.unique(sizes[sizes >= _COUNTED_SIZES], return_counts=True), strict=True):
            large[int(size)] = large.get(int(size), 0) + int(count)
        _fill(filled, steps, part, cell)
        read += len(part.offsets)
        told(read)
    groups = [Group(name, int(tag_blocks[n]), int(tag_bytes[n])) for n, name in enumerate(dump.names, 1) if tag_blocks[n]]
    by_size = {int(size): int(small[size]) for size in np.flatnonzero(small)} | large
    groups += [Group(f"{size} bytes", count, size * count) for size, count in by_size.items()]
    groups.sort(key=lambda group: (-group.bytes, group.name))
    cells = (filled[:CELLS] + np.cumsum(steps)[:CELLS] * cell) / cell
    return Summary(dump, dump.num_blocks, total, tuple(groups), end - begin if begin >= 0 else 0, gaps, largest, cell, cells)


def _fill(filled: NDArray[np.float64], steps: NDArray[np.float64], part: Part, cell: int) -> None:
    import numpy as np

    ends = part.offsets + part.bytes
    first, last = part.offsets // cell, (ends - 1) // cell
    within = first == last
    filled += np.bincount(first[within], weights=part.bytes[within], minlength=len(filled))
    across = ~within
    np.add.at(filled, first[across], (first[across] + 1) * cell - part.offsets[across])
    np.add.at(filled, last[across], ends[across] - last[across] * cell)
    np.add.at(steps, first[across] + 1, 1)
    np.add.at(steps, last[across], -1)


def lines(summary: Summary, most_groups: int) -> list[str]:
    """The lines of a summary for a terminal."""
    s = summary
    largest, file = format_bytes(s.largest_gap), printable(str(s.dump.path))
    found = [
        f"{file}: {format_count(s.blocks)} live blocks, {format_bytes(s.bytes)}, in a heap of {format_bytes(s.dump.heap_bytes)} ({s.dump.allocator})",
        f"they span {format_bytes(s.span_bytes)} with {format_count(s.gaps)} gaps, the largest of {largest}: {s.unused:.1%} of the span is in no block",
    ]
    found += _table([(format_bytes(g.bytes), f"{g.blocks:,} blocks", g.name) for g in s.groups[:most_groups]])
    if len(s.groups) > most_groups:
        found.append(f"and {len(s.groups) - most_groups} groups more")
    return found


def comparison(before: Summary, after: Summary, most_groups: int) -> list[str]:
    """The differences between the groups of two dumps, the most bytes first."""
    changes = changed_groups(before, after)
    found = [
        f"from {printable(str(before.dump.path))} to {printable(str(after.dump.path))}: {_signed(after.blocks - before.blocks, format_count)} blocks, "
        f"{_signed(after.bytes - before.bytes, format_bytes)}"
    ]
    found += _table([(_signed(g.bytes, format_bytes), f"{g.blocks:+,} blocks", g.name) for g in changes[:most_groups]])
    if not changes:
        found.append("every group has as many blocks as before")
    elif len(changes) > most_groups:
        found.append(f"and {len(changes) - most_groups} groups more")
    return found


def changed_groups(before: Summary, after: Summary) -> list[Group]:
    old, new = ({group.name: group for group in s.groups} for s in (before, after))
    none = Group("", 0, 0)
    changes = [
        Group(name, new.get(name, none).blocks - old.get(name, none).blocks, new.get(name, none).bytes - old.get(name, none).bytes)
        for name in old.keys() | new.keys()
    ]
    return sorted((c for c in changes if c.blocks or c.bytes), key=lambda c: (-abs(c.bytes), c.name))


def _signed(number: int, text: Callable[[int], str]) -> str:
    return ("+" if number >= 0 else "-") + text(abs(number))


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    return [f"  {row[0]:>{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}" for row in rows]
