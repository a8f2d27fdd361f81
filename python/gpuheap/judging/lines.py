"""Finds the line of a TOML file on which a value stands, for error messages. The parser itself gives no line numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gpuheap import toml_checks

_HEADER = re.compile(r"^\s*\[\[?\s*([A-Za-z0-9_.-]+)\s*\]\]?\s*(?:#.*)?$")


class Source:
    """A TOML file and the lines of its tables."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said: dict[str, Any]
        self.said, self._lines = toml_checks.read(path)
        self._headers = [(number, match[1]) for number, line in enumerate(self._lines, start=1) if (match := _HEADER.match(line))]

    def tables(self, name: str, first: int = 1, last: int | None = None) -> list[tuple[int, int]]:
        """The first and the last line of every table of this name between two lines. The lines of its sub-tables belong to it."""
        end = last if last is not None else len(self._lines)
        starts = [number for number, header in self._headers if header == name and first <= number <= end]
        outside = [number for number, header in self._headers if not header.startswith(f"{name}.")]
        return [(start, min([number - 1 for number in outside if number > start] + [end])) for start in starts]

    def line_of(self, key: str, first: int, last: int) -> int:
        """The line from `first` to `last` that gives `key` a value, else `first`."""
        pattern = re.compile(rf"(^|[{{,\s]){re.escape(key)}\s*=")
        return next((number for number in range(first, last + 1) if pattern.search(self._lines[number - 1])), first)
