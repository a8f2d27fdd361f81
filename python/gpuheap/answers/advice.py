"""`gpuheap advise`: which allocator for a pattern, from measured rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuheap.answers.between import interpolated, neighbours
from gpuheap.answers.measured import Measured
from gpuheap.answers.views import PointId, point_words
from gpuheap.catalogue import TOOLKIT
from gpuheap.errors import UserError
from gpuheap.formats.protocol import FAILING, Allocator
from gpuheap.formats.results import Row
from gpuheap.judging.advised import GRANULARITIES, MEMORIES, REUSES, Recommendation
from gpuheap.judging.evidence import axis_number, fields_of
from gpuheap.units import format_bytes, format_count, parse_bytes

NEAR = 4.0  # a measured number of threads or size also stands for numbers and sizes that differ from it by at most this factor
TIGHT_UTILISATION = 0.9  # the share of the heap that an allocator must be able to use where memory is tight
LACKING_ROWS = {"thread": "gpuheap bench gallatin/alloc_single gallatin/alloc_mixed", "warp": "gpuheap bench survey/alloc_warp"}
LACKING_UTILISATION = "gpuheap bench survey/utilisation"


@dataclass(frozen=True)
class Pattern:
    """How a program allocates."""

    low_bytes: int
    high_bytes: int
    threads: int
    granularity: str  # thread: every thread; warp: one lane of each warp
    reuse: str  # the sizes that freed memory must serve: cross-size, same-size or none
    memory: str  # tight, ample

    @property
    def words(self) -> str:
        sizes = format_bytes(self.low_bytes)
        if self.high_bytes != self.low_bytes:
            sizes += f" to {format_bytes(self.high_bytes)}"
        who = "each thread allocates" if self.granularity == "thread" else "one lane of each warp allocates"
        kept = {"cross-size": "freed memory serves other sizes", "same-size": "freed memory serves its size", "none": "nothing is freed"}
        return f"{sizes}, {format_count(self.threads)} threads, {who}, {kept[self.reuse]}, {self.memory} memory"


@dataclass(frozen=True)
class Used:
    """A point that the answer was computed from."""

    suite: str
    case: str
    point: PointId
    metrics: tuple[str, ...]
    between: tuple[int, int] | None = None  # the two measured sizes between which it was interpolated; None for a measured point

    @property
    def words(self) -> str:
        said = f"{self.suite}/{self.case}, {point_words(self.point)}: {', '.join(self.metrics)}"
        if self.between is None:
            return said
        return f"{said}; interpolated between {format_bytes(self.between[0])} and {format_bytes(self.between[1])}"


@dataclass(frozen=True)
class Candidate:
    allocator: str
    times: float  # the geometric mean, over the points, of the allocator's time divided by the best allocator's time
    malloc_us: float  # median over the points
    free_us: float | None  # None where nothing is freed
    utilisation: float | None  # the smallest share of the heap that it could use at these sizes; None if memory is ample or it was not measured
    points: int = 1  # the number of points at which it was measured
    over_cuda: float | None = None  # the geometric mean of CUDA's time divided by its own, over the points that both have; None without such a point


@dataclass(frozen=True)
class Advice:
    pattern: Pattern
    device: str
    ranked: tuple[Candidate, ...]  # the best first
    compared: Candidate | None  # CUDA's malloc; None if `ranked` has it or is empty, or if CUDA's malloc has no time at a near point
    set_aside: tuple[tuple[str, str], ...]  # (allocator, reason)
    used: tuple[Used, ...]
    to_run: tuple[str, ...]  # commands that measure the missing rows
    recommendations: tuple[Recommendation, ...]  # the papers' recommendations that fit the pattern, the most specific first


def read_pattern(sizes: str, threads: str, granularity: str, reuse: str, memory: str) -> Pattern:
    """Reads a pattern from the options' texts. Raises a UserError that names the option."""
    ends = sizes.split(":")
    if len(ends) > 2:
        raise UserError(f"--sizes: '{sizes}' is not a size or a range: write one size, or the smallest and the largest, as 16:64")
    try:
        low, high = parse_bytes(ends[0], "--sizes"), parse_bytes(ends[-1], "--sizes")
    except UserError as error:
        raise UserError(f"{error}; a range has a colon, as 16:64") from None
    if low > high:
        raise UserError(f"--sizes: {low} is larger than {high}: write the smaller size first")
    try:
        count = float(threads.replace(",", "").replace("_", ""))
    except ValueError:
        count = math.nan
    if not math.isfinite(count) or count < 1 or not count.is_integer():
        raise UserError(f"--threads: '{threads}' is not a number of threads: write one, as 1000000 or 1e6")
    for option, value, known in (("--granularity", granularity, GRANULARITIES), ("--reuse", reuse, REUSES), ("--memory", memory, MEMORIES)):
        if value not in known:
            raise UserError(f"{option}: '{value}' is not one of {', '.join(known)}")
    return Pattern(low, high, int(count), granularity, reuse, memory)


def advise_on(
    pattern: Pattern, measured: Measured, allocators: Mapping[str, Allocator], recommendations: Iterable[Recommendation]
) -> Advice:
    """Ranks the measured allocators for a pattern.

    `allocators` gives each allocator's traits by its name. Without rows near the pattern nothing is ranked, and `to_run` has the command that
    measures such rows.
    """
    fitting = [
        one
        for one in recommendations
        if one.fits(pattern.low_bytes, pattern.high_bytes, pattern.granularity, pattern.reuse, pattern.memory)
    ]
    fitting.sort(key=lambda one: -one.narrowness)
    metrics = ("malloc_us",) if pattern.reuse == "none" else ("malloc_us", "free_us")
    points, between = _points(pattern, measured.rows)
    cuda_times = _cuda_times(points, metrics)
    aside: dict[str, str] = {}
    times: dict[str, dict[tuple[str, str, PointId], tuple[float, float]]] = {}
    for place, rows in points.items():
        for row in rows:
            name = row.allocator
            why = _why_not(pattern, allocators.get(name), name)
            if why is None:
                continue  # a baseline of the benchmark, which is no allocator
            if why:
                aside.setdefault(name, why)
            elif row.status != "ok":
                aside.setdefault(name, f"{row.status} at {point_words(place[2])}{': ' + row.reason if row.reason else ''}")
            elif row.metric == "failed_requests" and row.statistics is not None and row.statistics.median > 0:
                aside.setdefault(name, f"requests failed at {point_words(place[2])}")
            elif row.metric in metrics and row.statistics is not None:
                malloc, free = times.setdefault(name, {}).get(place, (math.nan, 0.0))
                value = row.statistics.median
                times[name][place] = (value, free) if row.metric == "malloc_us" else (malloc, value)
    to_run: list[str] = [] if points else [LACKING_ROWS[pattern.granularity]]
    utilisation: dict[str, float] = {}
    used = [Used(*place, metrics, between.get(place)) for place in points]
    if pattern.memory == "tight":
        utilisation, places = _utilisation(pattern, measured.rows)
        used += [Used(*place, ("utilisation",)) for place in places]
        if any(name not in utilisation for name in times if name not in aside):
            to_run.append(LACKING_UTILISATION)
        if places:
            for name in times:
                if name not in utilisation:
                    aside.setdefault(name, "its utilisation was not measured")
                elif utilisation[name] == 0:
                    aside.setdefault(name, "filling its heap timed out, crashed or gave a wrong result")
                elif utilisation[name] < TIGHT_UTILISATION:
                    asked = f"a tight heap needs {TIGHT_UTILISATION:.0%}"
                    aside.setdefault(name, f"fills {utilisation[name]:.0%} of its heap; {asked}")
    fit = {name: found for name, found in times.items() if name not in aside}
    cuda = cuda_times if fit else {}
    ranked = _ranked(fit, fit, pattern, utilisation, cuda)
    compared = _ranked({TOOLKIT: cuda}, fit, pattern, {}, cuda)[0] if cuda and TOOLKIT not in fit else None
    return Advice(pattern, measured.device, ranked, compared, tuple(sorted(aside.items())), tuple(used), tuple(to_run), tuple(fitting))


Times = Mapping[tuple[str, str, PointId], tuple[float, float]]  # the times of malloc and of free in microseconds, by point


def _ranked(
    times: Mapping[str, Times], rivals: Mapping[str, Times], pattern: Pattern, utilisation: Mapping[str, float], cuda: Times
) -> tuple[Candidate, ...]:
    """Ranks the allocators. One that lacks a point is ranked by the points that it has."""
    best = {place: min(sum(found[place]) for found in rivals.values() if place in found) for found in rivals.values() for place in found}
    ranked = [
        Candidate(
            allocator=name,
            times=_mean([sum(pair) / best[place] for place, pair in found.items() if best.get(place, 0) > 0]) or 1.0,
            malloc_us=statistics.median(malloc for malloc, _ in found.values()),
            free_us=None if pattern.reuse == "none" else statistics.median(free for _, free in found.values()),
            utilisation=utilisation.get(name),
            points=len(found),
            over_cuda=_mean([sum(cuda[place]) / sum(pair) for place, pair in found.items() if place in cuda and sum(pair) > 0]),
        )
        for name, found in times.items()
    ]
    return tuple(sorted(ranked, key=lambda one: (one.times, one.allocator)))


def _mean(ratios: Sequence[float]) -> float | None:
    """The geometric mean of the positive values; None if there are none."""
    positive = [ratio for ratio in ratios if ratio > 0]
    return statistics.geometric_mean(positive) if positive else None


def _cuda_times(points: Mapping[tuple[str, str, PointId], Sequence[Row]], metrics: Sequence[str]) -> Times:
    """The times of CUDA's malloc at the points that it finished, whether it fits the pattern or not."""
    found: dict[tuple[str, str, PointId], tuple[float, float]] = {}
    for place, rows in points.items():
        values = {row.metric: row.statistics.median for row in rows if row.allocator == TOOLKIT and row.ok and row.statistics is not None}
        if all(metric in values for metric in metrics):
            found[place] = (values["malloc_us"], values["free_us"] if "free_us" in metrics else 0.0)
    return found


def _why_not(pattern: Pattern, traits: Allocator | None, name: str) -> str | None:
    """The reason why an allocator's traits rule it out; "" if they do not; None for a baseline, which is no allocator."""
    if traits is None:
        return None if name in ("store_only", "bump_sharded") else "its traits are not known here: build the benchmark executable"
    if traits.overwrites:
        return "overwrites live memory, by design"
    if traits.warp_level and pattern.granularity == "thread":
        return "each warp has memory of its own"
    if pattern.reuse != "none" and traits.free != "individually":
        return "never gives memory back" if traits.free == "never" else "frees a warp's memory all at once only"
    if pattern.reuse == "cross-size" and not traits.full_reuse:
        return f"freed memory does not serve every size again{': ' + traits.reuse if traits.reuse else ''}"
    return ""


def _points(
    pattern: Pattern, rows: Sequence[Row]
) -> tuple[dict[tuple[str, str, PointId], list[Row]], dict[tuple[str, str, PointId], tuple[int, int]]]:
    """The rows near the pattern, by suite, case and point. For each case, they come from the one suite that measured the most allocators.

    The second result has, for each interpolated point, the two measured sizes between which it lies.
    """
    found: dict[tuple[str, str, PointId], list[Row]] = {}
    between: dict[tuple[str, str, PointId], tuple[int, int]] = {}
    cases = ("alloc_warp",) if pattern.granularity == "warp" else ("alloc_single", "alloc_mixed")
    for case in cases:
        by_suite: dict[str, list[Row]] = {}
        for row in rows:
            if row.case == case and row.threads is not None and row.bytes is not None:
                by_suite.setdefault(row.suite, []).append(row)
        chosen: list[Row] = []
        sizes: tuple[int, int] | None = None
        for of_suite in by_suite.values():
            near, ends = _near(pattern, case, of_suite)
            if (_breadth(near), len(near)) > (_breadth(chosen), len(chosen)):
                chosen, sizes = near, ends
        for row in chosen:
            place = (row.suite, row.case, (row.threads, row.bytes, row.key[6]))
            found.setdefault(place, []).append(row)
            if sizes is not None:
                between[place] = sizes
    return found, between


def _breadth(rows: Sequence[Row]) -> int:
    return len({row.allocator for row in rows})


def _near(pattern: Pattern, case: str, rows: Sequence[Row]) -> tuple[list[Row], tuple[int, int] | None]:
    """The rows at the nearest measured number of threads and at the pattern's sizes.

    If no measured size is in the pattern, the rows are interpolated between the two measured sizes around it. The second result is this pair of sizes; it is
    None without interpolation.
    """
    threads = _nearest(pattern.threads, {row.threads for row in rows if row.threads is not None})
    rows = [row for row in rows if row.threads == threads]
    sizes = {row.bytes for row in rows if row.bytes is not None}
    if case == "alloc_mixed":
        # alloc_mixed draws sizes from 4 or 16 bytes up to the row's size, so it answers only where the largest size is twice the smallest or more.
        if pattern.low_bytes * 2 > pattern.high_bytes:
            return [], None
        wanted: set[int | None] = {size for size in sizes if size == pattern.high_bytes}
        middle = pattern.high_bytes
    else:
        wanted = {size for size in sizes if pattern.low_bytes <= size <= pattern.high_bytes}
        middle = round(math.sqrt(pattern.low_bytes * pattern.high_bytes))
    ends = None if wanted else neighbours(middle, sizes)
    if ends is not None and all(1 / NEAR <= end / middle <= NEAR for end in ends):
        rows = interpolated(rows, middle, *ends)
    else:
        ends = None
        wanted |= set() if wanted else {_nearest(middle, sizes)}
        rows = [row for row in rows if row.bytes in wanted]
    states = {row.parameters.get("state", "") for row in rows}
    preferred = "cold" if pattern.reuse == "none" else "warm"
    return [row for row in rows if row.parameters.get("state", "") == preferred] if preferred in states else rows, ends


def _nearest(wanted: float, values: Iterable[int]) -> int | None:
    """The measured value nearest in ratio; None if all differ by more than the factor NEAR."""
    nearest = min(values, key=lambda value: abs(math.log(value / wanted)), default=None)
    return nearest if nearest is not None and 1 / NEAR <= nearest / wanted <= NEAR else None


def _utilisation(pattern: Pattern, rows: Sequence[Row]) -> tuple[dict[str, float], list[tuple[str, str, PointId]]]:
    """The smallest utilisation of each allocator at the pattern's sizes, and the points that it comes from.

    The rows are those of the largest heap in the suite that measured the most allocators. An allocator that timed out, crashed or gave a wrong
    result has the utilisation 0.
    """
    by_suite: dict[str, list[Row]] = {}
    for row in rows:
        usual = fields_of(row).get("dist", "equal") == "equal"
        if row.case == "utilisation" and row.bytes is not None and usual and row.metric in ("utilisation", ""):
            by_suite.setdefault(row.suite, []).append(row)
    chosen: list[Row] = []
    for of_suite in by_suite.values():
        heaps = [axis_number(row.parameters.get("heap", "")) or 0.0 for row in of_suite]
        of_suite = [row for row, heap in zip(of_suite, heaps, strict=True) if heap == max(heaps)]
        sizes = {row.bytes for row in of_suite if row.bytes is not None}
        wanted: set[int | None] = {size for size in sizes if pattern.low_bytes <= size <= pattern.high_bytes}
        wanted |= set() if wanted else {_nearest(math.sqrt(pattern.low_bytes * pattern.high_bytes), sizes)}
        near = [row for row in of_suite if row.bytes in wanted]
        if (_breadth(near), len(near)) > (_breadth(chosen), len(chosen)):
            chosen = near
    least: dict[str, float] = {}
    for row in chosen:
        value = row.statistics.median if row.ok and row.statistics is not None else 0.0 if row.status in FAILING else None
        if value is not None:
            least[row.allocator] = min(value, least.get(row.allocator, math.inf))
    places = dict.fromkeys((row.suite, row.case, (row.threads, row.bytes, row.key[6])) for row in chosen)
    return least, list(places)
