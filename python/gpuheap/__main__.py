"""`python -m gpuheap`, and the command `gpuheap`."""

from __future__ import annotations

import importlib.util
import sys
from typing import NoReturn

from gpuheap.exits import end_with


def main() -> NoReturn:
    """Runs the command line."""
    end_with(_run)


def _run() -> object:
    if importlib.util.find_spec("typer") is None:
        from gpuheap.light import run_command

        return run_command(sys.argv[1:])
    # Here, as reading it takes a moment in which Ctrl-C is answered like later.
    from gpuheap.cli import app

    return app(standalone_mode=False)


if __name__ == "__main__":
    main()
