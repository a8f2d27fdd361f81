"""The output of a program's run, and whether two runs gave the same output."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuheap.unchanged.programs import Program

STDOUT = "output"
# Lines of a log that begin no finding: details are indented.
_NO_FINDING = (" ", "COMPUTE-SANITIZER", "ERROR SUMMARY", "LEAK SUMMARY", "Target application", "No attachable")
SHOWN = 40  # the number of characters shown of a line that differs


@dataclass(frozen=True)
class Left:
    """The comparable parts of a run: stdout without the ignored parts, and the files that the program wrote; None for a missing file."""

    parts: Mapping[str, bytes | None]


def take(program: Program, stdout: bytes, folder: Path) -> Left:
    parts: dict[str, bytes | None] = {STDOUT: comparable(program, stdout)}
    for name in program.files:
        path = folder / name
        parts[name] = path.read_bytes() if path.is_file() else None
    return Left(parts)


def comparable(program: Program, stdout: bytes) -> bytes:
    """stdout without the ignored parts, and with sorted lines if threads print them in any order."""
    text = stdout.decode("latin-1")  # a character for each byte, whatever the program writes
    for pattern in program.ignore:
        text = pattern.sub("", text)
    if program.any_order:
        text = "\n".join(sorted(text.splitlines()))
    return text.encode("latin-1")


def difference(expected: Left, found: Left, near: float = 0.0) -> str:
    """The first difference as text, "" if there is none. Numbers that differ by at most `near` count as equal."""
    for name, wanted in expected.parts.items():
        got = found.parts.get(name)
        if wanted == got or (near > 0 and wanted is not None and got is not None and _are_near(wanted, got, near)):
            continue
        if wanted is None or got is None:
            return f"{name}: " + ("the program wrote no such file" if got is None else "a file that the first run did not write")
        return f"{name}: {_where(wanted, got)}"
    return ""


def _are_near(wanted: bytes, got: bytes, near: float) -> bool:
    """Whether two texts have the same words, except for numbers that are close to each other."""
    old, new = wanted.split(), got.split()
    return len(old) == len(new) and all(before == after or _within(before, after, near) for before, after in zip(old, new, strict=True))


def _within(before: bytes, after: bytes, near: float) -> bool:
    try:
        return abs(float(before) - float(after)) <= near
    except ValueError:
        return False


def _where(wanted: bytes, got: bytes) -> str:
    old, new = wanted.splitlines(), got.splitlines()
    for number, (before, after) in enumerate(zip(old, new, strict=False), start=1):
        if before != after:
            return f"line {number} is '{_short(after)}', not '{_short(before)}'"
    if len(old) != len(new):
        return f"{len(new)} lines, not {len(old)}"
    return f"{len(got)} bytes, not {len(wanted)}"


def _short(line: bytes) -> str:
    text = "".join(character if character.isprintable() else "?" for character in line.decode("latin-1"))
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def kernel_milliseconds(program: Program, printed: str) -> float | None:
    """The sum of the times that the program prints of its kernels; None if it prints none."""
    if program.kernel_time is None:
        return None
    found = [match[1] for match in program.kernel_time.finditer(printed)]
    try:
        return sum(float(number) for number in found) * program.kernel_ms if found else None
    except ValueError:
        return None


def heap_report(stderr: str) -> dict[str, str | int] | None:
    """The heap's line of GPUHEAP_STATS=1 at the program's exit: the most bytes that it held, and the number of requests that found no memory.

    None if there is no such line, because no heap served the program, or because the heap ended earlier.
    """
    held = re.search(r"heap of ([^,\n]+)(?:, at most (.+?) of it held)?", stderr)
    if held is None:
        return None
    failed = re.search(r"([0-9]+) requests? found no memory", stderr)
    report: dict[str, str | int] = {"bytes": held[1].strip(), "failed": int(failed[1]) if failed else 0}
    if held[2] is not None:
        report["held"] = held[2]
    return report


def findings(log: str) -> list[str] | None:
    """The headlines of compute-sanitizer's findings, each once; None for a log without its last line, as a killed run leaves it."""
    if "ERROR SUMMARY" not in log:
        return None
    told: dict[str, None] = {}
    for line in log.splitlines():
        text = line.removeprefix("========= ")
        if text != line and text.strip() and not text.startswith(_NO_FINDING):
            told[text.strip()] = None
    return list(told)


def error_count(log: str) -> int | None:
    """The number of errors in the log's last line; None for a log without one."""
    counted = re.search(r"ERROR SUMMARY: ([0-9]+) error", log)
    return int(counted[1]) if counted else None


def new_findings(plain: Sequence[str], served: Sequence[str]) -> list[str]:
    """The messages of the served program that the plain program does not have."""
    return [line for line in served if line not in plain]
