"""`gpuheap host probe`: measures the characteristics of the driver's allocators from outside."""
