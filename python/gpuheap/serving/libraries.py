"""Finds the built libraries for a program's run: the one that is preloaded and links the program's code, and the library of an allocator, its provider."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

from gpuheap.catalogue import DEFAULT, TOOLKIT
from gpuheap.errors import UserError, unknown_name
from gpuheap.paths import RECORDED, Layout

LIBRARY = "libgpuheap_run.so"
PLAIN = TOOLKIT  # the name that leaves the program's malloc to CUDA: there is no provider
KINDS = {"release": DEFAULT, "hardened": "hardened", "checked": "checked"}  # GPUHEAP_KIND: the default allocator in each kind of heap
PACKAGED = RECORDED.parent / "lib"  # the libraries of a wheel: LIBRARY, and a provider for each of KINDS
_VERSION = 4  # the version of the table in tools/malloc/provider.hpp


class _Head(ctypes.Structure):
    """The first fields of a provider's table."""

    _fields_ = (("version", ctypes.c_uint32), ("state_bytes", ctypes.c_uint32), ("allocator", ctypes.c_char_p), ("refusal", ctypes.c_char_p))


def find_library(layout: Layout) -> Path:
    named = os.environ.get("GPUHEAP_RUN_LIBRARY")
    if named:
        if not Path(named).is_file():
            raise UserError(f"GPUHEAP_RUN_LIBRARY is '{named}', which is not a file: name {LIBRARY}, or unset it")
        return Path(named).resolve()
    if layout.root == RECORDED:
        return _packaged(LIBRARY)
    places = [layout.build / preset / "tools" / "malloc" / "run" / LIBRARY for preset in ("cuda", "host")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        build = _build("gpuheap_run gpuheap_malloc_provider_sharded_spans")
        raise UserError(f"{LIBRARY} is not built: run {build} in {layout.root} (./demo puts cmake into build/venv/bin)")
    return found


def find_provider(name: str, layout: Layout) -> Path:
    """Finds an allocator's library. Raises UserError if there is no such allocator, its library is not built, or it cannot serve a program's malloc."""
    file = f"libgpuheap_malloc_{name}.so"
    if layout.root == RECORDED:
        if name not in KINDS.values():
            raise UserError(f"the allocator '{name}' is not in the wheel, which has {', '.join(KINDS.values())}: name one of these, or run this in a checkout")
        return _served(name, _packaged(file))
    names = re.findall(r"^gpuheap_allocator\(NAME (\w+)", (layout.root / "cmake" / "allocators.cmake").read_text(), re.MULTILINE)
    names += [kind for kind in KINDS.values() if kind not in names]
    if name not in names:
        raise unknown_name("allocator", name, names)
    named = os.environ.get("GPUHEAP_RUN_PROVIDERS")
    path = (Path(named) if named else layout.build / "cuda" / "malloc") / file
    if not path.is_file():
        raise UserError(
            f"the allocator '{name}' is not built for programs ({path} is not there): run {_build(f'gpuheap_malloc_provider_{name}')} "
            f"in {layout.root} (./demo puts cmake into build/venv/bin)"
        )
    return _served(name, path)


def _served(name: str, path: Path) -> Path:
    """The path of a provider's library. Raises UserError if the library says that its allocator cannot serve a program."""
    head = _head(path)
    if head.refusal:
        raise UserError(f"the allocator '{name}' cannot serve a program's malloc: {head.refusal.decode()}; choose another allocator")
    return path.resolve()


def _packaged(file: str) -> Path:
    path = PACKAGED / file
    if not path.is_file():
        raise UserError(f"{path} is missing: install the wheel, which has it, or in a checkout build the target gpuheap_run")
    return path


def default_allocator() -> str:
    """The name of the allocator for a program if the command names none, as GPUHEAP_KIND chooses. Raises UserError for an unknown kind."""
    kind = os.environ.get("GPUHEAP_KIND") or "release"
    if kind not in KINDS:
        raise UserError(f"GPUHEAP_KIND is '{kind}': set it to {', '.join(list(KINDS)[:-1])} or {list(KINDS)[-1]}, or unset it")
    return KINDS[kind]


def require_device() -> None:
    """Checks for a driver and a GPU. Raises UserError if no CUDA program can run here."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise UserError("no CUDA driver here: libcuda.so.1 cannot be loaded; install NVIDIA's driver, or run this where a GPU is") from None
    count = ctypes.c_int(0)
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if code != 0 or count.value == 0:
        what = f"the driver answers with error {code}" if code != 0 else "the driver lists none"
        raise UserError(f"no GPU here: {what}; look at nvidia-smi and CUDA_VISIBLE_DEVICES")


def _head(path: Path) -> _Head:
    try:
        entry = ctypes.CDLL(str(path)).gpuheap_malloc_provider
    except (OSError, AttributeError) as error:
        raise UserError(f"{path} is not an allocator's library: {error}") from None
    entry.restype = ctypes.POINTER(_Head)
    head: _Head = entry().contents
    if head.version != _VERSION:
        raise UserError(f"{path} is of another version of gpuheap: build it again")
    return head


def _build(target: str) -> str:
    return f"cmake --preset cuda -DGPUHEAP_BUILD_TESTS=OFF && cmake --build --preset cuda --target {target}"
