"""The allocators' names in the order in which every table and picture shows them."""

from __future__ import annotations

from collections.abc import Iterable

DEFAULT = "sharded_spans"  # the allocator of a heap if the program names none
TOOLKIT = "cuda_malloc"  # the allocator of the CUDA toolkit, which every CUDA program has
ALLOCATORS = (
    "sharded_spans cuda_malloc atomic_malloc atomic_wrap_malloc regeff_c regeff_cf regeff_cm regeff_cfm scatteralloc xmalloc fdgmalloc halloc kma "
    "bulkalloc dynasoar ouroboros_p_s ouroboros_p_va ouroboros_p_vl ouroboros_c_s ouroboros_c_va ouroboros_c_vl gallatin "
    "coalesce_block_header coalesce_block_map coalesce_warp_header coalesce_warp_map coalesce_dynamic"
).split()
BASELINES = ("store_only", "bump_sharded", "scan_malloc", "scan_malloc_async")  # kernels that measure the cost of a case without an allocator
# The ways in which a whole program gets its memory: suites of programs compare them with the allocators.
MODES = ("plain", "device", "zero_copy", "zero_copy_elide", "zero_copy_shared", "unified", "unified_shared")
KINDS = ("hardened", "checked")  # the kinds of heap that the suite `kinds` measures with the default allocator
_VARIANTS = ("without_", "with_")  # the suite `ablation` measures variants of the default allocator, each without one idea or with one more
_PLACE = {name: place for place, name in enumerate([*ALLOCATORS, *MODES, *BASELINES])}


def place(name: str) -> int:
    """The position of a name in tables and pictures. Unknown names come after the allocators and the modes, and before the baselines."""
    return _PLACE.get(name, len(ALLOCATORS) + len(MODES)) if name not in BASELINES else 1000 + _PLACE[name]


def is_known(name: str) -> bool:
    """Whether the name is that of an allocator, a mode or a baseline in the repository."""
    return name in _PLACE


def is_rival(name: str) -> bool:
    """Whether a program can choose the allocator: it is no baseline, no mode, no kind of heap, and no variant of the suite `ablation`."""
    return name not in (*BASELINES, *MODES, *KINDS) and not name.startswith(_VARIANTS)


def legend(name: str) -> str:
    """The name in the legends of pictures: the project's name stands before that of the default allocator."""
    return f"gpuheap ({name})" if name == DEFAULT else name


def ordered(names: Iterable[str]) -> list[str]:
    return sorted(set(names), key=lambda name: (place(name), name))
