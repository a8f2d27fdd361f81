"""An allocator from outside the repository: docs/add-an-allocator.md as it stands, and what is said about mistakes."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_checkout import REPOSITORY

from gpuheap.commands.bench import Where, _check_alone, _check_name, _executable
from gpuheap.errors import UserError
from gpuheap.formats.results import read_table
from gpuheap.running.conform import names_of_tests, run_tests
from gpuheap.running.outside import Outside, read_outside

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]
PAGE = (REPOSITORY / "docs" / "add-an-allocator.md").read_text()
BUILD = REPOSITORY / "build" / "host"
needs_build = pytest.mark.skipif(
    not (BUILD / "CMakeCache.txt").is_file(),
    reason="allocators from outside: the simulator is not built: ./test builds it",
)


def gpuheap(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GPUHEAP_")}
    variables = {
        **kept,
        "PYTHONPATH": str(REPOSITORY / "python"),
        "GPUHEAP_ROOT": str(REPOSITORY),
        "COLUMNS": "200",
    }
    command = [sys.executable, "-m", "gpuheap", *arguments]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=600)


@pytest.fixture(autouse=True)
def forgotten_afterwards() -> Iterator[None]:
    """The build folder is the checkout's own: what the tests ask for is no part of it."""
    before = set(BUILD.glob("outside/*.cmake"))
    yield
    for file in set(BUILD.glob("outside/*.cmake")) - before:
        file.unlink()


@needs_build
@pytest.mark.whole
def test_the_page_is_true(tmp_path: Path) -> None:
    (header,) = re.findall(r"```cpp\n(.*?)```", PAGE, re.DOTALL)
    name = re.match(r"// (\w+\.hpp):", header)
    assert name is not None
    (tmp_path / name[1]).write_text(header)
    said = []
    for line in "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).splitlines():
        program, *arguments = shlex.split(line)
        assert program == "gpuheap"
        ran = gpuheap(arguments, tmp_path)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        said.append(ran.stdout)
    assert len(said) == 3
    passed = re.search(r"mine::shelf in the simulator: (\d+) of (\d+) tests passed", said[0])
    assert passed is not None and passed[1] == passed[2] and int(passed[1]) >= 25
    rows = [row for row in read_table(tmp_path / "mine" / "quick.csv") if row.allocator == "shelf"]
    assert {row.case for row in rows} == {"alloc_mixed", "churn"}
    assert all(row.ok for row in rows)
    assert "shelf" in (tmp_path / "mine" / "report.html").read_text()


MISTAKES = {
    "a slip of the pen": (
        "my::broken",
        "return nullptr",
        "return nulptr",
        r"broken.hpp:\d+: .*nulptr.*, as the compiler for simulator says",
    ),
    "another name": (
        "my::other",
        "",
        "",
        r"--type my::other: .*other.*as the compiler for simulator says",
    ),
    "no malloc": (
        "my::broken",
        "void* malloc",
        "void* alloc",
        r"--type my::broken: .*device_allocator: see include/gpuheap/allocator.hpp",
    ),
    "no name": (
        "my::broken",
        '.name = "broken"',
        '.name = ""',
        r"--type my::broken: .*traits.name is empty",
    ),
}
HEADER = """#pragma once
#include <gpuheap/allocator.hpp>
namespace my {
struct broken {
  static constexpr gpuheap::allocator_traits traits{.name = "broken"};
  GPUHEAP_FN void* malloc(gpuheap::simt::size_t) const { return nullptr; }
  GPUHEAP_FN void free(void*) const {}
#if GPUHEAP_HAS_HOST
  static gpuheap::simt::size_t min_region_bytes() { return 1; }
  static broken create(gpuheap::memory::region, gpuheap::stream_ref) { return {}; }
#endif
};
}  // namespace my
"""


@needs_build
@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_does_not_compile_is_shown_as_the_compiler_sees_it(tmp_path: Path, error_line: ErrorLine, mistake: str) -> None:
    type_name, old, new, complaint = MISTAKES[mistake]
    (tmp_path / "broken.hpp").write_text(HEADER.replace(old, new) if old else HEADER)
    ran = gpuheap(
        [
            "bench",
            "churn",
            "--backend",
            "simulator",
            "--allocator-header",
            "broken.hpp",
            "--type",
            type_name,
            "--output",
            "x",
        ],
        tmp_path,
    )
    line = error_line(ran)
    assert re.search(complaint, line), line
    log = re.search(r"\(full log: (\S+)\)", line)
    assert log is not None and (REPOSITORY / log[1]).exists()
    assert not (tmp_path / "x").exists(), "nothing was measured"


@pytest.mark.parametrize(
    ("header", "type_name", "complaint"),
    [
        (None, "my::alloc", "name the header that defines it with --allocator-header"),
        ("here.hpp", None, "name the class in it with --type"),
        ("gone.hpp", "my::alloc", "there is no file 'gone.hpp'"),
        ("here.hpp", "my alloc", "--type: 'my alloc' is not the name of a class"),
        ("here.hpp", "my::alloc<4;5>", "is not the name of a class"),
    ],
)
def test_the_two_options_go_together(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    header: str | None,
    type_name: str | None,
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.hpp").touch()
    with pytest.raises(UserError) as raised:
        read_outside(Path(header) if header else None, type_name)
    assert complaint in str(raised.value)


def test_a_class_with_parameters_has_a_name_for_files(tmp_path: Path) -> None:
    (tmp_path / "a.hpp").touch()
    outside = read_outside(tmp_path / "a.hpp", "my::alloc<64, other>")
    assert outside is not None and outside.key == "my_alloc_64_other"


@pytest.mark.parametrize(("names", "complaint"), [(("sharded_spans", "shelf"), "-a sharded_spans: only mine::shelf is built here"), (("shelf",), ""), ((), "")])
def test_other_allocators_need_the_benchmark_of_all(names: tuple[str, ...], complaint: str) -> None:
    request: Any = SimpleNamespace(allocators=names)
    where: Any = SimpleNamespace(outside=Outside(Path("shelf.hpp"), "mine::shelf"))
    if complaint:
        with pytest.raises(UserError, match=f"{complaint}: ./test builds the benchmark of all allocators"):
            _check_alone("shelf", request, where)
    else:
        _check_alone("shelf", request, where)


def test_a_name_of_the_repository_is_taken() -> None:
    description = SimpleNamespace(allocators=[SimpleNamespace(name="sharded_spans")], baselines=["store_only"])
    ours: Any = SimpleNamespace(description=description)
    where = Where("simulator", None, None, None, Outside(Path("/a.hpp"), "my::alloc"))
    with pytest.raises(UserError, match="my::alloc calls itself 'sharded_spans' .* give it a name of its own"):
        _check_name("sharded_spans", ours, SimpleNamespace(), where)  # type: ignore[arg-type]
    _check_name("mine", ours, SimpleNamespace(), where)  # type: ignore[arg-type]


SUITE = f"""#!{sys.executable}
import os, sys, time
name = next((a.partition("=")[2] for a in sys.argv if a.startswith("--gtest_filter=")), "")
if "--gtest_list_tests" in sys.argv:
    print("Running main() from gtest_main.cc\\nmine.\\n  Passes\\n  Fails  # GetParam() = 1\\n  Crashes\\n  Hangs")
elif name == "mine.Fails":
    print("file.hpp:3: Failure\\nit is wrong\\n[  FAILED  ] mine.Fails")
    sys.exit(1)
elif name == "mine.Crashes":
    os.abort()
elif name == "mine.Hangs":
    time.sleep(60)
"""


def test_a_crash_or_a_hang_is_one_failed_test(tmp_path: Path) -> None:
    suite = tmp_path / "conformance"
    suite.write_text(SUITE)
    suite.chmod(suite.stat().st_mode | stat.S_IXUSR)
    names = names_of_tests(suite)
    assert names == ["mine.Passes", "mine.Fails", "mine.Crashes", "mine.Hangs"]
    found = {result.name: (result.verdict, result.words) for result in run_tests(suite, names, 2, limit_s=2)}
    assert found == {
        "mine.Passes": ("passed", ""),
        "mine.Fails": ("failed", "file.hpp:3: Failure\nit is wrong"),
        "mine.Crashes": ("crashed", "SIGABRT"),
        "mine.Hangs": ("timeout", "no result within 2 s"),
    }


@pytest.mark.parametrize(
    ("built", "backend", "is_found"),
    [("simulator", None, True), ("cuda", "simulator", False), ("named", "cuda", True), ("simulator", "simulator", True)],
)
def test_the_repositorys_executable_is_measured_beside_it(monkeypatch: pytest.MonkeyPatch, built: str, backend: str | None, is_found: bool) -> None:
    chosen = object()
    monkeypatch.setattr("gpuheap.commands.bench.candidates", lambda layout: {built: Path("gpuheap_bench")})
    monkeypatch.setattr("gpuheap.commands.bench.choose", lambda layout, backend: chosen)
    executable, _ = _executable(None, SimpleNamespace(outside=object(), backend=backend), None)
    assert executable is (chosen if is_found else None)
