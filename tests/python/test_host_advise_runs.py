"""`gpuheap host advise` over programs on the driver double, with a stand-in for Nsight Compute."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from host_tools import BUILT, NOT_BUILT, Bench, needs_double

pytestmark = needs_double

PROGRAM = str(BUILT / "host_patterns")
HEAPS = BUILT / "heaps"
ROUNDS = (PROGRAM, "dlsym", "rounds", "4")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def advised(bench: Bench, *words: str, **variables: str) -> dict[str, Any]:
    ran = bench.gpuheap("host", "advise", "--json", *words, **variables)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def barred(found: dict[str, Any]) -> dict[str, str]:
    return {mode["name"]: mode["barred"] for mode in found["modes"]}


def with_ncu(bench: Bench) -> dict[str, str]:
    tools = bench.folder / "tools"
    tools.mkdir(exist_ok=True)
    if not (tools / "ncu").exists():
        (tools / "ncu").write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("fake_ncu.py")} "$@"\n')
        (tools / "ncu").chmod(0o755)
    return {"PATH": f"{tools}:{os.environ['PATH']}"}


def test_every_mode_is_measured_in_turns_and_the_samples_make_the_same_advice_again(bench: Bench) -> None:
    found = advised(bench, "--runs", "5", "--no-ncu", "--", *ROUNDS)
    assert set(barred(found).values()) == {""} and list(barred(found)) == ["plain", "device", "zero-copy", "unified"]
    assert [mode["runs"] for mode in found["modes"]] == [5] * 4
    assert found["session"]["program"] == {
        "allocations": 8, "frees": 8, "copies": 8, "copied_bytes": 36800, "largest_copy_bytes": 5200, "launches": 8, "kernels": 2, "dynamic_shared": False
    }  # fmt: skip
    lines = [json.loads(line) for line in (bench.folder / "host_patterns.advice" / "samples.jsonl").read_text().splitlines()]
    assert [line["mode"] for line in lines[:9]] == ["plain", "device", "zero-copy", "unified", "device", "zero-copy", "unified", "plain", "zero-copy"]
    for line in lines:
        assert line["counters"]["served"] == (0 if line["mode"] == "plain" else 8) and line["counters"]["driver_allocations"] == 0
        assert set(line["launches"]) == {"add_one", "scale"} and line["total_ns"] > line["span_ns"] > sum(line["calls"].values()) > 0
        assert sum(line["functions"].values()) == sum(line["calls"].values())
    kept = sorted(path.name for path in (bench.folder / "host_patterns.advice").iterdir())
    assert kept == ["about.json", "plans", "profile", "report.html", "samples.jsonl"]
    page = (bench.folder / "host_patterns.advice" / "report.html").read_text()
    assert page.count("<svg") == 7 and not re.search(r'(src|href)="(?!#)', page)
    (bench.folder / "host_patterns.advice" / "report.html").unlink()
    assert advised(bench, "--from", "host_patterns.advice") == found
    assert (bench.folder / "host_patterns.advice" / "report.html").exists()
    ran = bench.gpuheap("host", "advise", "--from", "host_patterns.advice")
    assert "whole program, mean time: " in ran.stdout and "there are 5" in ran.stdout and "report: host_patterns.advice/report.html" in ran.stdout


def test_metrics_come_from_nsight_compute_where_it_is(bench: Bench) -> None:
    found = advised(bench, "--runs", "5", "--", *ROUNDS, **with_ncu(bench))
    assert [rule["outcome"] for rule in found["rules"]["rules"]] == ["fired", "silent", "silent", "fired", "fired", "fired"]
    assert found["rules"]["decided"]["number"] == 1 and [rule["number"] for rule in found["rules"]["conflicts"]] == [4, 5, 6]
    assert found["metrics"]["dram_bytes"] == 8e6 and found["unknown"] == []
    assert {row["name"]: row["ratios"]["unified"] for row in found["kernels"]} == {"_Z5scalePjPKjj": 1.0, "_Z7add_onePjPKjj": 1.0}
    assert "over the bus" in found["rules"]["caution"]
    page = (bench.folder / "host_patterns.advice" / "report.html").read_text()
    assert page.count("<svg") == 8 and "long scoreboard" in page


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("forbidden", "rules 1, 2, 5, 6 could not be evaluated: Nsight Compute may not read"), ("silent", "No kernels were profiled"),
        ("lacking", "rule 1 could not be"),
    ],
)
def test_what_nsight_compute_does_not_tell_is_said(bench: Bench, state: str, words: str) -> None:
    found = advised(bench, "--runs", "2", "--", *ROUNDS, **with_ncu(bench), FAKE_NCU=state)
    assert words in found["unknown"][0]


@pytest.mark.skipif(not (HEAPS / "libgpuheap_host_heap_scatteralloc.so").exists(), reason=NOT_BUILT)
@pytest.mark.whole
def test_heaps_of_allocators_are_measured_too(bench: Bench, error_line) -> None:
    found = advised(bench, "--runs", "5", "--no-ncu", "--heap", "scatteralloc", "--", *ROUNDS, GPUHEAP_HOST_HEAPS=str(HEAPS))
    assert barred(found) == dict.fromkeys(("plain", "device", "zero-copy", "unified", "heap:scatteralloc"), "")
    assert found["steady_rules"][0]["outcome"] in ("fired", "silent")
    assert "is not an allocator" in error_line(bench.gpuheap("host", "advise", "--heap", "nothing", "--", *ROUNDS))


@pytest.mark.whole
def test_a_mode_that_the_device_lacks_is_told_and_not_recommended(bench: Bench) -> None:
    found = advised(bench, "--runs", "2", "--no-ncu", "--", *ROUNDS, DOUBLE_NO_ATTRIBUTE="19")
    assert barred(found)["zero-copy"].startswith("no request was served from a pool (E08") and barred(found)["device"] == ""


def test_a_mode_whose_output_differs_is_told_and_not_recommended(bench: Bench) -> None:
    script = f'test "$GPUHEAP_HOST_POOL" = device && echo other; exec {" ".join(ROUNDS)}'
    found = advised(bench, "--runs", "2", "--no-ncu", "--only", "host_patterns", "--", "sh", "-c", script)
    assert "differed from plain's in 2 of 2 runs" in barred(found)["device"] and barred(found)["unified"] == ""


@pytest.mark.whole
def test_lines_that_differ_from_run_to_run_can_be_left_out(bench: Bench) -> None:
    words = ("--runs", "2", "--no-ncu", "--only", "host_patterns", "--", "sh", "-c", f"echo it took $$ ms; exec {' '.join(ROUNDS)}")
    assert "--ignore" in barred(advised(bench, *words))["device"]
    assert set(barred(advised(bench, "--ignore", "took .* ms", *words)).values()) == {""}


def test_a_mode_that_crashes_is_left_out_after_three_runs(bench: Bench) -> None:
    script = f'test "$GPUHEAP_HOST_POOL" = unified && kill -SEGV $$; exec {" ".join(ROUNDS)}'
    found = advised(bench, "--runs", "5", "--no-ncu", "--only", "host_patterns", "--", "sh", "-c", script)
    assert "of 3 runs, 3 runs could not be started or were ended by a signal" in barred(found)["unified"]
    assert {mode["name"]: mode["runs"] for mode in found["modes"]} == {"plain": 5, "device": 5, "zero-copy": 5, "unified": 0}


def test_interrupted_it_keeps_the_runs_and_says_what_they_tell(bench: Bench) -> None:
    command = [sys.executable, "-m", "gpuheap", "host", "advise", "--runs", "5000", "--no-ncu", "--", *ROUNDS]
    process = subprocess.Popen(command, cwd=bench.folder, env=bench.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    samples = bench.folder / "host_patterns.advice" / "samples.jsonl"
    until = time.monotonic() + 60
    while not (samples.exists() and len(samples.read_text().splitlines()) >= 24) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted: the advice is from the runs so far" in err and "Traceback" not in err
    assert "whole program, mean time: " in out and len(advised(bench, "--from", "host_patterns.advice")["modes"]) == 4


def test_mistakes_are_told_in_a_line(bench: Bench, error_line) -> None:
    (bench.folder / "mine").mkdir()
    (bench.folder / "mine" / "notes.txt").write_text("x")
    for words, expected in (
        ((), "name either the program to run"),
        (("--from", "nothing"), "nothing holds no samples"),
        (("--from", "mine", "--", PROGRAM), "name either the program to run"),
        (("-o", "mine", "--", PROGRAM), "mine holds other files ('notes.txt')"),
        (("--ignore", "(", "--", PROGRAM), "'(' is not a regular expression"),
        (("--", "no-such-program"), "is not a program that can be run"),
    ):
        assert expected in error_line(bench.gpuheap("host", "advise", *words)), words
    ran = bench.gpuheap("host", "advise", "--", sys.executable, "-c", "1")
    assert ran.returncode == 2 and "no process named python3" in ran.stderr.splitlines()[-1] and "Traceback" not in ran.stderr
