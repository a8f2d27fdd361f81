"""`gpuheap host probe`: what the driver's allocators are like from outside."""
