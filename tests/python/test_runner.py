"""One sweep against an executable that misbehaves in every way that the runner has to survive."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from fake_checkout import Checkout

from gpuheap.errors import UserError
from gpuheap.formats.points import make_point
from gpuheap.formats.protocol import PointResult
from gpuheap.running.children import Child, Processes, Stopped
from gpuheap.running.runner import PointBegan, PointEnded, Sweep, SweepCutShort, run_sweep

SIZES = (16, 32, 64, 128, 256)
POINTS = tuple(make_point({"threads": 100, "bytes": size, "state": "warm"}) for size in SIZES)


@pytest.fixture
def bench(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    monkeypatch.setenv("FAKE_BENCH_LOG", str(checkout.log_file))
    return checkout


def run(bench: Checkout, monkeypatch: pytest.MonkeyPatch, faults: dict[int, str], timeout_s: float = 20, **more: object) -> list[object]:
    bench.fail(**{f"sharded_spans/{size}": fault for size, fault in faults.items()})
    monkeypatch.setenv("FAKE_BENCH", json.dumps(bench.settings))
    sweep = Sweep("alloc_single", "sharded_spans", POINTS, 1 << 24, 3, timeout_s, 1, **more)  # type: ignore[arg-type]
    return list(run_sweep(bench.bench, sweep))


def statuses(events: list[object]) -> list[str]:
    return [event.result.status for event in events if isinstance(event, PointEnded)]


def reason(events: list[object], index: int) -> str:
    return next(event.result.reason for event in events if isinstance(event, PointEnded) and event.index == index)


def starts(bench: Checkout) -> list[str]:
    return [line for line in bench.log() if line.startswith("start ")]


def test_a_sweep_without_faults_is_one_process(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    events = run(bench, monkeypatch, {})
    assert statuses(events) == ["ok"] * 5
    assert [event.index for event in events if isinstance(event, PointBegan)] == [0, 1, 2, 3, 4]
    assert len(starts(bench)) == 1


def test_first_runs_are_each_of_a_process_of_their_own(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    events = run(bench, monkeypatch, {64: "crash", 256: "unsupported"}, first_runs=4)
    assert statuses(events) == ["ok", "ok", "crash", "ok", "unsupported"]
    assert [event.index for event in events if isinstance(event, PointBegan)] == [0, 1, 2, 3, 4]
    samples = [[len(m.samples) for m in event.result.measurements] for event in events if isinstance(event, PointEnded)]
    assert samples == [[4, 4], [4, 4], [], [4, 4], []]
    lines = bench.log()
    assert lines.count("first run") == 4 + 4 + 1 + 4 + 1
    assert all("points=1" in line for line in lines if line.startswith("start "))


def test_the_starts_of_first_runs_are_not_in_their_limit(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.settings["start_s"] = 0.4
    assert statuses(run(bench, monkeypatch, {}, timeout_s=1.0, first_runs=4)) == ["ok"] * 5


def test_first_runs_have_one_limit_together(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.settings["delay_s"] = 0.4
    events = run(bench, monkeypatch, {}, timeout_s=1.0, first_runs=20)
    assert statuses(events) == ["timeout"] * 3
    assert reason(events, 0).endswith("of 20 runs, each in a process of its own, within 1 s")


def test_first_runs_end_before_their_limit_with_the_fewest_that_count(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.settings["delay_s"] = 0.15
    events = run(bench, monkeypatch, {}, timeout_s=1.6, first_runs=20)
    assert statuses(events) == ["ok"] * 5
    samples = [len(event.result.measurements[0].samples) for event in events if isinstance(event, PointEnded)]
    assert all(5 <= count < 10 for count in samples), samples


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        ("crash", "crash", "SIGSEGV"),
        ("exit3", "crash", "exit code 3: fake: the device failed"),
        ("half", "crash", "SIGABRT"),
        ("garbage", "crash", "broke the protocol: not JSON"),
        ("unit", "crash", "broke the protocol: malloc_us is in us"),
        ("silent", "crash", "ended without a result"),
        ("early", "crash", "SIGSEGV"),
    ],
)
def test_the_point_that_dies_is_recorded_and_the_next_ones_run(bench: Checkout, monkeypatch: pytest.MonkeyPatch, fault: str, status: str, words: str) -> None:
    events = run(bench, monkeypatch, {64: fault})
    assert statuses(events) == ["ok", "ok", status, "ok", "ok"]
    assert words in reason(events, 2)
    started = starts(bench)
    assert len(started) == 2
    assert "skip=3" in started[1]


def test_a_hanging_point_is_ended_at_its_limit(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    before = time.monotonic()
    events = run(bench, monkeypatch, {32: "hang"}, timeout_s=0.7)
    assert statuses(events) == ["ok", "timeout", "ok", "ok", "ok"]
    assert reason(events, 1) == "no result within 0.7 s"
    assert time.monotonic() - before < 10


@pytest.mark.parametrize("fault", ["wrong", "unsupported"])
def test_what_the_executable_reports_itself_needs_no_restart(bench: Checkout, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    events = run(bench, monkeypatch, {64: fault})
    assert statuses(events) == ["ok", "ok", fault, "ok", "ok"]
    assert reason(events, 2) == f"{fault}; as asked"
    assert len(starts(bench)) == 1


def test_other_output_is_passed_over(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    assert statuses(run(bench, monkeypatch, {64: "noise"})) == ["ok"] * 5


def test_three_failures_in_a_row_end_the_sweep(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    events = run(bench, monkeypatch, {32: "crash", 64: "wrong", 128: "exit3"})
    assert statuses(events) == ["ok", "crash", "wrong", "crash"]
    assert events[-1] == SweepCutShort(1)


def test_failures_in_a_row_end_the_points_of_their_grid_alone(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    """32, 64 and 256 are of a grid that ends, 16 and 128 of another."""
    events = run(bench, monkeypatch, {16: "crash", 32: "crash", 64: "wrong"}, finished={4: PointResult("timeout")}, grids=(1, 0, 0, 1, 0))
    assert statuses(events) == ["crash", "crash", "wrong", "ok"]
    events = run(bench, monkeypatch, {16: "crash", 32: "wrong", 64: "crash"}, grids=(0, 0, 0, 0, 1))
    assert statuses(events) == ["crash", "wrong", "crash", "ok"]
    assert [event for event in events if isinstance(event, SweepCutShort)] == [SweepCutShort(1)]


def test_unsupported_points_end_no_sweep(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    events = run(bench, monkeypatch, {16: "unsupported", 32: "unsupported", 64: "unsupported", 128: "unsupported"})
    assert statuses(events) == ["unsupported"] * 4 + ["ok"]


def test_finished_points_are_not_run_but_count_as_failures_in_a_row(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    ok, crash = PointResult("ok"), PointResult("crash")
    events = run(bench, monkeypatch, {}, finished={0: ok, 3: ok})
    assert [event.index for event in events if isinstance(event, PointEnded)] == [1, 2, 4]
    assert "points=3" in starts(bench)[0]
    events = run(bench, monkeypatch, {64: "crash"}, finished={0: crash, 1: crash})
    assert statuses(events) == ["crash"]
    assert events[-1] == SweepCutShort(2)


def test_a_usage_error_of_the_executable_is_the_users(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="expected 5 entries, found 4"):
        run(bench, monkeypatch, {16: "usage"})


def test_closing_the_iterator_ends_the_process(bench: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.fail(**{"sharded_spans/16": "hang"})
    monkeypatch.setenv("FAKE_BENCH", json.dumps(bench.settings))
    before = time.monotonic()
    with closing(run_sweep(bench.bench, Sweep("alloc_single", "sharded_spans", POINTS, 1 << 24, 3, 60, 1))) as events:
        assert next(events) == PointBegan(0)
    assert time.monotonic() - before < 5


def test_an_executable_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be run"):
        list(run_sweep(tmp_path / "none", Sweep("alloc_single", "sharded_spans", POINTS, 1, 1, 1, 1)))


def served(bench: Checkout, monkeypatch: pytest.MonkeyPatch, processes: Processes, faults: dict[int, str], **more: object) -> list[object]:
    bench.fail(**{f"sharded_spans/{size}": fault for size, fault in faults.items()})
    bench.settings["serves"] = True
    monkeypatch.setenv("FAKE_BENCH", json.dumps(bench.settings))
    given: dict[str, object] = {"timeout_s": 20, **more}
    sweep = Sweep("alloc_single", "sharded_spans", POINTS, 1 << 24, 3, seed=1, **given)  # type: ignore[arg-type]
    return list(run_sweep(bench.bench, sweep, processes=processes))


@pytest.fixture
def processes() -> Iterator[Processes]:
    with closing(Processes()) as those:
        yield those


def test_sweeps_of_an_allocator_share_a_process_that_serves(bench: Checkout, monkeypatch: pytest.MonkeyPatch, processes: Processes) -> None:
    apart = [event.result for event in run(bench, monkeypatch, {}) if isinstance(event, PointEnded)]
    bench.log()
    for _ in range(3):
        assert [event.result for event in served(bench, monkeypatch, processes, {}) if isinstance(event, PointEnded)] == apart
    lines = bench.log()
    assert lines.count("serve") == 1 and len([line for line in lines if line.startswith("start ")]) == 3


@pytest.mark.parametrize("fault", ["crash", "exit3", "half", "garbage", "silent", "early"])
def test_a_process_that_fails_is_followed_by_another(bench: Checkout, monkeypatch: pytest.MonkeyPatch, processes: Processes, fault: str) -> None:
    served(bench, monkeypatch, processes, {})
    events = served(bench, monkeypatch, processes, {64: fault})  # the process has the faults that it began with
    assert statuses(events) == ["ok"] * 5
    processes.close()
    events = served(bench, monkeypatch, processes, {64: fault})
    assert statuses(events) == ["ok", "ok", "crash", "ok", "ok"]
    assert bench.log().count("serve") == 3  # the first, the second until it failed, the third for what was left
    assert statuses(served(bench, monkeypatch, processes, {})) == ["ok", "ok", "crash", "ok", "ok"]
    assert bench.log().count("serve") == 1


def test_a_usage_error_of_a_process_that_serves_is_the_users(bench: Checkout, monkeypatch: pytest.MonkeyPatch, processes: Processes) -> None:
    with pytest.raises(UserError, match="expected 5 entries, found 4"):
        served(bench, monkeypatch, processes, {16: "usage"})


def test_a_heap_of_the_process_is_not_shared(bench: Checkout, monkeypatch: pytest.MonkeyPatch, processes: Processes) -> None:
    for _ in range(2):
        served(bench, monkeypatch, processes, {}, process_wide=True)
    assert bench.log().count("serve") == 2
    assert statuses(served(bench, monkeypatch, processes, {}, process_wide=True, first_runs=3)) == ["ok"] * 5
    lines = bench.log()
    assert lines.count("first run") == 15 and lines.count("serve") == 15


def test_a_process_that_waits_ends_before_another_allocators_begins(bench: Checkout, monkeypatch: pytest.MonkeyPatch, processes: Processes) -> None:
    served(bench, monkeypatch, processes, {})
    child = processes.take(bench.bench, "sharded_spans")
    assert child is not None
    processes.keep(bench.bench, "another", child)
    assert statuses(served(bench, monkeypatch, processes, {})) == ["ok"] * 5
    assert child.process.poll() is not None


def test_a_process_that_waits_ends_before_the_first_runs_begin(bench: Checkout, monkeypatch: pytest.MonkeyPatch, processes: Processes) -> None:
    served(bench, monkeypatch, processes, {})
    child = processes.take(bench.bench, "sharded_spans")
    assert child is not None
    processes.keep(bench.bench, "sharded_spans", child)
    assert statuses(served(bench, monkeypatch, processes, {}, first_runs=1)) == ["ok"] * 5
    assert child.process.poll() is not None


def test_processes_for_first_runs_start_five_at_a_time(bench: Checkout, monkeypatch: pytest.MonkeyPatch, processes: Processes) -> None:
    assert statuses(served(bench, monkeypatch, processes, {}, first_runs=7)) == ["ok"] * 5
    order = [line for line in bench.log() if line in ("serve", "first run")]
    assert order == (["serve"] * 5 + ["first run"] * 5 + ["serve"] * 2 + ["first run"] * 2) * 5


def test_a_process_that_a_failed_point_left_serves_the_next_and_none_outlives_the_sweep(
    bench: Checkout, monkeypatch: pytest.MonkeyPatch, processes: Processes
) -> None:
    children: list[Child] = []

    class Recorded(Child):
        def __init__(self, command: list[str], variables: dict[str, str] | None, serves: bool = False) -> None:
            super().__init__(command, variables, serves)
            children.append(self)

    monkeypatch.setattr("gpuheap.running.children.Child", Recorded)
    events = served(bench, monkeypatch, processes, {32: "crash", 256: "hang"}, timeout_s=2, first_runs=3)
    assert statuses(events) == ["ok", "crash", "ok", "ok", "timeout"]
    assert bench.log().count("serve") == 3 + 3 + 1 + 3 + 3  # the crash leaves two processes for the next point
    assert len(children) == 13 and all(child.process.poll() is not None for child in children)


def test_first_runs_survive_processes_that_do_not_start(bench: Checkout, monkeypatch: pytest.MonkeyPatch, processes: Processes) -> None:
    monkeypatch.setattr("gpuheap.running.runner.START_ALLOWANCE_S", 0.5)
    bench.settings["serve_s"] = 600
    events = served(bench, monkeypatch, processes, {}, timeout_s=0.5, first_runs=2)
    assert statuses(events) == ["timeout"] * 3


def test_a_stop_while_a_process_is_asked_leaves_no_process(bench: Checkout, monkeypatch: pytest.MonkeyPatch, processes: Processes) -> None:
    children: list[Child] = []

    class Stopping(Child):
        def ask(self, words: Sequence[str], deadline: float, stop: threading.Event | None) -> None:
            children.append(self)
            raise Stopped

    monkeypatch.setattr("gpuheap.running.children.Child", Stopping)
    monkeypatch.setattr("gpuheap.running.runner.Child", Stopping)
    for first_runs in (0, 3):
        with pytest.raises(Stopped):
            served(bench, monkeypatch, processes, {}, first_runs=first_runs)
    assert len(children) == 2 and all(child.process.poll() is not None for child in children)
