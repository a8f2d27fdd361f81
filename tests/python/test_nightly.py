"""scripts/nightly: what it runs, what it writes down, and that it goes on where it stopped.

On programs that only look like the tests' own, and once on a real one."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NIGHTLY = ROOT / "scripts" / "nightly"
REAL = ROOT / "build" / "host" / "tests" / "conformance" / "host_conformance_atomic_malloc"

PROGRAM = f"""#!{sys.executable}
import os, sys, time
from pathlib import Path
folder = Path(__file__).parent
if "--gtest_list_tests" in sys.argv:
    print("Running main() from gtest_main.cc\\n{{name}}.\\n  IsPlain\\n  OneUnderManySchedules\\n  TwoUnderManySchedules")
    sys.exit(0)
first, number = int(os.environ["GPUHEAP_SIMULATOR_FIRST_SEED"]), int(os.environ["GPUHEAP_SEEDS"])
case = sys.argv[1].removeprefix("--gtest_filter=")
with (folder / "log").open("a") as log:
    log.write(f"{{{{case}}}} {{{{first}}}} {{{{number}}}}\\n")
if (folder / "slow").exists() and case.endswith("TwoUnderManySchedules"):
    (folder / "pid").write_text(str(os.getpid()))
    time.sleep(60)
bad = (folder / "bad").read_text() if (folder / "bad").exists() else ""
if bad and first <= int(bad) < first + number and case.endswith("TwoUnderManySchedules"):
    print(f"exploration.hpp:40: Failure\\nseed {{{{bad}}}}: livelock: nobody gets on\\n  schedule: ...\\n[  FAILED  ] 1 test")
    sys.exit(1)
print("[  PASSED  ] 1 test.")
"""


def fake_build(folder: Path, *names: str) -> Path:
    programs = folder / "build" / "tests" / "conformance"
    programs.mkdir(parents=True)
    for name in names:
        program = programs / f"host_conformance_{name}"
        program.write_text(PROGRAM.format(name=name))
        program.chmod(0o755)
    return folder / "build"


def nightly(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(NIGHTLY), "--output", str(folder / "out"), "--build", str(folder / "build"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def rows(folder: Path, name: str = "results.csv") -> list[dict[str, str]]:
    with (folder / "out" / name).open(newline="") as file:
        return list(csv.DictReader(file))


SCHEDULES = ("--only", "schedules", "--allocators", "atomic_malloc,sharded_spans", "--scale", "0.0002", "--chunk", "100")


def test_a_program_that_does_not_run_here_is_one_line(tmp_path: Path) -> None:
    fake_build(tmp_path, "atomic_malloc", "sharded_spans")
    complaint = "error while loading shared libraries: libboost_context.so.1.74.0: cannot open shared object file"
    (tmp_path / "build" / "tests" / "conformance" / "host_conformance_atomic_malloc").write_text(f"#!/bin/sh\necho '{complaint}' >&2\nexit 127\n")
    ran = nightly(tmp_path, *SCHEDULES)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert f"host_conformance_atomic_malloc does not run here: {complaint}" in ran.stderr


def test_each_case_runs_its_share_of_seeds_in_chunks(tmp_path: Path) -> None:
    fake_build(tmp_path, "atomic_malloc", "sharded_spans")
    ran = nightly(tmp_path, *SCHEDULES)
    assert (ran.returncode, ran.stderr) == (0, "")
    found = rows(tmp_path)
    # 200 schedules of the default allocator in each mode, 20 of the other: two cases each.
    assert {row["outcome"] for row in found} == {"passed"}
    assert sum(int(row["strong"]) for row in found if row["name"].startswith("sharded_spans/")) == 200
    assert sum(int(row["weak"]) for row in found if row["name"].startswith("atomic_malloc/")) == 20
    log = (tmp_path / "build" / "tests" / "conformance" / "log").read_text().splitlines()
    one = "sharded_spans.OneUnderManySchedules"
    assert sorted(line for line in log if line.startswith(one)) == [f"{one} 0 100", f"{one} 100 100"]
    assert "IsPlain" not in " ".join(log)
    summary = {row["name"]: row for row in rows(tmp_path, "summary.csv")}
    assert (summary["sharded_spans"]["strong"], summary["sharded_spans"]["weak"], summary["sharded_spans"]["failed"]) == ("200", "200", "0")
    ran = nightly(tmp_path, *SCHEDULES)
    assert ran.stdout.startswith("0 jobs to do, 6 done")


def test_a_kind_of_heap_is_explored_by_all_tests_of_its_program(tmp_path: Path) -> None:
    fake_build(tmp_path, "sharded_spans")
    folder = tmp_path / "build" / "tests" / "heap"
    folder.mkdir()
    (folder / "host_heap_checked_explored").write_text(PROGRAM.format(name="CheckedExplored"))
    (folder / "host_heap_checked_explored").chmod(0o755)
    ran = nightly(tmp_path, "--only", "schedules", "--allocators", "checked", "--scale", "0.0003", "--chunk", "100")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert {row["name"] for row in rows(tmp_path)} == {f"checked/{case}" for case in ("IsPlain", "OneUnderManySchedules", "TwoUnderManySchedules")}
    assert sum(int(row["weak"]) for row in rows(tmp_path)) == 30
    ran = nightly(tmp_path, "--only", "schedules", "--allocators", "hardened", "--scale", "0.0003", "--chunk", "100")
    assert ran.returncode == 2 and "--target host_heap_hardened_explored" in ran.stderr


def test_a_seed_that_fails_is_named_with_what_shows_it_again(tmp_path: Path) -> None:
    programs = fake_build(tmp_path, "atomic_malloc", "sharded_spans") / "tests" / "conformance"
    (programs / "bad").write_text("137")
    ran = nightly(tmp_path, *SCHEDULES)
    assert ran.returncode == 1
    (row,) = [row for row in rows(tmp_path) if row["outcome"] != "passed"]
    assert (row["name"], row["seed"], row["what"]) == ("sharded_spans/TwoUnderManySchedules", "137", "livelock: nobody gets on")
    assert row["replay"] == f"GPUHEAP_SIMULATOR_REPLAY=137 {programs}/host_conformance_sharded_spans --gtest_filter=sharded_spans.TwoUnderManySchedules"
    assert row["replay"] in ran.stdout
    ran = nightly(tmp_path, *SCHEDULES)
    assert ran.returncode == 1, "what failed stays in the table"


def copy_of_scripts(folder: Path) -> Path:
    """A checkout that has what scripts/nightly needs, and no table of executions."""
    copy = folder / "copy"
    shutil.copytree(ROOT / "scripts", copy / "scripts")
    (copy / "cmake").mkdir()
    shutil.copy(ROOT / "cmake" / "allocators.cmake", copy / "cmake")
    (copy / "tests" / "fuzz").mkdir(parents=True)
    return copy


def test_schedules_are_recorded_by_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = copy_of_scripts(tmp_path)
    programs = fake_build(tmp_path, "atomic_malloc", "sharded_spans") / "tests" / "conformance"
    (programs / "bad").write_text("13")
    words = ("--only", "schedules", "--scale", "0.0002", "--chunk", "10", "--record")
    monkeypatch.setenv("GPUHEAP_COMMIT", "a" * 40)
    command = [str(copy / "scripts" / "nightly"), "--output", str(tmp_path / "out"), "--build", str(tmp_path / "build"), *words]
    for allocators, code in (("atomic_malloc", 1), ("atomic_malloc", 1), ("sharded_spans", 1)):
        ran = subprocess.run([*command, "--allocators", allocators], capture_output=True, text=True, timeout=60, check=False)
        assert (ran.returncode, ran.stderr) == (code, "")
    with (copy / "tests" / "fuzz" / "executions.csv").open(newline="") as file:
        found = {row["target"]: row for row in csv.DictReader(file)}
    # The second run had nothing to do, and adds nothing. The seeds of weak schedules are odd.
    assert {name: (row["executions"], row["findings"]) for name, row in found.items()} == {
        "atomic_malloc, strong": ("20", "0"),
        "atomic_malloc, weak": ("20", "1"),
        "sharded_spans, strong": ("200", "0"),
        "sharded_spans, weak": ("200", "1"),
    }
    monkeypatch.setenv("GPUHEAP_COMMIT", "abc")
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2 and "a whole commit, 40 digits, and GPUHEAP_COMMIT is 'abc'" in ran.stderr


def test_it_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    programs = fake_build(tmp_path, "atomic_malloc", "sharded_spans") / "tests" / "conformance"
    (programs / "slow").touch()
    command = [str(NIGHTLY), "--output", str(tmp_path / "out"), "--build", str(tmp_path / "build"), *SCHEDULES, "--jobs", "1"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 30
    while not (programs / "pid").exists() and time.monotonic() < until:
        time.sleep(0.02)
    child = int((programs / "pid").read_text() or 0)
    began = time.monotonic()
    running.send_signal(signal.SIGINT)
    said, errors = running.communicate(timeout=30)
    assert time.monotonic() - began < 20
    assert running.returncode == 130, said + errors
    assert errors == "stopped: the same command continues\n"
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    done = rows(tmp_path)
    assert done
    assert all(row["outcome"] == "passed" for row in done)
    (programs / "slow").unlink()
    log = programs / "log"
    log.unlink()
    assert nightly(tmp_path, *SCHEDULES).returncode == 0
    assert len(rows(tmp_path)) == 6
    assert len(log.read_text().splitlines()) == 6 - len(done)


def test_a_row_that_was_half_written_is_done_again(tmp_path: Path) -> None:
    fake_build(tmp_path, "atomic_malloc", "sharded_spans")
    assert nightly(tmp_path, *SCHEDULES).returncode == 0
    table = tmp_path / "out" / "results.csv"
    text = table.read_text()
    table.write_text(text[: text.rstrip().rindex("\n") + 20])
    ran = nightly(tmp_path, *SCHEDULES)
    assert ran.stdout.startswith("1 jobs to do, 5 done")
    assert len(rows(tmp_path)) == 6


SOAK = ("--only", "soak", "--scale", "0.1", "--allocators")


def fake_bench(folder: Path) -> Path:
    """A benchmark whose soak passes, is not possible or finds a wrong block, as the allocator says."""
    bench = folder / "bench"
    bench.write_text(f"""#!{sys.executable}
import json, sys
name = sys.argv[sys.argv.index("--allocator") + 1]
status = {{"sharded_spans": "ok", "atomic_malloc": "unsupported"}}.get(name, "wrong")
print(json.dumps({{"begin": 0}}))
print(json.dumps({{"status": status, "reason": "" if status == "ok" else "why", "words": sys.argv[1:]}}))
""")
    bench.chmod(0o755)
    return bench


def test_a_soak_is_recorded_by_allocator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = copy_of_scripts(tmp_path)
    monkeypatch.setenv("GPUHEAP_COMMIT", "a" * 40)
    words = (*SOAK, "sharded_spans,atomic_malloc,halloc", "--record", "--bench", str(fake_bench(tmp_path)))
    command = [str(copy / "scripts" / "nightly"), "--output", str(tmp_path / "out"), *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (1, "")
    with (copy / "tests" / "fuzz" / "executions.csv").open(newline="") as file:
        found = {row["target"]: (row["executions"], row["findings"]) for row in csv.DictReader(file)}
    assert found == {"sharded_spans, soak": ("10", "0"), "halloc, soak": ("0", "1")}


def test_a_soak_is_a_row_for_each_allocator(tmp_path: Path) -> None:
    bench = fake_bench(tmp_path)
    ran = nightly(tmp_path, *SOAK, "sharded_spans,atomic_malloc,halloc", "--bench", str(bench))
    assert ran.returncode == 1
    found = {row["name"]: row for row in rows(tmp_path)}
    assert (found["sharded_spans"]["outcome"], found["atomic_malloc"]["outcome"], found["halloc"]["outcome"]) == ("passed", "unsupported", "failed")
    assert found["halloc"]["what"] == "wrong: why"
    # The others get a smaller heap than the default, and options count more than both.
    assert "seconds=6,threads=8192,bytes=16384 --heap-bytes 256MiB" in found["halloc"]["replay"]
    ran = nightly(tmp_path, *SOAK, "halloc", "--bench", str(bench), "--fresh", "--soak-point", "bytes=64,slots=2", "--heap-bytes", "1GiB")
    assert "seconds=6,threads=8192,bytes=64,slots=2 --heap-bytes 1GiB" in rows(tmp_path)[0]["replay"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--scale", "0"), "--scale is 0.0"),
        (("--chunk", "3"), "--chunk is an even number"),
        (("--allocators", "hoard"), "there is no allocator 'hoard'"),
        (("--only", "schedules", "--allocators", "halloc"), "host_conformance_halloc is not there"),
        (("--only", "soak", "--bench", "/nonexistent/bench"), "/nonexistent/bench is not there"),
        (("--only", "soak", "--soak-point", "bytes=64,slots"), "'slots' is no parameter with a value"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, words: tuple[str, ...], text: str) -> None:
    fake_build(tmp_path, "atomic_malloc")
    ran = nightly(tmp_path, *words)
    assert ran.returncode == 2
    assert text in ran.stderr


def test_tables_of_another_scale_are_not_added_to(tmp_path: Path) -> None:
    fake_build(tmp_path, "atomic_malloc")
    assert nightly(tmp_path, "--only", "schedules", "--allocators", "atomic_malloc", "--scale", "0.0001").returncode == 0
    ran = nightly(tmp_path, "--only", "schedules", "--allocators", "atomic_malloc", "--scale", "0.0002")
    assert ran.returncode == 2
    assert "begin anew with --fresh" in ran.stderr
    assert nightly(tmp_path, "--only", "schedules", "--allocators", "atomic_malloc", "--scale", "0.0002", "--fresh").returncode == 0
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["scale"] == 0.0002


def test_a_copy_without_git_says_which_commit_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_build(tmp_path, "atomic_malloc")
    few = ("--only", "schedules", "--allocators", "atomic_malloc", "--scale", "0.0001")
    monkeypatch.setenv("GPUHEAP_COMMIT", "a" * 40)
    assert nightly(tmp_path, *few).returncode == 0
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["commit"] == "a" * 40
    monkeypatch.setenv("GPUHEAP_COMMIT", "b" * 40)
    assert "has results of commit aaaaaaaaaaaa" in nightly(tmp_path, *few).stderr


@pytest.mark.skipif(not REAL.exists(), reason="explorations of the nightly run: the conformance tests are not built: run ./test")
def test_real_explorations(tmp_path: Path) -> None:
    (tmp_path / "build").symlink_to(ROOT / "build" / "host")
    ran = nightly(tmp_path, "--only", "schedules", "--allocators", "atomic_malloc", "--scale", "0.0002", "--chunk", "20")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert sum(int(row["weak"]) for row in rows(tmp_path)) >= 20
