"""The formats of files and output: suites, tables of results, and the lines in which the benchmark executable answers."""
