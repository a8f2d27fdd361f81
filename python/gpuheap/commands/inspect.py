"""`gpuheap inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("inspect")(inspect)


def inspect(
    dump: Annotated[Path, typer.Argument(metavar="DUMP", help="The file that heap.write_dump() wrote.", show_default=False)],
    other: Annotated[Path | None, typer.Argument(metavar="LATER", help="A later dump, to be compared with the first one.", show_default=False)] = None,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the map of the heap into this file.")] = None,
    groups: Annotated[int, typer.Option("--groups", metavar="N", help="The number of groups to print.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")] = False,
) -> None:
    """Show the live blocks in a heap's dump: totals, the largest groups, gaps, a map; or the differences of two dumps."""
    from gpuheap.inspection.command import inspect as inspect_dump

    inspect_dump(dump, other, svg, groups, as_json)
