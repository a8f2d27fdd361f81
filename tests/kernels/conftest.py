"""Fixtures of the tests of kernels written in Python. They run against the package that is installed, or else that of this checkout."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if importlib.util.find_spec("gpuheap") is None or "GPUHEAP_TEST_INSTALLED" not in os.environ:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

sys.path.insert(0, str(Path(__file__).resolve().parent))
import gpuheap  # noqa: E402


def has_gpu() -> bool:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


@pytest.fixture(scope="session")
def gpu() -> None:
    if not has_gpu():
        pytest.skip("kernels written in Python on a GPU: there is none")


@pytest.fixture
def heap(gpu: None) -> Iterator[gpuheap.Heap]:
    """256 MiB; a test leaves nothing in it and has nothing refused, or says so by a reset."""
    with gpuheap.Heap("256 MiB") as made:
        yield made
        made.check()
        assert made.stats().live_allocations in (0, None)
