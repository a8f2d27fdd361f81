"""Compiles CUDA source with NVRTC, and links it with the heap's device functions with nvJitLink. A cache on disk keeps linked programs."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from gpuheap import __version__
from gpuheap.heaps.failures import HeapError, InvalidRequest, MissingPart
from gpuheap.heaps.files import OLDEST_ARCH, device_code, device_source, include_path

_CUBIN, _PTX, _LTO, _FATBIN = 1, 2, 3, 4  # nvJitLinkInputType
_BYTES_OF_KEY = 20
_MOST_REGISTERS = 64  # the limit for the functions that kernels call, so that blocks may have 1024 threads
_MOST_REGISTERS_OF_MALLOC = 32  # the comment at the top of malloc.cu says why


class CompileError(HeapError):
    """The compiler or the linker refused a program. The message contains its log."""


def compile_and_link(source: str, arch: int, options: Sequence[str] = (), names: Sequence[str] = ()) -> tuple[bytes, dict[str, str]]:
    """Returns the machine code of a CUDA source for sm_`arch`, and the symbol of each of `names` (C++ expressions, such as "kernel<float>").

    The source may include gpuheap_device.h. It may also include the library's C++ headers, which take seconds to compile. Raises CompileError if
    NVRTC or nvJitLink refuses the program, InvalidRequest for an architecture that is too old, and MissingPart if a part is not installed.
    """
    if arch < OLDEST_ARCH:
        raise InvalidRequest(f"gpuheap: cannot compile a program for sm_{arch}: heaps need sm_{OLDEST_ARCH} or newer")
    wanted = ["-std=c++20", "--relocatable-device-code=true", f"-I{include_path()}", *options]
    if not any(option.startswith(("-arch", "--gpu-architecture")) for option in options):
        wanted.append(f"-arch=sm_{arch}")
    key = hashlib.sha256(repr((source, arch, wanted, tuple(names), versions(), _digest())).encode()).hexdigest()[: 2 * _BYTES_OF_KEY]
    kept = _kept(key)
    if kept is not None:
        return kept
    code, symbols = _compile(source, wanted, names)
    linked = link([(code, _CUBIN), device_part(arch)], arch)
    _keep(key, linked, symbols)
    return linked, symbols


def device_part(arch: int) -> tuple[bytes, int]:
    """The functions of gpuheap_device.h for sm_`arch`, with their nvJitLinkInputType.

    The nvJitLink of CUDA 12 may refuse code that CUDA 13 has compiled. In that case NVRTC compiles the functions, which takes some seconds once.
    """
    if not _is_of_cuda_12():
        return device_code("fatbin").read_bytes(), _FATBIN
    return _own_part("device.cu", arch, _MOST_REGISTERS), _CUBIN


def malloc_part(arch: int) -> bytes:
    """The machine code that serves CUDA's malloc and free from a heap. The part that handle_part() makes defines the heap's handle.

    NVRTC compiles the code, which takes some seconds once.
    """
    return _own_part("malloc.cu", arch, _MOST_REGISTERS_OF_MALLOC)


def handle_part(handle: int) -> str:
    """PTX that defines the handle of the heap from which malloc_part() serves."""
    return f".version 7.0\n.target sm_{OLDEST_ARCH}\n.address_size 64\n.visible .const .align 8 .u64 gpuheap_v1_served_heap = {handle};\n"


def _own_part(name: str, arch: int, most_registers: int) -> bytes:
    """Compiles one of the package's own sources, or reads the result from the cache."""
    source = device_source(name)
    options = [
        "-std=c++20", "--relocatable-device-code=true", "--device-as-default-execution-space", f"-arch=sm_{arch}", f"--maxrregcount={most_registers}",
        f"-I{include_path()}", f"-I{source.parents[1]}", "-DGPUHEAP_BACKEND_CUDA",
        f"-DGPUHEAP_BACKEND_NAMESPACE={source.stem}_for_c_{__version__.replace('.', '_')}",
    ]  # fmt: skip
    key = hashlib.sha256(repr((_digest_of_sources(), options, versions())).encode()).hexdigest()[: 2 * _BYTES_OF_KEY]
    kept = _kept(key)
    if kept is None:
        kept = _compile(source.read_text(), options, (), str(source))
        _keep(key, *kept)
    return kept[0]


def _is_of_cuda_12() -> bool:
    return versions()[2] < 13


def versions() -> tuple[int, ...]:
    """The versions of NVRTC and nvJitLink: two pairs of a major and a minor number."""
    numbers = [c_int() for _ in range(4)]
    _nvrtc()("nvrtcVersion", ctypes.byref(numbers[0]), ctypes.byref(numbers[1]))
    _nvjitlink()("nvJitLinkVersion", ctypes.byref(numbers[2]), ctypes.byref(numbers[3]))
    return tuple(number.value for number in numbers)


def _compile(source: str, options: Sequence[str], names: Sequence[str], file: str = "kernels.cu") -> tuple[bytes, dict[str, str]]:
    """Compiles a source into machine code. Messages call it `file`. Files that it includes in quotes are looked for in the folder of `file` first."""
    nvrtc = _nvrtc()
    program = c_void_p()
    nvrtc("nvrtcCreateProgram", ctypes.byref(program), source.encode(), file.encode(), 0, None, None)
    try:
        for name in names:
            nvrtc("nvrtcAddNameExpression", program, name.encode())
        given = (c_char_p * len(options))(*[option.encode() for option in options])
        if nvrtc.status("nvrtcCompileProgram", program, len(options), given) != 0:
            raise CompileError(f"gpuheap: NVRTC refuses the program:\n{_text(nvrtc, 'nvrtcGetProgramLog', program)}")
        code = _bytes(nvrtc, "nvrtcGetCUBIN", program)
        symbols = {}
        for name in names:
            lowered = c_char_p()
            nvrtc("nvrtcGetLoweredName", program, name.encode(), ctypes.byref(lowered))
            symbols[name] = (lowered.value or b"").decode()
        return code, symbols
    finally:
        nvrtc.status("nvrtcDestroyProgram", ctypes.byref(program))


def link(parts: Sequence[tuple[bytes, int]], arch: int) -> bytes:
    """Links several parts, each with its nvJitLinkInputType, into one cubin."""
    linker = _nvjitlink()
    handle = c_void_p()
    given = [f"-arch=sm_{arch}".encode()]
    if any(kind == _LTO for _, kind in parts):
        given.append(b"-lto")
    options = (c_char_p * len(given))(*given)
    linker("nvJitLinkCreate", ctypes.byref(handle), len(given), options)
    try:
        for number, (part, kind) in enumerate(parts):
            if linker.status("nvJitLinkAddData", handle, kind, part, c_size_t(len(part)), f"part{number}".encode()) != 0:
                raise CompileError(f"gpuheap: nvJitLink refuses a part for sm_{arch}: {_text(linker, 'nvJitLinkGetErrorLog', handle)}")
        if linker.status("nvJitLinkComplete", handle) != 0:
            raise CompileError(f"gpuheap: nvJitLink cannot link the program for sm_{arch}: {_text(linker, 'nvJitLinkGetErrorLog', handle)}")
        return _bytes(linker, "nvJitLinkGetLinkedCubin", handle)
    finally:
        linker.status("nvJitLinkDestroy", ctypes.byref(handle))


class _Functions:
    """Calls the functions of a C library whose functions return 0 on success."""

    def __init__(self, loaded: ctypes.CDLL, name: str) -> None:
        self._loaded, self._name = loaded, name

    def status(self, function: str, *arguments: object) -> int:
        called: Callable[..., int] = getattr(self._loaded, function)
        return called(*arguments)

    def __call__(self, function: str, *arguments: object) -> None:
        status = self.status(function, *arguments)
        if status != 0:
            raise CompileError(f"gpuheap: {function} of {self._name} fails with status {status}")


def _bytes(functions: _Functions, function: str, of: c_void_p) -> bytes:
    size = c_size_t()
    functions(f"{function}Size", of, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(1, size.value))
    functions(function, of, buffer)
    return buffer.raw[: size.value]


def _text(functions: _Functions, function: str, of: c_void_p) -> str:
    try:
        return _bytes(functions, function, of).rstrip(b"\0").decode(errors="replace").strip()
    except CompileError:
        return "no reason given"


@functools.cache
def _nvrtc() -> _Functions:
    return _Functions(_load("nvrtc", "nvidia-cuda-nvrtc"), "NVRTC")


@functools.cache
def _nvjitlink() -> _Functions:
    return _Functions(_load("nvJitLink", "nvidia-nvjitlink"), "nvJitLink")


def _load(name: str, package: str) -> ctypes.CDLL:
    """Loads a library of the CUDA toolkit from NVIDIA's Python packages, from the loader's search path, or from an installed toolkit."""
    found: list[str] = []
    with contextlib.suppress(Exception):  # the package is missing, or finds no library; its versions raise different exceptions
        from cuda.pathfinder import load_nvidia_dynamic_lib

        found.append(str(load_nvidia_dynamic_lib(name).abs_path))
    sonames = [f"lib{name}.so.{major}" for major in (13, 12)]
    found += sonames
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if variable in os.environ:
            found += [str(Path(os.environ[variable]) / folder / soname) for soname in sonames for folder in ("lib64", "lib")]
    found += [f"/usr/local/cuda/lib64/{soname}" for soname in sonames]
    for path in found:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(path)
    raise MissingPart(f"gpuheap: cannot find {sonames[0]}, which builds kernels: pip install '{package}>=13', or install the CUDA toolkit 13")


def _digest() -> str:
    """A digest of the device code, or of its sources if NVRTC compiles them."""
    return _digest_of_sources() if _is_of_cuda_12() else _digest_of_code()


@functools.cache
def _digest_of_code() -> str:
    return hashlib.sha256(device_code("fatbin").read_bytes()).hexdigest()


@functools.cache
def _digest_of_sources() -> str:
    digest = hashlib.sha256()
    for file in (*sorted(include_path().rglob("*.h*")), *sorted(device_source().parent.glob("*"))):
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _folder() -> Path | None:
    named = os.environ.get("XDG_CACHE_HOME")
    if named and Path(named).is_absolute():
        return Path(named) / "gpuheap" / "linked"
    home = os.environ.get("HOME")
    return Path(home) / ".cache" / "gpuheap" / "linked" if home else None


def _kept(key: str) -> tuple[bytes, dict[str, str]] | None:
    """Reads a linked program from the cache. Its file holds the line `gpuheap`, a line for each symbol, an empty line, the code, and a SHA-256 digest."""
    folder = _folder()
    if folder is None:
        return None
    try:
        content = (folder / key).read_bytes()
    except OSError:
        return None
    body, digest = content[:-32], content[-32:]
    if hashlib.sha256(body).digest() != digest:  # truncated, or damaged
        return None
    head, _, code = body.partition(b"\n\n")
    lines = [line.split("\t") for line in head.decode().splitlines()[1:]]
    return code, {each[0]: each[1] for each in lines}


def _keep(key: str, code: bytes, symbols: dict[str, str]) -> None:
    folder = _folder()
    if folder is None or any("\t" in name or "\n" in name for name in symbols):
        return
    body = ("\n".join(["gpuheap", *(f"{name}\t{symbol}" for name, symbol in symbols.items())]) + "\n\n").encode() + code
    with contextlib.suppress(OSError):  # without a writable folder nothing is cached
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(body + hashlib.sha256(body).digest())
        os.replace(file.name, folder / key)


def as_argument(value: Any) -> Any:
    """Converts an argument of a kernel: a Heap becomes its handle."""
    from gpuheap.heaps.heap import Heap

    return value.handle if isinstance(value, Heap) else value
