"""What the README and docs/limits.md say about the registers and the stack of kernels: read from what nvcc compiles. Needs no GPU."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from pages import ROOT

NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
KERNELS = """
#include <gpuheap/hardened.hpp>
#include <gpuheap/heap.hpp>
__global__ void both(gpuheap::heap_ref<> heap, int** out, size_t size) {
  int* p = static_cast<int*>(heap.malloc(size));
  if (p != nullptr) *p = 1;
  heap.free(out[threadIdx.x]);
  out[threadIdx.x] = p;
}
template <class Heap>
__device__ void free_one(Heap const& heap, void** blocks, unsigned n) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) heap.free(blocks[i]);
}
__global__ void frees(gpuheap::heap_ref<> heap, void** blocks, unsigned n) { free_one(heap, blocks, n); }
__global__ void frees_hardened(gpuheap::heap_ref<gpuheap::hardened<>> heap, void** blocks, unsigned n) { free_one(heap, blocks, n); }
"""


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, int]]:
    """Of each kernel for sm_90: its registers, and the bytes of stack that it and its calls need."""
    if NVCC is None:
        pytest.skip("registers of kernels: no nvcc found: install the CUDA toolkit, 13.0 or newer")
    folder = tmp_path_factory.mktemp("costs")
    (folder / "kernels.cu").write_text(KERNELS)
    command = [NVCC, "-std=c++20", "-O3", "-arch=sm_90", "-Iinclude", "-cubin", "-Xptxas", "-v", "-o", folder / "k.cubin", folder / "kernels.cu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {}
    for name, registers, rest in re.findall(r"Compiling entry function '(\w+)'.*?Used (\d+) registers([^\n]*)", done.stderr, re.DOTALL):
        stack = re.search(r"(\d+) bytes cumulative stack", rest)
        (kernel,) = (k for k in ("frees_hardened", "frees", "both") if name.startswith(f"_Z{len(k)}{k}"))
        found[kernel] = int(registers), int(stack[1]) if stack else 0
    assert set(found) == {"both", "frees", "frees_hardened"}
    return found


def said(page: str, pattern: str) -> list[int]:
    match = re.search(pattern, (ROOT / page).read_text())
    assert match, f"{page} does not say this any more: {pattern}"
    return [int(number) for number in match.groups()]


@pytest.mark.parametrize("page", ["README.md", "docs/limits.md"])
def test_the_pages_say_what_kernels_need(costs: dict[str, tuple[int, int]], page: str) -> None:
    registers, stack, of_free = said(page, r"uses (\d+) registers[^.]*?up to (\d+) bytes of stack[^.]*?; one that only frees uses (\d+)")
    assert (registers, stack) == costs["both"]
    assert of_free == costs["frees"][0]


def test_kernels_that_free_leave_room_for_48_warps(costs: dict[str, tuple[int, int]]) -> None:
    """The 65,536 registers of a multiprocessor hold 48 warps with 40 registers a thread. With 41, for which the hardware allocates 48, they hold 40."""
    assert costs["frees"][0] <= 40
    assert costs["frees_hardened"][0] <= 40
