"""Compiles each mutant of the default allocator's protocol, and explores schedules until one fails.

    python scripts/nightly_mutants.py [NAME ...]

Needs the target gpuheap_simulator of the preset `host`. Exit codes: 0 all mutants were found, 1 some were not, 2 the script cannot run."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "allocators" / "mutants"))

import protocol_mutants as mutants  # noqa: E402  (of the folder above)


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks that each mutant of the default allocator's protocol fails under some schedule.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="run only the mutants whose names contain one of these words; default: all mutants")
    asked = parser.parse_args()
    if not mutants.SIMULATOR.exists():
        print(f"error: {mutants.SIMULATOR} is not there: cmake --build --preset host --target gpuheap_simulator", file=sys.stderr)
        return 2
    chosen = [mutant for mutant in mutants.MUTANTS if not asked.names or any(name in mutant.name for name in asked.names)]
    unknown = [name for name in asked.names if not any(name in mutant.name for mutant in mutants.MUTANTS)]
    if unknown:
        print(f"error: no mutant's name contains {unknown[0]!r}; one of them is {mutants.MUTANTS[0].name!r}", file=sys.stderr)
        return 2
    missed = 0
    try:
        for mutant in chosen:
            with tempfile.TemporaryDirectory() as folder:
                sound, said = mutants.explore(mutants.program(mutants.mutated(mutant, Path(folder)), Path(folder)), mutant.seeds)
            missed += sound
            print(f"{'MISSED' if sound else 'found ':6}  {mutant.name}: {said[:120]}", flush=True)
    except (ValueError, subprocess.CalledProcessError) as error:
        print(f"error: {error}\n{getattr(error, 'stderr', '') or ''}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 2
    print(f"{len(chosen)} mutants, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
