"""The code blocks of the documentation's pages, and the programs that they become for a compiler.

A block in a language is a whole file, or a fragment. A comment of the page directly above a fragment says what stands around it, invisible
to readers:

    <!-- within: void fragment(gpuheap::heap<>& heap) -->     the block is the body of this function
    <!-- before: struct node; -->                             this stands before the block, at namespace scope
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)(```+|~~~+)([\w+-]*)[^\n]*\n(.*?)^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
NOTE = re.compile(r"<!-- (within|before): (.*?) -->\n", re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: str
    line: int  # of its first line of code
    language: str
    text: str
    within: str = ""
    before: str = ""

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str, text: str) -> list[Block]:
    found = []
    for fence in FENCE.finditer(text):
        notes: dict[str, str] = {}
        above = text[: fence.start()]
        # Comments directly above, the nearest last; a line without words ends the search.
        while note := re.search(r"(<!-- (?:within|before): (?:(?!-->).)*? -->\n)$", above, re.DOTALL):
            match = NOTE.fullmatch(note[1])
            assert match is not None
            notes[match[1]] = match[2]
            above = above[: note.start()]
        line = text.count("\n", 0, fence.start(4)) + 1
        found.append(Block(page, line, fence[3], fence[4], notes.get("within", ""), notes.get("before", "")))
    return found


def pages() -> list[str]:
    named = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(page.relative_to(ROOT)) for page in named if page.is_file()]


def all_blocks() -> list[Block]:
    return [block for page in pages() for block in blocks_of(page, (ROOT / page).read_text())]


def translation_unit(blocks: list[Block]) -> str:
    """One source with all blocks, each in a namespace of its own, where errors name the page and its line. Includes come first."""
    heads, bodies = ["#include <cstdio>", "#include <fstream>", "#include <iostream>", "#include <gpuheap/gpuheap.hpp>"], []
    for number, block in enumerate(blocks):
        lines, before = block.text.splitlines(), block.before.splitlines()
        heads += [line for line in (*before, *lines) if line.startswith("#include")]
        code = "\n".join("" if line.startswith(("#include", "#pragma once")) else line for line in lines)
        declared = "\n".join(line for line in before if not line.startswith("#include"))
        opening, closing = (f"{block.within} {{", "}") if block.within else ("", "")
        bodies.append(f'namespace block_{number} {{\n{declared}\n{opening}\n#line {block.line} "{block.page}"\n{code}\n{closing}\n}}')
    return "\n".join(dict.fromkeys(heads)) + "\n" + "\n".join(bodies) + "\n"
