"""The terminal that commands print to."""

from __future__ import annotations

import json
import os
import sys

from rich.console import Console

from gpuheap.exits import is_utf8


def console() -> Console:
    # Output that goes to no terminal has no width limit.
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 140)


def print_json(said: object) -> None:
    """The text in characters that a terminal of any encoding can show, and that a program can read."""
    print(json.dumps(said, indent=2, ensure_ascii=not is_utf8(sys.stdout.encoding)))
