"""Bounds on the value that a timed-out point would have had.

A point times out if its runs together take longer than its limit. The limit gives a lower bound on its value. A claim whose verdict depends on the
value itself is undecided.
"""

from __future__ import annotations

import math
import re

from gpuheap.formats.suites import FEWEST_RUNS
from gpuheap.metrics import METRICS

PART = 0.1  # a metric covers at least this share of a run's time: a run also makes, fills, checks and frees blocks
Bounds = tuple[float, float]  # the value lies between these, in the metric's unit

_EXPECTED = re.compile(r"(?:one run of (\d+) \w+ )?would take about ([\d.]+) s")  # a message of the executable (harness/pace.hpp, the graph cases)
_KILLED = re.compile(r"(?:within|after) (?:(\d+) h )?(?:(\d+) min ?)?(?:([\d.]+) s)?")  # a message of the runner, in the form of units.format_seconds
_LONGER = re.compile(r"longer than the ([\d.]+) s")  # a message of the executable
_SERVED = re.compile(r"(\d+) % of the heap were in blocks")  # a message of the case utilisation


def bounds_of(reason: str, metric: str) -> Bounds | None:
    """The bounds on the value of a point that timed out for this reason, in the metric's unit; None if nothing is known.

    The lower bound of a time is the share PART of a run's time.
    """
    if metric == "utilisation":
        served = _SERVED.search(reason)
        return (int(served[1]) / 100, 1.0) if served else None
    if metric not in METRICS or not METRICS[metric].is_time:
        return None
    seconds = _seconds_of_a_run(reason)
    scale = {"us": 1e6, "ms": 1e3}[METRICS[metric].unit]
    return (seconds * PART * scale, math.inf) if seconds else None


def limit_of(reason: str) -> float:
    """The limit that a point was given, in seconds; 0 if the reason does not say it."""
    told = _LONGER.search(reason)
    return float(told[1]) if told else _seconds_killed(reason)


def _seconds_of_a_run(reason: str) -> float:
    expected = _EXPECTED.search(reason)
    if expected:
        return float(expected[2]) / int(expected[1] or FEWEST_RUNS)
    return _seconds_killed(reason) / FEWEST_RUNS


def _seconds_killed(reason: str) -> float:
    killed = _KILLED.search(reason)
    hours, minutes, seconds = (float(part or 0) for part in killed.groups()) if killed else (0.0, 0.0, 0.0)
    return hours * 3600 + minutes * 60 + seconds
