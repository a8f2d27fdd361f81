"""What a CUDA program asks of the driver: traced, reported, and served from pools that are planned from a trace."""
