"""Writes a page for each paper, which compares its sentences, figures and numbers with the rows of a GPU, and a summary of all papers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.formats.results import Row
from gpuheap.formats.suites import Suite, load_suites
from gpuheap.judging.coverage import (
    NOTHING,
    SECONDS_OF_A_START,
    Coverage,
    Figure,
    Rows,
    coverage_of_suite,
    figures_of,
    spoken_minutes,
    start_of,
)
from gpuheap.judging.evidence import fields_of
from gpuheap.judging.judge import FAILS, HOLDS, PUBLISHED, UNDECIDED, VERDICTS, Judged, named
from gpuheap.judging.language import Paper
from gpuheap.judging.printed import PrintedValue, load_printed
from gpuheap.judging.timeouts import limit_of
from gpuheap.metrics import METRICS
from gpuheap.paths import Layout
from gpuheap.units import format_bytes, format_count, format_seconds, format_value

SUITES = ("survey", "gallatin", "regeff", "coalescing", "programs", "rules", "counters", "probe")  # of the papers
RUNS_OF_THE_PAPER = 500  # Rodriguez et al. 2025: of each program with each method
ASSUMED = (
    "The missing time is an estimate for the suites' own runs and limits. A missing point ends as often, and as soon in the median, as the measured points "
    "of its case and allocator; if there are none, as those of its case, else of its suite. A point of a suite without rows takes its whole limit. "
    f"A measured point takes the time of its runs and {SECONDS_OF_A_START} s for its heap, its first run and its checks. A point *without an end* ran out of "
    "time under a limit that is mostly shorter than the suite's. Its missing time is the need that its row states, or else the suite's limit. A sweep gives up "
    "after three failures in a row, so it may take less."
)
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


def all_suites_of(paper: Paper, suites: Mapping[str, Suite]) -> list[str]:
    """The suites of the paper's claims, and the other suites that repeat the same paper."""
    repeated = suites[paper.name].paper if paper.name in suites else ""
    same = [name for name, suite in suites.items() if repeated and suite.paper == repeated]
    return list(dict.fromkeys([*suites_of(paper), *same]))


def page_of(paper: Paper, told: Evaluation, images: Path, linked: str) -> str:
    """The page in Markdown. `images`: the folder of drawn figures, which the page reaches as `linked`."""
    mine, used, every = told.of(paper), suites_of(paper), all_suites_of(paper, told.suites)
    lines = [
        f"# {paper.title}",
        "",
        f"This page compares the sentences, figures and numbers of the paper ({paper.cite}) with the tables measured here. "
        f"The paper measured on {paper.machine}, and these tables are of {told.device}. Comparative sentences of the paper: {len(mine)}; {_counts(mine)}. "
        "`docs/claims.md` explains verdicts and numbers.",
        "",
        "```sh",
        f"gpuheap bench {' '.join(used)} --for-claims --minutes 9   # repeat until no claim is open, on any GPU of the same kind",
        f"gpuheap bench {' '.join(every)}   # every point of the figures and tables",
        f"gpuheap claims --paper {paper.name}   # the verdicts",
        "```",
        "",
        _cost(paper, told),
        "",
    ]
    by_name = {one.claim.name: one for one in mine}
    if paper.headline:
        lines += ["## Headline", "", *_table([by_name[name] for name in paper.headline]), ""]
    if paper.differs:
        lines += ["## Differences from the paper", "", *(f"- {sentence}" for sentence in paper.differs), ""]
    lines += _figures([figure for figure in figures_of(every, told.suites, told.points) if _of_paper(figure, paper)], images, linked)
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
    lines = ["", "", f"Of {total} comparative sentences of the papers: {_counts(told.judged)}. {_cost_of_all(told)}", "", "## Headlines", ""]
    lines += ["| paper | the paper says | on this GPU | why not |", "|---|---|---|---|"]
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
    lines += [_coverage_line("all", whole), "", ASSUMED]
    figures = figures_of(SUITES, told.suites, told.points)
    partly = [figure for figure in figures if figure.coverage.missing_minutes]
    drawn = len({(figure.suite, figure.name) for figure in figures})
    completeness = "These lack points, or the ends of points:" if partly else "All points of them are measured."
    lines += ["", f"The suites repeat {drawn} figures and tables of the papers. {completeness}"]
    if partly:
        lines += ["", "| paper | figure | case | measured | GPU time missing |", "|---|---|---|---|---|"]
        told_of = dict.fromkeys((figure.suite, figure.name, figure.shown, figure.coverage) for figure in partly)
        lines += [_line(suite, name, case, found.counted, spoken_minutes(found.missing_minutes)) for suite, name, case, found in told_of]
    lines += ["", ""]
    return "\n".join(lines)


def _cost_of_all(told: Evaluation) -> str:
    """The time and the disk that repeating the recorded tables takes, and the time that all points of the suites take in addition."""
    names = [name for name in (*SUITES, "stress") if name in told.suites]
    used = {row.key: row for row in told.rows if row.suite in names}
    missing = NOTHING
    for name in names:
        missing += coverage_of_suite(told.suites[name], told.points)
    return (
        f"Repeating the recorded tables takes {spoken_minutes(_spent_minutes(names, told))} of one H200 "
        f"and {format_bytes(sum(len(row.line) for row in told.rows))} of disk, with the limits that they were measured with; "
        f"all points of the suites, with the suites' own runs and limits, take {spoken_minutes(missing.missing_minutes)} more."
        f"{_time_outs(used.values())}"
    )


def _spent_minutes(suites: Iterable[str], told: Evaluation) -> float:
    """The minutes that the recorded points of these suites took."""
    known = [told.suites[name] for name in suites if name in told.suites]
    return sum(point.spent_s(start_of(suite)) for suite in known for point in told.points.of_suite(suite.name)) / 60


def _coverage_line(name: str, found: Coverage) -> str:
    return _line(name, found.counted, spoken_minutes(found.missing_minutes) if found.missing_minutes else "")


def _counts(judged: Iterable[Judged]) -> str:
    counts = Counter(one.verdict for one in judged)
    words = {HOLDS: "hold", FAILS: "do not hold here", UNDECIDED: "undecided", PUBLISHED: "about the published code only"}
    return ", ".join(f"{counts[verdict]} {words.get(verdict, verdict)}" for verdict in VERDICTS if counts[verdict])


def _of_paper(figure: Figure, paper: Paper) -> bool:
    """Whether a figure of a suite is this paper's: claims of a paper may use another paper's suite."""
    return figure.suite == paper.name or (paper.name == "programs" and figure.suite in ("rules", "counters", "probe"))


def _cost(paper: Paper, told: Evaluation) -> str:
    """Says how much the tables hold, and how long it takes to measure them again."""
    rows = told.rows_of(paper)
    points = len({row.key for row in rows})
    asked = {name for claim in paper.claims for side in claim.sides for name in named(side)}
    there = {row.allocator for row in rows}
    programs = [told.suites[name] for name in suites_of(paper) if name in told.suites and told.suites[name].programs]
    spent = spoken_minutes(_spent_minutes(suites_of(paper), told))
    if programs:
        runs = sum(row.runs for row in {row.key: row for row in rows}.values())
        time = f"{spent} of one H200, for {runs:,} runs of programs{_certainty(rows)}"
    else:
        time = f"about {spent} of one H200, with the limits that they were measured with"
    missing = NOTHING
    for name in all_suites_of(paper, told.suites):
        if name in told.suites:
            missing += coverage_of_suite(told.suites[name], told.points)
    return (
        f"The recorded tables hold {points:,} points of {len(there)} allocators and baselines; the sentences name {len(there & asked)} of these. "
        f"To measure the points takes {time}. The tables take {format_bytes(sum(len(row.line) for row in rows))} of disk. "
        f"Measured of the whole suites: {missing.words}.{_time_outs(rows)}"
        f"{' `docs/evaluation.md` says what the missing time assumes.' if missing.missing_minutes else ''}"
    )


def _time_outs(rows: Iterable[Row]) -> str:
    """Says how many points ran out of time, and under which limits."""
    ended = [row for row in {row.key: row for row in rows}.values() if row.status == "timeout"]
    if not ended:
        return ""
    limits = Counter(limit_of(row.reason) for row in ended)
    under = ", ".join(f"{limits[limit]:,} under {format_seconds(limit)}" if limit else f"{limits[limit]:,} under another limit" for limit in sorted(limits))
    return (
        f" {len(ended):,} point{'s' if len(ended) != 1 else ''} ran out of time, by the limit that a point's runs had together: {under}. "
        "A verdict on such points names their number as *points without an end*."
    )


def _certainty(rows: Sequence[Row]) -> str:
    """How wide the 95 % intervals of the mean total times are, and what the paper's number of runs would change."""
    widths = sorted(
        1.96 * row.statistics.stddev / math.sqrt(row.runs) / row.statistics.mean
        for row in rows
        if row.metric == "total_ms" and row.runs > 1 and row.statistics is not None and row.statistics.mean > 0
    )
    if not widths:
        return ""
    most = max(row.runs for row in rows)
    paper = f", and to {100 * widths[len(widths) // 2] * math.sqrt(most / RUNS_OF_THE_PAPER):.1f} % with the {RUNS_OF_THE_PAPER} runs of the paper"
    return (
        f", which tell a mean total time to {100 * widths[len(widths) // 2]:.1f} % in the median (95 %, at most {100 * widths[-1]:.0f} %)"
        f"{paper if most < RUNS_OF_THE_PAPER else ''} (`--runs {RUNS_OF_THE_PAPER}`)"
    )


def _figures(figures: Sequence[Figure], images: Path, linked: str) -> list[str]:
    if not figures:
        return []
    about = "The table lists the paper's figures, and the cases of the suite that repeat them. Open marks in a picture are numbers that the paper prints."
    lines = ["## Figures", "", about]
    lines += ["", "| in the paper | here | measured |", "|---|---|---|"]
    for figure in figures:
        what = f"{figure.shown}: {', '.join(figure.metrics)}{f' ({figure.where})' if figure.where else ''}"
        lines.append(_line(figure.name, what, figure.coverage.words))
    lines.append("")
    for suite, case in dict.fromkeys((figure.suite, case) for figure in figures for case in figure.cases):
        path = images / f"{suite}-{case}.svg"
        names = ", ".join(dict.fromkeys(figure.name for figure in figures if figure.suite == suite and case in figure.cases))
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
    lines = ["## Numbers", "", "The table has the numbers of the paper that compare with those of another machine: ratios, shares, counts and registers."]
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
    about = "All other rows are of kernels compiled without a bound on registers. This table has each allocator's times with the bound that suits it best:"
    lines = ["## Bounds on registers", "", about]
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
