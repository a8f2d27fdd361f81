"""./test --fast runs the tests whose programs changed, those that failed, and those that have not run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "changed_tests.py"
CTEST = Path(sys.executable).parent / "ctest"

pytestmark = pytest.mark.skipif(not CTEST.exists(), reason="what ./test --fast runs: no CTest beside Python: pip install -r python/requirements-build.txt")


class Build:
    """A build with tests of CTest, each of a program of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []

    def add(self, name: str, exit_code: int = 0, arguments: str = "", more: str = "") -> Path:
        program = self.folder / name
        program.write_text(f"#!/bin/sh\nexit {exit_code}\n")
        program.chmod(0o755)
        self.lines += [f'add_test({name} "{program}" {arguments})', more]
        (self.folder / "CTestTestfile.cmake").write_text("\n".join(self.lines))
        return program

    def chosen(self) -> list[str]:
        ran = subprocess.run([sys.executable, SCRIPT, "choose", self.folder], capture_output=True, text=True, check=True, env=self.environment())
        names = (self.folder / "chosen_tests.txt").read_text().split()
        assert ran.stdout.split()[0] == str(len(names))
        return names

    def run(self, *names: str) -> None:
        junit = self.folder / "junit.xml"
        only = ["-R", f"^({'|'.join(names)})$"] if names else []
        subprocess.run([CTEST, "--test-dir", self.folder, "--output-junit", junit, *only], capture_output=True, check=False)
        subprocess.run([sys.executable, SCRIPT, "passed", self.folder, junit], check=True, env=self.environment())

    @staticmethod
    def environment() -> dict[str, str]:
        return {**os.environ, "PATH": f"{CTEST.parent}:{os.environ['PATH']}"}


def touch(file: Path) -> None:
    os.utime(file, ns=(1, file.stat().st_mtime_ns + 1_000_000))


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build(tmp_path)


def test_what_never_ran_what_failed_and_what_changed_is_chosen(build: Build) -> None:
    first, _, _ = build.add("first"), build.add("second"), build.add("fails", 1)
    assert build.chosen() == ["first", "second", "fails"]
    build.run()
    assert build.chosen() == ["fails"]
    build.add("new")
    touch(first)
    assert build.chosen() == ["first", "fails", "new"]
    build.run("first", "new")
    assert build.chosen() == ["fails"]


def test_what_passed_before_and_fails_now_is_chosen_until_it_passes(build: Build) -> None:
    program = build.add("first")
    build.run()
    program.write_text("#!/bin/sh\nexit 1\n")
    build.run()
    assert build.chosen() == ["first"]
    program.write_text("#!/bin/sh\nexit 0\n")
    build.run()
    assert build.chosen() == []


def test_files_among_arguments_and_required_files_count(build: Build) -> None:
    data, other = build.folder / "data", build.folder / "other"
    data.write_text("")
    other.write_text("")
    build.add("takes", arguments=f'"-DDEVICE={data}"')
    build.add("needs", more=f'set_tests_properties(needs PROPERTIES REQUIRED_FILES "{other}")')
    build.run()
    assert build.chosen() == []
    touch(data)
    assert build.chosen() == ["takes"]
    touch(other)
    assert build.chosen() == ["takes", "needs"]


def test_what_is_not_built_is_not_chosen_and_a_broken_note_is_none(build: Build) -> None:
    build.add("first")
    build.add("gone").unlink()
    build.run("first")
    assert build.chosen() == []
    (build.folder / "passed_tests.json").write_text("{")
    assert build.chosen() == ["first"]


def test_the_list_of_tests_is_found_by_ctest(tmp_path: Path) -> None:
    """The line of ./test that runs the chosen tests. The build has two tests, one of which is chosen. CTest looks for a relative path in the build."""
    (line,) = (line.strip() for line in (ROOT / "test").read_text().splitlines() if "chosen_tests.txt" in line)
    folder = tmp_path / "build" / "host"
    folder.mkdir(parents=True)
    (folder / "CTestTestfile.cmake").write_text('add_test(one "true")\nadd_test(two "false")\n')
    (folder / "chosen_tests.txt").write_text("one\n")
    host = {"name": "host", "generator": "Ninja", "binaryDir": "${sourceDir}/build/host"}
    (tmp_path / "CMakePresets.json").write_text(
        json.dumps({"version": 6, "configurePresets": [host], "testPresets": [{"name": "host", "configurePreset": "host"}]})
    )
    script = f'run_ctest() {{ "{CTEST}" --preset "$@"; }}\n{line}\n'
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "100% tests passed" in done.stdout and "out of 1" in done.stdout


@pytest.mark.parametrize(("defines", "brings"), [((), True), (("-DGPUHEAP_NO_DEFAULT_ALLOCATOR",), False)])
def test_a_test_that_does_not_use_the_default_allocator_does_not_read_it(tmp_path: Path, defines: tuple[str, ...], brings: bool) -> None:
    """So such a test is not built again where that allocator changes.."""
    source = tmp_path / "prelude.cpp"
    source.write_text("#include <gpuheap/heap.hpp>\n")
    folders = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'simulator' / 'include'}"]
    command = ["c++", "-std=c++20", "-DGPUHEAP_BACKEND_HOST", *defines, *folders, "-MM", "-MG", source]
    read = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert str(ROOT / "include/gpuheap/heap.hpp") in read
    allocators = [file for file in read if "/allocators/" in file]
    assert bool(allocators) == brings, allocators
