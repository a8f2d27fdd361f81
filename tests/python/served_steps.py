"""Programs of the driver double under `gpuheap run`, and what the double and the allocator's library logged of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "host" / "tests"
LIBRARY = ROOT / "build" / "host" / "tools" / "malloc" / "run" / "libgpuheap_run.so"
STEPS = BUILT / "run" / "run_steps"
NVCC = shutil.which("nvcc") or next((path for path in ("/usr/local/cuda/bin/nvcc",) if Path(path).exists()), None)
TOOLKIT = Path(NVCC).resolve().parents[1] / "lib64" if NVCC else Path("/nonexistent")
NOT_BUILT = "the tool `gpuheap run`: not built, or no libnvJitLink.so.13: install the CUDA toolkit, 13.0 or newer, then ./test"
needs_the_tool = pytest.mark.skipif(not all(file.exists() for file in (LIBRARY, STEPS, TOOLKIT / "libnvJitLink.so.13")), reason=NOT_BUILT)

PROGRAM = """
#include <cstdlib>
struct node { node* next; int value; };
struct alignas(128) wide { int values[32]; };
static __device__ int hits;
__constant__ int scale = 3;
__managed__ int shared_value = 7;
__device__ int free_count = 0, my_malloc = 1;  // names that hold the others
static __global__ void hidden(node** out) { out[0] = new node{nullptr, scale}; atomicAdd(&hits, 1); }
extern "C" __global__ void make(node** out) { out[threadIdx.x] = static_cast<node*>(malloc(sizeof(node))); my_malloc += 1; }
extern "C" __global__ void drop(node** in) { free(in[threadIdx.x]); free_count += 1; shared_value = 9; }
#ifdef WIDE
extern "C" __global__ void wides(wide** out) { *out = new wide; }
#endif
void call(node** p) { hidden<<<1, 1>>>(p); }
"""
IMAGE = """
#include <cstddef>
extern "C" {
__constant__ unsigned long long* gpuheap_malloc_state;
__device__ __attribute__((used)) void* gpuheap_malloc(size_t bytes) {
  return gpuheap_malloc_state ? reinterpret_cast<void*>(atomicAdd(gpuheap_malloc_state, bytes)) : nullptr;
}
__device__ __attribute__((used)) void gpuheap_free(void*) {}
__device__ __attribute__((used)) void* gpuheap_malloc_at(size_t bytes, unsigned long long place) { return gpuheap_malloc(bytes + place); }
__device__ __attribute__((used)) void* gpuheap_aligned_malloc_at(size_t bytes, size_t, unsigned long long place) { return gpuheap_malloc(bytes + place); }
__device__ __attribute__((used)) void gpuheap_free_at(void*, unsigned long long) {}
#ifndef WITHOUT_ALIGNED
__device__ __attribute__((used)) void* gpuheap_aligned_malloc(size_t bytes, size_t alignment) { return gpuheap_malloc(bytes + alignment); }
#endif
}
"""
Compile = Callable[..., Path]


@dataclass
class Bench:
    folder: Path
    image: Path
    variables: dict[str, str] = field(default_factory=dict)

    def environment(self, **variables: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("GPUHEAP_", "DOUBLE_", "PROVIDER_", "LD_"))}
        found = {
            "LD_LIBRARY_PATH": f"{BUILT / 'host'}:{TOOLKIT}",
            "PYTHONPATH": str(ROOT / "python"),
            "DOUBLE_ARCHITECTURE": "90",
            "DOUBLE_CODE": str(self.folder / "code"),
            "DOUBLE_LOG": str(self.folder / "log"),
            "PROVIDER_LOG": str(self.folder / "provider.log"),
            "PROVIDER_IMAGE": str(self.image),
            "GPUHEAP_RUN_PROVIDERS": str(self.folder / "providers"),
            "GPUHEAP_RUN_LIBRARY": str(LIBRARY),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        return {**kept, **found, **self.variables, **variables}

    def gpuheap(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        self.clear()
        command = [sys.executable, "-m", "gpuheap", "run", *words]
        return subprocess.run(command, cwd=self.folder, env=self.environment(**variables), capture_output=True, text=True, timeout=120)

    def served(self, *steps: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """The steps' program with the library before it, as `gpuheap run` starts it, without the cache."""
        self.clear()
        provider = self.folder / "providers" / "libgpuheap_malloc_sharded_spans.so"
        environment = self.environment(LD_PRELOAD=str(LIBRARY), GPUHEAP_RUN_PROVIDER=str(provider), **variables)
        return subprocess.run([str(STEPS), *steps], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120)

    def clear(self) -> None:
        shutil.rmtree(self.folder / "code", ignore_errors=True)
        (self.folder / "code").mkdir()
        for name in ("log", "provider.log"):
            (self.folder / name).unlink(missing_ok=True)

    def log(self, pattern: str = "", name: str = "log") -> list[str]:
        path = self.folder / name
        return [line for line in path.read_text().splitlines() if re.search(pattern, line)] if path.exists() else []

    def symbols(self, number: int = 1) -> dict[str, tuple[str, str]]:
        """Of a recorded cubin: name to (UND or DEF, FUNC or OBJECT)."""
        lines = subprocess.run(["readelf", "-sW", str(self.folder / "code" / f"{number}.cubin")], capture_output=True, text=True, check=True).stdout
        found = {}
        for words in (line.split() for line in lines.splitlines()):
            if len(words) > 7 and words[3] in ("FUNC", "OBJECT"):
                found[words[-1]] = ("UND" if "UND" in words else "DEF", words[3])
        return found


def is_whole(symbols: dict[str, tuple[str, str]]) -> bool:
    """Whether linked code has all of PROGRAM, and nothing of CUDA's malloc."""
    names = {name for name, (state, _) in symbols.items() if state == "DEF"}
    wanted = {"make", "drop", "scale", "shared_value", "free_count", "my_malloc", "gpuheap_malloc", "gpuheap_free", "gpuheap_malloc_state"}
    return wanted <= names and any("hidden" in name for name in names) and any("hits" in name for name in names) and not {"malloc", "free"} & set(symbols)
