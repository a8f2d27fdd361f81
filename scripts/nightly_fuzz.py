"""Runs the fuzz targets of tests/fuzz, each until it has made as many executions as were asked for; a finding is a file that shows it again.

    python scripts/nightly_fuzz.py                            10^8 executions of each target: about an hour of a core each, four for capi
    python scripts/nightly_fuzz.py --seconds 1800             as many as half an hour makes; the next night goes on
    python scripts/nightly_fuzz.py --executions 100000 trace  one target, briefly

Executions add up. build/fuzz/executions.csv has a row for each piece of a run, with the target's build; a target whose code has changed begins anew.
New inputs that a run finds stay in build/fuzz/grown, where the next run begins. Needs clang with libFuzzer (apt-get install clang-19 libclang-rt-19-dev) and
CMake; builds into build/fuzz. Exit codes: 0 nothing found, 1 findings, 2 it cannot run or was stopped."""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES, CORPUS, BUILD = ROOT / "tests" / "fuzz" / "targets", ROOT / "tests" / "fuzz" / "corpus", ROOT / "build" / "fuzz"
TARGETS = tuple(sorted(path.name for path in CORPUS.iterdir() if path.is_dir()))
OF_CUDA = ("capi", "code")  # built where CUDA's headers are
LONGEST = {"capi": 256, "code": 4096}  # bytes of an input; the files that the others read say all that they can say in fewer
LONGEST_OF_OTHERS = 1024
PIECE_S = 300  # of a run, after which its executions are noted down
COLUMNS = ("ended", "target", "build", "executions", "seconds", "finding")
# Readers refuse by exceptions. At each, AddressSanitizer clears the frames that it keeps for use after return. This, and the stacks of allocations, take
# four fifths of the time. A short run has both, and the stacks of a finding come when its file is run by hand.
FAST = "malloc_context_size=0:detect_stack_use_after_return=0:quarantine_size_mb=16"


class CannotRun(Exception):
    """One line says why."""


@dataclass(frozen=True)
class Outcome:
    target: str
    executions: int
    finding: Path | None
    text: str  # of the finding


def find_clang() -> str:
    """A clang++ that links libFuzzer."""
    for name in ("clang++-19", "clang++-20", "clang++-21", "clang++-22", "clang++", "clang++-18", "clang++-17", "clang++-16", "clang++-15", "clang++-14"):
        path = shutil.which(name)
        if path is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "probe.cpp"
            source.write_text('extern "C" int LLVMFuzzerTestOneInput(unsigned char const*, unsigned long) { return 0; }\n')
            command = [path, "-std=c++20", "-fsanitize=fuzzer,address,undefined", str(source), "-o", str(Path(folder) / "probe")]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return path
    raise CannotRun("no clang++ that links libFuzzer: sudo apt-get install clang-19 libclang-rt-19-dev")


def build(clang: str, folder: Path = BUILD) -> None:
    for command in (
        ["cmake", "-G", "Ninja", "-S", str(SOURCES), "-B", str(folder), f"-DCMAKE_CXX_COMPILER={clang}"],
        ["cmake", "--build", str(folder)],
    ):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            last = [line for line in (ran.stdout + ran.stderr).splitlines() if "error" in line.lower()] or ["it says no more"]
            raise CannotRun(f"{' '.join(command[:2])} fails: {last[0]}")


def run(target: str, executions: int, seconds: int, seed: int, folder: Path = BUILD, *, fast: bool = False) -> Outcome:
    """Runs a target from its committed corpus and what earlier runs have added, for so many executions, or seconds if they are not 0."""
    grown, findings = folder / "grown" / target, folder / "findings" / target
    grown.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    before = set(findings.iterdir())
    command = [
        str(folder / target),
        f"-runs={executions}",
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-max_len={LONGEST.get(target, LONGEST_OF_OTHERS)}",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        f"-artifact_prefix={findings}/",
        str(grown),
        str(CORPUS / target),
    ]
    variables = {**os.environ, **({"ASAN_OPTIONS": FAST} if fast else {})}
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, errors="replace", check=False)
    made = re.search(r"stat::number_of_executed_units:\s+(\d+)", ran.stderr)
    found = sorted(set(findings.iterdir()) - before)
    if ran.returncode == 0 and not found:
        return Outcome(target, int(made[1]) if made else 0, None, "")
    told = re.search(r"(SUMMARY: .*|ERROR: .*|runtime error: .*)", ran.stderr)
    return Outcome(target, int(made[1]) if made else 0, found[0] if found else findings, told[1] if told else ran.stderr[-300:])


class Tally:
    """The executions of each target's build, as executions.csv has them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.made: dict[tuple[str, str], int] = {}
        rows = []
        if path.exists():
            with path.open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if None not in row.values() and set(row) == set(COLUMNS)]
        # Written anew: a row that was being written when the machine stopped is no row.
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        for row in rows:
            key = row["target"], row["build"]
            self.made[key] = self.made.get(key, 0) + int(row["executions"])

    def of(self, target: str, build: str) -> int:
        return self.made.get((target, build), 0)

    def add(self, build: str, outcome: Outcome, seconds: float) -> None:
        ended = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self.lock:
            self.made[outcome.target, build] = self.of(outcome.target, build) + outcome.executions
            with self.path.open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow((ended, outcome.target, build, outcome.executions, f"{seconds:.0f}", outcome.finding or ""))


def build_of(target: str, folder: Path = BUILD) -> str:
    return hashlib.sha256((folder / target).read_bytes()).hexdigest()[:12]


@dataclass
class Night:
    """The targets take turns, a piece each, so that a night that is too short has run all of them."""

    executions: int
    seconds: int  # of each target; 0: no bound
    seed: int
    tally: Tally
    folder: Path = BUILD
    piece_s: int = PIECE_S

    def run(self, targets: list[str], jobs: int) -> list[Outcome]:
        waiting, findings, lock = deque((name, build_of(name, self.folder), 0.0) for name in targets), [], threading.Lock()

        def work() -> None:
            # Ends: a target comes back only after a piece, which makes executions and takes time, both of which are bounded.
            while True:
                with lock:
                    if not waiting:
                        return
                    name, build, spent = waiting.popleft()
                missing = self.executions - self.tally.of(name, build)
                if missing <= 0 or (self.seconds and spent >= self.seconds):
                    continue
                began = time.monotonic()
                most = min(self.piece_s, max(1, round(self.seconds - spent))) if self.seconds else self.piece_s
                outcome = run(name, missing, most, self.seed, self.folder, fast=True)
                self.tally.add(build, outcome, time.monotonic() - began)
                with lock:
                    if outcome.finding is not None or outcome.executions == 0:
                        findings.append(outcome)
                    else:
                        waiting.append((name, build, spent + time.monotonic() - began))

        with ThreadPoolExecutor(jobs) as pool:
            for future in [pool.submit(work) for _ in range(jobs)]:
                future.result()
        return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--executions", type=int, default=100_000_000, help="of each target's build, with those of earlier runs (default 10^8)")
    parser.add_argument("--seconds", type=int, default=0, help="the most for each target; 0: no bound (default)")
    parser.add_argument("--seed", type=int, default=0, help="of libFuzzer; 0: another one each time (default)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at once (default: one for each core)")
    asked = parser.parse_args()
    for name in asked.targets:
        if name not in TARGETS:
            parser.error(f"there is no target '{name}': {', '.join(TARGETS)}")
    if asked.executions < 1 or asked.seconds < 0 or asked.jobs < 1:
        parser.error("--executions and --jobs are at least 1, --seconds at least 0")
    try:
        build(find_clang())
        wanted = [name for name in asked.targets or TARGETS if (BUILD / name).exists() or name not in OF_CUDA]
        tally = Tally(BUILD / "executions.csv")
        findings = Night(asked.executions, asked.seconds, asked.seed, tally).run(wanted, asked.jobs)
    except CannotRun as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped: the same command goes on", file=sys.stderr)
        return 2
    for name in wanted:
        made, found = tally.of(name, build_of(name)), [each for each in findings if each.target == name]
        print(f"{name}: {made:,} of {asked.executions:,} executions, " + (f"{found[0].text}: {found[0].finding}" if found else "nothing found"))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
