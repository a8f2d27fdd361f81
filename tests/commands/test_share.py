"""What of the Python tests runs by day, as tests/conftest.py says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CASES = """
import pytest

@pytest.mark.parametrize("value", range(7))
def test_of_many(value): pass

def test_alone(): pass

@pytest.mark.whole
def test_that_takes_long(): pass
"""


@pytest.mark.parametrize(
    ("file", "percent", "said"),
    [
        ("test_cases.py", "10", "4/9 tests collected (5 deselected)"),
        ("test_short.py", "10", "8/9 tests collected (1 deselected)"),
        ("test_cases.py", "100", "9 tests collected"),
        ("test_cases.py", "", "9 tests collected"),
    ],
)
def test_a_share_runs_by_day_and_all_by_night(tmp_path: Path, file: str, percent: str, said: str) -> None:
    for name in ("conftest.py", "extent.py"):
        shutil.copy(TESTS / name, tmp_path)
    (tmp_path / file).write_text(CASES)
    variables = {key: value for key, value in os.environ.items() if key not in ("GPUHEAP_SEEDS_PERCENT", "PYTEST_ADDOPTS")}
    if percent:
        variables["GPUHEAP_SEEDS_PERCENT"] = percent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", "--collect-only", str(tmp_path)]
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert ran.returncode == 0 and said in ran.stdout, ran.stdout
    assert "test_of_many[0]" in ran.stdout and "test_of_many[3]" in ran.stdout and "test_of_many[6]" in ran.stdout
