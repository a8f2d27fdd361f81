"""The table of docs/misuse.md and the tests of its answers name the same misuses."""

from __future__ import annotations

import re

from pages import ROOT


def test_every_row_has_its_test_and_every_test_its_row() -> None:
    page = (ROOT / "docs" / "misuse.md").read_text()
    rows = re.findall(r"^\| .* \| (\w+) \|$", page, re.MULTILINE)
    rows = [row for row in rows if row not in ("test", "how")]  # the heads of the tables
    files = [ROOT / "tests" / "heap" / name for name in ("misuse_test.cpp", "cuda/context_reset_test.cu")]
    tests = [test for file in files for test in re.findall(r"^TYPED_TEST\(Misuse, (\w+)\)", file.read_text(), re.MULTILINE)]
    assert sorted(rows) == sorted(tests)
    assert len(rows) >= 30
