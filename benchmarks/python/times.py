"""malloc and free of 16 B by a million threads, from kernels of Numba, CuPy and Triton, beside a C++ kernel and Numba's own runtime.

    nvcc -O3 -std=c++20 -arch=native -Iinclude benchmarks/python/plain.cu -o plain
    python benchmarks/python/times.py --plain ./plain
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

N = 1_000_000
RUNS = 21
Times = tuple[float, float]


def measured(heap: Any, take: Callable[[], None], give: Callable[[], None], runs: int = RUNS) -> Times:
    """Medians in microseconds, by events on the default stream, each on a fresh heap; the first run compiles and does not count."""
    import cupy

    # Keeps the device busy while Python gets everything under way that is then timed.
    keep_busy = cupy.RawKernel(
        'extern "C" __global__ void keep_busy() { long long begun = clock64(); while (clock64() - begun < 4000000) {} }', "keep_busy"
    )
    before, after = cupy.cuda.Event(), cupy.cuda.Event()

    def microseconds(launch: Callable[[], None]) -> float:
        keep_busy((1,), (1,), ())
        before.record()
        launch()
        after.record()
        after.synchronize()
        return float(cupy.cuda.get_elapsed_time(before, after)) * 1000

    mallocs, frees = [], []
    for _ in range(runs + 1):
        heap.reset()
        mallocs.append(microseconds(take))
        frees.append(microseconds(give))
    heap.check()
    assert heap.stats().live_allocations in (0, None)
    return statistics.median(mallocs[1:]), statistics.median(frees[1:])


def by_cupy() -> Times:
    import cupy

    import gpuheap
    from gpuheap.cupy import RawModule

    module = RawModule(r"""
#include <gpuheap_device.h>
extern "C" __global__ void take(gpuheap_handle heap, void** out, size_t bytes, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = gpuheap_malloc(heap, bytes);
}
extern "C" __global__ void give(gpuheap_handle heap, void** out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) gpuheap_free(heap, out[i]);
}""")
    take, give = module.get_function("take").native, module.get_function("give").native
    with gpuheap.Heap("4 GiB") as heap:
        out = cupy.zeros(N, dtype=cupy.uint64)
        grid, block = ((N + 255) // 256,), (256,)
        return measured(
            heap,
            lambda: take(grid, block, (heap.handle, out, cupy.uint64(16), cupy.int32(N))),
            lambda: give(grid, block, (heap.handle, out, cupy.int32(N))),
        )


def by_numba() -> Times:
    import cupy
    from numba import cuda

    import gpuheap
    import gpuheap.numba as gn

    @cuda.jit("void(int64, int64[::1])")
    def take(heap, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = gn.malloc(heap, 16)

    @cuda.jit("void(int64, int64[::1])")
    def give(heap, out):
        i = cuda.grid(1)
        if i < out.size:
            gn.free(heap, out[i])

    with gpuheap.Heap("4 GiB") as heap:
        out = cuda.as_cuda_array(cupy.zeros(N, dtype=cupy.int64))
        grid = (N + 255) // 256
        return measured(heap, lambda: take[grid, 256](heap.handle, out), lambda: give[grid, 256](heap.handle, out))


def by_numba_arrays() -> Times:
    """Each thread makes an array of 4 floats, and frees it: one time, of the whole kernel."""
    import cupy
    from numba import cuda, float32

    import gpuheap
    import gpuheap.numba as gn

    @cuda.jit("void(int64, float32[::1])")
    def both(heap, out):
        i = cuda.grid(1)
        if i < out.size:
            a = gn.array(heap, 4, float32)
            if a.size != 0:
                a[0] = i
                out[i] = a[0]
                gn.free(heap, a)

    with gpuheap.Heap("4 GiB") as heap:
        out = cuda.as_cuda_array(cupy.zeros(N, dtype=cupy.float32))
        return measured(heap, lambda: both[(N + 255) // 256, 256](heap.handle, out), lambda: None)


def by_numbas_own(served: bool = False) -> Times:
    """The same through Numba's own runtime, which calls CUDA's malloc, or is served by a heap: NUMBA_CUDA_ENABLE_NRT=1."""
    import cupy
    import numpy as np
    from numba import cuda

    import gpuheap
    import gpuheap.numba as gn

    heap = gpuheap.Heap("4 GiB") if served else None

    @cuda.jit("void(float32[::1])", link=gn.served_by(heap) if heap is not None else [])
    def both(out):
        i = cuda.grid(1)
        if i < out.size:
            a = np.empty(4, np.float32)
            a[0] = i
            out[i] = a[0]

    out = cuda.as_cuda_array(cupy.zeros(N, dtype=cupy.float32))

    class Nothing:
        def reset(self) -> None: ...
        def check(self) -> None: ...
        def stats(self) -> Any:
            return argparse.Namespace(live_allocations=None)

    # CUDA's malloc takes seconds for it.
    return measured(heap or Nothing(), lambda: both[(N + 255) // 256, 256](out), lambda: None, RUNS if served else 3)


def by_triton(warps: int = 8) -> Times:
    """A block for each of a million elements, in programs of 256: malloc_each. With 8 warps each thread asks once, with 4 twice."""
    import torch
    import triton
    import triton.language as tl

    import gpuheap
    import gpuheap.triton as gt

    @triton.jit
    def take(heap, out, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        p = gt.malloc_each(heap, tl.full((B,), 16, tl.int64), i < n)
        tl.store(out + i, p, mask=i < n)

    @triton.jit
    def give(heap, out, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        gt.free_each(heap, tl.load(out + i, mask=i < n, other=0), i < n)

    with gpuheap.Heap("4 GiB") as heap:
        out = torch.zeros(N, dtype=torch.int64, device="cuda")
        grid = (triton.cdiv(N, 256),)
        options = {"B": 256, "extern_libs": gt.extern_libs(), "num_warps": warps}
        return measured(heap, lambda: take[grid](heap.handle, out, N, **options), lambda: give[grid](heap.handle, out, N, **options))


def first_heap() -> Times:
    """Seconds, as microseconds: importing gpuheap and making the first heap, after a CUDA context is there."""
    import ctypes

    driver = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and driver.cuCtxSetCurrent(context) == 0
    begun = time.perf_counter()
    import gpuheap

    heap = gpuheap.Heap("1 GiB")
    taken = time.perf_counter() - begun
    heap.close()
    return taken * 1e6, 0.0


WAYS: dict[str, Callable[[], Times]] = {
    "cupy": by_cupy, "numba": by_numba, "triton": by_triton, "triton, 4 warps": lambda: by_triton(4),
    "numba arrays": by_numba_arrays, "numba's own, served": lambda: by_numbas_own(True), "numba's own runtime": by_numbas_own, "first heap": first_heap,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", help="the program of plain.cu")
    parser.add_argument("--only", choices=list(WAYS), help="one of them, in this process")
    given = parser.parse_args()
    if given.only is not None:
        malloc_us, free_us = WAYS[given.only]()
        print(json.dumps({"malloc_us": round(malloc_us, 1), "free_us": round(free_us, 1)}))
        return 0
    # One process each: one may end the context, and Numba reads its settings once.
    commands = {name: [sys.executable, __file__, "--only", name] for name in WAYS}
    if given.plain is not None:
        commands = {"C++": [given.plain], **commands}
    print(f"{'':24}{'malloc us':>12}{'free us':>12}")
    failed = 0
    for name, command in commands.items():
        environment = {**os.environ, **({"NUMBA_CUDA_ENABLE_NRT": "1"} if "own" in name else {})}
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
        if ran.returncode != 0:
            print(f"{name:24} failed: {(ran.stderr.strip().splitlines() or ['no message'])[-1]}", flush=True)
            failed += 1
            continue
        row = json.loads(ran.stdout.strip().splitlines()[-1])
        print(f"{name:24}{row['malloc_us']:12.1f}{row['free_us']:12.1f}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
