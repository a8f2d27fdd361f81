"""libgpuheap.so through ctypes: the structs and functions of gpuheap.h, and its status codes as exceptions."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_char_p, c_int32, c_uint32, c_uint64, c_void_p
from typing import Any

from gpuheap.heaps import failures
from gpuheap.heaps.files import library_path

ABI_VERSION = 1
CURRENT_DEVICE = -1
MEMORY_KINDS = {"device": 0, "managed": 1, "pinned": 2}
ALLOCATORS = {"sharded_spans": 0, "checked": 1, "hardened": 2}


class Options(ctypes.Structure):
    """The struct gpuheap_options of gpuheap.h."""

    _fields_ = (
        ("struct_bytes", c_uint64),
        ("bytes", c_uint64),
        ("at_most_bytes", c_uint64),
        ("buffer", c_void_p),
        ("stream", c_void_p),
        ("device", c_int32),
        ("memory", c_uint32),
        ("allocator", c_uint32),
        ("reserved", c_uint32),
    )


class RawStats(ctypes.Structure):
    """The struct gpuheap_stats of gpuheap.h."""

    _fields_ = (
        ("struct_bytes", c_uint64),
        ("heap_bytes", c_uint64),
        ("usable_bytes", c_uint64),
        ("at_most_bytes", c_uint64),
        ("live_allocations", c_uint64),
        ("live_bytes", c_uint64),
        ("peak_live_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("metadata_bytes", c_uint64),
        ("failed_requests", c_uint64),
        ("first_failed_bytes", c_uint64),
        ("double_frees", c_uint64),
        ("foreign_frees", c_uint64),
        ("first_double_free", c_uint64),
        ("first_foreign_free", c_uint64),
        ("counts_allocations", c_uint32),
        ("counts_bytes", c_uint32),
    )


_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "abi_version": (c_uint32, ()),
    "version": (c_char_p, ()),
    "status_text": (c_char_p, (c_int32,)),
    "last_error": (c_char_p, ()),
    "min_bytes": (c_uint64, ()),
    "create": (c_int32, (POINTER(c_void_p), POINTER(Options))),
    "destroy": (None, (c_void_p,)),
    "handle": (c_void_p, (c_void_p,)),
    "device": (c_int32, (c_void_p,)),
    "reset": (c_int32, (c_void_p, c_void_p)),
    "check": (c_int32, (c_void_p, c_void_p)),
    "get_stats": (c_int32, (c_void_p, POINTER(RawStats), c_void_p)),
    "grow": (c_int32, (c_void_p, c_uint64, c_void_p)),
    "free_blocks": (c_int32, (c_void_p, c_void_p, c_uint64, c_void_p)),
    "free_blocks_on_device": (c_int32, (c_void_p, c_void_p, c_uint64, c_void_p)),
    "copy_to_host": (c_int32, (c_void_p, c_void_p, c_void_p, c_uint64, c_void_p)),
    "copy_from_host": (c_int32, (c_void_p, c_void_p, c_void_p, c_uint64, c_void_p)),
}
_FAILURES: dict[int, type[failures.HeapError]] = {
    1: failures.InvalidRequest,
    2: failures.OutOfMemory,
    3: failures.Exhausted,
    4: failures.RefusedFrees,
    5: failures.CudaError,
    7: failures.Misused,
}


class Library:
    """The loaded library. Functions are named without their prefix `gpuheap_v1_`."""

    def __init__(self, path: str) -> None:
        try:
            loaded = ctypes.CDLL(path)
        except OSError as error:
            raise failures.MissingPart(f"gpuheap: {path} does not load: {error}") from None
        self._functions: dict[str, Any] = {}
        for name, (result, arguments) in _SIGNATURES.items():
            try:
                function = loaded[f"gpuheap_v{ABI_VERSION}_{name}"]
            except AttributeError:
                raise failures.MissingPart(
                    f"gpuheap: {path} has no gpuheap_v{ABI_VERSION}_{name}: it is of another version than this package: install both together"
                ) from None
            function.restype = result
            function.argtypes = arguments
            self._functions[name] = function

    def plain(self, name: str, *arguments: object) -> int:
        """Calls a function that returns a number or an address."""
        answer = self._functions[name](*arguments)
        return int(answer or 0)

    def text(self, name: str, *arguments: object) -> str:
        """Calls a function that returns a text."""
        answer: bytes = self._functions[name](*arguments)
        return answer.decode(errors="replace")

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function that returns a status, and raises the exception for each status but success."""
        status = self.plain(name, *arguments)
        if status != 0:
            raise _FAILURES.get(status, failures.HeapError)(self.text("last_error") or self.text("status_text", status))


@functools.cache
def library() -> Library:
    """The library, which the first call loads. Raises MissingPart if it is missing, or of another version."""
    return Library(str(library_path()))
