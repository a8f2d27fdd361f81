"""The recorded evaluation for programs and notebooks: results as a DataFrame, claims of the papers with their verdicts, advice.

    import gpuheap
    table = gpuheap.results()                        # a pandas.DataFrame of every row measured on a GPU
    best = gpuheap.advise("16:64", threads=100_000)  # which allocator for a pattern
    fails = [one for one in gpuheap.claims() if one["verdict"] == "does not hold here"]

The functions read the package's own data, or the checkout that contains it, or another folder of tables. They run nothing, write
nothing, and need neither a GPU nor an executable. pandas is imported when results() is called, and by no other function.
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
    """Every row that was measured on a GPU.

    folder: tables that `gpuheap bench` wrote; default: the recorded ones. The columns are those of the tables (docs/reference/formats.md),
    numbers as numbers, and `device`. Raises UserError if the folder holds no tables, or if pandas is not installed.
    """
    from gpuheap.answers.measured import find_measured
    from gpuheap.formats.results import COLUMNS

    try:
        import pandas  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise UserError("results() answers with a DataFrame, and pandas is not installed: pip install pandas, which is the package's extra 'results'") from None
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
    """The comparative sentences of the papers, each judged by the rows.

    paper: only claims of this one. Keys of each claim: paper, name, says, at, verdict, numbers, points, basis, why, rows. Raises UserError for an
    unknown paper.
    """
    from gpuheap.answers.measured import find_measured
    from gpuheap.judging.evidence import Evidence
    from gpuheap.judging.judge import judge_all, select
    from gpuheap.judging.reader import load_papers

    layout = find_layout()
    measured = find_measured(layout, None if folder is None else Path(folder))
    evidence = Evidence(measured.rows, measured.device)
    return [one.as_json() for one in select(judge_all(load_papers(layout), evidence), [] if paper is None else [paper], [])]


def advise(
    sizes: str | int,
    threads: int = 1_000_000,
    granularity: str = "thread",
    reuse: str = "cross-size",
    memory: str = "ample",
    folder: str | Path | None = None,
) -> Advice:
    """Which allocator for a pattern, as `gpuheap advise` answers: `ranked` has the allocators, the best first.

    sizes: bytes, or the least and the largest, as "16:64". Raises UserError for a mistake in an argument, and names it.
    """
    from gpuheap.answers.advice import advise_on, read_pattern
    from gpuheap.answers.measured import find_measured
    from gpuheap.judging.advised import load_recommendations

    layout = find_layout()
    pattern = read_pattern(str(sizes), str(threads), granularity, reuse, memory)
    measured = find_measured(layout, None if folder is None else Path(folder))
    return advise_on(pattern, measured, {one.name: one for one in measured.allocators}, load_recommendations(layout))


def allocators(folder: str | Path | None = None) -> list[dict[str, Any]]:
    """The traits of every allocator that was measured, as dictionaries: name, title, paper, year, reuse, ..."""
    from gpuheap.answers.measured import find_measured

    measured = find_measured(find_layout(), None if folder is None else Path(folder))
    return [dict(entry) for entry in measured.environment.get("allocators") or []]
