"""`gpuheap coalesce` finds the built rewriter, and hands on arguments, output and exit code as they are. tests/coalesce/ has the rewriter's own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment}
    return subprocess.run([sys.executable, "-m", "gpuheap", "coalesce", *arguments], capture_output=True, text=True, env=known, timeout=60, check=False)


def test_arguments_are_handed_on_as_they_are(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text('#!/bin/sh\nfor word in "$@"; do echo "[$word]"; done\nexit 2\n')
    tool.chmod(0o755)
    words = ["-h", "--help", "a b.cu", "-p", "build", "--level=warp", "--", "-Iinclude", "--json"]
    ran = run(*words, GPUHEAP_COALESCE=str(tool))
    assert ran.stdout.splitlines() == [f"[{word}]" for word in words]
    assert ran.returncode == 2


def test_a_signal_that_ends_the_tool_is_told_as_a_shell_does(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\nkill -PIPE $$\n")
    tool.chmod(0o755)
    assert run("prog.cu", GPUHEAP_COALESCE=str(tool)).returncode == 141


def test_a_tool_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "benchmarks" / "suites").mkdir(parents=True)
    ran = run("prog.cu", GPUHEAP_ROOT=str(tmp_path), GPUHEAP_COALESCE="")
    assert ran.returncode == 2 and ran.stdout == ""
    assert ran.stderr.startswith("gpuheap: the source rewriter is not built: sudo apt-get install llvm-19-dev libclang-19-dev")


def test_help_is_shown_without_the_tool_too(tmp_path: Path) -> None:
    usage = (ROOT / "tools" / "coalesce" / "usage.inc").read_text()
    for words in (["--help"], ["-h"], ["prog.cu", "--level", "warp", "--help"]):
        ran = run(*words, GPUHEAP_ROOT=str(ROOT), GPUHEAP_COALESCE="", PATH="/usr/bin:/bin")
        if "is not built" in ran.stderr:  # else the tool itself has answered
            assert ran.stderr.startswith("gpuheap: the source rewriter is not built: sudo apt-get install"), ran.stderr
        assert ran.returncode == 0 and ran.stdout.startswith("usage: gpuheap coalesce [options] FILE.cu")
        assert f'R"({ran.stdout})"\n' == usage
    # A compiler's option is not ours.
    (tmp_path / "benchmarks" / "suites").mkdir(parents=True)
    (tmp_path / "tools" / "coalesce").mkdir(parents=True)
    (tmp_path / "tools" / "coalesce" / "usage.inc").write_text(usage)
    assert run("--help", GPUHEAP_ROOT=str(tmp_path), GPUHEAP_COALESCE="").stdout == usage[3:-3]
    ran = run("prog.cu", "--", "--help", GPUHEAP_ROOT=str(tmp_path), GPUHEAP_COALESCE="")
    assert (ran.returncode, ran.stdout) == (2, "") and len(ran.stderr.splitlines()) == 1


def test_a_named_tool_that_is_no_program(tmp_path: Path) -> None:
    ran = run("prog.cu", GPUHEAP_COALESCE=str(tmp_path))
    assert (ran.returncode, ran.stderr) == (2, f"gpuheap: GPUHEAP_COALESCE is '{tmp_path}', which is not an executable file: name the rewriter, or unset it\n")
