"""The terminal that commands print to."""

from __future__ import annotations

import os
import sys

from rich.console import Console


def console() -> Console:
    # Without a terminal there is no width to fit.
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 140)
