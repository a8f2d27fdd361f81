"""`gpuheap advise`: which allocator for a pattern, from measured rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuheap.answers.measured import Measured
from gpuheap.answers.views import PointId, point_words
from gpuheap.claims.advised import GRANULARITIES, MEMORIES, REUSES, Recommendation
from gpuheap.claims.evidence import axis_number, fields_of
from gpuheap.errors import UserError
from gpuheap.formats.protocol import FAILING, Allocator
from gpuheap.formats.results import Row
from gpuheap.units import format_bytes, format_count, parse_bytes

NEAR = 4.0  # how many times off a measured number of threads, or a size, may be and still answer
TIGHT_UTILISATION = 0.9  # of the heap, that an allocator must reach where memory is tight
LACKING_ROWS = {"thread": "gpuheap bench gallatin/alloc_single gallatin/alloc_mixed", "warp": "gpuheap bench survey/alloc_warp"}
LACKING_UTILISATION = "gpuheap bench survey/utilisation"


@dataclass(frozen=True)
class Pattern:
    """How a program allocates."""

    low_bytes: int
    high_bytes: int
    threads: int
    granularity: str  # thread: every thread; warp: one lane of each warp
    reuse: str  # what freed memory must serve: cross-size, same-size, none
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

    @property
    def words(self) -> str:
        return f"{self.suite}/{self.case}, {point_words(self.point)}: {', '.join(self.metrics)}"


@dataclass(frozen=True)
class Candidate:
    allocator: str
    times: float  # its time over the best one's at each point, in the geometric mean
    malloc_us: float  # median over the points
    free_us: float | None  # None where nothing is freed
    utilisation: float | None  # the least at these sizes; None if not asked for


@dataclass(frozen=True)
class Advice:
    pattern: Pattern
    device: str
    ranked: tuple[Candidate, ...]  # the best first
    set_aside: tuple[tuple[str, str], ...]  # allocator, why
    used: tuple[Used, ...]
    to_run: tuple[str, ...]  # commands that measure what is lacking
    recommendations: tuple[Recommendation, ...]  # of the papers, the most specific first


def read_pattern(sizes: str, threads: str, granularity: str, reuse: str, memory: str) -> Pattern:
    """From the options' texts. Raises UserError that names the option."""
    ends = sizes.split(":")
    if len(ends) > 2:
        raise UserError(f"--sizes: '{sizes}' is no range: write one size, or the least and the largest, like 16:64")
    low, high = parse_bytes(ends[0], "--sizes"), parse_bytes(ends[-1], "--sizes")
    if low > high:
        raise UserError(f"--sizes: {low} is more than {high}: write the least size first")
    try:
        count = float(threads.replace(",", "").replace("_", ""))
    except ValueError:
        count = math.nan
    if not math.isfinite(count) or count < 1 or not count.is_integer():
        raise UserError(f"--threads: '{threads}' is no number of threads: write 1000000 or 1e6")
    for option, value, known in (("--granularity", granularity, GRANULARITIES), ("--reuse", reuse, REUSES), ("--memory", memory, MEMORIES)):
        if value not in known:
            raise UserError(f"{option}: '{value}' is not one of {', '.join(known)}")
    return Pattern(low, high, int(count), granularity, reuse, memory)


def advise_on(
    pattern: Pattern, measured: Measured, allocators: Mapping[str, Allocator], recommendations: Iterable[Recommendation]
) -> Advice:
    """`allocators`: the traits by name. Without rows near the pattern nothing is ranked, and `to_run` says what to measure."""
    fitting = [
        one
        for one in recommendations
        if one.fits(pattern.low_bytes, pattern.high_bytes, pattern.granularity, pattern.reuse, pattern.memory)
    ]
    fitting.sort(key=lambda one: -one.narrowness)
    metrics = ("malloc_us",) if pattern.reuse == "none" else ("malloc_us", "free_us")
    points = _points(pattern, measured.rows)
    aside: dict[str, str] = {}
    times: dict[str, dict[tuple[str, str, PointId], tuple[float, float]]] = {}
    for place, rows in points.items():
        for row in rows:
            name = row.allocator
            why = _why_not(pattern, allocators.get(name), name)
            if why is None:
                continue  # a baseline
            if why:
                aside.setdefault(name, why)
            elif row.status != "ok":
                aside.setdefault(name, f"{row.status} at {point_words(place[2])}{': ' + row.reason if row.reason else ''}")
            elif row.metric == "nulls" and row.statistics is not None and row.statistics.median > 0:
                aside.setdefault(name, f"requests failed at {point_words(place[2])}")
            elif row.metric in metrics and row.statistics is not None:
                malloc, free = times.setdefault(name, {}).get(place, (math.nan, 0.0))
                value = row.statistics.median
                times[name][place] = (value, free) if row.metric == "malloc_us" else (malloc, value)
    to_run: list[str] = [] if points else [LACKING_ROWS[pattern.granularity]]
    utilisation: dict[str, float] = {}
    used = [Used(*place, metrics) for place in points]
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
                    aside.setdefault(name, "filling its heap came to no end")
                elif utilisation[name] < TIGHT_UTILISATION:
                    asked = f"{TIGHT_UTILISATION:.0%} are asked for where memory is tight"
                    aside.setdefault(name, f"fills {utilisation[name]:.0%} of its heap; {asked}")
    for name, found in times.items():
        if len(found) < len(points):
            aside.setdefault(name, f"has {len(found)} of {len(points)} points")
    ranked = _ranked({name: found for name, found in times.items() if name not in aside}, pattern, utilisation)
    return Advice(pattern, measured.device, ranked, tuple(sorted(aside.items())), tuple(used), tuple(to_run), tuple(fitting))


def _ranked(
    times: Mapping[str, Mapping[tuple[str, str, PointId], tuple[float, float]]], pattern: Pattern, utilisation: Mapping[str, float]
) -> tuple[Candidate, ...]:
    places = {place for found in times.values() for place in found}
    best = {place: min(sum(found[place]) for found in times.values()) for place in places}
    ranked = [
        Candidate(
            allocator=name,
            times=statistics.geometric_mean([sum(pair) / best[place] if best[place] > 0 else 1.0 for place, pair in found.items()]),
            malloc_us=statistics.median(malloc for malloc, _ in found.values()),
            free_us=None if pattern.reuse == "none" else statistics.median(free for _, free in found.values()),
            utilisation=utilisation.get(name),
        )
        for name, found in times.items()
    ]
    return tuple(sorted(ranked, key=lambda one: (one.times, one.allocator)))


def _why_not(pattern: Pattern, traits: Allocator | None, name: str) -> str | None:
    """Why an allocator's traits rule it out, "" if they do not; None for what is no allocator."""
    if traits is None:
        return None if name in ("store_only", "bump_sharded") else "its traits are not known here: build the benchmark executable"
    if traits.overwrites:
        return "overwrites live memory, by design"
    if traits.warp_level and pattern.granularity == "thread":
        return "its memory is a warp's"
    if pattern.reuse != "none" and traits.free != "individually":
        return "never gives memory back" if traits.free == "never" else "gives back all of a warp's memory at once only"
    if pattern.reuse == "cross-size" and not traits.full_reuse:
        return f"freed memory does not serve every size again{': ' + traits.reuse if traits.reuse else ''}"
    return ""


def _points(pattern: Pattern, rows: Sequence[Row]) -> dict[tuple[str, str, PointId], list[Row]]:
    """The rows near the pattern, by suite, case and point: of each case those of the one suite that knows most allocators."""
    found: dict[tuple[str, str, PointId], list[Row]] = {}
    cases = ("alloc_warp",) if pattern.granularity == "warp" else ("alloc_single", "alloc_mixed")
    for case in cases:
        by_suite: dict[str, list[Row]] = {}
        for row in rows:
            if row.case == case and row.threads is not None and row.bytes is not None:
                by_suite.setdefault(row.suite, []).append(row)
        chosen: list[Row] = []
        for of_suite in by_suite.values():
            near = _near(pattern, case, of_suite)
            if (_breadth(near), len(near)) > (_breadth(chosen), len(chosen)):
                chosen = near
        for row in chosen:
            found.setdefault((row.suite, row.case, (row.threads, row.bytes, row.key[6])), []).append(row)
    return found


def _breadth(rows: Sequence[Row]) -> int:
    return len({row.allocator for row in rows})


def _near(pattern: Pattern, case: str, rows: Sequence[Row]) -> list[Row]:
    """Rows at the measured number of threads, and the sizes, that are nearest."""
    threads = _nearest(pattern.threads, {row.threads for row in rows if row.threads is not None})
    rows = [row for row in rows if row.threads == threads]
    sizes = {row.bytes for row in rows if row.bytes is not None}
    if case == "alloc_mixed":
        # From 4 or 16 bytes up to the row's size: that of a program that asks for sizes up to its largest.
        if pattern.low_bytes * 2 > pattern.high_bytes:
            return []
        wanted = {_nearest(pattern.high_bytes, sizes)}
    else:
        wanted = {size for size in sizes if pattern.low_bytes <= size <= pattern.high_bytes}
        wanted |= set() if wanted else {_nearest(math.sqrt(pattern.low_bytes * pattern.high_bytes), sizes)}
    rows = [row for row in rows if row.bytes in wanted]
    states = {row.parameters.get("state", "") for row in rows}
    preferred = "cold" if pattern.reuse == "none" else "warm"
    return [row for row in rows if row.parameters.get("state", "") == preferred] if preferred in states else rows


def _nearest(wanted: float, values: Iterable[int]) -> int | None:
    """The value nearest in ratio; None if all are too far away to answer."""
    nearest = min(values, key=lambda value: abs(math.log(value / wanted)), default=None)
    return nearest if nearest is not None and 1 / NEAR <= nearest / wanted <= NEAR else None


def _utilisation(pattern: Pattern, rows: Sequence[Row]) -> tuple[dict[str, float], list[tuple[str, str, PointId]]]:
    """The least utilisation of each allocator at the pattern's sizes, in the largest heap of the suite that knows most allocators.

    0 of one that timed out, crashed or was wrong.
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
