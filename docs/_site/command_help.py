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
        about = texts[name]
        if "text" in about:
            return [nodes.literal_block(about["text"], about["text"], language="none")]
        usage = " ".join(about["usage"].split())
        made: list[nodes.Node] = [nodes.literal_block(usage, usage, language="none")]
        made += [nodes.paragraph("", part) for part in about["help"].split("\n\n")]
        for part in ("arguments", "options", "commands"):
            if about[part]:
                made += [nodes.rubric("", part.capitalize()), self.listed(about[part])]
        return made

    @staticmethod
    def listed(items: list[list[str]]) -> nodes.definition_list:
        return nodes.definition_list(
            "",
            *(
                nodes.definition_list_item("", nodes.term("", "", nodes.literal(name, name)), nodes.definition("", nodes.paragraph("", about)))
                for name, about in items
            ),
        )


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
