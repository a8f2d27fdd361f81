"""CMake's messages where it cannot configure: one line that says what is missing, and what to do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def allocators() -> list[str]:
    """The names in cmake/allocators.cmake, in its order."""
    return re.findall(r"^gpuheap_allocator\(NAME (\w+)", (ROOT / "cmake" / "allocators.cmake").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ("-DGPUHEAP_ENABLE_CUDA=OFF", "-DGPUHEAP_ENABLE_HOST=OFF"),
            "gpuheap: no backend is left to build, with GPUHEAP_ENABLE_CUDA=OFF and GPUHEAP_ENABLE_HOST=OFF: "
            "configure with -DGPUHEAP_ENABLE_CUDA=ON (needs nvcc) or -DGPUHEAP_ENABLE_HOST=ON (needs Boost.Context)",
        ),
        (
            ("-DGPUHEAP_ENABLE_CUDA=OFF", "-DGPUHEAP_BUILD_TOOLS=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON"),
            "gpuheap: the tests need GoogleTest, which is not found: sudo apt-get install libgtest-dev, or configure with -DGPUHEAP_BUILD_TESTS=OFF",
        ),
        (
            ("-DGPUHEAP_ENABLE_CUDA=OFF", "-DGPUHEAP_BUILD_TOOLS=OFF", "-DGPUHEAP_BUILD_TESTS=OFF", "-DGPUHEAP_BENCH_ONLY=scatteralloc;atomic"),
            f"gpuheap: GPUHEAP_BENCH_ONLY: 'atomic' is not an allocator of this build: there are {', '.join(allocators())}",
        ),
    ],
)
def test_what_cannot_be_configured_is_told_in_a_line(tmp_path: Path, options: tuple[str, ...], complaint: str) -> None:
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("messages of CMake: no CMake or no Ninja: run ./test, which sets them up")
    deps = ROOT / "build" / "deps" / "usr"  # where ./test puts Boost for a user who is not root
    command = ["cmake", "-S", str(ROOT), "-B", str(tmp_path / "build"), "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={deps}", *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode != 0
    errors = re.findall(r"CMake Error at .*\n((?:\s.*\n)+)", ran.stderr)
    assert [error.strip() for error in errors] == [complaint]
