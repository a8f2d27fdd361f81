"""`python -m gpuheap`, and the command `gpuheap`."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import NoReturn

from gpuheap.exits import end_with


def main() -> NoReturn:
    """Runs the command line."""
    end_with(_run)


def _run() -> object:
    # A terminal of unknown width sets COLUMNS to 0. Rich would take this number for the width, and print nothing.
    if os.environ.get("COLUMNS", "").strip("0") == "":
        os.environ.pop("COLUMNS", None)
    # The full command line needs typer. gpuheap.light runs every command if typer is missing, and `doctor` and `inspect` outside of a checkout.
    if importlib.util.find_spec("typer") is None or (sys.argv[1:2] in (["doctor"], ["inspect"]) and not _in_checkout()):
        from gpuheap.light import run_command

        return run_command(sys.argv[1:])
    # This slow import stands here, inside of end_with(), so that Ctrl-C during the import ends the command in the same way as later.
    from gpuheap.cli import app, make_named_alone

    make_named_alone(app, sys.argv[1:])
    return app(standalone_mode=False)


def _in_checkout() -> bool:
    from gpuheap.errors import UserError
    from gpuheap.paths import RECORDED, find_layout

    try:
        return find_layout().root != RECORDED
    except UserError:
        return "GPUHEAP_ROOT" in os.environ  # GPUHEAP_ROOT names a wrong folder: the command reports it


if __name__ == "__main__":
    main()
