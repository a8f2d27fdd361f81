"""The table of docs/misuse.md and the tests of its answers name the same misuses, for each kind of heap."""

from __future__ import annotations

import re

from pages import ROOT

PLANTED = ROOT / "tests" / "malloc"


def test_every_row_has_its_test_and_every_test_its_row() -> None:
    page = (ROOT / "docs" / "misuse.md").read_text()
    rows = re.findall(r"^\| .* \| (\w+) \|$", page, re.MULTILINE)
    rows = [row for row in rows if row not in ("test", "how")]  # the heads of the tables
    names = ("misuse_test.cpp", "misuse_borders_test.cpp", "malloc_trap_test.cpp", "cuda/context_reset_test.cu", "cuda/host_calls_test.cu")
    files = [ROOT / "tests" / "heap" / name for name in names]
    tests = [test for file in files for test in re.findall(r"^TYPED_TEST\(Misuse, (\w+)\)", file.read_text(), re.MULTILINE)]
    assert sorted(rows) == sorted(tests)
    assert len(rows) >= 30
    kinds = "using kinds = ::testing::Types<gpuheap::sharded_spans, gpuheap::hardened<>, gpuheap::checked<>>;"
    assert all(kinds in file.read_text() for file in files)  # a test of each kind
    # Files outside of cuda/ are compiled for each backend.
    assert all(f" {name.removesuffix('_test.cpp')} " in (ROOT / "tests" / "heap" / "CMakeLists.txt").read_text() for name in names[:3])


def test_the_page_shows_what_the_tests_find_in_the_program_with_planted_mistakes() -> None:
    page = (ROOT / "docs" / "misuse.md").read_text()
    cmake = (PLANTED / "CMakeLists.txt").read_text()
    mistakes = re.findall(r"set\(mistakes ([\w ]+)\)", cmake)[0].split()
    texts = re.findall(r'"([^"]+)"', re.findall(r"set\(texts\s(.*?)\)\n", cmake, re.DOTALL)[0])
    shown = dict(re.findall(r"^\| `(\w+)` \| `(.*)` \|$", page, re.MULTILINE))
    assert set(shown) == set(mistakes) - {"none"}
    for mistake, text in zip(mistakes, texts, strict=True):
        assert mistake == "none" or re.search(text, shown[mistake])
    # The lines are those of the program.
    program = (PLANTED / "programs" / "planted.cu").read_text().splitlines()
    asks = {line: what for line, text in enumerate(program, 1) for what in ("new node{", "malloc(20)", "free(const_cast<char*>(text));") if what in text}
    assert {int(line) for text in shown.values() for line in re.findall(r"planted\.cu:(\d+)", text)} == set(asks)
