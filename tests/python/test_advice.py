"""Advice from rows: what is ranked, what is set aside and why, and what the papers say beside it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from fake_checkout import REPOSITORY, Checkout
from handmade import failed, row, save

from gpuheap.answers.advice import Advice, Pattern, advise_on, read_pattern
from gpuheap.answers.measured import Measured
from gpuheap.errors import UserError
from gpuheap.formats.protocol import Allocator
from gpuheap.formats.results import Row
from gpuheap.judging.advised import load_recommendations
from gpuheap.paths import Layout

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]

LAYOUT = Layout(REPOSITORY)
RECOMMENDED = load_recommendations(LAYOUT)
TRAITS = {
    one.name: one
    for one in (
        Allocator("sharded_spans"),
        Allocator("scatteralloc"),
        Allocator("halloc", full_reuse=False, reuse="its class"),
        Allocator("atomic_malloc", free="never"),
        Allocator("atomic_wrap_malloc", free="never", overwrites=True),
        Allocator("fdgmalloc", free="collectively", warp_level=True),
        Allocator("cuda_malloc"),
    )
}


def single(
    allocator: str,
    malloc: float,
    free: float = 1,
    size: int = 16,
    threads: int = 1_000_000,
    case: str = "alloc_single",
    state: str = "warm",
) -> list[Row]:
    point = {"case": case, "size": size, "threads": threads, "parameter": f"state={state}"}
    return [row(allocator, malloc, **point), row(allocator, free, metric="free_us", **point)]  # type: ignore[arg-type]


def advice(pattern: Pattern, rows: list[Row]) -> Advice:
    return advise_on(pattern, Measured(LAYOUT.results, tuple(rows), {}), TRAITS, RECOMMENDED)


def pattern(**said: str) -> Pattern:
    usual = {"sizes": "16:64", "threads": "1e6", "granularity": "thread", "reuse": "cross-size", "memory": "ample"}
    return read_pattern(**{**usual, **said})


ROWS = [
    *single("sharded_spans", 10),
    *single("scatteralloc", 20),
    *single("halloc", 5),
    *single("atomic_malloc", 2, 0),
    *single("atomic_wrap_malloc", 1, 0),
    *single("fdgmalloc", 3),
    failed("cuda_malloc", case="alloc_single", threads=1_000_000, parameter="state=warm"),
    row("store_only", 0.5, case="alloc_single", threads=1_000_000, parameter="state=warm"),
]


def test_the_fastest_that_fits_comes_first() -> None:
    found = advice(pattern(), ROWS)
    assert [(one.allocator, round(one.times, 3)) for one in found.ranked] == [("sharded_spans", 1.0), ("scatteralloc", 1.909)]
    aside = dict(found.set_aside)
    assert aside["halloc"] == "freed memory does not serve every size again: its class"
    assert aside["atomic_malloc"] == "never gives memory back"
    assert aside["atomic_wrap_malloc"] == "overwrites live memory, by design"
    assert aside["fdgmalloc"] == "each warp has memory of its own"
    assert aside["cuda_malloc"].startswith("timeout at 1,000,000 threads, 16 B, state=warm")
    assert "store_only" not in aside
    assert [used.words for used in found.used] == ["survey/alloc_single, 1,000,000 threads, 16 B, state=warm: malloc_us, free_us"]


def test_reuse_decides_who_fits_and_what_counts() -> None:
    assert [one.allocator for one in advice(pattern(reuse="same-size"), ROWS).ranked] == ["halloc", "sharded_spans", "scatteralloc"]
    found = advice(pattern(reuse="none"), ROWS)
    assert [one.allocator for one in found.ranked][:2] == ["atomic_malloc", "halloc"]
    assert all(one.free_us is None for one in found.ranked)


def test_the_nearest_points_are_used() -> None:
    rows = [
        *single("sharded_spans", 1, size=32),
        *single("sharded_spans", 2, size=64),
        *single("sharded_spans", 4, size=4096),
        *single("sharded_spans", 8, size=32, threads=10_000),
        *single("sharded_spans", 9, size=32, state="cold"),
        *single("sharded_spans", 3, size=64, case="alloc_mixed"),
        *single("sharded_spans", 3, size=8192, case="alloc_mixed"),
    ]
    used = advice(pattern(threads="2000000"), rows).used
    assert [(one.case, one.point[0], one.point[1], one.point[2]) for one in used] == [
        ("alloc_single", 1_000_000, 32, "state=warm"),
        ("alloc_single", 1_000_000, 64, "state=warm"),
        ("alloc_mixed", 1_000_000, 64, "state=warm"),
    ]
    assert [one.point[1] for one in advice(pattern(sizes="5000"), rows).used] == [4096]  # beyond all sizes, and near
    assert [one.point[2] for one in advice(pattern(sizes="32", reuse="none"), rows).used] == ["state=cold"]


def test_far_rows_are_no_answer_but_a_command() -> None:
    for said in ({"threads": "100"}, {"sizes": "1MiB"}, {"granularity": "warp"}):
        found = advice(pattern(**said), ROWS)
        assert not found.ranked
        command = "survey/alloc_warp" if "granularity" in said else "gallatin/alloc_single gallatin/alloc_mixed"
        assert found.to_run == (f"gpuheap bench {command}",)


def test_a_size_between_two_measured_ones_is_interpolated() -> None:
    rows = [
        *single("sharded_spans", 10, 10, size=16),
        *single("sharded_spans", 40, 10, size=64),
        *single("scatteralloc", 20, 20, size=16),
        failed("scatteralloc", case="alloc_single", size=64, threads=1_000_000, parameter="state=warm"),
        *single("halloc", 10, 10, size=64),  # has no partner
    ]
    found = advice(pattern(sizes="32", reuse="same-size"), rows)
    assert [(one.allocator, round(one.malloc_us, 6), one.free_us) for one in found.ranked] == [("sharded_spans", 20.0, pytest.approx(10.0))]
    assert dict(found.set_aside)["scatteralloc"].startswith("timeout at 1,000,000 threads, 32 B")
    assert [(one.point[1], one.between) for one in found.used] == [(32, (16, 64))]
    assert found.used[0].words.endswith("interpolated between 16 B and 64 B")
    assert [one.between for one in advice(pattern(sizes="16"), rows).used] == [None]


def test_far_neighbours_do_not_answer() -> None:
    rows = [*single("sharded_spans", 10, size=16), *single("sharded_spans", 20, size=65536)]
    assert not advice(pattern(sizes="1024"), rows).ranked


def test_cuda_malloc_is_compared_with_even_where_it_does_not_fit() -> None:
    rows = [*single("sharded_spans", 10, 10), *single("cuda_malloc", 1000, 1000), *single("halloc", 5, 5)]
    traits = {**TRAITS, "cuda_malloc": Allocator("cuda_malloc", full_reuse=False, reuse="undocumented")}
    found = advise_on(pattern(), Measured(LAYOUT.results, tuple(rows), {}), traits, RECOMMENDED)
    assert [(one.allocator, one.over_cuda) for one in found.ranked] == [("sharded_spans", pytest.approx(100))]
    assert found.compared is not None and found.compared.times == pytest.approx(100) and found.compared.malloc_us == 1000
    assert dict(found.set_aside)["cuda_malloc"].startswith("freed memory does not serve every size")
    fitting = advise_on(pattern(), Measured(LAYOUT.results, tuple(rows), {}), TRAITS, RECOMMENDED)
    assert fitting.compared is None and fitting.ranked[-1].allocator == "cuda_malloc"


def test_an_allocator_that_lacks_a_point_is_ranked_by_those_that_it_has() -> None:
    rows = [*single("sharded_spans", 10), *single("sharded_spans", 10, size=32), *single("scatteralloc", 5, size=32)]
    found = advice(pattern(), rows)
    assert [(one.allocator, one.points) for one in found.ranked] == [("scatteralloc", 1), ("sharded_spans", 2)]


def test_tight_memory_asks_for_utilisation() -> None:
    assert advice(pattern(memory="tight"), ROWS).to_run == ("gpuheap bench survey/utilisation",)
    fills = [
        row("sharded_spans", 0.98, case="utilisation", metric="utilisation", parameter="heap=2GiB"),
        row("sharded_spans", 0.5, case="utilisation", metric="utilisation", parameter="heap=1MiB"),
        row("sharded_spans", 0.2, case="utilisation", metric="utilisation", parameter="heap=2GiB", size=8192),
        row("scatteralloc", 0.6, case="utilisation", metric="utilisation", parameter="heap=2GiB"),
    ]
    found = advice(pattern(memory="tight"), ROWS + fills)
    assert [(one.allocator, one.utilisation) for one in found.ranked] == [("sharded_spans", 0.98)]
    assert dict(found.set_aside)["scatteralloc"] == "fills 60% of its heap; a tight heap needs 90%"
    assert found.to_run == ()


def test_requests_that_fail_set_an_allocator_aside() -> None:
    failed_requests = row("sharded_spans", 7, metric="failed_requests", case="alloc_single", threads=1_000_000, parameter="state=warm")
    found = advice(pattern(), [*ROWS, failed_requests])
    assert dict(found.set_aside)["sharded_spans"].startswith("requests failed at")
    assert [one.allocator for one in found.ranked] == ["scatteralloc"]


def test_the_papers_stand_beside_it() -> None:
    says = [(one.paper, one.says) for one in advice(pattern(), ROWS).recommendations]
    assert ("gallatin", "memory that must serve other sizes again: Gallatin is the best of those with full reuse") in says
    assert any(paper == "survey" and words.startswith("mainly small allocations") for paper, words in says)
    assert not any("warps" in words for _, words in says)
    same = advice(pattern(sizes="16", reuse="same-size", granularity="warp"), ROWS).recommendations
    assert {one.paper for one in same} == {"survey", "gallatin", "regeff"}
    tight = advice(pattern(memory="tight"), ROWS).recommendations
    assert any("distant second" in one.says for one in tight)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"sizes": "64:16"}, "--sizes: 64 is larger than 16"),
        ({"sizes": "1:2:3"}, "--sizes: '1:2:3' is not a size or a range"),
        ({"sizes": "few"}, "--sizes: 'few' is not a size"),
        ({"threads": "many"}, "--threads: 'many' is not a number of threads"),
        ({"threads": "0"}, "--threads: '0' is not a number of threads"),
        ({"threads": "1.5"}, "--threads: '1.5' is not a number of threads"),
        ({"threads": "inf"}, "--threads: 'inf' is not a number of threads"),
        ({"granularity": "block"}, "--granularity: 'block' is not one of thread, warp"),
        ({"reuse": "all"}, "--reuse: 'all' is not one of cross-size, same-size, none"),
        ({"memory": "some"}, "--memory: 'some' is not one of tight, ample"),
    ],
)
def test_a_mistake_names_the_option(said: dict[str, str], complaint: str) -> None:
    with pytest.raises(UserError) as error:
        pattern(**said)
    assert complaint in str(error.value)


def test_the_command_answers_from_rows_and_says_what_lacks(checkout: Checkout, error_line: ErrorLine) -> None:
    tables = checkout.root / "benchmarks" / "claims" / "tables"
    tables.mkdir(parents=True)
    (tables / "recommendations.toml").write_text((LAYOUT.claims / "tables" / "recommendations.toml").read_text())
    none = checkout.gpuheap("advise", "--sizes", "16:64")
    assert none.returncode == 0, none.stderr
    assert "to measure what is missing: gpuheap bench gallatin/alloc_single gallatin/alloc_mixed" in none.stdout
    assert "the papers recommend:" in none.stdout
    save(checkout.root / "results" / "nvidia-h200" / "survey.csv", [*single("sharded_spans", 10), *single("atomic_malloc", 2, 0)])
    out = checkout.gpuheap("advise", "--sizes", "16:64").stdout
    assert "survey/alloc_single, 1,000,000 threads, 16 B, state=warm: malloc_us, free_us" in out
    assert "atomic_malloc: never gives memory back" in out
    said = json.loads(checkout.gpuheap("advise", "--sizes", "16", "--json").stdout)
    assert [one["allocator"] for one in said["ranked"]] == ["sharded_spans"]
    assert said["rows"][0]["threads"] == 1_000_000
    assert "--sizes" in error_line(checkout.gpuheap("advise"))
    assert "--memory: 'none'" in error_line(checkout.gpuheap("advise", "--sizes", "16", "--memory", "none"))


@pytest.mark.parametrize(
    ("old", "new", "line", "complaint"),
    [
        ('allocators = ["scatteralloc"', 'allocators = ["scateralloc"', 8, "unknown allocators 'scateralloc': did you mean 'scatteralloc'"),
        ('sizes = "..512"', 'sizes = "small"', 9, "sizes is 'small'"),
        ('granularity = ["thread"]', 'granularity = ["block"]', 10, "unknown granularity 'block'"),
        ('at = "section 6"', 'page = "section 6"', 6, "unknown key 'page'"),
    ],
)
def test_a_mistake_in_the_recommendations_is_named_with_its_line(tmp_path, old: str, new: str, line: int, complaint: str) -> None:
    path = tmp_path / "benchmarks" / "claims" / "tables" / "recommendations.toml"
    path.parent.mkdir(parents=True)
    path.write_text((LAYOUT.claims / "tables" / "recommendations.toml").read_text().replace(old, new, 1))
    with pytest.raises(UserError) as error:
        load_recommendations(Layout(tmp_path))
    assert str(error.value).startswith(f"{path}:{line}: recommendation: ")
    assert complaint in str(error.value)
