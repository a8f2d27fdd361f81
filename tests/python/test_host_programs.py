"""The programs of benchmarks/programs/ on the driver double: what they ask of the driver is what the published set asks, and pools change no byte of what
they print."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from host_tools import BUILT, Bench, needs_double
from program_counts import PAIRS, PROGRAMS, counts_of, counts_wanted

from gpuheap.formats.protocol import parse_description
from gpuheap.formats.results import read_table

pytestmark = needs_double

# Allocations, frees with those of null, copies and kernels of the published set, and the largest copy as it is printed there: in MB, or as "at most 64 kB".
PUBLISHED = {
    "gaussian_3": (3, 3, 6, 4, "64 kB"), "gaussian_1024": (3, 3, 6, 2046, "4.19"), "lud_64": (1, 1, 2, 10, "64 kB"), "lud_2048": (1, 1, 2, 382, "16.78"),
    "kmeans_100": (4, 4, 7, 3, "64 kB"), "kmeans_819200": (4, 4, 7, 3, "111.41"), "bfs_4096": (7, 6, 23, 16, "0.10"), "bfs_1000000": (7, 6, 31, 24, "24.00"),
    "srad": (12, 12, 206, 502, "0.92"), "hotspot_64": (3, 3, 3, 1, "64 kB"), "hotspot_512": (3, 3, 3, 1, "1.05"), "hotspot_1024": (3, 3, 3, 1, "4.19"),
    "heartwall": (623, 623, 50, 20, "1.95"), "leukocyte": (34, 35, 39, 7, "0.56"), "myocyte": (4, 4, 15600, 3900, "64 kB"), "backprop": (6, 6, 8, 2, "4.46"),
}  # fmt: skip
COUNTED = "lud_2048"  # 45 s of the CPU: its requests alone are checked, without its kernels, and the results of the smaller input
# Seconds of the CPU each run, in all modes otherwise; in none, what a smaller input shows as well.
MODES = {"gaussian_1024": [], COUNTED: [], "srad": ["device"], "kmeans_819200": ["unified"], "bfs_1000000": ["zero-copy"]}
RULES = {
    "hit_rate": ("window_kib=64", "window_kib=65536"), "coalescing": ("ways=1", "ways=32"), "launches": ("kernels=2", "kib=64", "kernels=100"),
    "shared_memory": ("reads=1", "reads=64"), "stalled_warps": ("chain=1", "chain=64"),
}  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_table_of_counts_is_that_of_the_published_set() -> None:
    assert PAIRS.keys() == PUBLISHED.keys()
    for case, (allocations, frees, copies, kernels, largest) in PUBLISHED.items():
        line = counts_wanted(case)
        assert (line["allocations"], line["frees"] + line["null_frees"], line["kernels"]) == (allocations, frees, kernels)
        assert line["uploads"] + line["downloads"] == copies
        assert line["largest_copy"] <= 64e3 if largest == "64 kB" else f"{line['largest_copy'] / 1e6:.2f}" == largest
    # Of this one the bytes are published too.
    assert (PAIRS["backprop"]["upload_bytes"], PAIRS["backprop"]["download_bytes"]) == ("13631764", "4980808")


@pytest.mark.parametrize("case", PAIRS)
def test_a_program_asks_the_driver_for_what_the_table_says_and_pools_change_nothing(bench: Bench, case: str) -> None:
    line = PAIRS[case]
    words = (f"programs/{line['program']}", line["input"])
    if case == COUNTED:
        traced = bench.traced(*words, DOUBLE_NO_KERNELS="1")
        assert traced.returncode == 4 and "lower times upper is not the matrix" in traced.stdout, traced.stdout + traced.stderr
    else:
        traced = bench.traced(*words)
        assert traced.returncode == 0 and traced.stdout.endswith("right\n"), traced.stdout + traced.stderr
    history = bench.history()
    assert counts_of(history) == counts_wanted(case)
    assert history.failures == [] and history.foreign_frees == 0
    for mode in MODES.get(case, ["device", "zero-copy", "unified"]):
        pooled = bench.pooled(mode, *words, strict=True)
        assert pooled.stdout == traced.stdout and pooled.returncode == 0
        assert bench.trace("pool").counters["driver_allocations"] == 0
        # The one leak is told; nothing else is there to tell.
        assert re.findall(r"^gpuheap: (\w+)", pooled.stderr, re.MULTILINE) == (["W01"] if history.leaks else [])


TO_SYMBOLS = {"heartwall": 22, "leukocyte": 5}  # copies that go to variables of the device, whatever memory is shared
SLOW = ("gaussian_1024", COUNTED, "srad", "kmeans_819200", "bfs_1000000")  # seconds of the CPU each run


@pytest.mark.parametrize("case", [case for case in PAIRS if case not in SLOW])
def test_a_program_for_shared_memory_prints_the_same_and_copies_nothing(bench: Bench, case: str) -> None:
    words = (f"programs/{PAIRS[case]['program']}", PAIRS[case]["input"])
    plain = bench.plain(*words).stdout
    for memory, entry in (("pinned", "cuMemHostAlloc"), ("managed", "cuMemAllocManaged")):
        ran = bench.traced(*words, GPUHEAP_PROGRAM_MEMORY=memory)
        assert ran.returncode == 0 and ran.stdout == plain, ran.stdout + ran.stderr
        history = bench.history()
        assert len(history.copies) == TO_SYMBOLS.get(case, 0) and history.failures == []
        assert {history.trace.entry(int(event["entry"])) for event in history.trace.events[history.trace.events["kind"] == 1]} == {entry}


def test_memory_that_cannot_be_shared_is_said(bench: Bench) -> None:
    ran = bench.plain("programs/lud", "64", GPUHEAP_PROGRAM_MEMORY="mapped")
    assert ran.returncode == 2 and "'mapped' is neither pinned nor managed" in ran.stderr


@pytest.mark.parametrize(("name", "words"), list(RULES.items()))
def test_a_program_for_one_rule_changes_its_characteristic_alone(bench: Bench, name: str, words: tuple[str, ...]) -> None:
    found = set()
    for word in words:
        ran = bench.traced(f"programs/{name}", word)
        assert ran.returncode == 0 and ran.stdout.endswith("right\n"), ran.stdout + ran.stderr
        history = bench.history()
        sizes, copied = tuple(each.bytes for each in history.allocations), tuple(copy.bytes for copy in history.copies)
        found.add((sizes, copied, sum(n.count for n in history.launches.values())))
    # The one of launches is what changes these numbers.
    assert len(found) == (3 if name == "launches" else 1)


def test_every_program_is_tested() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.cu")} == {line["program"] for line in PAIRS.values()}
    assert {path.stem for path in PROGRAMS.glob("rules/*.cu")} == set(RULES)


def test_programs_describe_their_machine_and_build(bench: Bench) -> None:
    for path in [*PROGRAMS.glob("*.cu"), *PROGRAMS.glob("rules/*.cu")]:
        described = parse_description(bench.plain(f"programs/{path.stem}", "--describe").stdout)
        assert described.backend == "simulator" and described.device is not None and described.device.name == "Double"
        assert described.build["compiler"].startswith("GNU")


def test_programs_tell_the_time_in_kernels(bench: Bench) -> None:
    times = bench.folder / "times"
    told = bench.plain("programs/lud", "64", GPUHEAP_PROGRAM_TIMES=str(times))
    assert told.stdout == bench.plain("programs/lud", "64").stdout
    said = json.loads(times.read_text())
    assert said["kernels"] == 10 and said["kernel_us"] > 0
    refused = bench.plain("programs/lud", "64", GPUHEAP_PROGRAM_TIMES=str(bench.folder / "no" / "times"))
    assert refused.returncode == 2 and "cannot be written" in refused.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("hotspot", "65"), "name one input: 64, 512, 1024"),
        (("hotspot",), "name one input"),
        (("hit_rate", "window_kib=0"), "expected a number from 1 to 65536"),
        (("hit_rate", "window=4"), "is none of window_kib=NUMBER"),
        (("coalescing", "ways=3"), "expected a power of two"),
    ],
)
def test_a_mistake_on_the_command_line_is_said(bench: Bench, words: tuple[str, ...], expected: str) -> None:
    ran = bench.plain(f"programs/{words[0]}", *words[1:])
    assert ran.returncode == 2 and expected in ran.stderr


def test_the_suites_run_on_the_double(bench: Bench) -> None:
    cases = ("programs/hotspot_64", "programs/leukocyte", "rules/few_kernels")
    words = ("bench", *cases, "-a", "plain,device,zero_copy,unified", "--quick", "--runs", "1", "--strict")
    ran = bench.gpuheap(*words, "--output", str(bench.folder), GPUHEAP_PROGRAMS=str(BUILT / "programs"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = [*read_table(bench.folder / "programs.csv"), *read_table(bench.folder / "rules.csv")]
    assert {(row.status, row.backend) for row in rows} == {("ok", "simulator")}
    assert Counter(row.allocator for row in rows) == dict.fromkeys(("plain", "device", "zero_copy", "unified"), (1 + 1 + 2) * 7)
    counted = {(row.case, row.metric): row.statistics.median for row in rows if row.allocator == "unified" and row.statistics is not None}
    for case in ("hotspot_64", "leukocyte"):
        wanted = counts_wanted(case)
        assert counted[case, "allocations"] == wanted["allocations"] and counted[case, "kernels"] == wanted["kernels"]
        assert counted[case, "copies"] == wanted["uploads"] + wanted["downloads"]


def test_modes_without_copies_run_on_the_double(bench: Bench) -> None:
    modes = ("plain", "zero_copy", "zero_copy_elide", "zero_copy_shared", "unified_shared")
    words = ("bench", "programs/hotspot_512", "programs/hotspot_64", "-a", ",".join(modes), "--runs", "1")
    ran = bench.gpuheap(*words, "--output", str(bench.folder), GPUHEAP_PROGRAMS=str(BUILT / "programs"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = read_table(bench.folder / "programs.csv")
    copies = {(row.case, row.allocator): row.statistics.median for row in rows if row.metric == "copies" and row.statistics is not None}
    assert [copies["hotspot_512", mode] for mode in modes] == [3, 3, 2, 0, 0]
    # The tool's proof begins at 64 KiB.
    assert [copies.get(("hotspot_64", mode)) for mode in modes] == [3, 3, None, 0, 0]
    (small,) = [row for row in rows if (row.case, row.allocator) == ("hotspot_64", "zero_copy_elide")]
    assert small.status == "unsupported" and "no copy can be dropped" in small.reason


def test_the_probes_requests_are_rows(bench: Bench) -> None:
    ran = bench.gpuheap("bench", "probe", "--runs", "30", "--output", str(bench.folder), GPUHEAP_PROGRAMS=str(BUILT / "programs"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = read_table(bench.folder / "probe.csv")
    assert {row.case for row in rows if row.status == "ok"} == {"probe_device", "probe_managed", "probe_host", "probe_async"}
    assert {row.status for row in rows if row.case == "probe_kernel"} == {"unsupported"}
    found = {(row.case, row.bytes, row.metric): row for row in rows}
    assert found["probe_device", 4096, "malloc_us"].runs == 30  # a series of 24, and one of 6
    slot, granularity = (found["probe_device", 4096, metric].statistics for metric in ("slot_bytes", "granularity"))
    assert slot is not None and slot.median >= 4096 and granularity is not None and granularity.median >= 256


def test_a_failure_of_the_runtime_ends_a_program(bench: Bench) -> None:
    ran = bench.plain("programs/lud", "2048", DOUBLE_MEMORY="4096")
    assert ran.returncode == 3 and "cudaMalloc: driver error 2" in ran.stderr


def test_a_wrong_result_ends_a_program(bench: Bench) -> None:
    # Each program sees for itself what a driver does wrong.
    ran = bench.plain("programs/hotspot", "64", DOUBLE_SPOILS_COPIES="1")
    assert ran.returncode == 4 and "wrong: a cell is not as warm as the CPU says" in ran.stdout
