"""Triton kernels of the tests that compile them: Triton reads kernels from files."""

from __future__ import annotations

import triton
import triton.language as tl

import gpuheap.triton as gt


@triton.jit
def both(heap, out, n, B: tl.constexpr):
    program = tl.program_id(0)
    p = gt.malloc(heap, n * 4)
    tl.store(out + program, p)
    i = program * B + tl.arange(0, B)
    each = gt.malloc_each(heap, 16 + i % 100, i < n)
    tl.store(out + i, each, mask=i < n)
    gt.free_each(heap, each, i < n)
    gt.free(heap, p)


@triton.jit
def alone(heap, out):
    tl.store(out, gt.malloc(heap, 16))
