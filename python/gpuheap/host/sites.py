"""Sums up a history by place in the program, by kind of memory, and over time."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpuheap.host.history import Allocation, Copy, History


@dataclass(frozen=True)
class Site:
    """All allocations of one kind of memory from one place."""

    stack: int
    memory: str
    count: int
    sizes: tuple[tuple[int, int], ...]  # (bytes, how often), most frequent first
    total_bytes: int
    median_life_ns: int
    longest_life_ns: int
    most_live: int  # the most allocations that were live at one time
    peak_bytes: int  # the most bytes that were live at one time
    leaked: int
    leaked_bytes: int

    @property
    def smallest(self) -> int:
        return min(size for size, _ in self.sizes)

    @property
    def largest(self) -> int:
        return max(size for size, _ in self.sizes)


@dataclass(frozen=True)
class Peak:
    memory: str
    device: int  # -1: unknown
    bytes: int
    at_ns: int
    count: int
    total_bytes: int
    left_bytes: int  # never freed


@dataclass(frozen=True)
class Flow:
    """The copies of one direction, summed up."""

    direction: str
    pinned: bool
    asynchronous: bool
    count: int
    bytes: int
    smallest: int
    largest: int
    api_ns: int


@dataclass(frozen=True)
class ApiTime:
    entry: str
    count: int
    total_ns: int
    median_ns: int
    longest_ns: int


def live_over_time(allocations: Iterable[Allocation]) -> tuple[list[int], list[int], list[int]]:
    """Times in nanoseconds, live bytes and live blocks after each change. Of changes at the same time, frees come first."""
    changes: list[tuple[int, int, int]] = []
    for each in allocations:
        changes.append((each.begin_ns, 1, each.bytes))
        if each.end_ns is not None:
            # A block that begins and ends at the same time lives for a nanosecond, so that its free does not come first.
            changes.append((max(each.end_ns, each.begin_ns + 1), 0, -each.bytes))
    changes.sort()
    times = [change[0] for change in changes]
    live = list(itertools.accumulate(change[2] for change in changes))
    blocks = list(itertools.accumulate(1 if change[1] else -1 for change in changes))
    return times, live, blocks


def sites_of(history: History) -> list[Site]:
    """The places, sorted by their peak of live bytes, the largest first."""
    stacks = history.trace.stacks
    groups: dict[tuple[int, str], list[Allocation]] = {}
    for each in history.allocations:
        # Stacks of one site are one place: their frames are the same, although a module may have been mapped again at another address.
        site = stacks[each.stack].site if each.stack in stacks else 0
        groups.setdefault((site, each.memory), []).append(each)
    found = []
    for (_, memory), allocations in groups.items():
        lives = [(each.end_ns if each.end_ns is not None else history.end_ns) - each.begin_ns for each in allocations]
        _, live, blocks = live_over_time(allocations)
        leaked = [each for each in allocations if each.leaked and memory != "imported"]
        found.append(
            Site(
                stack=allocations[0].stack,
                memory=memory,
                count=len(allocations),
                sizes=tuple(Counter(each.bytes for each in allocations).most_common()),
                total_bytes=sum(each.bytes for each in allocations),
                median_life_ns=round(statistics.median(lives)),
                longest_life_ns=max(lives),
                most_live=max(blocks),
                peak_bytes=max(live),
                leaked=len(leaked),
                leaked_bytes=sum(each.bytes for each in leaked),
            )
        )
    return sorted(found, key=lambda site: (-site.peak_bytes, -site.count, site.memory))


def peaks_of(history: History) -> list[Peak]:
    """The peak of live bytes of each kind of memory on each device, the largest peak first."""
    groups: dict[tuple[str, int], list[Allocation]] = {}
    for each in history.allocations:
        groups.setdefault((each.memory, each.device), []).append(each)
    found = []
    for (memory, device), allocations in groups.items():
        times, live, _ = live_over_time(allocations)
        at = int(np.argmax(live))
        left = sum(each.bytes for each in allocations if each.leaked)
        found.append(Peak(memory, device, live[at], times[at], len(allocations), sum(each.bytes for each in allocations), left))
    return sorted(found, key=lambda peak: (-peak.bytes, peak.memory, peak.device))


def flows_of(copies: Iterable[Copy]) -> list[Flow]:
    groups: dict[tuple[str, bool, bool], list[Copy]] = {}
    for each in copies:
        groups.setdefault((each.direction, each.pinned, each.asynchronous), []).append(each)
    flows = [
        Flow(*key, len(group), sum(c.bytes for c in group), min(c.bytes for c in group), max(c.bytes for c in group), sum(c.duration_ns for c in group))
        for key, group in groups.items()
    ]
    return sorted(flows, key=lambda flow: (-flow.bytes, flow.direction))


def api_times(history: History) -> list[ApiTime]:
    """The time for which callers wait in each driver function, the longest total first."""
    events = history.trace.events
    found = []
    for entry in np.unique(events["entry"]) if len(events) else []:
        durations = events["duration_ns"][events["entry"] == entry].astype("u8")
        name = history.trace.entry(int(entry))
        found.append(ApiTime(name, len(durations), int(durations.sum()), int(np.median(durations)), int(durations.max())))
    return sorted(found, key=lambda time: -time.total_ns)
