"""The host tools on a GPU: the same output under every mode, counts that are known, and no driver allocations after the start. Needs a GPU and the preset
cuda."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from host_merging import counters, errors, merged, planned, proven, rehearsed
from host_tools import ROOT, Bench

from gpuheap.host.history import History
from gpuheap.host.rehearsal import ELSEWHERE
from gpuheap.host.sites import peaks_of
from gpuheap.host.stacks import Symbols

BUILT = ROOT / "build" / "cuda" / "tests" / "host"
LIBRARY = ROOT / "build" / "cuda" / "tools" / "host" / "libgpuheap_host.so"
HEAPS = LIBRARY.parent / "heaps"
REFUSED = ("cuda_malloc", "atomic_wrap_malloc", "fdgmalloc")
SERVING = sorted(name for path in HEAPS.glob("*.so") if (name := path.stem.removeprefix("libgpuheap_host_heap_")) not in REFUSED)
WAYS = ("static", "shared", "per_thread")
PROBE = ROOT / "build" / "cuda" / "tools" / "host" / "probe" / "gpuheap-host-probe"


def has_gpu() -> bool:
    try:
        return "GPU" in subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False


pytestmark = pytest.mark.skipif(not (BUILT / "host_cases_static").exists() or not has_gpu(), reason="tests on a GPU: none here, or ./test has not built for it")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, BUILT, LIBRARY, os.environ.get("LD_LIBRARY_PATH", ""))


def traced(bench: Bench, way: str, pattern: str) -> History:
    ran = bench.traced(f"host_cases_{way}", pattern)
    assert ran.returncode == 0 and ran.stdout == f"{pattern}: right\n" and ran.stderr == "", ran.stdout + ran.stderr
    history = bench.history()
    assert history.trace.ended and history.failures == []
    return history


@pytest.mark.parametrize("way", WAYS)
def test_counts_are_those_of_the_program(bench: Bench, way: str) -> None:
    history = traced(bench, way, "rounds")
    assert history.leaks == [] and len(history.allocations) == 16
    assert [(peak.memory, peak.bytes) for peak in peaks_of(history)] == [("device", 2 * 103000 * 4)]
    assert Counter(copy.direction for copy in history.copies) == {"host to device": 9, "device to host": 8}  # one of them to the symbol
    assert sorted((re.sub(r".*(add_one|scale).*", r"\1", name), each.count) for name, each in history.launches.items()) == [("add_one", 8), ("scale", 8)]


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_memory_is_seen(bench: Bench, way: str) -> None:
    history = traced(bench, way, "kinds")
    assert history.leaks == []
    assert {each.memory for each in history.allocations} == {"device", "managed", "pinned", "stream-ordered", "registered"}


def test_a_leak_is_found_with_its_place(bench: Bench) -> None:
    history = traced(bench, "static", "leak")
    assert [each.bytes for each in history.leaks] == [64 << 20]
    symbols = Symbols()
    stack = history.trace.stacks[history.leaks[0].stack]
    assert any(frame.module is not None and frame.module.path.endswith("host_cases_static") for frame in stack.frames)
    symbols.learn(history.trace.stacks.values())
    if shutil.which("addr2line"):
        words = symbols.site_words(stack)
        assert re.search(r"allocate<unsigned int>.* \(cases.cu:\d+\) from .*leak", words), words


def answer(bench: Bench, *words: str) -> dict[str, Any]:
    command, *rest = words
    ran = bench.gpuheap("host", command, "--json", *rest, GPUHEAP_HOST_PROBE=str(PROBE))  # before what is the program's
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_advice_measures_every_mode_with_the_same_output(bench: Bench) -> None:
    found = answer(bench, "advise", "--runs", "6", "--no-ncu", "--", str(BUILT / "host_cases_static"), "rounds")
    assert {mode["name"]: (mode["runs"], mode["barred"]) for mode in found["modes"]} == dict.fromkeys(("plain", "device", "zero-copy", "unified"), (6, ""))
    assert found["session"]["program"]["launches"] == 16 and found["session"]["program"]["copies"] == 17  # one of them to the symbol
    assert found["verdicts"][0]["fastest"]["mode"] is not None and found["verdicts"][1]["lines"][0]["spread"]["mean"] > 0


def test_nsight_compute_tells_of_every_kernel_or_why_not(bench: Bench) -> None:
    found = answer(bench, "advise", "--runs", "1", "--", str(BUILT / "host_cases_static"), "rounds")
    if not found["session"]["kernels"]:
        assert "rules 1, 2, 5, 6 could not be evaluated: Nsight Compute" in found["unknown"][0]
        pytest.skip(f"counters of Nsight Compute: {found['session']['profiler']}")
    assert len(found["session"]["kernels"]) == 2 and found["rules"]["rules"][0]["outcome"] != "unknown"
    assert {mode for row in found["kernels"] for mode in row["ratios"]} == {"device", "zero-copy", "unified"}
    assert all(ratio > 0 for row in found["kernels"] for ratio in row["ratios"].values())


def test_the_drivers_allocators_are_probed(bench: Bench) -> None:
    found = {each["name"]: each for each in answer(bench, "probe", "--budget", "64MiB")["allocators"]}
    assert set(found) == {"device", "managed", "host", "async", "kernel"}
    for each in found.values():
        assert each["unserved"] == [] and each["granularity"] % (16 if each["name"] == "kernel" else 256) == 0
    assert found["kernel"]["requests"] == 1200 * 32 and found["kernel"]["bins"][0]["request"] > 0
    assert found["device"]["bins"] and found["device"]["kernels"]["again"] > 0


@pytest.mark.parametrize("mode", ["device", "zero-copy", "unified"])
@pytest.mark.parametrize(("way", "pattern"), [*((way, "rounds") for way in WAYS), ("static", "phases"), ("static", "threads"), ("static", "freed_early"),
                                             ("static", "devices"), ("static", "resets"), ("shared", "resets")])  # fmt: skip
def test_pools_change_no_output_and_leave_nothing_to_the_driver(bench: Bench, mode: str, way: str, pattern: str) -> None:
    traced(bench, way, pattern)
    ran = bench.pooled(mode, f"host_cases_{way}", pattern, strict=True)
    assert ran.returncode == 0 and ran.stdout == f"{pattern}: right\n" and ran.stderr == "", ran.stdout + ran.stderr
    counters = bench.trace("pool").counters
    assert counters["served"] == len(bench.history().allocations) and counters["driver_allocations"] == counters["refused"] == 0


@pytest.mark.parametrize("way", ["static", "shared"])
def test_downloads_between_pairs_need_no_copy(bench: Bench, way: str) -> None:
    # Each round's host buffer ends before the next round.
    found = rehearsed(bench, f"host_cases_{way}", "rounds")
    assert [(each.downloads, each.why) for each in found] == [(8, "")]
    ran = merged(bench, "elide", planned(bench, proven(found)), f"host_cases_{way}", "rounds")
    assert ran.returncode == 0 and ran.stdout == "rounds: right\n" and errors(ran) == [], ran.stdout + ran.stderr
    assert counters(bench) == (8, 0, 0)


def test_downloads_in_the_streams_of_threads_stay_copies(bench: Bench) -> None:
    assert {each.why for each in rehearsed(bench, "host_cases_per_thread", "rounds")} == {ELSEWHERE}


@pytest.mark.parametrize("mode", ["device", "zero-copy", "unified"])
def test_all_kinds_of_memory_together_are_served(bench: Bench, mode: str) -> None:
    traced(bench, "static", "kinds")
    ran = bench.pooled(mode, "host_cases_static", "kinds")
    assert ran.returncode == 0 and ran.stdout == "kinds: right\n", ran.stdout + ran.stderr
    assert bench.trace("pool").counters["driver_allocations"] == 1  # the stream-ordered request


def from_heap(bench: Bench, name: str, way: str, pattern: str, strict: bool = True) -> subprocess.CompletedProcess[str]:
    heap = {"GPUHEAP_HOST_HEAP_LIBRARY": str(HEAPS / f"libgpuheap_host_heap_{name}.so"), "GPUHEAP_HOST_HEAP_BYTES": str(2 << 30)}
    return bench.pooled(f"heap:{name}", f"host_cases_{way}", pattern, strict=strict, **heap)


@pytest.mark.parametrize("name", SERVING)
@pytest.mark.parametrize(("way", "pattern"), [("static", "rounds"), ("static", "phases"), ("static", "threads"), ("static", "freed_early")])
def test_heaps_of_allocators_change_no_output_and_leave_nothing_to_the_driver(bench: Bench, name: str, way: str, pattern: str) -> None:
    traced(bench, way, pattern)
    ran = from_heap(bench, name, way, pattern)
    assert ran.returncode == 0 and ran.stdout == f"{pattern}: right\n" and ran.stderr == "", ran.stdout + ran.stderr
    counters = bench.trace("pool").counters
    assert counters["served"] == len(bench.history().allocations) and counters["driver_allocations"] == counters["refused"] == 0


@pytest.mark.parametrize(
    ("way", "pattern"), [("shared", "rounds"), ("per_thread", "rounds"), ("static", "devices"), ("static", "resets"), ("shared", "resets")]
)
def test_a_heap_has_its_own_runtime_beside_the_programs(bench: Bench, way: str, pattern: str) -> None:
    traced(bench, way, pattern)
    ran = from_heap(bench, "scatteralloc", way, pattern)
    assert ran.returncode == 0 and ran.stdout == f"{pattern}: right\n" and ran.stderr == "", ran.stdout + ran.stderr
    assert bench.trace("pool").counters["served"] == len(bench.history().allocations)


def test_all_kinds_of_memory_together_are_served_beside_a_heap(bench: Bench) -> None:
    traced(bench, "static", "kinds")
    ran = from_heap(bench, "scatteralloc", "static", "kinds", strict=False)
    assert ran.returncode == 0 and ran.stdout == "kinds: right\n", ran.stdout + ran.stderr
    assert bench.trace("pool").counters["driver_allocations"] == 1  # the stream-ordered request


@pytest.mark.parametrize("name", SERVING)
def test_thousands_of_requests_are_served_from_a_heap(bench: Bench, name: str) -> None:
    bench.traced("host_cases_static", "many")
    ran = from_heap(bench, name, "static", "many")
    assert ran.returncode == 0 and ran.stdout == "many: right\n" and bench.trace("pool").counters["served"] == 2001, ran.stdout + ran.stderr
    print(name, ran.stderr.strip())  # for the eye: what a request and its free take
