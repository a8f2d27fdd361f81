"""scripts/side_by_side.py, which compares builds of the benchmark point by point."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from fake_checkout import REPOSITORY, Checkout

SCRIPT = REPOSITORY / "scripts" / "side_by_side.py"


def compare(checkout: Checkout, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *words]
    return subprocess.run(command, cwd=checkout.root, env=checkout.variables(), capture_output=True, text=True, timeout=120, check=False)


def builds(checkout: Checkout) -> tuple[str, str]:
    return f"before={checkout.bench}", f"after={checkout.bench}"


def test_builds_take_turns_at_each_point(checkout: Checkout) -> None:
    log = checkout.root / "all.jsonl"
    ran = compare(checkout, *builds(checkout), "--rounds", "3", "--jsonl", str(log), "--", "mini/alloc_single")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == 5 * 2, "five points of two metrics"
    assert lines[0].startswith("alloc_single threads=100,bytes=16,state=warm malloc_us: before ")
    assert lines[0].count(" / ") == 2 * 2, "the medians of three rounds for each build"
    assert "(" in lines[0].split("after")[1] and "(" not in lines[0].split("after")[0], "a ratio to the first build"
    turns = [json.loads(line)[3:5] for line in log.read_text().splitlines()[:6]]
    assert turns == [["before", 0], ["after", 0], ["before", 1], ["after", 1], ["before", 2], ["after", 2]]


def test_a_point_that_fails_is_told_and_the_others_go_on(checkout: Checkout) -> None:
    broken = checkout.root / "broken"
    broken.write_text("#!/bin/sh\necho its reason >&2\nexit 3\n")
    broken.chmod(0o755)
    ran = compare(checkout, f"before={checkout.bench}", f"after={broken}", "--", "mini/churn")
    assert ran.returncode == 1
    assert "after exit code 3: its reason" in ran.stderr
    assert "before" in ran.stdout
    broken.chmod(0o644)
    ran = compare(checkout, f"before={checkout.bench}", f"after={broken}", "--", "mini/churn")
    assert ran.returncode == 1
    assert "after does not start: Permission denied" in ran.stderr
    broken.write_text("#!/bin/sh\necho '{ no JSON'\n")
    broken.chmod(0o755)
    ran = compare(checkout, f"before={checkout.bench}", f"after={broken}", "--", "mini/churn")
    assert "after exit code 0: says nothing" in ran.stderr


def test_mistakes_are_one_line(checkout: Checkout, tmp_path: Path) -> None:
    one, other = builds(checkout)
    for words, said in (
        ((one, "--", "mini"), "a comparison needs two builds"),
        ((one, other), "no point is named"),
        ((one, "after=/nowhere", "--", "mini"), "after: /nowhere is not a file"),
        ((one, "gpuheap-bench", "--", "mini"), "'gpuheap-bench' names no build"),
        ((one, one, "--", "mini"), "two builds are called 'before'"),
        ((one, other, "--", "nothing"), "unknown suite or case 'nothing'"),
        ((one, other, "--rounds", "0", "--", "mini"), "numbers from 1 on"),
        ((one, other, "--jsonl", str(tmp_path), "--", "mini"), f"{tmp_path}: Is a directory"),
    ):
        ran = compare(checkout, *words)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert said in ran.stderr
        assert len(ran.stderr.splitlines()) == 1
