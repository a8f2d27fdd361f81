"""Runs suites: plans, executables, processes, and the machines and GPUs that execute them."""
