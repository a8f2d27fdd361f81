"""The fuzz targets: each runs its corpus and some thousand inputs more; what runs in pieces adds up, in a run and in the committed table."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from extent import in_full

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import fuzz_record  # noqa: E402  (of the folder above)
import nightly_fuzz as fuzz  # noqa: E402
import nightly_properties as properties  # noqa: E402

# By day two targets, which take a fifth of the time to compile; scripts/nightly_fuzz.py runs all.
RUN = fuzz.TARGETS if in_full() else ("plan", "ply")
# The C interface makes a heap in most executions.
EXECUTIONS = {"capi": 300}


@pytest.fixture(scope="module")
def built() -> Path:
    try:
        fuzz.build(fuzz.find_clang(), targets=() if in_full() else RUN)
    except fuzz.CannotRun as error:
        if "no clang++" in str(error):
            pytest.skip(f"the fuzz targets: {error}")
        raise
    return fuzz.BUILD


@pytest.mark.parametrize("target", RUN)
def test_nothing_is_found(built: Path, target: str) -> None:
    if not (built / target).exists():
        pytest.skip("the fuzz targets of CUDA programs: no cuda_runtime_api.h: install the CUDA toolkit, 13.0 or newer")
    outcome = fuzz.run(target, EXECUTIONS.get(target, 6000), 20, 1)
    assert outcome.finding is None, f"{outcome.text}: {outcome.finding}"
    assert outcome.executions > 50


def test_the_corpora_are_small() -> None:
    for target in fuzz.TARGETS:
        files = list((fuzz.CORPUS / target).iterdir())
        assert files, target
        assert sum(file.stat().st_size for file in files) < 12_000, target


def test_a_target_that_is_not_there_is_refused() -> None:
    ran = subprocess.run([sys.executable, str(ROOT / "scripts" / "nightly_fuzz.py"), "tracks"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "there is no target 'tracks'" in ran.stderr


# A target that says how many executions it made: as many as it was asked for, but 400 at most.
COUNTING = """#!/bin/sh
for word in "$@"; do case $word in -runs=*) runs=${word#-runs=};; esac; done
[ "$runs" -gt 400 ] && runs=400
echo "stat::number_of_executed_units: $runs" >&2
"""


def test_executions_add_up_until_there_are_enough(tmp_path: Path) -> None:
    target = tmp_path / "trace"
    target.write_text(COUNTING)
    target.chmod(0o755)
    table = tmp_path / "executions.csv"

    def night(executions: int) -> fuzz.Tally:
        tally = fuzz.Tally(table)
        assert fuzz.Night(executions, 0, 1, tally, tmp_path).run(["trace"], 2) == []
        return fuzz.Tally(table)

    build = fuzz.build_of("trace", tmp_path)
    assert night(1000).of("trace", build) == 1000
    assert [line.split(",")[3] for line in table.read_text().splitlines()[1:]] == ["400", "400", "200"]
    with table.open("a") as file:
        file.write("2026-11-24T00:00:00Z,trace," + build + ",12")  # the machine stopped here
    assert night(1500).of("trace", build) == 1500
    target.write_text(COUNTING + "# another build\n")
    assert night(300).of("trace", fuzz.build_of("trace", tmp_path)) == 300


# A target that takes a while, notes how it was called, and says that it made 1000 executions, or as many as it was asked for.
NOTING = """#!/bin/sh
for word in "$@"; do case $word in -runs=*) runs=${word#-runs=};; -seed=*) seed=${word#-seed=};; esac; done
echo "begin $seed $runs" >> "$0.log"
sleep SECONDS
[ "$runs" -gt 1000 ] && runs=1000
echo "end $seed $runs" >> "$0.log"
echo "stat::number_of_executed_units: $runs" >&2
"""


def noted(target: Path) -> tuple[list[str], list[int], int]:
    """The seeds, the executions, and the most processes of a target at the same time."""
    seeds, made, running, most = [], [], 0, 0
    for line in (target.parent / f"{target.name}.log").read_text().splitlines():
        what, seed, runs = line.split()
        running += 1 if what == "begin" else -1
        most = max(most, running)
        if what == "end":
            seeds.append(seed)
            made.append(int(runs))
    return seeds, made, most


def test_processes_of_one_target_share_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "LEAST", 300)
    target = tmp_path / "trace"
    target.write_text(NOTING.replace("SECONDS", "0.1"))
    target.chmod(0o755)
    assert fuzz.Night(10_000, 0, 7, fuzz.Tally(tmp_path / "executions.csv"), tmp_path).run(["trace"], 4) == []
    seeds, made, most = noted(target)
    assert fuzz.Tally(tmp_path / "executions.csv").of("trace", fuzz.build_of("trace", tmp_path)) == sum(made) == 10_000
    assert sorted(map(int, seeds)) == list(range(7, 7 + len(seeds))), "each piece has a seed of its own"
    assert most == 4


def test_the_slowest_target_has_the_most_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "LEAST", 1000)
    for name, seconds in (("trace", "0.4"), ("graph", "0.05")):
        (tmp_path / name).write_text(NOTING.replace("SECONDS", seconds))
        (tmp_path / name).chmod(0o755)
    tally = fuzz.Tally(tmp_path / "executions.csv")
    assert fuzz.Night(20_000, 0, 1, tally, tmp_path).run(["trace", "graph"], 6) == []
    assert {name: made for name, (made, _, _) in tally.now.items()} == {"trace": 20_000, "graph": 20_000}
    assert noted(tmp_path / "trace")[2] >= 4
    with (tmp_path / "executions.csv").open(newline="") as file:
        order = [row["target"] for row in csv.DictReader(file)]
    assert Counter(order[: len(order) // 2])["graph"] < 20, "both get on"


def test_what_another_process_finds_is_counted_once(tmp_path: Path) -> None:
    target = tmp_path / "trace"
    target.write_text("""#!/bin/sh
for word in "$@"; do case $word in -artifact_prefix=*) prefix=${word#-artifact_prefix=};; esac; done
if mkdir "$0.first" 2> /dev/null; then sleep 0.3; echo input > "${prefix}crash-1"; echo 'SUMMARY: bad' >&2; exit 77; fi
sleep 0.5
echo "stat::number_of_executed_units: 9" >&2
""")
    target.chmod(0o755)
    tally = fuzz.Tally(tmp_path / "executions.csv")
    (found,) = fuzz.Night(10**9, 0, 5, tally, tmp_path).run(["trace"], 3)
    assert found.finding is not None and re.fullmatch(r"seed_[567]_crash-1", found.finding.name)
    assert tally.now["trace"][0] == 18 and tally.now["trace"][2] == 1


def copied(folder: Path) -> Path:
    """A copy of what nightly_fuzz.py needs, without git."""
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    shutil.copytree(fuzz.CORPUS, folder / "tests" / "fuzz" / "corpus")
    (folder / "build" / "fuzz").mkdir(parents=True)
    return folder


def test_targets_that_are_built_run_without_clang_and_git(tmp_path: Path) -> None:
    copy, commit = copied(tmp_path), "c" * 40
    target = copy / "build" / "fuzz" / "trace"
    target.write_text(COUNTING)
    target.chmod(0o755)
    command = [sys.executable, str(copy / "scripts" / "nightly_fuzz.py"), "--built", "--record", "--executions", "900"]
    variables = {"PATH": "/bin", "GPUHEAP_COMMIT": commit}
    ran = subprocess.run([*command, "trace"], env=variables, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "trace: 900 of 900 executions, nothing found\n", "")
    assert f"nightly_fuzz,trace,{commit},900," in (copy / "tests" / "fuzz" / "executions.csv").read_text()
    ran = subprocess.run([*command, "trace", "graph"], env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr == f"error: --built: {copy}/build/fuzz/graph is not there: name the targets that are, or leave --built out\n"
    ran = subprocess.run([*command, "trace"], env={**variables, "GPUHEAP_COMMIT": "c0ffee"}, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (2, "error: --record needs a whole commit, 40 digits, and GPUHEAP_COMMIT is 'c0ffee'\n")


def test_sigterm_keeps_what_the_running_pieces_have_made(tmp_path: Path) -> None:
    copy = copied(tmp_path)
    target = copy / "build" / "fuzz" / "trace"
    target.write_text(f"""#!/bin/sh
trap "trap '' TERM; sleep 0.$$; echo 'stat::number_of_executed_units: 70' >&2; exit {fuzz.INTERRUPTED}" TERM
touch "$0.$$"
while :; do sleep 0.05; done
""")
    target.chmod(0o755)
    command = [sys.executable, str(copy / "scripts" / "nightly_fuzz.py"), "--built", "--record", "--jobs", "3", "trace"]
    running = subprocess.Popen(command, env={**os.environ, "GPUHEAP_COMMIT": "d" * 40}, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + 30
    while len(list(target.parent.glob("trace.*"))) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    # timeout(1) sends its signal twice, to the process and to its group.
    running.terminate()
    time.sleep(0.2)
    os.killpg(running.pid, signal.SIGTERM)
    _, errors = running.communicate(timeout=30)
    assert (running.returncode, errors) == (2, "stopped: the same command continues\n")
    assert f"nightly_fuzz,trace,{'d' * 40},210," in (copy / "tests" / "fuzz" / "executions.csv").read_text()


@pytest.mark.parametrize("jobs", [1, 3])
def test_the_seconds_of_a_property_add_up_over_its_processes(monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    seeds = []

    def slow(name: str, seed: int) -> tuple[bool, str]:
        seeds.append(seed)
        time.sleep(0.1 if name == "tables" else 0.3)
        return False, "a finding" if name == "sizes" else ""

    monkeypatch.setattr(properties, "run", slow)
    states = {name: properties.State() for name in ("tables", "dumps", "sizes")}
    properties.run_all(states, 1, jobs)
    assert len(set(seeds)) == len(seeds)
    assert 1 <= states["tables"].spent < 1.9 and states["tables"].made >= 7 * properties.EXAMPLES
    assert 1 <= states["dumps"].spent < 2.5 and states["dumps"].made >= 3 * properties.EXAMPLES
    assert (states["sizes"].made, states["sizes"].finding) == (0, "a finding")


def test_a_property_that_does_not_begin_has_found_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, said, code in (("python", "No module named pytest", 1), ("skipped", "1 skipped in 0.10s", 0)):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{said}'\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
        monkeypatch.setattr(properties.sys, "executable", str(tmp_path / name))
        monkeypatch.setattr(properties.sys, "argv", ["nightly_properties.py", "tables", "--seconds", "1", "--jobs", "2"])
        assert properties.main() == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and said in err and "./test" in err
    (tmp_path / "failing").write_text("#!/bin/sh\necho 'E   AssertionError: 1 == 2'\necho '1 failed in 0.10s'\nexit 1\n")
    (tmp_path / "failing").chmod(0o755)
    monkeypatch.setattr(properties.sys, "executable", str(tmp_path / "failing"))
    assert properties.main() == 1
    assert capsys.readouterr().out.startswith("tables: 0 inputs, E   AssertionError: 1 == 2: GPUHEAP_EXAMPLES=")


def test_a_night_that_is_too_short_runs_each_target_and_ends(tmp_path: Path) -> None:
    for name in ("trace", "graph"):
        (tmp_path / name).write_text(COUNTING.replace("echo", "sleep 0.3; echo"))
        (tmp_path / name).chmod(0o755)
    tally = fuzz.Tally(tmp_path / "executions.csv")
    assert fuzz.Night(10**9, 1, 1, tally, tmp_path).run(["trace", "graph"], 1) == []
    for name in ("trace", "graph"):
        assert 400 <= tally.of(name, fuzz.build_of(name, tmp_path)) <= 4000


def test_a_target_that_ends_by_itself_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("#!/bin/sh\necho 'ERROR: libFuzzer: out-of-memory' >&2; exit 71\n")
    (tmp_path / "trace").chmod(0o755)
    tally = fuzz.Tally(tmp_path / "executions.csv")
    (found,) = fuzz.Night(10, 0, 1, tally, tmp_path).run(["trace"], 1)
    assert "out-of-memory" in found.text


def test_what_ctrl_c_ends_is_no_finding_and_nothing_begins_after_it(tmp_path: Path) -> None:
    for name in ("trace", "graph"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho 'stat::number_of_executed_units: 70' >&2; exit {fuzz.INTERRUPTED}\n")
        (tmp_path / name).chmod(0o755)
    tally = fuzz.Tally(tmp_path / "executions.csv")
    assert fuzz.Night(10**9, 0, 1, tally, tmp_path).run(["trace", "graph"], 1) == []
    assert {name: (made, found) for name, (made, _, found) in tally.now.items()} == {"trace": (70, 0)}


def test_the_table_adds_up_what_a_target_executes_at_a_commit(tmp_path: Path) -> None:
    table = tmp_path / "executions.csv"
    first, second = "a" * 40, "b" * 40
    fuzz_record.add("nightly_fuzz", "trace", first, 1000, 1800, 0, table=table)
    fuzz_record.add("nightly_fuzz", "trace", second, 5, 36, 1, table=table)
    fuzz_record.add("nightly_fuzz", "graph", first, 7, 9, 0, table=table)
    fuzz_record.add("nightly_fuzz", "trace", first, 234, 900, 0, table=table)
    for _ in range(2):
        fuzz_record.add("nightly_rewriter", "seeds 1 to 10", first, 10, 18, 0, same_inputs=True, table=table)
    assert table.read_text().splitlines() == [
        "script,target,commit,executions,hours,findings",
        f"nightly_fuzz,graph,{first},7,0.003,0",
        f"nightly_fuzz,trace,{first},1234,0.750,0",
        f"nightly_fuzz,trace,{second},5,0.010,1",
        f"nightly_rewriter,seeds 1 to 10,{first},10,0.005,0",
    ]


def test_scripts_that_end_at_the_same_time_lose_no_row(tmp_path: Path) -> None:
    table = tmp_path / "executions.csv"
    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(fuzz_record.add, "nightly_fuzz", f"t{k % 4}", "a" * 40, 1, 36, 0, table=table) for k in range(80)]:
            future.result()
    assert [row["executions"] for row in fuzz_record.read(table)] == ["20"] * 4


@pytest.mark.skipif(shutil.which("git") is None, reason="the record of fuzzing: no git: sudo apt-get install git")
def test_only_what_a_commit_has_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUHEAP_COMMIT", raising=False)
    with pytest.raises(fuzz_record.CannotRecord, match="needs a checkout of git"):
        fuzz_record.commit_of(tmp_path, tmp_path / "table.csv")
    for name in ("table.csv", "code"):
        (tmp_path / name).write_text("before\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    commit = fuzz_record.commit_of(tmp_path, tmp_path / "table.csv")
    assert re.fullmatch("[0-9a-f]{40}", commit)
    (tmp_path / "table.csv").write_text("of this night\n")
    assert fuzz_record.commit_of(tmp_path, tmp_path / "table.csv") == commit
    (tmp_path / "code").write_text("changed\n")
    with pytest.raises(fuzz_record.CannotRecord, match="code differs from it: commit the changes first"):
        fuzz_record.commit_of(tmp_path, tmp_path / "table.csv")


def test_the_rows_of_the_committed_table_name_targets_that_exist() -> None:
    rows = fuzz_record.read()
    assert len({(row["script"], row["target"], row["commit"]) for row in rows}) == len(rows)
    targets = {"nightly_fuzz": fuzz.TARGETS, "nightly_properties": properties.NAMES}
    for row in rows:
        assert tuple(row) == fuzz_record.COLUMNS
        assert re.fullmatch("[0-9a-f]{40}", row["commit"]) and float(row["hours"]) > 0 and int(row["findings"]) >= 0
        assert int(row["executions"]) > 0 or int(row["findings"]) > 0  # a soak that failed has made an unknown number of parts
        if row["script"] == "nightly_rewriter":
            assert re.fullmatch(r"seeds \d+ to \d+", row["target"])
        elif row["script"] == "nightly":
            assert re.fullmatch(r"[a-z_]+, (strong|weak|soak)", row["target"])
        else:
            assert row["target"] in targets[row["script"]]
