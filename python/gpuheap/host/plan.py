"""Plans pools from the history of a profiled run. Each call site gets slots, and slots that are never used at the same time may share bytes.

The library serves a request from the smallest free slot of its site that is large enough (tools/host/slots.hpp). The plan serves the profiled
requests by the same rule, so the pools serve every request of a run that allocates in the same order.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuheap.errors import UserError
from gpuheap.host.history import Allocation, History
from gpuheap.host.packing import PAGE, Interval, Need, lower_bound, pack, peak, rounded

FIRST_LINE = "gpuheap-host-plan 1"
POOLED = ("device", "managed", "pinned")
MOST_SLOTS = 64**3  # of a pool: the capacity of the library's sets of free slots
LEAST_MERGED = 64 << 10  # malloc serves smaller host buffers (tools/host/host_blocks.hpp)
_MOST_REHEARSALS = 32
_PORTABLE_OR_MAPPED = 0x01 | 0x02
_ATTACH_GLOBAL = 0x01


@dataclass(frozen=True)
class Slot:
    site: int
    offset: int
    bytes: int


@dataclass(frozen=True)
class Pool:
    memory: str
    device: int
    bytes: int
    lower_bound: int  # the bytes that any placement needs
    bump_bytes: int  # the bytes of the slots side by side, without sharing
    requests: int
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Plan:
    driver: int
    devices: dict[int, tuple[str, int]]
    pools: tuple[Pool, ...]
    left_out: int  # the number of requests of kinds that no pool has
    pairs: tuple[tuple[int, int], ...] = ()  # (host site, device site) of the buffers that are merged at downloads, copies to the host (proof.py)

    def text(self) -> str:
        lines = [FIRST_LINE, f"driver {self.driver}"]
        lines += [f"device {number} {total} {name}" for number, (name, total) in sorted(self.devices.items())]
        for number, pool in enumerate(self.pools):
            lines.append(f"pool {number} {pool.memory} {pool.device} {pool.bytes}")
            lines += [f"slot {number} {slot.offset} {slot.bytes} {slot.site:x}" for slot in pool.slots]
        lines += [f"pair {host:x} {device:x}" for host, device in self.pairs]
        return with_checksum(lines)


def make_plan(history: History, paged: bool = False) -> Plan:
    """Plans the pools. `paged`: slots of device memory that are large enough to be merged with host buffers begin at page boundaries, before all others.

    Raises UserError for a profile that lost records, because its lifetimes are wrong, and for the trace of a pooled run, which records no calls.
    """
    trace = history.trace
    if trace.counters["lost_events"]:
        raise UserError(f"E01: {trace.path} lost {trace.counters['lost_events']} records, because the disk was full: trace the program again")
    if trace.facts.get("events") == "0":
        raise UserError(f"E01: {trace.path} is of a pooled run, which records no calls: give the trace that `gpuheap host trace` made")
    # Another process that gets a handle to a block of a pool sees all of the pool. So the driver keeps serving sites that share a block.
    private = {_site(history, each) for each in history.allocations if each.shared}
    chosen = [each for each in history.allocations if _poolable(each) and _site(history, each) not in private]
    groups: dict[tuple[str, int], list[Allocation]] = {}
    for each in chosen:
        groups.setdefault((each.memory, each.device), []).append(each)
    pools = tuple(_pool(history, memory, device, allocations, paged and memory == "device") for (memory, device), allocations in sorted(groups.items()))
    return Plan(int(trace.facts.get("driver", "0")), dict(trace.devices), pools, len(history.allocations) - len(chosen))


def beside_a_heap(history: History | None) -> Plan:
    """The plan for a run in which an allocator's heap serves device memory: pools of the other kinds of memory; without a profile, no pools."""
    if history is None:
        return Plan(0, {}, (), 0)
    plan = make_plan(history)
    return replace(plan, pools=tuple(pool for pool in plan.pools if pool.memory != "device"))


def _site(history: History, each: Allocation) -> int:
    stacks = history.trace.stacks
    return stacks[each.stack].site if each.stack in stacks else 0


def _poolable(each: Allocation) -> bool:
    if each.memory not in POOLED or each.device < 0:
        return False
    if each.memory == "pinned":
        return each.request_flags & ~_PORTABLE_OR_MAPPED == 0
    if each.memory == "managed":
        return each.request_flags == _ATTACH_GLOBAL
    # The library can foresee the driver's pitch only if the driver rounds it to the alignment of slots.
    return each.pitch % 512 == 0


def _pool(history: History, memory: str, device: int, allocations: Sequence[Allocation], paged: bool) -> Pool:
    at_site: dict[int, list[Allocation]] = {}
    for each in allocations:
        at_site.setdefault(_site(history, each), []).append(each)
    sites: list[int] = []
    needs: list[Need] = []
    for site, made in at_site.items():
        for need in _slots_of_site(made, history.end_ns):
            sites.append(site)
            needs.append(need)
    if len(needs) > MOST_SLOTS:
        raise UserError(f"E01: {history.trace.path} needs {len(needs)} slots in one pool, {MOST_SLOTS} is the most: pool a smaller run")
    if paged:
        needs = [replace(need, bytes=-(-need.bytes // PAGE) * PAGE) if need.bytes >= LEAST_MERGED else need for need in needs]
    offsets = _offsets(needs, paged)
    slots = sorted((Slot(s, o, n.bytes) for s, o, n in zip(sites, offsets, needs, strict=True)), key=lambda slot: (slot.site, slot.bytes))
    whole = [Need(rounded(each.bytes), (_life(each, history.end_ns),)) for each in allocations]
    return Pool(memory, device, peak(needs, offsets), lower_bound(whole), sum(need.bytes for need in needs), len(allocations), tuple(slots))


def _offsets(needs: Sequence[Need], paged: bool) -> list[int]:
    if not paged:
        return pack(needs)
    large = [number for number, need in enumerate(needs) if need.bytes % PAGE == 0 and need.bytes >= LEAST_MERGED]
    small = sorted(set(range(len(needs))) - set(large))
    offsets = dict(zip(large, pack([needs[number] for number in large]), strict=True))
    begin = peak([needs[number] for number in large], [offsets[number] for number in large])
    offsets.update(zip(small, (begin + offset for offset in pack([needs[number] for number in small])), strict=True))
    return [offsets[number] for number in range(len(needs))]


def _life(each: Allocation, end_ns: int) -> Interval:
    # The bytes of a block whose address a captured graph may contain are never reused.
    end = end_ns + 1 if each.end_ns is None or each.captured else each.end_ns
    return each.begin_ns, max(end, each.begin_ns + 1)


def _slots_of_site(made: Sequence[Allocation], end_ns: int) -> list[Need]:
    """The slots of a site in the order of their sizes.

    Threads interleave differently in every run. So if several threads allocate at a site, each gets slots for its own requests. These slots are all as
    large as the site's largest request, and slots of different threads share no bytes.
    """
    by_thread: dict[int, list[Allocation]] = {}
    for each in made:
        by_thread.setdefault(each.thread, []).append(each)
    needs = []
    for thread, own in by_thread.items():
        if len(by_thread) > 1:
            largest = rounded(max(each.bytes for each in made))
            needs += [Need(largest, times, thread) for _, times in rehearse([(largest, *_life(each, end_ns)) for each in own])]
        else:
            needs += [Need(size, times, thread) for size, times in rehearse([(rounded(each.bytes), *_life(each, end_ns)) for each in own])]
    return sorted(needs, key=lambda need: need.bytes)


def rehearse(requests: Sequence[tuple[int, int, int]]) -> list[tuple[int, tuple[Interval, ...]]]:
    """The slots, as (bytes, times of use), that serve requests, as (bytes, from, until), each by the smallest free slot that is large enough.

    The rehearsal begins without slots. A request that finds no slot enlarges the largest free slot, or adds one. Then the rehearsal is repeated, because
    earlier requests may now choose other slots. After _MOST_REHEARSALS repetitions, all slots become as large as the largest request, so that only
    their number can still change.
    """
    requests = sorted(requests, key=lambda request: request[1])
    sizes: list[int] = []
    for _ in range(_MOST_REHEARSALS):
        used = _serve(requests, sizes)
        if used is not None:
            return [(size, tuple(times)) for size, times in zip(sizes, used, strict=True)]
    largest = max(size for size, _, _ in requests)
    even = [(largest, begin, end) for _, begin, end in requests]
    sizes = [largest] * len(sizes)
    used = _serve(even, sizes)
    while used is None:
        used = _serve(even, sizes)
    return [(size, tuple(times)) for size, times in zip(sizes, used, strict=True)]


def _serve(requests: Sequence[tuple[int, int, int]], sizes: list[int]) -> list[list[Interval]] | None:
    """Serves all requests from slots of `sizes`, which are sorted. Returns each slot's times of use, or None if a request changed `sizes`."""
    used: list[list[Interval]] = [[] for _ in sizes]
    free_from = [0] * len(sizes)  # the time at which the slot's last block ends
    changed = False
    for wanted, begin, end in requests:
        first = bisect.bisect_left(sizes, wanted)
        slot = next((i for i in range(first, len(sizes)) if free_from[i] <= begin), None)
        if slot is None:
            changed = True
            # The list stays sorted: the largest free slot is below `first`, and grows to the place of its new size.
            slot = next((i for i in range(first - 1, -1, -1) if free_from[i] <= begin), None)
            if slot is not None:
                sizes.pop(slot), used.pop(slot), free_from.pop(slot)
            slot = bisect.bisect_left(sizes, wanted)
            sizes.insert(slot, wanted)
            used.insert(slot, [])
            free_from.insert(slot, 0)
        free_from[slot] = end
        used[slot].append((begin, end))
    return None if changed else used


def with_checksum(lines: Sequence[str]) -> str:
    body = "\n".join(lines) + "\n"
    return f"{body}checksum {checksum(body):016x}\n"


def checksum(text: str) -> int:
    """The 64-bit FNV-1a hash of the text."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
