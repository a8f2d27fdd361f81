"""`gpuheap host advise`: the modes measured, the paper's rules beside them, and what to use."""
