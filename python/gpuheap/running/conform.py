"""Runs a conformance suite. Each test has a process of its own, so that a crash or a hang fails one test only."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from gpuheap.errors import UserError
from gpuheap.running.executable import exit_words, last_line

LIMIT_S = 300.0  # the time limit of one test
LINES_OF_A_FAILURE = 12


@dataclass(frozen=True)
class Tested:
    name: str
    verdict: str  # passed, failed, crashed, timeout
    words: str = ""  # a description of the failure


def names_of_tests(suite: Path) -> list[str]:
    """The names of the tests that an executable has."""
    try:
        ran = subprocess.run([suite, "--gtest_list_tests"], capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{suite} cannot list its tests: {error}") from None
    if ran.returncode != 0:
        raise UserError(f"{suite} cannot list its tests: {exit_words(ran.returncode)} {last_line(ran.stderr)}")
    names: list[str] = []
    group = ""
    for line in ran.stdout.splitlines():
        if line.startswith("  "):
            names.append(group + line.split("#")[0].strip())
        elif line.endswith("."):
            group = line.strip()
    if not names:
        raise UserError(f"{suite} has no tests")
    return names


def run_tests(suite: Path, names: list[str], at_once: int, limit_s: float = LIMIT_S) -> Generator[Tested, None, None]:
    """Runs the tests, `at_once` at a time. Yields each result as it comes; closing the iterator ends the running tests."""
    running = _Running()
    pool = ThreadPoolExecutor(at_once)
    try:
        for future in as_completed([pool.submit(_run, suite, name, limit_s, running) for name in names]):
            yield future.result()
    finally:
        running.stop()
        pool.shutdown(cancel_futures=True)


class _Running:
    """The running processes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stopped = False
        self._children: set[subprocess.Popen[str]] = set()

    def start(self, command: list[str]) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._stopped:
                return None
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._children.add(child)
            return child

    def ended(self, child: subprocess.Popen[str]) -> None:
        with self._lock:
            self._children.discard(child)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for child in self._children:
                kill(child)


def kill(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


def _run(suite: Path, name: str, limit_s: float, running: _Running) -> Tested:
    child = running.start([str(suite), f"--gtest_filter={name}", "--gtest_brief=1"])
    if child is None:
        return Tested(name, "failed", "not run")
    try:
        said, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        kill(child)
        child.communicate()
        return Tested(name, "timeout", f"no result within {limit_s:.0f} s")
    finally:
        running.ended(child)
    if child.returncode == 0:
        return Tested(name, "passed")
    # GoogleTest's own lines are left out, because they only repeat the test's name.
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith(("[", "Running main", "Note: Google"))]
    words = "\n".join(lines[:LINES_OF_A_FAILURE] + ["..."] * (len(lines) > LINES_OF_A_FAILURE))
    if child.returncode == 1:
        return Tested(name, "failed", words)
    return Tested(name, "crashed", exit_words(child.returncode) + (f"\n{words}" if words else ""))
