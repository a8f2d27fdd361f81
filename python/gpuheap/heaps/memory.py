"""Finds the addresses of memory and of streams that other packages made: CuPy, PyTorch, RMM, Numba, cuda.core, DLPack."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from gpuheap.heaps.failures import InvalidRequest

_CUDA_DEVICES = (2, 13)  # kDLCUDA, kDLCUDAManaged


@dataclass(frozen=True)
class DeviceMemory:
    """A contiguous piece of device memory. `device` is None if it is not known.

    A reference to `owner` keeps the memory alive, except for a pair (address, number of bytes): there the caller must keep it.
    """

    address: int
    num_bytes: int
    owner: object
    device: int | None = None


def stream_address(stream: object) -> int:
    """The cudaStream_t of a stream of CuPy, PyTorch, Numba or cuda.core, as a number. A number is returned unchanged; None gives the default stream, 0.

    Other objects are read in the same way: the address is in `__cuda_stream__`, `cuda_stream`, `ptr` or `handle`. Raises InvalidRequest for an object
    that has none of them.
    """
    if stream is None:
        return 0
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        found = protocol() if callable(protocol) else protocol
        return int(found[1])
    for name in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, name, None)
        if value is not None:
            return int(getattr(value, "value", value) or 0)
    raise InvalidRequest(f"gpuheap: a {type(stream).__name__} was given as the stream: give a stream of CuPy, PyTorch, Numba or cuda.core, or its address")


def device_memory(given: object) -> DeviceMemory:
    """The memory of an array, a tensor or a buffer, or of a pair (address, number of bytes).

    Raises InvalidRequest for anything else, for arrays that are not C-contiguous, and for DLPack arrays that are not in a GPU's memory.
    """
    if isinstance(given, DeviceMemory):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        return DeviceMemory(int(given[0]), int(given[1]), given)
    interface = getattr(given, "__cuda_array_interface__", None)
    if interface is not None:
        return _of_array_interface(given, interface)
    if hasattr(given, "__dlpack__"):
        return _of_dlpack(given)
    if hasattr(given, "ptr") and hasattr(given, "size"):  # rmm.DeviceBuffer, cuda.core.Buffer without the protocols
        pointed: Any = given
        return DeviceMemory(int(pointed.ptr), int(pointed.size), given)
    raise InvalidRequest(
        f"gpuheap: a {type(given).__name__} was given as device memory: give an array of CuPy, Numba or PyTorch, a buffer of RMM, anything with DLPack, "
        "or a pair (address, number of bytes)"
    )


def _of_array_interface(given: object, interface: dict[str, Any]) -> DeviceMemory:
    item = int(interface["typestr"][2:])
    count = 1
    for length in interface["shape"]:
        count *= int(length)
    strides = interface.get("strides")
    if strides is not None and count != 0:
        expected = item
        for length, stride in zip(reversed(interface["shape"]), reversed(strides), strict=True):
            if int(length) > 1 and int(stride) != expected:
                raise InvalidRequest("gpuheap: an array that is not C-contiguous was given as device memory: make it contiguous first")
            expected *= int(length)
    return DeviceMemory(int(interface["data"][0]), item * count, given, _device_of(given))


def _device_of(given: object) -> int | None:
    device = getattr(given, "device", None)
    for name in ("index", "id"):  # torch.device, cupy.cuda.Device
        number = getattr(device, name, None)
        if isinstance(number, int):
            return number
    return None


class DLTensor(ctypes.Structure):
    """DLTensor of DLPack's C interface."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("num_dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def _of_dlpack(given: Any) -> DeviceMemory:
    capsule = given.__dlpack__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)
    tensor = DLTensor.from_address(pointer_of(capsule, b"dltensor"))
    if tensor.device_type not in _CUDA_DEVICES:
        raise InvalidRequest(f"gpuheap: a {type(given).__name__} that is not in a GPU's memory was given as device memory: move it to a GPU first")
    count = 1
    expected: list[int] = []
    for axis in reversed(range(tensor.num_dimensions)):
        expected.insert(0, count)
        count *= int(tensor.shape[axis])
    is_strided = tensor.strides and any(int(tensor.strides[axis]) != expected[axis] and int(tensor.shape[axis]) > 1 for axis in range(tensor.num_dimensions))
    if is_strided and count != 0:
        raise InvalidRequest("gpuheap: an array that is not C-contiguous was given as device memory: make it contiguous first")
    num_bytes = count * int(tensor.bits) * int(tensor.lanes) // 8
    # This function does not consume the capsule, so the capsule's destructor releases the tensor. `given` keeps the memory alive.
    return DeviceMemory(int(tensor.data or 0) + int(tensor.byte_offset), num_bytes, given, int(tensor.device_id))
