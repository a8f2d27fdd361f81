"""Suites of programs: what is run in which order, how each end of a program becomes a row, and what an interrupted run leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY, Checkout

from gpuheap.errors import UserError
from gpuheap.formats.results import Row, read_table
from gpuheap.formats.suites import load_suite, load_suites
from gpuheap.paths import Layout
from gpuheap.running.program_runs import Seat, run_process

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]

SUITE = """
[suite]
name = "whole"
programs = true
allocators = ["plain", "device", "unified"]

[[case]]
name = "heat_64"
command = ["heat", "64"]
metrics = ["total_ms", "api_us", "copy_us", "kernel_us", "allocations", "copies", "kernels"]
runs = 3
timeout_s = 20

[[case]]
name = "sweep"
command = ["sweep"]
metrics = ["total_ms", "api_us", "copy_us", "kernel_us", "allocations", "copies", "kernels"]
runs = 2
timeout_s = 20
axes = { chain = [1, 8] }
"""
METRICS = ("total_ms", "api_us", "copy_us", "kernel_us", "allocations", "copies", "kernels")


class Programs:
    """A checkout with a suite of fake programs."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout
        self.folder = checkout.root / "programs"
        self.folder.mkdir()
        self.runs_file = checkout.root / "runs"
        (checkout.root / "benchmarks" / "suites" / "whole.toml").write_text(SUITE)
        library = checkout.root / "libgpuheap_host.so"
        library.write_text("no library: what goes before the fake program changes nothing")
        checkout.environment |= {
            "GPUHEAP_PROGRAMS": str(self.folder), "GPUHEAP_HOST_LIBRARY": str(library), "FAKE_PROGRAM_LOG": str(self.runs_file)
        }  # fmt: skip
        self.build()

    def build(self, text: str = "") -> None:
        source = (REPOSITORY / "tests" / "python" / "fake_program.py").read_text().split("\n", 1)[1]
        for name in ("heat", "sweep"):
            (self.folder / name).write_text(f"#!{sys.executable}\n{source}\n# {text}\n")
            (self.folder / name).chmod(0o755)

    def bench(self, *arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
        self.checkout.environment["FAKE_PROGRAM"] = json.dumps(settings)
        return self.checkout.gpuheap("bench", *arguments)

    def runs(self) -> list[str]:
        """The programs that ran since the last look."""
        if not self.runs_file.exists():
            return []
        lines = self.runs_file.read_text().splitlines()
        self.runs_file.unlink()
        return lines

    @property
    def table(self) -> Path:
        return self.checkout.root / "results" / "nvidia-h200" / "whole.csv"

    def rows(self) -> list[Row]:
        return read_table(self.table)

    def statuses(self) -> dict[str, str]:
        return {row.allocator: row.status for row in self.rows() if row.case == "heat_64"}

    def reason(self, mode: str) -> str:
        return next(row.reason for row in self.rows() if row.allocator == mode and row.case == "heat_64")


@pytest.fixture
def programs(checkout: Checkout) -> Programs:
    return Programs(checkout)


def test_each_mode_runs_once_in_each_round_and_rounds_begin_in_turns(programs: Programs) -> None:
    ran = programs.bench("heat_64")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert programs.runs() == [
        "heat 64 profile",
        "heat 64 plain", "heat 64 device strict", "heat 64 unified strict",
        "heat 64 device strict", "heat 64 unified strict", "heat 64 plain",
        "heat 64 unified strict", "heat 64 plain", "heat 64 device strict",
    ]  # fmt: skip


def test_rows_hold_the_times_of_all_runs(programs: Programs) -> None:
    assert programs.bench("whole/heat_64").returncode == 0
    rows = programs.rows()
    assert [(row.allocator, row.metric) for row in rows] == [(mode, metric) for mode in ("plain", "device", "unified") for metric in METRICS]
    assert all((row.suite, row.case, row.backend, row.runs, row.status, row.parameter) == ("whole", "heat_64", "cuda", 3, "ok", "") for row in rows)
    median = {(row.allocator, row.metric): row.statistics.median for row in rows if row.statistics}
    # 2 + 3 + 1 + 4 us of calls, of which 3 copy; kernels took 8.5, 9.5 and 10.5 us.
    assert median["device", "api_us"] == 10 and median["device", "copy_us"] == 3 and median["device", "kernel_us"] == 9.5
    assert 0 < median["plain", "total_ms"] < 20_000
    assert [median["device", metric] for metric in ("allocations", "copies", "kernels")] == [1, 1, 1]
    kernels = next(row for row in rows if (row.allocator, row.metric) == ("device", "kernel_us"))
    assert kernels.values == (8.5, 9.5, 10.5)


def test_points_of_axes_are_given_as_words(programs: Programs) -> None:
    assert programs.bench("whole/sweep", "-a", "plain").returncode == 0
    assert programs.runs() == ["sweep chain=1 profile", *["sweep chain=1 plain"] * 2, "sweep chain=8 profile", *["sweep chain=8 plain"] * 2]
    assert {row.parameter for row in programs.rows()} == {"chain=1", "chain=8"}


def test_what_is_finished_is_not_run_again_unless_the_build_is_another(programs: Programs) -> None:
    assert programs.bench("heat_64").returncode == 0
    before = programs.table.read_text()
    programs.runs()
    again = programs.bench("heat_64")
    assert again.returncode == 0 and programs.runs() == [] and programs.table.read_text() == before
    assert "3 kept from an earlier run" in again.stdout
    programs.build("another")
    assert programs.bench("heat_64", "-a", "device,plain").returncode == 0
    assert sorted(set(programs.runs())) == ["heat 64 device strict", "heat 64 plain", "heat 64 profile"]
    assert programs.bench("heat_64").returncode == 0
    assert sorted(set(programs.runs())) == ["heat 64 profile", "heat 64 unified strict"]
    assert programs.bench("heat_64", "--runs", "5").returncode == 0
    assert len(programs.runs()) == 1 + 3 * 5
    assert programs.bench("heat_64", "--fresh", "-a", "plain").returncode == 0
    assert len(programs.runs()) == 1 + 3
    (programs.checkout.root / "libgpuheap_host.so").write_text("another library")
    assert programs.bench("heat_64", "-a", "plain").returncode == 0
    assert len(programs.runs()) == 1 + 3


def test_each_build_that_measured_is_recorded(programs: Programs) -> None:
    with (programs.folder / "sweep").open("a") as file:
        file.write("# another program\n")
    assert programs.bench("whole", "-a", "plain").returncode == 0
    facts = json.loads((programs.table.parent / "environment.json").read_text())
    used = {case: builds["plain"] for case, builds in facts["sweeps"]["whole"].items()}
    assert set(used) == {"heat_64", "sweep"} and used["heat_64"] != used["sweep"]
    assert set(facts["builds"]) == set(used.values()) and all(build["date"] for build in facts["builds"].values())


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        ("exit4", "wrong", "wrong: a sum is not the CPU's"),
        ("differs", "wrong", "its output is not that of the plain run"),
        ("exit3", "crash", "exit code 3: cudaMalloc: out of memory"),
        ("crash", "crash", "SIGSEGV"),
        ("unserved", "unsupported", "E08: this device has no such memory"),
        ("no_times", "crash", "wrote no time in kernels"),
    ],
)
def test_how_a_run_ends_is_how_the_mode_ends(programs: Programs, fault: str, status: str, reason: str) -> None:
    ran = programs.bench("heat_64", "--strict", faults={"device/2": fault})
    assert ran.returncode == (0 if status == "unsupported" else 1), ran.stdout + ran.stderr
    assert programs.statuses() == {"plain": "ok", "device": status, "unified": "ok"}
    assert reason in programs.reason("device")
    assert programs.runs().count("heat 64 device strict") == 2  # no more after the failure


def test_the_limit_is_for_all_runs_of_a_mode(programs: Programs) -> None:
    assert programs.bench("heat_64", "--timeout", "4", faults={"unified/2": "hang"}).returncode == 0
    assert programs.statuses() == {"plain": "ok", "device": "ok", "unified": "timeout"}
    assert programs.reason("unified") == "1 of 3 runs in 4 s"


def test_a_program_that_fails_plainly_is_measured_in_no_mode(programs: Programs) -> None:
    assert programs.bench("heat_64", faults={"profile": "exit4"}).returncode == 0
    assert programs.statuses() == dict.fromkeys(("plain", "device", "unified"), "wrong")
    assert programs.runs() == ["heat 64 profile"]
    assert programs.bench("heat_64", "--retry").returncode == 0
    assert set(programs.statuses().values()) == {"ok"}


def test_a_mode_that_this_build_has_no_memory_for_is_unsupported(programs: Programs) -> None:
    allocators = programs.checkout.root / "cmake" / "allocators.cmake"
    allocators.parent.mkdir()
    allocators.write_text("gpuheap_allocator(NAME scatteralloc)\n")
    assert programs.bench("heat_64", "-a", "plain,scatteralloc").returncode == 0
    assert programs.statuses() == {"plain": "ok", "scatteralloc": "unsupported"}
    assert "the heap of 'scatteralloc' is not built" in programs.reason("scatteralloc")
    assert not any("scatteralloc" in line for line in programs.runs())


def test_an_interrupted_run_keeps_whole_points(programs: Programs) -> None:
    programs.checkout.environment["FAKE_PROGRAM"] = json.dumps({"delay_s": 0.2})
    process = programs.checkout.start("bench", "whole")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (programs.runs_file.exists() and "sweep chain=8 plain" in programs.runs_file.read_text()):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "6 of 9 points are kept" in said[0]
    assert {(row.case, row.parameter) for row in programs.rows()} == {("heat_64", ""), ("sweep", "chain=1")}
    programs.runs()
    assert programs.bench("whole").returncode == 0
    assert {line.rsplit(" ", 1)[0].split(" plain")[0] for line in programs.runs()} <= {"sweep chain=8", "sweep chain=8 device", "sweep chain=8 unified"}
    assert len(programs.rows()) == 9 * len(METRICS)


def test_gpus_share_the_cases_and_a_case_stays_on_one(programs: Programs) -> None:
    ran = programs.bench("whole", "--gpus", "0,2")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "by 2 workers" in ran.stdout
    of_case: dict[str, set[str]] = {}
    for line in programs.runs():
        words, _, gpu = line.partition(" on GPU ")
        of_case.setdefault(words.split()[0], set()).add(gpu)
    assert sorted(of_case.values(), key=str) == [{"0"}, {"2"}]
    assert len(programs.rows()) == 9 * len(METRICS)


def test_other_suites_run_beside(programs: Programs) -> None:
    ran = programs.bench("all", "--runs", "1")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert programs.table.exists() and programs.checkout.table.exists()


def test_all_leaves_programs_out_that_are_not_built(programs: Programs) -> None:
    del programs.checkout.environment["GPUHEAP_PROGRAMS"]
    ran = programs.bench("all", "--runs", "1")
    assert ran.returncode == 0 and "not built, and are left out" in ran.stdout
    assert programs.checkout.table.exists() and not programs.table.exists()


def test_a_program_for_shared_memory_is_profiled_by_itself(programs: Programs) -> None:
    ran = programs.bench("heat_64", "-a", "plain,unified_shared,zero_copy_shared", "--runs", "1")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert programs.runs() == [
        "heat 64 profile", "heat 64 profile managed", "heat 64 profile pinned",
        "heat 64 plain", "heat 64 unified managed strict", "heat 64 zero-copy pinned strict",
    ]  # fmt: skip
    assert set(programs.statuses().values()) == {"ok"}


@pytest.mark.parametrize(("fault", "status"), [("differs", "wrong"), ("exit3", "crash")])
def test_a_program_that_fails_with_shared_memory_keeps_its_other_modes(programs: Programs, fault: str, status: str) -> None:
    assert programs.bench("heat_64", "-a", "plain,unified_shared", "--runs", "1", faults={"profile managed": fault}).returncode == 0
    assert programs.statuses() == {"plain": "ok", "unified_shared": status}


def test_no_copy_is_dropped_where_none_is_proven(programs: Programs) -> None:
    (programs.checkout.root / "libgpuheap_host_merging.so").write_text("no library either")
    assert programs.bench("heat_64", "-a", "plain,zero_copy_elide", "--runs", "1").returncode == 0
    assert programs.runs() == ["heat 64 profile", "heat 64 rehearse", "heat 64 plain"]
    assert programs.statuses() == {"plain": "ok", "zero_copy_elide": "unsupported"}
    assert programs.reason("zero_copy_elide").startswith("no copy can be dropped: ")
    (programs.checkout.root / "libgpuheap_host_merging.so").unlink()
    assert programs.bench("heat_64", "-a", "zero_copy_elide", "--fresh").returncode == 0
    assert "libgpuheap_host_merging.so is not built" in programs.reason("zero_copy_elide")


def test_a_suite_of_programs_may_lie_in_a_file_of_the_user(programs: Programs) -> None:
    root = programs.checkout.root
    (root / "mine.toml").write_text(SUITE.replace('"whole"', '"mine"'))
    (root / "benchmarks" / "suites" / "whole.toml").unlink()
    ran = programs.bench("mine.toml/heat_64", "-a", "plain")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert {(row.suite, row.case, row.status) for row in read_table(programs.table.with_name("mine.csv"))} == {("mine", "heat_64", "ok")}


def test_more_runs_than_the_suite_has_get_more_time(programs: Programs) -> None:
    suite = programs.checkout.root / "benchmarks" / "suites" / "whole.toml"
    suite.write_text(SUITE.replace("timeout_s = 20", "timeout_s = 4"))
    assert programs.bench("heat_64", "-a", "plain", "--runs", "6", faults={"plain/2": "hang"}, delay_s=0).returncode == 0
    assert programs.reason("plain") == "1 of 6 runs in 8 s"


COUNTERS = """
[suite]
name = "hits"
programs = true
instrument = "counters"
allocators = ["plain"]

[[case]]
name = "hits_64"
command = ["heat", "64"]
metrics = ["launches", "l1_hit_rate"]
runs = 1
timeout_s = 20
axes = { kernel = ["add_one", "scale"] }
"""


class Counters(Programs):
    """A suite whose instrument is a stand-in for Nsight Compute."""

    def __init__(self, checkout: Checkout) -> None:
        super().__init__(checkout)
        (checkout.root / "benchmarks" / "suites" / "hits.toml").write_text(COUNTERS)
        tools = checkout.root / "tools"
        tools.mkdir()
        (tools / "ncu").write_text(f'#!/bin/sh\nexec {sys.executable} {REPOSITORY / "tests" / "python" / "fake_ncu.py"} "$@"\n')
        (tools / "ncu").chmod(0o755)
        checkout.environment["PATH"] = f"{tools}:{os.environ['PATH']}"

    @property
    def table(self) -> Path:
        return self.checkout.root / "results" / "nvidia-h200" / "hits.csv"

    def reasons(self) -> set[str]:
        return {row.reason for row in self.rows()}


@pytest.fixture
def counters(checkout: Checkout) -> Counters:
    return Counters(checkout)


def test_counters_of_each_kernel_are_rows(counters: Counters) -> None:
    ran = counters.bench("hits")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert counters.runs() == ["heat 64 plain"] * 2
    found = {(row.parameters["kernel"], row.metric): row.statistics.median for row in counters.rows() if row.statistics}
    assert {row.status for row in counters.rows()} == {"ok"} and {row.runs for row in counters.rows()} == {1}
    assert found["add_one", "l1_hit_rate"] == 0.955 and found["scale", "l2_hit_rate"] == 0.99 and found["scale", "launches"] == 2
    assert found["scale", "excess_sectors"] == 1000 and found["scale", "excess_sector_ratio"] == pytest.approx(1 / 3)
    assert found["scale", "excess_wavefronts"] == 100 and found["add_one", "excess_wavefront_ratio"] == 0
    assert counters.bench("hits").returncode == 0 and counters.runs() == []
    assert counters.bench("hits", "--runs", "2").returncode == 0 and len(counters.runs()) == 4


def test_counters_that_may_not_be_read_are_one_line_and_no_row(counters: Counters, error_line: ErrorLine) -> None:
    counters.checkout.environment["FAKE_NCU"] = "forbidden"
    assert "may not read the GPU's counters (ERR_NVGPUCTRPERM): run as root, or" in error_line(counters.bench("hits"))
    assert not counters.table.exists() or counters.rows() == []


def test_a_missing_profiler_is_one_line(counters: Counters, error_line: ErrorLine, monkeypatch: pytest.MonkeyPatch) -> None:
    counters.checkout.environment["PATH"] = "/usr/bin:/bin"
    if Path("/usr/local/cuda/bin/ncu").exists():
        pytest.skip("a missing profiler: Nsight Compute is installed in /usr/local/cuda, where gpuheap looks for it: nothing to do")
    assert "there is no `ncu` on PATH" in error_line(counters.bench("hits"))
    ran = counters.bench("all", "--runs", "1")
    assert ran.returncode == 0 and "hits needs Nsight Compute (ncu), which is not installed, and is left out" in ran.stdout


@pytest.mark.parametrize(
    ("state", "status", "reason"),
    [
        ("silent", "unsupported", "No kernels were profiled"),
        ("lacking", "unsupported", "has no metric of cache hits"),
        ("garbled", "unsupported", "a table that gpuheap does not understand"),
        ("deaf", "crash", "was told to profile 'add_one', and profiled _Z5scalePjPKjj"),
    ],
)
def test_what_the_profiler_does_wrong_is_the_rows_reason(counters: Counters, state: str, status: str, reason: str) -> None:
    counters.checkout.environment["FAKE_NCU"] = state
    assert counters.bench("hits").returncode == 0
    assert {row.status for row in counters.rows()} == {status}
    assert any(reason in each for each in counters.reasons()), counters.reasons()


def test_a_program_that_fails_or_hangs_below_the_profiler_has_no_counters(counters: Counters) -> None:
    assert counters.bench("hits", "--timeout", "2", faults={"plain/1": "exit4", "plain/2": "hang"}).returncode == 0
    assert [row.status for row in counters.rows()] == ["crash", "timeout"]


def test_no_claim_needs_counters(counters: Counters) -> None:
    ran = counters.bench("whole/heat_64", "hits", "--for-claims", "--runs", "1")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert not counters.table.exists() and len(counters.runs()) == 1 + 3


def test_counters_are_of_the_program_as_it_is(counters: Counters, error_line: ErrorLine) -> None:
    assert "the only mode is 'plain', and not device" in error_line(counters.bench("hits", "-a", "device"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("heat_64", "-a", "zero-copy"), "unknown mode 'zero-copy': did you mean 'zero_copy'"),
        (("heat_64", "--heap-bytes", "1GiB"), "--heap-bytes is for cases of allocators"),
        (("heat_64", "--gpus", "some"), "--gpus: 'some' is neither all, a number of GPUs, nor their indices"),
        (("heat_64", "--scheduler", "a:1"), "--scheduler is for cases of allocators: programs run on this machine's GPUs"),
        (("heat_64", "--backend", "simulator"), "--backend is for cases of allocators"),
    ],
)
def test_mistakes_are_said(programs: Programs, error_line: ErrorLine, arguments: tuple[str, ...], complaint: str) -> None:
    assert complaint in error_line(programs.bench(*arguments))
    assert programs.runs() == []


def test_programs_that_cannot_run_are_said(programs: Programs, error_line: ErrorLine) -> None:
    assert "no usable GPU: none here" in error_line(programs.bench("heat_64", device=None, device_error="none here"))
    (programs.folder / "heat").unlink()
    assert "the program 'heat' is not built" in error_line(programs.bench("heat_64"))
    programs.checkout.environment["GPUHEAP_PROGRAMS"] = "nowhere"
    assert "which is not a folder" in error_line(programs.bench("heat_64"))
    del programs.checkout.environment["GPUHEAP_PROGRAMS"]
    assert "the programs are not built: run cmake" in error_line(programs.bench("heat_64"))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("programs = true\n", "", "command is for suites with programs = true"),
        ('command = ["sweep"]\n', "", "sweep: command is missing"),
        ('allocators = ["plain", "device", "unified"]\n', "", "suite.allocators is missing"),
        ("programs = true\n", 'programs = true\ninstrument = "counter"\n', "unknown suite.instrument 'counter': did you mean 'counters'"),
    ],
)
def test_a_mistake_in_the_suite_is_named(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = tmp_path / "whole.toml"
    path.write_text(SUITE.replace(old, new, 1))
    with pytest.raises(UserError) as error:
        load_suite(path)
    assert str(path) in str(error.value) and complaint in str(error.value)


# A process of a GPU's program closes its output some time before it ends, since the driver frees its memory last.
def test_a_run_ends_when_its_process_ends(tmp_path: Path) -> None:
    ends = "import os, time; os.write(2, b'.'); os.closerange(0, 3); time.sleep(0.045); open({!r}, 'w').write(str(time.perf_counter())); os._exit(0)"
    late = []
    for number in range(5):
        began, file = time.perf_counter(), tmp_path / str(number)
        ended = run_process([sys.executable, "-c", ends.format(str(file))], os.environ, 60, Seat({}, tmp_path, threading.Event()))
        late.append(began + ended.seconds - float(file.read_text()))
    # A look at intervals that double, up to 50 ms, sees such an end 18 ms late.
    assert min(late) < 0.012


def test_the_suites_name_programs_and_inputs_that_there_are() -> None:
    suites = load_suites(Layout(REPOSITORY))
    folder = REPOSITORY / "benchmarks" / "programs"
    counts = [line.split(",")[:3] for line in (folder / "counts.csv").read_text().splitlines()[1:]]
    assert [[name, *case["cuda"].command] for name, case in suites["programs"].cases.items()] == counts
    assert len(counts) == 16 and all(case["cuda"].runs == 30 for case in suites["programs"].cases.values())
    sharing = ("zero_copy", "zero_copy_elide", "zero_copy_shared", "unified", "unified_shared")
    assert suites["programs"].allocators == ("plain", "device", "scatteralloc", *sharing, "sharded_spans")
    # The kernels whose counters are read are those that there are.
    counters = {name: case["cuda"] for name, case in suites["counters"].cases.items()}
    assert {name: case.command for name, case in counters.items()} == {name: case["cuda"].command for name, case in suites["programs"].cases.items()}
    for case in counters.values():
        source = (folder / f"{case.command[0]}.cu").read_text()
        assert [point.fields["kernel"] for point in case.points()] == re.findall(r"^__global__ void (\w+)\(", source, re.MULTILINE)
    for name, case in suites["rules"].cases.items():
        source = folder / "rules" / f"{case['cuda'].command[0]}.cu"
        named = source.read_text().rsplit("run_with", 1)[1]
        assert all(f'"{axis}"' in named for axis in case["cuda"].axes), name
