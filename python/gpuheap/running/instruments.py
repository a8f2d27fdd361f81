"""Measures the points of suites whose programs are not timed: by the GPU's counters (Nsight Compute), or by the probe of the driver's allocators."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.formats.protocol import Measurement, PointResult
from gpuheap.host.advise import nsight
from gpuheap.host.probe.analyse import granularity_of, slot_of
from gpuheap.host.probe.series import KERNEL, LINES, Asked, Series
from gpuheap.metrics import METRICS
from gpuheap.running.children import Stopped
from gpuheap.running.program_runs import Ended, Seat, run_process
from gpuheap.units import format_seconds

MOST_LAUNCHES = 100  # the first launches of a kernel that are profiled: Nsight Compute repeats each of them several times
PROBE_REQUESTS = 24  # the most blocks of a series, which all live at the same time
PROBE_BUDGET_BYTES = 1 << 30


def need_profiler() -> str:
    """The path of Nsight Compute's command line. Raises UserError if it is not installed."""
    found = nsight.find_profiler()
    if found is None:
        raise UserError(
            "cache hit rates and coalescing are counters of the GPU, which Nsight Compute reads, and there is no `ncu` on PATH or in /usr/local/cuda/bin: "
            "install the CUDA toolkit's package nsight-compute, or name the other suites"
        )
    return found


def count_accesses(tool: str, words: Sequence[str], kernel: str, runs: int, limit_s: float, seat: Seat) -> PointResult:
    """Profiles a program `runs` times, each time the first launches of one kernel. Raises UserError if the GPU's counters may not be read."""
    samples: list[dict[str, float]] = []
    left_s = limit_s
    for _ in range(runs):
        result = _profile(tool, words, kernel, left_s, seat)
        if isinstance(result, PointResult):
            late = result.status == "timeout" and samples
            return PointResult("timeout", f"{len(samples)} of {runs} runs in {format_seconds(limit_s)}") if late else result
        found, seconds = result
        samples.append(found)
        left_s -= seconds
    names = [name for name in samples[0] if all(name in each for each in samples)]
    return PointResult("ok", "", tuple(_measured(name, [each[name] for each in samples]) for name in names))


def _profile(tool: str, words: Sequence[str], kernel: str, limit_s: float, seat: Seat) -> PointResult | tuple[dict[str, float], float]:
    """The counts of one run, with its seconds, or the reason why there are none."""
    seat.folder.mkdir(parents=True, exist_ok=True)
    report = seat.folder / "counters.ncu-rep"
    ended: list[Ended] = []

    def run(command: Sequence[str], environment: Mapping[str, str], log: Path) -> bool:
        ended.append(run_process(command, environment, limit_s, seat))
        log.write_text(ended[-1].output.decode(errors="replace") + ended[-1].errors, encoding="utf-8")
        return ended[-1].code is not None

    why = nsight.profile(tool, words, os.environ, report, nsight.ACCESSES, MOST_LAUNCHES, run, kernel)
    if nsight.FORBIDDEN in why:
        raise UserError(why)
    if ended[-1].code is None:
        return PointResult("timeout", f"killed after {format_seconds(limit_s)}")
    if why:
        return PointResult("unsupported", f"{kernel}: {why}")
    if ended[-1].code != 0:
        return PointResult("crash", f"{Path(tool).name}: {ended[-1].words}")
    launches, why = nsight.read_report(tool, report)
    if why:
        return PointResult("unsupported", f"{kernel}: {why}")
    others = {name for name, _ in launches if f"{len(kernel)}{kernel}" not in name}
    if others:
        return PointResult("crash", f"Nsight Compute was told to profile '{kernel}', and profiled {sorted(others)[0]}")
    found = nsight.accesses_of(launches)
    if "l1_hit_rate" not in found and "l2_hit_rate" not in found:
        return PointResult("unsupported", f"{kernel}: this GPU, or this version of Nsight Compute, has no metric of cache hits")
    return found, ended[-1].seconds


def _measured(name: str, values: Sequence[float]) -> Measurement:
    return Measurement(name, METRICS[name].unit, tuple(values))


def ask_driver(program: Path, allocator: str, size: int, runs: int, limit_s: float, seat: Seat) -> PointResult:
    """Requests `runs` blocks of `size` bytes. The blocks of a series, at most PROBE_REQUESTS, live until its last request. Each request is a run."""
    seat.folder.mkdir(parents=True, exist_ok=True)
    most = max(1, min(PROBE_REQUESTS, PROBE_BUDGET_BYTES // size))
    made: list[Series] = []
    late = threading.Event()

    def end() -> None:
        late.set()
        asked.end()

    try:
        with Asked(program, seat.folder / LINES, seat.variables) as asked:
            lacks = asked.machine.lacks.get(allocator)
            if lacks:
                return PointResult("unsupported", lacks)
            timer = threading.Timer(limit_s, end)
            timer.daemon = True
            timer.start()
            # Ends: each series makes at least one request, or the driver failed, or the timer ended the process, or `stop` is set.
            while (missing := runs - sum(len(each.request) for each in made)) > 0:
                if seat.stop.is_set():
                    raise Stopped
                made.append(asked.ask(allocator, size, min(missing, most)))
                if made[-1].error or 0 in made[-1].addresses:
                    return PointResult("crash", f"the driver gave no block of {size} bytes (error {made[-1].error})")
            timer.cancel()
    except UserError as error:
        return PointResult("timeout", f"killed after {format_seconds(limit_s)}") if late.is_set() else PointResult("crash", str(error))
    return PointResult("ok", "", tuple(_of_series(made)))


def _of_series(made: Sequence[Series]) -> list[Measurement]:
    def together(name: str, of: str, scale: float) -> list[Measurement]:
        values = [value / scale for each in made for value in getattr(each, of)]
        return [_measured(name, values)] if values else []

    cycles = made[0].allocator == KERNEL
    units, scale = ("cycles", 1.0) if cycles else ("us", 1e3)
    found = together(f"malloc_{units}", "request", scale) + together(f"free_{units}", "release", scale)
    found += together("first_kernel_us", "kernel", 1e3) + together("next_kernel_us", "again", 1e3)
    slots = [slot for each in made if (slot := slot_of(each)) is not None]
    granularity = granularity_of(address for each in made for address in each.addresses)
    found += [_measured("slot_bytes", [float(slot) for slot in slots])] if slots else []
    return found + ([_measured("granularity", [float(granularity)])] if granularity else [])
