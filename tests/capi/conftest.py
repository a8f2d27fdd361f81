"""Fixtures of the C interface's tests: its library and its device code, built for the tests' architectures, the first one as PTX too, once for all workers."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from extent import ARCHITECTURES, in_full

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]


def nvcc() -> str:
    found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if found is None:
        pytest.skip("the C interface: no nvcc found: install the CUDA toolkit, 13.0 or newer")
    return found


@pytest.fixture(scope="session")
def wheel_build() -> Path:
    """The folder in which scripts/wheel.py has built the libraries, the device code and the wheel."""
    nvcc()
    folder = ROOT / "build" / "wheel-test"
    folder.mkdir(parents=True, exist_ok=True)
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    with (folder / ".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        if run and lock.read() == run:  # another worker of this run has built it, and its tests read the files
            return folder
        lock.truncate(0)
        command = [sys.executable, str(ROOT / "scripts" / "wheel.py"), "--build", str(folder), "--architectures", ",".join(map(str, ARCHITECTURES))]
        if not in_full() and platform.machine() == "x86_64":  # the other heaps take half of the time
            command += ["--providers", "sharded_spans"]
        built = subprocess.run(command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False)
        if built.returncode == 0:
            lock.write(run)
    assert built.returncode == 0, built.stdout[-4000:] + built.stderr[-4000:]
    return folder
