"""Whole programs that the rewriter rewrites: the text kept in programs/rewritten/, whose results CTest compares; and code that nvcc compiles."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from extent import in_full
from tool import CASES, HERE, ROOT, run

PROGRAMS = HERE / "programs"
NVCC = shutil.which("nvcc") or ("/usr/local/cuda/bin/nvcc" if Path("/usr/local/cuda/bin/nvcc").exists() else None)


@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("*.cu")), ids=lambda path: path.stem)
def test_rewritten_programs_are_those_that_are_kept(program: Path, tmp_path: Path) -> None:
    ran = run("--quiet", "--no-toolkit", "--output", str(tmp_path), str(program), "--", f"-I{PROGRAMS / 'cuda'}")
    assert ran.returncode == 0, ran.stderr
    kept = PROGRAMS / "rewritten" / program.name
    if os.environ.get("GPUHEAP_UPDATE_EXPECTED"):
        kept.write_text((tmp_path / program.name).read_text())
    assert (tmp_path / program.name).read_text() == kept.read_text()


@pytest.mark.skipif(NVCC is None, reason="rewritten programs under nvcc: not found: install the CUDA toolkit, 13.0 or newer")
def test_nvcc_compiles_what_the_cases_become(tmp_path: Path) -> None:
    """All cases as one file, each in a namespace of its own: against the library, whose calls the rewriter itself sees as declarations only."""
    lines = ["#include <cooperative_groups.h>", "#include <gpuheap/coalesced.hpp>"]
    for case in CASES:
        options = ["--no-toolkit", "--quiet", "--root", "rank_main", "--register", "exchange"]
        ran = run(*options, "--output", str(tmp_path), str(case))
        assert ran.returncode in (0, 1), ran.stderr
        lines += [f"namespace case_{case.stem} {{", f'#include "{case.name}"', "}"]
    (tmp_path / "all.cu").write_text("\n".join(lines) + "\n")
    # -dc: some cases call functions of other files. -O1 of the optimizer: nothing is measured. By day as PTX, without g++ and ptxas.
    made = ["-dc", "-Xcicc", "-O1", "-Xptxas", "-O1"] if in_full() else ["-rdc=true", "-ptx", "--Ofast-compile=max"]
    command = [NVCC, "-std=c++20", "-arch=sm_90", *made, "-diag-suppress=20012", "-DGPUHEAP_BACKEND_CUDA"]
    ran = subprocess.run(
        [*command, f"-I{ROOT / 'include'}", "all.cu", "-o", "all.o"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]


@pytest.mark.skipif(NVCC is None, reason="rewritten programs under nvcc: not found: install the CUDA toolkit, 13.0 or newer")
def test_a_toolkits_own_headers() -> None:
    """The same decisions as with the built-in declarations."""
    for stem in ("24_vote_of_the_block", "30_hidden_thread_index", "33_new_and_delete"):
        case = HERE / "cases" / f"{stem}.cu"
        with_toolkit = run("--quiet", case.name, cwd=case.parent)
        assert with_toolkit.returncode == 0, with_toolkit.stderr
        assert with_toolkit.stdout == run("--quiet", "--no-toolkit", case.name, cwd=case.parent).stdout
