"""The GPUs for which a checkout is compiled: those of the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("told", "code", "wanted"),
    [
        ("9.0", 0, "90"),
        ("8.9\\n8.9", 0, "89"),
        ("10.0\\n8.0\\n9.0", 0, "80;90;100"),
        ("7.0\\n8.6", 0, "86"),
        ("6.1", 0, "90"),
        ("[N/A]", 0, "90"),
        ("NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver 5.7", 9, "90"),
        ("", 0, "90"),
        (None, 0, "90"),
    ],
)
def test_the_architectures_of_a_machine(tmp_path: Path, told: str | None, code: int, wanted: str) -> None:
    cmake = shutil.which("cmake") or str(ROOT / "build" / "venv" / "bin" / "cmake")
    tool = tmp_path / "nvidia-smi"
    if told is not None:
        tool.write_text(f"#!/bin/sh\nprintf '{told}\\n'\nexit {code}\n")
        tool.chmod(0o755)
    script = tmp_path / "ask.cmake"
    script.write_text(f"include({ROOT}/cmake/architectures_here.cmake)\ngpuheap_architectures_here(found)\nmessage(STATUS \"[${{found}}]\")\n")
    ran = subprocess.run([cmake, "-P", str(script)], env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert f"[{wanted}]" in ran.stdout
