"""Checks of TOML files. Each check returns the value, or raises UserError, which names the file and the key."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError, unknown_name
from gpuheap.files import read_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The contents of the file, and its lines. Raises UserError, which names the line, if the file is not TOML."""
    text = read_text(path)
    try:
        return tomllib.loads(text), text.splitlines()
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise UserError(f"{path}:{found[1] if found else len(text.splitlines())}: {error}") from None
    except RecursionError:
        raise UserError(f"{path}: its lists are nested too deeply") from None


def table(said: Any, path: Path, where: str, keys: Collection[str] | None) -> dict[str, Any]:
    """A table that has no other keys than `keys`; None allows any key."""
    if not isinstance(said, dict):
        raise UserError(f"{path}: {where} is missing or not a table")
    for key in said:
        if keys is not None and key not in keys:
            raise UserError(f"{path}: {where}: {unknown_name('key', key, keys)}")
    return said


def tables(said: Any, path: Path, where: str, keys: Collection[str] | None) -> list[dict[str, Any]]:
    if not isinstance(said, list):
        single = where.removeprefix("[").removesuffix("]") if isinstance(said, dict) and where.startswith("[[") else ""
        raise UserError(f"{path}: {where} must be a list of tables{f': write {where} in place of {single}' if single else ''}")
    return [table(entry, path, f"{where}, entry {number}", keys) for number, entry in enumerate(said, start=1)]


def text(said: Any, path: Path, where: str) -> str:
    if not isinstance(said, str) or not said:
        raise UserError(f"{path}: {where} is missing")
    return said


def names(said: Any, path: Path, where: str) -> tuple[str, ...]:
    if not isinstance(said, list) or not all(isinstance(name, str) for name in said):
        raise UserError(f"{path}: {where} must be a list of names")
    return tuple(said)


def number(said: Any, path: Path, where: str) -> float:
    if not isinstance(said, (int, float)) or isinstance(said, bool):
        raise UserError(f"{path}: {where} must be a number")
    return float(said)


def whole(said: Any, path: Path, where: str) -> int:
    if not isinstance(said, int) or isinstance(said, bool) or said <= 0:
        raise UserError(f"{path}: {where} must be a positive whole number")
    return said


def positive(said: Any, path: Path, where: str) -> int | float:
    if not isinstance(said, (int, float)) or isinstance(said, bool) or said <= 0:
        raise UserError(f"{path}: {where} must be a positive number")
    return said
