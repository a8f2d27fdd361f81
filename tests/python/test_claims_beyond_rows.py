"""Claims whose points ran out of time, or lie where no rows are: what a verdict then says."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_checkout import REPOSITORY
from handmade import BETTER, failed, row
from test_claims import JUMP, file_of, judged, sweep

from gpuheap.errors import UserError
from gpuheap.formats.suites import load_suites
from gpuheap.judging.judge import FAILS, HOLDS, UNMEASURED, check_suites
from gpuheap.judging.reader import load_paper
from gpuheap.paths import Layout


def test_a_verdict_counts_the_points_that_ran_out_of_time(tmp_path: Path) -> None:
    rows = [row("halloc", 2), row("cuda_malloc", 6), row("halloc", 2, size=32), failed("cuda_malloc", size=32)]
    found = judged(tmp_path, BETTER, rows)
    assert found.verdict == HOLDS and found.numbers.endswith("; 1 point without an end")
    found = judged(tmp_path, BETTER, [*rows, row("halloc", 2, size=64), failed("cuda_malloc", size=64)])
    assert found.verdict == HOLDS and found.numbers.endswith("; 2 points without an end")
    assert "without an end" not in judged(tmp_path, BETTER, rows[:2]).numbers
    # A crash is an end, and a claim about time-outs counts them itself.
    assert "without an end" not in judged(tmp_path, BETTER, [*rows[:3], failed("cuda_malloc", "crash", size=32)]).numbers
    assert "without an end" not in judged(tmp_path, 'relation = "status"\nleft = "cuda_malloc"\nis = "timeout"\nover = "any"', rows).numbers


def test_a_verdict_names_the_values_without_rows(tmp_path: Path) -> None:
    rows = [row("halloc", 2), row("cuda_malloc", 6)]
    found = judged(tmp_path, "where = { bytes = [16, 64, 4096] }\n" + BETTER, rows)
    assert found.verdict == HOLDS and found.numbers.endswith("; no rows of 64 B, 4 KiB")
    assert "no rows" not in judged(tmp_path, "where = { bytes = [16] }\n" + BETTER, rows).numbers
    # A range names no values, and a condition may ask for points without a key.
    assert "no rows" not in judged(tmp_path, 'where = { bytes = "16..64", page = "" }\n' + BETTER, rows).numbers


def test_a_place_without_rows_decides_nothing(tmp_path: Path) -> None:
    """The largest step leads to 64 B; the sentence speaks of sizes between the measured ones, or of measured ones."""
    rows = sweep("halloc", [1, 1, 9, 9])
    between = judged(tmp_path, JUMP.replace("64", '"40..50"'), rows)
    assert (between.verdict, between.numbers) == (UNMEASURED, "no rows of bytes 40 to 50, of which the sentence speaks")
    assert judged(tmp_path, JUMP.replace("64", '"30..50"'), rows).verdict == FAILS
    assert judged(tmp_path, JUMP, rows).verdict == HOLDS
    crossover = 'relation = "crossover"\nleft = "halloc"\nright = "cuda_malloc"\naxis = "bytes"\nat_value = 48\n'
    assert judged(tmp_path, crossover, [*sweep("halloc", [1, 1, 9]), *sweep("cuda_malloc", [2, 2, 2])]).verdict == UNMEASURED


def test_a_claim_speaks_of_values_and_places_of_its_suite(tmp_path: Path) -> None:
    suites = load_suites(Layout(REPOSITORY))
    for claim, complaint in (
        ("where = { bytes = [16, 17] }\n" + BETTER, "no point of survey/alloc_single has 17 B"),
        (JUMP.replace("64", '"4097..4099"'), "no point of survey/alloc_single has bytes 4,097 to 4,099"),
    ):
        with pytest.raises(UserError, match=f"claim 'one': {complaint}"):
            check_suites([load_paper(file_of(tmp_path, claim))], suites)
    check_suites([load_paper(file_of(tmp_path, JUMP))], suites)
