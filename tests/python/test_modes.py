"""The number of bells in a histogram of runs."""

from __future__ import annotations

import numpy as np
import pytest

from gpuheap.judging.modes import modes


@pytest.mark.parametrize(("centres", "least", "most"), [((0.0,), 1, 1), ((0.0, 8.0), 2, 2), ((0.0, 8.0, 40.0), 2, 3)])
def test_bells_that_lie_apart_are_counted(centres: tuple[float, ...], least: int, most: int) -> None:
    source = np.random.default_rng(1)
    found = modes(source.choice(centres, (200, 30)) + source.normal(0, 0.5, (200, 30)))
    assert np.mean((least <= found) & (found <= most)) >= 0.9


def test_one_run_and_equal_runs_have_one_bell() -> None:
    assert modes(np.array([2.0])).tolist() == [1]
    assert modes(np.array([[3.0, 3.0, 3.0], [0.0, 0.0, 9.0]])).tolist()[0] == 1


def test_the_number_does_not_depend_on_the_unit() -> None:
    runs = np.random.default_rng(2).choice((1.0, 7.0), 30) + np.random.default_rng(3).normal(0, 0.3, 30)
    assert modes(runs).tolist() == modes(1e6 * runs + 5).tolist() == [2]
