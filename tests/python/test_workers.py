"""Several GPUs of a machine, several suites, and how long it all goes on: the tables are those of one worker."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fake_checkout import SUITE, Checkout
from synthetic import CASES, write_evaluation

from gpuheap.catalogue import ALLOCATORS, BASELINES
from gpuheap.errors import UserError
from gpuheap.formats.protocol import Measurement, PointResult
from gpuheap.formats.results import read_table
from gpuheap.formats.suites import load_suites
from gpuheap.paths import Layout
from gpuheap.running.bench import Policy, carry_out
from gpuheap.running.estimate import Estimate
from gpuheap.running.executable import choose
from gpuheap.running.plan import Request, make_plan
from gpuheap.running.runner import PointBegan, PointEnded, SweepEvent
from gpuheap.running.workers import Dispatcher, LocalWorker, WorkerLost, local_workers


def on_gpus(checkout: Checkout) -> Checkout:
    checkout.settings["backend"] = "cuda"
    return checkout


def test_gpus_share_the_work_and_the_tables_are_those_of_one(
    checkout: Checkout,
) -> None:
    on_gpus(checkout).fail(**{"cuda_malloc/256": "crash"})
    assert checkout.gpuheap("bench", "mini", "--output", "one").returncode == 0
    checkout.log()
    ran = checkout.gpuheap("bench", "mini", "--output", "two", "--gpus", "0,2")
    assert ran.returncode == 0, ran.stderr
    assert "by 2 workers" in ran.stdout
    used = {line.split()[1] for line in checkout.log() if line.startswith("gpu ")}
    assert used == {"0", "2"}
    assert (checkout.root / "one" / "mini.csv").read_bytes() == (checkout.root / "two" / "mini.csv").read_bytes()
    facts = [json.loads((checkout.root / name / "environment.json").read_text()) for name in ("one", "two")]
    assert facts[0]["sweeps"] == facts[1]["sweeps"]


def test_one_gpu_is_used_unless_more_are_asked_for(checkout: Checkout) -> None:
    on_gpus(checkout).gpuheap("bench", "mini/churn")
    assert not any(line.startswith("gpu ") for line in checkout.log())


def test_an_interruption_ends_all_processes_and_keeps_what_is_finished(
    checkout: Checkout,
) -> None:
    on_gpus(checkout).fail(**{f"{name}/64": "hang" for name in ("sharded_spans", "atomic_malloc")})
    process = checkout.start(
        "bench",
        "alloc_single",
        "-a",
        "sharded_spans,atomic_malloc",
        "--no-baselines",
        "--gpus",
        "0,1",
    )
    deadline = time.monotonic() + 30
    while not (checkout.gpu_table.exists() and checkout.gpu_table.read_text().count("\n") == 1 + 2 * 2 * 2):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, "")
    assert "stopped: 4 of 10 points are kept" in out
    checkout.settings.pop("faults")
    checkout.log()
    assert checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans,atomic_malloc", "--no-baselines").returncode == 0
    assert len(checkout.points_run()) == 6


@pytest.mark.parametrize(
    ("gpus", "complaint"),
    [
        ("some", "--gpus: 'some' is neither all, a number of GPUs, nor their indices"),
        ("0,0", "--gpus: '0,0' has a GPU twice"),
        ("0", "--gpus: '0' is neither"),
        ("64", "--gpus: 64 GPUs were asked for, and nvidia-smi lists"),
    ],
)
def test_a_mistake_in_gpus_is_named(checkout: Checkout, error_line: Any, gpus: str, complaint: str) -> None:
    assert complaint in error_line(on_gpus(checkout).gpuheap("bench", "mini", "--gpus", gpus))


def test_gpus_are_no_matter_of_the_simulator(checkout: Checkout, error_line: Any) -> None:
    assert "--gpus needs the backend cuda, and this is simulator" in error_line(checkout.gpuheap("bench", "mini", "--gpus", "all"))


def test_all_gpus_are_those_of_one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuheap.running.workers.gpu_names", lambda: ["NVIDIA H200", "NVIDIA T4", "NVIDIA H200"])
    executable: Any = SimpleNamespace(
        backend="cuda",
        description=SimpleNamespace(device=SimpleNamespace(name="NVIDIA H200")),
    )
    assert local_workers("all", executable) == [LocalWorker("0"), LocalWorker("2")]
    assert local_workers("2", executable) == [LocalWorker("0"), LocalWorker("2")]
    assert local_workers("1,", executable) == [LocalWorker("1")]
    assert local_workers(None, executable) == [LocalWorker()]
    with pytest.raises(UserError, match="3 GPUs were asked for, and nvidia-smi lists 2 of the kind NVIDIA H200"):
        local_workers("3", executable)


def add_suite(checkout: Checkout, name: str) -> None:
    (checkout.root / "benchmarks" / "suites" / f"{name}.toml").write_text(SUITE.replace('name = "mini"', f'name = "{name}"'))


def test_all_is_every_suite_but_quick_and_goes_on_across_suites(
    checkout: Checkout,
) -> None:
    for name in ("quick", "other"):
        add_suite(checkout, name)
    checkout.fail(**{"atomic_wrap_malloc/256": "hang"})
    process = checkout.start("bench", "all", "-a", "sharded_spans,atomic_wrap_malloc", "--no-baselines")
    folder = checkout.table.parent
    deadline = time.monotonic() + 60
    # The first suite hangs at its tenth point, in its first case.
    while not (folder / "mini.csv").exists() or (folder / "mini.csv").read_text().count("\n") < 1 + 2 * 9:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    assert len(checkout.points_run()) == 10
    checkout.settings.clear()
    ran = checkout.gpuheap("bench", "all", "-a", "sharded_spans,atomic_wrap_malloc", "--no-baselines")
    assert ran.returncode == 0, ran.stderr
    assert "9 kept from an earlier run" in ran.stdout
    assert len(checkout.points_run()) == 2 * 16 - 9
    assert {path.name for path in folder.glob("*.csv")} == {"mini.csv", "other.csv"}
    assert all(row.ok for name in ("mini", "other") for row in read_table(folder / f"{name}.csv"))
    again = checkout.gpuheap("bench", "mini", "other", "-a", "sharded_spans,atomic_wrap_malloc", "--no-baselines")
    assert "0 points measured, 32 kept" in again.stdout


def test_without_a_terminal_lines_tell_how_far_it_is(checkout: Checkout) -> None:
    checkout.settings["delay_s"] = 0.3
    out = checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans,atomic_malloc,atomic_wrap_malloc", "--no-baselines").stdout
    lines = re.findall(r"\[(\d+)/15, about ([\d.]+) s left\]", out)
    assert [int(done) for done, _ in lines] == [5, 10]
    assert 2 < float(lines[0][1]) < 12 and 1 < float(lines[1][1]) < 6


def test_the_time_left_is_that_of_like_points() -> None:
    now = 0.0
    sweeps: list[Any] = [
        SimpleNamespace(
            suite=SimpleNamespace(name="s"),
            case=SimpleNamespace(name=case),
            allocator=name,
            points=range(count),
        )
        for case, name, count in (
            ("slow", "a", 4),
            ("slow", "b", 10),
            ("fast", "a", 100),
        )
    ]
    estimate = Estimate(sweeps, workers=2, clock=lambda: now)
    assert estimate.seconds_left is None
    estimate.begins(sweeps[0], kept=1)
    for _ in range(2):
        now += 6
        estimate.point_ends(sweeps[0])
    # One more of its kind, ten of its case, a hundred of which nothing is known yet: two at a time.
    assert estimate.seconds_left == pytest.approx((1 + 10 + 100) * 6 / 2)
    estimate.begins(sweeps[2], kept=0)
    now += 1
    estimate.point_ends(sweeps[2])
    assert estimate.seconds_left == pytest.approx((11 * 6 + 99 * 1) / 2)
    estimate.untried(sweeps[2], 99)
    assert estimate.seconds_left == pytest.approx(33)


class Breaks:
    """A worker that is lost after its first event."""

    name = "broken"

    def run(self, executable: Any, sweep: Any, stop: threading.Event) -> Iterator[SweepEvent]:
        yield PointEnded(0, PointResult("wrong"))
        raise WorkerLost("worker broken is gone")


class Works:
    name = "sound"

    def run(self, executable: Any, sweep: Any, stop: threading.Event) -> Iterator[SweepEvent]:
        for index in range(*sweep):
            yield PointEnded(index, PointResult("wrong"))


def dispatched(workers: list[Any]) -> tuple[dict[int, list[int]], list[int], list[str]]:
    done: dict[int, list[int]] = {0: [], 1: []}
    ended: list[int] = []
    lost: list[str] = []
    dispatcher = Dispatcher(
        workers,
        begin=lambda index: (None, (len(done[index]), 3)),  # type: ignore[arg-type,return-value]
        event=lambda index, event, _: done[index].append(event.index),  # type: ignore[union-attr]
        end=ended.append,
        lost=lost.append,
    )
    dispatcher.run(2)
    return done, ended, lost


def test_what_a_lost_worker_had_goes_on_elsewhere() -> None:
    done, ended, lost = dispatched([Breaks(), Works()])
    assert done == {0: [0, 1, 2], 1: [0, 1, 2]}
    assert sorted(ended) == [0, 1]
    assert lost == ["worker broken is gone"]


def test_without_workers_the_run_ends_with_words() -> None:
    with pytest.raises(UserError, match="no worker is left: finished points are kept"):
        dispatched([Breaks(), Breaks()])


class AtOnce:
    """Answers without a process."""

    name = ""

    def run(self, executable: Any, sweep: Any, stop: threading.Event) -> Iterator[SweepEvent]:
        for index in range(len(sweep.points)):
            yield PointBegan(index)
            yield PointEnded(
                index,
                PointResult(
                    "ok",
                    "",
                    (Measurement("malloc_us", "us", (1.0, 2.0, 3.0, 4.0, 5.0)),),
                ),
            )


class Silent:
    """Hears everything and says nothing."""

    def __getattr__(self, _: str) -> Any:
        return lambda *_: None


def test_a_run_of_six_cases_costs_the_runner_a_few_reads_of_a_table_of_twenty_thousand_rows(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files beside the processes: rows of an earlier run are taken out, new ones written and found again."""
    checkout.settings["backend"] = "cuda"
    for name, value in checkout.variables().items():
        monkeypatch.setenv(name, value)
    assert write_evaluation(checkout.root) >= 20_000
    layout = Layout(checkout.root)
    executable = choose(layout)
    suites = load_suites(layout)
    allocators = ("sharded_spans", "atomic_malloc")
    request = Request(
        targets=("whole/alloc_single", "whole/alloc_mixed", "whole/alloc_warp"),
        allocators=allocators,
    )
    plan = make_plan(request, suites, executable)
    assert len(plan.sweeps) == 6
    known = {case: dict.fromkeys((*ALLOCATORS, *BASELINES), executable.identity()) for case in CASES}
    facts = {"gpu": {"name": "NVIDIA H200"}, "builds": {executable.identity(): {}}, "sweeps": {"whole": known}}
    (checkout.gpu_table.parent / "environment.json").write_text(json.dumps(facts))
    before = time.process_time()
    read_table(checkout.gpu_table.with_name("whole.csv"))
    reading = time.process_time() - before
    before = time.process_time()
    outcome = carry_out(
        plan,
        request,
        Policy(fresh=True),
        executable,
        layout,
        checkout.gpu_table.parent,
        Silent(),
        [AtOnce()],
    )  # type: ignore[arg-type]
    seconds = time.process_time() - before
    assert outcome.measured == plan.num_points
    assert seconds < 4 * reading  # about half a second each on a slow core; a read for each case makes it 7 and more
