"""Device memory from the heaps of allocators, under programs on the driver double: the same output, and a defined answer to everything else.

The heaps run on the simulator, and the double's device memory is the host's, so that they reach it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from host_tools import BUILT, NOT_BUILT, ROOT, Bench, codes, needs_double

HEAPS = BUILT / "heaps"
NAMES = re.findall(r"^gpuheap_allocator\(NAME (\w+)", (ROOT / "cmake" / "allocators.cmake").read_text(), re.MULTILINE)
REFUSED = {
    "cuda_malloc": "the kernels' own malloc",
    "atomic_wrap_malloc": "by design it returns memory that is still in use",
    "fdgmalloc": "all blocks of a warp together",
}
SERVING = [name for name in NAMES if name not in REFUSED and (HEAPS / f"libgpuheap_host_heap_{name}.so").exists()]
SOME = [name for name in ("sharded_spans", "scatteralloc", "halloc") if name in SERVING]  # bits, pages, and a second heap beneath

pytestmark = [needs_double, pytest.mark.skipif(len(SOME) < 3, reason=NOT_BUILT)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def from_heap(bench: Bench, name: str, *words: str, mib: int = 16, strict: bool = False, **variables: str) -> subprocess.CompletedProcess[str]:
    """Pooled under heap:`name`; without device memory of its own in the plan, as `traced` came before."""
    heap = {"GPUHEAP_HOST_HEAP_LIBRARY": str(HEAPS / f"libgpuheap_host_heap_{name}.so"), "GPUHEAP_HOST_HEAP_BYTES": str(mib << 20)}
    return bench.pooled(f"heap:{name}", *words, strict=strict, **{**heap, **variables})


@pytest.mark.parametrize("pattern", [("rounds", "9"), ("phases", "6"), ("threads", "3")])
@pytest.mark.parametrize("name", SERVING)
def test_output_is_the_same_and_every_request_is_served(bench: Bench, name: str, pattern: tuple[str, str]) -> None:
    plain = bench.traced("host_patterns", "lookup", *pattern)
    pooled = from_heap(bench, name, "host_patterns", "lookup", *pattern, strict=True)
    assert pooled.stdout == plain.stdout and pooled.returncode == 0 and pooled.stderr == ""
    counters = bench.trace("pool").counters
    assert counters["served"] == len(bench.history().allocations) and counters["driver_allocations"] == 0 and bench.log()["cuMemAlloc"] == 1


@pytest.mark.parametrize("way", ["dlsym", "early", "private"])
@pytest.mark.parametrize(
    ("pattern", "reservations"),
    [(("devices", "3"), 3), (("resets", "2"), 2), (("unnamed_resets", "2"), 2), (("releases", "2"), 3), (("own_context", "3"), 1), (("without_context",), 1),
     (("captures_elsewhere", "0"), 1)],
)  # fmt: skip
def test_heaps_live_as_long_as_their_contexts(bench: Bench, way: str, pattern: tuple[str, ...], reservations: int) -> None:
    plain = bench.traced("host_patterns", way, *pattern, DOUBLE_DEVICES="3")
    pooled = from_heap(bench, "scatteralloc", "host_patterns", way, *pattern, strict=True, DOUBLE_DEVICES="3")
    assert pooled.stdout == plain.stdout and pooled.returncode == 0 and pooled.stderr == ""
    assert bench.log()["cuMemAlloc"] == reservations and bench.trace("pool").counters["served"] > 0


def test_other_contexts_of_a_device_are_the_drivers(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "two_contexts", "4")
    pooled = from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "two_contexts", "4")
    assert plain.stdout == "two contexts: 8\n" and pooled.stdout == plain.stdout and pooled.returncode == 0 and set(codes(pooled)) == {"E04"}
    counters = bench.trace("pool").counters
    assert counters["served"] == counters["driver_allocations"] == 4 and bench.log()["cuMemAlloc"] == 1 + 4


@pytest.mark.parametrize("name", SOME)
def test_a_heap_without_room_leaves_requests_to_the_driver_or_fails_them_when_strict(bench: Bench, name: str) -> None:
    plain = bench.traced("host_patterns", "dlsym", "grows", "200")  # 200 blocks of 200,000 bytes
    pooled = from_heap(bench, name, "host_patterns", "dlsym", "grows", "200")
    counters = bench.trace("pool").counters
    assert pooled.stdout == plain.stdout and codes(pooled) == ["E05"] * 4  # three, and the line that says so
    assert counters["served"] + counters["driver_allocations"] == 200 and counters["slot_busy"] == counters["driver_allocations"]
    assert 10 < counters["served"] <= (16 << 20) // 200_000 and bench.log()["cuMemFree"] == counters["driver_allocations"]
    strict = from_heap(bench, name, "host_patterns", "dlsym", "grows", "200", strict=True)
    served, refused = (bench.trace("pool").counters[counter] for counter in ("served", "refused"))
    assert served + refused == 200 and strict.stdout.count(": error 2\n") == refused and strict.stdout.endswith(f"grows: {served}\n")
    assert bench.log()["cuMemAlloc"] == 1


def test_a_request_larger_than_the_heap_is_told_apart(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "grows", "1100")
    pooled = from_heap(bench, "sharded_spans", "host_patterns", "dlsym", "grows", "1100", mib=1)
    assert pooled.stdout == plain.stdout and codes(pooled) == ["E06"] * 4 and bench.trace("pool").counters["too_large"] == 1100


def test_an_allocator_that_takes_nothing_back_serves_until_it_is_full(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "rounds", "2")
    plain = bench.plain("host_patterns", "dlsym", "rounds", "300")
    pooled = from_heap(bench, "atomic_malloc", "host_patterns", "dlsym", "rounds", "300", mib=1)
    assert pooled.stdout == plain.stdout and codes(pooled) == ["E05"] * 4
    assert bench.trace("pool").counters["served"] > 200


@pytest.mark.parametrize("name", SOME)
def test_frees_of_what_was_not_allocated_fail_as_in_the_driver(bench: Bench, name: str) -> None:
    plain = bench.traced("host_patterns", "dlsym", "twice")
    pooled = from_heap(bench, name, "host_patterns", "dlsym", "twice")
    assert pooled.stdout == plain.stdout and codes(pooled) == ["E07"] * 3


def test_a_served_free_waits_as_the_drivers_does(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "rounds", "3")
    from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "rounds", "3")
    assert bench.log()["cuCtxSynchronize"] == 6
    from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "rounds", "3", GPUHEAP_HOST_SYNC="0")
    assert bench.log()["cuCtxSynchronize"] == 0


def test_a_request_during_a_capture_is_the_drivers(bench: Bench) -> None:
    # A heap serves by a kernel and a wait. What the driver refuses then is refused, what it gives is counted.
    plain = bench.traced("host_patterns", "dlsym", "captures_elsewhere", "-1", DOUBLE_DEVICES="2")
    pooled = from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "captures_elsewhere", "-1", strict=True, DOUBLE_DEVICES="2")
    assert plain.stdout.startswith("during the capture: 900\n") and pooled.stdout == plain.stdout and pooled.stderr == ""
    plain = bench.traced("host_patterns", "dlsym", "captures_elsewhere", "2", DOUBLE_DEVICES="2")
    pooled = from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "captures_elsewhere", "2", strict=True, DOUBLE_DEVICES="2")
    assert pooled.stdout == plain.stdout and codes(pooled) == ["E04"] * 2 and bench.trace("pool").counters["driver_allocations"] == 2


def test_what_a_captured_graph_may_name_is_never_given_again(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "captures_again", "20")
    pooled = from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "captures_again", "20", strict=True)
    assert pooled.stdout == "captures again: 20 places\n" and pooled.stderr == ""


def test_memory_of_other_kinds_is_as_in_other_modes(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "kinds")
    pooled = from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "kinds")
    assert pooled.stdout == plain.stdout and codes(pooled) == ["E04"]  # stream-ordered memory is the driver's
    assert {call: bench.log()[call] for call in ("cuMemAlloc", "cuMemAllocManaged", "cuMemHostAlloc", "cuMemAllocAsync")} == {
        "cuMemAlloc": 1, "cuMemAllocManaged": 1, "cuMemHostAlloc": 1, "cuMemAllocAsync": 1
    }  # fmt: skip


def test_questions_about_memory_are_answered_and_sharing_is_refused(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "asks", "0")
    pooled = from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "asks", "0", strict=True)
    assert pooled.stdout == plain.stdout and pooled.stderr == ""
    shared = from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "asks", "1")
    assert shared.stdout == plain.stdout.replace("shared: 0", "shared: 801") and codes(shared) == ["E10"]


def test_leaks_are_said_and_poison_changes_nothing(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "leak", "2")
    pooled = from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "leak", "2")
    assert pooled.stdout == plain.stdout and codes(pooled) == ["W01"] and "2 blocks of pools, 3000 bytes" in pooled.stderr
    plain = bench.traced("host_patterns", "dlsym", "rounds", "2")
    assert from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "rounds", "2", GPUHEAP_HOST_POISON="90").stdout == plain.stdout


def test_a_free_when_the_process_ends_is_quiet(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "frees_late")
    pooled = from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "frees_late", strict=True)
    assert plain.stdout == "at the end: 0\n" and pooled.returncode == 0 and pooled.stdout == plain.stdout and pooled.stderr == ""


def test_a_child_after_fork_has_a_heap_of_its_own(bench: Bench) -> None:
    plain = bench.traced("host_patterns", "dlsym", "forks")
    pooled = from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "forks", strict=True)
    assert sorted(pooled.stdout.splitlines()) == sorted(plain.stdout.splitlines()) and codes(pooled)[0] == "W02"


@pytest.mark.parametrize(
    ("variables", "code", "words"),
    [
        ({"DOUBLE_MEMORY": "8388608"}, "E02", "ask for less with --heap-bytes"),
        ({"GPUHEAP_HOST_HEAP_LIBRARY": "/nowhere.so"}, "E08", "/nowhere.so: cannot open"),
        ({"GPUHEAP_HOST_HEAP_LIBRARY": str(BUILT / "libhost_next_symbol.so")}, "E08", "is not a heap library of this version"),
        ({"GPUHEAP_HOST_HEAP_LIBRARY": str(HEAPS / "libgpuheap_host_heap_fdgmalloc.so")}, "E08", "'fdgmalloc' cannot serve"),
        ({"GPUHEAP_HOST_HEAP_BYTES": "4096"}, "E08", "needs at least"),
    ],
)
def test_where_no_heap_can_be_made_the_driver_serves(bench: Bench, variables: dict[str, str], code: str, words: str) -> None:
    plain = bench.traced("host_patterns", "dlsym", "rounds", "1", DOUBLE_MEMORY=variables.get("DOUBLE_MEMORY", ""))
    pooled = from_heap(bench, "scatteralloc", "host_patterns", "dlsym", "rounds", "1", **variables)
    assert pooled.stdout == plain.stdout and pooled.returncode == 0 and codes(pooled) == [code, "E04", "E04"] and words in pooled.stderr
    assert bench.log()["cuMemAlloc"] - bench.log()["cuMemFree"] == 0


def command(bench: Bench, *words: str) -> subprocess.CompletedProcess[str]:
    return bench.gpuheap("host", "pool", *words, GPUHEAP_HOST_HEAPS=str(HEAPS))


def test_the_command_needs_no_profile(bench: Bench, error_line) -> None:
    program = str(BUILT / "host_patterns")
    plain = bench.plain("host_patterns", "dlsym", "phases", "5")
    ran = command(bench, "--mode", "heap:scatteralloc", "--heap-bytes", "8MiB", "--strict", "--", program, "dlsym", "phases", "5")
    assert ran.returncode == 0 and ran.stdout == plain.stdout
    assert "from a heap of scatteralloc, 8 MiB on each device" in ran.stderr and "16 requests served" in ran.stderr and "0 went to the driver" in ran.stderr
    bench.gpuheap("host", "trace", "--", program, "dlsym", "grows", "200")
    ran = command(bench, "--mode", "heap:scatteralloc", "--", program, "dlsym", "grows", "200")  # 40 MB live: 8 times that, and 64 MiB
    assert ran.returncode == 0 and "369 MiB on each device" in ran.stderr and "200 requests served" in ran.stderr
    ran = command(bench, "--mode", "heap:scatteralloc", "--heap-bytes", "4MiB", "--", program, "dlsym", "grows", "200")
    assert ran.returncode == 0 and "found no room in the heap (E05)" in ran.stderr
    for words, expected in (
        (("--mode", "heap:nothing"), "'nothing' is not an allocator: there are sharded_spans, cuda_malloc"),
        (("--mode", "device", "--heap-bytes", "8MiB"), "--heap-bytes is for --mode heap:NAME"),
        (("--mode", "heap:scatteralloc", "--heap-bytes", "much"), "--heap-bytes: 'much' is not a size"),
        (("--mode", "heap:scatteralloc", "--profile", "nothing"), "E01: nothing does not exist"),
    ):
        assert expected in error_line(command(bench, *words, "--", program))


@pytest.mark.parametrize("name", [name for name in REFUSED if (HEAPS / f"libgpuheap_host_heap_{name}.so").exists()])
def test_an_allocator_that_cannot_stand_for_the_drivers_is_refused_with_the_reason(bench: Bench, error_line, name: str) -> None:
    line = error_line(command(bench, "--mode", f"heap:{name}", "--", str(BUILT / "host_patterns")))
    assert line.startswith(f"E08: the allocator '{name}' cannot serve cudaMalloc: ") and REFUSED[name] in line
    ran = bench.gpuheap("host", "pool", "--mode", f"heap:{name}", "--", str(BUILT / "host_patterns"), GPUHEAP_HOST_HEAPS=str(bench.folder))
    assert f"--target gpuheap_host_heap_{name}" in error_line(ran)
