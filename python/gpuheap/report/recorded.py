"""Finds the tables that a report shows, and their environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError
from gpuheap.files import check_folder
from gpuheap.formats.results import Row, read_table
from gpuheap.paths import Layout
from gpuheap.running.environment import read_environment


@dataclass(frozen=True)
class Recording:
    """One folder of tables: those of a GPU, or those of the simulator."""

    folder: Path
    environment: dict[str, Any]
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        gpu = self.environment.get("gpu") or {}
        return str(gpu.get("name") or self.folder.name)


def folder_of_tables(folder: Path, option: str) -> Path:
    """The folder that an option names. Raises UserError if it has no tables."""
    check_folder(folder, option)
    if not any(folder.glob("*.csv")):
        raise UserError(f"{option}: the folder '{folder}' holds no table: name one that gpuheap bench has written")
    return folder.resolve()


def find_recordings(layout: Layout, further: Sequence[Path]) -> tuple[list[Recording], list[Recording]]:
    """Splits folders into those of GPUs and those of the simulator. A folder that has tables of both counts as one of each."""
    folders = sorted(folder for folder in layout.results.glob("*") if folder.is_dir()) + [layout.simulated_results, *further]
    on_gpus: list[Recording] = []
    simulated: list[Recording] = []
    for folder in dict.fromkeys(folders):
        rows = [row for path in sorted(folder.glob("*.csv")) for row in read_table(path)]
        if not rows:
            continue
        environment = read_environment(folder)
        for backend, kind in (("cuda", on_gpus), ("simulator", simulated)):
            found = tuple(row for row in rows if row.backend == backend)
            if found:
                kind.append(Recording(folder, environment, found))
    return on_gpus, simulated
