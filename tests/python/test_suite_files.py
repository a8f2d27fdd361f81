"""A suite in a file of the user: `gpuheap bench path/to/suite.toml`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY, SUITE, Checkout
from handmade import BETTER, CLAIM, HEAD

from gpuheap.errors import UserError
from gpuheap.formats.results import NAME, read_table
from gpuheap.formats.suites import add_files, load_suite, load_suites, select
from gpuheap.paths import Layout

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]

MINE = """
[suite]
name = "mine"

[[case]]
name = "churn"
metrics = ["kernel_us"]
heap_bytes = "1GiB"
runs = 2
axes = { threads = [100], bytes = [1024, 2048], rounds = [4] }

[[case]]
name = "alloc_single"
metrics = ["malloc_us", "free_us"]
heap_bytes = "1GiB"
runs = 2
axes = { threads = [100], bytes = [16], state = ["warm"] }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A suite outside of the checkout's folder of suites, in a folder whose name has a space."""
    path = tmp_path / "my suites" / "first.toml"
    path.parent.mkdir()
    path.write_text(MINE)
    return path


def test_a_suites_file_is_measured_into_the_table_of_its_name(checkout: Checkout, file: Path) -> None:
    ran = checkout.gpuheap("bench", str(file), "-a", "sharded_spans")
    assert ran.returncode == 0, ran.stderr
    table = checkout.table.with_name("mine.csv")
    points = dict.fromkeys((row.suite, row.case, row.bytes, row.runs) for row in read_table(table))
    assert list(points) == [("mine", "churn", 1024, 2), ("mine", "churn", 2048, 2), ("mine", "alloc_single", 16, 2)]
    assert not checkout.table.exists()
    assert "mine" in json.loads((table.parent / "environment.json").read_text())["sweeps"]
    checkout.log()
    # The same command continues, from any folder.
    again = checkout.gpuheap("bench", "first.toml", "-a", "sharded_spans", cwd=file.parent)
    assert again.returncode == 0 and checkout.points_run() == []


def test_one_case_of_a_file_and_a_suite_together(checkout: Checkout, file: Path) -> None:
    ran = checkout.gpuheap("bench", f"{file}/alloc_single", "mini/churn", "-a", "sharded_spans")
    assert ran.returncode == 0, ran.stderr
    assert {row.case for row in read_table(checkout.table.with_name("mine.csv"))} == {"alloc_single"}
    assert {row.case for row in read_table(checkout.table)} == {"churn"}


def test_the_file_of_a_suite_of_the_checkout_is_that_suite(checkout: Checkout) -> None:
    assert checkout.gpuheap("bench", "benchmarks/suites/mini.toml/churn", "-a", "sharded_spans").returncode == 0
    assert {row.suite for row in read_table(checkout.table)} == {"mini"}


def test_the_report_and_the_merge_take_a_table_of_such_a_suite(checkout: Checkout, file: Path) -> None:
    checkout.settings["backend"] = "cuda"
    assert checkout.gpuheap("bench", str(file), "-a", "sharded_spans,cuda_malloc", "--output", "there/nvidia-h200").returncode == 0
    merged = checkout.gpuheap("merge", "there/nvidia-h200")
    assert merged.returncode == 0, merged.stderr
    assert {row.suite for row in read_table(checkout.gpu_table.with_name("mine.csv"))} == {"mine"}
    report = checkout.gpuheap("report")
    assert report.returncode == 0, report.stderr
    assert "mine" in (checkout.root / "build" / "report.html").read_text()


def test_no_claim_waits_for_points_of_such_a_suite(checkout: Checkout, file: Path) -> None:
    (checkout.root / "benchmarks" / "claims").mkdir()
    (checkout.root / "benchmarks" / "claims" / "small.toml").write_text(HEAD + CLAIM + BETTER)
    checkout.settings["backend"] = "cuda"
    ran = checkout.gpuheap("bench", str(file), "-a", "sharded_spans", "--for-claims")
    assert ran.returncode == 0, ran.stderr
    assert "none of these 3 points helps to decide an open claim" in ran.stdout


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "SUITE: there is no file 'mine.toml': expected the file of a suite, as docs/benchmarks.md shows one, or one of the suites mini"),
        ("", "mine.toml: [suite] is missing or not a table"),
        ("suite", "mine.toml:1: Expected '=' after a key"),
        (MINE.replace('"mine"', '"mini"'), "suites/mini.toml, and both would write mini.csv: choose another name"),
        (MINE.replace('"mine"', '"../mine"'), "mine.toml: suite.name is '../mine': expected a letter, then letters, digits and underscores"),
        (MINE.replace('"mine"', '"all"'), "mine.toml: suite.name is 'all', which stands for all suites on the command line: choose another name"),
        (MINE.replace('"churn"', '"my churn"'), "mine.toml: case.name is 'my churn': expected a letter, then letters, digits and underscores"),
        (MINE.replace('"churn"', '"chrun"'), "has no case 'chrun' of suite 'mine': did you mean 'churn'? If not, build it again"),
        (MINE.replace("rounds", "round"), "mine.toml: churn: unknown axis 'round': did you mean 'rounds'?"),
        (MINE.replace("[[case]]", "[[cases]]"), "mine.toml: the suite has no [[case]]"),
        (MINE.split("[[case]]")[0] + '[case]\nname = "churn"', "mine.toml: [[case]] must be a list of tables: write [[case]] in place of [case]"),
        (MINE.replace('heap_bytes = "1GiB"', ""), 'mine.toml: churn: heap_bytes is missing: write the size of the case\'s heap, as heap_bytes = "1GiB"'),
    ],
)
def test_a_file_that_is_no_suite_is_told_in_one_line(checkout: Checkout, error_line: ErrorLine, text: str | None, complaint: str) -> None:
    if text is not None:
        (checkout.root / "mine.toml").write_text(text)
    assert complaint in error_line(checkout.gpuheap("bench", "mine.toml"))
    assert not (checkout.root / "build").exists(), "something was written"


def test_a_folder_and_a_case_that_are_not_there_are_told(checkout: Checkout, error_line: ErrorLine, file: Path) -> None:
    (checkout.root / "folder.toml").mkdir()
    assert "SUITE: 'folder.toml' is a folder: expected the file of a suite" in error_line(checkout.gpuheap("bench", "folder.toml"))
    assert "unknown case of suite mine 'chrun': did you mean 'churn'?" in error_line(checkout.gpuheap("bench", f"{file}/chrun"))
    assert "there is no file 'mini.toml': did you mean the suite 'mini'?" in error_line(checkout.gpuheap("bench", "mini.toml"))


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("first", "there is no suite or case 'first': did you mean the file 'first.toml'?"),
        ("./first", "there is no suite or case './first': did you mean the file './first.toml'?"),
        ("first.txt", "'first.txt' is neither a suite nor a case, and the name of a suite's file ends in .toml: rename the file if it is a suite"),
        ("my suites", "'my suites' is a folder: name the file of a suite in it, or a suite"),
        ("./my suites/", "'./my suites/' is a folder: name the file of a suite in it, or a suite"),
    ],
)
def test_a_path_that_is_no_suites_file_is_told(checkout: Checkout, error_line: ErrorLine, file: Path, target: str, complaint: str) -> None:
    for name in ("first.toml", "first.txt", "churn"):
        (checkout.root / name).write_text(MINE)
    assert complaint in error_line(checkout.gpuheap("bench", target))
    # A file in the current folder does not hide the case of its name, and the letters of the suffix may be large.
    assert select(load_suites(Layout(checkout.root)), ["churn"])[0][1] == ("churn",)
    (checkout.root / "FIRST.TOML").write_text(MINE)
    assert add_files({}, [f"{checkout.root / 'FIRST.TOML'}/"])[1] == ("mine",)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_text(MINE)
    (tmp_path / "link.toml").symlink_to("a.toml")
    suites, targets = add_files({}, [str(tmp_path / "a.toml"), f"{tmp_path / 'link.toml'}/churn", "quick"])
    assert (list(suites), targets) == (["mine"], ("mine", "mine/churn", "quick"))
    with pytest.raises(UserError, match=r"b\.toml: suite\.name is 'mine', as in .*a\.toml, and both would write mine\.csv"):
        add_files({}, [str(tmp_path / "a.toml"), str(tmp_path / "b.toml")])


def test_the_suite_that_the_documentation_shows_is_taken_from_a_file(tmp_path: Path) -> None:
    shown = re.search(r"```toml\n(\[suite\].*?)```", (REPOSITORY / "docs" / "benchmarks.md").read_text(), re.DOTALL)
    assert shown is not None
    (tmp_path / "mine.toml").write_text(shown[1])
    suites, targets = add_files(load_suites(Layout(REPOSITORY)), [str(tmp_path / "mine.toml")])
    assert targets == ("mine",) and suites["mine"].path == tmp_path / "mine.toml"


def test_every_name_of_a_suite_may_stand_in_a_table(tmp_path: Path) -> None:
    (tmp_path / "mini.toml").write_text(SUITE)
    for suite in (*load_suites(Layout(REPOSITORY)).values(), load_suite(tmp_path / "mini.toml")):
        assert all(NAME.fullmatch(name) for name in (suite.name, *suite.cases))
