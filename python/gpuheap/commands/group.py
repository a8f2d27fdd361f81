"""A group of commands whose help shows no type beside a flag, since a flag takes no value. An unknown command is answered with similar ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperGroup

from gpuheap.errors import did_you_mean


class Group(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "suggest_commands": False})  # typer's own suggestions tell upper case from lower case

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            said = getattr(error, "message", "")  # only a command-line library's errors have one
            meant = did_you_mean(args[0], self.commands) if said else ""
            if meant:
                vars(error)["message"] = f"{said.rstrip('.')}. {meant[:1].upper()}{meant[1:]}"
            raise

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
