"""`gpuheap host probe`: the characteristics of the driver's allocators, from outside."""
