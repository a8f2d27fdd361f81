"""The programs of benchmarks/programs/ on a GPU: the counts of the table, right results, and the same output in every mode. Needs a GPU and the preset cuda."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from host_tools import ROOT, Bench
from program_counts import PAIRS, PROGRAMS, counts_of, counts_wanted
from test_host_gpu import LIBRARY, has_gpu

from gpuheap.formats.results import read_table

BUILT = ROOT / "build" / "cuda" / "benchmarks" / "programs"
pytestmark = pytest.mark.skipif(
    not (BUILT / "hotspot").exists() or not LIBRARY.exists() or not has_gpu(), reason="tests on a GPU: none here, or ./test has not built for it"
)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, BUILT, LIBRARY, os.environ.get("LD_LIBRARY_PATH", ""))


def right(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode == 0 and ran.stdout.endswith("right\n"), ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("case", PAIRS)
def test_a_program_asks_for_what_the_table_says_and_pools_change_nothing(bench: Bench, case: str) -> None:
    words = (PAIRS[case]["program"], PAIRS[case]["input"])
    output = right(bench.traced(*words))
    found, wanted = counts_of(bench.history()), counts_wanted(case)
    # The runtime may answer a free of null itself.
    assert found.pop("null_frees") <= wanted.pop("null_frees")
    assert found == wanted and bench.history().failures == []
    for mode in ("device", "zero-copy", "unified"):
        assert right(bench.pooled(mode, *words, strict=True)) == output
        counters = bench.trace("pool").counters
        assert counters["served"] == wanted["allocations"] and counters["driver_allocations"] == counters["refused"] == 0


@pytest.mark.parametrize("case", PAIRS)
def test_a_program_for_shared_memory_prints_the_same_and_copies_nothing(bench: Bench, case: str) -> None:
    words = (PAIRS[case]["program"], PAIRS[case]["input"])
    plain = right(bench.plain(*words))
    for memory in ("pinned", "managed"):
        assert right(bench.traced(*words, GPUHEAP_PROGRAM_MEMORY=memory)) == plain
        # Copies to variables of the device stay.
        assert len(bench.history().copies) == {"heartwall": 22, "leukocyte": 5}.get(case, 0)


def test_counters_are_rows_or_the_reason_is_one_line(bench: Bench) -> None:
    ran = bench.gpuheap("bench", "counters/hotspot_512", "--output", str(bench.folder), GPUHEAP_PROGRAMS=str(BUILT))
    if ran.returncode != 0:
        assert len(ran.stderr.strip().splitlines()) == 1 and ("ncu" in ran.stderr or "ERR_NVGPUCTRPERM" in ran.stderr), ran.stdout + ran.stderr
        pytest.skip(f"counters of Nsight Compute: {ran.stderr.strip()}")
    rows = {row.metric: row for row in read_table(bench.folder / "counters.csv")}
    rate, excess = rows["l2_hit_rate"].statistics, rows["excess_sector_ratio"].statistics
    assert rate is not None and 0 <= rate.median <= 2 and excess is not None and 0 <= excess.median < 1


@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("rules/*.cu")))
def test_programs_of_rules_are_right(bench: Bench, name: str) -> None:
    right(bench.plain(name))


def test_the_time_in_kernels_is_the_gpus(bench: Bench) -> None:
    times = bench.folder / "times"
    right(bench.plain("lud", "2048", GPUHEAP_PROGRAM_TIMES=str(times)))
    said = json.loads(times.read_text())
    assert said["kernels"] == 382 and said["kernel_us"] > 382
