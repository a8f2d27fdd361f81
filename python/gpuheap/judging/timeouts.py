"""Bounds on the value that a timed-out point would have had.

A point times out if its runs together take longer than its limit. So a run took at least a part of the limit, and a metric in which a run spends much of
its time has a lower bound. Other metrics have none: a run may free its blocks in a thousandth of the time in which it allocates them. A claim whose
verdict depends on the value itself is undecided.
"""

from __future__ import annotations

import math
import re

from gpuheap.formats.suites import FEWEST_RUNS
from gpuheap.metrics import METRICS

# The least share of a run's time that a metric covers, in cases whose runs do little else. Of the points that ran out of time in one table and have values
# in another, the least share was 0.45 for malloc_us, 0.66 for kernel_us and 0.024 for build_ms. In the other cases a metric is one kernel of many, or a mean
# over allocations or rounds; it covered down to 1e-7, as frees do.
PARTS = {
    **{(case, "malloc_us"): 0.1 for case in ("alloc_single", "alloc_warp", "alloc_mixed", "alloc_scaling", "alloc_bounded", "alloc_large")},
    ("work_generation", "kernel_us"): 0.1,
    **{(case, "build_ms"): 0.01 for case in ("graph_init", "kdtree", "kdtree_queue")},
}
LEAST_LIMIT_S = 10.0  # a point that does not finish within this limit counts as one that does not finish
Bounds = tuple[float, float]  # the value lies between these, in the metric's unit

_EXPECTED = re.compile(r"would take about ([\d.]+) s")  # a message of the executable (harness/pace.hpp)
_OF_TWO_RUNS = "one run of "  # a message about the run that warms up, after which a point needs another
_PROCESSES = re.compile(r"(\d+) of (\d+) runs, each in a process of its own")  # a message of the runner
_KILLED = re.compile(r"(?:within|after) (?:(\d+) h )?(?:(\d+) min ?)?(?:([\d.]+) s)?")  # a message of the runner, in the form of units.format_seconds
_LONGER = re.compile(r"longer than the ([\d.]+) s")  # a message of the executable
_SERVED = re.compile(r"(\d+) % of the heap were in blocks")  # a message of the case utilisation


def bounds_of(case: str, metric: str, reason: str) -> Bounds | None:
    """The bounds on the value of a point that timed out for this reason, in the metric's unit; None if nothing is known.

    The lower bound of a time is the share PARTS of a run's time.
    """
    if metric == "address_range_ratio":
        return (1.0, math.inf)  # a range is at least as long as the blocks in it
    if metric == "utilisation":
        served = _SERVED.search(reason)
        return (int(served[1]) / 100 if served else 0.0, 1.0)
    if (case, metric) not in PARTS:
        return None
    seconds = _seconds_of_a_run(reason)
    scale = {"us": 1e6, "ms": 1e3}[METRICS[metric].unit]
    return (seconds * PARTS[case, metric] * scale, math.inf) if seconds else None


def limit_of(reason: str) -> float:
    """The limit that a point was given, in seconds; 0 if the reason does not say it."""
    told = _LONGER.search(reason)
    return float(told[1]) if told else _seconds_killed(reason)


def needed_s(reason: str) -> float:
    """The seconds that a point would have needed to end, as its message lets expect; 0 if it does not."""
    expected = _EXPECTED.search(reason)
    if expected:
        return float(expected[1]) * (2 if reason.startswith(_OF_TWO_RUNS) else 1)
    runs = _PROCESSES.search(reason)
    return limit_of(reason) * int(runs[2]) / int(runs[1]) if runs and int(runs[1]) else 0.0


def _seconds_of_a_run(reason: str) -> float:
    expected = _EXPECTED.search(reason)
    return (float(expected[1]) if expected else _seconds_killed(reason)) / FEWEST_RUNS


def _seconds_killed(reason: str) -> float:
    killed = _KILLED.search(reason)
    hours, minutes, seconds = (float(part or 0) for part in killed.groups()) if killed else (0.0, 0.0, 0.0)
    return hours * 3600 + minutes * 60 + seconds
