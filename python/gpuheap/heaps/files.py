"""Finds the installed parts: the library, device code for linkers, headers, CMake files."""

from __future__ import annotations

import os
from pathlib import Path

from gpuheap.heaps.failures import InvalidRequest, MissingPart

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[1]
OLDEST_ARCH = 75
KINDS = {"fatbin": "gpuheap.fatbin", "lto": "gpuheap.lto.fatbin", "bitcode": "gpuheap.bc"}


def include_path() -> Path:
    """The folder for a compiler's -I, which holds gpuheap/heap.hpp, gpuheap.h and gpuheap_device.h. Raises MissingPart if there is none."""
    for folder in (_PACKAGE / "include", _CHECKOUT / "include"):
        if (folder / "gpuheap_device.h").is_file():
            return folder
    raise MissingPart(f"gpuheap: no headers in {_PACKAGE / 'include'}: install the wheel again, or use the package of a whole checkout")


def cmake_path() -> Path:
    """The folder for CMAKE_PREFIX_PATH. With it, find_package(gpuheap) defines the target gpuheap::gpuheap. Raises MissingPart if there is none."""
    folder = _PACKAGE / "cmake"
    if (folder / "gpuheap-config.cmake").is_file():
        return folder
    raise MissingPart(f"gpuheap: no CMake files in {folder}, which the wheel has: install it, or use add_subdirectory({_CHECKOUT})")


def device_code(kind: str = "fatbin", arch: int | None = None) -> Path:
    """The file with the functions of gpuheap_device.h that a linker takes.

    `kind`: "fatbin", relocatable machine code and PTX; "lto", link-time code for nvJitLink; "bitcode", for LLVM. Each file serves every device of
    compute capability 7.5 or newer. `arch`, as 90 for sm_90, is only checked: the call raises InvalidRequest if it is too old. Raises MissingPart
    if the file is not there.
    """
    if kind not in KINDS:
        raise InvalidRequest(f"gpuheap: device code of the kind '{kind}' was asked for: the kinds are {', '.join(KINDS)}")
    if arch is not None and arch < OLDEST_ARCH:
        raise InvalidRequest(f"gpuheap: device code for sm_{arch} was asked for: the oldest is sm_{OLDEST_ARCH}")
    return _built(KINDS[kind], "device", "gpuheap_capi_code")


def device_source(name: str = "device.cu") -> Path:
    """A CUDA source of device code, to be compiled by the user's own compiler. It includes files from the folder above its own.

    "device.cu": the functions of gpuheap_device.h. "malloc.cu": CUDA's malloc and free, from one heap.
    """
    for folder in (_PACKAGE / "device" / "source", _CHECKOUT):
        if (folder / "capi" / name).is_file():
            return folder / "capi" / name
    raise MissingPart(f"gpuheap: no source of device code in {_PACKAGE / 'device' / 'source'}: install the wheel again, or use the package of a whole checkout")


def library_path() -> Path:
    """The path of libgpuheap.so: the file that GPUHEAP_LIBRARY names, else that of the wheel or of the checkout's newest build. Raises MissingPart."""
    named = os.environ.get("GPUHEAP_LIBRARY")
    if named is not None:
        if not Path(named).is_file():
            raise MissingPart(f"gpuheap: GPUHEAP_LIBRARY is '{named}', which is no file: unset it, or name libgpuheap.so")
        return Path(named)
    return _built("libgpuheap.so", "lib", "gpuheap_capi")


def _built(name: str, folder: str, target: str) -> Path:
    installed = _PACKAGE / folder / name
    if installed.is_file():
        return installed
    found = [path for build in ("cuda", "library", "wheel") if (path := _CHECKOUT / "build" / build / "capi" / name).is_file()]
    if found:
        return max(found, key=lambda path: path.stat().st_mtime)
    raise MissingPart(
        f"gpuheap: no {name} in {installed.parent}: install the wheel, or in a checkout: "
        f"cmake --preset cuda -DGPUHEAP_BUILD_TESTS=OFF && cmake --build --preset cuda --target {target}"
    )
