"""`python -m gpuheap.unchanged`: measures the programs and writes the results, and writes a page's tables from the results."""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuheap.errors import EXIT_INTERRUPTED, EXIT_USAGE, UserError
from gpuheap.exits import end_with
from gpuheap.unchanged.measure import FORMS, Sanitizer, Wish, from_anywhere, measure, sanitize, what_lacks
from gpuheap.unchanged.merge import merge
from gpuheap.unchanged.programs import Program, read_programs, select
from gpuheap.unchanged.table import heap_words, memcheck_words, output_words, significant, tables, write_into

ROOT = Path(__file__).resolve().parents[3]
LIST = ROOT / "benchmarks" / "unchanged.toml"


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    try:
        programs = read_programs(options.list)
        if options.programs is not None:
            _measure(options, programs)
        if options.merge:
            results = _read(options.results) if options.results.exists() else {}
            for path in options.merge:
                merge(results, _read(path), path)
            _write(options.results, results)
        if options.page is not None:
            write_into(options.page, tables(programs, _read(options.results)))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print(f"\ninterrupted: {options.results} has the finished programs", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gpuheap.unchanged", description=__doc__, allow_abbrev=False)
    parser.add_argument("results", type=Path, help="the JSON file of the results; entries that are not measured again stay")
    parser.add_argument("--programs", type=Path, help="measure the programs of this folder, which has NAME/plain, NAME/rdc, NAME/relinked, and data/")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="measure only this program; may be repeated")
    parser.add_argument("--forms", default=",".join(FORMS), help="the forms to measure, separated by commas (default: %(default)s)")
    parser.add_argument("--runner", default="", metavar="COMMAND", help="the command that serves a plain program, as 'gpuheap run'; empty: no form `run`")
    parser.add_argument("--runs", type=int, default=5, help="the number of runs of each form; 0: run only the sanitizer (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="the time limit of one run (default: %(default)s)")
    parser.add_argument("--enough", type=float, default=30.0, metavar="SECONDS", help="the time limit of one program after two runs (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=math.inf, metavar="SECONDS", help="begin no program after this time (default: none)")
    parser.add_argument("--sanitizer", default="", metavar="COMMAND", help="also run the programs under this sanitizer, as 'compute-sanitizer'")
    parser.add_argument("--sanitizer-timeout", type=float, metavar="SECONDS", help="the time limit of one run under the sanitizer (default: that of --timeout)")
    parser.add_argument("--sanitizer-forms", default="", metavar="FORMS", help="the forms to run under the sanitizer (default: plain, and those of --forms)")
    parser.add_argument("--sanitizer-part", default="", metavar="WORDS", help="what the sanitizer checks of a program, if COMMAND limits it, for the tables")
    parser.add_argument("--sanitizer-logs", type=Path, metavar="FOLDER", help="keep the sanitizer's logs as FOLDER/NAME.FORM.log")
    parser.add_argument("--merge", type=Path, action="append", default=[], metavar="FILE", help="add the entries of these results; may be repeated")
    parser.add_argument("--list", type=Path, default=LIST, help="the list of programs (default: %(default)s)")
    parser.add_argument("--page", type=Path, help="write the tables between the markers of this page")
    return parser.parse_args(words)


def _measure(options: argparse.Namespace, programs: Sequence[Program]) -> None:
    forms = _forms("--forms", options.forms)
    sanitized = _forms("--sanitizer-forms", options.sanitizer_forms) if options.sanitizer_forms else ()
    if options.runs < (0 if options.sanitizer else 1):
        raise UserError(f"--runs is {options.runs}: a program must run at least once; only with --sanitizer may it be 0")
    if not options.programs.is_dir():
        raise UserError(f"--programs: {options.programs} is not a folder")
    wish = Wish(options.programs, forms, from_anywhere(shlex.split(options.runner)), options.runs, options.timeout, options.enough)
    limit_s = options.timeout if options.sanitizer_timeout is None else options.sanitizer_timeout
    sanitizer = Sanitizer(from_anywhere(shlex.split(options.sanitizer)), limit_s, sanitized, options.sanitizer_part, options.sanitizer_logs)
    results = _read(options.results) if options.results.exists() else {}
    results["machine"] = machine()
    wanted = [program for program in select(programs, options.only) if not program.fails]
    lacks = {program.name: what_lacks(program, wish) for program in wanted}
    wanted = [program for program in wanted if not lacks[program.name]]
    for name, path in lacks.items():
        if path:
            _say(f"left out: {name}: {path}")
    if not wanted:
        raise UserError(f"--programs: {options.programs} has no complete program: each needs NAME/plain, and its inputs in data/")
    ends = time.monotonic() + options.budget
    entries = results.setdefault("programs", {})
    late = []
    for program in wanted if wish.runs else ():
        if time.monotonic() > ends:
            late.append(program.name)
            continue
        measured = measure(program, wish, _say)
        entries.setdefault(program.name, {}).update(measured)
        _write(options.results, results)
        _print(program.name, measured)
    # The sanitizer runs last, because it takes longer than all timed runs.
    for program in wanted if sanitizer.command else ():
        if time.monotonic() > ends:
            late.append(f"{program.name} (memcheck)")
            continue
        sanitize(program, wish, sanitizer, entries.setdefault(program.name, {}), _say)
        _write(options.results, results)
        _print(program.name, entries[program.name])
    if late:
        _say(f"no time was left for {', '.join(late)}: give --budget more than {options.budget:g} s")


def _forms(option: str, words: str) -> tuple[str, ...]:
    forms = tuple(words.split(","))
    for form in forms:
        if form not in FORMS:
            raise UserError(f"{option}: '{form}' is not a form: there are {', '.join(FORMS)}")
    return forms


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(name: str, entry: dict[str, Any]) -> None:
    for form, told in entry.items():
        seconds = f"{significant(told['seconds'])} s" if "seconds" in told else "-"
        kernels = f"{significant(told['kernel_ms'])} ms" if "kernel_ms" in told else "-"
        print(f"{name:18} {form:9} {seconds:>9} {kernels:>10}  {output_words(told)}; held: {heap_words(told)}; memcheck: {memcheck_words(told)}", flush=True)


def machine() -> dict[str, str]:
    """The GPU and its driver, as nvidia-smi names them."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return {}
    name, _, driver = said[0].partition(", ") if said else ("", "", "")
    return {"GPU": name, "driver": driver} if driver else {}


def _read(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: the results cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{path}: not a JSON file of results: {error}") from None
    if not isinstance(said, dict) or not isinstance(said.get("programs", {}), dict):
        raise UserError(f"{path}: not a JSON file of results: no table of programs in it")
    return said


def _write(path: Path, results: dict[str, Any]) -> None:
    """Replaces the file as a whole: if it is interrupted, the old file stays."""
    beside = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        raise UserError(f"{path}: the results cannot be written: {error.strerror}") from None


if __name__ == "__main__":
    end_with(main)
