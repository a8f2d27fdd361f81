"""A heap in memory of RMM, on a GPU."""

from __future__ import annotations

import pytest

import gpuheap

rmm = pytest.importorskip("rmm", reason="kernels written in Python: no RMM: pip install rmm-cu13", exc_type=ImportError)
cupy = pytest.importorskip("cupy", reason="kernels written in Python: no CuPy: pip install cupy-cuda13x", exc_type=ImportError)

CODE = r"""
#include <gpuheap_device.h>
extern "C" __global__ void take(gpuheap_handle heap, long long* out) { out[threadIdx.x] = (long long)gpuheap_malloc(heap, 64); }
"""


def test_a_heap_in_a_buffer_of_a_pool(gpu: None) -> None:
    from gpuheap.cupy import RawKernel

    pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=128 << 20)
    memory = rmm.DeviceBuffer(size=64 << 20, mr=pool)
    with gpuheap.Heap(buffer=memory) as heap:
        out = cupy.zeros(32, dtype=cupy.int64)
        RawKernel(CODE, "take")((1,), (32,), (heap, out))
        heap.check()
        addresses = out.tolist()
        assert len(set(addresses)) == 32 and all(memory.ptr <= each <= memory.ptr + memory.size - 64 for each in addresses)
