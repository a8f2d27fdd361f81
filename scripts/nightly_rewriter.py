"""Runs the rewriter on its test cases with a few mistakes in each. It must answer each file in time, with an exit code that it documents.

    python scripts/nightly_rewriter.py --mutations 10000 --seed 1

A finding is kept in build/rewriter_findings, and printed with its seed: `--seed N --mutations 1` repeats that file. Needs the target gpuheap_coalesce of
the preset `host`. Exit codes: 0 nothing found, 1 findings, 2 the script cannot run."""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import fuzz_record

ROOT = Path(__file__).resolve().parents[1]
CASES = sorted((ROOT / "tests" / "coalesce" / "cases").glob("*.cu"))
TOOL = ROOT / "build" / "host" / "tools" / "coalesce" / "gpuheap-coalesce"
KEPT = ROOT / "build" / "rewriter_findings"
LIMIT_S = 60
TOKEN = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|\w+|\s+|.', re.DOTALL)
# The texts that replace a token: words that the rewriter looks for, and texts that break a parse.
WORDS = (
    *"malloc free calloc new delete return if else for while do switch goto const static template __device__ __global__ __shared__ threadIdx blockIdx".split(),
    *"sizeof auto void int char* size_t 0 -1 1 4294967296 sizeof(int) nullptr __syncthreads() { } ( ) [ ] ; , & * :: ? : = == += << // /* \" ' # \\".split(),
    "\0",
    "é",
)
OPTIONS = ([], ["--analysis", "pattern"], ["--level", "warp"], ["--level", "grid"], ["--dynamic"], ["--no-census"], ["--json"], ["--no-init"])


@dataclass(frozen=True)
class Outcome:
    seed: int
    case: str
    options: tuple[str, ...]
    code: int  # negative: the signal that ended it; 124: it took too long
    text: str
    said: str

    @property
    def finding(self) -> str:
        """The rewriter's mistake as the end of a sentence; "" if it made none."""
        if self.code == 124:
            return f"takes more than {LIMIT_S} s"
        if self.code < 0:
            return f"is ended by signal {-self.code}"
        if self.code not in (0, 1, 2):
            return f"exits with {self.code}"
        if self.code == 2 and "error" not in self.said:
            return "refuses without an error"
        if self.code == 1 and "nothing to rewrite" not in self.said:
            return "rewrites nothing and does not say so"
        return ""


def kind_of(token: str) -> str:
    if token in ("<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "!"):
        return "operator"
    return "number" if token.isdigit() else "word" if token.isidentifier() else token


def mutated(seed: int) -> tuple[str, str]:
    """The name of a case, and its text with one to five mistakes. Most mistakes leave a program that can be parsed."""
    chance = random.Random(seed)
    case = chance.choice(CASES)
    text = case.read_text()
    for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
        tokens = TOKEN.findall(text)
        solid = [place for place, token in enumerate(tokens) if not token.isspace() and not token.startswith("//")]
        if len(solid) < 2:
            break
        place, other = chance.choice(solid), chance.choice(solid)
        how = chance.randrange(24)
        if how >= 8:
            # Another token of the same kind from the same file: a word for a word, an operator for an operator; for a number, a usual number.
            alike = [tokens[k] for k in solid if kind_of(tokens[k]) == kind_of(tokens[place])]
            numbers = ("0", "1", "2", "31", "32", "33", "1024", "4294967296", "-1")
            tokens[place] = chance.choice(numbers) if tokens[place].isdigit() else chance.choice(alike)
        elif how == 0:
            tokens[place] = ""
        elif how == 1:
            tokens[place] = chance.choice(WORDS)
        elif how == 2:
            tokens[place], tokens[other] = tokens[other], tokens[place]
        elif how == 3:
            tokens.insert(place, f" {chance.choice(WORDS)} ")
        elif how == 4:
            tokens[place] = tokens[other]  # any other token of the same file
        elif how == 5:
            lines = "".join(tokens).splitlines(keepends=True)
            lines.insert(chance.randrange(len(lines) + 1), chance.choice(chance.choice(CASES).read_text().splitlines(keepends=True)))
            tokens = lines
        elif how == 6:
            lines = "".join(tokens).splitlines(keepends=True)
            del lines[chance.randrange(len(lines))]
            tokens = lines
        else:
            begin, end = sorted((place, other))
            tokens = tokens[:end] + tokens[begin:]  # a part of the text appears twice
            if len(tokens) > 20_000:
                tokens = tokens[:20_000]
        text = "".join(tokens)
    return case.name, text


def try_one(tool: Path, seed: int) -> Outcome:
    name, text = mutated(seed)
    options = random.Random(~seed).choice(OPTIONS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text(text)
        command = [str(tool), "--dry-run", "--no-toolkit", *options, str(file)]
        environment = {**os.environ, "MALLOC_PERTURB_": "165"}
        try:
            ran = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=folder, timeout=LIMIT_S, check=False, env=environment)
        except subprocess.TimeoutExpired:
            return Outcome(seed, name, tuple(options), 124, text, "")
        said = ran.stderr if file.read_text() == text else "error: the file was changed by --dry-run"
        return Outcome(seed, name, tuple(options), ran.returncode if file.read_text() == text else 99, text, said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=10_000, help="the number of files (default 10000)")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first file (default 1)")
    parser.add_argument("--tool", type=Path, default=Path(os.environ.get("GPUHEAP_COALESCE", TOOL)), help="the rewriter (default: that of the preset host)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="the number of files at the same time (default: the cores)")
    parser.add_argument("--record", action="store_true", help=fuzz_record.HELP)
    asked = parser.parse_args()
    if not asked.tool.exists():
        print(f"error: {asked.tool} is not there: cmake --build --preset host --target gpuheap_coalesce", file=sys.stderr)
        return 2
    try:
        commit = fuzz_record.commit_of() if asked.record else ""
    except fuzz_record.CannotRecord as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    codes: Counter[int] = Counter()
    findings, began = 0, time.monotonic()
    pool = ThreadPoolExecutor(asked.jobs)
    try:
        for outcome in pool.map(lambda seed: try_one(asked.tool, seed), range(asked.seed, asked.seed + asked.mutations)):
            codes[outcome.code] += 1
            if not outcome.finding:
                continue
            findings += 1
            KEPT.mkdir(parents=True, exist_ok=True)
            kept = KEPT / f"seed_{outcome.seed}_{outcome.case}"
            kept.write_text(outcome.text)
            print(f"seed {outcome.seed}: the rewriter {outcome.finding}: --dry-run --no-toolkit {' '.join([*outcome.options, str(kept)])}", flush=True)
    except KeyboardInterrupt:
        pool.shutdown(cancel_futures=True)
        print(f"stopped after {codes.total()} files", file=sys.stderr)
        return 2
    if commit:
        seeds = f"seeds {asked.seed} to {asked.seed + asked.mutations - 1}"
        fuzz_record.add("nightly_rewriter", seeds, commit, codes.total(), time.monotonic() - began, findings, same_inputs=True)
    print(f"{codes.total()} files, {findings} findings: {codes[0]} rewritten, {codes[2]} refused, {codes[1]} with nothing to rewrite")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
