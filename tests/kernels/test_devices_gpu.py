"""Heaps of several GPUs in one process, by CuPy, PyTorch, Numba and Triton."""

from __future__ import annotations

import pytest

import gpuheap

cupy = pytest.importorskip("cupy", reason="kernels written in Python: no CuPy: pip install cupy-cuda13x", exc_type=ImportError)

CODE = r"""
#include <gpuheap_device.h>
extern "C" __global__ void take(gpuheap_handle heap, unsigned long long* out, int n, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int* p = (int*)gpuheap_malloc(heap, 64);
  if (p != nullptr) *p = value + i;
  out[i] = (unsigned long long)p;
}
"""


@pytest.fixture
def devices(gpu: None) -> range:
    count = cupy.cuda.runtime.getDeviceCount()
    if count < 2:
        pytest.skip("heaps of several GPUs: there is one")
    return range(count)


def test_each_device_has_a_heap(devices: range) -> None:
    from gpuheap.cupy import RawKernel

    take = RawKernel(CODE, "take")
    heaps = [gpuheap.Heap("256 MiB", device=device) for device in devices]
    taken = []
    for device, heap in zip(devices, heaps, strict=True):
        with cupy.cuda.Device(device):
            taken.append(cupy.zeros(1000, dtype=cupy.uint64))
            take((4,), (256,), (heap, taken[-1], cupy.int32(1000), cupy.int32(1000 * device)))
    # Calls of a heap need no current device.
    for device, heap in zip(devices, heaps, strict=True):
        assert heap.device == device
        assert heap.stats().live_allocations == 1000
        assert heap.view(int(taken[device][7]), 1, "int32").numpy()[0] == 1000 * device + 7
        heap.free(taken[device])
        heap.check()
        assert heap.stats().live_allocations == 0
    for heap in reversed(heaps):
        heap.close()
    assert cupy.cuda.runtime.getDevice() == 0


def test_a_heap_that_grows_on_another_device(devices: range) -> None:
    last = devices[-1]
    with gpuheap.Heap(growth=gpuheap.Growth("32 MiB", "1 GiB"), device=last) as heap:
        before = heap.stats().heap_bytes
        heap.grow("256 MiB")
        assert heap.device == last and heap.stats().heap_bytes > before


def test_a_heap_in_a_tensor_of_another_device(devices: range) -> None:
    torch = pytest.importorskip("torch", reason="kernels written in Python: no PyTorch: pip install torch", exc_type=ImportError)
    from gpuheap.cupy import RawKernel

    last = devices[-1]
    take = RawKernel(CODE, "take")
    memory = torch.empty(64 << 20, dtype=torch.uint8, device=f"cuda:{last}")
    with gpuheap.Heap(buffer=memory) as heap, gpuheap.Heap("64 MiB", device=torch.device("cuda", 0)) as other:
        assert heap.device == last and other.device == 0
        with cupy.cuda.Device(last):
            out = cupy.zeros(100, dtype=cupy.uint64)
            take((1,), (128,), (heap, out, cupy.int32(100), cupy.int32(5)))
            tensor = heap.view(int(out[3]), 1, "int32").torch()
        assert tensor.device == torch.device("cuda", last) and tensor.item() == 8
        assert memory.data_ptr() <= int(out[3]) < memory.data_ptr() + memory.numel()
        heap.check()
        other.check()


def test_numba_on_each_device(devices: range) -> None:
    pytest.importorskip("numba.cuda", reason="kernels written in Python: no numba-cuda: pip install 'numba-cuda[cu13]'", exc_type=ImportError)
    import numpy as np
    from numba import cuda, int64

    import gpuheap.numba as gn

    @cuda.jit
    def kernel(heap, out):
        i = cuda.grid(1)
        if i < out.size:
            a = gn.array(heap, i % 7 + 1, int64)
            for k in range(a.size):
                a[k] = k
            out[i] = a[a.size - 1]
            gn.free(heap, a)

    for device in devices:
        with cuda.gpus[device], gpuheap.Heap("64 MiB", device=device) as heap:
            out = cuda.device_array(1000, dtype=np.int64)
            kernel[4, 256](heap.handle, out)
            assert (out.copy_to_host() == np.arange(1000) % 7).all()
            heap.check()
            assert heap.stats().live_allocations == 0


def test_triton_on_each_device(devices: range) -> None:
    torch = pytest.importorskip("torch", reason="kernels written in Python: no PyTorch: pip install torch", exc_type=ImportError)
    pytest.importorskip("triton", reason="kernels written in Python: no Triton: pip install triton", exc_type=ImportError)
    from triton_kernels import both

    import gpuheap.triton as gt

    for device in devices:
        with torch.cuda.device(device), gpuheap.Heap("64 MiB", device=device) as heap:
            out = torch.zeros(4096, dtype=torch.int64, device="cuda")
            both[(4,)](heap.handle, out, 1024, B=256, extern_libs=gt.extern_libs())
            heap.check()
            assert out.device.index == device and (out[:1024] != 0).all()
            assert heap.stats().live_allocations == 0
