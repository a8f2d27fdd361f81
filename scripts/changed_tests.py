"""Chooses the tests of a build that must run again: the tests that have not passed, and those whose programs have changed since they passed.

usage: changed_tests.py choose BUILD         writes their names into BUILD/chosen_tests.txt, for ctest --tests-from-file, and prints their number
       changed_tests.py passed BUILD JUNIT   notes in BUILD/passed_tests.json the tests that passed in a run of ctest
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

State = dict[str, dict[str, int]]


def files_of(test: dict[str, Any], build: Path) -> dict[str, int]:
    """The built files that a test's command or its property REQUIRED_FILES names, each with the time of its last change in nanoseconds."""
    words = list(test["command"])
    for each in test.get("properties", []):
        if each["name"] == "REQUIRED_FILES":
            words += each["value"]
    named = {name for word in words for name in re.findall(re.escape(str(build)) + r"[^;\"\s]*", word)}
    return {name: Path(name).stat().st_mtime_ns for name in sorted(named) if Path(name).is_file()}


def tests_of(build: Path) -> State:
    """The tests whose programs are built, by name."""
    command = ["ctest", "--test-dir", str(build), "--show-only=json-v1"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["tests"]
    return {test["name"]: files_of(test, build) for test in found if Path(test.get("command", ["."])[0]).is_file()}


def read_state(file: Path) -> State:
    try:
        state = json.loads(file.read_text())
    except (OSError, ValueError):  # the file does not exist yet, or was cut off when the machine stopped
        return {}
    return state if isinstance(state, dict) else {}


def choose(build: Path) -> None:
    passed = read_state(build / "passed_tests.json")
    tests = tests_of(build)
    chosen = [name for name, files in tests.items() if passed.get(name) != files]
    (build / "chosen_tests.txt").write_text("".join(f"{name}\n" for name in chosen))
    print(f"{len(chosen)} of {len(tests)}")


def note(build: Path, junit: Path) -> None:
    file = build / "passed_tests.json"
    passed = read_state(file)
    tests = tests_of(build)
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        name = case.get("name", "")
        if case.get("status") == "run" and name in tests:
            passed[name] = tests[name]
        else:
            passed.pop(name, None)
    part = file.with_suffix(".part")
    part.write_text(json.dumps({name: files for name, files in passed.items() if name in tests}))
    part.replace(file)


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case ["choose", build]:
                choose(Path(build).resolve())
            case ["passed", build, junit]:
                note(Path(build).resolve(), Path(junit))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except subprocess.CalledProcessError as error:
        print(f"error: ctest lists no tests of {arguments[1]}, which `cmake --preset` and a build make: {(error.stderr or '').strip()[:300]}", file=sys.stderr)
        return 2
    except ElementTree.ParseError as error:
        print(f"error: {arguments[2]} is no result of ctest --output-junit: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
