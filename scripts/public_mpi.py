"""Translates the public C programs of MPI that tests/coalesce/public_programs.csv lists, from checkouts of their repositories, and compiles the results.

    python scripts/public_mpi.py CHECKOUTS                     checks that each program is translated, or refused, as the list says
    python scripts/public_mpi.py CHECKOUTS --nvcc              also compiles each translated file to PTX with nvcc: 2 to 10 seconds each
    python scripts/public_mpi.py CHECKOUTS --nvcc --record     also writes the outcome into the column `nvcc` of the list
    python scripts/public_mpi.py CHECKOUTS --run               also compares the output in the simulator with that of Open MPI: 10 to 60 seconds each
    python scripts/public_mpi.py CHECKOUTS --keep FOLDER       keeps the translated files, in a folder of FOLDER for each program, so that another machine
                                                               can compile them: FOLDER/compile.sh GPUHEAP_INCLUDE JOBS > compiled.txt
    python scripts/public_mpi.py --compiled compiled.txt       writes the outcome of compile.sh into the list

CHECKOUTS/OWNER/NAME is a checkout of https://github.com/OWNER/NAME at the list's commit. A program is the listed file. If it calls functions that other
files of its folder or of ../common define, the program includes those of these files that have no main. NPB's IS needs the header npbparams.h in its folder.
`make is CLASS=S NPROCS=4` writes this header, with the suite's own template as config/make.def.

The list has the number of ranks, the arguments and the input of a program, with `|` for the end of a line. Without them, a program has 4 ranks, no argument
and no input. Outputs are compared without regard to the order of lines, and numbers to three digits. Numbers are not compared in lines about time, nor in
lines in which they differ between two runs of Open MPI. --table keeps the results, and a program in it is not tried again.

Exit codes: 0 all programs are as the list says, 1 some are not, 2 the script cannot run, 130 interrupted."""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "coalesce" / "public_programs.csv"
TOOL = ROOT / "build" / "host" / "tools" / "coalesce" / "gpuheap-coalesce"
BUILD = ROOT / "build" / "host"
SIMULATOR = BUILD / "simulator" / "libgpuheap_simulator.a"
FIELDS = ["repository", "path", "translates", "nvcc", "prints", "reason"]
SECONDS = 60  # the time limit of a run of a program
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
OF_TIME = re.compile(r"time|second|\bsec\b|\d ?m?s\b|elapsed|clock|duration|latency|bandwidth|MB/s|Mop|resolution|precision", re.IGNORECASE)


def run(command: list[str], seconds: int = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=seconds)


def first_error(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if "error" in line), text.strip()[:200])


def missing_definition(said: str) -> str:
    """The function that the tool needs from another file; "" if there is none."""
    found = re.search(r"the definition of `(\w+)` is (?:in none of|not among) the files given", said)
    return found[1] if found else ""


def defines(file: Path, function: str) -> bool:
    return re.search(rf"\b{function}\s*\([^;{{}}]*\)\s*{{", file.read_text(errors="replace")) is not None


def translate(tool: Path, source: Path, folder: Path) -> tuple[subprocess.CompletedProcess[str], list[Path], list[Path]]:
    """Translates a program into `folder`. Returns the result of the tool, the C files that it was given, and the CUDA files that it wrote."""
    near = [*sorted(source.parent.glob("*.c")), *sorted(source.parent.parent.glob("common/*.c"))]
    files = [source]
    while True:
        made = run([str(tool), "--mpi", "--quiet", "--output", str(folder), *map(str, files), "--", f"-I{source.parent}"])
        missing = missing_definition(made.stderr)
        more = [file for file in near if missing and file not in files and defines(file, missing) and not defines(file, "main")]
        if made.returncode != 2 or not more:
            return made, files, sorted(folder.rglob("*.cu"))
        files += more[:1]  # Ends: each pass adds a file of `near`.


def keep(source: Path, made: Path, folder: Path) -> None:
    """Copies the translated files, and the headers that they share with the C program, into `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(made, folder)
    for header in source.parent.glob("*.h"):
        if not (folder / header.name).exists():
            shutil.copy(header, folder)


COMPILE = r"""#!/bin/sh
# Compiles the programs of this folder to objects with nvcc: compile.sh INCLUDE JOBS, where INCLUDE is the folder of gpuheap's headers. Prints a line for each
# program: its folder, and `object` or `no`. The output of nvcc is in FOLDER.log.
INCLUDE=$(realpath "$1") && export INCLUDE && cd "$(dirname "$0")" || exit 2
find . -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort | xargs -P "$2" -I{} sh -c '
  for file in $(find "$1" -name "*.cu"); do
    nvcc -std=c++20 -arch=sm_90 -O1 -Xcicc -O1 -Xptxas -O1 -rdc=true -maxrregcount=64 -w -DGPUHEAP_BACKEND_CUDA \
      -I"$INCLUDE" -I"$1" -c "$file" -o "$file.o" >>"$1.log" 2>&1 || { echo "$1 no"; exit 0; }
  done
  echo "$1 object"' sh {}
"""


def name_of(row: dict[str, str]) -> str:
    """The name of a program's folder under --keep."""
    return re.sub(r"\W+", "_", f"{row['repository']}/{row['path'].removesuffix('.c')}")


def record(known: dict[tuple[str, str], dict[str, str]]) -> None:
    """Writes the outcome of nvcc into the list. A program without an outcome keeps its entry."""
    with LIST.open(newline="") as listed:
        reader = csv.DictReader(listed)
        fields, rows = list(reader.fieldnames or []), list(reader)
    for row in rows:
        found = known.get((row["repository"], row["path"]))
        if found is not None:
            row["nvcc"] = found["nvcc"]
    with LIST.open("w", newline="") as listed:
        writer = csv.DictWriter(listed, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def take_compiled(file: Path, rows: list[dict[str, str]]) -> int:
    """Writes the output of compile.sh into the list. Returns the exit code."""
    if not file.is_file():
        print(f"error: {file} is not there: compile.sh of --keep prints it", file=sys.stderr)
        return 2
    try:
        said = dict(line.split() for line in file.read_text().splitlines())
    except (OSError, ValueError):
        print(f"error: {file} is not a list of two words a line: compile.sh of --keep prints it", file=sys.stderr)
        return 2
    found = {(row["repository"], row["path"]): {"nvcc": said[name_of(row)]} for row in rows if name_of(row) in said}
    record(found)
    wrong = [path for (_, path), is_now in found.items() if is_now["nvcc"] != "object"]
    print(f"{len(found) - len(wrong)} of {len(found)} programs compile to objects" + "".join(f"\nnot: {path}" for path in wrong))
    return 1 if wrong else 0


def try_program(row: dict[str, str], source: Path, tool: Path, nvcc: str | None, kept: Path | None, *, runs: bool, shows: bool) -> dict[str, str]:
    """Tries a program, and returns its row of the table. Copies the translated files to `kept`, if that is given."""
    found = {"repository": row["repository"], "path": row["path"], "translates": "no", "nvcc": "", "prints": "", "reason": ""}
    with tempfile.TemporaryDirectory() as folder:
        made, sources, files = translate(tool, source, Path(folder))
        if made.returncode not in (0, 1):
            return {**found, "reason": first_error(made.stderr)}
        found["translates"] = "yes"
        if kept is not None:
            keep(source, Path(folder), kept / name_of(row))
        if runs:
            found["prints"] = run_both(row, source, sources, files, Path(folder), shows=shows)
        if nvcc is None:
            return found
        found["nvcc"] = "PTX"
        options = ["-std=c++20", "-arch=sm_90", "-rdc=true", "-w", f"-I{ROOT / 'include'}", f"-I{folder}", f"-I{source.parent}", "-DGPUHEAP_BACKEND_CUDA"]
        for file in files:
            compiled = run([nvcc, *options, "-ptx", "-o", "/dev/null", str(file)])
            if compiled.returncode != 0:
                found.update(nvcc="no", reason=first_error(compiled.stderr))
    return found


def lines_by_kind(text: str, *, words: bool) -> dict[str, list[list[str]]]:
    """Groups lines, or words, by their text without numbers. Each group has its numbers by column, to three digits and sorted."""
    found: dict[str, list[list[str]]] = defaultdict(list)
    for unit in text.split() if words else filter(None, (" ".join(line.split()) for line in text.splitlines())):
        found[NUMBER.sub("#", unit)].append([f"{float(number):.3g}" for number in NUMBER.findall(unit)])
    return {kind: [sorted(column) for column in zip(*rows, strict=True)] or [[""] * len(rows)] for kind, rows in found.items()}


def are_alike(ours: str, theirs: list[str], *, words: bool) -> bool:
    """Whether our output equals that of Open MPI. `theirs` has the outputs of two runs."""
    first, second = (lines_by_kind(text, words=words) for text in theirs)
    found = lines_by_kind(ours, words=words)
    if found.keys() != first.keys():
        return False
    for kind, columns in first.items():
        again = second.get(kind)
        if len(found[kind][0]) != len(columns[0]):
            return again is not None and len(again[0]) != len(columns[0])
        if OF_TIME.search(kind) or again is None:
            continue
        if any(column != other and column == same for column, other, same in zip(columns, found[kind], again, strict=True)):
            return False
    return True


def simulator_options() -> list[str]:
    """The compiler's options for programs of the simulator, from this build."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    words = shlex.split(next(one["command"] for one in commands if Path(one["file"]).name == "host_c_library_library.cpp"))
    kept = [word for word in words if word.startswith(("-I", "-D"))]
    return kept + [word for i, at in enumerate(words) if at == "-isystem" for word in words[i : i + 2]]


def run_both(row: dict[str, str], source: Path, sources: list[Path], files: list[Path], folder: Path, *, shows: bool) -> str:
    """ "same", or how the program fails or differs. `sources` are the C files, and `files` are their translation."""
    arguments, ranks = shlex.split(row["arguments"]), row["ranks"] or "4"
    made = run(["mpicc", "-w", "-std=gnu11", "-O1", *map(str, sources), f"-I{source.parent}", "-o", str(folder / "processes"), "-lm"])
    if made.returncode != 0:
        return f"mpicc: {first_error(made.stderr)}"
    objects = [word for file in files for word in ("-x", "c++", str(file))] + ["-x", "none"]
    options = [*simulator_options(), f"-I{folder}", f"-I{source.parent}"]
    made = run(["g++", "-std=c++20", "-O0", "-w", *options, *objects, "-o", str(folder / "ranks"), str(SIMULATOR), "-lboost_context", "-pthread"])
    if made.returncode != 0:
        return f"g++: {first_error(made.stderr)}"

    def output(command: list[str]) -> tuple[int, str]:
        environment = {**os.environ, "GPUHEAP_RANKS": ranks, "GPUHEAP_BYTES": "2GiB"}
        try:
            ran = subprocess.run(
                command, input=row["input"].replace("|", "\n"), capture_output=True, text=True, errors="replace", check=False, timeout=SECONDS,
                env=environment, cwd=source.parent,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return 124, ""
        # If a program ends with another code than 0, mpirun prints a message between two such lines.
        errors = re.sub(r"(?s)^-{60,}$.*", "", ran.stderr, flags=re.MULTILINE)
        said = ran.stdout + "".join(line for line in errors.splitlines(keepends=True) if not line.startswith("gpuheap: "))
        return ran.returncode, said.replace(command[-1 - len(arguments)], "program")

    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", ranks, str(folder / "processes"), *arguments]
    theirs = [output(mpirun), output(mpirun)]
    ours = output([str(folder / "ranks"), *arguments])
    if theirs[0][0] == 124 or ours[0] == 124:
        return f"{'Open MPI' if theirs[0][0] == 124 else 'the simulator'}: not done in {SECONDS} s"
    if (theirs[0][0] == 0) != (ours[0] == 0):
        return f"Open MPI ends with {theirs[0][0]}, the simulator with {ours[0]}"
    texts = [text for _, text in theirs]
    alike = are_alike(ours[1], texts, words=False) or are_alike(ours[1], texts, words=True)
    if not alike and shows:
        print(f"--- Open MPI\n{texts[0][:1500]}\n--- simulator\n{ours[1][:1500]}")
    return "same" if alike else "another output"


def at_commit(checkout: Path) -> str:
    """The commit of a checkout; "" if there is no checkout."""
    told = run(["git", "-C", str(checkout), "rev-parse", "HEAD"]) if checkout.is_dir() else None
    return told.stdout.strip() if told is not None and told.returncode == 0 else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks that the listed public programs of MPI are translated as the list says, and compiles them.")
    parser.add_argument("checkouts", type=Path, nargs="?", default=Path("."), help="the folder with OWNER/NAME for each repository of the list")
    parser.add_argument("--only", default="", help="try only the programs whose repository and path contain this text")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="try only each Nth program, as a sample")
    parser.add_argument("--show", action="store_true", help="show the outputs that differ")
    parser.add_argument("--nvcc", action="store_true", help="compile the translated files to PTX")
    parser.add_argument("--run", action="store_true", help="compare the output of the translated program in the simulator with that of Open MPI")
    parser.add_argument("--record", action="store_true", help="write the outcome of --nvcc into the list")
    parser.add_argument("--keep", type=Path, help="keep the translated files in this folder, to compile them elsewhere; tries every program again")
    parser.add_argument("--compiled", type=Path, help="the output of compile.sh of --keep")
    parser.add_argument("--tool", type=Path, default=TOOL, help="the rewriter (default: that of the preset host)")
    parser.add_argument("--table", type=Path, default=ROOT / "build" / "public_mpi.csv", help="the CSV file of the results, with a row for each program")
    asked = parser.parse_args()
    with LIST.open(newline="") as listed:
        rows = [row for row in csv.DictReader(listed) if asked.only in f"{row['repository']}/{row['path']}"][:: max(1, asked.every)]
    if asked.compiled is not None:
        return take_compiled(asked.compiled, rows)
    nvcc = shutil.which("nvcc") if asked.nvcc else None
    wrong = [row for row in rows if at_commit(asked.checkouts / row["repository"]) != row["commit"]]
    for missing, what in (
        (not rows, f"no program of the list contains '{asked.only}': see {LIST}"),
        (not asked.tool.exists(), f"{asked.tool} is not there: cmake --build --preset host --target gpuheap_coalesce"),
        (asked.run and not SIMULATOR.exists(), f"{SIMULATOR} is not there: cmake --build --preset host --target gpuheap_simulator"),
        (asked.run and shutil.which("mpirun") is None, "mpirun is not found: sudo apt-get install libopenmpi-dev openmpi-bin"),
        (asked.record and not asked.nvcc, "--record writes what --nvcc finds: ask for both"),
        (asked.nvcc and nvcc is None, "nvcc is not found: install the CUDA toolkit, or put nvcc on PATH"),
        (wrong, "".join(f"{asked.checkouts / row['repository']} is not a checkout of commit {row['commit']}: git clone it there" for row in wrong[:1])),
    ):
        if missing:
            print(f"error: {what}", file=sys.stderr)
            return 2
    known: dict[tuple[str, str], dict[str, str]] = {}
    if asked.table.exists():
        with asked.table.open(newline="") as table:
            known = {(row["repository"], row["path"]): row for row in csv.DictReader(table)}
    if asked.keep is not None:
        asked.keep.mkdir(parents=True, exist_ok=True)
        (asked.keep / "compile.sh").write_text(COMPILE)
    unlike = 0
    try:
        for number, row in enumerate(rows, 1):
            key = row["repository"], row["path"]
            found = known.get(key)
            wanted = [field for field, is_asked in (("nvcc", asked.nvcc), ("prints", asked.run)) if is_asked]
            if found is None or asked.keep is not None or (found["translates"] == "yes" and any(not found[field] for field in wanted)):
                source = asked.checkouts / row["repository"] / row["path"]
                found = known[key] = try_program(row, source, asked.tool, nvcc, asked.keep, runs=asked.run, shows=asked.show)
                with asked.table.open("w", newline="") as table:
                    writer = csv.DictWriter(table, FIELDS, lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(known[each] for each in sorted(known))
            as_listed = (found["translates"] == "yes") == (row["outcome"] != "refused") and found["nvcc"] != "no"
            as_listed = as_listed and (row["outcome"] != "same" or found["prints"] in ("", "same"))
            unlike += not as_listed
            mark = "" if as_listed else " UNLIKE THE LIST"
            what = f"translates {found['translates']}, nvcc {found['nvcc'] or '-'}, prints {found['prints'] or '-'} {found['reason']}{mark}"
            print(f"{number} of {len(rows)}: {'/'.join(key)}: {what}", flush=True)
    except KeyboardInterrupt:
        print(f"stopped: the same command continues from {asked.table}", file=sys.stderr)
        return 130
    if asked.record:
        record(known)
    translated = [found for found in known.values() if found["translates"] == "yes"]
    compiled = [found for found in translated if found["nvcc"] in ("PTX", "object")]
    print(f"{len(rows)} programs: {unlike} unlike the list; in the table {len(translated)} translate, "
          f"nvcc compiles {len(compiled)}, {sum(found['prints'] == 'same' for found in translated)} print what they print under Open MPI")
    return 1 if unlike else 0


if __name__ == "__main__":
    sys.exit(main())
