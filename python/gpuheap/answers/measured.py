"""The measurements of one GPU, from which claims, tables and advice are computed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError
from gpuheap.files import check_folder
from gpuheap.formats.protocol import Allocator, read_allocator
from gpuheap.formats.results import Row, read_table
from gpuheap.paths import Layout
from gpuheap.running.environment import read_environment
from gpuheap.running.executable import candidates, choose


@dataclass(frozen=True)
class Measured:
    """The rows of one folder's tables that were measured on a GPU. The simulator's rows are left out: its times say nothing about speed."""

    folder: Path
    rows: tuple[Row, ...]
    environment: dict[str, Any]

    @property
    def device(self) -> str:
        return str((self.environment.get("gpu") or {}).get("name") or self.folder.name)

    @property
    def allocators(self) -> tuple[Allocator, ...]:
        """The traits of the measured allocators, as their executable described them."""
        return tuple(read_allocator(entry) for entry in self.environment.get("allocators") or [])


def find_measured(layout: Layout, folder: Path | None = None) -> Measured:
    """Reads the tables of a folder; without a folder, those of the only GPU in `results/`. A folder without tables gives no rows.

    Raises UserError if there is no such folder, if it has rows of the simulator only, or if `results/` has several GPUs and no folder is named.
    """
    if folder is None:
        folder = _only_folder(layout)
        if folder is None:
            return Measured(layout.results, (), {})
    else:
        check_folder(folder, "--results")
        if not any(folder.glob("*.csv")) and (inside := sorted({path.parent for path in folder.glob("*/*.csv")})):
            names = ", ".join(layout.shown(path.absolute()) for path in inside)
            raise UserError(f"--results: the folder '{folder}' holds no table itself: name one in it: {names}")
    rows = [row for path in sorted(folder.glob("*.csv")) for row in read_table(path)]
    on_gpu = tuple(row for row in rows if row.backend == "cuda")
    if rows and not on_gpu:
        raise UserError(f"{layout.shown(folder)} holds results of the simulator only: name a folder of a GPU's results with --results")
    return Measured(folder, on_gpu, read_environment(folder))


def find_traits(layout: Layout) -> Measured | None:
    """The only GPU in `results/`, without its rows, which take seconds to read; None if there is none, or if no traits are recorded.

    Raises UserError if `results/` has several GPUs.
    """
    folder = _only_folder(layout)
    measured = Measured(folder, (), read_environment(folder)) if folder is not None else None
    return measured if measured is not None and measured.allocators else None


def _only_folder(layout: Layout) -> Path | None:
    """The folder of the only GPU in `results/`. Raises UserError if there are several."""
    folders = sorted({path.parent for path in layout.results.glob("*/*.csv")})
    if len(folders) > 1:
        names = ", ".join(layout.shown(folder) for folder in folders)
        raise UserError(f"results of several GPUs: name one with --results: {names}")
    return folders[0] if folders else None


def traits_by_name(layout: Layout, measured: Measured, backend: str | None = None) -> dict[str, Allocator]:
    """The traits of every allocator: those that a built executable describes, and for other allocators those recorded with the results."""
    found = {allocator.name: allocator for allocator in measured.allocators}
    if backend is not None or candidates(layout):
        found |= {allocator.name: allocator for allocator in choose(layout, backend).description.allocators}
    return found
