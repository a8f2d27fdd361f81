"""The cases of the rewriter: each allocation's decision at both levels, beside the line that it concerns; and the whole output, word for word.

A line of a case says `// pattern: collective R1; flow: dynamic W4`: the decision and its rule with --analysis pattern and flow. `grid` and `no-census` are flow
with --level grid and --no-census, said where they differ; `none` is no decision at all. `note: X` expects the diagnostic X on that line, at the level flow."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from tool import CASES, run

MODES = {
    "pattern": ["--analysis", "pattern"],
    "flow": [],
    "grid": ["--level", "grid"],
    "no-census": ["--no-census"],
}
OPTIONS = {"18_registered": ["--register", "exchange"], "40_size_from_the_communicator": ["--root", "rank_main"]}


def expected(case: Path, mode: str) -> dict[int, str]:
    """Decision and rule by line. Modes that are not named on a line are as flow."""
    found = {}
    for number, line in enumerate(case.read_text().splitlines(), 1):
        said = dict(re.findall(r"([\w-]+): ([\w ]+)", line.partition("//")[2]))
        if "flow" in said:
            found[number] = said.get(mode, said["flow"]).strip()
    return {number: words for number, words in found.items() if words != "none"}


def options_of(case: Path) -> list[str]:
    return ["--no-toolkit", *OPTIONS.get(case.stem, [])]


COMBINATIONS = [(case, mode) for case in CASES for mode in MODES if mode in ("pattern", "flow") or f"{mode}:" in case.read_text()]


@pytest.mark.parametrize(("case", "mode"), COMBINATIONS, ids=lambda value: getattr(value, "stem", value))
def test_decisions(case: Path, mode: str) -> None:
    wanted = expected(case, mode)
    ran = run("--json", *options_of(case), *MODES[mode], str(case))
    assert ran.returncode in (0, 2), ran.stderr
    report = json.loads(ran.stdout)
    found = {site["line"]: f"{site['decision']} {site['rule']}" for site in report["sites"]}
    found |= {call["line"]: call["decision"] for call in report["calls"]}
    assert found == wanted


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_notes(case: Path) -> None:
    report = json.loads(run("--json", *options_of(case), str(case)).stdout)
    told = {(said["line"], said["id"]) for said in report["diagnostics"]}
    for number, line in enumerate(case.read_text().splitlines(), 1):
        for note in re.findall(r"note: (\w+)", line.partition("//")[2]):
            assert (number, note) in told, f"line {number}: {note}"


def test_there_are_cases_for_each_number_of_the_design() -> None:
    assert {int(case.stem.split("_")[0]) for case in CASES} >= set(range(1, 33))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_words(case: Path) -> None:
    """Diagnostics, diff and exit code are exactly those of expected/CASE.txt. GPUHEAP_UPDATE_EXPECTED=1 writes them, to be read before they are kept."""
    ran = run(*options_of(case), case.name, cwd=case.parent)
    text = f"{ran.stderr}{ran.stdout}exit code {ran.returncode}\n"
    kept = case.parent.parent / "expected" / f"{case.stem}.txt"
    if os.environ.get("GPUHEAP_UPDATE_EXPECTED"):
        kept.write_text(text)
    assert text == kept.read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_a_second_run_changes_nothing(case: Path, tmp_path: Path) -> None:
    first = run("--quiet", "--output", str(tmp_path), *options_of(case), str(case))
    assert first.returncode in (0, 2), first.stderr
    again = run("--quiet", *options_of(case), case.name, cwd=tmp_path)
    assert (again.returncode, again.stdout) == (2, ""), again.stdout


def test_the_diff_is_one_that_patch_takes(tmp_path: Path) -> None:
    written = tmp_path / "out"
    written.mkdir()
    for case in CASES:
        copy = tmp_path / case.name
        copy.write_bytes(case.read_bytes())
        ran = run("--quiet", *options_of(case), copy.name, cwd=tmp_path)
        if ran.returncode == 0:
            subprocess.run(["patch", "-p0"], input=ran.stdout, text=True, cwd=tmp_path, check=True, capture_output=True)
        run("--quiet", "--output", str(written), *options_of(case), str(case))
        assert copy.read_text() == (written / case.name).read_text()
