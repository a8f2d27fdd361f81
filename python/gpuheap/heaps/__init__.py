"""Heaps that kernels written in Python allocate from: the host's side, over libgpuheap.so. Needs no other package."""
