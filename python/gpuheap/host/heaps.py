"""The mode heap:NAME: finds the allocator's library, and computes the size of the heap."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.host.history import History
from gpuheap.host.sites import peaks_of
from gpuheap.paths import Layout
from gpuheap.units import parse_bytes

PREFIX = "heap:"
DEFAULT_BYTES = 1 << 30  # the size of a heap without a profile
_VERSION = 1  # the version in tools/host/heap_interface.hpp


class _Head(ctypes.Structure):
    """The first fields of the library's table of functions."""

    _fields_ = (("version", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("allocator", ctypes.c_char_p), ("refusal", ctypes.c_char_p))


def find_heap(mode: str, library: Path, layout: Layout) -> Path:
    """The library of a mode's allocator. The call loads the library to ask whether it can serve, which uses no GPU.

    Raises UserError if the name is not an allocator's, if its library is not built, or if it cannot take the place of the driver's allocator.
    """
    name = mode.removeprefix(PREFIX)
    names = re.findall(r"^gpuheap_allocator\(NAME (\w+)", (layout.root / "cmake" / "allocators.cmake").read_text(), re.MULTILINE)
    if name not in names:
        raise UserError(f"--mode: '{name}' is not an allocator: there are {', '.join(names)}")
    named = os.environ.get("GPUHEAP_HOST_HEAPS")
    folders = [Path(named)] if named else [library.parent / "heaps", layout.build / "cuda" / "tools" / "host" / "heaps"]
    places = [folder / f"libgpuheap_host_heap_{name}.so" for folder in folders]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        build = f"cmake --preset cuda -DGPUHEAP_BUILD_TESTS=OFF && cmake --build --preset cuda --target gpuheap_host_heap_{name}"
        where = f"{layout.root} (./demo puts cmake into build/venv/bin)"
        raise UserError(f"--mode: the heap of '{name}' is not built ({places[0]} is not there): run {build} in {where}")
    head = _head(path)
    if head.refusal:
        raise UserError(f"E08: the allocator '{name}' cannot serve cudaMalloc: {head.refusal.decode()}; choose another allocator")
    return path.resolve()


def _head(path: Path) -> _Head:
    try:
        entry = ctypes.CDLL(str(path)).gpuheap_host_heap
    except (OSError, AttributeError) as error:
        raise UserError(f"{path} is not a heap library: {error}") from None
    entry.restype = ctypes.POINTER(_Head)
    head: _Head = entry().contents
    if head.version != _VERSION:
        raise UserError(f"{path} is of another version of gpuheap: build it again")
    return head


def heap_bytes(asked: str | None, history: History | None) -> int:
    """The size of each device's heap in bytes: a multiple of 512.

    Without `asked`, it is eight times the profile's peak of live bytes plus 64 MiB, because allocators divide a heap among sizes. It is at most half of
    the device's memory, unless the live bytes plus 64 MiB are more.
    """
    if asked is not None:
        return max(parse_bytes(asked, "--heap-bytes") // 512, 1) * 512
    if history is None:
        return DEFAULT_BYTES
    live = max((peak.bytes for peak in peaks_of(history) if peak.memory == "device"), default=0)
    total = min((total for _, total in history.trace.devices.values()), default=0)
    wanted = 8 * live + (64 << 20)
    return (max(live + (64 << 20), min(wanted, total // 2)) if total else wanted) // 512 * 512
