"""One colour for each family of allocators and one marker for each of its members, the same in every picture."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from gpuheap.catalogue import DEFAULT
from gpuheap.report.charts import Series

CURVE_DASHES = ("", "--", "-.", ":")  # the dashes of an allocator's curves: the first is solid
DENSE = 24  # a sweep of more points has small markers
FAILURE_ROWS = 3  # the rows of crosses above a chart


@dataclass(frozen=True)
class Look:
    colour: str  # visible on a light and on a dark background
    marker: str  # as matplotlib names it
    dashes: str = "-"
    emphasis: bool = False


# Variants of one publication are a family. The fourteen colours differ as much as possible, while each is visible on white and on near-black.
_FAMILIES: dict[str, tuple[str, dict[str, str]]] = {
    "sharded_spans": ("#e8590c", {"sharded_spans": "o"}),
    "cuda_malloc": ("#2f9e44", {"cuda_malloc": "s"}),
    "atomic": ("#54696f", {"atomic_malloc": "v", "atomic_wrap_malloc": "^"}),
    "regeff": ("#bf69f2", {"regeff_c": "<", "regeff_cf": ">", "regeff_cm": "v", "regeff_cfm": "^"}),
    "scatteralloc": ("#0364ea", {"scatteralloc": "P"}),
    "xmalloc": ("#88913f", {"xmalloc": "X"}),
    "fdgmalloc": ("#cf9854", {"fdgmalloc": "d"}),
    "halloc": ("#fb6fbe", {"halloc": "D"}),
    "kma": ("#95518c", {"kma": "p"}),
    "bulkalloc": ("#ec7a7a", {"bulkalloc": "h"}),
    "dynasoar": ("#406c0d", {"dynasoar": "*"}),
    "ouroboros": (
        "#0784ce",
        {
            "ouroboros_p_s": "o",
            "ouroboros_p_va": "s",
            "ouroboros_p_vl": "D",
            "ouroboros_c_s": "^",
            "ouroboros_c_va": "v",
            "ouroboros_c_vl": "P",
        },
    ),
    "gallatin": ("#b5214e", {"gallatin": "s"}),
    "coalesce": (
        "#8d664b",
        {
            "coalesce_block_header": "o",
            "coalesce_block_map": "s",
            "coalesce_warp_header": "D",
            "coalesce_warp_map": "^",
            "coalesce_dynamic": "v",
        },
    ),
}
_LOOKS = {
    name: Look(colour, marker, emphasis=name == DEFAULT) for colour, members in _FAMILIES.values() for name, marker in members.items()
} | {
    "store_only": Look("#98a0a8", "x", "--"),
    "bump_sharded": Look("#98a0a8", "+", ":"),
    "scan_malloc": Look("#98a0a8", "d", "--"),
    "scan_malloc_async": Look("#98a0a8", "p", ":"),
}


def look(allocator: str) -> Look:
    """The look of an allocator. An allocator that the list lacks gets a look that depends on its name only."""
    known = _LOOKS.get(allocator)
    if known is not None:
        return known
    number = zlib.crc32(allocator.encode())
    return Look(_SPARE_COLOURS[number % len(_SPARE_COLOURS)], _SPARE_MARKERS[number // 16 % len(_SPARE_MARKERS)], "-.")


def has_spread(series: Series) -> bool:
    """Whether the runs of a series differ so much that the band between their percentiles is visible."""
    return any(mark.high > 1.15 * mark.low for mark in series.marks) and all(mark.low > 0 for mark in series.marks)


def family_of(allocator: str) -> str:
    """The name of an allocator's family, which the variants of one publication share; for an allocator without a family, its own name."""
    return next((family for family, (_, members) in _FAMILIES.items() if allocator in members), allocator)


_SPARE_COLOURS = ("#5c7cfa", "#20a98a", "#e0709a", "#a98600", "#a06cd5", "#d1701f", "#5f9ea0", "#7d8f3a")
_SPARE_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "d")

# The same markers as paths in a box from -5 to 5, for legends in HTML.
MARKER_PATHS = {
    "o": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "s": "M-3.6-3.6h7.2v7.2h-7.2z",
    "D": "M0-4.8L4.8 0 0 4.8-4.8 0z",
    "d": "M0-4.8L3.2 0 0 4.8-3.2 0z",
    "^": "M0-4.4L4.4 3.6h-8.8z",
    "v": "M0 4.4L4.4-3.6h-8.8z",
    "<": "M-4.4 0L3.6-4.4v8.8z",
    ">": "M4.4 0L-3.6-4.4v8.8z",
    "P": "M-1.5-4.4h3v2.9h2.9v3h-2.9v2.9h-3v-2.9h-2.9v-3h2.9z",
    "X": "M-4.2-2.2l2-2L0-2l2.2-2.2 2 2L2 0l2.2 2.2-2 2L0 2l-2.2 2.2-2-2L-2 0z",
    "p": "M0-4.4L4.2-1.4 2.6 3.6h-5.2L-4.2-1.4z",
    "h": "M0-4.4L3.8-2.2v4.4L0 4.4-3.8 2.2v-4.4z",
    "*": "M0-4.8L1.2-1.6 4.6-1.5 1.9.6 2.8 3.9 0 2-2.8 3.9-1.9.6-4.6-1.5-1.2-1.6z",
    "x": "M-3.6-4.4L0-.8l3.6-3.6.8.8L.8 0l3.6 3.6-.8.8L0 .8l-3.6 3.6-.8-.8L-.8 0l-3.6-3.6z",
    "+": "M-.6-4.6H.6V-.6h4V.6h-4v4H-.6v-4h-4V-.6h4z",
}
