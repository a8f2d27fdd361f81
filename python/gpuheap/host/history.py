"""The history of a traced process: each allocation with its lifetime, each copy with its direction, and the allocations that were never freed."""

from __future__ import annotations

import bisect
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuheap.host.trace import (
    ALLOCATE,
    ARRAY,
    ASYNC,
    CAPTURE,
    CONTEXT,
    COPY,
    DIRECTION,
    LAUNCH,
    MEMORY,
    NO_DEVICE,
    OTHER,
    POOLED,
    RELEASE,
    SET,
    Trace,
)  # fmt: skip

ON_DEVICE = frozenset({"device", "managed", "stream-ordered", "array", "physical", "imported"})
ON_HOST = frozenset({"pinned", "registered"})
# Memory of these kinds has handles, not addresses, so no copy names it.
_NO_ADDRESS = frozenset({"array", "physical"})
_DIES_BY_RESET = 3


@dataclass
class Allocation:
    index: int  # in the order of allocation
    memory: str
    device: int  # -1: unknown
    address: int
    bytes: int
    pitch: int  # 0: none
    request_flags: int  # of managed and pinned memory
    stack: int
    thread: int
    stream: int
    begin_ns: int
    end_ns: int | None = None  # None: never freed
    pooled: bool = False
    lost: str = ""  # the reason why it ended without a free
    shared: bool = False  # whether it is shared with another process
    captured: bool = False  # whether it was live during a capture, so that a graph may contain its address

    @property
    def leaked(self) -> bool:
        return self.end_ns is None or self.lost != ""


@dataclass(frozen=True)
class Copy:
    direction: str
    pinned: bool  # whether the host side is pinned, registered or managed memory
    asynchronous: bool
    bytes: int
    stack: int
    begin_ns: int
    duration_ns: int
    addresses: tuple[int, int] = (0, 0)  # from, to
    blocks: tuple[int, int] = (-1, -1)  # the indices of the allocations at both addresses; -1: none is known there


@dataclass(frozen=True)
class Failure:
    entry: str
    result: int
    count: int


@dataclass
class Launches:
    count: int = 0
    api_ns: int = 0
    blocks: int = 0


@dataclass
class History:
    trace: Trace
    allocations: list[Allocation] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    sets: list[Copy] = field(default_factory=list)
    launches: dict[str, Launches] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    foreign_frees: int = 0  # frees of addresses that no traced allocation has
    null_frees: int = 0
    end_ns: int = 0

    @property
    def leaks(self) -> list[Allocation]:
        # Imported memory belongs to another process.
        return [a for a in self.allocations if a.leaked and a.memory != "imported"]


def history_of(trace: Trace) -> History:
    """Follows the trace in time. A free counts from the call's begin, and an allocation from the call's end.

    So an address that one thread frees and another thread then gets is freed before it is allocated.
    """
    found = History(trace, end_ns=trace.last_ns)
    events = trace.events
    failed = events["result"] != 0
    for (entry, result), count in Counter(zip(events["entry"][failed].tolist(), events["result"][failed].tolist(), strict=True)).most_common():
        found.failures.append(Failure(trace.entry(entry), result, count))
    found.launches = launches_of(trace, events[(events["kind"] == LAUNCH) & ~failed])
    live = _Live()
    capturing = 0
    # Many traces consist mostly of launches, so these are added up together. The other calls are followed one by one.
    events = events[~failed & np.isin(events["kind"], (ALLOCATE, RELEASE, COPY, SET, CAPTURE, OTHER, CONTEXT))]
    when = events["begin_ns"] + np.where(events["kind"] == ALLOCATE, events["duration_ns"], 0).astype("u8")
    for event in events[np.argsort(when, kind="stable")]:
        kind = int(event["kind"])
        if kind == ALLOCATE:
            made = _allocation(event, len(found.allocations))
            made.captured = capturing > 0
            found.allocations.append(made)
            live.add(made)
        elif kind == RELEASE:
            if event["address"] == 0:
                found.null_frees += 1
            elif not live.end(int(event["address"]), MEMORY[event["detail"]], int(event["begin_ns"])):
                found.foreign_frees += 1
        elif kind == COPY:
            found.copies.append(_copy(event, live))
        elif kind == SET:
            found.sets.append(_set(event))
        elif kind == CAPTURE:
            capturing = max(0, capturing + (1 if event["flags"] == 1 else -1))
            if capturing:
                live.capture()
        elif kind == OTHER and trace.entry(int(event["entry"])).startswith("cuIpcGetMemHandle"):
            exported = live.holding(int(event["address"]))
            if exported is not None:
                exported.shared = True
        elif kind == CONTEXT and event["flags"] == _DIES_BY_RESET:
            live.lose_device(int(event["device"]), int(event["begin_ns"]))
    return found


def launches_of(trace: Trace, events: NDArray[Any]) -> dict[str, Launches]:
    """The launches by the kernel's name. A handle may be used again for another kernel, so the last name before a launch counts."""
    names: dict[int, list[tuple[int, str]]] = {}
    for when, handle, name in sorted(trace.names):
        names.setdefault(handle, []).append((when, name))
    found: dict[str, Launches] = {}
    for handle in np.unique(events["address"]).tolist():
        of_handle = events[events["address"] == handle]
        given = names.get(handle, [(0, f"kernel {handle:#x}")])
        # A handle that the program never looked up gets its name during its first launch, so the first name also counts for launches before it.
        which = np.maximum(np.searchsorted([when for when, _ in given], of_handle["begin_ns"], side="right") - 1, 0)
        for number in np.unique(which).tolist():
            part = of_handle[which == number]
            launches = found.setdefault(given[number][1], Launches())
            launches.count += len(part)
            launches.api_ns += int(part["duration_ns"].sum(dtype="u8"))
            launches.blocks += int(part["other"].sum())
    return found


class _Live:
    """The live allocations, by address or handle."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._at: dict[tuple[bool, int], Allocation] = {}  # by (whether it is a handle, handle or address)

    def add(self, made: Allocation) -> None:
        key = (made.memory in _NO_ADDRESS, made.address)
        before = self._at.get(key)
        if before is not None:  # the old allocation ended without a recorded free, for instance with its context
            before.end_ns, before.lost = made.begin_ns, "its address was given again"
        elif not key[0]:
            bisect.insort(self._starts, made.address)
        self._at[key] = made

    def end(self, address: int, memory: str, at_ns: int) -> bool:
        ended = self._at.pop((memory in _NO_ADDRESS, address), None)
        if ended is None:
            return False
        ended.end_ns = at_ns
        self._forget(ended)
        return True

    def lose_device(self, device: int, at_ns: int) -> None:
        for key, each in list(self._at.items()):
            if each.device == device:
                each.end_ns, each.lost = at_ns, "its device was reset"
                del self._at[key]
                self._forget(each)

    def capture(self) -> None:
        for each in self._at.values():
            each.captured = True

    def holding(self, address: int) -> Allocation | None:
        before = bisect.bisect_right(self._starts, address) - 1
        if before < 0:
            return None
        found = self._at[False, self._starts[before]]
        return found if address - found.address < found.bytes else None

    def _forget(self, ended: Allocation) -> None:
        if ended.memory not in _NO_ADDRESS:
            del self._starts[bisect.bisect_left(self._starts, ended.address)]


def _allocation(event: np.void, index: int) -> Allocation:
    return Allocation(
        index=index,
        memory=MEMORY[event["detail"]],
        device=-1 if event["device"] == NO_DEVICE else int(event["device"]),
        address=int(event["address"]),
        bytes=int(event["bytes"]),
        pitch=int(event["other"]) if MEMORY[event["detail"]] == "device" else 0,
        request_flags=int(event["other"]) if MEMORY[event["detail"]] in ("managed", "pinned") else 0,
        stack=int(event["stack"]),
        thread=int(event["thread"]),
        stream=int(event["stream"]),
        begin_ns=int(event["begin_ns"]) + int(event["duration_ns"]),
        pooled=bool(event["flags"] & POOLED),
    )


def _copy(event: np.void, live: _Live) -> Copy:
    direction = DIRECTION[event["detail"]]
    to, source = live.holding(int(event["address"])), live.holding(int(event["other"]))
    if direction == "by address":
        ends = tuple("device" if side is not None and side.memory in ON_DEVICE else "host" for side in (source, to))
        direction = f"{ends[0]} to {ends[1]}"
    host_side = {"host to device": source, "device to host": to}.get(direction)
    pinned = host_side is not None and host_side.memory in ON_HOST | {"managed"}
    if event["flags"] & ARRAY:
        direction += " (array)"
    return Copy(
        direction, pinned, bool(event["flags"] & ASYNC), int(event["bytes"]), int(event["stack"]), int(event["begin_ns"]), int(event["duration_ns"]),
        addresses=(int(event["other"]), int(event["address"])), blocks=(-1 if source is None else source.index, -1 if to is None else to.index),
    )  # fmt: skip


def _set(event: np.void) -> Copy:
    return Copy("set", False, bool(event["flags"] & ASYNC), int(event["bytes"]), int(event["stack"]), int(event["begin_ns"]), int(event["duration_ns"]))
