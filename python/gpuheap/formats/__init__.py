"""What is read and written: suites, tables of results, and the lines in which the benchmark executable answers."""
