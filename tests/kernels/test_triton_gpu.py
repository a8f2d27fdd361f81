"""gpuheap.triton on a GPU: a block for each program, and a block for each element, however many threads hold it."""

from __future__ import annotations

import pytest

import gpuheap

torch = pytest.importorskip("torch", reason="kernels written in Python: no PyTorch, whose memory Triton's kernels get: pip install torch", exc_type=ImportError)
triton = pytest.importorskip("triton", reason="kernels written in Python: no Triton: pip install triton", exc_type=ImportError)
import triton.language as tl  # noqa: E402

import gpuheap.triton as gt  # noqa: E402


@triton.jit
def per_program(heap, counts, out, B: tl.constexpr):
    program = tl.program_id(0)
    n = tl.load(counts + program)
    p = gt.malloc(heap, n * 4)
    i = tl.arange(0, B)
    tl.store(p.to(tl.pointer_type(tl.float32)) + i, i.to(tl.float32), mask=(i < n) & (p != 0))
    tl.store(out + program, p)


@triton.jit
def give(heap, out):
    gt.free(heap, tl.load(out + tl.program_id(0)))


@triton.jit
def per_element(heap, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    p = gt.malloc_each(heap, 16 + i % 100, i < n)
    tl.store(out + i, p, mask=i < n)


@triton.jit
def give_each(heap, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    gt.free_each(heap, tl.load(out + i, mask=i < n, other=0), i < n)


def test_a_block_for_each_program(heap) -> None:
    counts = torch.arange(1, 257, dtype=torch.int32, device="cuda").repeat(4)
    out = torch.zeros(1024, dtype=torch.int64, device="cuda")
    per_program[(1024,)](heap.handle, counts, out, B=256, extern_libs=gt.extern_libs())
    assert heap.stats().live_allocations == 1024 and len(set(out.tolist())) == 1024
    for program in (0, 100, 1023):
        n = int(counts[program])
        assert heap.view(int(out[program]), n, "float32").torch().tolist() == list(range(n))
    give[(1024,)](heap.handle, out, extern_libs=gt.extern_libs())


# Fewer elements than threads, as many, more, and one.
@pytest.mark.parametrize(("block", "warps"), [(1, 4), (8, 1), (32, 4), (256, 8), (2048, 4)])
def test_a_block_for_each_element(heap, block: int, warps: int) -> None:
    n = block * 9 - block // 2
    out = torch.zeros(block * 9, dtype=torch.int64, device="cuda")
    per_element[(9,)](heap.handle, out, n, B=block, num_warps=warps, extern_libs=gt.extern_libs())
    addresses = out[:n].tolist()
    assert 0 not in addresses and len(set(addresses)) == n
    assert heap.stats().live_allocations == n
    assert out[n:].abs().sum().item() == 0
    give_each[(9,)](heap.handle, out, n, B=block, num_warps=warps, extern_libs=gt.extern_libs())


@triton.jit
def again_and_again(heap, wrong, rounds, B: tl.constexpr):
    i = tl.arange(0, B)
    bad = tl.zeros((B,), tl.int32)
    for turn in range(rounds):
        p = gt.malloc_each(heap, 8 + (i + turn) % 60 * 8, i % 3 != turn % 3)
        there = p != 0
        words = p.to(tl.pointer_type(tl.int64))
        tl.store(words, tl.program_id(0) * B + i + turn, mask=there)
        tl.debug_barrier()
        found = tl.load(words, mask=there, other=0, volatile=True)
        bad += (there & (found != tl.program_id(0) * B + i + turn)).to(tl.int32) + (there != (i % 3 != turn % 3)).to(tl.int32)
        gt.free_each(heap, p, there)
    tl.store(wrong + tl.program_id(0), tl.sum(bad, 0))


# In shared memory and in the heap; each element in one thread, and in several.
@pytest.mark.parametrize(("block", "warps"), [(16, 8), (1024, 4), (2048, 8)])
def test_slots_are_used_again(heap, block: int, warps: int) -> None:
    wrong = torch.full((64,), -1, dtype=torch.int32, device="cuda")
    again_and_again[(64,)](heap.handle, wrong, 20, B=block, num_warps=warps, extern_libs=gt.extern_libs(), maxnreg=64)
    assert wrong.tolist() == [0] * 64
    assert heap.stats().live_allocations == 0


def test_several_ctas_are_refused(heap) -> None:
    out = torch.zeros(1, dtype=torch.int64, device="cuda")
    with pytest.raises(Exception, match="num_ctas=2"):
        give[(1,)](heap.handle, out, num_ctas=2, extern_libs=gt.extern_libs())


def test_exhaustion_is_zero() -> None:
    with gpuheap.Heap("16 MiB") as heap:
        counts = torch.full((64,), 1 << 18, dtype=torch.int32, device="cuda")
        out = torch.zeros(64, dtype=torch.int64, device="cuda")
        per_program[(64,)](heap.handle, counts, out, B=256, extern_libs=gt.extern_libs())
        assert 0 < int((out == 0).sum()) < 64
        with pytest.raises(gpuheap.Exhausted):
            heap.check()


def test_a_checked_heap_serves_programs_and_elements() -> None:
    with gpuheap.Heap("64 MiB", allocator="checked") as heap:
        out = torch.zeros(1024, dtype=torch.int64, device="cuda")
        per_element[(8,)](heap.handle, out, 1024, B=128, extern_libs=gt.extern_libs())
        assert len(set(out.tolist())) == 1024
        heap.check()
        give_each[(8,)](heap.handle, out, 1024, B=128, extern_libs=gt.extern_libs())
        assert heap.stats().live_allocations == 0
        heap.check()
        give_each[(1,)](heap.handle, out, 128, B=128, extern_libs=gt.extern_libs())
        with pytest.raises(gpuheap.Misused, match="misused"):
            heap.check()


def test_programs_of_1024_threads(heap) -> None:
    out = torch.zeros(4096, dtype=torch.int64, device="cuda")
    per_element[(4,)](heap.handle, out, 4096, B=1024, num_warps=32, extern_libs=gt.extern_libs())
    assert len(set(out.tolist())) == 4096
    give_each[(4,)](heap.handle, out, 4096, B=1024, num_warps=32, extern_libs=gt.extern_libs())
