"""Writes what each command of `gpuheap` says of itself to a JSON file, for the documentation site.

usage: command_help.py FILE.json
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["COLUMNS"] = "100"
os.environ["TERM"] = "dumb"
os.environ["NO_COLOR"] = "1"

import typer  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from gpuheap.cli import app  # noqa: E402


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The command, those below it, and so on, each with the words that call it."""
    yield words, command
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from commands(inner, (*words, name))


def text_of(words: tuple[str, ...], command: Any) -> str:
    if not command.add_help_option:  # it hands --help on to a program of its own, which need not be built
        return f"Usage: gpuheap {' '.join(words)} [ARGUMENTS]...\n\n{command.help}"
    answer = CliRunner().invoke(app, [*words, "--help"], prog_name="gpuheap")
    if answer.exit_code != 0:
        raise SystemExit(f"error: gpuheap {' '.join(words)} --help ended with {answer.exit_code}: {answer.output}")
    return "\n".join(line.rstrip() for line in answer.output.strip("\n").splitlines())


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    texts = {" ".join(words): text_of(words, command) for words, command in commands(typer.main.get_command(app))}
    Path(arguments[0]).write_text(json.dumps(texts, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
