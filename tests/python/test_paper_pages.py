"""The pages of docs/evaluation/: they say what the recorded tables say, headline first."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY, Checkout
from handmade import BETTER, CLAIM, HEAD, row, save

from gpuheap.answers.measured import find_measured
from gpuheap.formats.suites import load_suites
from gpuheap.judging.evidence import Evidence
from gpuheap.judging.judge import judge_all
from gpuheap.judging.pages import page_of
from gpuheap.judging.reader import load_papers
from gpuheap.paths import Layout

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]
LAYOUT = Layout(REPOSITORY)
DOCS = REPOSITORY / "docs"


def test_the_pages_are_those_of_the_recorded_tables() -> None:
    """`gpuheap claims --pages docs/evaluation` writes them again."""
    papers, suites = load_papers(LAYOUT), load_suites(LAYOUT)
    measured = find_measured(LAYOUT, REPOSITORY / "results" / "nvidia-h200")
    judged = judge_all(papers, Evidence(measured.rows, measured.device))
    for paper in papers:
        page = page_of(paper, judged, measured.rows, measured.device, suites, DOCS / "images" / "evaluation", "../images/evaluation")
        assert (DOCS / "evaluation" / f"{paper.name}.md").read_text() == page, paper.name
        assert paper.headline, "a page begins with what its paper rests on"
        assert page.index("## Headline") < page.index("## Every sentence")
        assert page.count("\n| ") == len(paper.claims) + len(paper.headline) + 2


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
    assert page.startswith("# A small paper\n\nNobody 2020; measured there on a machine, here on nvidia-h200. 1 sentences of the paper: 1 holds.\n")
    assert page.count("| section 1 | what the paper says | holds (no interval) |  | 3.0 times: halloc 2 µs, cuda_malloc 6 µs |") == 2


def test_a_headline_names_claims(claimed: Checkout, error_line: ErrorLine) -> None:
    path = claimed.root / "benchmarks" / "claims" / "small.toml"
    path.write_text(path.read_text().replace('headline = ["one"]', 'headline = ["on"]'))
    assert "small.toml:7: [paper]: unknown claim 'on': did you mean 'one'?" in error_line(claimed.gpuheap("claims"))
