"""The gpuheap command line: runs the benchmark executables, keeps their results, draws the report."""

__version__ = "0.1.0"
