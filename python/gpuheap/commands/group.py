"""A group of commands whose help shows no type beside a flag, since a flag takes no value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperGroup


class Group(TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        return _without_types_of_flags(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _without_types_of_flags(command.get_params(ctx))
        return command


def _without_types_of_flags(options: Iterable[Any]) -> Iterable[Any]:
    for option in options:
        if getattr(option, "is_flag", False) and option.metavar is None:
            option.metavar = ""
    return options
