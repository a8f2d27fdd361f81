"""Runs the properties of tests/python/test_properties.py on new random inputs, each for a given time.

    python scripts/nightly_properties.py                 an hour for each test
    python scripts/nightly_properties.py --seconds 30 tables dumps
    python scripts/nightly_properties.py --record        also adds the inputs to tests/fuzz/executions.csv, to be committed

Exit codes: 0 nothing found, 1 findings, each printed with the seed that repeats it, 2 the script cannot run."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import time
from pathlib import Path

import fuzz_record

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "python" / "test_properties.py"
NAMES = re.findall(r"^def test_(\w+)\(", TESTS.read_text(), re.MULTILINE)
EXAMPLES = 2000  # the number of inputs in one process


def run(name: str, seconds: int) -> tuple[int, str]:
    """Returns the number of inputs, and for a failure the last line of its message and the command that repeats it; "" if nothing failed."""
    end, made = time.monotonic() + seconds, 0
    # Ends: each pass takes time, and only the first pass may begin after `end`.
    while made == 0 or time.monotonic() < end:
        variables = {"GPUHEAP_EXAMPLES": str(EXAMPLES), "GPUHEAP_EXAMPLES_SEED": str(secrets.randbelow(2**32))}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{TESTS}::test_{name}"]
        ran = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, errors="replace", check=False)
        if ran.returncode != 0 or " skipped" in ran.stdout:
            words = " ".join(f"{key}={value}" for key, value in variables.items())
            said = [line for line in ran.stdout.splitlines() if line.startswith("E  ")] or ran.stdout.splitlines() or [ran.stderr]
            return made, f"{said[-1].strip()[:200]}: {words} python -m pytest {TESTS.relative_to(ROOT)}::test_{name}"
        made += EXAMPLES
    return made, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"run only these properties, of {', '.join(NAMES)}; default: all")
    parser.add_argument("--seconds", type=int, default=3600, help="the time for each property (default 3600)")
    parser.add_argument("--record", action="store_true", help=fuzz_record.HELP)
    asked = parser.parse_args()
    for name in asked.names:
        if name not in NAMES:
            parser.error(f"there is no property '{name}': {', '.join(NAMES)}")
    found = 0
    try:
        commit = fuzz_record.commit_of() if asked.record else ""
        for name in asked.names or NAMES:
            began = time.monotonic()
            made, finding = run(name, asked.seconds)
            if commit:
                fuzz_record.add("nightly_properties", name, commit, made, time.monotonic() - began, bool(finding))
            found += bool(finding)
            print(f"{name}: {made} inputs, {finding or 'nothing found'}", flush=True)
    except fuzz_record.CannotRecord as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 2
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
