"""The commands' answers if the machine or an input is not as it should be: one line, exit code 2, and nothing is lost."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from extent import in_full
from fake_checkout import REPOSITORY, Checkout

from gpuheap.formats.results import read_table

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]
Command = tuple[str, ...]
SINGLE: Command = ("bench", "alloc_single", "-a", "sharded_spans", "--no-baselines")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def shell(checkout: Checkout, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs shell text in which `sharded_spans` is the command."""
    known = {**checkout.variables(), "PYTHON": sys.executable, **variables}
    command = f'gpuheap() {{ "$PYTHON" -m gpuheap "$@"; }}; {text}'
    return subprocess.run(["bash", "-c", command], cwd=checkout.root, env=known, capture_output=True, text=True, timeout=120)


def test_tables_that_cannot_be_written_are_named(checkout: Checkout, error_line: ErrorLine) -> None:
    (checkout.root / "file").write_text("mine")
    (checkout.root / "closed").mkdir(mode=0o555)
    remedy = "name another folder with --output"
    for output, words in (
        ("file", "file is a file, and a folder is needed"),
        ("file/x", "file/x cannot be made: not a directory"),
        ("closed/x", "closed/x cannot be made: permission denied"),
        ("closed", "closed/environment.json cannot be written: permission denied"),
        ("x" * 300, "cannot be made: file name too long"),
    ):
        line = error_line(checkout.gpuheap(*SINGLE, "--output", output, ordinary=True))
        assert words in line and line.endswith(remedy), line
    assert (checkout.root / "file").read_text() == "mine" and checkout.points_run() == []
    (checkout.root / "build").mkdir(mode=0o555)
    for command in (SINGLE, ("report",)):
        line = error_line(checkout.gpuheap(*command, ordinary=True))
        assert "permission denied: name another" in line and line.endswith("with --output"), line


@pytest.mark.parametrize("what", ["folder", "pipe"])
def test_what_stands_where_the_table_goes_is_left_alone(checkout: Checkout, error_line: ErrorLine, what: str) -> None:
    table = checkout.root / "here" / "mini.csv"
    table.parent.mkdir()
    table.mkdir() if what == "folder" else os.mkfifo(table)
    assert "mini.csv is not a file, and the table is written there" in error_line(checkout.gpuheap(*SINGLE, "--output", "here"))
    assert not table.is_file() and checkout.points_run() == []


@pytest.mark.parametrize("largest", [0, 300, 900, 2200, 2600])
def test_a_disk_that_is_full_at_any_write_of_bench_loses_nothing(checkout: Checkout, error_line: ErrorLine, largest: int) -> None:
    command = (*SINGLE, "--output", "here")
    assert "cannot be written: file too large" in error_line(checkout.gpuheap(*command, largest_file=largest))
    folder = checkout.root / "here"
    assert set(contents(folder)) <= {"mini.csv", "environment.json"}
    kept = [row.line for row in read_table(folder / "mini.csv")] if (folder / "mini.csv").exists() else []
    checkout.log()
    assert checkout.gpuheap(*command).returncode == 0
    assert len(checkout.points_run()) == 5 - len(kept) // 2, "what was finished was measured again"
    assert [row.line for row in read_table(folder / "mini.csv")][: len(kept)] == kept
    # With another build all rows are dropped: the old ones stay as long as that fails.
    before = contents(folder)
    checkout.build("another")
    error_line(checkout.gpuheap(*command, "--anew", largest_file=0))
    assert contents(folder) == before


@pytest.mark.parametrize("largest", [0, 1000, 2000, 2500, 2800, 3100, 3500])
def test_a_disk_that_is_full_at_any_write_of_merge_changes_nothing(checkout: Checkout, error_line: ErrorLine, largest: int) -> None:
    assert checkout.gpuheap("bench", "mini", "-a", "sharded_spans,atomic_malloc", "--output", "one").returncode == 0
    checkout.build("another")
    assert checkout.gpuheap("bench", "mini", "-a", "sharded_spans,atomic_malloc", "--output", "two", "--runs", "5").returncode == 0
    before = contents(checkout.root / "one")
    assert largest < max(map(len, contents(checkout.root / "two").values()))
    line = error_line(checkout.gpuheap("merge", "two", "--output", "one", largest_file=largest))
    assert "cannot be written: file too large" in line and line.endswith("nothing was changed")
    assert contents(checkout.root / "one") == before
    error_line(checkout.gpuheap("merge", "two", "--output", "new/one", largest_file=largest))
    assert not (checkout.root / "new").exists(), "a folder was made"
    assert checkout.gpuheap("merge", "two", "--output", "one").returncode == 0
    assert contents(checkout.root / "one")["mini.csv"] == contents(checkout.root / "two")["mini.csv"]


def test_merge_says_which_table_is_not_there(checkout: Checkout) -> None:
    checkout.gpuheap(*SINGLE, "--output", "one")
    (checkout.root / "one" / "mini.csv").unlink()
    out = checkout.gpuheap("merge", "one", "--output", "two").stdout
    assert "not taken: mini: one/mini.csv is missing, although environment.json names its sweeps" in out


def test_an_environment_of_a_later_format_is_left_alone(checkout: Checkout, error_line: ErrorLine) -> None:
    (checkout.root / "one").mkdir()
    path = checkout.root / "one" / "environment.json"
    path.write_text('{"format": 2, "sweeps": {}}')
    for command in (("merge", "one", "--output", "two"), (*SINGLE, "--output", "one")):
        assert "is of format 2, and this gpuheap reads format 1" in error_line(checkout.gpuheap(*command))
    assert path.read_text() == '{"format": 2, "sweeps": {}}'


@pytest.mark.parametrize(
    "said",
    [
        "[]", "", "\xff", "[" * 9999, '{"gpu": 3}', '{"sweeps": {"../x": {}}}', '{"sweeps": {"mini": {"churn": 3}}}',
        '{"allocators": [3]}', '{"builds": [1]}', '{"again": 1}',
    ],
)  # fmt: skip
def test_an_environment_that_is_none_is_refused(checkout: Checkout, error_line: ErrorLine, said: str) -> None:
    (checkout.root / "one").mkdir()
    path = checkout.root / "one" / "environment.json"
    path.write_bytes(said.encode("latin-1"))
    for command in (("merge", "one", "--output", "two"), (*SINGLE, "--output", "one")):
        line = error_line(checkout.gpuheap(*command))
        assert "one/environment.json" in line and line.endswith("delete it to start again"), line
    assert path.read_bytes() == said.encode("latin-1") and not (checkout.root / "two").exists()


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (b"\xff\xfe", "bad.toml:1: not a text file in UTF-8 (the byte 0xff)"),
        (b'[suite]\nname = "\xfc"\n', "bad.toml:2: not a text file in UTF-8 (the byte 0xfc)"),
        (b"[suite]\na = [", "bad.toml:2: Invalid value"),
        (b"a = " + b"[" * 50000, "bad.toml: its lists are nested too deeply"),
        (b'case = 3\n[suite]\nname = "bad"\n', "bad.toml: [[case]] must be a list of tables"),
        (b"", "bad.toml: [suite] is missing or not a table"),
        (None, "bad.toml cannot be read: is a directory"),
    ],
)
def test_a_suite_that_is_none_is_named(checkout: Checkout, error_line: ErrorLine, said: bytes | None, complaint: str) -> None:
    path = checkout.root / "benchmarks" / "suites" / "bad.toml"
    path.mkdir() if said is None else path.write_bytes(said)
    assert complaint in error_line(checkout.gpuheap("bench", "mini"))


def test_a_report_goes_where_it_is_told_and_replaces_no_device_and_no_link(checkout: Checkout, error_line: ErrorLine) -> None:
    checkout.gpuheap(*SINGLE)
    (checkout.root / "link.html").symlink_to("target.html")
    (checkout.root / "full.html").symlink_to("/dev/full")
    assert checkout.gpuheap("report", "-o", "link.html").returncode == 0
    assert (checkout.root / "link.html").is_symlink() and (checkout.root / "target.html").read_text().startswith("<!DOCTYPE html>")
    assert checkout.gpuheap("report", "-o", "/dev/null").returncode == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    for path in ("/dev/full", "full.html"):
        line = error_line(checkout.gpuheap("report", "-o", path))
        assert line.endswith(f"{path} cannot be written: no space left on device: free some space, or name another file with --output")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    before = (checkout.root / "target.html").read_bytes()
    error_line(checkout.gpuheap("report", "-o", "link.html", largest_file=5000))
    assert (checkout.root / "target.html").read_bytes() == before
    assert shell(checkout, "gpuheap report -o /dev/stdout | head -c 15").stdout == "<!DOCTYPE html>"


def test_folders_and_options_of_report_are_checked(checkout: Checkout, error_line: ErrorLine) -> None:
    (checkout.root / "empty").mkdir()
    assert "--results: there is no folder 'none'" in error_line(checkout.gpuheap("report", "--results", "none"))
    assert "--results: the folder 'empty' holds no table" in error_line(checkout.gpuheap("report", "--results", "empty"))
    assert "give one of the two" in error_line(checkout.gpuheap("report", "--figures", "figures", "-o", "x.html"))
    assert "--allocators names no allocator" in error_line(checkout.gpuheap("bench", "mini", "-a", ","))


def test_a_graph_may_have_any_name(checkout: Checkout) -> None:
    name = b'g\xff\n;=",.mtx'
    (Path(os.fsdecode(os.fsencode(checkout.root) + b"/" + name))).write_text("%%MatrixMarket")
    for points in (2, 0):
        ran = checkout.gpuheap("bench", "graph_update", "-a", "sharded_spans", "--graph", os.fsdecode(name))
        assert ran.returncode == 0, ran.stderr
        assert len(checkout.points_run()) == points
    assert {row.parameters["graph"] for row in read_table(checkout.table)} == {'g____",.mtx'}


def test_odd_words_are_one_line(checkout: Checkout, error_line: ErrorLine) -> None:
    assert error_line(checkout.gpuheap("bench", "a\nb\x1b[2J\tc")).startswith(r"unknown suite or case 'a\nb\x1b[2J\tc'")
    assert "aaa...'" in error_line(checkout.gpuheap("bench", "a" * 3000))
    ran = checkout.gpuheap("bench", os.fsdecode(b"min\xff"))
    assert "did you mean 'mini'?" in error_line(ran)


def test_output_that_nobody_takes(checkout: Checkout) -> None:
    full = shell(checkout, "gpuheap list > /dev/full")
    assert (full.returncode, full.stderr) == (2, "gpuheap: standard output cannot be written: no space left on device: free some space\n")
    for command in ("list", "list --json", "bench mini -a sharded_spans"):
        left = shell(checkout, f"gpuheap {command} | true; exit ${{PIPESTATUS[0]}}")
        assert (left.returncode in (0, 141), left.stderr) == (True, ""), left
        closed = shell(checkout, f"gpuheap {command} <&- >&-")
        assert (closed.returncode, closed.stderr) == (0, ""), closed
    assert shell(checkout, "gpuheap bench mni 2>&-").returncode == 2


def test_streams_that_are_closed_are_no_file_of_ours(checkout: Checkout) -> None:
    """The next file that is opened would get the number of a closed stream, and what is printed would go there."""
    assert shell(checkout, "gpuheap bench alloc_single -a sharded_spans --output here <&- >&- 2>&-").returncode == 0
    assert len(read_table(checkout.root / "here" / "mini.csv")) == 10 + 10
    assert json.loads((checkout.root / "here" / "environment.json").read_text())["backend"] == "simulator"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_of_any_encoding(checkout: Checkout, encoding: str) -> None:
    checkout.settings = {"backend": "simulator", "device_error": ""}
    suite = checkout.root / "benchmarks" / "suites" / "mini.toml"
    suite.write_text(suite.read_text().replace("for the tests", "µs ≤ ∞"))
    folder = checkout.root / os.fsdecode("ä ∞ ".encode() + b"\xff")
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "gpuheap", "bench", "churn", "-a", "sharded_spans", "--output", str(folder)],
        cwd=checkout.root, env={**checkout.variables(), "PYTHONIOENCODING": encoding}, capture_output=True, timeout=60,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert "mini.csv" in ran.stdout.decode(encoding)


def test_without_a_home_or_a_current_folder(checkout: Checkout, error_line: ErrorLine) -> None:
    assert shell(checkout, "unset HOME XDG_CACHE_HOME; gpuheap list").returncode == 0
    error_line(shell(checkout, "gpuheap data get 1138_bus", HOME="/proc", XDG_CACHE_HOME="", GPUHEAP_DATA=""))
    gone = shell(checkout, "mkdir gone; cd gone; rmdir ../gone; gpuheap bench churn -a sharded_spans --output x")
    assert error_line(gone) == "the current folder was removed: change to another one"


def handled_signals(process: subprocess.Popen[str]) -> set[int]:
    """The signals for which a process has a handler, from /proc; none if the process has ended."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    mask = int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)[1], 16) if "SigCgt" in status else 0
    return {number for number in signal.Signals if mask >> (number - 1) & 1}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("delay", [0.0, 0.2, 0.5, 1.2])
def test_an_interruption_at_any_moment_shows_no_traceback(checkout: Checkout, number: signal.Signals, delay: float) -> None:
    """The delay counts from the moment when the command has its handlers: on a loaded machine Python alone may take a second to start."""
    checkout.settings["delay_s"] = 0.5
    process = checkout.start("bench", "mini", "-a", "sharded_spans")
    while process.poll() is None and not {signal.SIGTERM, signal.SIGHUP} <= handled_signals(process):
        time.sleep(0.005)
    time.sleep(delay)
    process.send_signal(number)
    out, errors = process.communicate(timeout=30)
    assert "Traceback" not in errors and "Error" not in errors, errors
    assert process.returncode in (130, -number, -signal.SIGINT), out


def test_an_interruption_that_an_import_turns_into_its_own_error_is_one() -> None:
    program = (
        "import signal; from gpuheap.exits import end_with\n"
        "def command():\n"
        "    try: signal.raise_signal(signal.SIGTERM)\n"
        "    except KeyboardInterrupt: raise ImportError('failed to import') from None\n"
        "end_with(command)"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY / "python", capture_output=True, text=True, timeout=15, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


def test_an_interruption_after_any_instruction_of_the_end_shows_no_traceback() -> None:
    """Each child process runs the same command, and the signal comes an instruction of gpuheap/exits.py later than in the child before it; three
    instructions later unless tests run in full."""
    step = 1 if in_full() else 3
    program = (
        "import os, signal, sys; from gpuheap.exits import end_with\n"
        "def run(instruction):\n"
        "    seen = 0\n"
        "    def trace(frame, event, _):\n"
        "        nonlocal seen\n"
        "        if not frame.f_code.co_filename.endswith('exits.py'): return None\n"
        "        frame.f_trace_opcodes = True\n"
        "        seen += event == 'opcode' and signal.getsignal(signal.SIGINT) is not signal.default_int_handler\n"
        "        if seen == instruction and event == 'opcode': signal.raise_signal(signal.SIGINT)\n"
        "        return trace\n"
        "    sys.settrace(trace)\n"
        "    end_with(lambda: None)\n"
        "ends, instruction = [], 0\n"
        "while not ends or ends[-1] != 0:\n"
        f"    instruction += {step}\n"
        "    child = os.fork()\n"
        "    if child == 0: run(instruction)\n"
        "    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print(*ends)"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY / "python", capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
    *ends, uninterrupted = map(int, ran.stdout.split())
    assert uninterrupted == 0 and len(ends) * step > 100
    assert set(ends) == {130, -signal.SIGINT}


@pytest.mark.parametrize(
    ("number", "ctrl_c"),
    [*((number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)), (signal.SIGTERM, signal.SIG_IGN)],
)
def test_an_interruption_that_python_drops_arrives_again(number: signal.Signals, ctrl_c: signal.Handlers) -> None:
    """Python drops an exception in a callback of a weak reference; each import has such a callback."""
    program = (
        "import signal, time, weakref; from gpuheap.exits import end_with\n"
        "class Held: pass\n"
        "def command():\n"
        f"    held = Held(); note = weakref.ref(held, lambda _: signal.raise_signal({int(number)})); del held\n"
        "    print('on', flush=True); time.sleep(20)\n"
        "end_with(command)"
    )

    def begin() -> None:
        signal.signal(signal.SIGINT, ctrl_c)

    ran = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY / "python", capture_output=True, text=True, timeout=15, preexec_fn=begin)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "on\n", "")


def test_a_termination_ends_what_runs_in_the_background(checkout: Checkout) -> None:
    """A shell without job control starts it so that it ignores Ctrl-C."""
    checkout.settings["delay_s"] = 5
    ignore = functools.partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    command = [sys.executable, "-m", "gpuheap", "bench", "mini", "-a", "sharded_spans"]
    process = subprocess.Popen(
        command, cwd=checkout.root, env=checkout.variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=ignore
    )
    while not checkout.log_file.exists():
        time.sleep(0.02)
    process.terminate()
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "") and "stopped: 0 of" in out


def test_the_entry_point_is_the_one_that_ends_commands() -> None:
    assert 'gpuheap = "gpuheap.__main__:main"' in (REPOSITORY / "python" / "pyproject.toml").read_text()
