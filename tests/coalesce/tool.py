"""The built rewriter and the folder of its cases."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpuheap.commands.coalesce import find_tool
from gpuheap.errors import UserError
from gpuheap.paths import find_layout

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CASES = sorted((HERE / "cases").glob("*.cu"))

try:
    TOOL = find_tool(find_layout())
except UserError as error:
    pytest.skip(f"the source rewriter: {str(error).removeprefix('the source rewriter is ')}", allow_module_level=True)


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The tool, with the C library's freed memory written over: what is used after it was freed is seen."""
    environment = {**os.environ, "MALLOC_PERTURB_": "165"}
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, cwd=cwd, timeout=120, check=False, env=environment)
