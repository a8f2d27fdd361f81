"""A CUDA program's requests to the driver for memory: traced, reported, and served from pools that are planned from a trace."""
