"""Kernels of Numba and Triton, compiled and linked with the wheel's device code for the tests' architectures in build/venv-kernels. Needs no GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from extent import in_full

ROOT = Path(__file__).resolve().parents[2]
# CUDA 12's compilers take the device code at night.
FILES = ("tests/kernels/test_compile.py", *(("tests/kernels/test_cuda12.py",) if in_full() else ()))
PYTHON = ROOT / "build" / "venv-kernels" / "bin" / "python"


def test_kernels_compile_and_link(wheel_build: Path, tmp_path: Path) -> None:
    if not (ROOT / "build" / "venv-kernels" / ".requirements").is_file():
        pytest.skip("kernels written in Python: need Numba and Triton in build/venv-kernels: run ./test")
    (wheel,) = (wheel_build / "dist").glob("*.whl")
    packages = tmp_path / "packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--target", str(packages)]
    subprocess.run([*install, str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(packages), "GPUHEAP_TEST_INSTALLED": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [str(PYTHON), "-m", "pytest", "-q", "-p", "no:cacheprovider", *FILES]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-6000:]
    assert re.search(r"^\d+ passed", ran.stdout, re.MULTILINE) and "skipped" not in ran.stdout, ran.stdout[-2000:]
