"""`gpuheap bench --for-claims --minutes`: which points come first, what stops, and what goes on where."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_checkout import Checkout
from handmade import HEAD

from gpuheap.formats.results import read_table
from gpuheap.judging.needs import How, _in_batches, _needed

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]

# `two` lacks four points of two allocators at two sizes, `one` two points of them at one size: that comes first.
CLAIMS = (
    HEAD.replace('suite = "survey"', 'suite = "mini"').replace(
        '"cuda_malloc", "halloc", "scatteralloc", "pages"', '"sharded_spans", "cuda_malloc", "atomic_malloc"'
    )
    + """[[claim]]
name = "two"
says = "sizes do not matter"
at = "section 2"
case = "alloc_single"
metric = "malloc_us"
where = { bytes = [16, 32] }
relation = "better"
left = "cuda_malloc"
right = "atomic_malloc"

[[claim]]
name = "one"
says = "one is faster"
at = "section 1"
case = "alloc_single"
metric = "malloc_us"
where = { bytes = 256 }
relation = "better"
left = "sharded_spans"
right = "cuda_malloc"

[[claim]]
name = "three"
says = "of a binary"
at = "section 3"
published = "it is about a binary"
"""
)


@pytest.fixture
def claimed(checkout: Checkout) -> Checkout:
    checkout.settings |= {"backend": "cuda", "identity": "0123456789abcdef"}
    folder = checkout.root / "benchmarks" / "claims"
    folder.mkdir()
    (folder / "small.toml").write_text(CLAIMS)
    suite = checkout.root / "benchmarks" / "suites" / "mini.toml"
    suite.write_text(suite.read_text().replace("runs = 4", "runs = 5"))
    return checkout


def asked(checkout: Checkout) -> list[tuple[str, str]]:
    return [(point.split("/")[1], point.split("bytes=")[1].split(",")[0]) for point in checkout.points_run()]


def test_claims_that_lack_least_come_first_and_nothing_else_is_measured(claimed: Checkout) -> None:
    ran = claimed.gpuheap("bench", "all", "--for-claims")
    assert ran.returncode == 0, ran.stderr
    assert asked(claimed) == [
        ("sharded_spans", "256"),
        *(("cuda_malloc", size) for size in ("256", "16", "32")),
        *(("atomic_malloc", size) for size in ("16", "32")),
    ]
    assert "6 of them are needed for 2 open claims; the claims that need the least time come first" in ran.stdout
    assert "open: 0 claims" in ran.stdout
    # The table is in the suite's order, whatever came first.
    sizes = [(row.allocator, row.bytes) for row in read_table(claimed.gpu_table) if row.metric == "malloc_us"]
    assert sizes == [("sharded_spans", 256), ("cuda_malloc", 16), ("cuda_malloc", 32), ("cuda_malloc", 256), ("atomic_malloc", 16), ("atomic_malloc", 32)]
    again = claimed.gpuheap("bench", "all", "--for-claims")
    assert asked(claimed) == [] and "helps to decide an open claim" in again.stdout


def test_points_that_timed_out_in_another_build_come_last(claimed: Checkout) -> None:
    assert claimed.gpuheap("bench", "all", "--for-claims").returncode == 0
    # The claim that lacks fewer points needs one that ends at its time limit.
    lines = [line for line in claimed.gpu_table.read_text().splitlines() if ",sharded_spans,cuda,100,256," not in line]
    assert len(lines) > 4
    ended = next(line for line in lines if ",cuda_malloc," in line).split(",")
    lines.append(",".join([*ended[:2], "sharded_spans", "cuda", "100", "256", "state=warm;reason=no result within 5 s", *[""] * 9, "0", "timeout", ""]))
    claimed.gpu_table.write_text("\n".join(lines) + "\n")
    claimed.points_run()
    claimed.settings["identity"] = "fedcba9876543210"
    claimed.build("another build")
    elsewhere = claimed.root / "elsewhere"
    ran = claimed.gpuheap("bench", "all", "--for-claims", "--output", str(elsewhere))
    assert ran.returncode == 0, ran.stderr
    assert asked(claimed)[-1] == ("sharded_spans", "256")


def test_an_allocators_sweeps_are_together_in_batches_that_grow() -> None:
    def sweep(name: str, points: int) -> Any:
        return SimpleNamespace(allocator=name, points=range(points), executable=SimpleNamespace(path=Path("bench")))

    sweeps = [sweep(name, 8) for _ in range(24) for name in ("one", "two", "three")]
    ordered = _in_batches(sweeps)
    assert sorted(map(id, ordered)) == sorted(map(id, sweeps))
    switches = sum(before.allocator != after.allocator for before, after in itertools.pairwise(ordered))
    # 576 points are batches of 64, 128, 256 and 128, each of which but the first begins with the allocator of the last.
    assert switches == 4 * 2
    assert {id(each) for each in ordered[:8]} == {id(each) for each in sweeps[:8]}, "what helps most comes first"
    assert _in_batches([]) == []


def test_minutes_end_it_and_another_machine_goes_on(claimed: Checkout) -> None:
    claimed.settings["delay_s"] = 0.6
    began = time.monotonic()
    ran = claimed.gpuheap("bench", "all", "--for-claims", "--minutes", "0.02")
    assert ran.returncode == 0, ran.stderr
    assert time.monotonic() - began < 15
    assert "the time is up: " in ran.stdout
    kept = {(row.allocator, row.bytes) for row in read_table(claimed.gpu_table)} if claimed.gpu_table.exists() else set()
    assert len(kept) < 6
    assert ("open: 2 claims; 2 of them wait" in ran.stdout) == (len(kept) < 2)
    claimed.points_run()
    # Another machine has built another file of the same sources.
    claimed.build("elsewhere")
    claimed.settings["delay_s"] = 0
    assert claimed.gpuheap("bench", "all", "--for-claims").returncode == 0
    second = {(name, int(size)) for name, size in asked(claimed)}
    assert len(second) == 6 - len(kept) and not second & kept


def test_a_claim_that_noise_leaves_open_gets_more_runs(claimed: Checkout) -> None:
    """The fake executable's times depend on names: two allocators of nearly one time are undecided."""
    assert claimed.gpuheap("bench", "all", "--for-claims").returncode == 0
    noisy = claimed.gpu_table.read_text().splitlines()
    texts = {"sharded_spans": "10,10,1,10,10,8,12,5,ok,8 9 10 11 12", "cuda_malloc": "10,10.1,1,10.1,10.1,8,12,5,ok,8 9 10.1 11 12"}
    for number, line in enumerate(noisy):
        name = line.split(",")[2]
        if ",256," in line and ",malloc_us," in line:
            noisy[number] = ",".join(line.split(",")[:9]) + "," + texts[name]
    claimed.gpu_table.write_text("\n".join(noisy) + "\n")
    claimed.points_run()
    ran = claimed.gpuheap("bench", "all", "--for-claims")
    assert "2 of them are needed for 1 open claims" in ran.stdout, ran.stdout + ran.stderr
    assert asked(claimed) == [("sharded_spans", "256"), ("cuda_malloc", "256")]
    assert {row.runs for row in read_table(claimed.gpu_table) if row.bytes == 256} == {10}


def test_a_time_out_that_leaves_a_claim_open_gets_more_time(claimed: Checkout) -> None:
    suite = claimed.root / "benchmarks" / "claims" / "small.toml"
    suite.write_text(CLAIMS.replace('left = "sharded_spans"\nright = "cuda_malloc"', 'left = "sharded_spans"\nright = "cuda_malloc"\nfactor = "1_000_000.."'))
    claimed.settings["enough"] = 1
    claimed.fail(**{"cuda_malloc/256": "hang"})
    assert claimed.gpuheap("bench", "mini/alloc_single", "-a", "sharded_spans,cuda_malloc,atomic_malloc", "--timeout", "0.5").returncode == 0
    claimed.points_run()
    del claimed.settings["faults"]
    ran = claimed.gpuheap("bench", "all", "--for-claims")
    assert ran.returncode == 0, ran.stderr
    assert asked(claimed) == [("cuda_malloc", "256")]
    assert "open: 0 claims" in ran.stdout


def test_a_claim_of_which_all_points_timed_out_gets_more_time(claimed: Checkout) -> None:
    claimed.settings["enough"] = 1
    claimed.fail(**{"cuda_malloc/256": "hang", "sharded_spans/256": "hang"})
    assert claimed.gpuheap("bench", "mini/alloc_single", "-a", "sharded_spans,cuda_malloc,atomic_malloc", "--timeout", "0.5").returncode == 0
    claimed.points_run()
    del claimed.settings["faults"]
    ran = claimed.gpuheap("bench", "all", "--for-claims")
    assert ran.returncode == 0, ran.stderr
    assert sorted(asked(claimed)) == [("cuda_malloc", "256"), ("sharded_spans", "256")]
    assert "open: 0 claims" in ran.stdout


def test_rows_of_another_build_do_not_count_and_are_refused(claimed: Checkout, error_line: ErrorLine) -> None:
    assert claimed.gpuheap("bench", "all", "--for-claims").returncode == 0
    claimed.settings["identity"] = "fedcba9876543210"
    assert "has rows of another build" in error_line(claimed.gpuheap("bench", "all", "--for-claims"))
    claimed.points_run()
    assert claimed.gpuheap("bench", "all", "--for-claims", "--anew").returncode == 0
    assert len(asked(claimed)) == 6


def test_the_simulator_judges_no_claim(claimed: Checkout, error_line: ErrorLine) -> None:
    claimed.settings["backend"] = "simulator"
    assert error_line(claimed.gpuheap("bench", "all", "--for-claims")) == (
        "--for-claims needs a GPU: times of the simulator decide no claim"
    )


def test_minutes_alone_stop_any_run(checkout: Checkout) -> None:
    checkout.fail(**{"sharded_spans/32": "hang"})
    ran = checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans", "--minutes", "0.03")
    assert ran.returncode == 0, ran.stderr
    assert "the time is up: 1 of 10 points are kept" in ran.stdout
    assert [row.status for row in read_table(checkout.table)] == ["ok", "ok"], "what was running left a row"
    del checkout.settings["faults"]
    assert checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans").returncode == 0


def test_where_minutes_may_end_a_run_baselines_come_last(checkout: Checkout) -> None:
    def order(*more: str) -> list[str]:
        """Whether each started process measures the baseline."""
        checkout.log_file.unlink(missing_ok=True)
        assert checkout.gpuheap("bench", "mini", "--fresh", *more).returncode == 0
        return ["baseline" if "store_only" in line else "allocator" for line in checkout.log() if line.startswith("start ")]

    limited, unlimited = order("--minutes", "5"), order()
    assert sorted(limited) == sorted(unlimited) and "baseline" in limited
    assert limited == sorted(limited), "all allocators first"
    assert unlimited != sorted(unlimited), "case by case"


def test_minutes_of_nothing_are_refused(checkout: Checkout, error_line: ErrorLine, tmp_path: Path) -> None:
    assert "--minutes" in error_line(checkout.gpuheap("bench", "mini", "--minutes", "0"))


def point_of(reason: str, verdict: str = "undecided", about_endings: bool = False) -> Any:
    """How a point that ran out of time for this reason is measured again."""
    case = SimpleNamespace(runs=20, timeout_s=3.0, enough_s=0.5)
    row = SimpleNamespace(status="timeout", reason=reason, runs=0, values=())
    return _needed(SimpleNamespace(case=case), [row], verdict, about_endings)  # type: ignore[arg-type,list-item]


def test_a_point_that_says_how_long_it_takes_gets_that_time() -> None:
    assert point_of("no result within 3 s") == How(20, 12.0, "ended")
    assert point_of("would take about 6 s, longer than the 3 s that a point has") == How(20, 12.0, "ended")
    assert point_of("would take about 12 s, longer than the 3 s that a point has") == How(20, 18.0, "ended")
    # A run that warms up comes before the run that counts.
    assert point_of("one run of 100 batches would take about 120 s, longer than the 3 s that a point has") == How(20, 360.0, "far")
    assert point_of("2 of 5 runs, each in a process of its own, within 3 s") == How(20, 12.0, "ended")
    assert point_of("1 % of the heap were in blocks after 2 s: it would take about 794 s, longer than the 3 s that a point has") is None


def test_for_a_claim_on_endings_a_limit_that_counts_is_enough() -> None:
    long = "one run of 100 batches would take about 120 s, longer than the 3 s that a point has"
    assert point_of(long, "not measured", about_endings=True) == How(20, 10.0, "ended")
    assert point_of(long.replace("the 3 s", "the 12 s"), "undecided", about_endings=True) is None
