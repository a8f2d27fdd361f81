"""The commands of the command line: their output and their exit codes."""
