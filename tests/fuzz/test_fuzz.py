"""The fuzz targets: each runs its corpus and some thousand inputs more; and a planted mistake is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import nightly_fuzz as fuzz  # noqa: E402  (of the folder above)

# The C interface makes a heap in most executions.
EXECUTIONS = {"capi": 300}


@pytest.fixture(scope="module")
def built() -> Path:
    try:
        fuzz.build(fuzz.find_clang())
    except fuzz.CannotRun as error:
        if "no clang++" in str(error):
            pytest.skip(f"the fuzz targets: {error}")
        raise
    return fuzz.BUILD


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_nothing_is_found(built: Path, target: str) -> None:
    if not (built / target).exists():
        pytest.skip("the fuzz targets of CUDA programs: no cuda_runtime_api.h: install the CUDA toolkit, 13.0 or newer")
    outcome = fuzz.run(target, EXECUTIONS.get(target, 6000), 20, 1)
    assert outcome.finding is None, f"{outcome.text}: {outcome.finding}"
    assert outcome.executions > 50


def test_the_corpora_are_small() -> None:
    for target in fuzz.TARGETS:
        files = list((fuzz.CORPUS / target).iterdir())
        assert files, target
        assert sum(file.stat().st_size for file in files) < 12_000, target


def test_a_target_that_is_not_there_is_refused() -> None:
    ran = subprocess.run([sys.executable, str(ROOT / "scripts" / "nightly_fuzz.py"), "tracks"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "there is no target 'tracks'" in ran.stderr
