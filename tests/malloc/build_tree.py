"""The library under test, built again if it is not up to date, and nvcc; if one is missing, tests are skipped with the reason."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build/cuda"


def _architectures() -> list[str]:
    """The architectures of libgpuheap_malloc.a as ./test has configured its build, without a GPU one alone by day; all if nothing is configured."""
    cache = BUILD / "CMakeCache.txt"
    found = re.search(r"^GPUHEAP_MALLOC_ARCHITECTURES:\w+=(.*)$", cache.read_text(), re.MULTILINE) if cache.exists() else None
    return re.findall(r"(\d+)-real", found[1]) if found else ["75", "80", "86", "89", "90", "100", "120"]


ARCHITECTURES = _architectures()
# One that the library has as PTX only.
FROM_PTX = "87"
SERVED = ("malloc", "free", "__cuda_syscall_aligned_malloc")


def tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")
    if found is None:
        pytest.skip(f"relinked programs: no {name}: install the CUDA toolkit, 13.0 or newer")
    return found


@functools.cache
def library() -> Path:
    """libgpuheap_malloc.a."""
    tool("nvcc")
    cmake = ROOT / "build/venv/bin/cmake"
    if not cmake.exists() or not (BUILD / "build.ninja").exists():
        pytest.skip("relinked programs: there is no build for CUDA: run ./test")
    done = subprocess.run(
        [cmake, "--build", BUILD, "--target", "gpuheap_malloc"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"NINJA_STATUS": ""},
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return BUILD / "tools/malloc/libgpuheap_malloc.a"


def options_file() -> Path:
    """The options that nvcc gets to link a program with the library."""
    library()
    return BUILD / "tools/malloc/malloc.nvcc"


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(c) for c in command], check=False, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done
