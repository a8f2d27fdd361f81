"""Leaves parts of the rewriter's analysis out, one at a time, and looks whether generated kernels find that."""

from __future__ import annotations

import re
from pathlib import Path

import compare

MUTANTS = compare.TOOL.with_name("gpuheap-coalesce-mutants")

# The analysis of the source proposes promises, and that of the rewritten program checks them. With each part of the check, the source is left out too: then the
# check is alone.
SOURCE = "flow"
ALONE = ("check",)  # without the check, the source's alone


def parts() -> list[str]:
    """All parts that the tests' build of the tool can leave out, as its sources name them."""
    text = "".join(path.read_text() for path in sorted((compare.ROOT / "tools" / "coalesce").glob("*.cpp")))
    return sorted({str(part) for part in re.findall(r'undone\("([^"]+)"\)', text)} - {SOURCE})


def left_out(part: str) -> str:
    """What COALESCE_UNDONE says for a part."""
    return part if part in ALONE else f"{SOURCE},{part}"


def find(tool: Path, undone: str, seeds: range, count: int, folder: Path) -> str:
    """The finding of the first file of kernels that finds the mutant, its seed in front; empty: none does. Each file runs under one schedule."""
    for seed in seeds:
        outcome = compare.check(tool, seed, count, folder, 1, undone=undone)
        for number, what in sorted(outcome.findings.items()):
            return f"seed {seed}, kernel {number}: {what}: {', '.join(outcome.kernels[number].parts)}"
    return ""
