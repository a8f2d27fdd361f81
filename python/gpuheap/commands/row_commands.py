"""The commands that compute from rows of results: `claims`, `compare`, `advise`, `standing`. They run no benchmark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuheap.catalogue import DEFAULT
from gpuheap.paths import Layout, find_layout
from gpuheap.terminal import console, print_json

if TYPE_CHECKING:
    from gpuheap.answers.measured import Measured
    from gpuheap.judging.judge import Judged
    from gpuheap.judging.language import Claim, Paper

EXIT_WORSE = 1

Results = Annotated[
    Path | None, typer.Option("--results", metavar="DIR", help="The folder of tables to read. Default: that of the only GPU in results/.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")]


def register(app: typer.Typer) -> None:
    for command in (claims, compare, advise, standing):
        app.command()(command)


def claims(
    named: Annotated[
        list[str] | None, typer.Argument(metavar="PAPER...", help="Judge only claims of these papers. Default: all papers.", show_default=False)
    ] = None,
    paper: Annotated[list[str] | None, typer.Option("--paper", metavar="NAME", help="The same as the argument PAPER. May be repeated.")] = None,
    verdict: Annotated[
        list[str] | None,
        typer.Option(
            "--verdict", metavar="holds|fails|undecided|published|unmeasured", help="Show only claims with this verdict. May be repeated."
        ),
    ] = None,
    results: Results = None,
    as_json: Json = False,
    pages: Annotated[Path | None, typer.Option(metavar="DIR", help="Write a page for each paper to this folder, as docs/evaluation has them.")] = None,
) -> None:
    """Judge the comparative sentences of the papers by measured rows of a GPU. The command runs nothing.

    The exit code is 0 whatever the verdicts are. docs/claims.md explains them.
    """
    from gpuheap.answers.measured import find_measured
    from gpuheap.errors import UserError
    from gpuheap.files import make_folder
    from gpuheap.judging.evidence import Evidence
    from gpuheap.judging.judge import commands_for, judge_all, papers_named, verdicts_named
    from gpuheap.judging.reader import load_papers
    from gpuheap.judging.show import print_judged

    if as_json and pages is not None:
        raise UserError("--json and --pages exclude each other: choose one")
    layout = find_layout()
    papers = load_papers(layout)
    chosen = papers_named(papers, [*(named or []), *(paper or [])])
    wanted = verdicts_named(verdict or [])
    if pages is not None:
        make_folder(pages, "name another folder with --pages")
    measured = find_measured(layout, results)
    evidence = Evidence(measured.rows, measured.device)
    judged = [one for one in judge_all(chosen, evidence, _progress) if one.verdict in wanted]
    if pages is not None:
        _write_pages(layout, papers, judged, measured, pages)
        return
    commands = commands_for(judged, evidence)
    if as_json:
        said = {
            "device": measured.device if measured.rows else None,
            "results": layout.shown(measured.folder),
            "claims": [one.as_json() for one in judged],
            "to_run": commands,
        }
        print_json(said)
        return
    out = console()
    print_judged(out, papers, judged, measured.device if measured.rows else "")
    if commands:
        out.print(f"rows are missing in {layout.shown(measured.folder)}; to measure them:", style="yellow", soft_wrap=True)
        for command in commands:
            out.print(f"  {command}", soft_wrap=True)


def _write_pages(layout: Layout, papers: Sequence[Paper], judged: Sequence[Judged], measured: Measured, folder: Path) -> None:
    from gpuheap.files import replace_file
    from gpuheap.judging.pages import evaluation_of, page_of

    images = layout.root / "docs" / "images" / "evaluation"
    linked = Path(os.path.relpath(images, folder.resolve())).as_posix()
    told = evaluation_of(layout, papers, judged, measured.rows, measured.device)
    out = console()
    for paper in papers:
        if told.of(paper):
            path = folder / f"{paper.name}.md"
            replace_file(path, page_of(paper, told, images, linked), "name another folder with --pages")
            out.print(layout.shown(path.absolute()), soft_wrap=True)


def _progress(claims: Sequence[Claim]) -> Iterable[Claim]:
    from rich.console import Console
    from rich.progress import track

    errors = Console(stderr=True)
    return track(claims, "judging", console=errors, transient=True, disable=not errors.is_terminal)


def list_as_survey(backend: str | None, results: Path | None, as_json: bool) -> None:
    """`gpuheap list --table`. The traits come from the built executable and, for allocators that it lacks, from the results."""
    from gpuheap.answers.measured import find_measured, traits_by_name
    from gpuheap.answers.survey_table import as_object, families, survey_table
    from gpuheap.errors import UserError
    from gpuheap.judging.printed import load_survey_table

    layout = find_layout()
    measured = find_measured(layout, results)
    allocators = traits_by_name(layout, measured, backend).values()
    if not allocators:
        raise UserError("the allocators' traits are unknown: no benchmark executable is built, and no results name them: run ./demo, which builds one")
    found = families(allocators, measured.rows, load_survey_table(layout))
    device = measured.device if measured.rows else None
    if as_json:
        print_json(as_object(found, device))
        return
    out = console()
    out.print(survey_table(found, device or ""))
    if device is None:
        where = layout.shown(measured.folder)
        out.print(f"no results in {where}: `gpuheap bench survey` measures them on a GPU", style="yellow", soft_wrap=True)


def compare(
    before: Annotated[Path, typer.Argument(metavar="A.csv", show_default=False)],
    after: Annotated[Path, typer.Argument(metavar="B.csv", show_default=False)],
    tolerance: Annotated[float, typer.Option(min=0, metavar="PERCENT", help="Differences of at most this much count as noise.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Compare two tables of results point by point, and show the measurements that differ by more than the noise of their runs.

    The exit code is 1 if a point of B is worse than in A: its value is worse beyond noise, it failed, or it is missing. Otherwise it is 0.
    """
    from gpuheap.answers.compare import compare_tables
    from gpuheap.answers.compare_view import as_object, print_comparison
    from gpuheap.errors import UserError
    from gpuheap.formats.results import read_table

    for path in (before, after):
        if path.is_dir():
            tables = sorted(path.glob("*.csv"))
            raise UserError(f"{path} is a folder: name a table in it{f', as {tables[0]}' if tables else ''}")
        if not os.path.lexists(path):
            raise UserError(f"there is no file '{path}': name a table that gpuheap bench has written, as results/nvidia-h200/heap.csv")
    comparison = compare_tables(read_table(before), read_table(after), tolerance / 100)
    if as_json:
        print_json(as_object(comparison))
    else:
        print_comparison(console(), comparison, str(before), str(after))
    if comparison.worse:
        raise typer.Exit(EXIT_WORSE)


def advise(
    sizes: Annotated[str, typer.Option(metavar="A:B", help="The size of the requests, as 4KiB, or the least and the largest, as 16:64.")],
    threads: Annotated[str, typer.Option(metavar="N", help="The number of threads that allocate at the same time, as 1e6.")] = "1e6",
    granularity: Annotated[
        str, typer.Option(metavar="thread|warp", help="Whether every thread allocates, or one lane of each warp.")
    ] = "thread",
    reuse: Annotated[
        str, typer.Option(metavar="cross-size|same-size|none", help="Which requests freed memory must serve: those of any size, of the same size, or none.")
    ] = "cross-size",
    memory: Annotated[str, typer.Option(metavar="tight|ample", help="tight: the allocator must use nearly all of the heap. ample: it need not.")] = "ample",
    results: Results = None,
    as_json: Json = False,
) -> None:
    """Rank the allocators for a pattern of use by measured rows, and compare them with CUDA's malloc.

    The command interpolates between measured sizes, shows the rows that it used, and prints the papers' recommendations.
    """
    from gpuheap.answers.advice import advise_on, read_pattern
    from gpuheap.answers.advice_view import as_object, print_advice
    from gpuheap.answers.measured import find_measured, traits_by_name
    from gpuheap.judging.advised import load_recommendations

    layout = find_layout()
    pattern = read_pattern(sizes, threads, granularity, reuse, memory)
    measured = find_measured(layout, results)
    advice = advise_on(pattern, measured, traits_by_name(layout, measured), load_recommendations(layout))
    if as_json:
        print_json(as_object(advice))
    else:
        print_advice(console(), advice, layout.shown(measured.folder))


def standing(
    suites: Annotated[
        list[str] | None, typer.Option("--suite", metavar="NAME", help="Only this suite; may be repeated. Default: survey, gallatin, regeff, stress.")
    ] = None,
    subject: Annotated[str, typer.Option("--of", metavar="ALLOCATOR", help="The allocator whose wins and losses are listed.")] = DEFAULT,
    results: Results = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line for each allocator at each point.")] = False,
    picture: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw, for each allocator, the share of points within a factor of the best.")] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE.md", help="Replace the score section of this file: docs/standing.md or a copy of it.")] = None,
) -> None:
    """Compare allocators with the best one at every point of the suites: ranks, ratios, wins, the worst points by name.

    A point is a case with its threads, bytes and parameters, judged by one time or one measure of memory. Contenders are the allocators that free
    single blocks and never hand out live memory. A contender loses a point if requests fail there, if it crashes, or if it
    ran out of time under a limit that shows that another one is better.
    """
    from gpuheap.answers.measured import find_measured
    from gpuheap.answers.standing import SUITES
    from gpuheap.answers.standing import standing as standing_of
    from gpuheap.answers.standing_view import as_object, print_standing, with_score, write_csv
    from gpuheap.errors import UserError, unknown_name

    if as_json and as_csv:
        raise UserError("--json and --csv exclude each other: choose one")
    layout = find_layout()
    measured = find_measured(layout, results)
    there = list(dict.fromkeys(row.suite for row in measured.rows))
    for name in suites or []:
        if name not in there:
            raise unknown_name("suite", name, there, f"in {layout.shown(measured.folder)}")
    chosen = [name for name in dict.fromkeys(suites or SUITES) if name in there]
    traits = {str(entry["name"]): entry for entry in measured.environment.get("allocators") or []}
    found = standing_of((row for row in measured.rows if row.suite in chosen), traits)
    if not found.contests:
        raise UserError(
            f"{layout.shown(measured.folder)} holds no point of {', '.join(suites or SUITES)} that two allocators were measured at: "
            f"run `gpuheap bench {' '.join(suites or SUITES)}` on a GPU"
        )
    if subject not in (score.allocator for score in found.scores):
        raise unknown_name("contender", subject, [score.allocator for score in found.scores])
    if picture is not None:
        from gpuheap.files import check_no_input
        from gpuheap.report.profile import write_profile

        check_no_input(picture, "--picture", [*measured.folder.iterdir(), *([page] if page is not None else [])])
        write_profile(picture, found, subject)
    if page is not None:
        from gpuheap.files import read_text, replace_file

        replace_file(page, with_score(read_text(page), found, subject, chosen, measured.device), "name another file with --page")
    if as_json:
        print_json(as_object(found, subject, chosen, measured.device))
    elif as_csv:
        write_csv(sys.stdout, found)
    else:
        print_standing(console(), found, subject, chosen, measured.device)
