"""A page for each paper: its sentences and figures side by side with what rows of a GPU say, the headline first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuheap.formats.results import Row
from gpuheap.formats.suites import Suite
from gpuheap.judging.judge import PUBLISHED, VERDICTS, Judged, named
from gpuheap.judging.language import Paper
from gpuheap.units import format_bytes

POINTS_PER_MINUTE = 175  # measured with `--quick` on an H200: 1750 points took ten minutes


def page_of(paper: Paper, judged: Sequence[Judged], rows: Sequence[Row], device: str, suites: Mapping[str, Suite], images: Path, linked: str) -> str:
    """The page in Markdown. `images`: the folder of drawn figures, which the page reaches as `linked`."""
    mine = [one for one in judged if one.claim.paper == paper.name]
    used = dict.fromkeys(side.suite for claim in paper.claims for side in claim.sides)
    own = [row for row in rows if row.suite in used]
    counts = Counter(one.verdict for one in mine)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    lines = [
        f"# {paper.title}",
        "",
        f"{paper.cite}; measured there on {paper.machine}, here on {device}. {len(mine)} sentences of the paper: {told}.",
        "",
        "```sh",
        f"gpuheap bench {' '.join(used)} --for-claims --minutes 9   # again until nothing is open; any GPU of the kind goes on",
        f"gpuheap claims --paper {paper.name}",
        "```",
        "",
        _cost(paper, own, suites, list(used)),
        "",
    ]
    by_name = {one.claim.name: one for one in mine}
    if paper.headline:
        lines += ["## Headline", "", *_table([by_name[name] for name in paper.headline]), ""]
    groups: dict[str, list[Judged]] = {}
    for one in mine:
        groups.setdefault(one.claim.at, []).append(one)
    lines += ["## Every sentence", "", *_table([one for found in groups.values() for one in found]), ""]
    pictures = sorted(path for suite in used for path in images.glob(f"{suite}-*.svg"))
    if pictures:
        lines += ["## Figures", "", "Open marks are numbers that the paper prints, where they compare with those of another machine.", ""]
        for path in pictures:
            lines += [f"![{path.stem}]({linked}/{path.name})", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _cost(paper: Paper, rows: Sequence[Row], suites: Mapping[str, Suite], used: Sequence[str]) -> str:
    """The contents of the tables, and the time that repeating them takes."""
    points = len({row.key for row in rows})
    lines = sum(len(row.line) for row in rows)
    minutes = points / POINTS_PER_MINUTE
    hours = f"{minutes / 60:.1f} hours" if minutes >= 60 else f"{minutes:.0f} minutes"
    asked = {name for claim in paper.claims for side in claim.sides for name in named(side)}
    programs = any(suites[name].programs for name in used if name in suites)
    measured = f"about {hours} of one H200 at {POINTS_PER_MINUTE} points a minute, as `--quick` takes them"
    what = "programs, whose runs take seconds each" if programs else measured
    return (
        f"The recorded tables hold {points} points of {len({row.allocator for row in rows})} allocators and baselines, "
        f"{len({row.allocator for row in rows} & asked)} of which the sentences name: {what}; {format_bytes(lines)} of disk."
    )


def _table(found: Sequence[Judged]) -> list[str]:
    lines = ["| at | the paper says | verdict | why not | measured |", "|---|---|---|---|---|"]
    for one in found:
        basis = f" ({one.basis})" if one.basis and one.verdict != PUBLISHED else ""
        cells = (one.claim.at, one.claim.says, f"{one.verdict}{basis}", one.why, one.numbers)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return lines
