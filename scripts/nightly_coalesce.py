"""Compares generated kernels with their rewritten forms, in which threads allocate together. A finding names its seed and its kernel.

    python scripts/nightly_coalesce.py --kernels 20000 --seed 1
    python scripts/nightly_coalesce.py --mutants       leaves out one part of the analysis after the other; a kernel must show that it is missing

Needs the targets gpuheap_coalesce and gpuheap_simulator of the preset `host`, and with --mutants gpuheap_coalesce_mutants.
Exit codes: 0 nothing found, 1 findings, 2 the script cannot run."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "coalesce" / "differential"))

import compare  # noqa: E402  (of the folder above)
import mutants  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks that generated kernels, after rewriting, give the same results under several schedules.")
    parser.add_argument("--kernels", type=int, default=20_000, help="the number of kernels (default 20000)")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first file (default 1)")
    parser.add_argument("--in-file", type=int, default=400, help="the number of kernels in a file (default 400)")
    parser.add_argument("--schedules", type=int, default=4, help="the number of schedules of each kernel (default 4)")
    parser.add_argument(
        "--tool",
        type=Path,
        default=compare.TOOL,
        help="the rewriter (default: that of the preset host)",
    )
    parser.add_argument(
        "--mutants",
        action="store_true",
        help="leave out each part of the analysis in turn, until a kernel shows that it is missing; at most 9 files for each part",
    )
    asked = parser.parse_args()
    if asked.mutants:
        asked.tool = mutants.MUTANTS
    for needed in (asked.tool, compare.SIMULATOR):
        if not needed.exists():
            targets = "gpuheap_coalesce gpuheap_coalesce_mutants gpuheap_simulator"
            print(
                f"error: {needed} is not there: cmake --build --preset host --target {targets}",
                file=sys.stderr,
            )
            return 2
    return try_mutants(asked.seed) if asked.mutants else try_kernels(asked)


def try_mutants(seed: int) -> int:
    """Prints for each part of the analysis the kernel that shows that it is left out. Returns the exit code."""
    missed = 0
    try:
        for part in mutants.parts():
            with tempfile.TemporaryDirectory() as folder:
                found = mutants.find(
                    mutants.MUTANTS,
                    mutants.left_out(part),
                    range(seed, seed + 9),
                    150,
                    Path(folder),
                )
            missed += not found
            print(f"without {part}: {found or 'NO KERNEL SHOWS IT'}", flush=True)
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 2
    print(f"{missed} of {len(mutants.parts())} parts can be left out without a finding")
    return 1 if missed else 0


def try_kernels(asked: argparse.Namespace) -> int:
    """Compares files of kernels, until as many kernels are done as were asked for. Returns the exit code."""
    done = may = are = findings = 0
    lost: Counter[str] = Counter()
    seed = asked.seed
    try:
        while done < asked.kernels:
            with tempfile.TemporaryDirectory() as folder:
                outcome = compare.check(
                    asked.tool,
                    seed,
                    min(asked.in_file, asked.kernels - done),
                    Path(folder),
                    asked.schedules,
                )
            for number, what in sorted(outcome.findings.items()):
                print(f"seed {seed}, kernel {number}: {what}: {', '.join(outcome.kernels[number].parts)}\n{outcome.kernels[number].text}")
            done += len(outcome.kernels)
            may += outcome.may
            are += outcome.are
            lost += outcome.lost
            findings += len(outcome.findings)
            print(
                f"{done} kernels, {findings} findings; {are} of the {may} calls that may be coalesced are coalesced",
                flush=True,
            )
            seed += 1
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"stopped after {done} kernels; go on with --seed {seed}", file=sys.stderr)
    for part, times in lost.most_common(10):
        print(f"not coalesced {times} times: {part}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
