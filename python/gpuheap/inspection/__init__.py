"""`gpuheap inspect`: the contents of a heap's dump of live blocks. Needs numpy, and no other package."""
