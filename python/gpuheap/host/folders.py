"""Prepares the folders into which the commands `gpuheap host` write."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.files import make_folder, naming


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def prepare(folder: Path, own: Iterable[str], what: str) -> Path:
    """Makes an empty folder. Removes the files named in `own`, which earlier calls wrote. Raises UserError for a folder that holds anything else."""
    names = set(own)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder for {what} with -o")
    with naming(folder, "read", "name another folder with -o"):
        others = [entry.name for entry in folder.iterdir() if entry.name not in names] if folder.is_dir() else []
    if others:
        raise UserError(f"{folder} holds other files ('{others[0]}'): name an empty folder for {what} with -o")
    with naming(folder, "emptied", "name another folder with -o"):
        for name in names:
            remove(folder / name)
    return make_folder(folder, "name another folder with -o").resolve()
