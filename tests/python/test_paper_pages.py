"""The pages of docs/evaluation/: they say what the recorded tables say, headline first."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY, Checkout
from handmade import BETTER, CLAIM, HEAD, row, save

from gpuheap.answers.measured import find_measured
from gpuheap.errors import UserError
from gpuheap.formats.results import Row
from gpuheap.formats.suites import load_suites
from gpuheap.judging.coverage import SECONDS_OF_A_START, Rows, coverage_of, figures_of, pictured
from gpuheap.judging.evidence import Evidence
from gpuheap.judging.judge import judge_all
from gpuheap.judging.pages import MARKS, SUITES, Evaluation, evaluation_of, page_of, with_summary
from gpuheap.judging.reader import load_papers
from gpuheap.paths import Layout

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]
LAYOUT = Layout(REPOSITORY)
DOCS = REPOSITORY / "docs"


def test_pages_and_pictures_are_those_of_the_recorded_tables() -> None:
    """`python docs/refresh.py` writes them again."""
    ran = subprocess.run([sys.executable, "docs/refresh.py", "--check"], cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stdout + ran.stderr


def test_a_page_has_every_sentence_and_its_headline_first() -> None:
    for paper in load_papers(LAYOUT):
        assert paper.headline, "a page begins with what its paper rests on"
        page = (DOCS / "evaluation" / f"{paper.name}.md").read_text()
        assert page.index("## Headline") < page.index("## Every sentence")
        sentences = page[page.index("## Every sentence") :]
        assert sentences.count("\n| ") == len(paper.claims) + 1
        assert page[page.index("## Headline") :].partition("\n## ")[0].count("\n| ") == len(paper.headline) + 1


def test_the_evaluation_links_every_page() -> None:
    text = (DOCS / "evaluation.md").read_text()
    assert [path.name for path in (DOCS / "evaluation").glob("*.md") if f"(evaluation/{path.name})" not in text] == []


@pytest.fixture
def claimed(checkout: Checkout) -> Checkout:
    folder = checkout.root / "benchmarks" / "claims"
    folder.mkdir()
    (folder / "small.toml").write_text(HEAD.replace('suite = "survey"', 'suite = "survey"\nheadline = ["one"]') + CLAIM + BETTER)
    save(checkout.root / "results" / "nvidia-h200" / "survey.csv", [row("halloc", 2), row("cuda_malloc", 6)])
    return checkout


def test_the_command_writes_a_page_for_each_paper(claimed: Checkout) -> None:
    ran = claimed.gpuheap("claims", "--pages", "pages")
    assert (ran.returncode, ran.stdout) == (0, "pages/small.md\n"), ran.stderr
    page = Path(claimed.root / "pages" / "small.md").read_text()
    assert page.startswith("# A small paper\n\nThis page compares the sentences, figures and numbers of the paper (Nobody 2020) with ")
    assert "The paper measured on a machine, and these tables are of nvidia-h200. Comparative sentences of the paper: 1; 1 hold. " in page
    assert page.count("| section 1 | what the paper says | holds (95 %, by percentiles) |  | 3.0 times: halloc 2 µs, cuda_malloc 6 µs |") == 2


def test_a_page_says_what_differs_from_the_paper(claimed: Checkout) -> None:
    path = claimed.root / "benchmarks" / "claims" / "small.toml"
    differs = 'differs = ["Scenes are generated.", "Runs are fewer."]'
    path.write_text(path.read_text().replace('headline = ["one"]', f'headline = ["one"]\n{differs}'))
    assert claimed.gpuheap("claims", "--pages", "pages").returncode == 0
    page = Path(claimed.root / "pages" / "small.md").read_text()
    assert "\n\n## Differences from the paper\n\n- Scenes are generated.\n- Runs are fewer.\n\n" in page


def test_a_page_says_how_many_points_ran_out_of_time_and_under_which_limits() -> None:
    paper = next(paper for paper in load_papers(LAYOUT) if paper.name == "survey")
    reasons = ("no result within 3 s", "would take about 8 s, longer than the 3 s that a point has", "no result within 1 min 0 s", "why")
    rows = [row("halloc", status="timeout", size=16 << place, parameter=f"reason={reason}") for place, reason in enumerate(reasons)]
    page = page_of(paper, told([row("halloc", 2, size=8192), *rows]), DOCS / "images" / "evaluation", "images")
    limits = "1 under another limit, 2 under 3 s, 1 under 1 min 0 s"
    assert f" 4 points ran out of time, by the limit that a point's runs had together: {limits}. " in page
    assert "ran out of time, by" not in page_of(paper, told([row("halloc", 2)]), DOCS / "images" / "evaluation", "images")


def test_a_headline_names_claims(claimed: Checkout, error_line: ErrorLine) -> None:
    path = claimed.root / "benchmarks" / "claims" / "small.toml"
    path.write_text(path.read_text().replace('headline = ["one"]', 'headline = ["on"]'))
    assert "small.toml:7: [paper]: unknown claim 'on': did you mean 'one'?" in error_line(claimed.gpuheap("claims"))


def told(rows: list[Row]) -> Evaluation:
    papers = load_papers(LAYOUT)
    return evaluation_of(LAYOUT, papers, judge_all(papers, Evidence(rows)), rows, "a GPU")


def test_a_figure_says_how_many_of_its_points_are_measured() -> None:
    rows = [row("halloc", 2, size=size, threads=100_000, suite="survey", case="alloc_single", parameter="state=warm") for size in (16, 64)]
    suites = load_suites(LAYOUT)
    figures = {figure.name: figure.coverage for figure in figures_of(["survey"], suites, Rows(rows)) if figure.cases == ("alloc_single",)}
    sizes = 43  # of the suite's list
    assert (figures["figure 9a"].measured, figures["figure 9a"].in_full) == (0, sizes)  # 10,000 threads
    assert (figures["figures 9c and 9e"].measured, figures["figures 9c and 9e"].in_full) == (2, sizes)
    # 10 runs instead of 20 took half a second, so the 100 runs of the suite take five, and so do those of each of the 41 points.
    assert figures["figures 9c and 9e"].words == f"2 of {sizes} points, 4 minutes of GPU time missing"
    suite = suites["survey"]
    assert coverage_of(suite, suite.case("alloc_single", "cuda"), Rows(rows), ("halloc",)).in_full == 2 * sizes


def test_points_without_an_end_are_counted_apart_and_their_time_is_missing() -> None:
    """alloc_single of Gallatin's suite: 50 runs, 60 s a point; after 20 s five runs are enough."""
    suite = load_suites(LAYOUT)["gallatin"]
    case = suite.case("alloc_single", "cuda")
    points = [point for point in case.points(allocator="halloc") if point.fields["state"] == "cold"]

    def rows_of(*reasons: str) -> Rows:
        """A row for each of the first points: one that ran out of time for its reason, or, for "", one of 20 runs of 100 ms."""
        made = []
        for point, reason in zip(points, reasons, strict=False):
            where = {"suite": "gallatin", "case": "alloc_single", "size": point.bytes, "threads": point.threads}
            if reason:
                made.append(row("halloc", status="timeout", parameter=f"reason={reason};state=cold", **where))
            else:
                made.append(row("halloc", 100_000, runs=20, parameter="state=cold", **where))
        return Rows(made)

    def seconds(rows: Rows) -> float:
        return 60 * coverage_of(suite, case, rows, ("halloc",)).missing_minutes

    killed, told_8_s = "no result within 3 s", "would take about 8 s, longer than the 3 s that a point has"
    plot = next(plot for plot in case.plots if plot.figure == "figure 4a")
    assert coverage_of(suite, case, rows_of("", *[killed] * 8), ("halloc",), plot).words == "all 9 points, 8 without an end, 8 minutes of GPU time missing"
    # Of 18 points, nine of new heaps and nine of used ones, 17 are missing: each takes 50 runs of 100 ms.
    start = SECONDS_OF_A_START
    assert seconds(rows_of("")) == pytest.approx(17 * (start + 5))
    # Where all ended at a limit, a missing point takes the suite's limit, as the measured one does.
    assert seconds(rows_of(killed)) == pytest.approx(18 * (start + 60))
    # A point that told its time: five runs in 8 s are 12 in 20 s.
    assert seconds(rows_of(told_8_s)) == pytest.approx(18 * (start + 20))
    # A missing point ends as often as the measured ones.
    assert seconds(rows_of("", killed)) == pytest.approx(start + 60 + 16 * (start + (5 + 60) / 2))
    # Without rows of the allocator those of others stand in, and without any rows the limit.
    other = coverage_of(suite, case, rows_of(""), ("gallatin",))
    assert 60 * other.missing_minutes == pytest.approx(18 * (start + 5))
    assert seconds(Rows([])) == pytest.approx(18 * 60)
    # A point that ran out of the suite's own time lacks nothing.
    whole = coverage_of(suite, case, rows_of(*["no result within 1 min 0 s"] * 9), ("halloc",), plot)
    assert whole.words == "all 9 points, 9 without an end"


def test_a_point_of_few_runs_took_the_time_that_ended_it() -> None:
    """A run takes longer than what a case times of it: 10 of 20 runs took half a second."""
    suite = load_suites(LAYOUT)["survey"]
    case = suite.case("fragmentation", "cuda")
    point = case.points(allocator="halloc")[0]
    where = {"suite": "survey", "case": "fragmentation", "metric": "address_range_ratio", "size": point.bytes, "threads": point.threads}
    rows = Rows([row("halloc", 2, runs=10, parameter=point.parameter, **where)])
    assert rows.expected_s(suite, case, "halloc") == pytest.approx(SECONDS_OF_A_START + case.runs * 0.05)


def test_every_figure_with_rows_is_drawn_and_tables_of_programs_are_named() -> None:
    suites = load_suites(LAYOUT)
    rows = Rows(find_measured(LAYOUT, REPOSITORY / "results" / "nvidia-h200").rows)
    figures = figures_of(SUITES, suites, rows)
    pages = "".join(path.read_text() for path in (DOCS / "evaluation").glob("*.md"))
    shown = pictured(figures, suites)
    assert [f"{suite}-{case}.svg" for suite, case in shown if f"(../images/evaluation/{suite}-{case}.svg)" not in pages] == []
    assert [name for name in ("coalescing", "gallatin", "regeff", "survey") if name not in {suite for suite, _ in shown}] == []
    tables = {figure.name: figure for figure in figures if suites[figure.suite].programs}
    assert list(tables) == ["tables 1 and 2", "table 3", "section 2.2"]
    assert [(len(figure.cases), figure.shown) for figure in tables.values()] == [(16, "16 cases"), (16, "16 cases"), (5, "5 cases")]
    assert not {suite for suite, _ in shown} & {figure.suite for figure in tables.values()}


def test_pictures_of_the_pages_have_no_tooltips() -> None:
    pictures = list((DOCS / "images" / "evaluation").glob("*.svg"))
    assert pictures and max(path.stat().st_size for path in pictures) < 400_000
    sys.path.insert(0, str(DOCS))
    import refresh

    marks = '<use x="1" y="2">\n<title>halloc: 2 µs</title>\n</use>\n<text x="1" transform="rotate(-0 1.5 2.5)">2 µs</text>'
    assert refresh.lighter(marks) == '<use x="1" y="2" />\n<text x="1">2 µs</text>'


def test_numbers_of_the_paper_stand_beside_ours() -> None:
    parameter = "scene=surface;times_root=200;triangles=20000"
    there = row("cuda_malloc", 29.3, suite="regeff", case="kdtree_queue", metric="slowdown", parameter=parameter, threads=262_144, size=None)
    paper = next(paper for paper in load_papers(LAYOUT) if paper.name == "regeff")
    page = page_of(paper, told([there]), DOCS / "images" / "evaluation", "images")
    assert "| table 2: Hand Stand | cuda_malloc | scene=surface, triangles=20000 | slowdown | 5.42 | 29.3 |" in page
    assert "scatteralloc | page=8192" not in page[: page.index("## Every sentence")]  # no row of ours


def test_the_summary_stands_between_its_marks() -> None:
    page = f"before{MARKS[0]}old{MARKS[1]}after"
    made = with_summary(page, told([]))
    assert made.startswith(f"before{MARKS[0]}\n") and made.endswith(f"{MARKS[1]}after") and "old" not in made.split(MARKS[1])[0][6:60]
    assert with_summary(made, told([])) == made
    with pytest.raises(UserError, match="no part between"):
        with_summary("a page", told([]))


def test_sentences_that_are_missing_or_needless_are_told_and_taken_out(tmp_path: Path) -> None:
    for name in ("benchmarks/suites", "benchmarks/claims", "python"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    (tmp_path / "docs").mkdir()
    shutil.copy(REPOSITORY / "docs" / "refresh.py", tmp_path / "docs")
    paths = sorted((tmp_path / "benchmarks" / "claims").glob("*.toml"))
    save(tmp_path / "results" / "nvidia-h200" / "survey.csv", [row("halloc", 2), row("cuda_malloc", 6)])

    def sentences(*more: str) -> tuple[int, str]:
        words = [sys.executable, "docs/refresh.py", "--sentences", *more]
        ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert ran.stderr == ""
        return ran.returncode, ran.stdout

    # Almost no claim can be judged by two rows: the sentences are needless.
    given = sum(path.read_text().count("\nwhy = ") for path in paths)
    code, out = sentences()
    assert code == 1 and f"{given} with a needless sentence" in out and given > 100
    assert sentences("--drop")[0] == 0
    assert sum(path.read_text().count("\nwhy = ") for path in paths) == 0
    assert sentences() == (0, "0 without a sentence\n0 with a needless sentence\n0 to read again\n0 that the tables contradict\n")


def test_the_bound_that_suits_an_allocator_stands_beside_none() -> None:
    point = {"suite": "survey", "case": "alloc_bounded", "threads": 1_000_000, "size": 16}
    rows = [row("halloc", 20, parameter="registers=none", **point), row("halloc", 10, parameter="registers=best", **point)]
    rows += [row("halloc", 40, metric="registers_bound", parameter="registers=best", **point), row("xmalloc", 5, parameter="registers=none", **point)]
    paper = next(paper for paper in load_papers(LAYOUT) if paper.name == "survey")
    page = page_of(paper, told(rows), DOCS / "images" / "evaluation", "images")
    assert "| halloc | 40 | 1,000,000 threads, 16 B | 20 µs | 10 µs |  |  |" in page and "| xmalloc |" not in page
    assert "## Bounds on registers" not in page_of(paper, told([]), DOCS / "images" / "evaluation", "images")
