"""The commands that need more than one call: their output and their exit codes."""
