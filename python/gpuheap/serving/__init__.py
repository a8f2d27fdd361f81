"""`gpuheap run`: runs an unchanged CUDA program, and serves malloc in its kernels with an allocator of gpuheap."""
