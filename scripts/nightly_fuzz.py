"""Runs the fuzz targets of tests/fuzz, each until it has made as many executions as were asked for; a finding is a file that shows it again.

    python scripts/nightly_fuzz.py                            10^8 executions of each target (10^6 of capi); some hours of a core for each
    python scripts/nightly_fuzz.py --executions 100000 trace  one target, briefly

Needs clang with libFuzzer (apt-get install clang-19 libclang-rt-19-dev) and CMake; builds into build/fuzz. What a run finds of new inputs stays in
build/fuzz/grown, where the next run begins. Exit codes: 0 nothing found, 1 findings, 2 it cannot run."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES, CORPUS, BUILD = ROOT / "tests" / "fuzz" / "targets", ROOT / "tests" / "fuzz" / "corpus", ROOT / "build" / "fuzz"
TARGETS = tuple(sorted(path.name for path in CORPUS.iterdir() if path.is_dir()))
OF_CUDA = ("capi", "code")  # built where CUDA's headers are
SLOWER = {"capi": 100}  # makes heaps: so many times fewer executions


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


def run(target: str, executions: int, seconds: int, seed: int, folder: Path = BUILD) -> Outcome:
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
        "-max_len=4096",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        f"-artifact_prefix={findings}/",
        str(grown),
        str(CORPUS / target),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    made = re.search(r"stat::number_of_executed_units:\s+(\d+)", ran.stderr)
    found = sorted(set(findings.iterdir()) - before)
    if ran.returncode == 0 and not found:
        return Outcome(target, int(made[1]) if made else 0, None, "")
    told = re.search(r"(SUMMARY: .*|ERROR: .*|runtime error: .*)", ran.stderr)
    return Outcome(target, int(made[1]) if made else 0, found[0] if found else findings, told[1] if told else ran.stderr[-300:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--executions", type=int, default=100_000_000, help="of each target (default 10^8)")
    parser.add_argument("--seconds", type=int, default=0, help="the most for each target; 0: no bound (default)")
    parser.add_argument("--seed", type=int, default=0, help="of libFuzzer; 0: another one each time (default)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at once (default: one for each core)")
    asked = parser.parse_args()
    for name in asked.targets:
        if name not in TARGETS:
            parser.error(f"there is no target '{name}': {', '.join(TARGETS)}")
    if asked.executions < 1:
        parser.error("--executions is at least 1")
    try:
        build(find_clang())
        wanted = [name for name in asked.targets or TARGETS if (BUILD / name).exists() or name not in OF_CUDA]
        with ThreadPoolExecutor(asked.jobs) as pool:
            outcomes = list(pool.map(lambda name: run(name, max(1, asked.executions // SLOWER.get(name, 1)), asked.seconds, asked.seed), wanted))
    except CannotRun as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped: what was found of new inputs is kept", file=sys.stderr)
        return 2
    for each in outcomes:
        print(f"{each.target}: {each.executions} executions, " + ("nothing found" if each.finding is None else f"{each.text}: {each.finding}"))
    return 1 if any(each.finding is not None for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
