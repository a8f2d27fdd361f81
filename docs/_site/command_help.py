"""The directive `command-help`: what a command of `gpuheap` says of itself, taken from the command line when the site is built."""

from __future__ import annotations

import json
import os
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class CommandHelp(SphinxDirective):
    """Argument: the command's words after `gpuheap`, or nothing for the program itself."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        texts = json.loads(Path(os.environ["GPUHEAP_COMMAND_HELP"]).read_text())
        name = self.arguments[0] if self.arguments else ""
        if name not in texts:
            raise self.error(f"gpuheap has no command '{name}': there are {', '.join(texts)}")
        self.env.gpuheap_commands_shown.add(name)
        block = nodes.literal_block(texts[name], texts[name], language="none", classes=["command-help"])
        return [block]


def begin(app: Sphinx) -> None:
    app.env.gpuheap_commands_shown = getattr(app.env, "gpuheap_commands_shown", set())


def all_are_shown(app: Sphinx, env: object) -> None:
    texts = json.loads(Path(os.environ["GPUHEAP_COMMAND_HELP"]).read_text())
    missing = sorted(set(texts) - env.gpuheap_commands_shown)
    if missing:
        raise RuntimeError(f"docs/reference/commands.md has no section for: {', '.join(missing)}")


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("builder-inited", begin)
    app.connect("env-check-consistency", all_are_shown)
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": False}
