"""gpuheap: dynamic memory for GPU kernels written in Python, the recorded evaluation, and the command line of the library's tools.

`gpuheap.Heap` is a heap. Kernels written with Numba, CuPy and Triton allocate through gpuheap.numba, gpuheap.cupy and gpuheap.triton. results(),
claims(), advise() and allocators() answer from the recorded tables. Importing gpuheap imports none of these three modules, and no third-party package.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuheap.evaluation import advise, allocators, claims, results
    from gpuheap.heaps.block import Block
    from gpuheap.heaps.failures import ClosedHeap, CudaError, Exhausted, HeapError, InvalidRequest, MissingPart, Misused, OutOfMemory, RefusedFrees
    from gpuheap.heaps.files import cmake_path, device_code, include_path
    from gpuheap.heaps.heap import Growth, Heap, Stats

# The module that defines each public name: loaded when the name is first asked for.
_PUBLIC = {
    "Block": "heaps.block",
    **dict.fromkeys(("Heap", "Growth", "Stats"), "heaps.heap"),
    **dict.fromkeys(("include_path", "cmake_path", "device_code"), "heaps.files"),
    **dict.fromkeys(
        ("HeapError", "OutOfMemory", "Exhausted", "RefusedFrees", "Misused", "CudaError", "InvalidRequest", "ClosedHeap", "MissingPart"), "heaps.failures"
    ),
    **dict.fromkeys(("results", "claims", "advise", "allocators"), "evaluation"),
}
__all__ = [
    "Block", "ClosedHeap", "CudaError", "Exhausted", "Growth", "Heap", "HeapError", "InvalidRequest", "MissingPart", "Misused", "OutOfMemory",
    "RefusedFrees", "Stats", "advise", "allocators", "claims", "cmake_path", "device_code", "include_path", "results",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'gpuheap' has no attribute '{name}'")
    return getattr(importlib.import_module(f"gpuheap.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    """The names that a prompt or a notebook completes."""
    return sorted({*globals(), *__all__})


def _version() -> str:
    """The version in version.hpp of the checkout or the installed package; without that header, the version in the package's metadata."""
    package = Path(__file__).resolve().parent
    header = next((path for path in (package, package.parents[1]) if (path / "include" / "gpuheap" / "version.hpp").is_file()), None)
    if header is None:
        from importlib import metadata  # imported here because it is slow to import and rarely needed

        try:
            return metadata.version("gpuheap")
        except metadata.PackageNotFoundError:  # the package's folder was copied, not installed
            return "0+unknown"
    return ".".join(re.findall(r"define GPUHEAP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", (header / "include" / "gpuheap" / "version.hpp").read_text()))


__version__ = _version()
