"""The comparative sentences of the papers as data, and their judgement from rows.

`benchmarks/claims/*.toml` holds a file for each paper; docs/claims.md says how a claim is written. `reader` reads them into the types of
`language`, `evidence` finds the rows that a claim is about, `relations` evaluates its relation on them, and `judge` gives the verdict.
`printed` has the numbers that the papers print, and `advised` has their recommendations.
"""
