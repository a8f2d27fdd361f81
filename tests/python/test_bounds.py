"""Bounds: what suites may say, how measurements are held to them, and that a failed bound is shown as failed."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_checkout import REPOSITORY, SUITE, Checkout

from gpuheap.answers.verdicts import AIM, FAILED, MET, NOTHING, PART, Verdict, judge, summary_words, verdicts
from gpuheap.errors import UserError
from gpuheap.formats.points import DEFAULT_SEED
from gpuheap.formats.protocol import Measurement, PointResult
from gpuheap.formats.results import Row, rows_of
from gpuheap.formats.suites import Suite, load_suite

AXES = 'axes = { threads = [100], bytes = [16, 32, 64, 128, 256], state = ["warm"] }'
BASELINES = 'baselines = ["store_only"]\n'


def with_bounds(bounds: str, of: str = '["sharded_spans"]', host: str = "[]") -> str:
    text = SUITE.replace(BASELINES, f'{BASELINES}bounds = {{ of = {of}, on = "NVIDIA H200" }}\n', 1)
    return text.replace(AXES, f"{AXES}\nbounds = {bounds}", 1).replace('heap_bytes = "16MiB"', f'heap_bytes = "16MiB"\nbounds = {host}', 1)


def suite_with(tmp_path: Path, bounds: str, **more: str) -> Suite:
    (tmp_path / "mini.toml").write_text(with_bounds(bounds, **more))
    return load_suite(tmp_path / "mini.toml")


def rows_with(suite: Suite, measured: dict[int, list[float] | str], metric: str = "malloc_us", backend: str = "cuda") -> list[Row]:
    """Rows of alloc_single: samples for a size, or a status."""
    unit = "us" if metric.endswith("_us") else "ratio"
    rows: list[Row] = []
    for point in suite.case("alloc_single", backend).points():
        found = measured.get(point.bytes or 0)
        if found is None:
            continue
        result = PointResult(found) if isinstance(found, str) else PointResult("ok", "", (Measurement(metric, unit, tuple(found)),))
        rows += rows_of(suite.name, "alloc_single", "sharded_spans", backend, point, "", result)
    return rows


def judged(suite: Suite, rows: list[Row]) -> list[Verdict]:
    case = suite.case("alloc_single", "cuda")
    return judge(rows, case.bounds, case.points(), suite.name, "alloc_single", "sharded_spans")


ALL_SIZES = (16, 32, 64, 128, 256)


def test_medians_are_held_to_must_and_aim(tmp_path: Path) -> None:
    suite = suite_with(
        tmp_path,
        '[{ metric = "malloc_us", where = { bytes = "..32" }, must = 20, aim = 12 }, '
        '{ metric = "malloc_us", where = { bytes = "33..128" }, must = 20, aim = 12 }, '
        '{ metric = "malloc_us", where = { bytes = 256 }, must = 20 }]',
    )
    rows = rows_with(suite, {16: [12, 12, 90], 32: [3], 64: [12], 128: [20, 20.0], 256: [20.01]})
    found = judged(suite, rows)
    assert [verdict.verdict for verdict in found] == [AIM, MET, FAILED]
    assert [verdict.worst_words for verdict in found] == ["12 µs", "20 µs", "20.01 µs"]  # not as the limit that it misses
    assert [verdict.worst and verdict.worst.bytes for verdict in found] == [16, 128, 256]
    assert found[2].failing_words == ["100 threads, 256 B, state=warm: 20 µs"]
    assert found[0].bound.words == "malloc: up to 32 B"
    assert (found[0].bound.limit_words(found[0].bound.must), found[2].bound.limit_words(found[2].bound.aim)) == ("≤ 20 µs", "")


def test_each_run_may_be_held_to_a_bound(tmp_path: Path) -> None:
    suite = suite_with(tmp_path, '[{ metric = "malloc_us", must = 20, each = true }, { metric = "malloc_us", must = 20 }]')
    found = judged(suite, rows_with(suite, dict.fromkeys(ALL_SIZES, [1, 1, 21.0])))
    assert [verdict.verdict for verdict in found] == [FAILED, MET]
    assert found[0].verdict_words == "FAILED at 5 of 5 points"
    assert found[0].bound.words == "malloc of each run"


def test_what_is_better_high_has_a_least(tmp_path: Path) -> None:
    suite = suite_with(
        tmp_path, '[{ metric = "utilisation", must = 0.98, aim = 0.995 }, { metric = "utilisation", must = 0.98, each = true }]'
    )
    rows = rows_with(suite, dict.fromkeys(ALL_SIZES, [0.97, 0.99, 1.0]), "utilisation")
    found = judged(suite, rows)
    assert [verdict.verdict for verdict in found] == [MET, FAILED]
    assert found[0].bound.limit_words(0.98) == "≥ 0.98"
    assert found[1].worst_words == "0.97"


def test_what_did_not_succeed_fails_and_what_was_not_measured_is_not_met(tmp_path: Path) -> None:
    suite = suite_with(tmp_path, '[{ metric = "malloc_us", must = 20, aim = 20 }]')
    (crashed,) = judged(suite, rows_with(suite, {**dict.fromkeys(ALL_SIZES, [1.0]), 64: "crash"}))
    assert (crashed.verdict, crashed.failing_words) == (FAILED, ["100 threads, 64 B, state=warm: crash"])
    (cut,) = judged(suite, rows_with(suite, {16: [1.0], 32: [1.0]}))
    assert (cut.verdict, cut.verdict_words) == (PART, "in part: 2 of 5 points")
    (nothing,) = judged(suite, rows_with(suite, dict.fromkeys(ALL_SIZES, "unsupported")))
    assert (nothing.verdict, nothing.worst_words) == (NOTHING, "")
    assert summary_words([crashed, cut, nothing]) == "0 of 3 bounds met, 0 of these also reach the aim; 1 FAILED; 2 not measured in full"


def test_bounds_are_for_the_allocators_named_and_for_the_gpu_unless_the_simulator_has_its_own(tmp_path: Path) -> None:
    slow = dict.fromkeys(ALL_SIZES, [1e6])
    suite = suite_with(tmp_path, '[{ metric = "malloc_us", must = 20 }]')
    assert verdicts(rows_with(suite, slow, backend="simulator"), {"mini": suite}) == []
    assert [verdict.verdict for verdict in verdicts(rows_with(suite, slow), {"mini": suite})] == [FAILED]
    other = suite_with(tmp_path, '[{ metric = "malloc_us", must = 20 }]', of='["atomic_malloc"]')
    assert verdicts(rows_with(other, slow), {"mini": other}) == []
    own = suite_with(tmp_path, "[]", host='[{ metric = "malloc_us", must = 2e6 }]')
    assert [verdict.verdict for verdict in verdicts(rows_with(own, slow, backend="simulator"), {"mini": own})] == [MET]


@pytest.mark.parametrize(
    ("bounds", "complaint"),
    [
        ("3", "alloc_single: bounds must be a list of tables"),
        ('[{ metric = "malloc_us" }]', "alloc_single: bounds, entry 1: the bound has neither must nor aim: give at least one"),
        ('[{ metric = "malloc_us", must = "20 us" }]', "must must be a number"),
        ('[{ metric = "malloc", must = 20 }]', "unknown metric 'malloc': did you mean"),
        ('[{ metric = "allocations", must = 20 }]', "allocations has no better direction"),
        ('[{ metric = "malloc_us", must = 20, atmost = 3 }]', "unknown key 'atmost'"),
        ('[{ metric = "malloc_us", must = 20, aim = 21 }]', "the aim is weaker than must"),
        ('[{ metric = "malloc_us", must = 20, each = 1 }]', "each must be true or false"),
        ('[{ metric = "malloc_us", must = 20, where = { byte = 16 } }]', "unknown key 'byte': did you mean 'bytes'"),
        ('[{ metric = "malloc_us", must = 20, where = { bytes = 17 } }]', "the bound fits no point of the case"),
        ('[{ metric = "malloc_us", must = 20, where = { bytes = "257.." } }]', "the bound fits no point of the case"),
        ('[{ metric = "malloc_us", must = 20, where = { bytes = "a..b" } }]', "expected a range like 16..256"),
    ],
)
def test_a_mistake_in_a_bound_is_named(tmp_path: Path, bounds: str, complaint: str) -> None:
    with pytest.raises(UserError) as error:
        suite_with(tmp_path, bounds)
    assert complaint in str(error.value)


def test_bounds_without_an_allocator_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cases have bounds, and suite.bounds.of names no allocator: write bounds = \{ of = "):
        suite_with(tmp_path, '[{ metric = "malloc_us", must = 20 }]', of="[]")


@pytest.fixture
def held(checkout: Checkout) -> Checkout:
    """A checkout whose suite has one bound that holds and one that cannot."""
    bounds = '[{ metric = "malloc_us", must = 1e6, aim = 1e6 }, { metric = "free_us", where = { bytes = "128.." }, must = 0.001 }]'
    (checkout.root / "benchmarks" / "suites" / "mini.toml").write_text(with_bounds(bounds))
    checkout.settings["backend"] = "cuda"
    return checkout


def test_a_run_ends_with_what_was_measured_against_the_bounds(held: Checkout) -> None:
    ran = held.gpuheap("bench", "alloc_single", "-a", "sharded_spans")
    assert ran.returncode == 0
    assert "aim met" in ran.stdout
    assert "FAILED at 2 of 2 points" in ran.stdout
    assert "1 of 2 bounds met, 1 of these also reach the aim; 1 FAILED (sharded_spans, stated for NVIDIA H200)" in ran.stdout
    assert held.gpuheap("bench", "alloc_single", "-a", "sharded_spans", "--strict").returncode == 1


def test_the_report_shows_bounds_and_which_points_fail(held: Checkout) -> None:
    held.gpuheap("bench", "alloc_single", "-a", "sharded_spans")
    assert held.gpuheap("report").returncode == 0
    page = (held.root / "build" / "report.html").read_text()
    assert "Bounds of the suite mini" in page
    assert '<span class="verdict failed">FAILED at 2 of 2 points</span>' in page
    assert "100 threads, 256 B, state=warm: " in page
    assert '<span class="verdict aim">aim met</span>' in page


def test_a_point_with_a_heap_of_its_own_keeps_it(checkout: Checkout) -> None:
    text = SUITE.replace(
        AXES, 'axes = [{ threads = [100], bytes = [64] }, { threads = [100], bytes = [128, 256], heap = ["24GiB", "1MiB"] }]'
    )
    (checkout.root / "benchmarks" / "suites" / "mini.toml").write_text(text)
    checkout.settings["backend"] = "cuda"
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans,cuda_malloc", "--no-baselines", "--heap-bytes", "2GiB")
    starts = [line.split(" heap=")[0] for line in checkout.log() if line.startswith("start")]
    assert starts[0] == "start alloc_single/sharded_spans skip=0 points=5"
    # A process-wide heap has one size in a process.
    assert starts[1:] == [f"start alloc_single/cuda_malloc skip=0 points={n}" for n in (1, 2, 2)]
    heaps = [
        line.split(",")[6] for line in checkout.gpu_table.read_text().splitlines() if "sharded_spans,cuda,100" in line and "malloc_us" in line
    ]
    assert heaps == ["heap=2147483648", "heap=24GiB", "heap=1MiB", "heap=24GiB", "heap=1MiB"]


def test_the_commit_of_a_copy_without_git_is_named_by_the_environment(checkout: Checkout) -> None:
    checkout.environment = {"GPUHEAP_COMMIT": "0123abcd"}
    checkout.gpuheap("bench", "churn", "-a", "sharded_spans")
    assert '"commit": "0123abcd"' in (checkout.table.parent / "environment.json").read_text()


def test_the_heap_suite_bounds_every_case_of_it() -> None:
    suite = load_suite(REPOSITORY / "benchmarks" / "suites" / "heap.toml")
    assert suite.bounds_of == ("sharded_spans",)
    for backends in suite.cases.values():
        case = backends["cuda"]
        points = case.points(DEFAULT_SEED)
        assert case.bounds, case.name
        assert not backends["simulator"].bounds
        assert {bound.metric for bound in case.bounds} <= set(case.metrics)
        # Every point is held to something.
        assert [point.argument for point in points if not any(bound.covers(point.fields) for bound in case.bounds)] in ([], ["which=pair"])
