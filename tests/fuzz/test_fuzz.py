"""The fuzz targets: each runs its corpus and some thousand inputs more; what runs in pieces adds up, in a run and in the committed table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import fuzz_record  # noqa: E402  (of the folder above)
import nightly_fuzz as fuzz  # noqa: E402
import nightly_properties as properties  # noqa: E402

# The C interface makes a heap in most executions.
EXECUTIONS = {"capi": 300}


@pytest.fixture(scope="module")
def built() -> Path:
    try:
        fuzz.build(fuzz.find_clang())
    except fuzz.CannotRun as error:
        if "no clang++" in str(error):
            pytest.skip(f"the fuzz targets: {error}")
        raise
    return fuzz.BUILD


@pytest.mark.parametrize("target", fuzz.TARGETS)
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


def test_only_what_a_commit_has_is_recorded(tmp_path: Path) -> None:
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
        assert re.fullmatch("[0-9a-f]{40}", row["commit"]) and int(row["executions"]) > 0 and float(row["hours"]) > 0 and int(row["findings"]) >= 0
        if row["script"] == "nightly_rewriter":
            assert re.fullmatch(r"seeds \d+ to \d+", row["target"])
        else:
            assert row["target"] in targets[row["script"]]
