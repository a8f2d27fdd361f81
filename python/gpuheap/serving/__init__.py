"""`gpuheap run`: a CUDA program as it is, its device malloc served by an allocator of gpuheap."""
