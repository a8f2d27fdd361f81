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
_WAVEFRONTS, _IDEAL_WAVEFRONTS = "memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal"
_REQUESTS, _DRAM = "l1tex__t_requests.sum", "dram__bytes.sum"
_ACTIVE, _ELIGIBLE = "smsp__warps_active.avg.per_cycle_active", "smsp__warps_eligible.avg.per_cycle_active"
METRICS = (DURATION, _L1, _L2, *_SHARED, _SECTORS, _IDEAL, _REQUESTS, _DRAM, _ACTIVE, _ELIGIBLE, *(_STALL.format(reason) for reason in _STALLS))
ACCESSES = (DURATION, _L1, _L2, _SECTORS, _IDEAL, _WAVEFRONTS, _IDEAL_WAVEFRONTS)  # cache hit rates and coalescing alone
FORBIDDEN = "ERR_NVGPUCTRPERM"  # the error that Nsight Compute prints if the driver refuses this user the counters
_PLACES = ("/usr/local/cuda/bin/ncu",)
_SCALE = {  # the factors from units to nanoseconds and bytes
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9,
    "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "kbyte/block": 1e3,
}  # fmt: skip

Launch = dict[str, float]  # the metrics of one launch that have a number
Runner = Callable[[Sequence[str], Mapping[str, str], Path], bool]  # runs a command line with its output to a file; False: it took too long


def find_profiler() -> str | None:
    return shutil.which("ncu") or next((place for place in _PLACES if os.access(place, os.X_OK)), None)


class Garbled(ValueError):
    """The profiler's table is incomplete, or has an unknown form."""


def profile(
    tool: str, words: Sequence[str], environment: Mapping[str, str], report: Path, metrics: Sequence[str], most_launches: int, run: Runner, kernel: str = ""
) -> str:
    """Makes `report` from the program's first launches; the tool's own output goes to a file beside it. Returns the reason if there is no report, else "".

    kernel: only launches of this function are profiled; if it is empty, launches of all functions.
    """
    log = report.with_suffix(".log")
    report.unlink(missing_ok=True)
    # If only times are wanted, the profiler leaves clocks and caches as they are, so that the times of modes are those of ordinary runs.
    undisturbed = ("--cache-control", "none", "--clock-control", "none") if list(metrics) == [DURATION] else ()
    command = [tool, "--target-processes", "all", "--force-overwrite", "--export", str(report), "--launch-count", str(most_launches), *undisturbed]
    chosen = ("--kernel-name-base", "function", "--kernel-name", kernel) if kernel else ()
    ended = run([*command, *chosen, "--metrics", ",".join(metrics), *words], environment, log)
    if report.is_file():
        return ""
    return "Nsight Compute exceeded the time limit" if not ended else failure_words(log.read_text(encoding="utf-8", errors="replace"))


def failure_words(log: str) -> str:
    if FORBIDDEN in log:
        how = "run as root, or have the driver loaded with NVreg_RestrictProfilingToAdminUsers=0"
        return f"Nsight Compute may not read the GPU's counters ({FORBIDDEN}): {how}"
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
    try:
        found = parse(answer.stdout)
    except Garbled as error:
        return [], f"Nsight Compute prints a table that gpuheap does not understand: {error}"
    return found, "" if found else failure_words(answer.stdout + answer.stderr)


def parse(text: str) -> list[tuple[str, Launch]]:
    """The launches of a raw page, each with its kernel's name; [] for a text without a table. Raises Garbled for a table that is cut short or odd."""
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        return []
    heads, *rows = csv.reader(line for line in lines[first:] if line.startswith('"'))
    if "Kernel Name" not in heads:
        raise Garbled("it has no column 'Kernel Name'")
    name_column = heads.index("Kernel Name")
    # The row of units is the one without an ID.
    units = next((row for row in rows if row and not row[0]), [""] * len(heads))
    found = []
    for row in rows:
        if len(row) != len(heads):
            raise Garbled(f"a row has {len(row)} cells below {len(heads)} heads")
        if not row[0]:
            continue
        launch = {}
        for head, unit, cell in zip(heads, units, row, strict=True):
            value = _number(head, cell) if head in METRICS or head in ACCESSES else None
            if value is not None:
                launch[head] = value * _SCALE.get(unit.lower(), 1.0)
        found.append((row[name_column], launch))
    return found


def _number(head: str, cell: str) -> float | None:
    if cell.lower() in ("", "n/a", "no data", "nan", "-nan", "inf"):  # this GPU or this version lacks the metric, or the metric divides by zero
        return None
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        raise Garbled(f"{head} is '{cell[:40]}', which is no number") from None


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


def accesses_of(launches: Sequence[tuple[str, Launch]]) -> dict[str, float]:
    """Cache hit rates, averaged over the launches with their times as weights. Also the accesses of a launch that better patterns would save, and their share.

    A metric that the GPU or the tool lacks is left out.
    """
    group = [launch for _, launch in launches]
    found: dict[str, float | None] = {"launches": float(len(group))}
    for name, key in (("l1_hit_rate", _L1), ("l2_hit_rate", _L2)):
        rate = _mean(group, key)
        found[name] = None if rate is None else rate / 100
    for name, all_of, ideal_of in (("excess_sector", _SECTORS, _IDEAL), ("excess_wavefront", _WAVEFRONTS, _IDEAL_WAVEFRONTS)):
        total, ideal = _total(group, all_of), _total(group, ideal_of)
        if total is not None and ideal is not None:
            excess = max(0.0, total - ideal)
            found |= {f"{name}s": excess / len(group), f"{name}_ratio": excess / total if total else 0.0}
    return {name: value for name, value in found.items() if value is not None}


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
