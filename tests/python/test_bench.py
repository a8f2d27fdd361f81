"""`gpuheap bench`: what lands in the tables, also after crashes, interruptions and new builds."""

from __future__ import annotations

import csv
import json
import os
import signal
import time
from pathlib import Path

import pytest
from fake_checkout import Checkout

from gpuheap.formats.results import COLUMNS, read_table

POINTS_OF_MINI = 5 * 5 + 4 + 2 * 4  # alloc_single with store_only, churn, graph_update; four allocators


def statuses(path: Path, allocator: str = "sharded_spans") -> list[str]:
    rows = [row for row in read_table(path) if row.allocator == allocator and row.case == "alloc_single"]
    return list({row.key: row.status for row in rows}.values())


def test_a_suite_fills_a_table_in_the_format_of_the_design(checkout: Checkout) -> None:
    ran = checkout.gpuheap("bench", "mini")
    assert ran.returncode == 0, ran.stderr
    assert f"{POINTS_OF_MINI} points measured" in ran.stdout
    rows = list(csv.DictReader(checkout.table.open()))
    assert tuple(rows[0]) == (*COLUMNS, "values")
    first = rows[0]
    assert (first["suite"], first["case"], first["allocator"], first["backend"]) == ("mini", "alloc_single", "sharded_spans", "simulator")
    assert (first["threads"], first["bytes"], first["parameter"], first["metric"], first["unit"]) == (
        "100",
        "16",
        "state=warm",
        "malloc_us",
        "us",
    )
    assert (first["runs"], first["status"]) == ("4", "ok")
    assert not (checkout.root / "results").exists(), "a simulated run wrote into the GPU tables"


def test_simulated_results_are_labelled_and_show_no_times(checkout: Checkout) -> None:
    out = checkout.gpuheap("bench", "mini").stdout
    assert "simulated on the CPU" in out
    assert "µs" not in out


def test_unsupported_allocators_stay_in_the_table_with_the_reason(checkout: Checkout) -> None:
    checkout.gpuheap("bench", "mini/churn")
    (row,) = [row for row in read_table(checkout.table) if row.allocator == "cuda_malloc"]
    assert (row.status, row.reason) == ("unsupported", "this machine has no built-in device heap")
    assert not any("churn/cuda_malloc" in line for line in checkout.log()), "a process was started for it"


def test_gpu_results_go_to_the_gpus_folder_with_its_environment(checkout: Checkout) -> None:
    checkout.settings["backend"] = "cuda"
    ran = checkout.gpuheap("bench", "mini", "--allocators", "sharded_spans")
    assert ran.returncode == 0, ran.stderr
    assert {row.allocator for row in read_table(checkout.gpu_table)} == {"sharded_spans", "store_only"}
    facts = json.loads((checkout.gpu_table.parent / "environment.json").read_text())
    assert (facts["gpu"]["name"], facts["driver_cuda"], facts["flags"]) == ("NVIDIA H200", "13.0", "-O3")
    assert {"driver", "toolkit", "commit"} <= set(facts)
    assert "µs" in ran.stdout


def test_baselines_can_be_left_out(checkout: Checkout) -> None:
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans,atomic_malloc", "--no-baselines")
    assert {row.allocator for row in read_table(checkout.table)} == {"sharded_spans", "atomic_malloc"}


def test_the_settings_of_the_command_line_reach_the_executable_and_the_rows(checkout: Checkout) -> None:
    checkout.gpuheap("bench", "mini/churn", "-a", "sharded_spans", "--heap-bytes", "8MiB", "--seed", "9", "--runs", "2")
    assert checkout.log()[0] == f"start churn/sharded_spans skip=0 points=1 heap={8 << 20} seed=9 graph=None"
    row = read_table(checkout.table)[0]
    assert (row.parameter, row.runs) == (f"heap={8 << 20};rounds=4;seed=9", 2)


def test_a_point_that_was_slow_enough_for_fewer_runs_is_finished(checkout: Checkout) -> None:
    suite = checkout.root / "benchmarks" / "suites" / "mini.toml"
    suite.write_text(suite.read_text().replace("runs = 4", "runs = 100\nenough_s = 0.5", 1))
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans", "--no-baselines", "--runs", "5")
    assert checkout.log()[1] == "limits timeout=20 enough=0.5"
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans", "--no-baselines")  # 100 of them; 5 are enough
    assert checkout.points_run() == []


def test_full_is_what_the_suite_has_for_it(checkout: Checkout) -> None:
    suite = checkout.root / "benchmarks" / "suites" / "mini.toml"
    widened = 'heap_bytes = "16MiB"\nfull = { threads = [100], bytes = { from = 4, to = 40, step = 4 } }'
    suite.write_text(suite.read_text().replace('heap_bytes = "16MiB"', widened))
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans", "--no-baselines", "--full")
    assert len(checkout.points_run()) == 10
    ran = checkout.gpuheap("bench", "alloc_single", "--full", "--quick")
    assert ran.returncode == 2
    assert "choose one of them" in ran.stderr


def test_a_suite_may_name_allocators_that_were_left_out_of_the_build_where_others_are_asked_for(checkout: Checkout) -> None:
    suite = checkout.root / "benchmarks" / "suites" / "mini.toml"
    suite.write_text(suite.read_text().replace('name = "mini"\n', 'name = "mini"\nallocators = ["sharded_spans", "kma"]\n', 1))
    ran = checkout.gpuheap("bench", "alloc_single")
    assert ran.returncode == 2
    assert "was built without kma: build it with all allocators" in ran.stderr
    assert checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans", "--no-baselines").returncode == 0
    assert checkout.points_run()


def test_an_allocator_that_the_build_lacks_is_told_with_what_builds_it(checkout: Checkout) -> None:
    ran = checkout.gpuheap("bench", "alloc_single", "-a", "kma")
    assert ran.returncode == 2
    assert "was built without kma: build it with all allocators, by `cmake --preset host -DGPUHEAP_BENCH_ONLY= && " in ran.stderr
    assert "unknown allocator 'kmaa'" in checkout.gpuheap("bench", "alloc_single", "-a", "kmaa").stderr


def test_a_graph_of_the_user_takes_the_place_of_the_generated_one(checkout: Checkout) -> None:
    graph = checkout.root / "web.mtx"
    graph.write_text("%%MatrixMarket\n")
    checkout.gpuheap("bench", "graph_update", "-a", "sharded_spans", "--graph", "web.mtx")
    log = checkout.log()
    assert log[0].endswith(f"graph={graph}")
    assert log[1] == "point graph_update/sharded_spans/threads=100,phase=init"
    assert {row.parameter for row in read_table(checkout.table)} == {"graph=web.mtx;phase=init", "graph=web.mtx;phase=update"}


def test_crashes_and_timeouts_are_rows_of_their_own(checkout: Checkout) -> None:
    checkout.fail(**{"sharded_spans/32": "crash", "sharded_spans/128": "hang"})
    ran = checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans", "--timeout", "1")
    assert ran.returncode == 0
    assert statuses(checkout.table) == ["ok", "crash", "ok", "timeout", "ok"]
    assert "crash    alloc_single sharded_spans 100 threads, 32 B, state=warm: SIGSEGV" in ran.stdout
    assert "no result within 1 s" in ran.stdout


def test_strict_turns_failures_into_an_exit_code(checkout: Checkout) -> None:
    checkout.fail(**{"sharded_spans/32": "wrong"})
    assert checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans", "--strict").returncode == 1
    assert checkout.gpuheap("bench", "churn", "--strict").returncode == 0


def test_three_failures_in_a_row_end_a_sweep_and_stay_the_end(checkout: Checkout) -> None:
    checkout.fail(**{"sharded_spans/16": "crash", "sharded_spans/32": "crash", "sharded_spans/64": "crash"})
    ran = checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans")
    assert statuses(checkout.table) == ["crash"] * 3
    assert statuses(checkout.table, "store_only") == ["ok"] * 5
    assert "2 not tried after three failures in a row" in ran.stdout
    checkout.log()
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans")
    assert checkout.log() == []


def test_finished_rows_are_kept_and_skipped(checkout: Checkout) -> None:
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans")
    before = checkout.table.read_bytes()
    checkout.log()
    ran = checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans")
    assert checkout.log() == []
    assert checkout.table.read_bytes() == before
    assert "0 points measured, 10 kept from an earlier run" in ran.stdout


def test_a_missing_point_is_measured_and_takes_its_place(checkout: Checkout) -> None:
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans")
    before = checkout.table.read_text()
    checkout.log()
    checkout.table.write_text("".join(line for line in before.splitlines(keepends=True) if ",sharded_spans,simulator,100,64," not in line))
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans")
    assert checkout.points_run() == ["alloc_single/sharded_spans/threads=100,bytes=64,state=warm"]
    assert checkout.table.read_text() == before


def test_more_runs_than_before_are_measured_again(checkout: Checkout) -> None:
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans", "--quick")
    assert {row.runs for row in read_table(checkout.table)} == {3}
    checkout.log()
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans")
    assert len(checkout.points_run()) == 10
    assert {row.runs for row in read_table(checkout.table)} == {4}
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans", "--quick")
    assert checkout.points_run() == []


def test_fresh_measures_everything_named_again_and_nothing_else(checkout: Checkout) -> None:
    checkout.gpuheap("bench", "mini")
    checkout.log()
    checkout.gpuheap("bench", "mini/churn", "-a", "sharded_spans", "--fresh")
    assert checkout.points_run() == ["churn/sharded_spans/threads=100,bytes=1024,rounds=4"]
    assert len({row.key for row in read_table(checkout.table)}) == POINTS_OF_MINI


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_fresh_that_was_stopped_goes_on_where_it_stopped(checkout: Checkout, number: signal.Signals) -> None:
    command = ("bench", "mini/alloc_single", "mini/churn", "-a", "sharded_spans", "--fresh")
    assert checkout.gpuheap(*command).returncode == 0
    before = read_table(checkout.table)
    checkout.log()
    checkout.settings["delay_s"] = 1.5  # not forever: of a process that is killed, what it started ends with the next point
    process = checkout.start(*command)
    deadline = time.monotonic() + 30
    while not (checkout.log_file.exists() and "bytes=64" in checkout.log_file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.5)  # for the point before to be read
    os.kill(process.pid, number)
    process.communicate(timeout=20)
    assert len([line for line in checkout.log() if line.startswith("point ")]) == 3
    # The sweep under way has its new rows, the one after it the old ones.
    left = {(row.case, row.bytes) for row in read_table(checkout.table) if row.allocator == "sharded_spans"}
    assert left == {("alloc_single", 16), ("alloc_single", 32), ("churn", 1024)}
    # Another command with --fresh is not that one, and forgets nothing of it.
    checkout.settings.clear()
    checkout.gpuheap("bench", "graph_update", "-a", "atomic_malloc", "--fresh")
    checkout.log()
    ran = checkout.gpuheap(*command)
    assert ran.returncode == 0, ran.stderr
    assert "note: an earlier run with --fresh was stopped: this run continues it, and keeps the points measured since 20" in ran.stdout
    assert "2 kept since the run with --fresh began, 20" in ran.stdout
    own = [point for point in checkout.points_run() if "/sharded_spans/" in point]
    single = [f"alloc_single/sharded_spans/threads=100,bytes={size},state=warm" for size in (64, 128, 256)]
    assert own == [*single, "churn/sharded_spans/threads=100,bytes=1024,rounds=4"]
    assert [row.line for row in read_table(checkout.table) if row.case != "graph_update"] == [row.line for row in before]
    # It is finished: the next one measures everything.
    assert "again" not in json.loads((checkout.table.parent / "environment.json").read_text())
    ran = checkout.gpuheap(*command)
    assert "note:" not in ran.stdout and "kept" not in ran.stdout
    assert len([point for point in checkout.points_run() if "/sharded_spans/" in point]) == 6


def test_retry_measures_failed_points_again(checkout: Checkout) -> None:
    checkout.fail(**{"sharded_spans/32": "crash"})
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans")
    checkout.log()
    checkout.settings.clear()
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans")
    assert checkout.points_run() == []
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans", "--retry")
    assert checkout.points_run() == ["alloc_single/sharded_spans/threads=100,bytes=32,state=warm"]
    assert statuses(checkout.table) == ["ok"] * 5


def test_a_table_is_of_one_build(checkout: Checkout, error_line) -> None:
    checkout.gpuheap("bench", "mini")
    checkout.log()
    before = {path.name: path.read_bytes() for path in checkout.table.parent.iterdir()}
    checkout.build("another build")
    line = error_line(checkout.gpuheap("bench", "mini/churn"))
    assert line.startswith("build/results/simulator/mini.csv has rows of another build (")
    assert line.endswith("and a table has rows of one: --anew drops them and begins the table anew, --output DIR leaves the table as it is")
    assert {path.name: path.read_bytes() for path in checkout.table.parent.iterdir()} == before
    assert checkout.points_run() == []
    assert checkout.gpuheap("bench", "mini/churn", "--output", "elsewhere").returncode == 0
    checkout.log()
    assert checkout.gpuheap("bench", "mini/churn", "--anew").returncode == 0
    assert len(checkout.points_run()) == 3
    assert {row.case for row in read_table(checkout.table)} == {"churn"}
    facts = json.loads((checkout.table.parent / "environment.json").read_text())
    assert list(facts["sweeps"]["mini"]) == ["churn"] and len(facts["builds"]) == 1
    # Of the same build nothing is begun anew.
    assert checkout.gpuheap("bench", "mini", "--anew").returncode == 0
    assert not [point for point in checkout.points_run() if point.startswith("churn")]


def test_builds_of_equal_sources_flags_and_toolkit_are_one(checkout: Checkout) -> None:
    """Another machine builds another file of the same code: its run goes on where the first one stopped."""
    checkout.settings["identity"] = "0123456789abcdef"
    assert checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans").returncode == 0
    checkout.log()
    checkout.build("built elsewhere")
    assert checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans,atomic_malloc").returncode == 0
    assert [point.split("/")[1] for point in checkout.points_run()] == ["atomic_malloc"] * 5
    assert list(json.loads((checkout.table.parent / "environment.json").read_text())["builds"]) == ["0123456789abcdef"]


def test_results_of_two_machines_do_not_mix(checkout: Checkout, error_line) -> None:
    checkout.gpuheap("bench", "churn", "--output", "here")
    checkout.settings["backend"] = "cuda"
    assert "here holds results of the simulator, this is NVIDIA H200" in error_line(checkout.gpuheap("bench", "churn", "--output", "here"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_keeps_finished_rows_and_the_next_run_goes_on(checkout: Checkout, number: signal.Signals) -> None:
    checkout.fail(**{"sharded_spans/64": "hang"})
    process = checkout.start("bench", "alloc_single", "-a", "sharded_spans")
    deadline = time.monotonic() + 30
    while not (checkout.table.exists() and checkout.table.read_text().count("\n") == 1 + 2 * 2):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, number)
    out, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert errors == ""
    assert "stopped: 2 of 10 points are kept" in out
    assert statuses(checkout.table) == ["ok", "ok"]
    checkout.log()
    checkout.settings.clear()
    assert checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans").returncode == 0
    assert len(checkout.points_run()) == 8
    assert statuses(checkout.table) == ["ok"] * 5


def test_two_writers_of_one_folder_are_refused(checkout: Checkout, error_line) -> None:
    checkout.fail(**{"sharded_spans/16": "hang"})
    process = checkout.start("bench", "alloc_single", "-a", "sharded_spans")
    while not checkout.log_file.exists():
        time.sleep(0.02)
    try:
        assert "another gpuheap bench is writing" in error_line(checkout.gpuheap("bench", "churn"))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_a_table_keeps_every_run(checkout: Checkout) -> None:
    checkout.gpuheap("bench", "churn", "-a", "sharded_spans,atomic_malloc")
    rows = read_table(checkout.table)
    assert [(row.allocator, row.metric, len(row.values)) for row in rows] == [
        (name, metric, 4) for name in ("sharded_spans", "atomic_malloc") for metric in ("kernel_us", "failed_requests")
    ]
    assert all(row.statistics is not None and min(row.values) == row.statistics.min for row in rows)


def test_a_table_of_an_earlier_version_gets_the_column_of_values(checkout: Checkout) -> None:
    checkout.gpuheap("bench", "churn", "-a", "sharded_spans")
    lines = [line.rpartition(",")[0] for line in checkout.table.read_text().splitlines()]
    checkout.table.write_text("\n".join(lines) + "\n")
    assert [row.values for row in read_table(checkout.table)] == [(), ()]
    assert checkout.gpuheap("bench", "churn", "-a", "sharded_spans,atomic_malloc").returncode == 0
    assert checkout.table.read_text().startswith(",".join([*COLUMNS, "values"]) + "\n")
    assert [(row.allocator, len(row.values)) for row in read_table(checkout.table)] == [("sharded_spans", 0)] * 2 + [("atomic_malloc", 4)] * 2


def test_a_heap_of_the_process_is_measured_cold_in_processes_of_one_run(checkout: Checkout) -> None:
    checkout.settings["backend"] = "cuda"
    suite = checkout.root / "benchmarks" / "suites" / "mini.toml"
    suite.write_text(suite.read_text().replace('state = ["warm"]', 'state = ["cold", "warm"]'))
    assert checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans,cuda_malloc", "--no-baselines").returncode == 0
    lines = checkout.log()
    starts = [line for line in lines if line.startswith("start ")]
    # gpuheap makes its heap anew in one process; of cuda each of four runs at five cold points has one, and the warm points one together.
    assert len([line for line in starts if "/sharded_spans " in line]) == 1
    assert len([line for line in starts if "/cuda_malloc " in line]) == 4 * 5 + 1 and lines.count("first run") == 4 * 5
    rows = [row for row in read_table(checkout.gpu_table) if row.allocator == "cuda_malloc"]
    assert {(row.parameter, row.runs) for row in rows} == {("state=cold", 4), ("state=warm", 4)}


def test_a_heap_that_does_not_fit_is_made_smaller_and_labelled(checkout: Checkout) -> None:
    checkout.settings["device"] = {"name": "small", "total_bytes": 12 << 20, "free_bytes": 12 << 20, "num_sms": 4}
    ran = checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans", "--no-baselines")
    assert "alloc_single: a heap of 9 MiB in place of 16 MiB" in ran.stdout
    assert read_table(checkout.table)[0].parameters["heap"] == str(9 << 20)


def test_a_damaged_table_is_refused_before_anything_runs(checkout: Checkout, error_line) -> None:
    checkout.gpuheap("bench", "churn", "-a", "sharded_spans")
    checkout.log()
    checkout.table.write_text(checkout.table.read_text()[:-20])
    assert f"{checkout.table}:3: the line ends in the middle" in error_line(checkout.gpuheap("bench", "churn", "-a", "sharded_spans"))
    assert checkout.log() == []
