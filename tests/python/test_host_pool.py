"""Pools under programs on the driver double: the same output, no driver allocations that the profile had, and a defined answer to everything else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from host_tools import BUILT, Bench, codes, needs_double

pytestmark = needs_double

MODES = {"device": "cuMemAlloc", "zero-copy": "cuMemHostAlloc", "unified": "cuMemAllocManaged"}
WAYS = ("dlsym", "early", "private")
REQUESTS = ("cuMemAlloc", "cuMemAllocPitch", "cuMemAllocManaged", "cuMemHostAlloc", "cuMemAllocHost", "cuMemAllocAsync")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["lookup", "early", "private"])
@pytest.mark.parametrize("pattern", [("rounds", "9"), ("phases", "6"), ("threads", "4")])
def test_output_is_the_same_and_nothing_is_allocated_after_the_start(bench: Bench, mode: str, way: str, pattern: tuple[str, str]) -> None:
    plain = bench.traced("host_patterns", way, *pattern)
    pooled = bench.pooled(mode, "host_patterns", way, *pattern, strict=True)
    assert pooled.stdout == plain.stdout and pooled.returncode == 0 and pooled.stderr == ""
    assert {call: count for call, count in bench.log().items() if call in REQUESTS} == {MODES[mode]: 1}
    counters = bench.trace("pool").counters
    assert counters["served"] == len(bench.history().allocations) and counters["driver_allocations"] == 0


@pytest.mark.parametrize("way", WAYS)
def test_each_device_has_a_pool_of_its_own(bench: Bench, way: str) -> None:
    plain = bench.traced("host_patterns", way, "devices", "3", DOUBLE_DEVICES="3")
    pooled = bench.pooled("device", "host_patterns", way, "devices", "3", strict=True, DOUBLE_DEVICES="3")
    assert pooled.stdout == plain.stdout and pooled.stderr == "" and bench.log()["cuMemAlloc"] == 3


@pytest.mark.parametrize("way", WAYS)
def test_a_request_without_a_context_is_the_drivers_to_refuse(bench: Bench, way: str) -> None:
    plain = bench.traced("host_patterns", way, "without_context")
    pooled = bench.pooled("device", "host_patterns", way, "without_context", strict=True)
    assert plain.stdout.startswith("without a context: 201 201\n")
    assert pooled.stdout == plain.stdout and pooled.stderr == "" and bench.trace("pool").counters["served"] == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_pool_lives_as_long_as_its_own_context(bench: Bench, way: str) -> None:
    plain = bench.traced("host_patterns", way, "own_context", "3")
    pooled = bench.pooled("device", "host_patterns", way, "own_context", "3", strict=True)
    assert plain.stdout == "own context: 3\n"
    assert pooled.stdout == plain.stdout and pooled.stderr == "" and bench.log()["cuMemAlloc"] == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("requests", ["1", "0", "-1"])
@pytest.mark.parametrize("mode", MODES)
def test_a_device_that_is_first_used_during_a_capture_has_its_pool(bench: Bench, mode: str, requests: str, way: str) -> None:
    plain = bench.traced("host_patterns", way, "captures_elsewhere", requests, DOUBLE_DEVICES="2")
    pooled = bench.pooled(mode, "host_patterns", way, "captures_elsewhere", requests, strict=True, DOUBLE_DEVICES="2")
    assert plain.stdout.startswith("during the capture: 900\n" if requests == "-1" else "captures elsewhere: ")
    assert pooled.stdout == plain.stdout and pooled.stderr == "" and bench.log()[MODES[mode]] == 1


def test_a_pool_made_during_a_capture_gives_no_block_twice(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "captures_elsewhere", "1", DOUBLE_DEVICES="2")
    pooled = bench.pooled("device", "host_patterns", "dlsym", "captures_elsewhere", "2", DOUBLE_DEVICES="2")
    assert pooled.returncode == 0 and codes(pooled) == ["E05"]


def test_each_kind_of_memory_has_a_pool_of_its_own(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "kinds")
    pooled = bench.pooled("device", "host_patterns", "dlsym", "kinds")
    assert pooled.stdout == plain.stdout
    assert {call: count for call, count in bench.log().items() if call in REQUESTS} == {
        "cuMemAlloc": 1, "cuMemAllocManaged": 1, "cuMemHostAlloc": 1, "cuMemAllocAsync": 1
    }  # fmt: skip
    assert codes(pooled) == ["E04"]  # stream-ordered memory is the driver's


def test_a_served_free_waits_as_the_drivers_does(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "rounds", "3")
    bench.pooled("device", "host_patterns", "dlsym", "rounds", "3")
    assert bench.log()["cuCtxSynchronize"] == 6
    bench.pooled("device", "host_patterns", "dlsym", "rounds", "3", GPUHEAP_HOST_SYNC="0")
    assert bench.log()["cuCtxSynchronize"] == 0


def test_unified_prefetches_what_is_copied_there(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "rounds", "3")
    bench.pooled("unified", "host_patterns", "dlsym", "rounds", "3")
    assert bench.log()["cuMemPrefetchAsync"] == 1 + 3  # the pool, and each copy


def test_a_request_that_no_slot_suits_goes_to_the_driver_or_fails_when_strict(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "grows", "2")
    plain = bench.plain("host_patterns", "dlsym", "grows", "3")
    pooled = bench.pooled("device", "host_patterns", "dlsym", "grows", "3")
    assert pooled.stdout == plain.stdout and codes(pooled) == ["E06"] * 3
    strict = bench.pooled("device", "host_patterns", "dlsym", "grows", "3", strict=True)
    assert strict.stdout == "allocation 0: error 2\nallocation 1: error 2\nallocation 2: error 2\ngrows: 0\n"
    assert bench.trace("pool").counters["refused"] == 3 and bench.log()["cuMemAlloc"] == 1


def test_a_place_that_the_profile_lacks_goes_to_the_driver(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "rounds", "2")
    plain = bench.plain("host_patterns", "dlsym", "leak", "5")
    pooled = bench.pooled("device", "host_patterns", "dlsym", "leak", "5")
    assert pooled.stdout == plain.stdout
    assert codes(pooled) == ["E04"] * 4 and "more of these" in pooled.stderr  # three, and the line that says so
    assert bench.trace("pool").counters["unprofiled"] == 5


def test_more_live_blocks_than_slots_are_never_aliased(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "phases", "3")
    plain = bench.plain("host_patterns", "dlsym", "threads", "6")
    assert bench.pooled("device", "host_patterns", "dlsym", "threads", "6").stdout == plain.stdout


def test_frees_of_what_was_not_allocated_fail_as_in_the_driver(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "twice")
    pooled = bench.pooled("device", "host_patterns", "dlsym", "twice")
    assert pooled.stdout == plain.stdout and codes(pooled) == ["E07"] * 3


def test_leaks_are_said_at_the_end(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "leak", "2")
    pooled = bench.pooled("device", "host_patterns", "dlsym", "leak", "2")
    assert codes(pooled) == ["W01"] and "2 blocks of pools, 3000 bytes" in pooled.stderr


def test_questions_about_memory_are_answered_as_without_a_pool(bench: Bench) -> None:
    # The program shares its block, so its place is left to the driver, and all answers are the driver's.
    plain = bench.traced("host_patterns", "dlsym", "asks")
    pooled = bench.pooled("device", "host_patterns", "dlsym", "asks")
    assert pooled.stdout == plain.stdout and codes(pooled) == ["E04"]


@pytest.mark.parametrize("mode", MODES)
def test_memory_of_a_pool_is_not_shared_with_other_processes(bench: Bench, mode: str) -> None:
    # Nor was it in the profile, which would have left its place to the driver.
    plain = bench.traced("host_patterns", "dlsym", "asks", "0")
    pooled = bench.pooled(mode, "host_patterns", "dlsym", "asks", "1", strict=True)
    assert pooled.stdout == plain.stdout.replace("shared: 0", "shared: 801") and codes(pooled) == ["E10"]


def test_what_a_captured_graph_may_name_is_never_given_again(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "captures")
    pooled = bench.pooled("device", "host_patterns", "dlsym", "captures", strict=True)
    assert pooled.stdout == plain.stdout and pooled.stderr == ""
    assert bench.trace("pool").counters["pool_bytes"] == 2 * 4096


@pytest.mark.parametrize("pattern", ["resets", "unnamed_resets"])
@pytest.mark.parametrize("way", WAYS)
def test_pools_come_back_after_a_reset(bench: Bench, way: str, pattern: str) -> None:
    plain = bench.traced("host_patterns", way, pattern, "2")
    pooled = bench.pooled("device", "host_patterns", way, pattern, "2", strict=True)
    assert pooled.stdout == plain.stdout and pooled.stderr == ""


@pytest.mark.parametrize("way", WAYS)
def test_pools_end_with_the_last_holder_of_their_context(bench: Bench, way: str) -> None:
    plain = bench.traced("host_patterns", way, "releases", "2")
    pooled = bench.pooled("device", "host_patterns", way, "releases", "2", strict=True)
    assert pooled.stdout == plain.stdout and pooled.stderr == "" and bench.log()["cuMemAlloc"] == 3


def test_a_driver_that_tells_no_free_memory_is_asked_for_the_pools(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "rounds", "3")
    pooled = bench.pooled("device", "host_patterns", "dlsym", "rounds", "3", strict=True, DOUBLE_NO_INFO="999")
    assert pooled.stdout == plain.stdout and pooled.stderr == "" and bench.log()["cuMemAlloc"] == 1


def test_requests_that_the_driver_serves_where_no_pool_could_be_made_are_counted(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "rounds", "1")
    pooled = bench.pooled("device", "host_patterns", "dlsym", "rounds", "1", DOUBLE_NO_INFO="201")
    assert pooled.stdout == plain.stdout and codes(pooled) == ["E04"] * 2
    counters = bench.trace("pool").counters
    assert counters["driver_allocations"] == counters["unprofiled"] == 2 and counters["served"] == 0


def test_a_child_after_fork_has_pools_of_its_own(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "forks")
    pooled = bench.pooled("device", "host_patterns", "dlsym", "forks")
    assert sorted(pooled.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    assert codes(pooled)[0] == "W02"


@pytest.mark.parametrize(
    ("mode", "variables", "code"),
    [
        ("device", {"DOUBLE_MEMORY": "8192"}, "E02"),
        ("device", {"DOUBLE_NAME": "Another"}, "E03"),
        ("device", {"DOUBLE_VERSION": "12080"}, "E03"),
        ("zero-copy", {"DOUBLE_NO_ATTRIBUTE": "19"}, "E08"),
        ("unified", {"DOUBLE_NO_ATTRIBUTE": "89"}, "E08"),
    ],
)
def test_another_machine_has_a_defined_answer(bench: Bench, mode: str, variables: dict[str, str], code: str) -> None:
    plain = bench.traced("host_patterns", "dlsym", "rounds", "1")
    bench.traced("host_patterns", "dlsym", "rounds", "9")
    pooled = bench.pooled(mode, "host_patterns", "dlsym", "rounds", "1", **variables)
    assert pooled.stdout == plain.stdout and pooled.returncode == 0
    assert code in codes(pooled)


def test_a_damaged_plan_makes_no_pools(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "rounds", "1")
    (bench.folder / "bad").write_text("gpuheap-host-plan 1\npool 0 device 0 1024\n")
    pooled = bench.pooled("device", "host_patterns", "dlsym", "rounds", "1", GPUHEAP_HOST_PLAN=str(bench.folder / "bad"))
    assert pooled.stdout == plain.stdout and codes(pooled)[0] == "E01"


def test_poison_fills_what_is_handed_out(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "rounds", "2")
    assert bench.pooled("device", "host_patterns", "dlsym", "rounds", "2", GPUHEAP_HOST_POISON="90").stdout == plain.stdout


def test_a_request_is_served_within_a_microsecond(bench: Bench) -> None:
    # A request and its free, from the program's call to its return; the best of three, as other work on the machine may add to any of them.
    bench.traced("host_patterns", "dlsym", "requests", "10")
    runs = [bench.pooled("device", "host_patterns", "dlsym", "requests", "100000", DOUBLE_LOG="") for _ in range(3)]
    assert min(float(re.search(r"(\d+) ns a pair", ran.stdout)[1]) for ran in runs) < 1000  # type: ignore[index]


def test_the_command_plans_runs_and_tells(bench: Bench, error_line) -> None:
    program = str(BUILT / "host_patterns")
    assert bench.gpuheap("host", "trace", "--", program, "dlsym", "phases", "5").returncode == 0
    ran = bench.gpuheap("host", "pool", "--mode", "device", "--strict", "--", program, "dlsym", "phases", "5")
    assert ran.returncode == 0 and ran.stdout == bench.plain("host_patterns", "dlsym", "phases", "5").stdout
    assert "16 requests served" in ran.stderr and "0 went to the driver" in ran.stderr and "(1.00x)" in ran.stderr
    larger = bench.gpuheap("host", "pool", "--mode", "device", "--", program, "dlsym", "phases", "7")
    assert larger.returncode == 0 and "larger than their slots (E06)" in larger.stderr
    other = str(BUILT / "host_patterns_linked")
    for words, expected in (
        (("--mode", "device", "--profile", "nothing", "--", program), "E01: nothing does not exist"),
        (("--mode", "device", "--profile", "host_patterns.trace", "--", other), "E01: host_patterns.trace is a profile of another program"),
        (("--mode", "fast", "--", program), "'fast' is not one of device, zero-copy, unified, heap:NAME"),
        (("--mode", "device", "--profile", "host_patterns.pool", "--", program), "is of a pooled run"),
    ):
        assert expected in error_line(bench.gpuheap("host", "pool", *words))
