"""Fixtures of the tests of the command line. The package is taken from this checkout, installed or not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "python"), str(Path(__file__).resolve().parent)]

from fake_checkout import Checkout  # noqa: E402


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture
def error_line() -> Callable[[subprocess.CompletedProcess[str]], str]:
    """Checks that a command ended as mistakes of the user do, and gives the line that it printed."""

    def check(ran: subprocess.CompletedProcess[str]) -> str:
        assert ran.returncode == 2, ran.stdout + ran.stderr
        lines = ran.stderr.splitlines()
        assert len(lines) == 1, ran.stderr
        assert lines[0].startswith("gpuheap: ")
        return lines[0].removeprefix("gpuheap: ")

    return check
