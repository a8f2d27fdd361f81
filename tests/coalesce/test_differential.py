"""Generated kernels do the same before and after the rewriter, apart and together: a small share of what scripts/nightly_coalesce.py runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tool import HERE, TOOL

sys.path.insert(0, str(HERE / "differential"))

import compare  # noqa: E402  (of the folder beside)
import generate  # noqa: E402
import mutants  # noqa: E402


@pytest.mark.skipif(not compare.SIMULATOR.exists(), reason="rewritten programs in the simulator: it is not built: run ./test")
@pytest.mark.parametrize("seed", [11, pytest.param(12, marks=pytest.mark.whole)])
def test_every_promise_is_kept(seed: int, tmp_path: Path) -> None:
    """Of a block's threads, and, with the toolkit's headers where it is there, of a warp's."""
    outcome = compare.check(TOOL, seed, 100, tmp_path, 3)
    told = {number: (what, outcome.kernels[number].text) for number, what in outcome.findings.items()}
    assert not told, told


@pytest.mark.parametrize("seed", [21, pytest.param(22, marks=pytest.mark.whole)])
def test_what_may_be_coalesced_is(seed: int, tmp_path: Path) -> None:
    """At least nine of ten calls of the kernels in which nothing differs; and there are enough of them."""
    outcome = compare.rewrite(TOOL, seed, 300, tmp_path)
    assert outcome.may > 200
    assert outcome.are >= 0.9 * outcome.may, outcome.lost.most_common(10)


def test_every_way_and_every_use_comes_up() -> None:
    parts = " ".join(part for kernel in generate.make_file(1, 3000)[1] for part in kernel.parts)
    for name in [
        *generate.CARRIERS,
        *generate.HIDING,
        *generate.USES,
        *generate.RECURSION,
        *generate.WAITS,
        *generate.OVER,
    ]:
        assert name in parts


def test_a_seed_makes_the_same_kernels() -> None:
    assert generate.make_file(5, 20)[0] == generate.make_file(5, 20)[0] != generate.make_file(6, 20)[0]


def test_the_tool_itself_leaves_nothing_out(tmp_path: Path) -> None:
    """What COALESCE_UNDONE says is for the build of the tests alone."""
    assert len(mutants.parts()) >= 15
    outcome = compare.rewrite(TOOL, 31, 60, tmp_path)
    told = (tmp_path / "together" / "kernels.cu").read_text()
    every = ",".join([mutants.SOURCE, *mutants.parts()])
    assert compare.rewrite(TOOL, 31, 60, tmp_path, undone=every).may == outcome.may
    assert (tmp_path / "together" / "kernels.cu").read_text() == told
