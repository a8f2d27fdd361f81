"""Mutants of the default allocator's protocol: of what scripts/nightly_mutants.py runs, a share that few schedules find."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from extent import in_full

sys.path.insert(0, str(Path(__file__).resolve().parent))

import protocol_mutants as mutants  # noqa: E402  (of this folder)

SHARE = mutants.MUTANTS[1 :: 8 if in_full() else 16]
needs_simulator = pytest.mark.skipif(not mutants.SIMULATOR.exists(), reason="mutants of the allocators' protocols: no simulator is built: run ./test")


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_changes_one_place(mutant: mutants.Mutant) -> None:
    assert mutants.occurrences(mutant) == 1


@needs_simulator
def test_the_allocator_itself_is_sound(tmp_path: Path) -> None:
    sound, said = mutants.explore(mutants.program(mutants.ROOT / "include", tmp_path), 4)
    assert sound, said


@needs_simulator
@pytest.mark.parametrize("mutant", SHARE, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found(mutant: mutants.Mutant, tmp_path: Path) -> None:
    sound, said = mutants.explore(mutants.program(mutants.mutated(mutant, tmp_path), tmp_path), mutant.seeds)
    assert not sound, said
