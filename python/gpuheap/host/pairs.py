"""Finds pairs of a host buffer and a device buffer that are copied only with each other. If both were the same memory, no copy would be needed.

A trace shows the copies, but not the host's reads and writes between them. So a pair that no copy refutes is only a candidate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpuheap.host.history import Allocation, Copy, History

SEVERAL_HOSTS = "copied with several host buffers"
SEVERAL_DEVICES = "its host buffer is copied with other device buffers too"
ON_DEVICE = "copied on the device too"
NAMED_ELSEWHERE = "a graph or another process may name it"
_WITH_HOST = ("host to device", "device to host")


@dataclass(frozen=True)
class Pair:
    """A device buffer that is copied to or from the host. `host_address` is the host address that corresponds to its first byte."""

    device: Allocation
    host_address: int
    copies: tuple[Copy, ...]
    refuted: str  # why it is no pair; empty: it is a candidate

    @property
    def whole(self) -> bool:
        """Whether every copy covers the whole buffer."""
        return all(copy.bytes == self.device.bytes for copy in self.copies)


@dataclass(frozen=True)
class PlacePairs:
    """The pairs with the same verdict whose device buffers were allocated at the same place in the program."""

    stack: int
    buffers: int
    up: int  # copies to the device
    down: int  # copies to the host
    bytes: int  # of all these copies
    whole: bool
    refuted: str


def pairs_of(history: History) -> list[Pair]:
    """The pairs, in the order of the device buffers' allocation."""
    touching: dict[int, list[Copy]] = {}
    for copy in history.copies:
        for index in {index for index in copy.blocks if index >= 0}:
            touching.setdefault(index, []).append(copy)
    with_host = _HostSides(copy for copy in history.copies if copy.direction in _WITH_HOST)
    pairs = []
    for device in history.allocations:
        own = touching.get(device.index, []) if device.memory == "device" else []
        copies = tuple(copy for copy in own if copy.direction in _WITH_HOST and _device_block(copy) == device.index)
        if copies:
            bases = {_host_address(copy) - (_device_address(copy) - device.address) for copy in copies}
            pairs.append(Pair(device, min(bases), copies, _refutation(history, device, own, copies, bases, with_host)))
    return pairs


def pairs_by_place(history: History) -> list[PlacePairs]:
    """The groups of pairs: candidates first, then the most copied bytes first."""
    stacks = history.trace.stacks
    groups: dict[tuple[int, str, bool], list[Pair]] = {}
    for pair in pairs_of(history):
        site = stacks[pair.device.stack].site if pair.device.stack in stacks else 0
        groups.setdefault((site, pair.refuted, pair.whole), []).append(pair)
    found = []
    for (_, refuted, whole), pairs in groups.items():
        copies = [copy for pair in pairs for copy in pair.copies]
        up = sum(copy.direction == "host to device" for copy in copies)
        found.append(PlacePairs(pairs[0].device.stack, len(pairs), up, len(copies) - up, sum(copy.bytes for copy in copies), whole, refuted))
    return sorted(found, key=lambda place: (place.refuted != "", -place.bytes, place.refuted))


def _refutation(history: History, device: Allocation, own: list[Copy], copies: tuple[Copy, ...], bases: set[int], with_host: _HostSides) -> str:
    if len(bases) > 1:
        return SEVERAL_HOSTS
    if len(own) > len(copies):
        return ON_DEVICE
    if device.captured or device.shared:
        return NAMED_ELSEWHERE
    first, last = min(map(_host_address, copies)), max(_host_address(copy) + copy.bytes for copy in copies)
    until = history.end_ns if device.end_ns is None else device.end_ns
    return SEVERAL_DEVICES if with_host.others(device, first, last, until) else ""


class _HostSides:
    """The host sides of copies, which can be searched by address range and time."""

    def __init__(self, copies: Iterable[Copy]) -> None:
        rows = [(_host_address(copy), _host_address(copy) + copy.bytes, copy.begin_ns, _device_block(copy)) for copy in copies]
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        self._begin, self._end, self._when, self._block = table.T

    def others(self, device: Allocation, first: int, last: int, until: int) -> bool:
        """Whether another device buffer is copied with [first, last) while `device` lives."""
        meets = (self._begin < last) & (self._end > first) & (self._when >= device.begin_ns) & (self._when <= until)
        return bool((meets & (self._block != device.index)).any())


def _host_address(copy: Copy) -> int:
    return copy.addresses[0 if copy.direction == "host to device" else 1]


def _device_address(copy: Copy) -> int:
    return copy.addresses[1 if copy.direction == "host to device" else 0]


def _device_block(copy: Copy) -> int:
    return copy.blocks[1 if copy.direction == "host to device" else 0]
