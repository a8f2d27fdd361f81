"""Reads the list of programs, which says how each program is run, and how the outputs of its runs are compared."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuheap import toml_checks
from gpuheap.errors import UserError, unknown_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEYS = {"name", "what", "repository", "commit", "path", "licence", "allocates", "arguments", "inputs", "files", "any_order", "near", "ignore", "check"}
_KEYS |= {"kernel_time", "kernel_unit", "note", "fails"}
_MILLISECONDS = {"s": 1000.0, "ms": 1.0, "us": 0.001}


@dataclass(frozen=True)
class Program:
    """One program. Its output is stdout and the `files`, without the parts that match `ignore` (times, addresses)."""

    name: str
    what: str
    repository: str
    commit: str
    path: str
    licence: str
    allocates: str
    arguments: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()  # files that must be in the folder in which the program runs
    files: tuple[str, ...] = ()
    any_order: bool = False  # whether lines may come in any order, as threads print them
    near: float = 0.0  # the tolerance for numbers, if the program adds them in any order
    ignore: tuple[re.Pattern[str], ...] = ()
    check: re.Pattern[str] | None = None  # matches the output if the program found its own result right
    kernel_time: re.Pattern[str] | None = None  # matches the times of kernels that the program prints; they are added up
    kernel_ms: float = 1.0  # the milliseconds of one unit of these times
    note: str = ""  # a sentence for readers of its results
    fails: str = ""  # why the program cannot be measured


def read_programs(path: Path) -> tuple[Program, ...]:
    """Reads a list of programs. Raises UserError if the file is no list, or has unknown keys or wrong values."""
    try:
        with path.open("rb") as file:
            said = tomllib.load(file)
    except OSError as error:
        raise UserError(f"{path}: the list of programs cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a TOML file: {error}") from None
    toml_checks.table(said, path, "the list", {"program"})
    found: dict[str, Program] = {}
    for entry in toml_checks.tables(said.get("program"), path, "[[program]]", _KEYS):
        program = _program(entry, path)
        if program.name in found:
            raise UserError(f"{path}: two programs are named '{program.name}'")
        found[program.name] = program
    return tuple(found.values())


def select(programs: Sequence[Program], names: Collection[str]) -> tuple[Program, ...]:
    """The programs with these names, in the list's order; all if no name is given."""
    known = [program.name for program in programs]
    for name in names:
        if name not in known:
            raise unknown_name("program", name, known)
    return tuple(program for program in programs if not names or program.name in names)


def _program(entry: dict[str, Any], path: Path) -> Program:
    name = toml_checks.text(entry.get("name"), path, "[[program]]: name")
    where = f"program '{name}'"
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise UserError(f"{path}: {where}: a name consists of small letters, digits and dashes, because folders are named after it")

    def words(key: str) -> tuple[str, ...]:
        return toml_checks.names(entry.get(key, []), path, f"{where}: {key}")

    def pattern(text: str, key: str, groups: int | None) -> re.Pattern[str]:
        try:
            compiled = re.compile(text, re.MULTILINE)
        except re.error as error:
            raise UserError(f"{path}: {where}: {key}: '{text}' is not a regular expression: {error}") from None
        if groups is not None and compiled.groups != groups:
            raise UserError(f"{path}: {where}: {key}: '{text}' needs {groups} group that holds the number, and has {compiled.groups}")
        return compiled

    said = {key: toml_checks.text(entry.get(key), path, f"{where}: {key}") for key in ("what", "repository", "commit", "path", "licence", "allocates")}
    unit = entry.get("kernel_unit", "ms")
    if unit not in _MILLISECONDS:
        raise UserError(f"{path}: {where}: kernel_unit is '{unit}': there are {', '.join(_MILLISECONDS)}")
    if not isinstance(entry.get("any_order", False), bool):
        raise UserError(f"{path}: {where}: any_order must be true or false")
    return Program(
        name=name,
        **said,
        arguments=words("arguments"),
        inputs=words("inputs"),
        files=words("files"),
        any_order=entry.get("any_order", False),
        near=float(toml_checks.positive(entry["near"], path, f"{where}: near")) if "near" in entry else 0.0,
        ignore=tuple(pattern(text, "ignore", None) for text in words("ignore")),
        check=pattern(toml_checks.text(entry["check"], path, f"{where}: check"), "check", None) if "check" in entry else None,
        kernel_time=pattern(toml_checks.text(entry["kernel_time"], path, f"{where}: kernel_time"), "kernel_time", 1) if "kernel_time" in entry else None,
        kernel_ms=_MILLISECONDS[unit],
        note=toml_checks.text(entry["note"], path, f"{where}: note") if "note" in entry else "",
        fails=toml_checks.text(entry["fails"], path, f"{where}: fails") if "fails" in entry else "",
    )
