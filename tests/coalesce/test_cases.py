"""The cases of the rewriter: each allocation's decision at both levels, beside the line that it concerns; and the whole output, word for word.

A line of a case says `// pattern: collective R1; flow: dynamic W4`: the decision and its rule with --analysis pattern and flow. `grid` and `no-census` are flow
with --level grid and --no-census, said where they differ; `none` is no decision at all. `note: X` expects the diagnostic X on that line, at the level flow."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tool import CASES, ROOT, run

PATCH = shutil.which("patch")  # not on every machine
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
    assert ran.returncode in (0, 1), ran.stderr
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
def test_words(case: Path, tmp_path: Path) -> None:
    """Diagnostics, diff and exit code are exactly those of expected/CASE.txt; patch makes of the diff what --in-place writes; and a second run changes nothing.
    GPUHEAP_UPDATE_EXPECTED=1 writes the text, to be read before it is kept."""
    copy = tmp_path / case.name
    copy.write_bytes(case.read_bytes())
    ran = run(*options_of(case), case.name, cwd=tmp_path)
    text = f"{ran.stderr}{ran.stdout}exit code {ran.returncode}\n".replace(f"{ROOT}/", "")
    kept = case.parent.parent / "expected" / f"{case.stem}.txt"
    if os.environ.get("GPUHEAP_UPDATE_EXPECTED"):
        kept.write_text(text)
    assert text == kept.read_text()
    written = run("--quiet", "--in-place", *options_of(case), case.name, cwd=tmp_path)
    assert written.returncode == ran.returncode, written.stderr
    if ran.returncode != 0:
        assert copy.read_bytes() == case.read_bytes()
        return
    if PATCH is not None:
        patched = tmp_path / "patched.cu"
        patched.write_bytes(case.read_bytes())
        subprocess.run([PATCH, str(patched)], input=ran.stdout, text=True, check=True, capture_output=True)
        assert patched.read_text() == copy.read_text()
    again = run("--quiet", *options_of(case), case.name, cwd=tmp_path)
    assert (again.returncode, again.stdout) == (1, ""), again.stdout


def test_the_promise_is_that_of_the_level(tmp_path: Path) -> None:
    """A promise that is proven only for warps is not made for blocks."""
    votes = tmp_path / "votes.cu"
    votes.write_text("__global__ void kernel(int* d) { if (__any_sync(~0u, d[threadIdx.x])) free(malloc(8)); }\nint main() {}\n")
    block = run("--no-toolkit", "--quiet", str(votes))
    assert "gpuheap::coalesced::malloc(8))" in block.stdout and "[W1]" in block.stderr
    warp = run("--no-toolkit", "--quiet", "--level", "warp", str(votes))
    assert "gpuheap::coalesced::by_warp::malloc(8, true)" in warp.stdout and "gpuheap::coalesced::by_warp::free(" in warp.stdout


def test_options_of_the_inserted_calls() -> None:
    case = str(next(path for path in CASES if path.stem == "32_three_returns"))
    ran = run("--no-toolkit", "--quiet", "--dynamic", "--heap-bytes", "1 << 20", case)
    assert "+  gpuheap::coalesced::init_dynamic(1 << 20);" in ran.stdout
    without = run("--no-toolkit", "--quiet", "--no-init", case).stdout
    assert "init" not in without and "clean" not in without and "malloc(8, true)" in without
