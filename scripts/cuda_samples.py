"""Counts the files of NVIDIA's public CUDA samples that nvcc compiles, and how many of these the rewriter reads.

    git clone https://github.com/NVIDIA/cuda-samples && git -C cuda-samples checkout COMMIT
    python scripts/cuda_samples.py cuda-samples --table build/cuda_samples.csv

nvcc compiles a file if it makes PTX from it, as C++20 for sm_90, with the samples' own folders of headers. The rewriter reads a file if it parses the file,
and compiles the rewritten text to LLVM's representation. An existing table is continued: the files in it are not tried again.

Exit codes: 0 at least 97 % are read, 1 fewer are read, 2 the script cannot run, 130 interrupted."""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOL = ROOT / "build" / "host" / "tools" / "coalesce" / "gpuheap-coalesce"
BOUND_PERCENT = 97
FIELDS = ["file", "nvcc", "rewriter", "reason"]


def includes(checkout: Path, file: Path) -> list[str]:
    """The folders of headers that the samples' own build uses: the shared folders, and those next to the source."""
    shared = [checkout / "Common", checkout / "Common" / "UtilNPP"]
    own = [
        file.parent,
        *(file.parent / name for name in ("inc", "include")),
        *(file.parent.parent / name for name in ("inc", "include")),
    ]
    return [f"-I{folder}" for folder in shared + own if folder.is_dir()]


def run(command: list[str], seconds: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)


def read_with_headers(tool: Path, file: Path, options: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs the rewriter on a file. If the rewriter asks for headers of the sample, because they allocate, runs it again with these."""
    named = [str(file)]
    while True:
        read = run([str(tool), "--quiet", *named, "--", *options], 600)
        wanted = [line.partition(":")[0] for line in read.stderr.splitlines() if "[E3]" in line]
        more = sorted({str(Path(header).resolve()) for header in wanted} - {str(Path(name).resolve()) for name in named})
        if read.returncode in (0, 1) or not more:
            return read
        named += more


def try_file(nvcc: str, tool: Path, checkout: Path, file: Path) -> dict[str, str]:
    """Compiles and rewrites a file, and returns its row of the table."""
    row = {
        "file": str(file.relative_to(checkout)),
        "nvcc": "no",
        "rewriter": "",
        "reason": "",
    }
    options = includes(checkout, file)
    try:
        made = run(
            [
                nvcc,
                "-std=c++20",
                "-arch=sm_90",
                "-w",
                "-ptx",
                "-rdc=true",
                "-Xcicc",
                "-O0",
                "-o",
                "/dev/null",
                *options,
                str(file),
            ],
            600,
        )
        if made.returncode != 0:
            row["reason"] = next(
                (line.strip() for line in made.stderr.splitlines() if "error" in line),
                "",
            )
            return row
        row["nvcc"] = "yes"
        read = read_with_headers(tool, file, options)
    except subprocess.TimeoutExpired:
        row["reason"] = "takes more than 10 minutes"
        return row
    row["rewriter"] = "yes" if read.returncode in (0, 1) else "no"
    if row["rewriter"] == "no":
        row["reason"] = next((line.strip() for line in read.stderr.splitlines() if "error" in line), "")
    row["reason"] = row["reason"].replace(f"{checkout}/", "")
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts the files of the CUDA samples that nvcc compiles, and how many of these the rewriter reads.")
    parser.add_argument(
        "checkout",
        type=Path,
        help="the folder of a checkout of https://github.com/NVIDIA/cuda-samples",
    )
    parser.add_argument(
        "--tool",
        type=Path,
        default=TOOL,
        help="the rewriter (default: that of the preset host)",
    )
    parser.add_argument(
        "--table",
        type=Path,
        default=ROOT / "build" / "cuda_samples.csv",
        help="the CSV file of the results, with a row for each file",
    )
    asked = parser.parse_args()
    files = sorted(asked.checkout.rglob("*.cu"))
    nvcc = shutil.which("nvcc")
    for missing, what in (
        (
            not files,
            f"{asked.checkout} has no .cu files: name the folder of a checkout of the CUDA samples",
        ),
        (
            nvcc is None,
            "nvcc is not found: install the CUDA toolkit, or put nvcc on PATH",
        ),
        (
            not asked.tool.exists(),
            f"{asked.tool} is not there: cmake --build --preset host --target gpuheap_coalesce",
        ),
    ):
        if missing:
            print(f"error: {what}", file=sys.stderr)
            return 2
    rows: dict[str, dict[str, str]] = {}
    if asked.table.exists():
        with asked.table.open(newline="") as table:
            rows = {row["file"]: row for row in csv.DictReader(table)}
    try:
        for number, file in enumerate(files, 1):
            name = str(file.relative_to(asked.checkout))
            if name not in rows:
                rows[name] = try_file(str(nvcc), asked.tool, asked.checkout, file)
                with asked.table.open("w", newline="") as table:
                    writer = csv.DictWriter(table, FIELDS, lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(rows[known] for known in sorted(rows))
            row = rows[name]
            print(
                f"{number} of {len(files)}: {name}: nvcc {row['nvcc']}, rewriter {row['rewriter'] or '-'} {row['reason']}".rstrip(),
                flush=True,
            )
    except KeyboardInterrupt:
        print(
            f"stopped after {len(rows)} of {len(files)} files: the same command continues from {asked.table}",
            file=sys.stderr,
        )
        return 130
    compiled = [row for row in rows.values() if row["nvcc"] == "yes"]
    read = [row for row in compiled if row["rewriter"] == "yes"]
    percent = 100 * len(read) / len(compiled) if compiled else 0.0
    print(f"{len(files)} files: nvcc compiles {len(compiled)}, and the rewriter reads {len(read)} of these: {percent:.1f} %")
    return 0 if percent >= BOUND_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())
