"""`gpuheap doctor` on machines that lack something: a PATH of its own with programs that say what is needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_checkout import Checkout

import gpuheap


@pytest.fixture
def programs(checkout: Checkout) -> Path:
    folder = checkout.root / "bin"
    folder.mkdir()
    checkout.environment = {"PATH": str(folder), "CUDA_HOME": "", "CUDA_PATH": "", "CUDACXX": "", "CXX": ""}
    return folder


def program(folder: Path, name: str, *lines: str) -> None:
    """A program that prints something; `"--version:text"` for one argument only."""
    cases = "\n".join(f"  {line.split(':', 1)[0]}*) echo '{line.split(':', 1)[1]}';;" for line in lines)
    (folder / name).write_text(f'#!/bin/sh\ncase "$1" in\n{cases}\nesac\n')
    (folder / name).chmod(0o755)


def findings(checkout: Checkout) -> dict[str, dict[str, str]]:
    said = json.loads(checkout.gpuheap("doctor", "--json").stdout)
    return {finding["what"]: finding for finding in said}


def test_a_machine_with_nothing(checkout: Checkout, programs: Path) -> None:
    found = findings(checkout)
    assert (found["compiler"]["level"], found["compiler"]["advice"]) == ("problem", "apt-get install g++")
    assert found["gpu"]["level"] == "note"
    assert "kernels run in the simulator" in found["gpu"]["advice"]
    assert found["backend"]["text"] == "simulator: GPUHEAP_BENCH names it"


def test_an_old_compiler(checkout: Checkout, programs: Path) -> None:
    program(programs, "g++", "-dump:9.4.0")
    found = findings(checkout)["compiler"]
    assert found["level"] == "problem"
    assert "g++ 11 or newer" in found["advice"]


def test_a_compiler_named_by_cxx_that_is_not_there(checkout: Checkout, programs: Path) -> None:
    checkout.environment["CXX"] = "icpx"
    assert findings(checkout)["compiler"]["text"] == "CXX is 'icpx', which does not run"


def test_an_nvcc_named_by_cudacxx_that_is_not_there(checkout: Checkout, programs: Path) -> None:
    checkout.environment["CUDACXX"] = str(programs / "nvcc")
    assert findings(checkout)["toolkit"]["level"] == "problem"


def test_a_driver_that_is_too_old(checkout: Checkout, programs: Path) -> None:
    program(
        programs,
        "nvidia-smi",
        "--query-gpu=name:NVIDIA H200",
        "--query-gpu=driver_version:535.104.05",
        ":Driver Version: 535.104.05  CUDA Version: 12.2",
    )
    found = findings(checkout)
    assert found["gpu"]["text"] == "NVIDIA H200"
    assert (found["driver"]["level"], found["driver"]["text"]) == ("problem", "535.104.05 supports CUDA 12.2")
    assert "install driver 580 or newer" in found["driver"]["advice"]


def test_an_executable_that_the_driver_cannot_run(checkout: Checkout, programs: Path) -> None:
    checkout.settings = {"backend": "cuda", "device": None, "device_error": "CUDA driver version is insufficient for CUDA runtime version"}
    ran = checkout.gpuheap("doctor")
    assert ran.returncode == 1
    assert "problem  executable" in ran.stdout
    assert "the driver is older than the toolkit that built the executable" in ran.stdout


def test_everything_there(checkout: Checkout, programs: Path) -> None:
    program(programs, "nvidia-smi", "--query-gpu=name:NVIDIA H200", "--query-gpu=driver_version:580.65.06", ":CUDA Version: 13.0")
    program(programs, "g++", "-dump:13.3.0")
    program(programs, "cmake", "--version:cmake version 4.1.0")
    program(programs, "nvcc", "--version:Cuda compilation tools, release 13.0, V13.0.88")
    checkout.settings = {"backend": "cuda"}
    ran = checkout.gpuheap("doctor")
    assert ran.returncode == 0
    assert {what: finding["level"] for what, finding in findings(checkout).items() if finding["level"] != "good"} == {"run": "note", "host": "note"}
    assert "CUDA 13.0.88" in ran.stdout
    assert "149 GiB free of 150 GiB" in ran.stdout


def test_libraries_for_unchanged_programs(checkout: Checkout, programs: Path) -> None:
    found = findings(checkout)
    for command, library in (("run", "libgpuheap_run.so"), ("host", "libgpuheap_host.so")):
        assert found[command]["text"] == f"gpuheap {command} cannot run a program yet: {library} is not built"
        assert f"--target gpuheap_{command}" in found[command]["advice"]
    checkout.environment["GPUHEAP_HOST_LIBRARY"] = str(programs / "nowhere.so")
    assert "GPUHEAP_HOST_LIBRARY is" in findings(checkout)["host"]["text"]
    (programs / "nowhere.so").touch()
    assert findings(checkout)["host"]["level"] == "good"


def test_every_finding_is_one_line(checkout: Checkout) -> None:
    said = json.loads(checkout.gpuheap("doctor", "--json").stdout)
    assert len(checkout.gpuheap("doctor").stdout.splitlines()) == len(said)


def test_a_broken_package_is_a_finding() -> None:
    """If an import of another package raises anything, the other findings are printed all the same."""
    from gpuheap import light

    def look() -> str:
        raise AttributeError("module 'numpy' has no attribute 'row_stack'\nand more")

    assert light._finding("numba", look) == light.Finding("numba", False, "AttributeError: module 'numpy' has no attribute 'row_stack'")


def test_nothing_is_built(checkout: Checkout, programs: Path) -> None:
    checkout.environment["GPUHEAP_BENCH"] = ""
    found = findings(checkout)["executable"]
    assert (found["level"], found["text"]) == ("problem", "none is built")
    assert "--target gpuheap_bench_host" in found["advice"]


def test_an_installed_package_runs_programs_by_itself_also_beside_the_benchmark_s_packages(tmp_path: Path) -> None:
    package = Path(gpuheap.__file__).parent
    shutil.copytree(package, tmp_path / "site" / "gpuheap", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "site/gpuheap/recorded/benchmarks/suites").mkdir(parents=True, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "gpuheap", "run", "/bin/true"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert str(tmp_path / "site/gpuheap/lib/libgpuheap_run.so") in ran.stderr
