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

A Heap among the arguments is passed as its handle. Compiled code is kept on disk. A program may include the library's C++ headers instead
(gpuheap/heap_ref.hpp), which takes seconds to compile the first time.
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


# What CuPy lets a program set of a kernel.
_SETTINGS = ("max_dynamic_shared_size_bytes", "preferred_shared_memory_carveout")


class Kernel:
    """A kernel of a RawModule: called as CuPy's are, and Heaps may be among the arguments. Its attributes are those of CuPy's, as num_regs, for the
    current device."""

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
        """Launches it on CuPy's current stream."""
        self.native(grid, block, tuple(as_argument(each) for each in args), shared_mem=shared_mem)

    @property
    def native(self) -> Any:
        """CuPy's own kernel, for the current device."""
        return self._module.for_current_device().get_function(self._module.symbol(self.name))


class RawModule:
    """Like cupy.RawModule made from `code`, with the heap's functions linked. `options` are NVRTC's, C++20 is the default.

    `name_expressions`: kernels that are templates, as "build<float>", which get_function() then takes.
    """

    def __init__(self, code: str, *, options: Sequence[str] = (), name_expressions: Sequence[str] = ()) -> None:
        self.code, self.options, self.names = code, tuple(options), tuple(name_expressions)
        self._symbols: dict[str, str] = {}
        self._loaded: dict[int, Any] = {}  # by device

    def compile(self) -> None:
        """Compiles and links for the current device now, which the first launch does else."""
        self.for_current_device()

    def get_function(self, name: str) -> Kernel:
        """A kernel: extern "C", or one of the name expressions."""
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
    """libcu++, of which CuPy brings its own, for the C++ headers."""
    folder = Path(cupy.__file__).parent / "_core" / "include" / "cupy" / "_cccl" / "libcudacxx"
    return [f"-I{folder}"] if folder.is_dir() else []


def _load(code: bytes) -> Any:
    """CuPy loads modules from files."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"{hashlib.sha256(code).hexdigest()[:16]}.cubin")
        Path(path).write_bytes(code)
        module = cupy.RawModule(path=path)
        module.compile()
        return module
