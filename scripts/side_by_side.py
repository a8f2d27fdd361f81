"""Compares builds of the benchmark at points of the suites: the builds take turns at each point, so that no machine and no hour favours one of them.

    python scripts/side_by_side.py before=old/gpuheap-bench after=build/cuda/benchmarks/gpuheap-bench -- stress heap/alloc_single
    python scripts/side_by_side.py before=A after=B --rounds 3 --quick --minutes 5 --jsonl all.jsonl -- regeff/kdtree

A line is a metric of a point: for each build the medians of the rounds, and behind a build after the first one the ratio of its median to that of the first.
Nothing is written into results/. It needs Python 3.11 or newer, or tomli, and no other package, so it runs where only the executables were copied to.

Exit codes: 0 all points ran in all builds, 1 some did not, each with its reason, 2 the script cannot run, 130 interrupted."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from gpuheap.errors import UserError  # noqa: E402
from gpuheap.formats.points import DEFAULT_SEED, Point  # noqa: E402
from gpuheap.formats.suites import Case, load_suites, select  # noqa: E402
from gpuheap.paths import find_layout  # noqa: E402


def measure(executable: Path, allocator: str, case: Case, point: Point, runs: int) -> tuple[dict[str, float], str]:
    """The medians of a point by metric, and "" or the reason why there are none."""
    words = [str(executable), "--case", case.name, "--allocator", allocator, "--point", point.argument]
    words += ["--heap-bytes", str(case.heap_bytes), "--runs", str(runs), "--seed", str(DEFAULT_SEED)]
    words += ["--timeout-s", f"{case.timeout_s:g}", "--enough-s", f"{case.enough_s:g}"]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=4 * case.timeout_s + 60, check=False)
    except subprocess.TimeoutExpired:
        return {}, "has not ended"
    except OSError as error:
        return {}, f"does not start: {error.strerror}"
    for line in ran.stdout.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue  # not a line of the protocol
        if isinstance(said, dict) and "status" in said:
            rows = {row["metric"]: statistics.median(row["samples"]) for row in said.get("rows", []) if row["samples"]}
            return rows, "" if said["status"] == "ok" else f"{said['status']}: {said.get('reason', '')}"
    last = (ran.stderr.strip().splitlines() or ["says nothing"])[-1]
    return {}, f"exit code {ran.returncode}: {last}"


def line_of(case: Case, point: Point, metric: str, medians: dict[str, list[float]]) -> str:
    parts = []
    first = statistics.median(next(iter(medians.values())))
    for place, (name, values) in enumerate(medians.items()):
        ratio = f" ({statistics.median(values) / first:.3f})" if place and first else ""
        parts.append(f"{name} {' / '.join(f'{value:.4g}' for value in values)}{ratio}")
    return f"{case.name} {point.argument} {metric}: {', '.join(parts)}"


def builds_of(words: Sequence[str]) -> dict[str, Path]:
    builds: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not name or not equals:
            raise UserError(f"'{word}' names no build: write NAME=EXECUTABLE, as before=build/old/benchmarks/gpuheap-bench")
        if name in builds:
            raise UserError(f"two builds are called '{name}': give each a name of its own")
        if not Path(path).is_file():
            raise UserError(f"{name}: {path} is not a file: name an executable gpuheap-bench")
        builds[name] = Path(path).resolve()
    if len(builds) < 2:
        raise UserError(f"a comparison needs two builds, and {len(builds)} is given: add NAME=EXECUTABLE")
    return builds


def compare(asked: argparse.Namespace, builds: dict[str, Path]) -> int:
    suites = load_suites(find_layout())
    begin, failed = time.monotonic(), False
    with open(asked.jsonl or os.devnull, "a") as log:
        for suite, names in select(suites, asked.targets):
            if suite.programs:
                raise UserError(f"the suite '{suite.name}' runs whole programs, not cases of gpuheap-bench: measure it by gpuheap bench {suite.name}")
            for name in names:
                case = suite.case(name, asked.backend)
                case = case.cut() if asked.quick else case
                for point in case.points():
                    if asked.minutes and time.monotonic() - begin > 60 * asked.minutes:
                        print(f"the time is up before {case.name} {point.argument}", file=sys.stderr)
                        return 1
                    found: dict[str, dict[str, list[float]]] = {}
                    for turn in range(asked.rounds):
                        for build, executable in builds.items():
                            rows, reason = measure(executable, asked.allocator, case, point, asked.runs or case.runs)
                            log.write(json.dumps([suite.name, case.name, point.argument, build, turn, rows, reason]) + "\n")
                            if reason:
                                failed = True
                                print(f"{case.name} {point.argument}: {build} {reason}", file=sys.stderr, flush=True)
                            for metric, value in rows.items():
                                found.setdefault(metric, {}).setdefault(build, []).append(value)
                    for metric, medians in found.items():
                        print(line_of(case, point, metric, medians), flush=True)
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+", metavar="NAME=EXECUTABLE", help="two or more builds of gpuheap-bench; the first one is the base of ratios")
    parser.add_argument("--allocator", default="sharded_spans", metavar="NAME", help="the allocator to measure (default sharded_spans)")
    parser.add_argument("--backend", default="cuda", choices=("cuda", "simulator"), help="which points of a suite to take (default cuda)")
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="how often each build measures a point (default 2)")
    parser.add_argument("--runs", type=int, metavar="N", help="the runs of each point in each round (default: those of the suite)")
    parser.add_argument("--quick", action="store_true", help="few points of each sweep, as gpuheap bench --quick")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no point after this many minutes")
    parser.add_argument("--jsonl", type=Path, metavar="FILE", help="append what each build measured in each round to this file")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    asked = parser.parse_args(words[:split])
    asked.targets = words[split + 1 :]
    try:
        if not asked.targets:
            raise UserError("no point is named: add -- and a suite or SUITE/CASE, as -- stress heap/alloc_single")
        if asked.rounds < 1 or (asked.runs is not None and asked.runs < 1):
            raise UserError("--rounds and --runs are numbers from 1 on")
        return compare(asked, builds_of(asked.builds))
    except OSError as error:
        print(f"side_by_side: {error.filename}: {error.strerror}: name a file that can be written", file=sys.stderr)
        return 2
    except UserError as error:
        print(f"side_by_side: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
