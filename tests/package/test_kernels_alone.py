"""Without a GPU, ./test compiles the kernels of CUDA tests alone, without GoogleTest: they are those of each test and of each type of a suite."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HEAP = Path(__file__).resolve().parents[2] / "build" / "cuda" / "tests" / "heap" / "CMakeFiles"


@pytest.mark.parametrize(("test", "parts"), [("trap", ("test4take",)), ("checked", ("basic_scatteralloc", "basic_sharded_spans"))])
def test_the_kernels_of_a_test_are_those_of_each_type(test: str, parts: tuple[str, ...]) -> None:
    code = HEAP / f"cuda_heap_{test}.dir" / f"{test}_test.ptx"
    if not code.is_file():
        pytest.skip("kernels of CUDA tests alone: this build has none: run ./test with nvcc, without a GPU and without --all-schedules")
    kernels = re.findall(r"\.entry (\w+)", code.read_text())
    for part in parts:
        assert any(part in kernel for kernel in kernels), kernels
