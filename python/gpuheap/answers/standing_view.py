"""The output of `gpuheap standing`."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuheap.answers.standing import BEYOND, WITHIN, Contest, Entry, Standing, value_words
from gpuheap.errors import UserError
from gpuheap.judging.language import times_words

LISTED = 15  # the number of worst points that are listed; --csv has every point


def print_standing(console: Console, found: Standing, subject: str, suites: Sequence[str], device: str) -> None:
    """Prints a line for each allocator and for each case, the points that the subject loses most clearly, and the subject's score in a sentence."""
    own = found.score(subject)
    console.print(f"{', '.join(suites)} on {device}: {len(found.contests)} points with two contenders or more", soft_wrap=True)
    console.print(_scores(found, subject))
    console.print(_cases(found, subject))
    worst = found.worst(subject)
    if worst:
        console.print(Text(f"where {subject} is furthest from the best", "bold"))
        console.print(_worst(worst[:LISTED], subject))
        if len(worst) > LISTED:
            console.print(f"  and {len(worst) - LISTED} more points that another allocator wins: --csv lists every point", style="bright_black")
    for why in dict.fromkeys(found.left_out.values()):
        names = [name for name, reason in found.left_out.items() if reason == why]
        console.print(f"left out, {why}: {', '.join(names)}", style="bright_black", soft_wrap=True)
    within = ", ".join(f"within {factor - 1:.0%} at {_share(own.within(factor), own.points)}" for factor in WITHIN)
    beyond = ", ".join(f"over {factor:g} times the best at {own.beyond(factor)}" for factor in BEYOND)
    console.print(f"{subject}: best at {_share(own.best, own.points)}, {within}; {beyond}; failed at {own.failed}", soft_wrap=True)


def as_object(found: Standing, subject: str, suites: Sequence[str], device: str | None) -> dict[str, Any]:
    """The standing as JSON, for programs."""
    return {
        "device": device,
        "suites": list(suites),
        "subject": subject,
        "points": len(found.contests),
        "allocators": [
            {
                "allocator": score.allocator,
                "points": score.points,
                "best": score.best,
                "within": {str(factor): score.within(factor) for factor in WITHIN},
                "beyond": {str(factor): score.beyond(factor) for factor in BEYOND},
                "failed": score.failed,
                "geometric_mean": _finite(score.typical),
            }
            for score in found.scores
        ],
        "worst": [{**_place(contest), **_entry(entry), **_rival(contest, subject)} for contest, entry in found.worst(subject)],
        "left_out": dict(found.left_out),
    }


SECTION = ("## Score\n", "\n## What counts\n")  # the section of docs/standing.md that holds the score, and the heading after it
NAMED = 6  # allocators in the table of docs/standing.md


def with_score(page: str, found: Standing, subject: str, suites: Sequence[str], device: str) -> str:
    """Returns the page with the section on the score replaced. Raises UserError for a page without that section."""
    before, begin, rest = page.partition(SECTION[0])
    _, end, after = rest.partition(SECTION[1])
    if not begin or not end:
        raise UserError("--page: the file has no section '## Score' before '## What counts', as docs/standing.md has")
    return before + begin + score_section(found, subject, suites, device) + end + after


def score_section(found: Standing, subject: str, suites: Sequence[str], device: str) -> str:
    """The text of the score section of docs/standing.md, without its heading."""
    own = found.score(subject)
    left = len(found.scores) - NAMED
    named = f"`{'`, `'.join(suites[:-1])}` and `{suites[-1]}`" if len(suites) > 1 else f"`{suites[0]}`"
    lines = [
        "",
        f"The score is of the recorded tables of {device}, suites {named}. Of {own.points} points `{subject}` is the best at {own.best}, "
        f"within 5 % of the best at {own.within(1.05)}, and within 10 % at {own.within(1.1)}.",
        f"At {own.beyond(1.3)} points it takes over 1.3 times the best, and at {own.beyond(1.5)} over 1.5 times.",
        "",
        "![For each allocator, the share of points at which it takes at most a given multiple of the best](images/standing.svg)",
        "",
        *([f"The table has the {NAMED} allocators that are the best at most points; `gpuheap standing` prints the other {left} too.", ""] if left > 0 else []),
        "| allocator | points | best | within 5 % | over 1.3 times | failed |",
        "|---|---|---|---|---|---|",
    ]
    for score in found.scores[:NAMED]:
        counts = (score.points, score.best, score.within(1.05), score.beyond(1.3), score.failed)
        lines.append(f"| `{score.allocator}` | {' | '.join(map(str, counts))} |")
    return "\n".join([*lines, ""])


def write_csv(file: TextIO, found: Standing) -> None:
    """Writes a line for each allocator at each point, for each metric."""
    columns = ("suite", "case", "threads", "bytes", "parameter", "metric", "allocator", "value", "times", "low", "high", "rank")
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    for contest in found.contests:
        for entry in contest.entries:
            line = {**_place(contest), **_entry(entry)}
            writer.writerow({key: "" if value is None else value for key, value in line.items()})


def _scores(found: Standing, subject: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("allocator", min_width=max(len(score.allocator) for score in found.scores))
    factors = [f"within {factor - 1:.0%}" for factor in WITHIN] + [f"over {factor:g} ×" for factor in BEYOND]
    for column in ("points", "best", *factors, "failed", "typically"):
        table.add_column(column, justify="right", overflow="fold")
    for score in found.scores:
        counts = [score.within(factor) for factor in WITHIN] + [score.beyond(factor) for factor in BEYOND]
        cells = [str(count) for count in (score.points, score.best, *counts, score.failed)]
        table.add_row(Text(score.allocator, "bold" if score.allocator == subject else "default"), *cells, f"{times_words(score.typical)} ×")
    return table


def _cases(found: Standing, subject: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("case and metric", overflow="fold")
    for column in ("points", f"{subject} best", "within 5%", "typically"):
        table.add_column(column, justify="right", overflow="fold")
    table.add_column("other winners", overflow="fold")
    groups: dict[str, list[Contest]] = {}
    for contest in found.contests:
        if contest.of(subject) is not None:
            groups.setdefault(f"{contest.suite}/{contest.case} {contest.metric}", []).append(contest)
    for name, contests in groups.items():
        times = [entry.times for contest in contests if (entry := contest.of(subject)) is not None]
        winners: dict[str, int] = {}
        for contest in contests:
            best = contest.entries[0].allocator
            if all(entry.allocator != subject for entry in contest.entries if entry.rank == 1):
                winners[best] = winners.get(best, 0) + 1
        finished = [math.log(value) for value in times if math.isfinite(value)]
        typical = math.exp(math.fsum(finished) / len(finished)) if finished else math.inf
        won = ", ".join(f"{who} {count}" for who, count in sorted(winners.items(), key=lambda pair: -pair[1]))
        counts = [str(len(times)), str(sum(value <= 1 for value in times)), str(sum(value <= WITHIN[0] for value in times))]
        table.add_row(name, *counts, f"{times_words(typical)} ×", won)
    return table


def _worst(worst: Sequence[tuple[Contest, Entry]], subject: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("point", overflow="fold")
    for column in (subject, "best", "times"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("rank", justify="right", no_wrap=True)
    for contest, entry in worst:
        best = contest.entries[0]
        rank = f"{entry.rank} of {len(contest.entries)}"
        ends = [value_words(contest, entry), f"{best.allocator} {value_words(contest, best)}"]
        times = times_words(entry.times)
        if entry.interval is not None:
            times += f" ({times_words(entry.interval[0])} to {times_words(entry.interval[1])})"
        table.add_row(contest.words, *ends, times, rank)
    return table


def _place(contest: Contest) -> dict[str, Any]:
    threads, size, parameter = contest.point
    return {
        "suite": contest.suite, "case": contest.case, "threads": threads, "bytes": size, "parameter": parameter, "metric": contest.metric
    }  # fmt: skip


def _entry(entry: Entry) -> dict[str, Any]:
    low, high = entry.interval or (math.nan, math.nan)
    ends = {"low": _finite(low), "high": _finite(high)}
    return {"allocator": entry.allocator, "value": _finite(entry.value), "times": _finite(entry.times), **ends, "rank": entry.rank}


def _rival(contest: Contest, subject: str) -> dict[str, Any]:
    rival = contest.rival(subject)
    return {"best": rival.allocator, "best_value": _finite(rival.value)}


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def _share(count: int, of: int) -> str:
    return f"{count} of {of} ({count / of:.0%})"
