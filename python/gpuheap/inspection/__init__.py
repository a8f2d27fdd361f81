"""`gpuheap inspect`: what a heap's dump of live blocks says. Needs numpy, and no other package."""
