"""The terminal on which commands print."""

from __future__ import annotations

import json
import os
import sys

from rich.console import Console

from gpuheap.exits import is_utf8


def console() -> Console:
    # Output to a file or a pipe is 140 columns wide, unless COLUMNS says otherwise.
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 140)


def print_json(said: object) -> None:
    """Prints JSON. Characters outside of ASCII are escaped unless standard output is in UTF-8."""
    print(json.dumps(said, indent=2, ensure_ascii=not is_utf8(sys.stdout.encoding)))
