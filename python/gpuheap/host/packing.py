"""Interval packing: slots that are never used at the same time may lie on the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 512
PAGE = 4096
# The most slots that may share bytes with one slot. The cost of serving a request grows with this number.
MOST_SHARERS = 64
# Above this number of needs, a faster method places them, so that planning takes seconds.
MANY = 2000

Interval = tuple[int, int]  # from, until


@dataclass(frozen=True)
class Need:
    """A slot that needs `bytes` during `times`, which are in order and disjoint. Needs of different groups never share bytes."""

    bytes: int
    times: tuple[Interval, ...]
    group: int = 0


def rounded(count: int) -> int:
    return max(1, -(-count // ALIGNMENT)) * ALIGNMENT


def lower_bound(needs: Sequence[Need]) -> int:
    """The largest sum of bytes that are needed at one time. No placement has a smaller peak."""
    changes = sorted((at, size) for need in needs for begin, end in need.times for at, size in ((begin, need.bytes), (end, -need.bytes)))
    live = most = 0
    for _, change in changes:
        live += change
        most = max(most, live)
    return most


def pack(needs: Sequence[Need]) -> list[int]:
    """An offset for each need. Tries three orders, and returns the placement with the smallest peak.

    The orders are: largest first, most bytes times duration first, earliest first. With more than MANY needs, only the first order is tried.
    """
    if not needs:
        return []
    clashes = _clashes(needs)
    orders = [
        sorted(range(len(needs)), key=lambda i: (-needs[i].bytes, needs[i].times[0][0])),
        sorted(range(len(needs)), key=lambda i: -needs[i].bytes * (needs[i].times[-1][1] - needs[i].times[0][0])),
        sorted(range(len(needs)), key=lambda i: (needs[i].times[0][0], -needs[i].bytes)),
    ]
    orders = orders[: 3 if len(needs) <= MANY else 1]
    return min((place_in_order(needs, clashes, order) for order in orders), key=lambda offsets: peak(needs, offsets))


def peak(needs: Sequence[Need], offsets: Sequence[int]) -> int:
    return max((offset + need.bytes for need, offset in zip(needs, offsets, strict=True)), default=0)


def place_in_order(needs: Sequence[Need], clashes: np.ndarray, order: Sequence[int]) -> list[int]:
    """Places each need at the lowest offset where it overlaps no need of the same time, and where no slot gets more than MOST_SHARERS sharers."""
    offsets = np.zeros(len(needs), dtype=np.int64)
    sizes = np.array([need.bytes for need in needs], dtype=np.int64)
    sharers = np.zeros(len(needs), dtype=np.int64)
    placed: list[int] = []
    for index in order:
        before = np.array(placed, dtype=np.int64)
        if len(before):
            offset, shared = _lowest(index, before, offsets, sizes, sharers, clashes)
            offsets[index] = offset
            sharers[index] = len(shared)
            sharers[shared] += 1
        placed.append(index)
    return [int(offset) for offset in offsets]


def _lowest(
    index: int, placed: np.ndarray, offsets: np.ndarray, sizes: np.ndarray, sharers: np.ndarray, clashes: np.ndarray
) -> tuple[int, np.ndarray]:
    starts, ends = offsets[placed], offsets[placed] + sizes[placed]
    blocking = clashes[index][placed]
    by_start = np.argsort(starts[blocking], kind="stable")
    # The gaps between the blocking slots. The last gap has no end.
    gap_begins = np.concatenate(([0], np.maximum.accumulate(ends[blocking][by_start])))
    gap_ends = np.concatenate((starts[blocking][by_start], [np.iinfo(np.int64).max]))
    fitting = gap_begins[gap_ends - gap_begins >= sizes[index]]
    # Beyond the end of all placed slots, no slot blocks and no bytes are shared.
    for candidate in (*fitting.tolist(), int(ends.max())):
        shared = placed[(starts < candidate + sizes[index]) & (ends > candidate)]
        if len(shared) < MOST_SHARERS and not (sharers[shared] >= MOST_SHARERS).any():
            return candidate, shared
    raise AssertionError("the end of all placed slots is free")


def _clashes(needs: Sequence[Need]) -> np.ndarray:
    """Whether two needs must not share bytes, for each pair."""
    first = np.array([need.times[0][0] for need in needs])
    last = np.array([need.times[-1][1] for need in needs])
    groups = np.array([need.group for need in needs])
    matrix = (first[:, None] < last[None, :]) & (first[None, :] < last[:, None])
    # Needs with gaps may be disjoint although their spans from first to last use overlap. They are compared interval by interval, unless there are
    # more than MANY needs.
    gappy = np.array([len(need.times) > 1 for need in needs]) & (len(needs) <= MANY)
    for a, b in zip(*np.nonzero(np.triu(matrix & (gappy[:, None] | gappy[None, :]), 1)), strict=True):
        matrix[a, b] = matrix[b, a] = _overlap(needs[a].times, needs[b].times)
    matrix |= groups[:, None] != groups[None, :]
    return matrix


def _overlap(one: Sequence[Interval], other: Sequence[Interval]) -> bool:
    a = b = 0
    while a < len(one) and b < len(other):
        if one[a][0] < other[b][1] and other[b][0] < one[a][1]:
            return True
        if one[a][1] <= other[b][1]:
            a += 1
        else:
            b += 1
    return False
