"""gpuheap.numba on a GPU."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpuheap

pytest.importorskip("numba.cuda", reason="kernels written in Python: no numba-cuda: pip install 'numba-cuda[cu13]'", exc_type=ImportError)
from numba import cuda, float32, int64  # noqa: E402


@pytest.fixture(scope="module")
def gn(gpu: None):
    import gpuheap.numba

    return gpuheap.numba


def test_arrays_of_all_threads(gn, heap) -> None:
    @cuda.jit
    def kernel(heap, out):
        i = cuda.grid(1)
        if i < out.size:
            a = gn.array(heap, i % 7 + 1, float32)
            b = gn.array(heap, (2, i % 3 + 1), int64)
            for k in range(a.size):
                a[k] = k * i
            for k in range(b.shape[1]):
                b[0, k] = k
                b[1, k] = i
            total = 0.0
            for k in range(a.size):
                total += a[k]
            out[i] = total + b[1, b.shape[1] - 1]
            gn.free(heap, a)
            gn.free(heap, b)

    n = 100_000
    out = cuda.device_array(n, dtype=np.float64)
    kernel[(n + 255) // 256, 256](heap.handle, out)
    i = np.arange(n)
    m = i % 7 + 1
    assert np.allclose(out.copy_to_host(), i * (m * (m - 1) // 2) + i, rtol=1e-6)


def test_the_first_example(gn) -> None:
    runpy.run_path(str(Path(__file__).resolve().parents[2] / "examples" / "python" / "array_numba.py"))


def test_refusal_is_an_array_without_elements(gn) -> None:
    @cuda.jit
    def kernel(heap, out):
        i = cuda.grid(1)
        a = gn.array(heap, (1024, 1024), float32)
        out[i, 0] = a.size
        out[i, 1] = a.shape[0] + a.shape[1]
        huge = gn.array(heap, (1 << 31, 1 << 31), float32)
        out[i, 2] = huge.size

    with gpuheap.Heap("16 MiB") as heap:
        out = cuda.device_array((32, 3), dtype=np.int64)
        kernel[1, 32](heap.handle, out)
        sizes = out.copy_to_host()
        served = sizes[:, 0] == 1024 * 1024
        assert 0 < served.sum() < 32
        assert (sizes[~served] == 0).all() and (sizes[:, 2] == 0).all() and (sizes[served, 1] == 2048).all()
        with pytest.raises(gpuheap.Exhausted):
            heap.check()


def test_every_function(gn, heap) -> None:
    @cuda.jit
    def kernel(heap, out):
        p = gn.calloc(heap, 4, 8)
        v = gn.view(p, 4, int64)
        out[0] = v[0] + v[1] + v[2] + v[3]
        v[3] = 42
        p = gn.realloc(heap, p, 4096)
        out[1] = gn.view(p, 4, int64)[3]
        q = gn.aligned_malloc(heap, 100, 4096)
        out[2] = q % 4096
        out[3] = gn.usable_size(heap, p)
        out[4] = gn.owns(heap, p)
        out[5] = gn.free(heap, p)
        out[6] = gn.free(heap, q)
        out[7] = gn.free(heap, 0)
        out[8] = gn.owns(heap, p)
        a = gn.array(heap, 3, float32)
        out[9] = gn.address_of(a) % 16
        gn.free(heap, a)

    out = cuda.device_array(10, dtype=np.int64)
    kernel[1, 1](heap.handle, out)
    zeros, kept, misaligned, usable, *rest = out.copy_to_host().tolist()
    assert (zeros, kept, misaligned) == (0, 42, 0) and usable >= 4096
    assert rest == [1, 0, 0, 1, 0, 0]


def test_the_heap_itself_is_an_argument(gn, heap) -> None:
    @cuda.jit(extensions=[gn.heaps])
    def kernel(heap, out):
        out[0] = gn.malloc(heap, 16)
        gn.free(heap, out[0])

    out = cuda.device_array(1, dtype=np.int64)
    kernel[1, 1](heap, out)
    assert out.copy_to_host()[0] != 0


def test_views_on_the_host(gn, heap) -> None:
    @cuda.jit
    def kernel(heap, out):
        a = gn.array(heap, 8, float32)
        for k in range(8):
            a[k] = k
        out[0] = gn.address_of(a)

    out = cuda.device_array(1, dtype=np.int64)
    kernel[1, 1](heap.handle, out)
    address = int(out.copy_to_host()[0])
    array = cuda.as_cuda_array(heap.view(address, 8, "float32"))
    assert array.copy_to_host().tolist() == list(range(8))
    heap.free(address)


SERVED = """
import numpy as np
from numba import cuda
import gpuheap, gpuheap.numba as gn

with gpuheap.Heap("256 MiB") as heap:
    @cuda.jit(link=gn.served_by(heap))
    def kernel(out):
        i = cuda.grid(1)
        if i < out.size:
            a = np.zeros((2, i % 7 + 1), np.int64)
            for k in range(a.shape[1]):
                a[1, k] = i + k
            out[i] = a.sum()

    n = 20_000
    out = cuda.device_array(n, dtype=np.int64)
    kernel[(n + 127) // 128, 128](out)
    i = np.arange(n)
    m = i % 7 + 1
    assert (out.copy_to_host() == m * i + m * (m - 1) // 2).all()
    heap.check()
    print(heap.stats().live_allocations)  # Numba has freed all

    # Each kernel has a heap of its own. A request that nothing fits is in that one's record, and ends the thread.
    with gpuheap.Heap("16 MiB", allocator="checked") as small:
        @cuda.jit(link=gn.served_by(small))
        def large(out):
            out[0] = 5
            a = np.empty(64 << 20, np.uint8)
            out[0] = a[0]

        large[1, 1](out)
        try:
            small.check()
        except gpuheap.Exhausted:
            print(out[0], small.stats().first_failed_bytes >= 64 << 20)
    heap.check()
"""


def test_a_heap_serves_numbas_own_arrays(gpu: None) -> None:
    environment = {**os.environ, "NUMBA_CUDA_ENABLE_NRT": "1"}
    ran = subprocess.run([sys.executable, "-c", SERVED], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["0", "5", "True"]


def test_served_by_says_that_the_runtime_is_off(gn, heap) -> None:
    with pytest.raises(gpuheap.InvalidRequest, match="set NUMBA_CUDA_ENABLE_NRT=1 before"):
        gn.served_by(heap)


def test_a_checked_heap_serves_arrays(gn) -> None:
    @cuda.jit
    def kernel(heap, out):
        i = cuda.grid(1)
        a = gn.array(heap, i % 7 + 1, float32)
        a[0] = i
        out[i] = a[0]
        gn.free(heap, a)
        if i == 5:
            out[i] = gn.free(heap, a)

    with gpuheap.Heap("64 MiB", allocator="checked") as heap:
        out = cuda.device_array(1024, dtype=np.int64)
        kernel[8, 128](heap.handle, out)
        assert np.array_equal(np.delete(out.copy_to_host(), 5), np.delete(np.arange(1024), 5)) and out[5] != 0
        with pytest.raises(gpuheap.Misused, match="thread"):
            heap.check()
