"""A command whose reader leaves, as `head` does, ends as SIGPIPE ends a program: with the exit code 141, and without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY, Checkout
from handmade import row, save


def ran_without_reader(checkout: Checkout, *arguments: str, python: tuple[str, ...] = ()) -> tuple[int, str]:
    """The exit code and the standard error of a command that writes into a pipe that no process reads."""
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, *python, "-m", "gpuheap", *arguments]
        ran = subprocess.run(command, cwd=checkout.root, env=checkout.variables(), stdout=write, stderr=subprocess.PIPE, text=True, timeout=120)
    finally:
        os.close(write)
    return ran.returncode, ran.stderr


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    """Two tables; the second is worse."""
    before = save(tmp_path / "a.csv", [row("halloc", 1, size=16 * number) for number in range(1, 9)])
    after = save(tmp_path / "b.csv", [row("halloc", 2, size=16 * number) for number in range(1, 9)])
    return str(before), str(after)


@pytest.mark.parametrize("python", [(), ("-u",)])
@pytest.mark.parametrize("options", [[], ["--json"], ["--help"]])
def test_a_comparison_is_no_verdict_if_its_reader_left(checkout: Checkout, tables: tuple[str, str], python: tuple[str, ...], options: list[str]) -> None:
    assert ran_without_reader(checkout, "compare", *tables, *options, python=python) == (141, "")
    assert checkout.gpuheap("compare", *tables).returncode == 1


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list"], ["list", "--json"], ["doctor"], ["claims", "--help"], ["data", "--help"]])
def test_each_command_ends_as_a_broken_pipe_ends_a_program(checkout: Checkout, arguments: list[str]) -> None:
    assert ran_without_reader(checkout, *arguments) == (141, "")


def test_a_mistake_is_still_a_mistake(checkout: Checkout) -> None:
    code, errors = ran_without_reader(checkout, "bench", "mni")
    assert (code, errors) == (2, "gpuheap: unknown suite or case 'mni': did you mean 'mini'?\n")


def test_a_reader_that_leaves_after_the_first_line(checkout: Checkout, tables: tuple[str, str]) -> None:
    command = 'set -o pipefail; "$0" -m gpuheap compare "$1" "$2" --json | head -n 1'
    # More than a pipe holds, so that the command still writes when head has left.
    for path, value in zip(tables, (1, 2), strict=True):
        save(Path(path), [row("halloc", value, size=16 * number) for number in range(1, 1001)])
    shell = ["bash", "-c", command, sys.executable, *tables]
    ran = subprocess.run(shell, cwd=checkout.root, env=checkout.variables(), capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout, ran.stderr) == (141, "{\n", "")


def test_a_measurement_whose_reader_left_keeps_its_rows(checkout: Checkout) -> None:
    code, errors = ran_without_reader(checkout, "bench", "mini", "-a", "sharded_spans")
    assert (code, errors) == (141, "")
    assert checkout.gpuheap("bench", "mini", "-a", "sharded_spans").returncode == 0


def test_another_pipe_that_breaks_is_told() -> None:
    """Only a standard stream without a reader ends a command in silence."""
    program = (
        "import os; from gpuheap.exits import end_with\ndef command():\n    read, write = os.pipe(); os.close(read); os.write(write, b'x')\nend_with(command)"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY / "python", capture_output=True, text=True, timeout=30)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "gpuheap: broken pipe\n")
