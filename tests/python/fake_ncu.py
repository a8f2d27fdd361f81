#!/usr/bin/env python3
"""Stands for Nsight Compute where there is none: runs the program that it is told to profile, keeps in the report which metrics were asked for, and prints them
as the CSV of the raw page: a row of names, a row of units, a row for each launch. Numbers that it prints are those of `VALUES`.

FAKE_NCU=forbidden: it may not read counters; silent: it profiles nothing; lacking: this GPU has none of the metrics of caches; garbled: its table is cut
short; deaf: it profiles every kernel, whatever it was told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FIXED = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC")
KERNELS = ("_Z7add_onePjPKjj", "_Z5scalePjPKjj")
# Of each kernel; the unit as it is printed with --print-units base.
VALUES = {
    "gpu__time_duration.sum": ("ns", "2,000", "6,000"),
    "l1tex__t_sector_hit_rate.pct": ("%", "95.5", "97.5"),
    "lts__t_sector_hit_rate.pct": ("%", "91", "99"),
    "launch__shared_mem_per_block_static": ("byte/block", "0", "4,096"),
    "launch__shared_mem_per_block_dynamic": ("byte/block", "0", "0"),
    "memory_l2_theoretical_sectors_global": ("sector", "1,000", "3,000"),
    "memory_l2_theoretical_sectors_global_ideal": ("sector", "1,000", "2,000"),
    "l1tex__t_requests.sum": ("", "250", "750"),
    "memory_l1_wavefronts_shared": ("", "0", "400"),
    "memory_l1_wavefronts_shared_ideal": ("", "0", "300"),
    "dram__bytes.sum": ("byte", "1,000,000", "3,000,000"),
    "smsp__warps_active.avg.per_cycle_active": ("warp", "8", "10"),
    "smsp__warps_eligible.avg.per_cycle_active": ("warp", "0.8", "0.2"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": ("inst", "12.5", "20"),
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": ("inst", "1.5", "2"),
}


def row(cells: tuple[str, ...]) -> str:
    return ",".join(f'"{cell}"' for cell in cells)


def printed(metrics: list[str], kernel: str = "") -> str:
    lacking = os.environ.get("FAKE_NCU") == "lacking"
    values = [(name, VALUES.get(name, ("", "n/a", "n/a"))) for name in metrics]
    values = [(name, ("", "n/a", "n/a")) if lacking and name.startswith(("l1tex", "lts")) else (name, value) for name, value in values]
    lines = ["==PROF== Connected to process 4711", row((*FIXED, *(name for name, _ in values))), row(("",) * len(FIXED) + tuple(v[0] for _, v in values))]
    for number, name in enumerate(KERNELS * 2):
        if f"{len(kernel)}{kernel}" in name or not kernel or os.environ.get("FAKE_NCU") == "deaf":
            cells = (str(number), "4711", "app", "127.0.0.1", name, "1", "7", "(256, 1, 1)", "(4, 1, 1)", "0", "9.0")
            lines.append(row(cells + tuple(value[1 + number % 2] for _, value in values)))
    text = "\n".join(lines) + "\n"
    return text[: -len(lines[-1]) // 2] + '"\n' if os.environ.get("FAKE_NCU") == "garbled" else text


def main() -> int:
    arguments = sys.argv[1:]
    options: dict[str, str] = {}
    # Every option but this one has a value.
    while arguments and arguments[0].startswith("--"):
        name = arguments.pop(0)
        options[name] = "" if name in ("--force-overwrite", "--csv") else arguments.pop(0)
    if "--import" in options:
        assert options["--page"] == "raw" and "--csv" in options
        print(printed(*json.loads(Path(options["--import"]).read_text())), end="")
        return 0
    if os.environ.get("FAKE_NCU") == "forbidden":
        print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.")
        return 1
    code = subprocess.run(arguments).returncode
    if os.environ.get("FAKE_NCU") == "silent":
        print("==WARNING== No kernels were profiled.")
        return code
    kernel = options.get("--kernel-name", "")
    assert not kernel or options["--kernel-name-base"] == "function"
    if kernel and not any(f"{len(kernel)}{kernel}" in name for name in KERNELS):
        print("==WARNING== No kernels were profiled.")
        return code
    Path(options["--export"]).write_text(json.dumps([options["--metrics"].split(","), kernel]))
    return code


if __name__ == "__main__":
    sys.exit(main())
