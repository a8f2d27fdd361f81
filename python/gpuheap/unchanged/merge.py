"""Merges results of several measurements, for instance of programs whose sanitizer ran at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError
from gpuheap.unchanged.measure import MEMCHECK


def merge(into: dict[str, Any], more: Mapping[str, Any], path: Path) -> None:
    """Adds the entries of `more`, the results in `path`. Of a form that both have, the added measurement replaces the older one.

    Memcheck's findings are replaced apart from times and outputs, and only by findings that say at least as much.
    Raises UserError if the results are of another GPU.
    """
    _merge_machines(into, more, path)
    programs = into.setdefault("programs", {})
    for name, entry in more.get("programs", {}).items():
        for form, told in entry.items():
            old = programs.setdefault(name, {}).setdefault(form, {})
            runs, found = _without_memcheck(told) or _without_memcheck(old), _memcheck_of(told if _says(told) >= _says(old) else old)
            programs[name][form] = {**runs, **found}


def _merge_machines(into: dict[str, Any], more: Mapping[str, Any], path: Path) -> None:
    old, new = into.get("machine") or {}, more.get("machine") or {}
    if old.get("GPU") and new.get("GPU") and old["GPU"] != new["GPU"]:
        raise UserError(f"{path}: its GPU is {new['GPU']}, that of the other results {old['GPU']}: merge results of one GPU only")
    drivers = [each for each in (old.get("driver"), new.get("driver")) if each]
    into["machine"] = {**old, **new}
    if drivers:
        into["machine"]["driver"] = drivers[0] if drivers[-1] in drivers[0].split(" and ") else " and ".join(drivers)


def _says(told: Mapping[str, Any]) -> int:
    """How much memcheck's part of an entry says: nothing, that memcheck did not finish, findings in a part of the program, or in all of it."""
    if MEMCHECK not in told:
        return 0
    if told[MEMCHECK] is None:
        return 1
    return 2 if "memcheck_part" in told else 3


def _memcheck_of(told: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key.startswith(MEMCHECK)}


def _without_memcheck(told: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if not key.startswith(MEMCHECK)}
