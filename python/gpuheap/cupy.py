"""CuPy kernels with dynamic memory: RawModule and RawKernel that know the heap's headers and link its functions.

    import cupy, gpuheap, gpuheap.cupy

    kernel = gpuheap.cupy.RawKernel(r'''
    #include <gpuheap_device.h>
    extern "C" __global__ void build(gpuheap_handle heap, void** out) {
      unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
      out[i] = gpuheap_malloc(heap, 16);
    }''', "build")

    with gpuheap.Heap("1 GiB") as heap:
        out = cupy.empty(1024, dtype=cupy.uint64)
        kernel((4,), (256,), (heap, out))
        heap.check()

A Heap among the arguments is passed as its handle. Compiled code is kept on disk. Code may include the library's C++ headers
(gpuheap/heap_ref.hpp) in place of gpuheap_device.h. Such code takes seconds to compile the first time.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuheap.heaps.compiler import as_argument, compile_and_link
from gpuheap.heaps.failures import InvalidRequest, MissingPart

try:
    import cupy
except ImportError as _error:
    raise MissingPart(f"gpuheap: gpuheap.cupy needs CuPy: pip install cupy-cuda13x ({_error})") from None

__all__ = ["Kernel", "RawKernel", "RawModule"]


# The attributes of a kernel that CuPy lets a program set.
_SETTINGS = ("max_dynamic_shared_size_bytes", "preferred_shared_memory_carveout")


class Kernel:
    """A kernel of a RawModule. It is called as a kernel of CuPy is, and its arguments may contain Heaps.

    It has the attributes of CuPy's kernel, such as num_regs, for the current device.
    """

    def __init__(self, module: RawModule, name: str) -> None:
        self._module, self.name = module, name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.native, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in _SETTINGS:
            setattr(self.native, name, value)
        else:
            super().__setattr__(name, value)

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[object], *, shared_mem: int = 0) -> None:
        """Launches the kernel on CuPy's current stream, and does not wait for it. `shared_mem` is the dynamic shared memory of a block in bytes."""
        self.native(grid, block, tuple(as_argument(each) for each in args), shared_mem=shared_mem)

    @property
    def native(self) -> Any:
        """CuPy's own kernel, for the current device."""
        return self._module.for_current_device().get_function(self._module.symbol(self.name))


class RawModule:
    """Like cupy.RawModule made from `code`, with the heap's functions linked. `options` are options of NVRTC; the default language is C++20.

    `name_expressions` are the template kernels that get_function() accepts, as "build<float>".
    """

    def __init__(self, code: str, *, options: Sequence[str] = (), name_expressions: Sequence[str] = ()) -> None:
        self.code, self.options, self.names = code, tuple(options), tuple(name_expressions)
        self._symbols: dict[str, str] = {}
        self._loaded: dict[int, Any] = {}  # by device

    def compile(self) -> None:
        """Compiles and links the code for the current device now. Without this call the first launch does so."""
        self.for_current_device()

    def get_function(self, name: str) -> Kernel:
        """Returns a kernel: an extern "C" function, or one of the name expressions."""
        return Kernel(self, name)

    def symbol(self, name: str) -> str:
        """The name of a kernel in the linked code. Compiles the code if that has not been done."""
        self.for_current_device()
        return self._symbols.get(name, name)

    def get_global(self, name: str) -> Any:
        """A pointer to a variable of the module, as cupy.RawModule.get_global gives it."""
        return self.for_current_device().get_global(name)

    def for_current_device(self) -> Any:
        """The cupy.RawModule for the current device, compiled and linked at the first call for it."""
        device = cupy.cuda.Device()
        if device.id not in self._loaded:
            code, self._symbols = compile_and_link(self.code, int(device.compute_capability), (*self.options, *_includes()), self.names)
            self._loaded[device.id] = _load(code)
        return self._loaded[device.id]


class RawKernel(Kernel):
    """Like cupy.RawKernel, with the heap's functions linked: a module of one kernel."""

    def __init__(self, code: str, name: str, options: Sequence[str] = ()) -> None:
        if not name:
            raise InvalidRequest("gpuheap: RawKernel was given no name: give that of the kernel in the code")
        templated = "<" in name
        super().__init__(RawModule(code, options=options, name_expressions=(name,) if templated else ()), name)


def _includes() -> list[str]:
    """The option that finds CuPy's copy of libcu++, which gpuheap's C++ headers include; no option if CuPy has no copy."""
    folder = Path(cupy.__file__).parent / "_core" / "include" / "cupy" / "_cccl" / "libcudacxx"
    return [f"-I{folder}"] if folder.is_dir() else []


def _load(code: bytes) -> Any:
    """Loads linked code into the current device. The code goes through a file, because CuPy loads linked code from files only."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"{hashlib.sha256(code).hexdigest()[:16]}.cubin")
        Path(path).write_bytes(code)
        module = cupy.RawModule(path=path)
        module.compile()
        return module
