"""A project that adds gpuheap is configured by the oldest CMake that the README promises, and by CPM; the cheapest of its programs is built."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPS = ROOT / "build" / "deps"
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
SIMULATOR = ROOT / "build" / "host" / "simulator" / "libgpuheap_simulator.a"
BACKENDS = [
    pytest.param("host", marks=pytest.mark.skipif(not SIMULATOR.exists(), reason="a project with the simulator: it is not built: run ./test")),
    pytest.param("cuda", marks=pytest.mark.skipif(NVCC is None, reason="a project with CUDA: no nvcc found: install the CUDA toolkit, 13.0 or newer")),
]
# The target that is built. With CUDA it is a program, which takes ten seconds. With the simulator it is `help`, which only lists the targets.
TARGETS = {"host": "help", "cuda": "cuda_only"}

CPM = "https://github.com/cpm-cmake/CPM.cmake/releases/download/v0.40.2/CPM.cmake"
CPM_SHA256 = "c8cdc32c03816538ce22781ed72964dc864b2a34a310d3b7104812a5ca2d835d"


@pytest.fixture(scope="module")
def oldest_cmake() -> Path:
    """The CMake that CMakeLists.txt requires, from its package of Python."""
    found = re.search(r"cmake_minimum_required\(VERSION (\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text())
    assert found and f"{found[1]} or newer" in (ROOT / "README.md").read_text()
    folder = DEPS / f"cmake-{found[1]}"
    cmake = folder / "cmake" / "data" / "bin" / "cmake"
    if not cmake.exists():
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), f"cmake=={found[1]}.*"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            pytest.skip(f"the oldest CMake: pip cannot fetch it: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    told = subprocess.run([cmake, "--version"], capture_output=True, text=True, check=True).stdout
    assert told.startswith(f"cmake version {found[1]}.")
    return cmake


@pytest.fixture(scope="module")
def cpm() -> Path:
    file = DEPS / "CPM.cmake"
    if not file.exists():
        try:
            with urllib.request.urlopen(CPM, timeout=20) as answer:
                text = answer.read()
        except OSError as error:
            pytest.skip(f"a project that adds gpuheap by CPM: {CPM} cannot be fetched ({error}): put the file at build/deps/CPM.cmake")
        assert hashlib.sha256(text).hexdigest() == CPM_SHA256
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
    return file


def consume(cmake: Path, how: str, backend: str, work: Path, *options: str) -> None:
    ninja = shutil.which("ninja", path=f"{Path(sys.executable).parent}:/usr/bin")
    if ninja is None:
        pytest.skip("projects that add gpuheap: no Ninja: run ./test, which sets it up")
    prefix = f"-DCMAKE_PREFIX_PATH={DEPS / 'usr'}"  # where ./test puts Boost for a user who is not root
    given = ";".join([prefix, f"-DCMAKE_MAKE_PROGRAM={ninja}", *([f"-DCMAKE_CUDA_COMPILER={NVCC}"] if NVCC else []), *options])
    variables = [f"-D{name}={value}" for name, value in (
        ("HOW", how), ("BACKEND", backend), ("SOURCE", ROOT), ("WORK", work), ("GENERATOR", "Ninja"), ("OPTIONS", given), ("TARGETS", TARGETS[backend]),
    )]  # fmt: skip
    done = subprocess.run([cmake, *variables, "-P", ROOT / "tests/package/consume.cmake"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_oldest_cmake_that_is_promised(oldest_cmake: Path, backend: str, tmp_path: Path) -> None:
    consume(oldest_cmake, "subdirectory", backend, tmp_path / "work")


@pytest.mark.parametrize("backend", BACKENDS)
def test_cpm(cpm: Path, backend: str, tmp_path: Path) -> None:
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:/usr/bin")
    if cmake is None:
        pytest.skip("a project that adds gpuheap by CPM: no CMake: run ./test, which sets it up")
    consume(Path(cmake), "cpm", backend, tmp_path / "work", f"-DGPUHEAP_CPM={cpm}")
