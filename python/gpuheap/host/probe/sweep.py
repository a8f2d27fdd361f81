"""Chooses the requests of a probe, in three steps.

First come sizes at and between the powers of two. Then halving finds the sizes at which the rule of the slots changes. Last come enough blocks to show how much
memory the allocator takes from the driver at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gpuheap.host.probe.analyse import Rule, rules_of, slot_of, slots_of
from gpuheap.host.probe.series import KERNEL, Series

Ask = Callable[[str, int, int], Series]

KERNEL_SIZES = range(4, 4801, 4)
KERNEL_BLOCKS = 32
SERIES_BLOCKS = 24
FEWEST_BLOCKS = 5
FILL_BYTES = 8 << 20  # several of the chunks that drivers are known to take
MOST_EDGES = 200  # the most series that edges() asks for


def sizes_up_to(most: int) -> list[int]:
    """Each power of two from 4 on, the size 4 bytes above it, and the middle between it and the next power, up to `most`."""
    powers = [1 << power for power in range(2, most.bit_length())]
    return sorted({size for power in powers for size in (power, power + 4, power + power // 2) if size <= most})


def num_blocks(size: int, budget: int) -> int:
    """The number of blocks that the budget allows, at most SERIES_BLOCKS."""
    return max(1, min(SERIES_BLOCKS, budget // size))


def driver_series(ask: Ask, allocator: str, budget: int) -> Iterator[Series]:
    """Asks for the series of one of the driver's allocators. `budget`: the most bytes that live at a time."""
    made: list[Series] = []
    for size in sizes_up_to(budget // FEWEST_BLOCKS):
        made.append(ask(allocator, size, num_blocks(size, budget)))
        yield made[-1]
    for series in edges(lambda size: ask(allocator, size, num_blocks(size, budget)), made):
        yield series
        made.append(series)
    smallest = min((slot for slot in slots_of(made).values()), default=512)
    for size in sorted({smallest, 16 * smallest, 128 * smallest}):
        if size <= budget // FEWEST_BLOCKS:
            yield ask(allocator, size, max(FEWEST_BLOCKS, min(FILL_BYTES, budget) // size))


def edges(ask: Callable[[int], Series], made: Sequence[Series]) -> Iterator[Series]:
    """Finds the sizes at which one rule ends and the next begins, and those at which slots change without a rule.

    The search halves the interval between neighbouring sizes until they are a step of 4 apart, or until it has asked for MOST_EDGES series.
    """
    slots = slots_of(made)
    known = sorted(slots)
    stretches = rules_of(slots)
    open_ends: list[tuple[int, int, Rule | None]] = []
    for low, high in zip(known, known[1:], strict=False):
        of_low = next(each for each in stretches if each.first <= low <= each.last)
        if high > of_low.last or (of_low.rule is None and slots[low] != slots[high]):
            open_ends.append((low, high, of_low.rule))
    left = MOST_EDGES
    # Ends: each pass removes an interval, and `left` bounds the passes that add intervals.
    while open_ends and left:
        low, high, rule = open_ends.pop(0)
        middle = (low + high) // 8 * 4
        if middle <= low or middle >= high:
            continue
        left -= 1
        series = ask(middle)
        yield series
        slot = slot_of(series)
        if slot is None:
            continue
        slots[middle] = slot
        if rule is not None:
            open_ends.append((middle, high, rule) if rule.fits(middle, slot) else (low, middle, rule))
        else:
            open_ends += [(*pair, None) for pair in ((low, middle), (middle, high)) if slots[pair[0]] != slots[pair[1]]]


def kernel_series(ask: Ask) -> Iterator[Series]:
    for size in KERNEL_SIZES:
        yield ask(KERNEL, size, KERNEL_BLOCKS)
