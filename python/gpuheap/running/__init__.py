"""Carrying out suites: plans, executables, processes, and who runs them."""
