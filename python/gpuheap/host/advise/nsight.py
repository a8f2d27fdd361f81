"""Nsight Compute's metrics of a program's kernels.

Nsight Compute writes a report. Its raw page is read as CSV: a row of names, a row of units, and a row for each launch.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpuheap.host.advise.samples import Kernel

DURATION = "gpu__time_duration.sum"
_STALLS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle",
    "misc", "no_instruction", "not_selected", "short_scoreboard", "sleeping", "tex_throttle", "wait",
)  # fmt: skip
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_L1, _L2 = "l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct"
_SHARED = ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")
_SECTORS, _IDEAL = "memory_l2_theoretical_sectors_global", "memory_l2_theoretical_sectors_global_ideal"
_REQUESTS, _DRAM = "l1tex__t_requests.sum", "dram__bytes.sum"
_ACTIVE, _ELIGIBLE = "smsp__warps_active.avg.per_cycle_active", "smsp__warps_eligible.avg.per_cycle_active"
METRICS = (DURATION, _L1, _L2, *_SHARED, _SECTORS, _IDEAL, _REQUESTS, _DRAM, _ACTIVE, _ELIGIBLE, *(_STALL.format(reason) for reason in _STALLS))
_PLACES = ("/usr/local/cuda/bin/ncu",)
_SCALE = {  # the factors from units to nanoseconds and bytes
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9,
    "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "kbyte/block": 1e3,
}  # fmt: skip

Launch = dict[str, float]  # the metrics of one launch that have a number
Runner = Callable[[Sequence[str], Mapping[str, str], Path], bool]  # runs a command line with its output to a file; False: it took too long


def find_profiler() -> str | None:
    return shutil.which("ncu") or next((place for place in _PLACES if os.access(place, os.X_OK)), None)


def profile(tool: str, words: Sequence[str], environment: Mapping[str, str], report: Path, metrics: Sequence[str], most_launches: int, run: Runner) -> str:
    """Makes `report` from the program's first launches. The tool's output goes to a file next to it. Returns the reason if there is no report, else ""."""
    log = report.with_suffix(".log")
    report.unlink(missing_ok=True)
    # If only times are wanted, the profiler leaves clocks and caches as they are, so that the times of modes are those of ordinary runs.
    undisturbed = ("--cache-control", "none", "--clock-control", "none") if list(metrics) == [DURATION] else ()
    command = [tool, "--target-processes", "all", "--force-overwrite", "--export", str(report), "--launch-count", str(most_launches), *undisturbed]
    ended = run([*command, "--metrics", ",".join(metrics), *words], environment, log)
    if report.is_file():
        return ""
    return "Nsight Compute exceeded the time limit" if not ended else failure_words(log.read_text(encoding="utf-8", errors="replace"))


def failure_words(log: str) -> str:
    if "ERR_NVGPUCTRPERM" in log:
        how = "run as root, or have the driver loaded with NVreg_RestrictProfilingToAdminUsers=0"
        return f"Nsight Compute may not read the GPU's counters (ERR_NVGPUCTRPERM): {how}"
    said = re.findall(r"^==(?:ERROR|WARNING)==\s*(.+)$", log, re.MULTILINE)
    return f"Nsight Compute made no report: {said[-1].strip()}" if said else "Nsight Compute made no report and did not say why"


def read_report(tool: str, report: Path) -> tuple[list[tuple[str, Launch]], str]:
    """The launches in a report, each with its kernel's mangled name; and the reason if there are none."""
    command = [tool, "--import", str(report), "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "mangled"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"Nsight Compute does not print {report.name}: {error}"
    if answer.returncode != 0:
        return [], failure_words(answer.stdout + answer.stderr)
    found = parse(answer.stdout)
    return found, "" if found else failure_words(answer.stdout + answer.stderr)


def parse(text: str) -> list[tuple[str, Launch]]:
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        return []
    heads, *rows = csv.reader(line for line in lines[first:] if line.startswith('"'))
    if "Kernel Name" not in heads:
        return []
    name_column = heads.index("Kernel Name")
    # The row of units is the one without an ID.
    units = next((row for row in rows if row and not row[0]), [""] * len(heads))
    found = []
    for row in rows:
        if len(row) != len(heads) or not row[0]:
            continue
        launch = {}
        for head, unit, cell in zip(heads, units, row, strict=True):
            value = _number(cell) if head in METRICS else None
            if value is not None:
                launch[head] = value * _SCALE.get(unit.lower(), 1.0)
        found.append((row[name_column], launch))
    return found


def _number(cell: str) -> float | None:
    try:
        return float(cell.replace(",", ""))
    except ValueError:  # "n/a": this GPU or this version lacks the metric
        return None


def kernels_of(launches: Sequence[tuple[str, Launch]]) -> tuple[Kernel, ...]:
    """The metrics by kernel, the longest first. Rates are means over a kernel's launches, weighted by the launches' time. Counts are sums."""
    groups: dict[str, list[Launch]] = {}
    for name, launch in launches:
        groups.setdefault(name, []).append(launch)
    found = [_kernel(name, group) for name, group in groups.items()]
    return tuple(sorted(found, key=lambda each: (-(each.duration_ns or 0) * each.launches, each.name)))


def _kernel(name: str, group: list[Launch]) -> Kernel:
    shared = [each[_SHARED[0]] + each[_SHARED[1]] for each in group if all(key in each for key in _SHARED)]
    active, eligible = _mean(group, _ACTIVE), _mean(group, _ELIGIBLE)
    stalls = {reason: _mean(group, _STALL.format(reason)) for reason in _STALLS}
    rates = [None if rate is None else rate / 100 for rate in (_mean(group, _L1), _mean(group, _L2))]
    return Kernel(
        name=name,
        launches=len(group),
        duration_ns=_plain_mean(group, DURATION),
        l1_hit=rates[0],
        l2_hit=rates[1],
        shared_bytes=max(shared, default=None),
        sectors=_total(group, _SECTORS),
        ideal_sectors=_total(group, _IDEAL),
        l1_requests=_total(group, _REQUESTS),
        dram_bytes=_total(group, _DRAM),
        stalled=max(0.0, 1 - eligible / active) if active and eligible is not None else None,
        stalls={reason: value for reason, value in stalls.items() if value is not None},
    )


def times_of(launches: Sequence[tuple[str, Launch]]) -> dict[str, float]:
    """The mean time of a launch in nanoseconds, by kernel."""
    return {each.name: each.duration_ns for each in kernels_of(launches) if each.duration_ns is not None}


def _plain_mean(group: Sequence[Launch], key: str) -> float | None:
    known = [each[key] for each in group if key in each]
    return sum(known) / len(known) if known else None


def _mean(group: Sequence[Launch], key: str) -> float | None:
    known = [(each[key], each.get(DURATION, 1.0)) for each in group if key in each]
    weight = sum(w for _, w in known)
    return sum(value * w for value, w in known) / weight if weight > 0 else None


def _total(group: Sequence[Launch], key: str) -> float | None:
    known = [each[key] for each in group if key in each]
    return sum(known) if known else None
