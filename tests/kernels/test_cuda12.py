"""Where NVRTC and nvJitLink are those of CUDA 12, the device code is compiled by them. Needs their packages, and no GPU."""

from __future__ import annotations

import ctypes
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from extent import in_full

from gpuheap.heaps import compiler

SOURCE = """#include <gpuheap_device.h>
extern "C" __global__ void both(gpuheap_handle heap, void** out) {
  *out = gpuheap_malloc(heap, 16);
  gpuheap_free(heap, *out);
}"""


def library(name: str, file: str) -> ctypes.CDLL:
    path = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / name / "lib" / file
    if not path.is_file():
        pytest.skip("kernels written in Python for CUDA 12: no NVRTC or no nvJitLink: pip install nvidia-cuda-nvrtc-cu12 nvidia-nvjitlink-cu12")
    return ctypes.CDLL(str(path))


@pytest.fixture
def cuda_12(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The compiler with both libraries of CUDA 12, and a cache of its own."""
    nvrtc = compiler._Functions(library("cuda_nvrtc", "libnvrtc.so.12"), "NVRTC")
    linker = compiler._Functions(library("nvjitlink", "libnvJitLink.so.12"), "nvJitLink")
    monkeypatch.setattr(compiler, "_nvrtc", lambda: nvrtc)
    monkeypatch.setattr(compiler, "_nvjitlink", lambda: linker)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path


@pytest.mark.parametrize("arch", [75, 120] if in_full() else [75])
def test_the_device_code_is_compiled_there_once(arch: int, cuda_12: Path) -> None:
    assert compiler.versions()[0] == compiler.versions()[2] == 12
    cubin, _ = compiler.compile_and_link(SOURCE, arch)
    names = set(re.findall(rb"\x00(gpuheap_v\d_\w+)\x00", cubin))
    assert {name for name in names if b".text." + name not in cubin} == set() and b"gpuheap_v1_malloc" in names
    kept = cuda_12 / "gpuheap" / "linked"
    assert len(list(kept.iterdir())) == 2  # the device code, and the program
    compiler.compile_and_link(SOURCE + "\n", arch)
    assert len(list(kept.iterdir())) == 3


def test_what_nvrtc_12_refuses_is_told(cuda_12: Path) -> None:
    with pytest.raises(compiler.CompileError, match="NVRTC refuses the program"):
        compiler.compile_and_link("nothing", 90)
