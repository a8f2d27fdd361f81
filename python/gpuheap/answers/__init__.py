"""What rows say: the best for a pattern, comparisons of tables, verdicts on bounds, advice."""
