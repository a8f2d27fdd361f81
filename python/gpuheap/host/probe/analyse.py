"""Computes the characteristics of an allocator from addresses, free memory and times.

A block's slot is the distance to its neighbour, so it includes what the allocator puts between blocks. Neighbours are found by address, because
allocators hand out blocks upwards, downwards, or from memory that was freed before.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from gpuheap.host.probe.series import DRIVER, KERNEL, Series

REGULAR = 0.5  # the share of distances that must be equal to count as the slot
FEW = 4  # the fewest blocks from which a slot can be determined


@dataclass(frozen=True)
class Bin:
    """The requested sizes from `first` to `last` bytes get slots of one size."""

    first: int
    last: int
    slot_bytes: int
    request: float  # median time of a request: nanoseconds, or cycles for malloc in kernels
    release: float  # median time of a free


@dataclass(frozen=True)
class Rule:
    """The rule that gives the slot of a size. multiples: the next multiple of `step`, plus `overhead`. powers: the next power of two, at least `step`."""

    kind: str
    step: int
    overhead: int

    def fit(self, sizes: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        if self.kind == "powers":
            return np.array([slot == max(self.step, 1 << (int(size) - 1).bit_length()) for size, slot in zip(sizes, slots, strict=True)], dtype=bool)
        fits: NDArray[np.bool_] = slots == -(-sizes // self.step) * self.step + self.overhead
        return fits

    def fits(self, size: int, slot: int) -> bool:
        return bool(self.fit(np.array([size]), np.array([slot]))[0])


@dataclass(frozen=True)
class Stretch:
    """The requested sizes from `first` to `last`, and the rule that explains their slots; None if no rule does."""

    first: int
    last: int
    rule: Rule | None


@dataclass(frozen=True)
class Chunk:
    """`chunk_bytes` is the memory that the allocator took at a time while it served requests of `first` to `last` bytes; 0: each request took its own."""

    first: int
    last: int
    chunk_bytes: int


@dataclass(frozen=True)
class KernelTimes:
    """Median times of the first kernel after a request, in nanoseconds; None if there was no such request."""

    after_new_memory: float | None  # after a request for which the allocator took memory from the driver
    after_other: float | None
    again: float | None  # the same kernel right after


@dataclass(frozen=True)
class Allocator:
    name: str
    requests: int
    granularity: int | None  # the largest power of two that divides every address
    rules: tuple[Stretch, ...]  # of the slots
    bins: tuple[Bin, ...]
    chunks: tuple[Chunk, ...]
    irregular: tuple[int, ...]  # sizes whose blocks have no common distance
    kept_bytes: int | None  # the most device memory that is still taken after all blocks of a series were freed; None: unknown
    kernels: KernelTimes
    unserved: tuple[int, ...]  # sizes for which a request failed


def granularity_of(addresses: Iterable[int]) -> int | None:
    """The largest power of two that divides every address; None without addresses. More addresses may show a smaller one."""
    every = reduce(math.gcd, addresses, 0)
    return every & -every if every else None


def distances(addresses: Sequence[int]) -> list[int]:
    ordered = sorted(set(addresses))
    return [after - before for before, after in zip(ordered, ordered[1:], strict=False)]


def slot_of(series: Series) -> int | None:
    """The most frequent distance between neighbours, the smallest of equally frequent ones. None if there are too few blocks or too few equal distances."""
    found = [each for each in distances([address for address in series.addresses if address]) if each >= series.bytes]
    if len(found) + 1 < FEW:
        return None
    counts = Counter(found)
    slot, count = min(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return slot if count >= REGULAR * len(found) else None


def bins_of(all_series: Sequence[Series]) -> tuple[Bin, ...]:
    """The bins. Neighbouring sizes with equal slots are one bin."""
    found: list[Bin] = []
    times: list[tuple[list[int], list[int]]] = []
    for series in sorted(all_series, key=lambda each: each.bytes):
        slot = slot_of(series)
        if slot is None:
            continue
        if found and found[-1].slot_bytes == slot:
            found[-1] = Bin(found[-1].first, series.bytes, slot, 0, 0)
        else:
            found.append(Bin(series.bytes, series.bytes, slot, 0, 0))
            times.append(([], []))
        times[-1][0].extend(series.request)
        times[-1][1].extend(series.release)
    medians = [(statistics.median(request), statistics.median(release)) for request, release in times]
    return tuple(Bin(each.first, each.last, each.slot_bytes, *pair) for each, pair in zip(found, medians, strict=True))


def rules_of(slots: Mapping[int, int]) -> tuple[Stretch, ...]:
    """Divides the sizes, in order, into stretches that each obey a rule: the one that holds for the most sizes; among equals, the one with the largest step.

    A rule must hold for at least FEW sizes; sizes without such a rule get none. A rule may fail for a tenth of its sizes, because a block that fills a hole has
    another neighbour. It must hold for the last three.
    """
    sizes = np.array(sorted(slots), dtype="i8")
    found: list[Stretch] = []
    first = 0
    # Ends: each pass takes at least one size.
    while first < len(sizes):
        part = sizes[first:]
        given = np.array([slots[int(size)] for size in part], dtype="i8")
        length, rule = max(((_prefix(each.fit(part, given)), each) for each in _candidates(part, given)), key=lambda pair: (pair[0], pair[1].step))
        if length >= min(FEW, len(sizes)):
            found.append(Stretch(int(part[0]), int(part[length - 1]), rule))
        else:
            length = 1
            begin = found.pop().first if found and found[-1].rule is None else int(part[0])
            found.append(Stretch(begin, int(part[0]), None))
        first += length
    return tuple(found)


def _candidates(sizes: NDArray[np.int64], slots: NDArray[np.int64]) -> list[Rule]:
    found = [Rule("powers", int(slots.min()), 0)]
    for step in (1 << power for power in range(3, 23)):
        overheads = Counter((slots[:8] - -(-sizes[:8] // step) * step).tolist())
        overhead = min(overheads.items(), key=lambda pair: (-pair[1], pair[0]))[0]
        if overhead >= 0:
            found.append(Rule("multiples", step, overhead))
    return found


def _prefix(fits: NDArray[np.bool_]) -> int:
    """The longest prefix in which nine of ten sizes fit the rule, and each of the last three."""
    held = np.cumsum(fits) >= 0.9 * np.arange(1, len(fits) + 1)
    for last in range(min(3, len(fits))):
        held &= np.concatenate([np.ones(last, dtype=bool), fits[: len(fits) - last]])
    lengths = np.flatnonzero(held)
    return int(lengths[-1]) + 1 if len(lengths) else 0


def slots_of(all_series: Sequence[Series]) -> dict[int, int]:
    found = {series.bytes: slot_of(series) for series in all_series}
    return {size: slot for size, slot in found.items() if slot is not None}


def new_memory(series: Series) -> list[int]:
    """For each request the bytes by which the device's free memory fell."""
    levels = (series.free_bytes_before, *series.free_bytes)
    return [max(0, before - after) for before, after in zip(levels, levels[1:], strict=False)]


def chunk_of(series: Series) -> int | None:
    """The bytes that the allocator takes at a time: the most frequent fall of free memory or, if free memory never falls, the length of gapless runs.

    0 if each request takes its own memory; None if neither measure gives an answer.
    """
    falls = new_memory(series)
    if any(falls):
        if all(falls) and len(falls) >= FEW:
            return 0
        # Another process, or the driver itself, may take memory too, so the most frequent fall counts.
        counts = Counter(fall for fall in falls if fall)
        fall, count = min(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return fall if count >= REGULAR * counts.total() else None
    slot = slot_of(series)
    if slot is None:
        return None
    inner = [length * slot for length in gapless_runs(series.addresses, slot)[1:-1]]  # the first and the last run may be cut off
    return min(Counter(inner).items(), key=lambda pair: (-pair[1], pair[0]))[0] if inner else None


def gapless_runs(addresses: Sequence[int], slot: int) -> list[int]:
    """The number of blocks in each gapless run of neighbours, by address."""
    runs = [1] if addresses else []
    for distance in distances(addresses):
        if distance == slot:
            runs[-1] += 1
        else:
            runs.append(1)
    return runs


def chunks_of(all_series: Sequence[Series]) -> tuple[Chunk, ...]:
    """The chunks by size. Neighbouring sizes with equal chunks share one entry. Of several series of one size, the one with the most requests counts."""
    longest: dict[int, Series] = {}
    for series in all_series:
        if series.bytes not in longest or len(series.addresses) > len(longest[series.bytes].addresses):
            longest[series.bytes] = series
    found: list[Chunk] = []
    for size in sorted(longest):
        chunk = chunk_of(longest[size])
        if chunk is None:
            continue
        if found and found[-1].chunk_bytes == chunk:
            found[-1] = Chunk(found[-1].first, size, chunk)
        else:
            found.append(Chunk(size, size, chunk))
    return tuple(found)


def kernel_times(all_series: Sequence[Series]) -> KernelTimes:
    after_new: list[int] = []
    after_other: list[int] = []
    again: list[int] = []
    for series in all_series:
        for fall, first, second in zip(new_memory(series), series.kernel, series.again, strict=False):
            (after_new if fall else after_other).append(first)
            again.append(second)
    return KernelTimes(*(statistics.median(times) if times else None for times in (after_new, after_other, again)))


def analyse(name: str, all_series: Sequence[Series]) -> Allocator:
    """Computes the characteristics of one allocator from all of its series."""
    slots = slots_of(all_series)
    many = [series for series in all_series if len(series.addresses) >= FEW]
    served = [series for series in all_series if series.free_bytes]
    return Allocator(
        name=name,
        requests=sum(len(series.addresses) for series in all_series),
        granularity=granularity_of(address for series in all_series for address in series.addresses if address),
        rules=rules_of(slots),
        bins=bins_of(all_series),
        chunks=() if name == KERNEL else chunks_of(all_series),
        irregular=tuple(sorted({series.bytes for series in many if slot_of(series) is None})),
        kept_bytes=max((series.free_bytes_before - series.free_bytes_released for series in served), default=None) if name != "host" else None,
        kernels=kernel_times(all_series),
        unserved=tuple(sorted({series.bytes for series in all_series if series.error or 0 in series.addresses})),
    )


def analyse_all(all_series: Sequence[Series]) -> tuple[Allocator, ...]:
    names = dict.fromkeys(series.allocator for series in all_series)
    return tuple(analyse(name, [series for series in all_series if series.allocator == name]) for name in (*DRIVER, KERNEL) if name in names)
