"""`python -m gpuheap`, and the command `gpuheap`."""

from __future__ import annotations

from typing import NoReturn

from gpuheap.exits import end_with


def main() -> NoReturn:
    """Runs the command line."""
    end_with(_run)


def _run() -> object:
    # Here, as reading it takes a moment in which Ctrl-C is answered like later.
    from gpuheap.cli import app

    return app(standalone_mode=False)


if __name__ == "__main__":
    main()
