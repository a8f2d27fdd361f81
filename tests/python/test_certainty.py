"""The certainty of a verdict: by the runs of its measurements, and by the values that a time-out leaves possible."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY
from handmade import BETTER, CLAIM, HEAD, failed, row

from gpuheap.formats.results import Row, summarise
from gpuheap.judging.evidence import Evidence
from gpuheap.judging.judge import FAILS, HOLDS, UNDECIDED, UNMEASURED, Judged, commands_for, judge
from gpuheap.judging.reader import load_paper
from gpuheap.judging.timeouts import bounds_of


def judged(folder: Path, claim: str, rows: Sequence[Row], metric: str = "malloc_us") -> Judged:
    path = folder / "small.toml"
    path.write_text(HEAD + CLAIM.replace("malloc_us", metric) + claim.strip() + "\n")
    (one,) = load_paper(path).claims
    return judge(one, Evidence(rows))


def measured(allocator: str, values: Sequence[float], metric: str = "malloc_us", **point: object) -> Row:
    """A row with the value of each run."""
    from dataclasses import replace

    one = row(allocator, 1.0, metric=metric, runs=len(values), **point)  # type: ignore[arg-type]
    return replace(one, statistics=summarise(values), values=tuple(values))


def around(middle: float, noise: float, seed: int, runs: int = 20) -> list[float]:
    source = random.Random(seed)
    return [source.gauss(middle, noise * middle) for _ in range(runs)]


@pytest.mark.parametrize(
    ("halloc", "cuda_malloc", "verdict"),
    [
        (around(10, 0.05, 1), around(20, 0.05, 2), HOLDS),
        (around(20, 0.05, 1), around(10, 0.05, 2), FAILS),
        # A hundredth apart, with ten times that as noise: medians alone would call it one way or the other.
        (around(10, 0.3, 1), around(10.1, 0.3, 2), UNDECIDED),
        (around(10.1, 0.3, 3), around(10, 0.3, 4), UNDECIDED),
        # The same difference without noise is one.
        ([10.0] * 20, [10.1] * 20, HOLDS),
    ],
)
def test_noise_decides(tmp_path: Path, halloc: list[float], cuda_malloc: list[float], verdict: str) -> None:
    found = judged(tmp_path, BETTER, [measured("halloc", halloc), measured("cuda_malloc", cuda_malloc)])
    assert (found.verdict, found.basis) == (verdict, "95 %"), found.numbers
    assert ("of all draws of the runs" in found.numbers) == (verdict == UNDECIDED)


def pairs_of(leads: Sequence[float], noise: float) -> list[Row]:
    """Rows of points at each of which halloc leads by a factor."""
    rows = []
    for n, lead in enumerate(leads):
        rows.append(measured("halloc", around(10, noise, 2 * n), size=16 * (n + 1)))
        rows.append(measured("cuda_malloc", around(10 * lead, noise, 2 * n + 1), size=16 * (n + 1)))
    return rows


@pytest.mark.parametrize("over", ["all", "most"])
def test_many_small_leads_within_noise_are_not_refuted(tmp_path: Path, over: str) -> None:
    """Some of many noisy pairs are the wrong way round in every draw, although all lead by 2 %."""
    claim = BETTER + f'over = "{over}"\n'
    found = judged(tmp_path, claim, pairs_of([1.02] * 16, 0.15))
    assert found.verdict == UNDECIDED, found.numbers
    assert over != "all" or "of its comparisons" in found.numbers
    # Without noise the leads are there; and pairs that are refuted one by one refute the claim.
    assert judged(tmp_path, claim, pairs_of([1.02] * 16, 0.001)).verdict == HOLDS
    refuted = 1 if over == "all" else 5
    assert judged(tmp_path, claim, pairs_of([1.02] * (16 - refuted) + [0.5] * refuted, 0.15)).verdict == FAILS


def test_of_two_that_are_equal_few_claims_are_decided(tmp_path: Path) -> None:
    """At 95 % no more than about a tenth of claims on equal allocators may be called either way."""
    equal = [judged(tmp_path, BETTER, [measured("halloc", around(10, 0.2, 2 * n)), measured("cuda_malloc", around(10, 0.2, 2 * n + 1))]) for n in range(60)]
    assert sum(one.verdict != UNDECIDED for one in equal) <= 12


def test_a_verdict_is_the_same_each_time(tmp_path: Path) -> None:
    rows = [measured("halloc", around(10, 0.3, 1)), measured("cuda_malloc", around(11, 0.3, 2))]
    assert judged(tmp_path, BETTER, rows) == judged(tmp_path, BETTER, rows)


def test_without_the_runs_the_medians_judge_and_the_verdict_says_so(tmp_path: Path) -> None:
    assert judged(tmp_path, BETTER, [row("halloc", 10, runs=4), row("cuda_malloc", 10.1, runs=4)]).basis == "no interval"
    found = judged(tmp_path, BETTER, [measured("halloc", [10.0] * 20), row("cuda_malloc", 12, runs=4)])
    assert (found.verdict, found.basis) == (HOLDS, "95 %, 1 of 2 measurements")
    # Rows of older tables keep percentiles, which tell how noisy they are.
    assert judged(tmp_path, BETTER, [row("halloc", 10, spread=0.01), row("cuda_malloc", 10.1, spread=0.01)]).basis == "95 %, by percentiles"
    assert judged(tmp_path, BETTER, [row("halloc", 10, spread=0.01), row("cuda_malloc", 10.1, spread=0.01)]).verdict == HOLDS
    assert judged(tmp_path, BETTER, [row("halloc", 10, spread=0.4), row("cuda_malloc", 10.1, spread=0.4)]).verdict == UNDECIDED
    of_means = 'relation = "better"\nleft = { of = ["halloc"], statistic = "mean" }\nright = { of = ["cuda_malloc"], statistic = "mean" }\n'
    assert judged(tmp_path, of_means, [row("halloc", 10, spread=0.4), row("cuda_malloc", 10.1, spread=0.4)]).verdict == UNDECIDED
    assert judged(tmp_path, of_means, [row("halloc", 10, spread=0.4), row("cuda_malloc", 14, spread=0.4)]).verdict == HOLDS
    # Four runs of a time say too little; one count says all.
    assert judged(tmp_path, BETTER, [measured("halloc", [10.0] * 4), measured("cuda_malloc", [12.0] * 4)]).basis == "no interval"
    counts = [measured("halloc", [30.0], "registers_malloc"), measured("cuda_malloc", [40.0], "registers_malloc")]
    assert judged(tmp_path, BETTER, counts, "registers_malloc").basis == "95 %"


def test_a_statistic_is_that_of_the_drawn_runs(tmp_path: Path) -> None:
    """One run in twenty is a hundred times slower: the median is sure, the mean is not."""
    outlier = [measured("halloc", [10.0] * 19 + [1000.0]), measured("cuda_malloc", [50.0] * 20)]
    assert judged(tmp_path, BETTER, outlier).verdict == HOLDS
    assert judged(tmp_path, 'statistic = "mean"\n' + BETTER, outlier).verdict == UNDECIDED


@pytest.mark.parametrize(
    ("reason", "case", "metric", "bounds"),
    [
        ("no result within 60 s", "alloc_single", "malloc_us", (1.2e6, math.inf)),
        ("no result within 2 min 0 s", "kdtree", "build_ms", (240, math.inf)),
        ("killed after 1 h 5 min", "work_generation", "kernel_us", (78e6, math.inf)),
        ("would take about 12 s, longer than the 10 s that a point has", "alloc_large", "malloc_us", (0.24e6, math.inf)),
        ("92 % of the heap were in blocks after 1 s: it would take about 13 s, longer than the 10 s", "utilisation", "utilisation", (0.92, 1)),
        ("no result within 60 s", "utilisation", "utilisation", (0, 1)),
        ("no result within 60 s", "fragmentation", "address_range_ratio", (1, math.inf)),
        ("no result within 60 s", "alloc_single", "free_us", None),
        ("no result within 60 s", "graph_update", "kernel_us", None),
        ("no result within 60 s", "churn_long_lived", "footprint_ratio", None),
        ("something else", "alloc_single", "malloc_us", None),
    ],
)
def test_a_time_out_bounds_a_value(reason: str, case: str, metric: str, bounds: tuple[float, float] | None) -> None:
    assert bounds_of(case, metric, reason) == (pytest.approx(bounds) if bounds else None)


# Points that ran out of time in one table of an H200, with the value that they have in another, measured with a longer limit.
SEEN = [
    ("no result within 3 s", "alloc_single", "malloc_us", 270_693),
    ("would take about 3 s, longer than the 3 s that a point has", "alloc_scaling", "malloc_us", 342_312),
    ("would take about 14 s, longer than the 12 s that a point has", "alloc_single", "free_us", 241_974),
    ("would take about 3 s, longer than the 3 s that a point has", "alloc_scaling", "free_us", 80.224),
    ("would take about 3 s, longer than the 3 s that a point has", "graph_init", "build_ms", 14.355),
    ("would take about 9 s, longer than the 3 s that a point has", "kdtree", "build_ms", 86.6364),
    ("would take about 4 s, longer than the 3 s that a point has", "work_generation", "kernel_us", 528_019),
    ("no result within 3 s", "alloc_cycle_dealloc", "kernel_us", 6_083.2),
    ("no result within 3 s", "graph_update", "kernel_us", 906.432),
    ("one run of 100 batches would take about 17 s, longer than the 3 s that a point has", "graph_expansion", "kernel_us", 228.336),
    ("one run of 100 batches would take about 122 s, longer than the 10 s that a point has", "graph_update_focused", "kernel_us", 96.656),
    ("would take about 6 s, longer than the 3 s that a point has", "alloc_repeated", "malloc_us", 628),
    ("would take about 12 s, longer than the 3 s that a point has", "leak_growth", "kernel_us", 37_554),
    ("would take about 8 s, longer than the 3 s that a point has", "burst", "malloc_us", 7_878),
    ("would take about 4 s, longer than the 3 s that a point has", "phase_change", "malloc_us", 64_521),
]


@pytest.mark.parametrize(("reason", "case", "metric", "value"), SEEN)
def test_no_bound_excludes_what_was_measured_later(reason: str, case: str, metric: str, value: float) -> None:
    low, high = bounds_of(case, metric, reason) or (-math.inf, math.inf)
    assert low <= value <= high


def test_the_executable_still_says_so() -> None:
    """The sentences that bounds are read from are those of the sources."""
    said = "".join(path.read_text() for path in (REPOSITORY / "benchmarks").rglob("*.hpp")) + "".join(
        path.read_text() for path in (REPOSITORY / "python" / "gpuheap" / "running").glob("*.py")
    )
    sentences = ('"would take about %.0f s', "of the heap were in blocks")
    for words in (*sentences, "within {format_seconds(", "killed after {format_seconds("):
        assert words in said, words


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [
        ("2..", HOLDS),  # 60 s for five runs are far over 2 µs
        ("<1", FAILS),
        ("2..4", FAILS),
        # 1.2 s and more over 2 µs are 600,000 times and more.
        ("1_000_000..", UNDECIDED),
        ("600_000..", HOLDS),
    ],
)
def test_a_time_out_decides_what_its_limit_can(tmp_path: Path, factor: str, verdict: str) -> None:
    found = judged(tmp_path, BETTER + f'factor = "{factor}"', [row("halloc", 2), failed("cuda_malloc")])
    assert found.verdict == verdict, found.numbers


def test_a_time_out_says_nothing_of_memory(tmp_path: Path) -> None:
    rows = [row("halloc", 0.9, metric="utilisation"), failed("cuda_malloc")]
    found = judged(tmp_path, BETTER, rows, "utilisation")
    assert (found.verdict, found.numbers.split(";")[0]) == (UNDECIDED, "1 point without an end: holds in 0% to 100% of all draws of the runs")
    crashed = [row("halloc", 0.9, metric="utilisation"), failed("cuda_malloc", "crash")]
    assert judged(tmp_path, BETTER, crashed, "utilisation").verdict == HOLDS


@pytest.mark.parametrize("value", [1e-3, 2, 1e6])
def test_a_time_out_without_a_bound_decides_nothing_of_its_own_metric(tmp_path: Path, value: float) -> None:
    """Also where the sentence compares nothing else, and holds in a narrow range only."""
    for factor in ("1..", "<1", "0.95..1.05"):
        found = judged(tmp_path, BETTER + f'factor = "{factor}"', [row("halloc", value, metric="free_us"), failed("cuda_malloc")], "free_us")
        assert found.verdict == UNDECIDED, (factor, found.numbers)


def test_whether_an_allocator_finishes_is_not_told_by_a_short_limit(tmp_path: Path) -> None:
    unfinished = 'relation = "status"\nleft = "halloc"\nis = "timeout"'
    short = [row("halloc", None, size=size, status="timeout", parameter="reason=no result within 3 s") for size in (16, 32, 64)]
    assert judged(tmp_path, unfinished, [failed("halloc")]).verdict == HOLDS
    assert judged(tmp_path, unfinished, short[:1]).verdict == UNMEASURED
    assert judged(tmp_path, unfinished, [failed("halloc", size=128), *short]).verdict == HOLDS
    # After three failures the runner tries no further point, of which others have results.
    others = [row(name, 1, size=128) for name in ("cuda_malloc", "scatteralloc")]
    assert judged(tmp_path, unfinished, [*short, *others]).verdict == UNMEASURED
    assert judged(tmp_path, unfinished, [*(failed("halloc", size=size) for size in (16, 32, 64)), *others]).verdict == HOLDS


def test_a_time_out_without_a_bound_may_be_like_another_allocator(tmp_path: Path) -> None:
    """Three of four pairs would be within the range if the fourth value were like its partner's, and neither a small nor a large one is."""
    within = BETTER + 'factor = "0.5..2"\nover = "most"'
    rows = [row(name, 10, size=size, metric="free_us") for size in (16, 32) for name in ("halloc", "cuda_malloc")]
    rows += [row("halloc", 10, size=64, metric="free_us"), row("cuda_malloc", 90, size=64, metric="free_us")]
    assert judged(tmp_path, within, rows, "free_us").verdict == FAILS
    rows += [row("halloc", 10, size=128, metric="free_us"), failed("cuda_malloc", size=128)]
    assert judged(tmp_path, within, rows, "free_us").verdict == UNDECIDED


def test_a_bound_on_a_value_is_none_on_how_it_varies(tmp_path: Path) -> None:
    rows = [measured("halloc", around(10, 0.2, 1)), failed("cuda_malloc")]
    assert judged(tmp_path, BETTER, rows).verdict == HOLDS
    assert judged(tmp_path, 'statistic = "stddev"\n' + BETTER, rows).verdict == UNDECIDED


def test_what_ran_out_of_time_is_to_be_measured_with_more(tmp_path: Path) -> None:
    rows = [failed("halloc"), failed("cuda_malloc")]
    one = judged(tmp_path, BETTER, rows)
    assert one.verdict == UNMEASURED
    assert commands_for([one], Evidence(rows)) == ["gpuheap bench all --for-claims"]
