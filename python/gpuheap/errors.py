"""Errors that a user can act on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
EXIT_READER_LEFT = 141  # 128 and the number of SIGPIPE, as a shell reports a program that this signal ends


class UserError(Exception):
    """A mistake in the user's input, or something that the machine lacks. The text is one line; the command line prints it and exits with 2."""

    def __str__(self) -> str:
        # A message quotes text of files and arguments, which may hold any bytes. They are shown escaped, so that they do nothing to a terminal.
        return printable(super().__str__())


def printable(text: str) -> str:
    """The text with each character that a terminal may act on written as an escape, like `\\x1b`."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def unknown_name(kind: str, name: str, known: Iterable[str], where: str = "", *, list_all: bool = False) -> UserError:
    """The error for a name that does not exist. Its text lists the similar names if there are any, else all names; with `list_all`, it lists both.

    `where`: where the names were looked for.
    """
    names = sorted(set(known))
    name = name if len(name) <= 80 else f"{name[:77]}..."
    said = f"unknown {kind} '{name}'{where and f' {where}'}"
    meant = did_you_mean(name, names)
    if meant:
        return UserError(f"{said}: {meant} There are {', '.join(names)}" if list_all else f"{said}: {meant}")
    if names:
        return UserError(f"{said}: there are {', '.join(names)}")
    return UserError(f"{said}: there are none")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question for a name that is similar to known ones, or "" if no name is. Upper and lower case count as equal."""
    names = sorted(set(known))
    name = name.casefold()
    folded = {other: other.casefold() for other in names}
    close = difflib.get_close_matches(name, sorted(set(folded.values())), n=3, cutoff=0.55)
    near = [other for each in close for other in names if folded[other] == each]
    near += [other for other in names if other not in near and name and (folded[other].startswith(name) or name.startswith(folded[other]))]
    return f"did you mean {_one_of(near)}?" if near else ""


def _one_of(names: list[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]
