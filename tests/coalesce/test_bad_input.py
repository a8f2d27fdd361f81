"""The rewriter's answers to input that it cannot take. It then leaves every file as it was."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from tool import CASES, run

GOOD = "__global__ void kernel(void** out) { out[threadIdx.x] = malloc(8); }\n"


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.cu").write_text(GOOD)
    return tmp_path


def refused(folder: Path, *arguments: str) -> str:
    """Runs with --in-place; the words, after checking that nothing was written and nothing was left."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ran = run("--in-place", "--no-toolkit", *arguments, cwd=folder)
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    return ran.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("__global__ void broken( { malloc(8); }\n", "bad.cu:1:"),
        ('#include "missing.hpp"\n' + GOOD, "bad.cu:1:10: error: [E1] 'missing.hpp' file not found"),
        ("__global__ void other(void** out) { *out = malloc(unknown); }\n", "use of undeclared identifier 'unknown'"),
    ],
)
def test_what_does_not_parse(folder: Path, text: str, words: str) -> None:
    (folder / "bad.cu").write_text(text)
    said = refused(folder, "good.cu", "bad.cu")
    assert words in said and "nothing is written" in said and "come after --" in said


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("__global__ void broken( {}\n", "E1"),
        (GOOD, "E6"),
        ("#define CALL(a, b) a##b(8)\n__device__ void* f() { return CALL(mal, loc); }\n", "E5"),
    ],
)
def test_errors_as_json(folder: Path, text: str, rule: str) -> None:
    (folder / "bad.cu").write_text(text)
    ran = run("--no-toolkit", "--json", "good.cu", "bad.cu", cwd=folder)
    assert ran.returncode == 2
    assert {one["id"] for one in json.loads(ran.stdout)["diagnostics"]} >= {rule}


def test_device_code_in_a_header_that_was_not_named(folder: Path) -> None:
    (folder / "make.cuh").write_text("#pragma once\n__device__ inline void* make(int n) { return malloc(n); }\n")
    (folder / "uses.cu").write_text('#include "make.cuh"\n__global__ void uses(void** out) { *out = make(4); free(*out); }\n')
    said = refused(folder, "uses.cu")
    assert "make.cuh:2:" in said and "[E3]" in said and "name it too, with all files that include it" in said
    ran = run("--in-place", "--no-toolkit", "uses.cu", "make.cuh", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert (folder / "make.cuh").read_text() == (
        "#pragma once\n#include <gpuheap/coalesced.hpp>\n"
        "__device__ inline void* make(int n, bool coalesce = false) { return gpuheap::coalesced::malloc(n, coalesce); }\n"
    )
    assert "*out = make(4, true); gpuheap::coalesced::free(*out);" in (folder / "uses.cu").read_text()


def test_a_call_that_a_macro_puts_together(folder: Path) -> None:
    (folder / "bad.cu").write_text("#define CALL(a, b) a##b(8)\n__global__ void other(void** out) { *out = CALL(mal, loc); }\n")
    assert "[E5] this allocation is put together by a macro and cannot be rewritten: write it out" in refused(folder, "bad.cu")


def test_two_programs_at_once(folder: Path) -> None:
    (folder / "more.cu").write_text(GOOD)
    assert "kernel has a second definition: the files given are not one program" in refused(folder, "good.cu", "more.cu")


def test_a_registered_function_without_the_flag(folder: Path) -> None:
    (folder / "bad.cu").write_text("__device__ int exchange(int n);\n__global__ void other(int n) { exchange(n); }\n")
    ran = run("--no-toolkit", "--register", "exchange", "bad.cu", cwd=folder)
    assert ran.returncode == 1 and "takes no flag: declare it with a last parameter `bool coalesce = false`" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.cu"], "cannot read the file 'absent.cu'"),
        ([], "name the files to look at"),
        (["--inplace", "good.cu"], "there is no option '--inplace': see --help"),
        (["--level", "thread", "good.cu"], "--level: 'thread' is none of block, warp, grid"),
        (["--analysis=guess", "good.cu"], "--analysis: 'guess' is neither flow nor pattern"),
        (["--output", "", "good.cu"], "--output: '' is no folder"),
        (["good.cu", "--register"], "--register needs a value"),
        (["-p", "nowhere", "good.cu"], "there is no nowhere/compile_commands.json"),
    ],
)
def test_mistakes_on_the_command_line(folder: Path, arguments: list[str], words: str) -> None:
    ran = run(*arguments, cwd=folder)
    assert ran.returncode == 2 and words in ran.stderr and ran.stdout == ""


def test_in_place_keeps_permissions_and_leaves_nothing_beside(folder: Path) -> None:
    (folder / "good.cu").chmod(0o640)
    assert run("--in-place", "--no-toolkit", "good.cu", cwd=folder).returncode == 0
    assert [path.name for path in folder.iterdir()] == ["good.cu"]
    assert stat.S_IMODE((folder / "good.cu").stat().st_mode) == 0o640
    assert "gpuheap::coalesced::malloc(8, true)" in (folder / "good.cu").read_text()


@pytest.mark.skipif(os.geteuid() == 0, reason="folders that nobody may write: root may: call ./test as another user")
def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    folder.chmod(0o555)
    try:
        assert "cannot write" in refused(folder, "good.cu")
    finally:
        folder.chmod(0o755)


def test_all_files_or_none(folder: Path) -> None:
    """The second file's new text cannot be put beside it, so the first stays as it was."""
    (folder / "deep").mkdir()
    long_name = "x" * 250 + ".cu"  # no room for the suffix of a temporary file
    (folder / "deep" / long_name).write_text(GOOD.replace("kernel", "other"))
    ran = run("--in-place", "--no-toolkit", "good.cu", f"deep/{long_name}", cwd=folder)
    assert ran.returncode == 2 and "File name too long: nothing is written" in ran.stderr
    assert (folder / "good.cu").read_text() == GOOD
    assert sorted(path.name for path in folder.iterdir()) == ["deep", "good.cu"]


def test_compiler_options_from_a_compilation_database(folder: Path) -> None:
    (folder / "good.cu").write_text("#include <size.hpp>\n" + GOOD.replace("malloc(8)", "malloc(SIZE * FACTOR)"))
    (folder / "include").mkdir()
    (folder / "include" / "size.hpp").write_text("#define SIZE 8\n")
    command = "nvcc -forward-unknown-to-host-compiler -DFACTOR=2 -Iinclude --generate-code=arch=compute_90,code=[sm_90] -std=c++20 -x cu -c good.cu -o good.o"
    (folder / "compile_commands.json").write_text(json.dumps([{"directory": str(folder), "file": "good.cu", "command": command}]))
    assert run("--no-toolkit", "good.cu", cwd=folder).returncode == 2
    ran = run("--no-toolkit", "-p", ".", "good.cu", cwd=folder)
    assert ran.returncode == 0 and "malloc(SIZE * FACTOR, true)" in ran.stdout


def test_definitions_in_another_file_that_was_named(folder: Path) -> None:
    (folder / "make.cu").write_text("__device__ void* make(int n) { return malloc(n); }\n")
    (folder / "uses.cu").write_text("__device__ void* make(int n);\n__global__ void uses(void** out) { *out = make(4); }\n")
    ran = run("--in-place", "--no-toolkit", "uses.cu", "make.cu", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert "__device__ void* make(int n, bool coalesce = false);\n" in (folder / "uses.cu").read_text()
    assert "make(4, true)" in (folder / "uses.cu").read_text()
    assert "make(int n, bool coalesce = false) { return gpuheap::coalesced::malloc(n, coalesce); }" in (folder / "make.cu").read_text()


def test_ten_thousand_lines(folder: Path) -> None:
    """Well under the 30 s that are promised: this text is one case after another, with their names made different."""
    parts = [case.read_text() for case in CASES if case.stem[:2] in {"02", "09", "12", "13", "15", "16", "25", "33", "35", "36", "37"}]
    text = "".join(f"namespace part_{number} {{\n{part}}}\n" for number, part in enumerate(parts * 90))
    assert text.count("\n") > 10_000
    (folder / "long.cu").write_text(text)
    (folder / "out").mkdir()
    ran = run("--quiet", "--output", "out", "--no-toolkit", "long.cu", cwd=folder)
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_output_keeps_folders(folder: Path) -> None:
    (folder / "src" / "parts").mkdir(parents=True)
    (folder / "src" / "parts" / "make.cuh").write_text("#pragma once\n__device__ inline void* make(int n) { return malloc(n); }\n")
    (folder / "src" / "uses.cu").write_text('#include "parts/make.cuh"\n__global__ void uses(void** out) { *out = make(4); }\n')
    (folder / "out").mkdir()
    ran = run("--no-toolkit", "--output", "out", "src/uses.cu", "src/parts/make.cuh", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert "make(4, true)" in (folder / "out" / "uses.cu").read_text()
    assert "bool coalesce = false" in (folder / "out" / "parts" / "make.cuh").read_text()
    again = run("--no-toolkit", "out/uses.cu", "out/parts/make.cuh", cwd=folder)
    assert again.returncode == 1, again.stderr


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("absent", "--output: there is no folder 'absent': make it first"),
        (".", "good.cu is one of the files given, which stay as they are: choose another folder"),
        ("taken", "taken/good.cu is a folder, and a file is to be written there"),
        ("good.cu", "--output: there is no folder 'good.cu'"),
    ],
)
def test_output_that_cannot_be(folder: Path, output: str, words: str) -> None:
    (folder / "taken" / "good.cu").mkdir(parents=True)
    ran = run("--no-toolkit", "--output", output, "good.cu", cwd=folder)
    assert ran.returncode == 2 and words in ran.stderr, ran.stderr
    assert (folder / "good.cu").read_text() == GOOD


@pytest.mark.parametrize("writes", [["--in-place"], ["--output", "out"]])
def test_a_dry_run_shows_the_change_and_writes_nothing(folder: Path, writes: list[str]) -> None:
    (folder / "out").mkdir()
    ran = run("--no-toolkit", "--dry-run", *writes, "good.cu", cwd=folder)
    assert ran.returncode == 0 and "+__global__ void kernel(void** out) { out[threadIdx.x] = gpuheap::coalesced::malloc(8, true); }" in ran.stdout
    assert (folder / "good.cu").read_text() == GOOD and not list((folder / "out").iterdir())
