"""The terminal that commands print to."""

from __future__ import annotations

import json
import os
import sys

from rich.console import Console

from gpuheap.exits import is_utf8


def console() -> Console:
    # Without a terminal there is no width to fit.
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 140)


def print_json(said: object) -> None:
    """As a terminal of any encoding can show it, and a program read it."""
    print(json.dumps(said, indent=2, ensure_ascii=not is_utf8(sys.stdout.encoding)))
