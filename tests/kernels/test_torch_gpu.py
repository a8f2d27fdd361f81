"""Heaps beside PyTorch on a GPU: in its memory, on its streams, and blocks as tensors."""

from __future__ import annotations

import pytest

import gpuheap

torch = pytest.importorskip("torch", reason="kernels written in Python: no PyTorch: pip install torch", exc_type=ImportError)
cupy = pytest.importorskip("cupy", reason="kernels written in Python: no CuPy: pip install cupy-cuda13x", exc_type=ImportError)

CODE = r"""
#include <gpuheap_device.h>
extern "C" __global__ void build(gpuheap_handle heap, long long* out) {
  float* p = (float*)gpuheap_malloc(heap, 64 * sizeof(float));
  for (int i = 0; i < 64; ++i) p[i] = i;
  *out = (long long)p;
}
"""


@pytest.fixture(scope="module")
def build(gpu: None):
    from gpuheap.cupy import RawKernel

    return RawKernel(CODE, "build")


def test_heap_in_a_tensor_and_block_as_tensor(build) -> None:
    memory = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    with gpuheap.Heap(buffer=memory) as heap:
        out = cupy.zeros(1, dtype=cupy.int64)
        build((1,), (1,), (heap, out))
        address = int(out[0])
        assert memory.data_ptr() <= address < memory.data_ptr() + memory.numel()
        view = heap.view(address, (8, 8), "float32")
        tensor = view.torch()
        assert tensor.data_ptr() == address and tensor.sum().item() == 64 * 63 / 2
        other = torch.from_dlpack(view)
        other += 1
        assert tensor[0, 0].item() == 1
    del memory


def test_streams_of_torch(build) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), gpuheap.Heap("64 MiB", stream=stream) as heap:
        out = torch.zeros(1, dtype=torch.int64, device="cuda")
        with cupy.cuda.ExternalStream(stream.cuda_stream):
            build((1,), (1,), (heap, cupy.asarray(out)))
        heap.check(stream)
        assert heap.view(int(out.item()), 64, "float32").torch()[63].item() == 63


def test_a_compiled_function_beside_it(build) -> None:
    @torch.compile
    def twice(x):
        return x * 2 + 1

    with gpuheap.Heap("64 MiB") as heap:
        out = cupy.zeros(1, dtype=cupy.int64)
        build((1,), (1,), (heap, out))
        tensor = heap.view(int(out[0]), 64, "float32").torch()
        assert torch.equal(twice(tensor), torch.arange(64, device="cuda") * 2.0 + 1)
        heap.check()
