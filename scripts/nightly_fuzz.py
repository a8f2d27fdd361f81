"""Runs the fuzz targets of tests/fuzz, each for a number of executions. A finding is kept as a file, an input that repeats it.

    python scripts/nightly_fuzz.py                            10^8 executions of each target: about an hour of a core each, three for code, four for capi
    python scripts/nightly_fuzz.py --seconds 1800             half an hour of each target; the next run continues
    python scripts/nightly_fuzz.py --executions 100000 trace  one target, briefly
    python scripts/nightly_fuzz.py --seconds 1800 --record    also adds what this run has executed to tests/fuzz/executions.csv, to be committed
    python scripts/nightly_fuzz.py --jobs 32                  32 processes at the same time, several of them for a target that is slow
    python scripts/nightly_fuzz.py --built                    runs the targets that build/fuzz has, without clang and CMake

The executions of several runs add up. build/fuzz/executions.csv has a row for each piece of a run, with the target's build; a target whose code has changed
begins anew. New inputs that a run finds stay in build/fuzz/grown, from which the next run begins. Needs clang with libFuzzer (apt-get install clang-19
libclang-rt-19-dev) and CMake; builds into build/fuzz. Exit codes: 0 nothing found, 1 findings, 2 the script cannot run or was stopped."""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import fuzz_record
import pieces

ROOT = Path(__file__).resolve().parents[1]
SOURCES, CORPUS, BUILD = ROOT / "tests" / "fuzz" / "targets", ROOT / "tests" / "fuzz" / "corpus", ROOT / "build" / "fuzz"
TARGETS = tuple(sorted(path.name for path in CORPUS.iterdir() if path.is_dir()))
OF_CUDA = ("capi", "code")  # built only if CUDA's headers are found
LONGEST = {"capi": 256, "code": 4096}  # the longest input in bytes
LONGEST_OF_OTHERS = 1024
PIECE_S = 300  # the seconds of a piece of a run; the executions are recorded after each piece
LEAST = 100_000  # the executions of a piece, unless fewer are missing: a process runs the whole corpus before it makes new inputs
INTERRUPTED = 72  # the exit code of libFuzzer after Ctrl-C
COLUMNS = ("ended", "target", "build", "executions", "seconds", "finding")
# A reader refuses an input by an exception. At each exception, AddressSanitizer clears the frames that it keeps to detect uses after return. This, and the
# call stacks of allocations, take four fifths of the time, so long runs go without both. A finding shows its call stacks if its file is run by hand.
FAST = "malloc_context_size=0:detect_stack_use_after_return=0:quarantine_size_mb=16"


class CannotRun(Exception):
    """The targets cannot be built. The text says why in one line."""


@dataclass(frozen=True)
class Outcome:
    target: str
    executions: int
    finding: Path | None
    text: str  # the message of the finding; "interrupted" after Ctrl-C


def find_clang() -> str:
    """The first clang++ that links libFuzzer. Raises CannotRun if there is none."""
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


def build(clang: str, folder: Path = BUILD, targets: Sequence[str] = ()) -> None:
    """Builds these targets; all if none is named."""
    for command in (
        ["cmake", "-G", "Ninja", "-S", str(SOURCES), "-B", str(folder), f"-DCMAKE_CXX_COMPILER={clang}"],
        ["cmake", "--build", str(folder), *(f"--target={name}" for name in targets)],
    ):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            last = [line for line in (ran.stdout + ran.stderr).splitlines() if "error" in line.lower()] or ["it printed no error"]
            raise CannotRun(f"{' '.join(command[:2])} fails: {last[0]}")


def run(target: str, executions: int, seconds: int, seed: int, folder: Path = BUILD, *, fast: bool = False) -> Outcome:
    """Runs a target from its committed corpus and the inputs of earlier runs, for `executions`, or for `seconds` if they are fewer and not 0."""
    grown, findings = folder / "grown" / target, folder / "findings" / target
    grown.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    own = f"{findings}/seed_{seed}_"  # another process of this target may find something at the same time
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
        f"-artifact_prefix={own}",
        str(grown),
        str(CORPUS / target),
    ]
    variables = {**os.environ, **({"ASAN_OPTIONS": FAST} if fast else {})}
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, errors="replace", check=False)
    made = re.search(r"stat::number_of_executed_units:\s+(\d+)", ran.stderr)
    found = sorted(path for path in set(findings.iterdir()) - before if str(path).startswith(own))
    if ran.returncode in (0, INTERRUPTED) and not found:
        return Outcome(target, int(made[1]) if made else 0, None, "interrupted" if ran.returncode == INTERRUPTED else "")
    told = re.search(r"(SUMMARY: .*|ERROR: .*|runtime error: .*)", ran.stderr)
    return Outcome(target, int(made[1]) if made else 0, found[0] if found else findings, told[1] if told else ran.stderr[-300:])


class Tally:
    """The numbers of executions of each target's build, kept in executions.csv."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.made: dict[tuple[str, str], int] = {}
        self.now: dict[str, tuple[int, float, int]] = {}  # of each target, in this process: the executions, the seconds and the findings
        rows = []
        if path.exists():
            with path.open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if None not in row.values() and set(row) == set(COLUMNS)]
        # The file is written anew, without a row that was cut off when the machine stopped.
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
        self.made[outcome.target, build] = self.of(outcome.target, build) + outcome.executions
        made, spent, found = self.now.get(outcome.target, (0, 0.0, 0))
        self.now[outcome.target] = made + outcome.executions, spent + seconds, found + (outcome.finding is not None)
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow((ended, outcome.target, build, outcome.executions, f"{seconds:.0f}", outcome.finding or ""))


def build_of(target: str, folder: Path = BUILD) -> str:
    return hashlib.sha256((folder / target).read_bytes()).hexdigest()[:12]


@dataclass(frozen=True)
class Piece:
    target: str
    executions: int  # at most
    seconds: int  # at most
    seed: int


@dataclass
class State:
    """A target in a run."""

    build: str
    made: int  # the executions, with those of earlier runs
    spent: float = 0.0  # the seconds of the processes that have ended
    pieces: int = 0  # that have ended
    made_now: int = 0  # the executions of these pieces
    running: list[Piece] = field(default_factory=list)
    over: bool = False  # something was found

    def expected(self, usual: float) -> float:
        """The executions after the running pieces, if each makes as many as the pieces before it, or `usual` if there is none before it."""
        return self.made + len(self.running) * (self.made_now / self.pieces if self.pieces else usual)


@dataclass
class Night:
    """Runs several targets in pieces, each a process. The next piece is of the target that will have the fewest executions. So all targets get on, even if
    the run is stopped early, the slowest one has the most processes, and all reach the wanted number at about the same time."""

    executions: int
    seconds: int  # the limit for the processes of a target, together; 0: none
    seed: int  # of the first piece, each further piece has the next one; 0: any
    tally: Tally
    folder: Path = BUILD
    piece_s: int = PIECE_S

    def run(self, targets: list[str], jobs: int) -> list[Outcome]:
        states = {name: State(build, self.tally.of(name, build)) for name in targets for build in [build_of(name, self.folder)]}
        seed = self.seed or secrets.randbelow(2**31) + 1
        findings: list[Outcome] = []

        def choose() -> Piece | None:
            nonlocal seed
            ended = sum(state.pieces for state in states.values())
            usual = sum(state.made_now for state in states.values()) / ended if ended else 1.0
            # Those that have not run yet come first.
            for name, state in sorted(states.items(), key=lambda item: (bool(item[1].pieces or item[1].running), item[1].expected(usual))):
                missing = self.executions - state.made
                # A running piece has reserved executions and seconds. The part that it does not use is free again when it ends.
                most = min(missing - sum(piece.executions for piece in state.running), max(LEAST, -(-missing // jobs)))
                seconds = self.piece_s
                if self.seconds:
                    seconds = min(seconds, round(self.seconds - state.spent - sum(piece.seconds for piece in state.running)))
                if state.over or most <= 0 or seconds <= 0:
                    continue
                state.running.append(piece := Piece(name, most, seconds, seed))
                seed = seed % (2**32 - 1) + 1
                return piece
            return None

        def work(piece: Piece) -> tuple[Outcome, float]:
            began = time.monotonic()
            return run(piece.target, piece.executions, piece.seconds, piece.seed, self.folder, fast=True), time.monotonic() - began

        def note(piece: Piece, result: tuple[Outcome, float]) -> bool:
            state, (outcome, seconds) = states[piece.target], result
            state.running.remove(piece)
            state.made += outcome.executions
            state.made_now += outcome.executions
            state.spent += seconds
            state.pieces += 1
            self.tally.add(state.build, outcome, seconds)
            if outcome.text == "interrupted":
                return False
            # A piece that executes nothing would be repeated for ever.
            if outcome.finding is not None or outcome.executions == 0:
                findings.append(outcome)
                state.over = True
            return True

        pieces.run(jobs, choose, work, note)
        return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"run only these targets, of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--executions", type=int, default=100_000_000, help="the executions of each target's build, with earlier runs (default 10^8)")
    parser.add_argument("--seconds", type=int, default=0, help="the seconds of each target, summed over its processes; 0: no limit (default)")
    parser.add_argument("--seed", type=int, default=0, help="libFuzzer's seed in the first piece, the next one in the next; 0: any (default)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="the number of processes at the same time (default: the cores)")
    parser.add_argument("--piece", type=int, default=PIECE_S, metavar="SECONDS", help=f"the seconds of a process, which then has a row (default {PIECE_S})")
    parser.add_argument("--built", action="store_true", help="run the targets that build/fuzz has, and build nothing")
    parser.add_argument("--record", action="store_true", help=fuzz_record.HELP)
    asked = parser.parse_args()
    for name in asked.targets:
        if name not in TARGETS:
            parser.error(f"there is no target '{name}': {', '.join(TARGETS)}")
    if asked.executions < 1 or asked.seconds < 0 or asked.jobs < 1 or asked.piece < 1:
        parser.error("--executions, --jobs and --piece are at least 1, --seconds at least 0")
    commit, tally = "", None
    pieces.stop_at_sigterm()
    try:
        commit = fuzz_record.commit_of() if asked.record else ""
        if not asked.built:
            build(find_clang())
        wanted = [name for name in asked.targets or TARGETS if asked.built or (BUILD / name).exists() or name not in OF_CUDA]
        for name in wanted:
            if not (BUILD / name).exists():
                raise CannotRun(f"--built: {BUILD / name} is not there: name the targets that are, or leave --built out")
        tally = Tally(BUILD / "executions.csv")
        findings = Night(asked.executions, asked.seconds, asked.seed, tally, piece_s=asked.piece).run(wanted, asked.jobs)
    except (CannotRun, fuzz_record.CannotRecord) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped: the same command continues", file=sys.stderr)
        return 2
    finally:
        if commit and tally is not None:
            for name, (executions, seconds, number) in tally.now.items():
                fuzz_record.add("nightly_fuzz", name, commit, executions, seconds, number)
    for name in wanted:
        made, found = tally.of(name, build_of(name)), [each for each in findings if each.target == name]
        print(f"{name}: {made:,} of {asked.executions:,} executions, " + (f"{found[0].text}: {found[0].finding}" if found else "nothing found"))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
