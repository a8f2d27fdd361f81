"""The fuzz targets: each runs its corpus and some thousand inputs more; and a planted mistake is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import nightly_fuzz as fuzz  # noqa: E402  (of the folder above)

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
