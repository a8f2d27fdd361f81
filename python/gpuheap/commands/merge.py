"""`gpuheap merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuheap.paths import find_layout
from gpuheap.terminal import console


def register(app: typer.Typer) -> None:
    app.command()(merge)


def merge(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of tables that gpuheap bench wrote elsewhere, with their environment.json.")],
    suites: Annotated[list[str] | None, typer.Argument(metavar="SUITE...", help="The tables to take. Default: all.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The folder to which the tables are added. Default: results/<gpu>, or build/results/simulator."),
    ] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Replace a table of another build even if the new table has fewer points or is older.")] = False,
) -> None:
    """Add the tables of another folder, measured on a machine of the same kind.

    A table has rows of one build. A table of another build therefore replaces the whole table here, unless it has fewer points or
    was measured before. In suites of programs, the same holds of each sweep.
    """
    from gpuheap.errors import UserError
    from gpuheap.formats.suites import load_suites
    from gpuheap.running.environment import read_environment, slug
    from gpuheap.running.merge import merge as merge_folders

    layout = find_layout()
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: name one that gpuheap bench --output has written")
    gpu = (read_environment(folder).get("gpu") or {}).get("name")
    into = output if output is not None else layout.results / slug(gpu) if gpu else layout.simulated_results
    done = merge_folders(folder, into, load_suites(layout), anew, suites or ())
    out = console()
    for suite, points in done.points.items():
        dropped = f", in place of {done.dropped[suite]} of another build" if suite in done.dropped else ""
        out.print(f"{suite}: {points} points into {layout.shown(into / (suite + '.csv'))}{dropped}", highlight=False, soft_wrap=True)
    for words in done.left:
        out.print(f"not taken: {words}", style="yellow", highlight=False, soft_wrap=True)
    if not done.points:
        out.print("nothing was taken", highlight=False)
