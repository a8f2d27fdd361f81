"""The table of what fuzzing and exploring have executed, tests/fuzz/executions.csv, which is committed: build/ does not outlive a machine. The scripts
nightly, nightly_fuzz.py, nightly_properties.py and nightly_rewriter.py write it if they are asked to `--record`. A row has the executions of one target at
one commit. The target of a schedule is an allocator in a memory mode, and the target of a soak is an allocator.

GPUHEAP_COMMIT names the commit of a copy that has no git."""

from __future__ import annotations

import csv
import fcntl
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "fuzz" / "executions.csv"
COLUMNS = ("script", "target", "commit", "executions", "hours", "findings")
HELP = "add the executions to the row of the target and of the checkout's commit in tests/fuzz/executions.csv"


class CannotRecord(Exception):
    """The executions cannot be recorded. The text says why in one line."""


def commit_of(root: Path = ROOT, table: Path = TABLE) -> str:
    """The commit of the checkout. Raises CannotRecord if other files than the table differ from it, because the row names the code that was run."""
    named = os.environ.get("GPUHEAP_COMMIT", "").strip()
    if named and not re.fullmatch("[0-9a-f]{40}", named):
        raise CannotRecord(f"--record needs a whole commit, 40 digits, and GPUHEAP_COMMIT is '{named}'")
    if named:
        return named
    answers = []
    for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no")):
        try:
            ran = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise CannotRecord("--record needs git, for the commit of the checkout") from error
        if ran.returncode != 0:
            raise CannotRecord(f"--record needs a checkout of git, and {root} is none")
        answers.append(ran.stdout)
    changed = [line[3:] for line in answers[1].splitlines() if (root / line[3:]) != table]
    if changed:
        raise CannotRecord(f"--record names the commit that was run, and {changed[0]} differs from it: commit the changes first")
    return answers[0].strip()


def read(table: Path = TABLE) -> list[dict[str, str]]:
    if not table.exists():
        return []
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Waits until no other process is in here with the same folder: two scripts may end at the same time."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def add(script: str, target: str, commit: str, executions: int, seconds: float, findings: int, *, same_inputs: bool = False, table: Path = TABLE) -> None:
    """Adds to the row of the target and the commit. `same_inputs`: a second run has the inputs of the first, so it replaces the row."""
    with alone(table.parent):
        rows = {(row["script"], row["target"], row["commit"]): row for row in read(table)}
        key = script, target, commit
        before = None if same_inputs else rows.get(key)
        made, hours, found = (int(before["executions"]), float(before["hours"]), int(before["findings"])) if before is not None else (0, 0.0, 0)
        values = (*key, str(made + executions), f"{hours + seconds / 3600:.3f}", str(found + findings))
        rows[key] = dict(zip(COLUMNS, values, strict=True))
        staged = table.with_suffix(".part")
        with staged.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[each] for each in sorted(rows))
        staged.replace(table)
