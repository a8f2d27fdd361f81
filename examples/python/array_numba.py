import gpuheap, gpuheap.numba as gn
from numba import cuda, float32

@cuda.jit
def kernel(heap):
    a = gn.array(heap, cuda.grid(1) % 7 + 1, float32)  # of size 0 if the heap has no memory
    gn.free(heap, a)
with gpuheap.Heap("1 GiB") as heap:
    kernel[64, 256](heap.handle)
    heap.check()  # raises gpuheap.Exhausted if a request found no memory
