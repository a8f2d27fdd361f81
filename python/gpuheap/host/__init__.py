"""Traces and reports a CUDA program's requests to the driver for memory, and serves them from pools that are planned from a trace."""
