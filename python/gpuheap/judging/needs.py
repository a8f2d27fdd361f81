"""Plans the points that open claims need, first those of the claims whose missing points take the least time. Each batch is ordered by allocator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuheap.formats.points import Point
from gpuheap.formats.results import Key, Row, point_key, split_parameter
from gpuheap.formats.suites import FEWEST_RUNS
from gpuheap.judging.evidence import Evidence, meets
from gpuheap.judging.judge import PUBLISHED, UNDECIDED, UNMEASURED, Judged, named
from gpuheap.judging.language import SAME, Claim, Side, Status
from gpuheap.judging.timeouts import LEAST_LIMIT_S, limit_of, needed_s
from gpuheap.running.plan import Plan, PlannedSweep

MORE_RUNS = 2  # the factor by which runs are increased at points whose noise leaves a claim undecided
MOST_RUNS = 200
MORE_TIME = 4  # the factor by which the time limit is increased at points whose time-out leaves a claim undecided
SLACK = 1.5  # the factor by which a limit exceeds the time that a point's message lets expect
LONGEST_TIMEOUT_S = 600.0
FIRST_BATCH = 64  # points; each further batch has twice as many

# The expected time of a point, in seconds.
UNKNOWN_S = 0.5  # no earlier build has measured the point
OVERHEAD_S = 0.2  # the heap and the data of a point
RESTART_S = 3.0  # a new process, after a time-out or a crash
PROCESS_S = 0.6  # a process for each run, with its heap
EARLY_SHARE = 0.2  # the share of the limit after which a point whose runs are far too slow has said so
UNTIMED_RUNS = 3  # the runs that warm up and check the memory
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class Needs:
    """The plan for open claims."""

    plan: Plan | None  # None: no point helps to decide a claim
    open_claims: int
    waiting: int  # claims that wait for points of the plan


def is_open(one: Judged) -> bool:
    """Whether more rows can change the verdict: the claim is not measured or undecided, or the values of single runs are missing or estimated."""
    return one.verdict == UNDECIDED or one.verdict != PUBLISHED and one.basis != "95 %"


def needs_of(plan: Plan, judged: Iterable[Judged], rows: Iterable[Row], earlier: Iterable[Row] = ()) -> Needs:
    """Makes the plan from the points of `plan`.

    `rows` are the rows of the same build, because rows of other builds do not count. `earlier` are rows of any build: they tell how long a
    point is expected to take.
    """
    places = _places(plan, _by_key(rows))
    opened = [one for one in judged if is_open(one)]
    wanted = [(one, found) for one in opened if (found := _wanted(plan, one, places))]
    known = _by_key(earlier)
    wanted.sort(key=lambda pair: sum(_expected_s(plan.sweeps[index], point, how, known) for (index, point), how in pair[1].items()))
    sweeps: list[PlannedSweep] = []
    planned: set[tuple[int, Point]] = set()
    for _, found in wanted:
        groups: dict[tuple[int, How], list[Point]] = {}
        for (index, point), how in found.items():
            if (index, point) not in planned:
                planned.add((index, point))
                groups.setdefault((index, how), []).append(point)
        sweeps += [_part(plan.sweeps[index], points, how) for (index, how), points in groups.items()]
    return Needs(Plan(tuple(_in_batches(sweeps)), plan.notes, plan.sweeps) if sweeps else None, len(opened), len(wanted))


def _by_key(rows: Iterable[Row]) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return found


def _expected_s(sweep: PlannedSweep, point: Point, how: How, known: Mapping[Key, Sequence[Row]]) -> float:
    """The seconds that the point is expected to take, the start of another process after a time-out or a crash included."""
    rows = known.get(_key_of(sweep, point), ())
    if not rows:
        return UNKNOWN_S
    if rows[0].status == "timeout":
        needed = needed_s(rows[0].reason)
        if not needed:
            return how.timeout_s + RESTART_S
        return OVERHEAD_S + (needed if needed <= how.timeout_s else EARLY_SHARE * how.timeout_s)
    if rows[0].status != "ok":
        return OVERHEAD_S if rows[0].status == "unsupported" else RESTART_S
    run_s = max((row.statistics.mean * SECONDS[row.unit] for row in rows if row.statistics is not None and row.unit in SECONDS), default=0.0)
    enough_s = sweep.case.enough_s
    runs = how.runs if how.why == "noisy" or not enough_s or run_s * how.runs <= enough_s else min(how.runs, FEWEST_RUNS)
    if sweep.first_runs:
        runs = how.runs if how.why == "noisy" or not enough_s else min(how.runs, FEWEST_RUNS)
        return runs * (PROCESS_S + run_s)
    return min(OVERHEAD_S + run_s * (runs + UNTIMED_RUNS), how.timeout_s + RESTART_S)


def _in_batches(sweeps: Iterable[PlannedSweep]) -> list[PlannedSweep]:
    """The sweeps in batches that grow. In each batch the sweeps of one allocator stand together, so that one process runs them.

    A start of CUDA takes longer than most points. So a batch begins with the allocator with which the batch before it ended.
    """
    batches: list[list[PlannedSweep]] = [[]]
    for sweep in sweeps:
        if sum(len(each.points) for each in batches[-1]) >= FIRST_BATCH << (len(batches) - 1):
            batches.append([])
        batches[-1].append(sweep)
    ordered: list[PlannedSweep] = []
    for batch in batches:
        last = (ordered[-1].executable.path, ordered[-1].allocator) if ordered else None
        groups: dict[tuple[Path, str], list[PlannedSweep]] = {}
        for sweep in batch:
            groups.setdefault((sweep.executable.path, sweep.allocator), []).append(sweep)
        for name in sorted(groups, key=lambda name: name != last):
            ordered += groups[name]
    return ordered


def evidence_of(rows: Sequence[Row], builds: Mapping[tuple[str, str, str], str], identity: str) -> tuple[Evidence, list[Row]]:
    """The evidence of the rows of one build, and these rows."""
    own = [row for row in rows if builds.get((row.suite, row.case, row.allocator)) == identity]
    return Evidence(own), own


@dataclass(frozen=True)
class How:
    """How a point is to be measured: the number of runs and the time limit."""

    runs: int
    timeout_s: float
    why: str  # missing: rows or the values of runs are missing; ended: it timed out; far: it needs much more time; noisy: more runs are needed


Wanted = dict[tuple[int, Point], How]  # by (number of the sweep in the plan, point)


@dataclass(frozen=True)
class _Place:
    """A point of a sweep of the plan."""

    sweep: int
    point: Point
    fields: Mapping[str, str]
    rows: Sequence[Row]


def _places(plan: Plan, there: Mapping[Key, list[Row]]) -> dict[tuple[str, str], list[_Place]]:
    """The points of all sweeps, by suite and case."""
    found: dict[tuple[str, str], list[_Place]] = {}
    for index, sweep in enumerate(plan.sweeps):
        of_all = split_parameter(sweep.extra)
        for point in sweep.points:
            rows = there.get(_key_of(sweep, point), ())
            found.setdefault((sweep.suite.name, sweep.case.name), []).append(_Place(index, point, of_all | point.fields, rows))
    return found


def _key_of(sweep: PlannedSweep, point: Point) -> Key:
    return point_key(sweep.suite.name, sweep.case.name, sweep.allocator, sweep.executable.backend, point, sweep.extra)


def _wanted(plan: Plan, one: Judged, places: Mapping[tuple[str, str], Sequence[_Place]]) -> Wanted:
    """The points of the claim that lack rows, runs or time."""
    everyone = {name for side in one.claim.sides for name in named(side)}
    found: Wanted = {}
    for side in one.claim.sides:
        asked = everyone if SAME in side.of else set(named(side))
        for place in places.get((side.suite, side.case), ()):
            sweep = plan.sweeps[place.sweep]
            reference = sweep.case.slowdown
            is_reference = side.metric == "slowdown" and reference is not None and sweep.allocator == reference.reference
            if (sweep.allocator in asked or is_reference) and meets(side, place.fields):
                needed = _needed(sweep, place.rows, one.verdict, _about_endings(one.claim, side))
                if needed is not None:
                    found[place.sweep, place.point] = needed
    # As long as missing points or time-outs leave a claim open, more runs of its other points decide nothing. The points that need by far the
    # most time come last, because a claim may be decided without them.
    for later in (("far", "noisy"), ("noisy",)):
        first = {place: how for place, how in found.items() if how.why not in later}
        if first:
            return first
    return found


def _about_endings(claim: Claim, side: Side) -> bool:
    """Whether the claim is about how the side's points end, and not about their values."""
    relation = claim.relation
    return any(isinstance(part, Status) and part.left == side for part in (relation, *getattr(relation, "parts", ())))


def _needed(sweep: PlannedSweep, rows: Sequence[Row], verdict: str, about_endings: bool) -> How | None:
    """How to measure the point again for a claim with this verdict; None if that cannot improve it.

    A point that said how long it would take gets that time. For a claim about endings, a time-out under a limit that counts is an answer.
    """
    case = sweep.case
    if not rows:
        return How(case.runs, case.timeout_s, "missing")
    if rows[0].status == "timeout" and verdict in (UNDECIDED, UNMEASURED):
        limit = limit_of(rows[0].reason)
        longer = max(case.timeout_s, MORE_TIME * limit, SLACK * needed_s(rows[0].reason))
        if about_endings:
            if limit >= LEAST_LIMIT_S:
                return None
            longer = max(case.timeout_s, LEAST_LIMIT_S)
        why = "far" if longer > max(case.timeout_s, SLACK * MORE_TIME * limit) else "ended"
        return How(case.runs, longer, why) if longer <= LONGEST_TIMEOUT_S else None
    if rows[0].status != "ok":
        return None
    runs = max(row.runs for row in rows)
    if not all(row.values for row in rows):
        return How(case.runs, case.timeout_s, "missing")
    more = min(MORE_RUNS * max(runs, case.runs), MOST_RUNS)
    return How(more, case.timeout_s * MORE_RUNS, "noisy") if verdict == UNDECIDED and runs < more else None


def _part(sweep: PlannedSweep, points: Sequence[Point], how: How) -> PlannedSweep:
    # With `enough_s`, a slow point would not make the added runs.
    enough_s = 0.0 if how.why == "noisy" else sweep.case.enough_s
    case = dataclasses.replace(sweep.case, runs=how.runs, timeout_s=how.timeout_s, enough_s=enough_s)
    in_order = tuple(point for point in sweep.points if point in set(points))
    return dataclasses.replace(sweep, case=case, points=in_order, retry=how.why in ("ended", "far"))
