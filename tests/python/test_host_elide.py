"""Pairs whose downloads need no copy: what a validation run proves and refuses, and that a program prints the same with copies dropped, whatever it does."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from host_merging import counters, errors, merged, planned, proven, rehearsed
from host_tools import BUILT, Bench, needs_double

from gpuheap.host import rehearsal
from gpuheap.host.history import history_of
from gpuheap.host.pairs import NAMED_ELSEWHERE, ON_DEVICE, SEVERAL_DEVICES, SEVERAL_HOSTS
from gpuheap.host.rehearsal import ELSEWHERE, FIXED, verdicts

pytestmark = needs_double

PAIRS = "host_pairs"
BUFFER = 70_001 * 4
GOES_ON, WRITTEN = rehearsal._ENDS[2], rehearsal._ENDS[3]
# The actions that a run may take after its download was merged, and the downloads that are then elided, copied later, and copied at once.
STRAYS = {
    "nothing": (1, 0, 0), "launch": (1, 1, 0), "write and launch": (1, 1, 0), "set": (1, 1, 0), "upload": (1, 1, 0), "on device": (1, 1, 0),
    "by address": (1, 1, 0), "free and reuse": (1, 1, 0), "stream": (1, 1, 0), "capture": (1, 0, 1), "reset": (1, 1, 0), "protect": (1, 0, 0),
    "discard": (1, 0, 0), "register": (1, 0, 1), "part": (1, 0, 1), "offset": (1, 0, 1), "fork": (1, 1, 0), "grow": (1, 0, 0), "shrink": (1, 0, 0),
    "stream before": (0, 0, 1),
}  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_three_up_kernels_and_the_same_three_down_need_no_copies_down(bench: Bench) -> None:
    found = rehearsed(bench, PAIRS, "model")
    assert [(each.downloads, each.bytes, each.why) for each in found] == [(1, BUFFER, "")] * 3
    assert bench.log()["cuMemcpyDtoH"] == 3
    ran = merged(bench, "elide", planned(bench, proven(found)), PAIRS, "model")
    assert ran.stdout == bench.plain(PAIRS, "model").stdout and ran.stderr == "" and ran.returncode == 0
    assert counters(bench) == (3, 0, 0) and bench.trace("pool").counters["elided_bytes"] == 3 * BUFFER
    assert bench.log()["cuMemcpyDtoH"] == 0 and bench.log()["cuMemcpyHtoD"] == 3
    # As the copies did, each waits for the device.
    assert bench.log()["cuStreamSynchronize"] == 3


def test_buffers_that_come_and_go_need_none(bench: Bench) -> None:
    found = rehearsed(bench, PAIRS, "rounds", "20")
    assert [(each.downloads, each.why) for each in found] == [(20, "")]
    ran = merged(bench, "elide", planned(bench, proven(found)), PAIRS, "rounds", "20")
    assert ran.stdout == bench.plain(PAIRS, "rounds", "20").stdout and errors(ran) == [] and counters(bench) == (20, 0, 0)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("reads_on", [GOES_ON]), ("writes_between", [WRITTEN]), ("parts", [rehearsal.PARTS]), ("offsets", [rehearsal.PARTS]),
        ("several_hosts", [SEVERAL_HOSTS]), ("several_devices", [SEVERAL_DEVICES] * 2), ("asynchronous", [rehearsal.ASYNCHRONOUS]),
        ("not_of_the_heap", [rehearsal.NOT_OF_THE_HEAP] * 2),
    ],
)  # fmt: skip
def test_what_is_no_pair_is_refused_and_printed_right_even_if_merged(bench: Bench, pattern: str, why: list[str]) -> None:
    assert [each.why for each in rehearsed(bench, PAIRS, pattern)] == why
    assert_same_with_all_pairs(bench, pattern, "3")


@pytest.mark.parametrize(
    ("stray", "why"),
    [("launch", GOES_ON), ("write and launch", SEVERAL_HOSTS), ("set", GOES_ON), ("on device", ON_DEVICE), ("stream", GOES_ON),
     ("stream before", ELSEWHERE), ("protect", FIXED), ("discard", FIXED), ("register", rehearsal.NOT_OF_THE_HEAP),
     ("capture", NAMED_ELSEWHERE), ("upload", SEVERAL_HOSTS), ("part", rehearsal.PARTS), ("die", rehearsal.NOT_ENDED)],
)  # fmt: skip
def test_what_a_validation_run_does_besides_is_seen(bench: Bench, stray: str, why: str) -> None:
    bench.traced(PAIRS, "straying")
    merged(bench, "rehearse", planned(bench), PAIRS, "straying", PAIRS_STRAY=stray)
    found = verdicts([history_of(trace) for trace in bench.traces("pool")])
    assert why in {each.why for each in found} and proven(found) == []


@pytest.mark.parametrize("stray", STRAYS)
def test_a_run_that_strays_from_the_validated_one_prints_what_it_prints_plain(bench: Bench, stray: str) -> None:
    pairs = proven(rehearsed(bench, PAIRS, "straying"))
    assert len(pairs) == 1
    plain = bench.plain(PAIRS, "straying", PAIRS_STRAY=stray)
    ran = merged(bench, "elide", planned(bench, pairs), PAIRS, "straying", PAIRS_STRAY=stray)
    assert plain.returncode == ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    if stray != "fork":
        assert counters(bench) == STRAYS[stray]
        assert ("E09" in errors(ran)) == (STRAYS[stray][1:] != (0, 0))


@pytest.mark.parametrize(("stray", "code"), [("die", -9), ("abort", -6)])
def test_a_program_that_dies_leaves_its_output_and_its_counts(bench: Bench, stray: str, code: int) -> None:
    pairs = proven(rehearsed(bench, PAIRS, "straying"))
    plain = bench.plain(PAIRS, "straying", PAIRS_STRAY=stray)
    ran = merged(bench, "elide", planned(bench, pairs), PAIRS, "straying", PAIRS_STRAY=stray)
    assert (ran.returncode, ran.stdout) == (plain.returncode, plain.stdout) == (code, plain.stdout)
    assert counters(bench) == (1, 0, 0) and not bench.trace("pool").ended


def sites_of(bench: Bench) -> list[tuple[int, int]]:
    """Every place that a rehearsal's trace names, with every device buffer's: more than all pairs."""
    (trace,) = bench.traces("pool")
    stacks = {stack.site for stack in trace.stacks.values()}
    devices = {trace.stacks[each.stack].site for each in history_of(trace).allocations}
    return list(itertools.product(sorted(stacks), sorted(devices)))


def assert_same_with_all_pairs(bench: Bench, *words: str) -> tuple[int, int, int]:
    ran = merged(bench, "elide", planned(bench, sites_of(bench)), PAIRS, *words)
    plain = bench.plain(PAIRS, *words)
    assert (ran.returncode, ran.stdout) == (plain.returncode, plain.stdout), ran.stderr
    return counters(bench)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_programs_by_lot_print_the_same_with_every_pair_merged(bench: Bench, first: int) -> None:
    # The program reads the same values, whether or not it was validated.
    totals = [0, 0, 0]
    for seed in range(first, first + 20):
        rehearsed(bench, PAIRS, "by_lot", str(seed))
        totals = [a + b for a, b in zip(totals, assert_same_with_all_pairs(bench, "by_lot", str(seed)), strict=True)]
    assert totals[0] > 100 and totals[1] > 50, totals


def test_programs_by_lot_print_the_same_with_the_proven_pairs_merged(bench: Bench) -> None:
    num_proven = 0
    for seed in range(12):
        found = rehearsed(bench, PAIRS, "mixed", str(seed))
        pairs = proven(found)
        ran = merged(bench, "elide", planned(bench, pairs), PAIRS, "mixed", str(seed))
        assert ran.stdout == bench.plain(PAIRS, "mixed", str(seed)).stdout and errors(ran) == []
        assert ran.stdout.endswith(f"{len(pairs)} pairs\n")
        assert counters(bench) == (sum(each.downloads for each in found if each.proven), 0, 0)
        num_proven += len(pairs)
    assert num_proven > 20


def test_a_thread_that_writes_while_its_buffer_is_separated_loses_nothing(bench: Bench) -> None:
    rehearsed(bench, PAIRS, "contended", "1")
    assert assert_same_with_all_pairs(bench, "contended", "1")[:2] == (1, 1)


def test_downloads_in_the_streams_of_threads_stay_copies(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAIRS_WAY", "per-thread")
    assert [each.why for each in rehearsed(bench, PAIRS, "model")] == [ELSEWHERE] * 3
    assert assert_same_with_all_pairs(bench, "model") == (0, 0, 0)


def test_pairs_that_the_program_does_not_have_change_nothing(bench: Bench) -> None:
    found = rehearsed(bench, PAIRS, "model")
    for pairs in ([], [(1, 2)], [(proven(found)[0][0], 2)]):
        ran = merged(bench, "elide", planned(bench, pairs), PAIRS, "model")
        assert ran.stdout == bench.plain(PAIRS, "model").stdout and counters(bench) == (0, 0, 0)


def test_memory_that_the_driver_does_not_register_leaves_all_copies(bench: Bench) -> None:
    found = rehearsed(bench, PAIRS, "model")
    for variables in ({"DOUBLE_NO_REGISTER": "800"}, {"DOUBLE_NO_ATTRIBUTE": "91"}):
        ran = merged(bench, "elide", planned(bench, proven(found)), PAIRS, "model", **variables)
        assert ran.stdout == bench.plain(PAIRS, "model").stdout and errors(ran) == ["E08"] and counters(bench) == (0, 0, 0)


@pytest.mark.parametrize("pattern", ["rounds", "phases", "kinds", "leak", "threads", "forks", "twice", "captures", "resets", "own_context", "releases"])
def test_other_programs_run_as_before_with_every_pair_merged(bench: Bench, pattern: str) -> None:
    plain = bench.traced("host_patterns", "dlsym", pattern)
    merged(bench, "rehearse", planned(bench), "host_patterns", "dlsym", pattern)
    traces = bench.traces("pool")
    sites = sorted({stack.site for trace in traces for stack in trace.stacks.values()})[:40]
    ran = merged(bench, "elide", planned(bench, list(itertools.product(sites, sites))), "host_patterns", "dlsym", pattern)
    assert ran.returncode == plain.returncode and sorted(ran.stdout.splitlines()) == sorted(plain.stdout.splitlines()), ran.stderr


def test_the_commands_prove_and_drop(bench: Bench, error_line) -> None:
    program = str(BUILT / PAIRS)
    pool = ("host", "pool", "--mode", "zero-copy", "--elide")
    assert bench.gpuheap("host", "trace", "--", program, "model", "5").returncode == 0
    assert "E09: host_pairs.proof does not exist" in error_line(bench.gpuheap(*pool, "--", program, "model", "5"))
    ran = bench.gpuheap("host", "validate", "--", program, "model", "5")
    assert ran.returncode == 0 and ran.stdout == "" and "3 downloads, 820 KiB, need no copy" in ran.stderr
    assert not (bench.folder / "host_pairs.validation").exists()
    ran = bench.gpuheap(*pool, "--strict", "--", program, "model", "5")
    assert ran.stdout == bench.plain(PAIRS, "model", "5").stdout and "3 downloads needed no copy, 820 KiB" in ran.stderr
    (counted,) = bench.report("host_pairs.pool")
    assert counted["counters"]["elided"] == 3 and "3 downloads needed no copy, 820 KiB" in counted["notes"]
    for words, expected in (
        ((*pool, "--", program, "model", "6"), "E09: host_pairs.proof is of other arguments"),
        (("host", "pool", "--mode", "device", "--elide", "--", program, "model", "5"), "--elide is for --mode zero-copy"),
    ):
        assert expected in error_line(bench.gpuheap(*words))
    proof = bench.folder / "host_pairs.proof"
    whole = proof.read_text()
    for changed, expected in (
        (whole.replace(" 3\n", " 4\n").replace("pair ", "pair 0", 1), "was cut short or changed by hand"),
        ("something else\n", "is not a proof of this version: it begins with 'something else'"),
        ("", "is not a proof of this version"),
    ):
        proof.write_text(changed)
        assert expected in error_line(bench.gpuheap(*pool, "--", program, "model", "5"))
    proof.write_text(whole)
    assert bench.gpuheap("host", "trace", "--", program, "rounds", "5").returncode == 0
    assert "E09: host_pairs.proof is of another profile" in error_line(bench.gpuheap(*pool, "--", program, "model", "5"))


def test_advice_measures_it_as_a_mode(bench: Bench) -> None:
    words = ("host", "advise", "--elide", "--no-ncu", "--runs", "2", "--json", "--")
    ran = bench.gpuheap(*words, str(BUILT / PAIRS), "model")
    assert ran.returncode == 0, ran.stderr
    modes = {mode["name"]: mode for mode in json.loads(ran.stdout)["modes"]}
    assert not modes["elide"]["barred"], modes
    samples = [json.loads(line) for line in (bench.folder / "host_pairs.advice" / "samples.jsonl").read_text().splitlines()]
    assert [sample["counters"]["elided"] for sample in samples if sample["mode"] == "elide"] == [3, 3]
    assert len({sample["output"] for sample in samples}) == 1
    ran = bench.gpuheap(*words, str(BUILT / PAIRS), "reads_on")
    assert ran.returncode == 0 and "the mode 'elide' is left out" in ran.stderr and "elide" not in {mode["name"] for mode in json.loads(ran.stdout)["modes"]}


@pytest.mark.parametrize(("case", "size", "downloads"), [("hotspot", "512", 1), ("backprop", "65536", 1), ("gaussian", "3", 0)])
def test_whole_programs_drop_what_they_prove(bench: Bench, case: str, size: str, downloads: int) -> None:
    words = (f"programs/{case}", size)
    found = rehearsed(bench, *words)
    ran = merged(bench, "elide", planned(bench, proven(found)), *words)
    assert ran.stdout == bench.plain(*words).stdout and errors(ran) == [] and counters(bench) == (downloads, 0, 0), found


def test_a_validation_without_a_pair_or_with_other_output_proves_nothing(bench: Bench) -> None:
    program = str(BUILT / PAIRS)
    assert bench.gpuheap("host", "trace", "--", program, "reads_on").returncode == 0
    ran = bench.gpuheap("host", "validate", "--", program, "reads_on")
    assert ran.returncode == 1 and "no pair is proven" in ran.stderr
    assert not (bench.folder / "host_pairs.proof").exists()
    script = bench.folder / "tells_the_time"
    script.write_text(f"#!/bin/sh\ndate +%s%N\nexec {program} model\n")
    script.chmod(0o755)
    words = ("--only", PAIRS, "--", str(script))
    assert bench.gpuheap("host", "trace", *words).returncode == 0
    ran = bench.gpuheap("host", "validate", *words)
    assert ran.returncode == 1 and "printed other bytes than the plain run" in ran.stderr and not (bench.folder / "tells_the_time.proof").exists()
    ran = bench.gpuheap("host", "validate", "--ignore", r"^\d+$", *words)
    assert ran.returncode == 0 and (bench.folder / "tells_the_time.proof").exists(), ran.stderr
