"""Finds the tables that a report shows, and their environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def find_recordings(layout: Layout, further: Sequence[Path]) -> tuple[list[Recording], list[Recording]]:
    """Those of GPUs and those of the simulator. A folder that holds both gives one of each."""
    folders = sorted(folder for folder in layout.results.glob("*") if folder.is_dir()) + [layout.simulated_results, *further]
    on_gpus: list[Recording] = []
    simulated: list[Recording] = []
    for folder in dict.fromkeys(folders):
        rows = [row for path in sorted(folder.glob("*.csv")) for row in read_table(path)]
        if not rows:
            continue
        environment = read_environment(folder)
        for backend, kind in (("cuda", on_gpus), ("host", simulated)):
            found = tuple(row for row in rows if row.backend == backend)
            if found:
                kind.append(Recording(folder, environment, found))
    return on_gpus, simulated
