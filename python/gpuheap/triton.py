"""Dynamic memory in Triton programs: a block for each program, and a block for each element of a tensor.

    import gpuheap, gpuheap.triton as gt

    @triton.jit
    def kernel(heap, counts, out, B: tl.constexpr):
        n = tl.load(counts + tl.program_id(0))
        p = gt.malloc(heap, n * 4)                    # one block for the program: its address, or 0 if the heap has no room
        i = tl.arange(0, B)
        tl.store(p.to(tl.pointer_type(tl.float32)) + i, i.to(tl.float32), mask=(i < n) & (p != 0))
        tl.store(out + tl.program_id(0), p)

    with gpuheap.Heap("1 GiB") as heap:
        kernel[(1024,)](heap.handle, counts, out, B=256, extern_libs=gt.extern_libs())
        heap.check()

`heap` is Heap.handle, an integer. A launch needs `extern_libs`.

All threads of a program make these calls together and wait for each other. So a call must not stand under a condition that differs within a program;
conditions written in Triton never do. Nor must it stand in code that Triton specialises by warp (tl.range(..., warp_specialize=True)): there malloc()
returns 0, and free() does nothing. A program of several CTAs (num_ctas above 1) raises InvalidRequest when it is compiled.
"""

from __future__ import annotations

from typing import Any

from gpuheap.heaps.failures import InvalidRequest, MissingPart
from gpuheap.heaps.files import device_code

try:
    import triton
    import triton.language as tl
    from triton.language import core
except ImportError as _error:
    raise MissingPart(f"gpuheap: gpuheap.triton needs Triton 3.6 or newer: pip install triton ({_error})") from None

__all__ = ["extern_libs", "free", "free_each", "malloc", "malloc_each"]

_WORD, _INT = core.dtype("int64"), core.dtype("int32")
_WARP = 32


def extern_libs() -> dict[str, str]:
    """The value for `extern_libs` of a launch: a dictionary, to which a program may add other libraries. Raises MissingPart."""
    return {"gpuheap": str(device_code("bitcode"))}


def _call(semantic: Any, name: str, result: Any, arguments: list[Any], *, by_program: bool) -> Any:
    """Calls a device function with 64-bit arguments and, if `by_program`, with the number of threads of a program."""
    options = semantic.builder.options
    if getattr(options, "num_ctas", 1) != 1:
        raise InvalidRequest(f"gpuheap: a Triton program of num_ctas={options.num_ctas} asks for memory, and each CTA would get its own block: use num_ctas=1")
    given = [semantic.cast(semantic.to_tensor(_value(each)), _WORD) for each in arguments]
    kinds: tuple[Any, ...] = (_WORD,) * len(given)
    if by_program:
        if any(each.type.is_block() for each in given):
            raise InvalidRequest("gpuheap: gpuheap.triton.malloc and free take one size or address for a program: for a tensor use malloc_each, free_each")
        given.append(semantic.to_tensor(options.num_warps * _WARP))
        kinds += (_INT,)
    symbols = {kinds: (f"gpuheap_v1_{name}", result)}
    return core.extern_elementwise("gpuheap", "", given, symbols, is_pure=False, _semantic=semantic)


def _value(given: Any) -> Any:
    return given.value if isinstance(given, core.constexpr) else given


@core.extern  # type: ignore[untyped-decorator]
def malloc(heap: Any, num_bytes: Any, _semantic: Any = None) -> Any:
    """One block of `num_bytes` for the program: its address as an int64, aligned to 16 bytes and not initialised; 0 if the heap has no room."""
    return _call(_semantic, "malloc_program", _WORD, [heap, num_bytes], by_program=True)


@core.extern  # type: ignore[untyped-decorator]
def free(heap: Any, address: Any, _semantic: Any = None) -> Any:
    """Frees a block. Returns 0 if it was freed, 1 for the address 0, 2 if it is not a block of the heap, and 3 if it was free already."""
    return _call(_semantic, "free_program", _INT, [heap, address], by_program=True)


@core.extern  # type: ignore[untyped-decorator]
def _open_slots(heap: Any, count: Any, _semantic: Any = None) -> Any:
    return _call(_semantic, "open_slots", _WORD, [heap, count], by_program=True)


@core.extern  # type: ignore[untyped-decorator]
def _close_slots(heap: Any, slots: Any, _semantic: Any = None) -> Any:
    return _call(_semantic, "close_slots", _INT, [heap, slots], by_program=True)


@core.extern  # type: ignore[untyped-decorator]
def _malloc_slot(heap: Any, slots: Any, num_bytes: Any, _semantic: Any = None) -> Any:
    return _call(_semantic, "malloc_slot", _INT, [heap, slots, num_bytes], by_program=False)


@core.extern  # type: ignore[untyped-decorator]
def _free_slot(heap: Any, slots: Any, addresses: Any, _semantic: Any = None) -> Any:
    return _call(_semantic, "free_slot", _INT, [heap, slots, addresses], by_program=False)


@core.extern  # type: ignore[untyped-decorator]
def _read_slot(slots: Any, _semantic: Any = None) -> Any:
    return _call(_semantic, "read_slot", _WORD, [slots], by_program=False)


# Several threads may hold the same element, and each of them runs the functions below for it. So each element has a word in memory, its slot: the
# first of these threads that takes the slot serves the element, and all of them read the answer from it.


@triton.jit
def malloc_each(heap, num_bytes, mask):  # type: ignore[no-untyped-def]
    """A block for each element of a 1-D tensor of sizes in bytes. Returns the addresses as a tensor of int64.

    The address is 0 where `mask` is false, where the size is 0, and where the heap has no room. Any program may free each block by itself, with
    free_each() or free().
    """
    tl.static_assert(len(num_bytes.shape) == 1, "gpuheap: malloc_each takes a 1-D tensor of sizes")
    first = _open_slots(heap, num_bytes.shape[0])
    slots = tl.where(mask & (num_bytes > 0) & (first != 0), first + 8 * tl.arange(0, num_bytes.shape[0]), 0)
    _malloc_slot(heap, slots, num_bytes)
    tl.debug_barrier()
    addresses = _read_slot(slots)
    _close_slots(heap, first)
    return addresses


@triton.jit
def free_each(heap, addresses, mask):  # type: ignore[no-untyped-def]
    """Frees the blocks of a 1-D tensor of addresses where `mask` is true. The address 0 is skipped.

    A tensor of more than 1024 elements needs 8 bytes of the heap for each element during the call. If the heap has no room for them, the call frees
    nothing and returns False. Otherwise it returns True.
    """
    tl.static_assert(len(addresses.shape) == 1, "gpuheap: free_each takes a 1-D tensor of addresses")
    first = _open_slots(heap, addresses.shape[0])
    slots = tl.where(mask & (addresses != 0) & (first != 0), first + 8 * tl.arange(0, addresses.shape[0]), 0)
    _free_slot(heap, slots, addresses)
    _close_slots(heap, first)
    return first != 0
