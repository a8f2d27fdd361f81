"""Answers from rows: the best allocator for a pattern, comparisons of tables, verdicts on bounds, advice."""
