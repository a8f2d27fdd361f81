"""Fixtures of the tests of the command line. The package is taken from this checkout, installed or not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "python"), str(Path(__file__).resolve().parent)]

from fake_checkout import Checkout  # noqa: E402
from served_steps import BUILT, IMAGE, NVCC, Bench, Compile  # noqa: E402


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


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Fat binaries of nvcc; each is made once."""
    folder = tmp_path_factory.mktemp("compiled")
    made: dict[tuple[str, ...], Path] = {}

    def compile_it(source: str, *options: str) -> Path:
        key = (source, *options)
        if key not in made:
            file = folder / f"{len(made)}.cu"
            file.write_text(source)
            made[key] = file.with_suffix(".out")
            form = [] if any(option in ("-ptx", "-cubin") for option in options) else ["-fatbin"]
            subprocess.run([str(NVCC), "-std=c++17", *form, *options, "-o", str(made[key]), str(file)], check=True, capture_output=True)
        return made[key]

    return compile_it


@pytest.fixture
def bench(tmp_path: Path, compiled: Compile) -> Bench:
    (tmp_path / "providers").mkdir()
    for name in ("sharded_spans", "gallatin"):
        shutil.copy(BUILT / "run" / "libgpuheap_malloc_double.so", tmp_path / "providers" / f"libgpuheap_malloc_{name}.so")
    return Bench(tmp_path, compiled(IMAGE, "-rdc=true", "-arch=sm_90"))
