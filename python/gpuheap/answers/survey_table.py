"""`gpuheap list --table`: table 1 of the survey, from the allocators' traits and from rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from gpuheap.catalogue import TOOLKIT, place
from gpuheap.formats.protocol import Allocator
from gpuheap.formats.results import Row
from gpuheap.judging.printed import SurveyEntry

_FAILURES = ("timeout", "crash", "wrong")


@dataclass(frozen=True)
class Family:
    """The variants of one publication."""

    allocators: tuple[Allocator, ...]
    endings: Counter[str]  # the number of points of all variants by status, without unsupported points
    survey: SurveyEntry | None  # the survey's entry; None if the survey has none

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(allocator.name for allocator in self.allocators)

    @property
    def points(self) -> int:
        return sum(self.endings.values())

    @property
    def stable(self) -> bool | None:
        """Whether every point ended ok; None without rows."""
        return None if not self.points else self.endings["ok"] == self.points

    @property
    def over_cuda(self) -> bool:
        """Whether some or all of its memory comes from CUDA's device heap."""
        return any(allocator.process_wide for allocator in self.allocators)

    @property
    def purpose(self) -> str:
        """Whether it is a general-purpose allocator, in words."""
        first = self.allocators[0]
        if first.overwrites:
            return "no: overwrites live memory"
        if first.free == "never":
            return "no: never frees"
        return "warp-level" if first.warp_level else "yes"


def families(allocators: Iterable[Allocator], rows: Sequence[Row], survey: Sequence[SurveyEntry]) -> list[Family]:
    """The publications by year, the project's own last. Variants are allocators of one paper that free and overwrite in the same way."""
    grouped: dict[tuple[object, ...], list[Allocator]] = {}
    for allocator in sorted(allocators, key=lambda one: place(one.name)):
        own = allocator.name if not allocator.paper else allocator.paper
        grouped.setdefault((own, allocator.free, allocator.overwrites), []).append(allocator)
    endings = _endings(rows)
    found: list[Family] = []
    for group in grouped.values():
        names = {allocator.name for allocator in group}
        counts: Counter[str] = Counter()
        for name in names:
            counts.update(endings.get(name, Counter()))
        entry = next((entry for entry in survey if names & set(entry.allocators)), None)
        found.append(Family(tuple(group), counts, entry))
    return sorted(found, key=lambda family: (family.allocators[0].year or 9999, place(family.names[0])))


def stability_words(family: Family) -> str:
    """For example `812 of 812 ok` or `95.0% of 200 ok: 8 timeout, 2 crash`."""
    if not family.points:
        return "no rows"
    failed = [f"{family.endings[status]} {status}" for status in _FAILURES if family.endings[status]]
    if not failed:
        return f"{family.endings['ok']} of {family.points} ok"
    share = family.endings["ok"] / family.points
    # A share just below 100 % must not be rounded to 100 %.
    return f"{min(share, 0.999):.1%} of {family.points} ok: {', '.join(failed)}"


def published_in(allocator: Allocator) -> str:
    """For example `Steinberger et al., InPar 2012`. In `paper`, the authors stand before the colon, and the venue after the last comma."""
    authors, colon, rest = allocator.paper.partition(":")
    if not colon or "," not in rest:
        return allocator.paper or allocator.title
    first, *others = authors.split(",")
    who = f"{first} et al." if len(others) > 1 else authors
    return f"{who}, {rest.rpartition(',')[2].strip()}"


def survey_table(found: Sequence[Family], device: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("name", "year", "published in", "variants", "over CUDA's heap", "general purpose"):
        table.add_column(column, overflow="fold")
    table.add_column(f"stable on {device}" if device else "stable", overflow="fold")
    table.add_column("the survey: stable", overflow="fold")
    table.add_column("original code: where, built for", overflow="fold")
    for family in found:
        first, entry = family.allocators[0], family.survey
        mark = {True: Text("yes: ", "green"), False: Text("no: ", "red"), None: Text("")}[family.stable]
        table.add_row(
            ", ".join(family.names),
            str(first.year or ""),
            published_in(first),
            str(len(family.allocators)),
            "it is that heap" if family.names == (TOOLKIT,) else "yes" if family.over_cuda else "no",
            family.purpose,
            mark.append(stability_words(family), "default"),
            entry.stable if entry else "",
            f"{entry.availability}, {entry.build}" if entry else "",
        )
    return table


def as_object(found: Sequence[Family], device: str | None) -> dict[str, Any]:
    return {
        "device": device,
        "families": [
            {
                "allocators": list(family.names),
                "year": family.allocators[0].year or None,
                "paper": family.allocators[0].paper,
                "over_cuda": family.over_cuda,
                "general_purpose": family.purpose,
                "stable": family.stable,
                "points": family.points,
                "endings": {status: family.endings[status] for status in ("ok", *_FAILURES)},
                "survey": {"name": family.survey.name, "stable": family.survey.stable} if family.survey else None,
            }
            for family in found
        ],
    }


def _endings(rows: Iterable[Row]) -> dict[str, Counter[str]]:
    """The number of points of each allocator by status, without unsupported points."""
    status = {row.key: (row.allocator, row.status) for row in rows}
    counts: dict[str, Counter[str]] = {}
    for allocator, ending in status.values():
        if ending != "unsupported":
            counts.setdefault(allocator, Counter())[ending] += 1
    return counts
