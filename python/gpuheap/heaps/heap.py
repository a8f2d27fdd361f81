"""A heap that the host owns and kernels allocate from: gpuheap.Heap."""

from __future__ import annotations

import ctypes
import json
import operator
import weakref
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gpuheap.errors import UserError
from gpuheap.heaps.failures import ClosedHeap, InvalidRequest
from gpuheap.heaps.library import ALLOCATORS, CURRENT_DEVICE, MEMORY_KINDS, Options, RawStats, library
from gpuheap.heaps.memory import device_memory, stream_address
from gpuheap.units import parse_bytes

if TYPE_CHECKING:
    from gpuheap.heaps.block import Block

_ALIGNMENT = 256  # of a heap's memory


@dataclass(frozen=True)
class Growth:
    """The sizes of a heap that grows, in bytes or as "64 MiB": it begins with `initial`, and grows up to `at_most`.

    The heap reserves addresses for `at_most` bytes, which costs no memory.
    """

    initial: int | str
    at_most: int | str


@dataclass(frozen=True)
class Stats:
    """The live blocks of a heap, and the failures since it was made or reset. All sizes are in bytes.

    `live_allocations`, `live_bytes` and `peak_live_bytes` are None if the heap does not count them.
    """

    heap_bytes: int
    usable_bytes: int
    at_most_bytes: int
    live_allocations: int | None
    live_bytes: int | None
    peak_live_bytes: int | None
    held_bytes: int
    metadata_bytes: int
    failed_requests: int
    first_failed_bytes: int
    double_frees: int
    foreign_frees: int

    def json(self) -> str:
        """The statistics as one JSON object, on one line."""
        return json.dumps(asdict(self))


class NativeHeap:
    """The library's heap and its memory. It is destroyed once neither its Heap nor a view of a block refers to it."""

    def __init__(self, options: Options, owner: object) -> None:
        self.library = library()
        made = ctypes.c_void_p()
        self.library.call("create", ctypes.byref(made), ctypes.byref(options))
        self.address = ctypes.c_void_p(made.value)
        self.owner = owner
        # The memory's owner is released after the heap.
        self._end = weakref.finalize(self, _destroy, self.library, self.address, owner)
        self.handle = self.library.plain("handle", self.address)
        self.device = self.library.plain("device", self.address)


def _destroy(loaded: Any, address: ctypes.c_void_p, _owner: object) -> None:
    loaded.plain("destroy", address)


class Heap:
    """Dynamic memory for kernels. Give it one of `size`, `growth` and `buffer`.

    `size`: the heap's size with its bookkeeping, in bytes or as "1 GiB".
    `growth`: the sizes of a heap that grow() enlarges. Its blocks never move.
    `buffer`: device memory of CuPy, PyTorch, RMM, Numba, DLPack, or (address, number of bytes). The heap keeps it alive.
    `device`: the number of the GPU, or a device of PyTorch or CuPy. Default: the buffer's device, else the current one.
    `memory`: "device", "managed" or "pinned". The last two need `size`.
    `allocator`: "sharded_spans", or the same allocator in a heap of another kind. Kernels need no change.
        "hardened": the heap refuses every wrong free, so that it damages nothing, and check() raises Misused for it.
        "checked": a header and a guard lie around each block. check() examines all blocks, and raises Misused for wrong frees and for writes outside of
        live blocks. Such a heap is several times slower, and does not grow.
    `stream`: kernels that are launched on this stream later find the heap ready. Without a stream, the call waits until the heap is ready for all streams.

    Kernels get `handle`. The heap ends when it is closed and no view of a block is left; a `with` statement closes it. Only one thread at a time may
    call its methods. Raises InvalidRequest, OutOfMemory, CudaError, or MissingPart if libgpuheap.so is missing.
    """

    def __init__(
        self,
        size: int | str | None = None,
        *,
        growth: Growth | None = None,
        buffer: object = None,
        device: object = None,
        memory: str = "device",
        allocator: str = "sharded_spans",
        stream: object = None,
    ) -> None:
        self._native: NativeHeap | None = None
        given = [name for name, value in (("size", size), ("growth", growth), ("buffer", buffer)) if value is not None]
        if len(given) != 1:
            found = f"{' and '.join(given)} were given" if given else "none was given"
            raise InvalidRequest(f"gpuheap: a heap is made from one of size, growth and buffer, and {found}")
        if growth is not None and not isinstance(growth, Growth):
            raise InvalidRequest(f"gpuheap: growth={growth!r} was given: give both sizes, as growth=gpuheap.Growth('64 MiB', '16 GiB')")
        if memory not in MEMORY_KINDS:
            raise InvalidRequest(f"gpuheap: memory='{memory}' was asked for: the kinds of memory are {', '.join(MEMORY_KINDS)}")
        if memory != "device" and size is None:
            raise InvalidRequest("gpuheap: memory= was given without size=: give the size of the heap")
        if allocator not in ALLOCATORS:
            raise InvalidRequest(
                f"gpuheap: allocator='{allocator}' was asked for: kernels written in Python can have {', '.join(ALLOCATORS)}; C++ programs "
                "(gpuheap/allocators/) and `gpuheap run` have others"
            )
        if allocator == "checked" and growth is not None:
            raise InvalidRequest("gpuheap: allocator='checked' was asked for with growth=, and a checked heap does not grow: give it a size")
        options = Options(
            struct_bytes=ctypes.sizeof(Options), stream=stream_address(stream), memory=MEMORY_KINDS[memory], allocator=ALLOCATORS[allocator]
        )
        owner: object = None
        if size is not None:
            options.bytes = _bytes(size, "size")
        elif growth is not None:
            options.bytes = _bytes(growth.initial, "growth.initial")
            options.at_most_bytes = _bytes(growth.at_most, "growth.at_most")
        else:
            there = device_memory(buffer)
            owner = there
            skipped = -there.address % _ALIGNMENT
            options.buffer = there.address + skipped
            options.bytes = max(0, there.num_bytes - skipped)
            if device is None:
                device = there.device
        options.device = CURRENT_DEVICE if device is None else _device_number(device)
        self._native = NativeHeap(options, owner)
        if stream is None:
            self.check()

    # Queries.

    @property
    def handle(self) -> int:
        """The value that kernels get: an address in device memory, as an unsigned integer of 64 bits. It is valid until the heap ends."""
        return self.native.handle

    @property
    def device(self) -> int:
        """The number of the GPU that holds the heap."""
        return self.native.device

    @property
    def closed(self) -> bool:
        return self._native is None

    @property
    def native(self) -> NativeHeap:
        """The library's heap, for views, which keep it alive. Raises ClosedHeap after close(), as all methods but close() do."""
        if self._native is None:
            raise ClosedHeap("gpuheap: the heap has been closed: use it inside its `with`, or do not close it")
        return self._native

    def stats(self, stream: object = None) -> Stats:
        """Waits for the stream, and returns the heap's statistics. They are exact if no other stream uses the heap meanwhile."""
        raw = RawStats(struct_bytes=ctypes.sizeof(RawStats))
        self._call("get_stats", ctypes.byref(raw), stream_address(stream))
        return Stats(
            heap_bytes=raw.heap_bytes,
            usable_bytes=raw.usable_bytes,
            at_most_bytes=raw.at_most_bytes,
            live_allocations=raw.live_allocations if raw.counts_allocations else None,
            live_bytes=raw.live_bytes if raw.counts_bytes else None,
            peak_live_bytes=raw.peak_live_bytes if raw.counts_bytes else None,
            held_bytes=raw.held_bytes,
            metadata_bytes=raw.metadata_bytes,
            failed_requests=raw.failed_requests,
            first_failed_bytes=raw.first_failed_bytes,
            double_frees=raw.double_frees,
            foreign_frees=raw.foreign_frees,
        )

    def check(self, stream: object = None) -> None:
        """Waits for the stream, and raises Exhausted, RefusedFrees, Misused or CudaError if something went wrong since the last check.

        No kernel may use a checked heap meanwhile.
        """
        self._call("check", stream_address(stream))

    # Operations.

    def reset(self, stream: object = None) -> None:
        """Frees every block at once, in stream order. No kernel of another stream may use the heap meanwhile."""
        self._call("reset", stream_address(stream))

    def grow(self, more: int | str, stream: object = None) -> None:
        """Enlarges a heap that was made from a Growth by `more` bytes, for kernels launched later on the stream. No kernel may use the heap meanwhile."""
        self._call("grow", _bytes(more, "more"), stream_address(stream))

    def free(self, pointers: object, stream: object = None) -> None:
        """Frees blocks, given as views, as addresses, or as an array of 64-bit addresses on the device or the host. The address 0 is skipped.

        Waits for the stream, except for an array on the device. Such an array is read in stream order, and must stay unchanged until then. Raises
        InvalidRequest for other values.
        """
        if hasattr(pointers, "__cuda_array_interface__") and not hasattr(pointers, "address"):
            listed = device_memory(pointers)
            if int(getattr(pointers, "__cuda_array_interface__")["typestr"][2:]) != 8:  # noqa: B009 (mypy: pointers is an object)
                raise InvalidRequest("gpuheap: addresses have 64 bits: give free() an array of uint64")
            self._call("free_blocks_on_device", listed.address, listed.num_bytes // 8, stream_address(stream))
            return
        addresses = [_address(each, "free()") for each in (pointers if isinstance(pointers, Iterable) else [pointers])]
        self._call("free_blocks", (ctypes.c_void_p * len(addresses))(*addresses), len(addresses), stream_address(stream))

    def view(self, address: int, shape: int | tuple[int, ...], dtype: str = "uint8") -> Block:
        """The memory at `address` as an array of `shape` elements of a NumPy `dtype`, for CuPy, PyTorch, Numba and DLPack. The view keeps the heap alive."""
        from gpuheap.heaps.block import Block

        return Block(self.native, _address(address, "view()"), _lengths(shape), dtype)

    def close(self) -> None:
        """Closes the heap, which no kernel may use any more. Its memory is released once no view of a block is left. A second call does nothing."""
        self._native = None

    def __enter__(self) -> Heap:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<gpuheap.Heap, closed>" if self._native is None else f"<gpuheap.Heap of device {self.device} at {self.handle:#x}>"

    def _call(self, name: str, *arguments: object) -> None:
        native = self.native
        native.library.call(name, native.address, *arguments)


def _bytes(size: int | str, what: str) -> int:
    if isinstance(size, str):
        try:
            return parse_bytes(size, what)
        except UserError as error:
            raise InvalidRequest(f"gpuheap: {error}") from None
    number = _whole(size)
    if number is None or not 0 < number < 1 << 63:
        raise InvalidRequest(f"gpuheap: {what} is {size!r}: give a number of bytes above 0, or a size as '1 GiB'")
    return number


def _whole(value: object) -> int | None:
    """The value of an integer of Python or of another package, or of a float without a fraction, as 1e9; None for everything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _lengths(shape: object) -> tuple[int, ...]:
    one = _whole(shape)
    given = [one] if one is not None else [_whole(length) for length in shape] if isinstance(shape, Iterable) else [None]
    lengths = tuple(length for length in given if length is not None)
    if len(lengths) != len(given):
        raise InvalidRequest(f"gpuheap: a view of shape {shape!r} was asked for: give an integer or a tuple of integers")
    return lengths


def _device_number(device: object) -> int:
    for number in (device, getattr(device, "index", None), getattr(device, "id", None)):  # torch.device, cupy.cuda.Device
        if isinstance(number, int) and not isinstance(number, bool):
            if not 0 <= number < 1 << 31:
                break
            return number
    raise InvalidRequest(f"gpuheap: device={device!r} was asked for: give the number of a GPU, from 0 on, or a device of PyTorch or CuPy that has one")


def _address(pointer: object, taker: str) -> int:
    value: Any = getattr(pointer, "address", pointer)
    try:
        if not isinstance(value, (float, str)):  # a float has too few digits for an address, as where NumPy adds int64 to uint64
            return int(value)
    except (TypeError, ValueError):
        pass
    raise InvalidRequest(f"gpuheap: a {type(pointer).__name__} was given to {taker}: give addresses, as integers, or views of blocks")
