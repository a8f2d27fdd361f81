"""`gpuheap.results` and its relatives: results, claims and advice for programs, in a checkout and from the package alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY

from gpuheap import evaluation
from gpuheap.errors import UserError


def test_the_package_gives_the_functions_beside_heaps_and_imports_nothing_before() -> None:
    """In another process: here the modules are imported. A module of a function's name would take its place once it is imported."""
    program = """
import sys, gpuheap
assert not {name for name in sys.modules if name.startswith("gpuheap.")}, sys.modules
verdicts = gpuheap.claims("regeff")
assert verdicts and gpuheap.claims("regeff") == verdicts
assert gpuheap.advise("16:64").ranked and gpuheap.allocators() and callable(gpuheap.results)
assert all(callable(getattr(gpuheap, name)) for name in gpuheap.__all__), gpuheap.__all__
"""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_claims_are_judged() -> None:
    found = evaluation.claims("regeff")
    assert found and {one["paper"] for one in found} == {"regeff"}
    assert {"says", "verdict", "numbers", "at"} <= set(found[0])
    with pytest.raises(UserError):
        evaluation.claims("regef")


def test_advice_is_that_of_the_command() -> None:
    found = evaluation.advise("16:64", threads=100_000)
    assert found.device == "NVIDIA H200" and len(found.ranked) > 3
    assert [one.times for one in found.ranked] == sorted(one.times for one in found.ranked)
    with pytest.raises(UserError, match="--sizes"):
        evaluation.advise("64:16")


def test_allocators_have_their_traits() -> None:
    found = {one["name"]: one for one in evaluation.allocators()}
    assert found["scatteralloc"]["year"] == 2012


def test_results_are_a_data_frame_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {}

    class DataFrame(dict):  # as much of it as is asked for
        def __init__(self, lines: list[list[str]], columns: list[str]) -> None:
            super().__init__({name: [line[n] for line in lines] for n, name in enumerate(columns)})
            made["rows"] = len(lines)

    def to_numeric(values: list[str], errors: str) -> list[float | None]:
        assert errors == "coerce"
        return [float(value) if value else None for value in values]

    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=DataFrame, to_numeric=to_numeric))
    table = evaluation.results()
    lines = sum(len(path.read_text().splitlines()) - 1 for path in (REPOSITORY / "results" / "nvidia-h200").glob("*.csv"))
    assert made["rows"] == lines
    medians = [value for value in table["median"] if value is not None]
    assert medians and all(isinstance(value, float) for value in medians)
    assert table["device"] == "NVIDIA H200"


def test_without_pandas_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="pip install pandas"):
        evaluation.results()


@pytest.mark.whole
def test_a_package_alone_reads_what_it_brings_along(tmp_path: Path) -> None:
    """Commands that only read need no checkout."""
    shutil.copytree(REPOSITORY / "python" / "gpuheap", tmp_path / "site" / "gpuheap", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path), "GPUHEAP_BENCH": ""}
    environment.pop("GPUHEAP_ROOT", None)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def gpuheap(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gpuheap", *words]
        return subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False)

    advice = gpuheap("advise", "--sizes", "16", "--json")
    assert advice.returncode == 0, advice.stderr
    assert json.loads(advice.stdout)["ranked"]
    listed = gpuheap("list", "--json")
    assert listed.returncode == 0 and json.loads(listed.stdout)["backend"] == "recorded"
    judged = gpuheap("claims", "--paper", "regeff", "--json")
    assert judged.returncode == 0 and json.loads(judged.stdout)["claims"]
    report = gpuheap("report")
    assert report.returncode == 0, report.stderr
    assert (elsewhere / "build" / "report.html").is_file()
    assert not (tmp_path / "site" / "gpuheap" / "recorded" / "build").exists()
