"""Heaps that kernels written in Python allocate from: the host's side, which calls libgpuheap.so. Needs no third-party package."""
