"""The requests that each program of benchmarks/programs/ makes of the driver: by benchmarks/programs/counts.csv, and by a trace."""

from __future__ import annotations

import csv
from typing import Any

from host_tools import ROOT

from gpuheap.host.history import History

PROGRAMS = ROOT / "benchmarks" / "programs"


def _table() -> dict[str, dict[str, str]]:
    with (PROGRAMS / "counts.csv").open(newline="") as file:
        return {line["case"]: line for line in csv.DictReader(file)}


PAIRS = _table()


def counts_wanted(case: str) -> dict[str, int]:
    return {key: int(value) for key, value in PAIRS[case].items() if key not in ("case", "program", "input")}


def counts_of(history: History) -> dict[str, Any]:
    uploads, downloads = ([copy.bytes for copy in history.copies if copy.direction == way] for way in ("host to device", "device to host"))
    assert len(history.copies) == len(uploads) + len(downloads)
    return {
        "allocations": len(history.allocations), "frees": sum(1 for each in history.allocations if not each.leaked), "null_frees": history.null_frees,
        "uploads": len(uploads), "upload_bytes": sum(uploads), "downloads": len(downloads), "download_bytes": sum(downloads),
        "kernels": sum(launches.count for launches in history.launches.values()), "largest_copy": max(uploads + downloads),
        "never_freed_bytes": sum(leak.bytes for leak in history.leaks),
    }  # fmt: skip
