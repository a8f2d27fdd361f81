"""A signal that ends gpuheap also ends the programs that it has started, even in the middle of their start; exit codes survive closed streams."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fake_checkout import REPOSITORY

from gpuheap.errors import UserError
from gpuheap.host import launch
from gpuheap.host.variables import preloaded
from gpuheap.running import process

RUN = (
    "import sys; from pathlib import Path; from gpuheap.exits import end_with; from gpuheap.host.launch import run\n"
    "end_with(lambda: run(sys.argv[1:], Path('/nonexistent.so'), {}))"
)
VARIABLES = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}


def begun(folder: Path, started: subprocess.Popen[Any]) -> int:
    """The id that a program wrote."""
    deadline = time.monotonic() + 30
    while not (folder / "id").exists() or not (folder / "id").read_text().strip():
        assert time.monotonic() < deadline and started.poll() is None
        time.sleep(0.02)
    return int((folder / "id").read_text())


def is_over(number: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        status = Path(f"/proc/{number}/stat")
        if not status.exists() or status.read_text().split()[2] == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(("answer", "code"), [("", None), ("trap 'exit 5' TERM HUP;", 5)])
def test_a_request_to_end_reaches_the_program(tmp_path: Path, number: signal.Signals, answer: str, code: int | None) -> None:
    program = f"{answer} echo $$ > {tmp_path}/id; while true; do sleep 0.1; done"
    started = subprocess.Popen([sys.executable, "-c", RUN, "sh", "-c", program], env=VARIABLES, stderr=subprocess.DEVNULL)
    child = begun(tmp_path, started)
    started.send_signal(number)
    assert started.wait(timeout=30) == (128 + number if code is None else code)
    assert is_over(child)


def test_nohup_holds_for_the_program(tmp_path: Path) -> None:
    program = f"echo $$ > {tmp_path}/id; sleep 1; exit 6"
    started = subprocess.Popen(["nohup", sys.executable, "-c", RUN, "sh", "-c", program], env=VARIABLES, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    begun(tmp_path, started)
    started.send_signal(signal.SIGHUP)
    assert started.wait(timeout=30) == 6


class Hasty(subprocess.Popen[bytes]):
    """A signal comes between the start of the program and the moment that its caller knows it."""

    number = signal.SIGTERM
    last = 0

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        Hasty.last = self.pid
        signal.raise_signal(Hasty.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_no_program_is_left_that_was_about_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Hasty, "number", number)
    monkeypatch.setattr(subprocess, "Popen", Hasty)
    before = signal.signal(number, interrupt)
    try:
        assert launch.run(["sleep", "60"], Path("/nonexistent.so"), {}) == 128 + number
        assert is_over(Hasty.last) and signal.getsignal(number) is interrupt
        with pytest.raises(KeyboardInterrupt):
            process.run_process(["sleep", "60"], os.environ, tmp_path / "out", tmp_path / "err", 60)
        assert is_over(Hasty.last) and signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, before)


def test_a_time_limit_that_no_clock_holds_is_none(tmp_path: Path) -> None:
    ended = process.run_process(["sh", "-c", "exit 3"], os.environ, tmp_path / "out", tmp_path / "err", 1e300)
    assert (ended.code, ended.in_time) == (3, True)


@pytest.mark.parametrize("folder", ["/with space", "/with:colon"])
def test_a_path_that_the_loader_would_split_is_refused(folder: str) -> None:
    with pytest.raises(UserError, match=f"'{folder}/lib.so' has a space or a colon in its path.*GPUHEAP_RUN_LIBRARY"):
        preloaded(Path(folder) / "lib.so", {})


def test_a_mistake_is_told_by_the_exit_code_where_nobody_reads() -> None:
    read, write = os.pipe()
    os.close(read)
    for stream in (write, os.open("/dev/full", os.O_WRONLY)):
        assert subprocess.run([sys.executable, "-m", "gpuheap", "run", "./nothing"], env=VARIABLES, stderr=stream, timeout=60).returncode == 2
        os.close(stream)


def test_a_copy_of_the_package_alone_has_a_version(tmp_path: Path) -> None:
    (tmp_path / "a" / "gpuheap").mkdir(parents=True)
    shutil.copy(REPOSITORY / "python" / "gpuheap" / "__init__.py", tmp_path / "a" / "gpuheap")
    code = f"import sys; sys.path.insert(0, '{tmp_path}/a'); import gpuheap; print(gpuheap.__version__)"
    # -S: without the packages that are installed.
    assert subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout == "0+unknown\n"
