"""Suites and claims in which a value is of another kind: each is read, or refused in one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuheap.errors import UserError
from gpuheap.formats import suites
from gpuheap.judging import reader

ROOT = Path(__file__).resolve().parents[2]
VALUE = re.compile(r"""([\w.]+)\s*=\s*("(?:[^"\\]|\\.)*"|\[[^\]\n]*\]|\{[^}\n]*\}|[^,\n}#]+)""")


@pytest.mark.parametrize(("folder", "load"), [("suites", suites.load_suite), ("claims", reader.load_paper)], ids=["suites", "claims"])
def test_a_value_of_another_kind_is_refused_in_one_line(folder: str, load: Callable[[Path], object], tmp_path: Path) -> None:
    seen, refused = set(), 0
    for path in sorted((ROOT / "benchmarks" / folder).glob("*.toml")):
        text = path.read_text()
        for found in VALUE.finditer(text):
            kind = found[1], found[2][0]
            if kind in seen:
                continue
            seen.add(kind)
            for other in ("[]", "[[]]", "{}"):
                changed = tmp_path / path.name
                changed.write_text(text[: found.start(2)] + other + text[found.end(2) :])
                try:
                    load(changed)
                except UserError as error:
                    assert "\n" not in str(error)
                    refused += 1
    assert len(seen) > 20
    assert refused > len(seen)
