"""Measures unchanged public programs that allocate in kernels, with CUDA's malloc and with gpuheap in its place.

`python -m gpuheap.unchanged` needs only Python's standard library, so that it runs on a machine that has a GPU and nothing else.
"""
