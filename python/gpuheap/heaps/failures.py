"""The exceptions of a heap. Each text is one line that says what was asked, what there was, and what to do."""

from __future__ import annotations


class HeapError(Exception):
    """Anything that a heap could not do."""


class OutOfMemory(HeapError, MemoryError):
    """The device has not enough memory for the heap that was asked for."""


class Exhausted(HeapError, MemoryError):
    """Requests in kernels found no memory in the heap."""


class RefusedFrees(HeapError):
    """Kernels freed blocks twice, or pointers that are none of the heap's."""


class Misused(HeapError):
    """A checked or hardened heap has found a wrong free, or a checked one a write outside of a live block."""


class CudaError(HeapError, RuntimeError):
    """CUDA refused something, or an earlier kernel failed."""


class InvalidRequest(HeapError, ValueError):
    """A request that no heap could serve, such as one of a negative size."""


class ClosedHeap(HeapError, RuntimeError):
    """The heap has been closed."""


class MissingPart(HeapError, ImportError):
    """A library or a package that is needed for this is not installed."""
