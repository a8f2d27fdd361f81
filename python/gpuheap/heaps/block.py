"""Views of memory in a heap. Array packages use them without a copy, and a view keeps the heap alive."""

from __future__ import annotations

import ctypes
import math
import re
from typing import Any

from gpuheap.heaps.failures import InvalidRequest, MissingPart
from gpuheap.heaps.heap import NativeHeap
from gpuheap.heaps.memory import DLTensor

_KINDS = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bool": "b"}
_DLPACK_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_CUDA_DEVICE = 2


class Block:
    """`shape` elements of `dtype` at `address` in a heap. CuPy, PyTorch and Numba accept it through the CUDA array interface or DLPack.

    Arrays made from it refer to the heap's memory. Neither the view nor such an array frees the block: a kernel or Heap.free does. Raises
    InvalidRequest for the address 0, for a negative length, and for a type that is not numeric.
    """

    def __init__(self, native: NativeHeap, address: int, shape: tuple[int, ...], dtype: str) -> None:
        if address == 0:
            raise InvalidRequest("gpuheap: a view of address 0 was asked for, which is what a request that found no memory gets: see Heap.check")
        if any(length < 0 for length in shape):
            raise InvalidRequest(f"gpuheap: a view of shape {shape} was asked for: lengths are 0 or more")
        self.native = native
        self.address = address
        self.shape = shape
        self.typestr = _typestr(str(dtype))

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * int(self.typestr[2:])

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {"shape": self.shape, "typestr": self.typestr, "data": (self.address, False), "strides": None, "stream": None, "version": 3}

    def __dlpack__(self, *, stream: object = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None, **_: object) -> object:
        """Returns a capsule of DLPack. `stream` has no effect: the caller orders its streams.

        Raises BufferError, as DLPack prescribes, if a copy or another device is asked for.
        """
        if copy:
            raise BufferError("gpuheap: a copy of a block was asked for: take the view, and copy that")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"gpuheap: a block of device {self.native.device} was asked for on the device {tuple(dl_device)}: take the view, and copy that")
        return _capsule(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA_DEVICE, self.native.device

    def cupy(self) -> Any:
        """Returns a cupy.ndarray of the memory, without a copy. Raises MissingPart without CuPy."""
        try:
            import cupy
        except ImportError as error:
            raise MissingPart(f"gpuheap: Block.cupy() needs CuPy: pip install cupy-cuda13x ({error})") from None
        memory = cupy.cuda.UnownedMemory(self.address, self.num_bytes, self, self.native.device)
        return cupy.ndarray(self.shape, dtype=self.typestr, memptr=cupy.cuda.MemoryPointer(memory, 0))

    def torch(self) -> Any:
        """Returns a torch.Tensor of the memory, on the heap's device, without a copy. Raises MissingPart without PyTorch."""
        try:
            import torch
        except ImportError as error:
            raise MissingPart(f"gpuheap: Block.torch() needs PyTorch: pip install torch ({error})") from None
        return torch.as_tensor(self, device=f"cuda:{self.native.device}")

    def numpy(self, stream: object = None) -> Any:
        """Returns a copy as a numpy.ndarray. Waits for the stream. Raises CudaError if the copy fails."""
        import numpy

        from gpuheap.heaps.memory import stream_address

        copy = numpy.empty(self.shape, dtype=self.typestr)
        self.native.library.call("copy_to_host", self.native.address, copy.ctypes.data, self.address, self.num_bytes, stream_address(stream))
        return copy


def _typestr(dtype: str) -> str:
    """A type in the spelling of the array interface: "<f4" for "float32", "<class 'numpy.float32'>" or "<f4"."""
    found = re.search(r"[<|=]?([fiuc])([1248]|16)$", dtype)
    if found:
        return f"{'|' if found[2] == '1' else '<'}{found[1]}{found[2]}"
    named = re.search(r"\b(float|int|uint|complex)(8|16|32|64|128)(?=\W*$)", dtype)
    if named:
        size = int(named[2]) // 8
        return f"{'|' if size == 1 else '<'}{_KINDS[named[1]]}{size}"
    if re.search(r"\bbool_?(?=\W*$)|^\|?b1$", dtype):
        return "|b1"
    raise InvalidRequest(f"gpuheap: a view of dtype '{dtype}' was asked for: give the name of a NumPy type of numbers, as float32")


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _ManagedTensor(ctypes.Structure):
    """The structure DLManagedTensor of DLPack."""

    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))


_exported: dict[int, tuple[_ManagedTensor, Any, NativeHeap]] = {}  # by address, until the consumer calls the deleter


def _forget(address: int | None) -> None:
    _exported.pop(address or 0, None)


_give_back = _DELETER(_forget)


_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype = ctypes.c_char_p
_name_of.argtypes = (ctypes.c_void_p,)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, _DESTRUCTOR)


def _forget_unused(capsule: int | None) -> None:
    """Releases a capsule that no consumer took. A consumer renames the capsule, and calls the deleter itself."""
    if _name_of(capsule) == b"dltensor":
        _forget(_pointer_of(capsule, b"dltensor"))


_drop_unused = _DESTRUCTOR(_forget_unused)


def _capsule(block: Block) -> object:
    shape = (ctypes.c_int64 * max(1, len(block.shape)))(*block.shape)
    managed = _ManagedTensor(deleter=_give_back)
    managed.tensor = DLTensor(
        data=block.address,
        device_type=_CUDA_DEVICE,
        device_id=block.native.device,
        num_dimensions=len(block.shape),
        code=_DLPACK_CODES[block.typestr[1]],
        bits=8 * int(block.typestr[2:]),
        lanes=1,
        shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
    )
    address = ctypes.addressof(managed)
    _exported[address] = (managed, shape, block.native)
    return _new_capsule(address, b"dltensor", _drop_unused)
