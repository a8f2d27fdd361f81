"""Two tables held against each other: what counts as noise, what is listed, how the command ends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_checkout import Checkout
from handmade import failed, row, save

from gpuheap.answers.compare import BETTER, CHANGED, NOISE, ONE_RUN, WORSE, compare_tables, noise_of
from gpuheap.errors import UserError
from gpuheap.formats.results import Row

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (row("halloc", 10, spread=0.2), row("halloc", 10.5, spread=0.2), NOISE),
        (row("halloc", 10, spread=0.2), row("halloc", 13, spread=0.2), WORSE),
        (row("halloc", 10, spread=0.2), row("halloc", 8, spread=0.2), BETTER),
        # Higher values are better.
        (row("halloc", 0.9, metric="utilisation"), row("halloc", 0.8, metric="utilisation"), WORSE),
        # Neither high nor low is better.
        (row("halloc", 10, metric="allocations"), row("halloc", 12, metric="allocations"), CHANGED),
        # One run says nothing about noise, but a count has none.
        (row("halloc", 10, runs=1), row("halloc", 30, runs=1), ONE_RUN),
        (row("halloc", 10, runs=1), row("halloc", 10, runs=1), NOISE),
        (row("halloc", 40, metric="registers_malloc", runs=1), row("halloc", 41, metric="registers_malloc", runs=1), WORSE),
        # Few runs: two standard deviations.
        (row("halloc", 10, runs=3, spread=0.4), row("halloc", 11.9, runs=3, spread=0.0), NOISE),
        (row("halloc", 10, runs=3, spread=0.4), row("halloc", 12.1, runs=3, spread=0.0), WORSE),
        (row("halloc", 0, metric="failed_requests"), row("halloc", 3, metric="failed_requests"), WORSE),
        (row("halloc", 0, metric="failed_requests"), row("halloc", 0, metric="failed_requests"), NOISE),
    ],
)
def test_a_difference_is_weighed_against_noise(before: Row, after: Row, verdict: str) -> None:
    found = compare_tables([before], [after])
    (change,) = found.changes
    assert change.verdict == verdict
    assert found.worse == (verdict == WORSE)


def test_noise_is_between_the_percentiles_of_both() -> None:
    (change,) = compare_tables([row("halloc", 10, spread=0.2)], [row("halloc", 20, spread=0.2)]).changes
    assert (change.ratio, change.low, change.high) == (2, pytest.approx(18 / 11), pytest.approx(22 / 9))
    assert noise_of(row("halloc", 10, runs=1)) is None


def test_a_tolerance_hides_what_is_within_it() -> None:
    rows = [row("halloc", 100)], [row("halloc", 104)]
    assert compare_tables(*rows).worse
    assert not compare_tables(*rows, tolerance=0.05).worse


def test_points_that_one_lacks_and_statuses_that_changed_are_listed() -> None:
    before = [row("halloc", 1), row("halloc", 1, size=32), failed("cuda_malloc"), row("cuda_malloc", 3, size=32), failed("cuda_malloc", "crash", size=64)]
    after = [row("halloc", 1), row("halloc", 1, size=64), row("cuda_malloc", 9), failed("cuda_malloc", size=32), failed("cuda_malloc", "crash", size=64)]
    found = compare_tables(before, after)
    assert [(one.allocator, one.bytes) for one in found.missing] == [("halloc", 32)]
    assert [(one.allocator, one.bytes) for one in found.extra] == [("halloc", 64)]
    assert [(one.bytes, one.status, other.status) for one, other in found.statuses] == [(16, "timeout", "ok"), (32, "ok", "timeout")]
    assert [change.verdict for change in found.changes] == [NOISE]
    assert found.worse


def test_each_case_allocator_and_metric_is_summed_up() -> None:
    before = [row("halloc", 1), row("halloc", 1, size=32), row("halloc", 5, metric="free_us")]
    after = [row("halloc", 4), row("halloc", 1, size=32), row("halloc", 5, metric="free_us")]
    malloc, free = compare_tables(before, after).summaries
    assert (malloc.metric, malloc.mean_ratio, malloc.counts) == ("malloc_us", 2, {WORSE: 1, NOISE: 1})
    assert (free.metric, free.mean_ratio, free.counts) == ("free_us", 1, {NOISE: 1})


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UserError, match="one table was measured on the backend cuda, the other on simulator"):
        compare_tables([row("halloc", 1)], [row("halloc", 1, backend="simulator", suite="quick")])
    with pytest.raises(UserError, match="the first table holds no rows"):
        compare_tables([], [row("halloc", 1)])
    assert compare_tables([row("halloc", 1)], []).worse, "all points are missing"


@pytest.mark.parametrize(
    ("after", "complaint"),
    [
        ([{"allocator": "cuda_malloc"}], "allocator is halloc in the first and cuda_malloc in the second:"),
        ([{"allocator": "cuda_malloc"}, {"allocator": "xmalloc", "size": 16}], "allocator is halloc in the first and cuda_malloc, xmalloc in the second:"),
        ([{"size": 17}, {"size": 18, "allocator": "cuda_malloc"}], "bytes is 16, 32 in the first and 17, 18 in the second:"),
        ([{"suite": "quick", "size": 17}], "suite is survey in the first and quick in the second; bytes is 16, 32 in the first and 17 in the second:"),
        ([{"allocator": f"a{number}"} for number in range(5)], "allocator is halloc in the first and a0, a1, a2 and 2 more in the second:"),
    ],
)
def test_tables_that_share_no_point_say_in_which_columns_they_differ(after: list[dict[str, Any]], complaint: str) -> None:
    with pytest.raises(UserError) as caught:
        compare_tables([row("halloc", 1), row("halloc", 1, size=32)], [row(**{"allocator": "halloc", "value": 1, **each}) for each in after])
    assert str(caught.value) == f"the tables have no point in common: {complaint} measure both with the same command"


def test_a_key_of_the_parameter_is_a_column() -> None:
    warm = [row("halloc", 1, parameter="state=warm")]
    with pytest.raises(UserError, match="common: state is warm in the first and cold in the second: measure"):
        compare_tables(warm, [row("halloc", 1, parameter="state=cold")])
    with pytest.raises(UserError, match="common: state is warm in the first and empty in the second: measure"):
        compare_tables(warm, [row("halloc", 1)])


def test_the_command_prints_and_says_by_its_exit_code(checkout: Checkout, tmp_path: Path) -> None:
    a = save(tmp_path / "a.csv", [row("halloc", 1), row("cuda_malloc", 9, spread=0.5), row("cuda_malloc", 1, size=64)])
    b = save(tmp_path / "b.csv", [row("halloc", 2), row("cuda_malloc", 9.1, spread=0.5), failed("cuda_malloc", size=64)])
    ran = checkout.gpuheap("compare", str(a), str(b))
    assert ran.returncode == 1, ran.stderr
    assert "1 worse, 1 within noise; B is worse" in ran.stdout
    assert "survey/alloc_single cuda_malloc 1,000 threads, 64 B: ok in A, timeout in B: no result within 60 s" in ran.stdout
    assert checkout.gpuheap("compare", str(a), str(a)).returncode == 0
    said = json.loads(checkout.gpuheap("compare", "--json", str(a), str(b)).stdout)
    assert said["worse"]
    assert [(change["allocator"], change["ratio"], change["verdict"]) for change in said["changes"]][0] == ("halloc", 2.0, "worse")
    assert said["statuses"][0]["after"] == "timeout"


@pytest.mark.parametrize(
    ("second", "complaint"),
    [(None, "b.csv': name a table that"), ("half", "b.csv:2: the line ends in the middle"), ("suite,case\n", "b.csv:1: expected the columns")],
)
def test_a_bad_table_is_one_line(checkout: Checkout, error_line: ErrorLine, tmp_path: Path, second: str | None, complaint: str) -> None:
    a = save(tmp_path / "a.csv", [row("halloc", 1)])
    b = tmp_path / "b.csv"
    if second is not None:
        b.write_text(a.read_text().splitlines()[0] + "\nsurvey,alloc" if second == "half" else second)
    assert complaint in error_line(checkout.gpuheap("compare", str(a), str(b)))


def test_a_folder_is_no_table(checkout: Checkout, error_line: ErrorLine, tmp_path: Path) -> None:
    assert f"{tmp_path} is a folder: name a table in it" in error_line(checkout.gpuheap("compare", str(tmp_path), str(tmp_path)))
    save(tmp_path / "a.csv", [row("halloc", 2)])
    assert f"name a table in it, as {tmp_path}/a.csv" in error_line(checkout.gpuheap("compare", str(tmp_path / "a.csv"), str(tmp_path)))
