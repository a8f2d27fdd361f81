"""The suites of the repository on the executable that is built here, in the simulator: every point of them runs, and nothing is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from extent import in_full
from fake_checkout import REPOSITORY

from gpuheap.formats.results import read_table
from gpuheap.formats.suites import load_suites
from gpuheap.paths import Layout
from gpuheap.running.executable import candidates, describe

LAYOUT = Layout(REPOSITORY)


@pytest.mark.skipif("simulator" not in candidates(LAYOUT), reason="suites in the simulator: its benchmark is not built: ./test builds it")
@pytest.mark.parametrize("suite", [name for name, suite in load_suites(LAYOUT).items() if not suite.programs])
def test_a_suite_runs_in_the_simulator(suite: str, tmp_path: Path) -> None:
    executable = candidates(LAYOUT)["simulator"]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GPUHEAP_")}
    variables = {**kept, "PYTHONPATH": str(REPOSITORY / "python"), "GPUHEAP_ROOT": str(REPOSITORY), "GPUHEAP_BENCH": str(executable)}
    command = [sys.executable, "-m", "gpuheap", "bench", suite, "--backend", "simulator", "--quick", "--runs", "1", "--strict"]
    # Unless tests run in full, the benchmark has few allocators: the suite's own subject runs, or the default one beside one that refuses some of the cases.
    # Every case with every allocator that is built is a test of tests/benchmarks/protocol_test.cpp.
    chosen = load_suites(LAYOUT)[suite].allocators
    built = {allocator.name for allocator in describe(executable).allocators} | set(describe(executable).baselines)
    if not in_full():
        command += ["--allocators", ",".join([name for name in chosen if name in built][:2] or ("sharded_spans", "atomic_malloc"))]
    ran = subprocess.run([*command, "--output", str(tmp_path)], env=variables, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = read_table(tmp_path / f"{suite}.csv")
    assert {row.case for row in rows} == set(load_suites(LAYOUT)[suite].cases)
    # The tables of the suite show the rows of the default allocator, or of the suite's own subject if the default one takes no part.
    ours = "sharded_spans" if not chosen or "sharded_spans" in chosen else chosen[0]
    known = {parameter for case in describe(executable).cases for parameter in case.parameters}
    for name, backends in load_suites(LAYOUT)[suite].cases.items():
        assert set(backends["cuda"].axes) <= known, name
        measured = {row.metric for row in rows if row.case == name and row.allocator == ours and row.metric}
        assert measured <= set(backends["simulator"].metrics), name
        assert measured or name == "registers", name
