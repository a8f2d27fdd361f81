"""The exceptions of a heap. Each text is one line that says what was asked, what there was, and what to do."""

from __future__ import annotations


class HeapError(Exception):
    """A heap could not do what was asked. All exceptions of heaps derive from this class."""


class OutOfMemory(HeapError, MemoryError):
    """The device does not have enough memory for the heap that was asked for."""


class Exhausted(HeapError, MemoryError):
    """Requests in kernels found no memory in the heap."""


class RefusedFrees(HeapError):
    """Kernels freed blocks twice, or freed pointers that the heap never returned."""


class Misused(HeapError):
    """A checked or hardened heap has found a wrong free, or a checked one a write outside of a live block."""


class CudaError(HeapError, RuntimeError):
    """CUDA refused something, or an earlier kernel failed."""


class InvalidRequest(HeapError, ValueError):
    """A request that no heap could serve, such as one of a negative size."""


class ClosedHeap(HeapError, RuntimeError):
    """The heap has been closed."""


class MissingPart(HeapError, ImportError):
    """A library or a package that the call needs is not installed."""
