"""The command `gpuheap inspect`, as both command lines call it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gpuheap.errors import UserError, printable
from gpuheap.files import check_no_input, replace_file
from gpuheap.inspection.dump import Dump, read_dump


def inspect(path: Path, other: Path | None, svg: Path | None, most_groups: int, as_json: bool) -> None:
    """Prints a summary of the dump, or the differences from it to `other`, a later dump. Writes the map of the last dump to `svg`. Raises UserError."""
    from gpuheap.inspection import summary
    from gpuheap.inspection.picture import picture

    if most_groups < 1:
        raise UserError(f"--groups is {most_groups}: give at least 1")
    if svg is not None:
        check_no_input(svg, "--svg", [each for each in (path, other) if each is not None])
    dumps = [read_dump(each) for each in (path, other) if each is not None]
    found = [summary.summarise(dump, _progress(dump)) for dump in dumps]
    if as_json:
        answer: dict[str, object] = {"dumps": [each.as_json(most_groups) for each in found]}
        if len(found) == 2:
            answer["changes"] = [vars(group) for group in summary.changed_groups(found[0], found[1])[:most_groups]]
        print(json.dumps(answer, indent=2))
    else:
        text = summary.comparison(found[0], found[1], most_groups) if len(found) == 2 else summary.lines(found[0], most_groups)
        print("\n".join(text))
    if svg is not None:
        replace_file(svg, picture(found[-1]), "name another file with --svg")
        if not as_json:
            print(f"the map is in {printable(str(svg))}")


def _progress(dump: Dump) -> Callable[[int], None]:
    """A function that shows on the terminal how much of a large dump is read."""
    shown = sys.stderr.isatty() and dump.num_blocks > 1 << 24
    last = time.monotonic()

    def told(read: int) -> None:
        nonlocal last
        if shown and (read == dump.num_blocks or time.monotonic() - last > 0.5):
            last = time.monotonic()
            end = "\r\033[K" if read == dump.num_blocks else "\r"
            print(f"{read:,} of {dump.num_blocks:,} blocks read", end=end, file=sys.stderr, flush=True)

    return told
