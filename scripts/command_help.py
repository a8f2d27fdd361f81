"""Writes the help texts of all commands of `gpuheap` to a JSON file, for the documentation site.

The file maps the words of a command to {usage, help, arguments: [[name, text]], options: [[names, text]], commands: [[name, text]]}.

usage: command_help.py FILE.json
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from gpuheap.cli import app
from gpuheap.commands.coalesce import usage_text
from gpuheap.paths import Layout

ROOT = Path(__file__).resolve().parents[1]


def commands(command: Any, parent: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """The command and all commands below it, each with the words that call it and its context."""
    name = words[-1] if words else "gpuheap"
    context = command.context_class(command, info_name=name, parent=parent, **command.context_settings)
    yield words, command, context
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from commands(inner, context, (*words, name))


def plain(text: str | None) -> str:
    """The text with each paragraph on one line."""
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n|\f|\b\n", text or "") if part.strip())


def described(words: tuple[str, ...], command: Any, context: Any) -> dict[str, Any]:
    if not command.add_help_option:  # this command passes --help to another program, which may not be built
        return {"text": usage_text(Layout(ROOT))}
    arguments, options = [], []
    for parameter in command.get_params(context):
        about = plain(getattr(parameter, "help", ""))
        if parameter.param_type_name == "argument":
            arguments.append([parameter.metavar or parameter.name.upper(), about])
            continue
        names = ", ".join(sorted(parameter.opts, key=len, reverse=True))
        value = "" if parameter.is_flag else f" {parameter.metavar or 'N'}"
        default = parameter.default
        if isinstance(default, (str, int, float)) and not isinstance(default, bool) and default != "" and "Default" not in about:
            about += f" Default: {default}."
        options.append([names + value, about + (" Required." if parameter.required else "")])
    inner = [[name, plain(one.help)] for name, one in sorted(getattr(command, "commands", {}).items())]
    return {"usage": command.get_usage(context), "help": plain(command.help), "arguments": arguments, "options": options, "commands": inner}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    texts = {" ".join(words): described(words, command, context) for words, command, context in commands(typer.main.get_command(app))}
    try:
        Path(arguments[0]).write_text(json.dumps(texts, indent=1))
    except OSError as error:
        print(f"error: cannot write {arguments[0]}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
