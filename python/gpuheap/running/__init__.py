"""Runs suites: plans, executables, processes, and the machines and GPUs on which they run."""
