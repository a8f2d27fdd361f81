"""Numbers that pages quote: docs/quotes.toml names their rows."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY
from handmade import failed, row

from gpuheap.answers.measured import Measured
from gpuheap.answers.standing import Score
from gpuheap.errors import UserError
from gpuheap.formats.results import Row
from gpuheap.judging.quotes import Numbers, Quotes, problems, read_quotes, with_quotes

TEXT = """
[[sentence]]
page = "p.md"
text = "Halloc takes {}, and XMalloc takes {} for (16 B)."
rows = ["survey alloc_single halloc threads=1000 bytes=16 malloc_us", "survey alloc_single xmalloc threads=1000 bytes=16 malloc_us"]
holds = ["#1 < #2", "#1 > 0.5"]

[[table]]
page = "p.md"
header = "| size | Halloc | XMalloc |"
allocators = ["halloc", "xmalloc"]
metrics = ["malloc_us", "free_us"]

[table.lines]
"16 B" = "survey alloc_single threads=1000 bytes=16"
"""
PAGE = """# Page

Halloc takes 1.5 µs, and XMalloc takes 1,234.5 ms for (16 B). Next.

| size | Halloc | XMalloc |
|---|---|---|
| old | 1 | 2 |

| another | table |
"""
WHOLE = [row("halloc", 2.04), row("halloc", 8, metric="free_us"), row("xmalloc", 1500), row("xmalloc", 99.97, metric="free_us")]


def quotes_of(folder: Path, text: str = TEXT) -> Quotes:
    path = folder / "quotes.toml"
    path.write_text(text)
    return read_quotes(path)


def numbers_of(rows: list[Row], environment: dict[str, object] | None = None) -> Numbers:
    return Numbers(Measured(Path(), tuple(rows), environment or {}), Score("sharded_spans", (1.0, 1.4, math.inf), failed=1))


def test_numbers_of_today_stand_on_the_page(tmp_path: Path) -> None:
    quotes, numbers = quotes_of(tmp_path), numbers_of(WHOLE)
    page = with_quotes("p.md", PAGE, quotes, numbers)
    assert "\nHalloc takes 2.04 µs, and XMalloc takes 1.5 ms for (16 B). Next.\n" in page
    assert "\n\n| size | Halloc | XMalloc |\n|---|---|---|\n| 16 B | 2.0 / 8.0 | 1,500 / 100 |\n\n| another | table |\n" in page
    assert with_quotes("p.md", page, quotes, numbers) == page and list(problems(quotes, numbers)) == []
    assert with_quotes("q.md", PAGE, quotes, numbers) == PAGE and quotes.pages == ["p.md"]


def test_a_sentence_that_the_tables_contradict_is_named(tmp_path: Path) -> None:
    (problem,) = problems(quotes_of(tmp_path), numbers_of([row("halloc", 3), row("xmalloc", 2)]))
    assert problem.startswith("p.md: not #1 < #2, where #1 is 3 µs (survey alloc_single halloc") and "#2 is 2 µs" in problem


def test_a_row_that_failed_or_is_missing_leaves_the_sentence_and_names_it(tmp_path: Path) -> None:
    quotes = quotes_of(tmp_path)
    for rows in ([row("halloc", 2), failed("xmalloc")], [row("halloc", 2)], [row("halloc", 2), row("xmalloc", 2, parameter="state=warm")]):
        numbers = numbers_of(rows)
        assert "Halloc takes 1.5 µs, and XMalloc takes 1,234.5 ms" in with_quotes("p.md", PAGE, quotes, numbers)
        (problem,) = problems(quotes, numbers)
        assert problem.startswith("p.md: no number for 'survey alloc_single xmalloc threads=1000 bytes=16 malloc_us'")


def test_a_cell_says_how_a_point_failed(tmp_path: Path) -> None:
    quotes = quotes_of(tmp_path)
    assert "| 16 B | not measured | timed out |" in with_quotes("p.md", PAGE, quotes, numbers_of([failed("xmalloc")]))
    rows = [*WHOLE, row("halloc", 7, metric="failed_requests"), row("xmalloc", 0, metric="failed_requests")]
    assert "| 16 B | 2.0 / 8.0 (requests failed) | 1,500 / 100 |" in with_quotes("p.md", PAGE, quotes, numbers_of(rows))


def test_a_page_without_the_text_is_refused(tmp_path: Path) -> None:
    quotes, numbers = quotes_of(tmp_path), numbers_of(WHOLE)
    for page in (PAGE.replace("Halloc takes", "It takes"), PAGE + PAGE, PAGE.replace("| size | Halloc", "| Halloc")):
        with pytest.raises(UserError, match="p.md has this text"):
            with_quotes("p.md", page, quotes, numbers)


def test_other_references() -> None:
    sweeps = {
        "sweeps": {"survey": {"alloc_single": {"halloc": "a", "xmalloc": "b"}}},
        "builds": {"a": {"flags": "-O3 -maxrregcount=40"}, "b": {"flags": "-O3"}},
    }
    numbers = numbers_of(WHOLE, sweeps)
    assert [numbers.of(f"standing {words}") for words in ("points", "best", "over 1.3", "over 1.5")] == [(3, ""), (1, ""), (2, ""), (1, "")]
    assert numbers.of("cap survey alloc_single halloc") == (40, "")
    assert numbers.of("cap survey alloc_single xmalloc") == (0, "") and numbers.of("cap survey alloc_mixed halloc") is None
    for wrong in ("standing worst", "survey halloc", "survey alloc_single halloc 16 malloc_us"):
        with pytest.raises(UserError, match=wrong.rpartition(" ")[0]):
            numbers.of(wrong)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('holds = ["#1 < #2"', 'holds = ["#1 < #3"', "sentence 1: '#1 < #3' is no condition"),
        ('holds = ["#1 < #2"', 'holds = ["#1 is less"', "is no condition"),
        ("takes {}, and", "takes {} or {}, and", "'text' has 3 places for numbers, and 'rows' names 2"),
        ("| size | Halloc |", "| size | a | Halloc |", "table 1: 'header' has 4 columns; 2 allocators need 3"),
        ("holds =", "hold =", "unknown key 'hold'"),
        ('page = "p.md"\ntext', "text", "sentence 1, page is missing"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(UserError) as error:
        quotes_of(tmp_path, TEXT.replace(old, new))
    assert message in str(error.value) and "quotes.toml" in str(error.value)


def test_every_reference_of_the_documentation_is_a_reference() -> None:
    """Whether the rows are there is for a refresh to say, as tables change."""
    quotes, numbers = read_quotes(REPOSITORY / "docs" / "quotes.toml"), numbers_of([])
    for sentence in quotes.sentences:
        for reference in sentence.rows:
            numbers.of(reference)
