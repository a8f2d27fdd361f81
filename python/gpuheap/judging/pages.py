"""Writes a page for each paper, which compares its sentences, figures and numbers with the rows of a GPU, and a summary of all papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.formats.results import Row
from gpuheap.formats.suites import Suite, load_suites
from gpuheap.judging.coverage import (
    NOTHING,
    POINTS_PER_MINUTE,
    SECONDS_OF_A_PROGRAM,
    Coverage,
    Figure,
    Rows,
    coverage_of_suite,
    figures_of,
    spoken_minutes,
)
from gpuheap.judging.evidence import fields_of
from gpuheap.judging.judge import FAILS, HOLDS, PUBLISHED, VERDICTS, Judged, named
from gpuheap.judging.language import Paper
from gpuheap.judging.printed import PrintedValue, load_printed
from gpuheap.metrics import METRICS
from gpuheap.paths import Layout
from gpuheap.units import format_bytes, format_count, format_value

SUITES = ("survey", "gallatin", "regeff", "coalescing", "programs", "rules")  # the suites that repeat papers
MARKS = ("<!-- from the tables: python docs/refresh.py -->", "<!-- end -->")  # around the generated part of the summary's page


@dataclass(frozen=True)
class Evaluation:
    """The papers, judged by the rows of a GPU."""

    papers: Sequence[Paper]
    judged: Sequence[Judged]
    rows: Sequence[Row]
    device: str
    suites: Mapping[str, Suite]
    printed: Sequence[PrintedValue]
    points: Rows

    def of(self, paper: Paper) -> list[Judged]:
        return [one for one in self.judged if one.claim.paper == paper.name]

    def rows_of(self, paper: Paper) -> list[Row]:
        used = suites_of(paper)
        return [row for row in self.rows if row.suite in used]


def evaluation_of(layout: Layout, papers: Sequence[Paper], judged: Sequence[Judged], rows: Sequence[Row], device: str) -> Evaluation:
    printed = load_printed(layout) if (layout.claims / "tables" / "values.csv").exists() else ()
    return Evaluation(papers, judged, rows, device, load_suites(layout), printed, Rows(rows))


def suites_of(paper: Paper) -> list[str]:
    return list(dict.fromkeys(side.suite for claim in paper.claims for side in claim.sides))


def page_of(paper: Paper, told: Evaluation, images: Path, linked: str) -> str:
    """The page of a paper in Markdown. `images` is the folder of drawn figures; the page links to it by `linked`."""
    mine, used = told.of(paper), suites_of(paper)
    lines = [
        f"# {paper.title}",
        "",
        f"{paper.cite}; measured there on {paper.machine}, here on {told.device}. {len(mine)} sentences of the paper: {_counts(mine)}.",
        "",
        "```sh",
        f"gpuheap bench {' '.join(used)} --for-claims --minutes 9   # repeat until no claim is open; any GPU of the kind can continue",
        f"gpuheap bench {' '.join(used)}   # the figures in full",
        f"gpuheap claims --paper {paper.name}",
        "```",
        "",
        _cost(paper, told),
        "",
    ]
    by_name = {one.claim.name: one for one in mine}
    if paper.headline:
        lines += ["## Headline", "", *_table([by_name[name] for name in paper.headline]), ""]
    lines += _figures([figure for figure in figures_of(used, told.suites, told.points) if _of_paper(figure, paper)], images, linked)
    lines += _numbers([value for value in told.printed if value.paper == paper.name], told.rows)
    if paper.name == "survey":
        lines += _bounds(told.rows)
    groups: dict[str, list[Judged]] = {}
    for one in mine:
        groups.setdefault(one.claim.at, []).append(one)
    lines += ["## Every sentence", "", *_table([one for found in groups.values() for one in found]), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def with_summary(page: str, told: Evaluation) -> str:
    """Returns the page of all papers with its generated part replaced. Raises UserError for a page without the marks around that part."""
    before, begin, rest = page.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise UserError(f"the page has no part between '{MARKS[0]}' and '{MARKS[1]}', as docs/evaluation.md has")
    return before + begin + _summary(told) + end + after


def _summary(told: Evaluation) -> str:
    total = len(told.judged)
    lines = ["", "", f"Of {total} comparative sentences of the papers: {_counts(told.judged)}.", "", "## Headlines", ""]
    lines += ["| paper | what it says | on this GPU | why not |", "|---|---|---|---|"]
    for paper in told.papers:
        by_name = {one.claim.name: one for one in told.of(paper)}
        for name in paper.headline:
            one = by_name[name]
            verdict = {HOLDS: "holds", FAILS: "does not hold"}.get(one.verdict, one.verdict)
            lines.append(_line(f"[{paper.name}](evaluation/{paper.name}.md)", one.claim.says, verdict, one.why))
    lines += ["", "## Completeness of the tables", "", "| suite | measured | GPU time missing |", "|---|---|---|"]
    whole = NOTHING
    for name in (*SUITES, "stress"):
        if name in told.suites:
            found = coverage_of_suite(told.suites[name], told.points)
            whole += found
            lines.append(_coverage_line(f"`{name}`", found))
    lines.append(_coverage_line("all", whole))
    figures = figures_of(SUITES, told.suites, told.points)
    partly = [figure for figure in figures if figure.coverage.missing_minutes]
    drawn = len({(figure.suite, figure.name) for figure in figures})
    lines += ["", f"The suites repeat {drawn} figures and tables of the papers. {'These are not measured in full:' if partly else 'All are measured in full.'}"]
    if partly:
        lines += ["", "| paper | figure | case | measured | GPU time missing |", "|---|---|---|---|---|"]
        told_of = dict.fromkeys((figure.suite, figure.name, f"`{figure.case}`", figure.coverage) for figure in partly)
        lines += [
            _line(suite, name, case, f"{found.measured:,} of {found.in_full:,} points", spoken_minutes(found.missing_minutes))
            for suite, name, case, found in told_of
        ]
    lines += ["", f"The tables take {format_bytes(sum(len(row.line) for row in told.rows))} of disk.", "", ""]
    return "\n".join(lines)


def _coverage_line(name: str, found: Coverage) -> str:
    return _line(name, f"{found.measured:,} of {found.in_full:,} points", spoken_minutes(found.missing_minutes) if found.missing_minutes else "")


def _counts(judged: Iterable[Judged]) -> str:
    counts = Counter(one.verdict for one in judged)
    words = {HOLDS: "hold", FAILS: "do not hold here", PUBLISHED: "are about the published code only"}
    return ", ".join(f"{counts[verdict]} {words.get(verdict, verdict)}" for verdict in VERDICTS if counts[verdict])


def _of_paper(figure: Figure, paper: Paper) -> bool:
    """Whether a figure of a suite is this paper's: claims of a paper may use another paper's suite."""
    return figure.suite == paper.name or (figure.suite, paper.name) == ("rules", "programs")


def _cost(paper: Paper, told: Evaluation) -> str:
    """Says how much the tables hold, and how long it takes to measure them again."""
    rows = told.rows_of(paper)
    points = len({row.key for row in rows})
    asked = {name for claim in paper.claims for side in claim.sides for name in named(side)}
    there = {row.allocator for row in rows}
    programs = [told.suites[name] for name in suites_of(paper) if name in told.suites and told.suites[name].programs]
    if programs:
        runs = sum(row.runs for row in {row.key: row for row in rows}.values())
        time = f"{spoken_minutes(runs * SECONDS_OF_A_PROGRAM / 60)} on one H200, for {runs:,} runs of programs"
    else:
        time = f"about {spoken_minutes(points / POINTS_PER_MINUTE)} on one H200, at {POINTS_PER_MINUTE} points a minute, the rate of `--quick`"
    missing = NOTHING
    for name in suites_of(paper):
        if name in told.suites:
            missing += coverage_of_suite(told.suites[name], told.points)
    return (
        f"The recorded tables hold {points:,} points of {len(there)} allocators and baselines. The paper's sentences name {len(there & asked)} of these. "
        f"To measure the points again takes {time}. The rows take {format_bytes(sum(len(row.line) for row in rows))} of disk. "
        f"Of the full suites, the tables hold {missing.words}."
    )


def _figures(figures: Sequence[Figure], images: Path, linked: str) -> list[str]:
    if not figures:
        return []
    lines = ["## Figures", "", "The paper's figures, measured again on this GPU by the suite. Open marks in the pictures are numbers that the paper prints."]
    lines += ["", "| in the paper | here | measured |", "|---|---|---|"]
    for figure in figures:
        what = f"`{figure.case}`: {', '.join(figure.metrics)}{f' ({figure.where})' if figure.where else ''}"
        lines.append(_line(figure.name, what, figure.coverage.words))
    lines.append("")
    for case in dict.fromkeys((figure.suite, figure.case) for figure in figures):
        path = images / f"{case[0]}-{case[1]}.svg"
        names = ", ".join(dict.fromkeys(figure.name for figure in figures if (figure.suite, figure.case) == case))
        if path.exists():
            lines += [f"![{names}]({linked}/{path.name})", ""]
    return lines


def _numbers(values: Sequence[PrintedValue], rows: Sequence[Row]) -> list[str]:
    """The comparable numbers that the paper prints, next to the measured ones."""
    measured: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.status == "ok" and row.statistics is not None:
            measured.setdefault((row.suite, row.case, row.allocator, row.metric), []).append(row)
    found = [(value, ours) for value in values if value.comparable and (ours := _row_of(value, measured)) is not None]
    if not found:
        return []
    lines = ["## Numbers", "", "Numbers of the paper that can be compared with those of another machine: ratios, shares, counts, registers."]
    lines += ["", "| at | allocator | point | metric | the paper | here |", "|---|---|---|---|---|---|"]
    for value, own in found:
        assert own.statistics is not None
        unit = METRICS[value.metric].unit
        sizes = [f"{format_count(value.threads)} threads" if value.threads else "", format_bytes(value.bytes) if value.bytes else ""]
        point = [*sizes, value.parameter.replace(";", ", ")]
        numbers = (format_value(number, unit) for number in (value.value, own.statistics.median))
        lines.append(_line(value.at, value.allocator, ", ".join(part for part in point if part), METRICS[value.metric].label, *numbers))
    return [*lines, ""]


def _bounds(rows: Sequence[Row]) -> list[str]:
    """The times of each allocator with its best bound on registers, and without a bound."""
    medians: dict[tuple[str, str, str], dict[str, float]] = {}  # by (allocator, point, bound), then by metric
    points: dict[str, str] = {}
    for row in rows:
        if (row.suite, row.case) == ("survey", "alloc_bounded") and row.statistics is not None:
            point = f"{row.threads} {row.bytes}"
            points[point] = f"{format_count(row.threads or 0)} threads, {format_bytes(row.bytes or 0)}"
            medians.setdefault((row.allocator, point, row.parameters.get("registers", "")), {})[row.metric] = row.statistics.median
    if not medians:
        return []
    lines = ["## Bounds on registers", "", "All other rows are of kernels without a bound. This table has the times without one and with the best one:"]
    lines += ["", "| allocator | registers | point | malloc: no bound | best bound | free: no bound | best bound |", "|---|---|---|---|---|---|---|"]
    for allocator, point, bound in medians:
        plain, best = medians.get((allocator, point, "none")), medians[allocator, point, bound]
        if bound == "best" and plain is not None:
            times = [format_value(of[metric], "us") if metric in of else "" for metric in ("malloc_us", "free_us") for of in (plain, best)]
            lines.append(_line(allocator, f"{best.get('registers_bound', 0):g}" if best.get("registers_bound") else "no bound", points[point], *times))
    return [*lines, ""]


def _row_of(value: PrintedValue, measured: Mapping[tuple[str, ...], Sequence[Row]]) -> Row | None:
    """The row at the number's point; None if there is none. A point with a page size is not the same as a point without one."""
    asked = value.parameters | {key: str(number) for key, number in (("threads", value.threads), ("bytes", value.bytes)) if number is not None}
    for row in measured.get((value.suite, value.case, value.allocator, value.metric), ()):
        fields = fields_of(row)
        if asked.items() <= fields.items() and ("page" in asked) == ("page" in fields):
            return row
    return None


def _table(found: Sequence[Judged]) -> list[str]:
    lines = ["| at | the paper says | verdict | why not | measured |", "|---|---|---|---|---|"]
    for one in found:
        basis = f" ({one.basis})" if one.basis and one.verdict != PUBLISHED else ""
        lines.append(_line(one.claim.at, one.claim.says, f"{one.verdict}{basis}", one.why, one.numbers))
    return lines


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
