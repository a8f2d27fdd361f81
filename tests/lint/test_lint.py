"""The repository keeps the rules of docs/architecture.md. Needs no build."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import rules

ROOT = Path(__file__).resolve().parents[2]


def repository_files() -> list[str]:
    try:
        command = ["git", "ls-files", "-co", "--exclude-standard"]
        names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    except (FileNotFoundError, subprocess.CalledProcessError):  # no git, or a source archive
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*")]
        names = [name for name in names if not re.search(r"^(build|\.(?!ci)\w+)/|__pycache__|\.egg-info", name)]
    return sorted(name for name in set(names) if (ROOT / name).is_file())


FILES = repository_files()
CPP_FILES = [name for name in FILES if Path(name).suffix in rules.CPP and not name.startswith("cmake/")]
HEADERS = [name for name in CPP_FILES if name.startswith("include/")]
KERNELS = [name for name in FILES if name.startswith("opencl/") and name.endswith(".cl")]


def breaches(rule, names: list[str]) -> str:
    return "\n".join(str(b) for name in names for b in rule(name, (ROOT / name).read_text()))


def test_no_include_goes_up_a_layer():
    assert breaches(rules.includes_going_up, CPP_FILES) == ""


def test_no_backend_if_outside_simt():
    assert breaches(rules.backend_tests, CPP_FILES) == ""


def test_every_loop_that_waits_says_why_it_ends():
    assert breaches(rules.loops_without_end, HEADERS + KERNELS) == ""


def test_no_loop_that_counts_says_why_it_ends():
    argued_line_by_line = ("include/gpuheap/check", "include/gpuheap/misuse.hpp")
    assert breaches(rules.counted_loops_with_end, [name for name in CPP_FILES + KERNELS if not name.startswith(argued_line_by_line)]) == ""


def test_every_public_header_is_documented():
    public = [name for name in HEADERS if "/simt/cuda/" not in name and "/simt/host/" not in name]
    assert breaches(rules.undocumented, public) == ""


def test_no_file_is_over_600_lines():
    others = [name for name in FILES if name.endswith((".py", ".cmake", "CMakeLists.txt"))]
    assert breaches(rules.too_long, CPP_FILES + others) == ""


def test_no_line_is_too_long():
    by_the_rewriter = ("tests/coalesce/", "examples/mpi/")  # line breaks included
    formatted = [name for name in CPP_FILES if Path(name).suffix in {".hpp", ".cpp", ".cu", ".cuh"}]
    assert breaches(rules.long_lines, [name for name in formatted if not name.startswith(by_the_rewriter)]) == ""


def test_types_are_snake_case():
    assert breaches(rules.type_names, HEADERS + [name for name in CPP_FILES if name.startswith("simulator/")]) == ""


def test_no_retired_name_is_left():
    assert breaches(rules.retired_names, HEADERS) == ""


def test_every_skip_says_what_is_skipped_and_what_to_do():
    places = [name for name in FILES if name.startswith(("tests/", "tools/", "opencl/")) and name.endswith((".py", ".cpp", ".cu", "CMakeLists.txt"))]
    assert breaches(rules.skips_without_remedy, [name for name in places if not name.startswith("tests/lint/")]) == ""


def test_the_subject_of_the_last_commit_follows_the_rules():
    try:
        command = ["git", "log", "-1", "--no-merges", "--format=%s"]
        subject = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("the style of commits: this is not a git checkout: clone the repository with git")
    assert "\n".join(map(str, rules.subject_breaches(subject))) == ""


def test_nothing_is_left_unfinished():
    text_files = [
        name for name in FILES if Path(name).suffix in {*rules.CPP, ".py", ".cmake", ".toml", ".sh"} or Path(name).name == "CMakeLists.txt"
    ]
    assert breaches(rules.unfinished, text_files) == ""


def test_every_header_has_a_layer():
    assert [name for name in CPP_FILES if rules.place_of(name) is None] == []


def test_architecture_fits_a_screen_and_names_every_folder():
    text = (ROOT / "docs/architecture.md").read_text()
    assert len(text.splitlines()) <= 80
    folders = {name.split("/")[0] for name in FILES if "/" in name and not name.startswith(".")}
    assert [folder for folder in sorted(folders) if f"`{folder}/" not in text] == []


def test_architecture_names_only_what_exists():
    text = (ROOT / "docs/architecture.md").read_text()
    named = [path for path in re.findall(r"`([\w.*/-]+/[\w.*/-]*)`", text) if "<" not in path]
    assert named
    assert [path for path in named if not path.startswith("build/") and not list(ROOT.glob(path.rstrip("/")))] == []


@pytest.mark.parametrize(
    ("page", "example"),
    [
        ("README.md", "examples/plain_cuda.cu"),
        ("README.md", "examples/python/array_numba.py"),
        ("docs/heap.md", "examples/readme.cpp"),
        ("docs/heap.md", "examples/growth.cpp"),
    ],
)
def test_pages_show_the_examples_as_they_are(page, example):
    blocks = re.findall(r"```(?:cpp|python)\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert (ROOT / example).read_text() in blocks


def test_each_idea_of_the_default_allocator_is_measured_and_explored():
    ideas = re.findall(r"^using (with(?:out)?_\w+)", (ROOT / "benchmarks/ablation/ideas.hpp").read_text(), re.MULTILINE)
    assert ideas
    assert re.findall(r'"(with(?:out)?_\w+)"', (ROOT / "benchmarks/suites/ablation.toml").read_text()) == ideas
    types = re.search(r"::testing::Types<([^;]*)>;", (ROOT / "tests/allocators/sharded_ideas_test.cpp").read_text())
    assert types and re.findall(r"bench::(with(?:out)?_\w+)", types[1]) == ideas
    compiled = re.search(r"plans<([^>]*)>", (ROOT / "tests/allocators/ideas_compile.cu").read_text())
    assert compiled and re.split(r",\s+", compiled[1]) == [re.sub("^with(out)?_", "", idea) for idea in ideas]


def test_the_kinds_of_heap_are_measured_under_the_names_that_the_benchmark_has():
    kinds = re.findall(r'return "(\w+)";', (ROOT / "benchmarks/kinds/kinds.hpp").read_text())
    assert kinds
    items = re.search(r"foreach\(kind IN ITEMS ([\w ]+)\)", (ROOT / "benchmarks/CMakeLists.txt").read_text())
    suite = re.search(r"^baselines = \[(.*)\]", (ROOT / "benchmarks/suites/kinds.toml").read_text(), re.MULTILINE)
    catalogue = re.search(r"^KINDS = \((.*)\)", (ROOT / "python/gpuheap/catalogue.py").read_text(), re.MULTILINE)
    assert items and suite and catalogue
    assert sorted(items[1].split()) == sorted(re.findall(r'"(\w+)"', suite[1])) == sorted(re.findall(r'"(\w+)"', catalogue[1])) == sorted(kinds)


def test_readme_links_lead_somewhere():
    text = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_python_is_as_ruff_wants_it():
    found = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", "python/pyproject.toml", "--output-format", "concise", "python", "scripts", "tests"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr


def test_python_types_are_right():
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(ROOT / "build" / "mypy_cache"), "--config-file", "pyproject.toml", "gpuheap"],
        cwd=ROOT / "python", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
