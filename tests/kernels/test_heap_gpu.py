"""gpuheap.Heap on a GPU: its sources of memory, its statistics and errors, and its end. Kernels are CuPy's."""

from __future__ import annotations

import gc
import weakref

import pytest

import gpuheap

cupy = pytest.importorskip("cupy", reason="kernels written in Python: no CuPy: pip install cupy-cuda13x", exc_type=ImportError)

CODE = r"""
#include <gpuheap_device.h>
extern "C" __global__ void take(gpuheap_handle heap, unsigned long long* out, unsigned long long bytes, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    out[i] = (unsigned long long)gpuheap_malloc(heap, bytes);
    if (out[i] != 0 && bytes >= 4) *(int*)out[i] = i;
  }
}
extern "C" __global__ void give(gpuheap_handle heap, unsigned long long* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) gpuheap_free(heap, (void*)out[i]);
}
"""


@pytest.fixture(scope="module")
def kernels(gpu: None):
    from gpuheap.cupy import RawModule

    module = RawModule(CODE)
    return module.get_function("take"), module.get_function("give")


def take(kernels, heap, n: int, num_bytes: int = 16):
    out = cupy.zeros(n, dtype=cupy.uint64)
    kernels[0]((-(-n // 256),), (256,), (heap, out, cupy.uint64(num_bytes), cupy.int32(n)))
    return out


def give(kernels, heap, out) -> None:
    kernels[1]((-(-out.size // 256),), (256,), (heap, out, cupy.int32(out.size)))


def test_blocks_are_distinct_aligned_and_counted(kernels, heap) -> None:
    out = take(kernels, heap, 100_000)
    addresses = out.get()
    assert (addresses != 0).all() and (addresses % 16 == 0).all() and len(set(addresses.tolist())) == 100_000
    stats = heap.stats()
    assert stats.live_allocations == 100_000 and stats.live_bytes >= 1_600_000 and stats.failed_requests == 0
    give(kernels, heap, out)


def test_exhaustion_is_told_once(kernels) -> None:
    with gpuheap.Heap("16 MiB") as heap:
        out = take(kernels, heap, 64, 1 << 20)
        with pytest.raises(gpuheap.Exhausted, match="found no memory in a heap of 16.0 MiB; the first asked for 1048576 bytes"):
            heap.check()
        heap.check()
        assert heap.stats().failed_requests == int((out == 0).sum()) > 0


def test_wrong_frees_are_told(kernels) -> None:
    with gpuheap.Heap("16 MiB") as heap:
        out = take(kernels, heap, 10)
        give(kernels, heap, out)
        give(kernels, heap, out)
        with pytest.raises(gpuheap.RefusedFrees, match="free already"):
            heap.check()


def test_reset_forgets_everything(kernels, heap) -> None:
    take(kernels, heap, 1000)
    heap.reset()
    assert heap.stats().live_allocations == 0


def test_free_takes_arrays_lists_and_views(kernels, heap) -> None:
    heap.free(take(kernels, heap, 1000))
    heap.free(take(kernels, heap, 10).get().tolist())
    heap.free([heap.view(address, 4) for address in take(kernels, heap, 10).get().tolist()])
    heap.free(int(take(kernels, heap, 1)[0]))


def test_growing_keeps_blocks(kernels) -> None:
    with gpuheap.Heap(growth=gpuheap.Growth("32 MiB", "256 MiB")) as heap:
        first = take(kernels, heap, 16, 1 << 20)
        assert (first != 0).all()
        before = heap.stats().heap_bytes
        heap.grow("128 MiB")
        more = take(kernels, heap, 64, 1 << 20)
        assert (more != 0).all() and heap.stats().heap_bytes > before
        assert heap.view(int(first[3]), 1, "int32").cupy()[0] == 3
        with pytest.raises(gpuheap.InvalidRequest, match="of at most 256.0 MiB"):
            heap.grow("1 GiB")


@pytest.mark.parametrize("shift", [0, 8])
def test_heap_in_memory_of_cupy(kernels, shift: int) -> None:
    memory = cupy.empty(64 << 20, dtype=cupy.uint8)
    start = memory.data.ptr
    with gpuheap.Heap(buffer=memory[shift:]) as heap:
        out = take(kernels, heap, 1000)
        assert bool(((out >= start) & (out < start + memory.nbytes)).all())
    with gpuheap.Heap(buffer=(start, memory.nbytes)) as heap:
        assert bool((take(kernels, heap, 10) != 0).all())


def test_memory_outlives_who_gave_it(kernels) -> None:
    memory = cupy.empty(64 << 20, dtype=cupy.uint8)
    watched = weakref.ref(memory)
    heap = gpuheap.Heap(buffer=memory)
    del memory
    gc.collect()
    assert watched() is not None
    heap.close()
    gc.collect()
    assert watched() is None


def test_views_keep_the_heap_alive(kernels) -> None:
    heap = gpuheap.Heap("64 MiB")
    view = heap.view(int(take(kernels, heap, 10, 64)[7]), 16, "int32")
    array = view.cupy()
    native = weakref.ref(heap.native)
    heap.close()
    del view, heap
    gc.collect()
    assert native() is not None and int(array[0]) == 7
    del array
    gc.collect()
    assert native() is None


def test_views_by_dlpack_and_numpy(kernels, heap) -> None:
    out = take(kernels, heap, 10, 64)
    view = heap.view(int(out[5]), (4, 4), "int32")
    assert int(cupy.from_dlpack(view)[0, 0]) == 5
    assert view.numpy()[0, 0] == 5
    give(kernels, heap, out)


def test_closed_heap_says_so(gpu: None) -> None:
    heap = gpuheap.Heap("64 MiB")
    heap.close()
    heap.close()
    with pytest.raises(gpuheap.ClosedHeap, match="has been closed"):
        _ = heap.handle


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"size": "1 TiB"}, r"cannot make a heap of 1.0 TiB: there are .* free"),
        ({"size": 4096}, "is too small for the allocator"),
        ({"size": "64 MiB", "device": 99}, "device 99 was asked for, and there"),
    ],
)
def test_refusals_say_what_was_asked_and_what_there_was(gpu: None, arguments, text: str) -> None:
    with pytest.raises(gpuheap.HeapError, match=text):
        gpuheap.Heap(**arguments)


def test_streams(kernels) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with gpuheap.Heap("64 MiB", stream=stream) as heap, stream:
        out = take(kernels, heap, 1000)
        assert heap.stats(stream).live_allocations == 1000
        give(kernels, heap, out)
        heap.check(stream)


def test_a_kernel_of_1024_threads_can_be_launched(kernels, heap) -> None:
    out = cupy.zeros(1024, dtype=cupy.uint64)
    kernels[0]((1,), (1024,), (heap, out, cupy.uint64(16), cupy.int32(1024)))
    assert bool((out != 0).all())
    kernels[1]((1,), (1024,), (heap, out, cupy.int32(1024)))


def test_a_kernel_has_the_attributes_of_cupys(kernels) -> None:
    take_kernel = kernels[0]
    assert 0 < take_kernel.num_regs <= 64 and take_kernel.attributes["max_threads_per_block"] == 1024
    take_kernel.max_dynamic_shared_size_bytes = 60_000
    assert take_kernel.max_dynamic_shared_size_bytes == 60_000
    with pytest.raises(AttributeError):
        _ = take_kernel.no_such_thing


CHECKED = r"""
#include <gpuheap_device.h>
extern "C" __global__ void overrun(gpuheap_handle heap, int n) {
  char* p = (char*)gpuheap_malloc(heap, 24);
  if (threadIdx.x == n) p[24] = 1;
  gpuheap_free(heap, p);
}
extern "C" __global__ void every_function(gpuheap_handle heap, int* wrong) {
  int* p = (int*)gpuheap_calloc(heap, 4, 4);
  int bad = p[0] | p[3];
  p[3] = 42;
  p = (int*)gpuheap_realloc(heap, p, 400);
  bad |= p[3] != 42 || gpuheap_usable_size(heap, p) < 400 || !gpuheap_owns(heap, p);
  void* q = gpuheap_aligned_malloc(heap, 100, 4096);
  bad |= (unsigned long long)q % 4096 != 0;
  bad |= gpuheap_free(heap, p) != GPUHEAP_FREED || gpuheap_free(heap, q) != GPUHEAP_FREED || gpuheap_owns(heap, p);
  void* of_block = gpuheap_malloc_block(heap, 64);
  bad |= of_block == nullptr || gpuheap_free_block(heap, of_block) != GPUHEAP_FREED;
  if (bad) atomicAdd(wrong, 1);
}
"""


@pytest.fixture(scope="module")
def checked_kernels(gpu: None):
    from gpuheap.cupy import RawModule

    return RawModule(CHECKED)


# The same kernels serve all kinds of heap.
@pytest.mark.parametrize("allocator", ["sharded_spans", "checked", "hardened"])
def test_every_function(checked_kernels, allocator: str) -> None:
    with gpuheap.Heap("64 MiB", allocator=allocator) as heap:
        wrong = cupy.zeros(1, dtype=cupy.int32)
        checked_kernels.get_function("every_function")((8,), (128,), (heap, wrong))
        assert int(wrong[0]) == 0
        heap.check()
        assert heap.stats().live_allocations == 0


def test_a_checked_heap_finds_what_kernels_do_wrong(kernels, checked_kernels) -> None:
    with gpuheap.Heap("64 MiB", allocator="checked") as heap:
        out = take(kernels, heap, 1000, 40)
        heap.check()
        assert heap.stats().live_allocations == 1000
        checked_kernels.get_function("overrun")((1,), (32,), (heap, cupy.int32(7)))
        with pytest.raises(gpuheap.Misused, match="of 24 bytes"):
            heap.check()
        give(kernels, heap, out)
        give(kernels, heap, out[:1])
        with pytest.raises(gpuheap.Misused, match="misused"):
            heap.check()
        heap.reset()
        heap.check()
        assert heap.stats().live_allocations == 0


def test_a_checked_heap_lies_in_a_buffer_and_does_not_grow(kernels) -> None:
    memory = cupy.empty(64 << 20, dtype=cupy.uint8)
    with gpuheap.Heap(buffer=memory, allocator="checked") as heap:
        give(kernels, heap, take(kernels, heap, 1000))
        with pytest.raises(gpuheap.InvalidRequest, match="cannot grow"):
            heap.grow("1 MiB")
        with pytest.raises(gpuheap.Exhausted, match="found no memory"):
            take(kernels, heap, 64, 4 << 20)
            heap.check()


def test_a_hardened_heap_refuses_what_is_no_block_and_serves_on(kernels) -> None:
    with gpuheap.Heap(growth=gpuheap.Growth("16 MiB", "1 GiB"), allocator="hardened") as heap:
        out = take(kernels, heap, 1000, 40)
        heap.check()
        inside = out[:1] + cupy.uint64(16)
        for wrong in (inside, inside + cupy.uint64(1), cupy.zeros_like(inside) + cupy.uint64(4096)):
            give(kernels, heap, wrong)
            with pytest.raises(gpuheap.Misused, match="misused"):
                heap.check()
        give(kernels, heap, out)
        heap.check()
        give(kernels, heap, out)
        with pytest.raises(gpuheap.Misused, match="double free.*and 999 times more"):
            heap.check()
        assert heap.stats().live_allocations == 0
        heap.grow("256 MiB")
        large = take(kernels, heap, 200, 1 << 20)
        assert len(set(large.get().tolist())) == 200 and bool((large != 0).all())
        give(kernels, heap, large)
        heap.check()


def test_views_are_refused_outside_of_the_heap(kernels, heap) -> None:
    elsewhere = cupy.zeros(16, dtype=cupy.uint8)
    with pytest.raises(gpuheap.InvalidRequest, match="do not lie in this heap"):
        heap.view(elsewhere.data.ptr, 16).numpy()


def test_dlpack_makes_no_copies(kernels, heap) -> None:
    out = take(kernels, heap, 1, 64)
    view = heap.view(int(out[0]), 16, "int32")
    with pytest.raises(BufferError, match="copy"):
        view.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="device"):
        view.__dlpack__(dl_device=(1, 0))
    give(kernels, heap, out)
