"""One colour and one marker for each allocator, the same in every picture."""

from __future__ import annotations

import zlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    colour: str  # visible on light and on dark ground
    marker: str  # as matplotlib names it
    dashes: str = "-"
    emphasis: bool = False


_LOOKS = {
    "gpuheap": Look("#e8590c", "o", emphasis=True),
    "cuda": Look("#2f9e44", "s"),
    "atomic": Look("#7b8794", "v"),
    "atomic_wrap": Look("#4c7fd6", "^"),
    "regeff_c": Look("#9c36b5", "<"),
    "regeff_cf": Look("#b04fc9", ">"),
    "regeff_cm": Look("#c36bdb", "v"),
    "regeff_cfm": Look("#8a3aa3", "^"),
    "scatteralloc": Look("#1c7ed6", "P"),
    "xmalloc": Look("#0ca678", "X"),
    "fdgmalloc": Look("#d98a00", "d"),
    "halloc": Look("#d6336c", "D"),
    "kma": Look("#845ef7", "p"),
    "bulkalloc": Look("#6a55d8", "h"),
    "dynasoar": Look("#6f9a1c", "*"),
    "ouroboros_p_s": Look("#1098ad", "o"),
    "ouroboros_p_va": Look("#15a0b5", "s"),
    "ouroboros_p_vl": Look("#24acc2", "D"),
    "ouroboros_c_s": Look("#0b7f94", "^"),
    "ouroboros_c_va": Look("#2b8fa1", "v"),
    "ouroboros_c_vl": Look("#3fb3c8", "P"),
    "gallatin": Look("#c93a3a", "s"),
    "coalesce_block_header": Look("#a5673f", "o"),
    "coalesce_block_map": Look("#b3764e", "s"),
    "coalesce_warp_header": Look("#94572f", "D"),
    "coalesce_warp_map": Look("#c0855e", "^"),
    "coalesce_dynamic": Look("#8a6a50", "v"),
    "store_only": Look("#98a0a8", "x", "--"),
    "bump_sharded": Look("#98a0a8", "+", ":"),
    "scan_malloc": Look("#98a0a8", "d", "--"),
    "scan_malloc_async": Look("#98a0a8", "p", ":"),
}


def look(allocator: str) -> Look:
    """A name that the list lacks gets one that depends on the name only."""
    known = _LOOKS.get(allocator)
    if known is not None:
        return known
    number = zlib.crc32(allocator.encode())
    return Look(_SPARE_COLOURS[number % len(_SPARE_COLOURS)], _SPARE_MARKERS[number // 16 % len(_SPARE_MARKERS)])


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
