"""Finds the programs that gpuheap needs, and their versions: compilers, the CUDA toolkit, the driver."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path


def output_of(*command: str) -> str | None:
    """The standard output of a program; None if it is missing or fails."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout if ran.returncode == 0 else None


def find_nvcc() -> Path | None:
    """The nvcc that CUDACXX names; without it, that of PATH, CUDA_HOME or /usr/local/cuda, in this order."""
    named = os.environ.get("CUDACXX")
    on_path = shutil.which(named or "nvcc")
    if on_path or named:
        return Path(on_path) if on_path else None
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if home and os.access(Path(home) / "bin" / "nvcc", os.X_OK):
            return Path(home) / "bin" / "nvcc"
    return None


def toolkit_version() -> str | None:
    """The version of the toolkit, as `13.0.88`."""
    nvcc = find_nvcc()
    said = output_of(str(nvcc), "--version") if nvcc else None
    found = re.search(r"V(\d+\.\d+\.\d+)", said or "") or re.search(r"release (\d+\.\d+)", said or "")
    return found.group(1) if found else None


def driver_version() -> str | None:
    """The version of the kernel driver, as `580.65.06`."""
    said = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    if said and said.strip():
        return said.strip().splitlines()[0].strip()
    try:
        found = re.search(r"Kernel Module(?:\s+for \S+)?\s+(\d+(?:\.\d+)+)", Path("/proc/driver/nvidia/version").read_text())
    except OSError:
        return None
    return found.group(1) if found else None


def gpu_names() -> list[str]:
    """The GPUs that nvidia-smi lists."""
    said = output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return [line.strip() for line in (said or "").splitlines() if line.strip()]


def driver_cuda_version() -> str | None:
    """The newest CUDA that the driver supports, as `13.0`."""
    found = re.search(r"CUDA Version:\s*(\d+\.\d+)", output_of("nvidia-smi") or "")
    return found.group(1) if found else None


def compiler_version(program: str) -> str | None:
    """The version of a C++ compiler, as `12.2.0`."""
    said = output_of(program, "-dumpfullversion", "-dumpversion")
    return said.strip() if said and said.strip() else None


def program_version(program: str) -> str | None:
    found = re.search(r"\d+(?:\.\d+)+", output_of(program, "--version") or "")
    return found.group(0) if found else None


def version_tuple(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
