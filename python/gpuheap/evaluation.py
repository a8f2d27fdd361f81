"""The recorded evaluation for programs and notebooks: results as a DataFrame, claims of the papers with their verdicts, advice.

    import gpuheap
    table = gpuheap.results()                        # a pandas.DataFrame of every row measured on a GPU
    best = gpuheap.advise("16:64", threads=100_000)  # the allocators for a pattern of use, the best first
    fails = [one for one in gpuheap.claims() if one["verdict"] == "does not hold here"]

The functions read the package's own data, or the checkout that contains it, or another folder of tables. They run no benchmark, write
nothing, and need neither a GPU nor an executable. Only results() imports pandas.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuheap.answers.advice import Advice
from gpuheap.errors import UserError
from gpuheap.paths import find_layout

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]

__all__ = ["advise", "allocators", "claims", "results"]


def results(folder: str | Path | None = None) -> pandas.DataFrame:
    """Every row that was measured on a GPU, as a DataFrame.

    folder: tables that `gpuheap bench` wrote; default: the recorded tables. The columns are those of the tables (docs/reference/formats.md) with
    numeric types where they hold numbers, and `device`. Times are in the row's `unit`. Raises UserError if the folder has no rows of a GPU, or if
    pandas is not installed.
    """
    from gpuheap.answers.measured import find_measured
    from gpuheap.formats.results import COLUMNS

    try:
        import pandas  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise UserError("results() returns a DataFrame, and pandas is not installed: pip install pandas, or install gpuheap with its extra 'results'") from None
    measured = find_measured(find_layout(), None if folder is None else Path(folder))
    if not measured.rows:
        raise UserError(f"there are no results in '{measured.folder}': gpuheap bench measures them")
    lines = csv.reader(io.StringIO("".join(row.line for row in measured.rows)))
    table = pandas.DataFrame(list(lines), columns=list(COLUMNS))
    for column in ("threads", "bytes", "mean", "median", "stddev", "p5", "p95", "min", "max", "runs"):
        table[column] = pandas.to_numeric(table[column], errors="coerce")
    table["device"] = measured.device
    return table


def claims(paper: str | None = None, folder: str | Path | None = None) -> list[dict[str, Any]]:
    """The comparative sentences of the papers, each judged by the measured rows.

    paper: the name of the only paper to judge; default: all papers. folder: as for results(). The keys of each claim are paper, name, says, at,
    verdict, numbers, points, basis, why and rows. Raises UserError for an unknown paper or folder.
    """
    from gpuheap.answers.measured import find_measured
    from gpuheap.judging.evidence import Evidence
    from gpuheap.judging.judge import judge_all, papers_named
    from gpuheap.judging.reader import load_papers

    layout = find_layout()
    papers = papers_named(load_papers(layout), [] if paper is None else [paper])
    measured = find_measured(layout, None if folder is None else Path(folder))
    return [one.as_json() for one in judge_all(papers, Evidence(measured.rows, measured.device))]


def advise(
    sizes: str | int,
    threads: int = 1_000_000,
    granularity: str = "thread",
    reuse: str = "cross-size",
    memory: str = "ample",
    folder: str | Path | None = None,
) -> Advice:
    """Ranks the allocators for a pattern of use, as `gpuheap advise` does: `ranked` has them, the best first.

    sizes: a size in bytes, or the smallest and the largest, as "16:64". granularity: "thread" or "warp". reuse: "cross-size", "same-size" or
    "none". memory: "tight" or "ample". folder: as for results(). Raises a UserError that names the wrong argument.
    """
    from gpuheap.answers.advice import advise_on, read_pattern
    from gpuheap.answers.measured import find_measured
    from gpuheap.judging.advised import load_recommendations

    layout = find_layout()
    pattern = read_pattern(str(sizes), str(threads), granularity, reuse, memory)
    measured = find_measured(layout, None if folder is None else Path(folder))
    return advise_on(pattern, measured, {one.name: one for one in measured.allocators}, load_recommendations(layout))


def allocators(folder: str | Path | None = None) -> list[dict[str, Any]]:
    """The traits of every allocator that was measured, as dictionaries with the keys name, title, paper, year, reuse and others.

    folder: as for results(). Raises UserError if the folder does not exist.
    """
    from gpuheap.answers.measured import find_measured

    measured = find_measured(find_layout(), None if folder is None else Path(folder))
    return [dict(entry) for entry in measured.environment.get("allocators") or []]
