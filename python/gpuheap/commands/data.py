"""`gpuheap data`."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuheap.commands.group import Group
from gpuheap.units import format_bytes

# Each command imports the modules that it needs. Imports at the top of this file would double the import time of all other commands.
app = typer.Typer(cls=Group, help="Fetch graphs of the literature from the SuiteSparse Matrix Collection.", no_args_is_help=True)


@app.command("get")
def get(names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The names that `gpuheap data list` shows.")]) -> None:
    """Fetch graphs into the cache folder: $GPUHEAP_DATA, else ~/.cache/gpuheap/data. The command prints the path of each graph, for `gpuheap bench --graph`."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    from gpuheap.data import Store, cache_folder

    store = Store(cache_folder())
    console = Console(stderr=True)
    for name in names:
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        ) as bar:
            task = bar.add_task(name, total=None)

            def shown(have: int, total: int | None, bar: Progress = bar, task: TaskID = task) -> None:
                bar.update(task, completed=have, total=total)

            path, there = store.get(name, shown)
        if not there:
            console.print(f"{name}: {format_bytes(path.stat().st_size)}", highlight=False)
        print(path)


@app.command("list")
def list_them() -> None:
    """Show the graphs, and which of them are in the cache folder."""
    from gpuheap.data import DATASETS, Store, cache_folder

    store = Store(cache_folder())
    widest = max(map(len, DATASETS))
    for dataset in DATASETS.values():
        print(f"{dataset.name:<{widest}}  {'here' if store.has(dataset.name) else '    '}  {dataset.brief}")
