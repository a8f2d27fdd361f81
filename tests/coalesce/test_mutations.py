"""Test cases with mistakes in them: the rewriter answers each as it documents. scripts/nightly_rewriter.py tries many more."""

from __future__ import annotations

import sys
from pathlib import Path

from tool import ROOT, TOOL

sys.path.insert(0, str(ROOT / "scripts"))

import nightly_rewriter as rewriter  # noqa: E402  (of the folder above)


def test_mistakes_are_answered() -> None:
    outcomes = [rewriter.try_one(Path(TOOL), seed) for seed in range(1, 31)]
    for outcome in outcomes:
        assert not outcome.finding, f"seed {outcome.seed}, {outcome.case}: {outcome.finding}\n{outcome.said}\n{outcome.text}"
    assert {outcome.code for outcome in outcomes} >= {0, 1}, "all files are alike"


def test_a_seed_makes_the_same_file_again() -> None:
    assert rewriter.mutated(7) == rewriter.mutated(7)
    assert len({rewriter.mutated(seed)[1] for seed in range(20)}) == 20
