"""The number of bells in the histogram of a measurement's runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

PLACES = 128  # at which the density is computed
LEAST_HEIGHT = 0.1  # of the highest bell; a lower one is not counted


def modes(runs: NDArray[Any]) -> NDArray[Any]:
    """The bells of each row of runs.

    The density is a sum of normal curves, one at each run. Their width is that which suits a single bell best, 1.06 times the standard deviation over the
    fifth root of the number of runs: it smooths several bells too much, so bells that are counted lie well apart.
    """
    runs = np.atleast_2d(np.asarray(runs, dtype=float))
    low, high = runs.min(axis=1, keepdims=True), runs.max(axis=1, keepdims=True)
    deviation = runs.std(axis=1, ddof=1 if runs.shape[1] > 1 else 0, keepdims=True)
    width = np.where(deviation > 0, 1.06 * deviation * runs.shape[1] ** -0.2, 1.0)
    places = (low - width) + (high - low + 2 * width) * np.linspace(0, 1, PLACES)
    density = np.exp(-0.5 * ((places[:, :, None] - runs[:, None, :]) / width[:, :, None]) ** 2).sum(axis=2)
    inner = density[:, 1:-1]
    bells = (inner > density[:, :-2]) & (inner >= density[:, 2:]) & (inner >= LEAST_HEIGHT * density.max(axis=1, keepdims=True))
    found: NDArray[Any] = np.maximum(bells.sum(axis=1), 1)
    return found
