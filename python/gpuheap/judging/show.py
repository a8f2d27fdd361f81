"""The output of `gpuheap claims`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuheap.judging.judge import FAILS, HOLDS, PUBLISHED, UNDECIDED, UNMEASURED, VERDICTS, Judged
from gpuheap.judging.language import Paper

STYLE = {HOLDS: "green", FAILS: "red", UNDECIDED: "magenta", PUBLISHED: "bright_black", UNMEASURED: "yellow"}


def print_judged(console: Console, papers: Sequence[Paper], judged: Sequence[Judged], device: str) -> None:
    """Prints a table for each paper, then the counts of verdicts."""
    for paper in papers:
        of_paper = [one for one in judged if one.claim.paper == paper.name]
        if not of_paper:
            continue
        console.print(Text(f"{paper.name}: {paper.title}", "bold").append(f"  {paper.cite}, measured on {paper.machine}", "bright_black"))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column, ratio in (("at", 2), ("the paper says", 6), ("verdict", 2), (f"measured on {device}" if device else "measured", 7)):
            table.add_column(column, overflow="fold", ratio=ratio)
        for one in of_paper:
            verdict = Text(one.verdict, STYLE[one.verdict]).append(f"\n{one.basis}" if one.basis else "", "bright_black")
            measured = Text(f"{one.why}\n" if one.why else "").append(one.numbers, "bright_black" if one.why else "")
            table.add_row(one.claim.at, one.claim.says, verdict, measured)
        console.print(table)
    console.print(counts_text(judged))


def counts_text(judged: Sequence[Judged]) -> Text:
    if not judged:
        return Text("no claims of that verdict")
    counts = Counter(one.verdict for one in judged)
    text = Text(f"{len(judged)} claims: ")
    for number, verdict in enumerate(verdict for verdict in VERDICTS if counts[verdict]):
        text.append(", " if number else "").append(f"{counts[verdict]} {verdict}", STYLE[verdict])
    return text
