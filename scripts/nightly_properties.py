"""Runs the properties of tests/python/test_properties.py on new random inputs, each for a given time.

    python scripts/nightly_properties.py                 an hour for each test
    python scripts/nightly_properties.py --seconds 30 tables dumps
    python scripts/nightly_properties.py --record        also adds the inputs to tests/fuzz/executions.csv, to be committed
    python scripts/nightly_properties.py --jobs 32       32 processes at the same time, whose seconds add up to the hour of each test

Exit codes: 0 nothing found, 1 findings, each printed with the seed that repeats it, 2 the script cannot run."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import fuzz_record
import pieces

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "python" / "test_properties.py"
NAMES = re.findall(r"^def test_(\w+)\(", TESTS.read_text(), re.MULTILINE)
EXAMPLES = 2000  # the number of inputs in one process


class CannotRun(Exception):
    """pytest ran no input of a property. The text says why in one line."""


@dataclass
class State:
    """A property in a run."""

    spent: float = 0.0  # the seconds of the processes that have ended
    pieces: int = 0  # that have ended
    running: int = 0  # processes
    made: int = 0  # inputs
    finding: str = ""  # the last line of the first failure, and the command that repeats it

    @property
    def expected(self) -> float:
        """The seconds after the running processes, if each takes as long as those before it."""
        return self.spent + self.running * (self.spent / self.pieces if self.pieces else 0.001)


def run(name: str, seed: int) -> tuple[bool, str]:
    """Runs EXAMPLES inputs in a process. Returns whether Ctrl-C ended it, and for a failure the last line of its message and the command that repeats it.

    Raises CannotRun if no input was run, since a test that did not begin has found nothing."""
    variables = {"GPUHEAP_EXAMPLES": str(EXAMPLES), "GPUHEAP_EXAMPLES_SEED": str(seed)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{TESTS}::test_{name}"]
    ran = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, errors="replace", check=False)
    if ran.returncode in (-signal.SIGINT, -signal.SIGTERM) or ran.returncode != 0 and "KeyboardInterrupt" in ran.stdout + ran.stderr:
        return True, ""
    if ran.returncode == 0 and " skipped" not in ran.stdout:
        return False, ""
    if ran.returncode >= 0 and not re.search(r"^\d+ failed", ran.stdout, re.MULTILINE):
        said = [line for line in (ran.stdout + ran.stderr).splitlines() if line.strip()] or [f"exit code {ran.returncode}"]
        raise CannotRun(f"pytest ran no input of {name}: {said[-1].strip()[:200]}: run ./test once, which installs what it needs, and then this by its python")
    words = " ".join(f"{key}={value}" for key, value in variables.items())
    said = [line for line in ran.stdout.splitlines() if line.startswith("E  ")] or ran.stdout.splitlines() or [ran.stderr]
    return False, f"{said[-1].strip()[:200]}: {words} python -m pytest {TESTS.relative_to(ROOT)}::test_{name}"


def run_all(states: dict[str, State], seconds: int, jobs: int) -> None:
    """Runs the properties, a process at a time of the one that has had the fewest seconds, until each has had its seconds."""

    def choose() -> str | None:
        name = min((name for name, state in states.items() if not state.finding), key=lambda name: states[name].expected, default=None)
        if name is None or (states[name].pieces + states[name].running and states[name].expected >= seconds):
            return None
        states[name].running += 1
        return name

    def work(name: str) -> tuple[bool, str, float]:
        began = time.monotonic()
        return *run(name, secrets.randbelow(2**32)), time.monotonic() - began

    def note(name: str, result: tuple[bool, str, float]) -> bool:
        state, (interrupted, finding, spent) = states[name], result
        state.running -= 1
        if interrupted:
            return False
        state.pieces += 1
        state.spent += spent
        state.made += 0 if finding else EXAMPLES
        state.finding = state.finding or finding
        return True

    pieces.run(jobs, choose, work, note)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"run only these properties, of {', '.join(NAMES)}; default: all")
    parser.add_argument("--seconds", type=int, default=3600, help="the time for each property, summed over its processes (default 3600)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="the number of processes at the same time (default: the cores)")
    parser.add_argument("--record", action="store_true", help=fuzz_record.HELP)
    asked = parser.parse_args()
    for name in asked.names:
        if name not in NAMES:
            parser.error(f"there is no property '{name}': {', '.join(NAMES)}")
    if asked.seconds < 1 or asked.jobs < 1:
        parser.error("--seconds and --jobs are at least 1")
    commit, states = "", {name: State() for name in asked.names or NAMES}
    pieces.stop_at_sigterm()
    try:
        commit = fuzz_record.commit_of() if asked.record else ""
        run_all(states, asked.seconds, asked.jobs)
    except (CannotRun, fuzz_record.CannotRecord) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 2
    finally:
        for name, state in states.items():
            if state.pieces:
                print(f"{name}: {state.made} inputs, {state.finding or 'nothing found'}", flush=True)
                if commit:
                    fuzz_record.add("nightly_properties", name, commit, state.made, state.spent, bool(state.finding))
    return 1 if any(state.finding for state in states.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
