"""Public programs that allocate in kernels, unchanged, measured with CUDA's malloc and with gpuheap behind it.

`python -m gpuheap.unchanged` needs Python's own library only, so that it runs on a machine that has a GPU and nothing else.
"""
