"""How much the tests in Python check: all, or by day a share. ./test sets GPUHEAP_SEEDS_PERCENT, which tests/support/seeds.hpp reads for those in C++."""

from __future__ import annotations

import os


def in_full() -> bool:
    """Whether tests that take long check everything: not if GPUHEAP_SEEDS_PERCENT says less than 100."""
    return int(os.environ.get("GPUHEAP_SEEDS_PERCENT", "100")) >= 100


# Device code is compiled for three architectures (the oldest, a common one and the newest), or for the common one alone.
ARCHITECTURES = (75, 90, 120) if in_full() else (90,)
