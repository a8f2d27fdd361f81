"""The command line: names, mistakes, what is listed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY, Checkout

from gpuheap.commands.display import _title
from gpuheap.errors import UserError
from gpuheap.formats.protocol import Allocator
from gpuheap.paths import PRESETS, RECORDED, Layout
from gpuheap.running.executable import choose
from gpuheap.serving.libraries import find_provider
from gpuheap.serving.start import check_program

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["bench", "mni"], "unknown suite or case 'mni': did you mean 'mini'?"),
        (["bench", "MINI"], "unknown suite or case 'MINI': did you mean 'mini'?"),
        (["bench", "alloc_singel"], "did you mean 'alloc_single'?"),
        (["bench", "mini/chrun"], "unknown case of suite mini 'chrun': did you mean 'churn'?"),
        (["bench", "mni/churn"], "unknown suite 'mni': did you mean 'mini'?"),
        (["bench", "zzz"], "unknown suite or case 'zzz': there are alloc_single, churn, graph_update, mini"),
        (["bench", "/tmp/suites/mini"], "unknown suite '/tmp/suites/mini': there are mini"),
        (["bench", "mini", "-a", "sharded_span"], "unknown allocator 'sharded_span': did you mean 'sharded_spans'?"),
        (["bench", "mini", "-a", "atomic_wrp,cuda_malloc"], "did you mean 'atomic_wrap_malloc' or 'atomic_malloc'?"),
        (["bench"], "name a suite, a case, or a suite's file to run: the suites are mini"),
        (["bench", "mini", "--backend", "opencl"], "--backend: 'opencl' is neither cuda nor simulator"),
        (["bench", "mini", "--heap-bytes", "lots"], "--heap-bytes: 'lots' is not a size"),
        (["bench", "mini", "--heap-bytes", "0"], "--heap-bytes: a size must be positive"),
        (["bench", "mini", "--heap-bytes", "1TiB"], "a heap of 1 TiB does not fit: simulator has 4 GiB"),
        (["bench", "mini", "--graph", "none.mtx"], "--graph: there is no file 'none.mtx'"),
        (["bench", "churn", "--graph", "log"], "--graph: none of the chosen cases reads a graph"),
        (["bench", "churn", "--scene", "none.obj"], "--scene: there is no file 'none.obj'"),
        (["bench", "churn", "--scene", "log"], "--scene: none of the chosen cases reads a scene; kdtree does"),
        (["bench", "churn", "--trace", "log"], "--trace: none of the chosen cases reads a trace; replay does"),
        (["bench", "churn", "-a", "store_only"], "nothing to run"),
        (["bench", "mini", "--runs", "0"], "--runs"),
        (["bench", "mini", "--colour"], "gpuheap bench --help"),
        (["compare"], "gpuheap compare --help"),
        (["bench", "mini", "-a"], "Option '-a' requires an argument: write it after the option"),
        (["help"], "gpuheap --help"),
        (["bnech"], "No such command 'bnech'. Did you mean 'bench'?"),
        (["BENCH"], "No such command 'BENCH'. Did you mean 'bench'?"),
        (["data", "LIST"], "No such command 'LIST'. Did you mean 'list'?"),
        (["bench", "mini", "--runs", "100001"], "100001 is not in the range 1<=x<=100000"),
        (["compare", "quick", "quick"], "there is no file 'quick': name a table that gpuheap bench has written, as results/nvidia-h200/heap.csv"),
        (["report", "--results", "gpuheap-bench"], "--results: 'gpuheap-bench' is a file: name a folder that gpuheap bench has written"),
        (["advise", "--sizes", "16-64"], "--sizes: '16-64' is not a size: write bytes or a unit, like 1073741824 or 8GiB; a range has a colon, as 16:64"),
        (["list", "--table", "--backend", "opencl"], "--backend: 'opencl' is neither cuda nor simulator"),
        (["list", "--backend", "cuda"], "built for the simulator backend, not for cuda"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(checkout: Checkout, error_line: ErrorLine, arguments: list[str], complaint: str) -> None:
    checkout.log_file.write_text("")
    assert complaint in error_line(checkout.gpuheap(*arguments))
    assert not (checkout.root / "build").exists(), "something was written"


def test_a_bad_graph_is_reported_as_the_executable_says_it_and_leaves_nothing(checkout: Checkout, error_line: ErrorLine) -> None:
    (checkout.root / "bad.mtx").write_text("%%MatrixMarket x")
    checkout.settings["faults"] = {"graph_update/sharded_spans/threads=100,phase=init": "usage"}
    ran = checkout.gpuheap("bench", "graph_update", "-a", "sharded_spans", "--graph", "bad.mtx")
    assert "bad.mtx:3: expected 5 entries, found 4" in error_line(ran)
    assert not checkout.table.exists()


def test_a_file_of_another_kind_is_refused_before_anything_is_measured(checkout: Checkout, error_line: ErrorLine) -> None:
    (checkout.root / "bad.mtx").write_bytes(b"\xff\x00\x7fELF")
    checkout.log_file.write_text("")
    said = error_line(checkout.gpuheap("bench", "churn", "graph_update", "--graph", "bad.mtx"))
    assert "--graph: 'bad.mtx' does not begin with '%%MatrixMarket': expected a Matrix Market file" in said
    assert not checkout.points_run()
    assert not checkout.table.exists()


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        (["claims"], "claims [OPTIONS] [PAPER...]"),
        (["merge"], "merge [OPTIONS] {DIR} [SUITE...]"),
        (["inspect"], "inspect [OPTIONS] {DUMP} [LATER]"),
        (["data", "get"], "data get [OPTIONS] {NAME...}"),
    ],
)
def test_optional_arguments_have_one_pair_of_brackets(checkout: Checkout, command: list[str], usage: str) -> None:
    assert f"gpuheap {usage} " in checkout.gpuheap(*command, "--help").stdout


def test_list_shows_traits(checkout: Checkout) -> None:
    out = checkout.gpuheap("list").stdout
    assert "the sharded_spans allocator" in out
    assert "detects double free" in out
    assert "unsupported here: this machine has no built-in device heap" in out
    assert "store_only" in out


def test_an_installed_package_says_that_a_checkout_builds_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUHEAP_BENCH", raising=False)
    for backend, words in ((None, "is built: in a checkout, run ./demo, or `cmake"), ("cuda", "gpuheap-bench: in a checkout, build it with `cmake")):
        with pytest.raises(UserError, match=words):
            choose(Layout(RECORDED), backend)


def test_source_code_is_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lists.cu").write_text("int main() {}\n")
    with pytest.raises(UserError, match="'./lists.cu' is source code, and a program is needed: compile it by nvcc"):
        check_program(["./lists.cu"])


def test_a_wheel_has_every_option_of_run_outside_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    shutil.copytree(REPOSITORY / "python" / "gpuheap", site / "gpuheap", ignore=shutil.ignore_patterns("results", "__pycache__", "lib"))
    elsewhere.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(site))
    for options, words in (
        (["--compare", "sharded_spans,cuda_malloc"], f"{site}/gpuheap/lib/libgpuheap_run.so is missing: install the wheel"),
        (["--allocator", "hardened"], f"{site}/gpuheap/lib/libgpuheap_run.so is missing: install the wheel"),
        (["--alocator", "hardened"], "No such option: --alocator"),
    ):
        ran = subprocess.run([sys.executable, "-m", "gpuheap", "run", *options, "true"], cwd=elsewhere, capture_output=True, text=True, check=False)
        assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1) and words in ran.stderr, ran.stderr
    with pytest.raises(UserError, match="'scatteralloc' is not in the wheel, which has sharded_spans, hardened, checked: name one of these"):
        find_provider("scatteralloc", Layout(RECORDED))


def test_list_as_json(checkout: Checkout) -> None:
    said = json.loads(checkout.gpuheap("list", "--json").stdout)
    assert said["backend"] == "simulator"
    assert [a["name"] for a in said["allocators"]] == ["sharded_spans", "cuda_malloc", "atomic_malloc", "atomic_wrap_malloc"]
    assert said["baselines"] == ["store_only"]


def test_list_needs_no_executable_where_results_tell_the_traits(checkout: Checkout) -> None:
    checkout.environment = {"GPUHEAP_BENCH": ""}
    folder = checkout.root / "results" / "nvidia-h200"
    folder.mkdir(parents=True)
    (folder / "quick.csv").write_text((REPOSITORY / "results" / "nvidia-h200" / "quick.csv").read_text())
    (folder / "environment.json").write_text((REPOSITORY / "results" / "nvidia-h200" / "environment.json").read_text())
    ran = checkout.gpuheap("list")
    assert ran.returncode == 0, ran.stderr
    assert "as recorded on NVIDIA H200 (results/nvidia-h200): no benchmark executable is built here" in ran.stdout
    said = json.loads(checkout.gpuheap("list", "--json").stdout)
    assert said["backend"] == "recorded" and "scatteralloc" in [one["name"] for one in said["allocators"]]


def test_a_paper_is_dated_once() -> None:
    papers = [("Winter et al., ICS 2020", 2020), ("Blach et al.", 2013), ("", 0)]
    lines = [_title(Allocator("a", title="A", paper=paper, year=year)) for paper, year in papers]
    assert lines == ["A, Winter et al., ICS 2020", "A, Blach et al. 2013", "A"]


def test_cuda_is_chosen_where_its_executable_finds_a_device(checkout: Checkout) -> None:
    del checkout.environment
    checkout.environment = {"GPUHEAP_BENCH": ""}
    for backend, device in (("cuda", None), ("simulator", {"name": "simulator", "total_bytes": 1 << 32, "free_bytes": 1 << 32})):
        settings = json.dumps({"backend": backend, "device": device, "device_error": "no CUDA-capable device is detected"})
        path = checkout.root / "build" / PRESETS[backend] / "benchmarks" / "gpuheap-bench"
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\nFAKE_BENCH='{settings}' exec {checkout.bench} \"$@\"\n")
        path.chmod(0o755)
    out = checkout.gpuheap("bench", "churn").stdout
    assert "on the simulator (the CUDA executable finds no device: no CUDA-capable device is detected)" in out
    ran = checkout.gpuheap("bench", "churn", "--backend", "cuda")
    assert ran.returncode == 2
    assert ran.stderr == "gpuheap: no usable GPU: no CUDA-capable device is detected (see `gpuheap doctor`)\n"


def test_without_an_executable_the_error_says_how_to_build_one(checkout: Checkout, error_line: ErrorLine) -> None:
    checkout.environment = {"GPUHEAP_BENCH": ""}
    assert "run ./demo, or `cmake --preset host" in error_line(checkout.gpuheap("list"))
    assert "no cuda executable at build/cuda/benchmarks/gpuheap-bench" in error_line(checkout.gpuheap("list", "--backend", "cuda"))


def test_an_executable_that_cannot_describe_itself(checkout: Checkout, error_line: ErrorLine) -> None:
    checkout.settings["describe"] = "fails"
    assert "ended with exit code 1: fake: libcuda.so.1 not found" in error_line(checkout.gpuheap("list"))
    checkout.environment = {"GPUHEAP_BENCH": "/nonexistent"}
    assert "GPUHEAP_BENCH is '/nonexistent', which is not an executable file: name a gpuheap-bench, or unset it" in error_line(checkout.gpuheap("list"))


def test_an_executable_that_lacks_a_case_of_the_suite(checkout: Checkout, error_line: ErrorLine) -> None:
    suite = checkout.root / "benchmarks" / "suites" / "mini.toml"
    said = suite.read_text()
    suite.write_text(said.replace('"churn"', '"larson"'))
    assert "has no case 'larson' of suite 'mini': build it again, or name one of alloc_mixed, " in error_line(checkout.gpuheap("bench", "mini"))
    suite.write_text(said.replace('"churn"', '"chrun"'))
    assert "has no case 'chrun' of suite 'mini': did you mean 'churn'? If not, build it again" in error_line(checkout.gpuheap("bench", "mini"))


@pytest.mark.parametrize("arguments", [["bench", "mini"], ["merge", "."]])
def test_a_folder_that_is_a_link_to_itself(checkout: Checkout, tmp_path: Path, error_line: ErrorLine, arguments: list[str]) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert "loop" in error_line(checkout.gpuheap(*arguments, "--output", str(tmp_path / "loop")))


def test_a_folders_name_does_nothing_to_the_terminal(checkout: Checkout, tmp_path: Path) -> None:
    ran = checkout.gpuheap("bench", "mini", "--output", str(tmp_path / "\x1b[31mred"))
    assert "\\x1b[31mred" in ran.stdout and "\x1b" not in ran.stdout


@pytest.mark.parametrize("columns", ["0", "00", ""])
def test_a_terminal_of_unknown_width_gets_all_of_the_output(checkout: Checkout, columns: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "gpuheap", "list"], cwd=checkout.root, env={**checkout.variables(), "COLUMNS": columns}, capture_output=True, text=True
    )
    assert ran.returncode == 0 and "sharded_spans" in ran.stdout, ran.stderr


def test_outside_a_checkout(checkout: Checkout, tmp_path: Path, error_line: ErrorLine) -> None:
    checkout.environment = {"GPUHEAP_ROOT": str(tmp_path / "elsewhere")}
    assert "holds no benchmarks/suites" in error_line(checkout.gpuheap("bench", "mini"))


def test_only_the_named_command_is_made() -> None:
    code = (
        "import sys, typer\n"
        "from gpuheap.cli import app, make_named_alone\n"
        "make_named_alone(app, sys.argv[1:])\n"
        "made = typer.main.get_command(app).commands\n"
        "print(sorted(made), sorted(made['host'].commands) if 'host' in made else [])"
    )

    def made(*words: str) -> str:
        return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True).stdout.strip()

    assert made("list", "--json") == "['list'] []"
    assert made("host", "trace", "--", "program") == "['host'] ['trace']"
    assert all(name in made("lst") for name in ("'list'", "'bench'", "'host'", "'trace'"))
    assert all(name in made("host", "trac") for name in ("'trace'", "'report'"))


def test_help_and_version() -> None:
    for arguments in (["--help"], ["bench", "--help"], ["report", "--help"], ["doctor", "-h"], ["--version"]):
        ran = subprocess.run(
            [sys.executable, "-m", "gpuheap", *arguments], cwd=REPOSITORY / "python", capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, arguments
        assert ran.stdout
        assert "<bool>" not in ran.stdout, "a flag takes no value"


def test_the_version_is_the_librarys() -> None:
    from gpuheap import __version__

    source = "#include <gpuheap/version.hpp>\nGPUHEAP_VERSION_STRING\n"
    command = ["c++", "-E", "-P", "-x", "c++", "-I", str(REPOSITORY / "include"), "-"]
    spelled = subprocess.run(command, input=source, capture_output=True, text=True, timeout=60, check=True).stdout
    assert spelled.replace('"', "").replace(" ", "").strip() == __version__
