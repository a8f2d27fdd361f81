"""Gives every claim its verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuheap.catalogue import ordered
from gpuheap.errors import UserError, unknown_name
from gpuheap.formats.points import Draw, Grid, values_of
from gpuheap.formats.suites import Case, Suite
from gpuheap.judging.certainty import certainty
from gpuheap.judging.evidence import Evidence, axis_number
from gpuheap.judging.language import SAME, Claim, Crossover, FirstFailure, Jump, Paper, Peak, Relation, Side, Status
from gpuheap.judging.relations import NotMeasured, Unsupported, hold

HOLDS, FAILS, UNDECIDED, PUBLISHED, UNMEASURED = "holds", "does not hold here", "undecided", "about the published code only", "not measured"
VERDICTS = (HOLDS, FAILS, UNDECIDED, PUBLISHED, UNMEASURED)
SHORT = {"holds": HOLDS, "fails": FAILS, "undecided": UNDECIDED, "published": PUBLISHED, "unmeasured": UNMEASURED}  # the verdicts' names for --verdict


@dataclass(frozen=True)
class Judged:
    claim: Claim
    verdict: str
    numbers: str  # the measured values, or the reason for which there are none
    points: int = 0
    basis: str = ""  # the certainty of the verdict: by an interval, or without one
    why: str = ""  # the reason for which a claim fails, as its file says

    def as_json(self) -> dict[str, Any]:
        claim = self.claim
        return {
            "paper": claim.paper,
            "name": claim.name,
            "says": claim.says,
            "at": claim.at,
            "verdict": self.verdict,
            "numbers": self.numbers,
            "points": self.points,
            "basis": self.basis,
            "why": self.why,
            "rows": sorted({f"{side.suite}/{side.case}" for side in claim.sides}),
        }


def judge(claim: Claim, evidence: Evidence) -> Judged:
    if claim.relation is None:
        return Judged(claim, PUBLISHED, claim.published)
    try:
        outcome = hold(claim.relation, evidence)
    except Unsupported as why:
        return Judged(claim, PUBLISHED, f"does not apply to the allocators measured here: {why}")
    except NotMeasured as why:
        return Judged(claim, UNMEASURED, str(why))
    place = unreached(claim.relation, evidence)
    if place and not outcome.holds:
        return Judged(claim, UNMEASURED, f"no rows of {place}, of which the sentence speaks")
    sure = certainty(claim.relation, evidence)
    verdict = UNDECIDED if sure.holds is None else HOLDS if sure.holds else FAILS
    numbers = [outcome.numbers, _left_out(claim, evidence), _without_rows(claim, evidence)]
    if sure.words:
        numbers.insert(0, sure.words)
    if sure.open_points and not (verdict == UNDECIDED and sure.least < sure.most) and not isinstance(claim.relation, Status):
        numbers.append(f"{sure.open_points} point{'s' if sure.open_points != 1 else ''} without an end")
    reason = claim.why if verdict == FAILS and claim.why_on == evidence.device else ""
    return Judged(claim, verdict, "; ".join(filter(None, numbers)), outcome.points, sure.basis, reason)


def unreached(relation: Relation | None, evidence: Evidence) -> str:
    """The values of an axis among which the relation wants a jump, peak or the like, if no point lies there; else "". Then it can fail only for want
    of points."""
    if not isinstance(relation, (Jump, Peak, Crossover, FirstFailure)):
        return ""
    places = [reading.fields.along(relation.axis)[0] for reading in evidence.find(relation.left, named(relation.left)).readings]
    if any(place is not None and relation.at.holds(place) for place in places):
        return ""
    return f"{relation.axis} {relation.at}"


def _left_out(claim: Claim, evidence: Evidence) -> str:
    """Names the allocators that were left out of the verdict, because they do not support the case."""
    found = ordered(name for side in claim.sides for name in evidence.find(side, named(side)).unsupported)
    if not found:
        return ""
    return f"without {', '.join(found[:3])}{f' and {len(found) - 3} more' if len(found) > 3 else ''}, unsupported there"


def _without_rows(claim: Claim, evidence: Evidence) -> str:
    """Names the values that conditions of the claim list and of which there are no rows, so that the verdict is on the others."""
    lacking: dict[str, None] = {}
    for side in claim.sides:
        readings = evidence.find(side, named(side)).readings
        for condition in side.where if readings else ():
            measured = {reading.fields.get(condition.key, "") for reading in readings}
            lacking |= {str(dataclasses.replace(condition, words=(word,))): None for word in condition.words if word and word not in measured}
    return f"no rows of {', '.join(lacking)}" if lacking else ""


def judge_all(papers: Iterable[Paper], evidence: Evidence, each: Callable[[Sequence[Claim]], Iterable[Claim]] = iter) -> list[Judged]:
    """Judges all claims. `each` iterates over the claims and may show the progress: resampling takes some seconds for all claims."""
    return [judge(claim, evidence) for claim in each([claim for paper in papers for claim in paper.claims])]


def papers_named(papers: Sequence[Paper], names: Sequence[str]) -> list[Paper]:
    """The papers with these names; all if there are none. Raises UserError for an unknown name."""
    known = {paper.name for paper in papers}
    for name in names:
        if name not in known:
            raise unknown_name("paper", name, known, list_all=True)
    return [paper for paper in papers if not names or paper.name in names]


def verdicts_named(names: Sequence[str]) -> tuple[str, ...]:
    """The verdicts with these names, in full or as in SHORT; all if there are none. Raises UserError for an unknown name."""
    for name in names:
        if name not in SHORT and name not in VERDICTS:
            raise unknown_name("verdict", name, SHORT)
    return tuple(SHORT.get(name, name) for name in names) or VERDICTS


def commands_for(judged: Iterable[Judged], evidence: Evidence) -> list[str]:
    """The commands that measure the rows that claims lack: for whole suites, for single cases of suites that are partly measured, and with more time."""
    suites = evidence.suites()
    ran_out_of_time = False
    targets: dict[str, None] = {}
    for one in judged:
        if one.verdict == UNMEASURED:
            for side in one.claim.sides:
                if side.suite not in suites:
                    targets[side.suite] = None
                    continue
                found = evidence.find(dataclasses.replace(side, of=named(side)))
                if not evidence.has(side.suite, side.case) or found.missing or unreached(one.claim.relation, evidence):
                    targets[f"{side.suite}/{side.case}"] = None
                ran_out_of_time |= any(reading.is_open for reading in found.readings)
    return [f"gpuheap bench {target}" for target in targets] + ["gpuheap bench all --for-claims"] * ran_out_of_time


def named(side: Side) -> tuple[str, ...]:
    """The allocators that a side names."""
    return tuple(name for name in side.of if name != SAME)


def check_suites(papers: Iterable[Paper], suites: Mapping[str, Suite]) -> None:
    """Checks that every side selects points of a suite of this checkout. Raises UserError with file and line."""
    for paper in papers:
        for claim in paper.claims:
            for problem in (*(_mismatch(side, suites) for side in claim.sides), _no_place(claim.relation, suites)):
                if problem:
                    raise UserError(f"{claim.path}:{claim.line}: claim '{claim.name}': {problem}")


def _mismatch(side: Side, suites: Mapping[str, Suite]) -> str:
    suite = suites.get(side.suite)
    if suite is None:
        return str(unknown_name("suite", side.suite, suites))
    if side.case not in suite.cases:
        return str(unknown_name(f"case of suite {side.suite}", side.case, suite.cases))
    case = suite.case(side.case, "cuda")
    if case.metrics and side.metric not in case.metrics:
        return str(unknown_name(f"metric of {side.suite}/{side.case}", side.metric, case.metrics))
    grids = grids_of(case, side.of)
    if not any(_meets(side, grid) for grid in grids):
        conditions = ", ".join(str(condition) for condition in side.where)
        return f"no point of {side.suite}/{side.case} has {conditions}"
    for condition in side.where:
        for word in condition.words:
            one = dataclasses.replace(condition, words=(word,))
            if not any(_meets(dataclasses.replace(side, where=(one,)), grid) for grid in grids):
                return f"no point of {side.suite}/{side.case} has {one}"
    return ""


def _no_place(relation: Relation | None, suites: Mapping[str, Suite]) -> str:
    """Says that no point of the suite lies where the relation wants a jump, peak or the like."""
    if not isinstance(relation, (Jump, Peak, Crossover, FirstFailure)):
        return ""
    side = relation.left
    for grid in grids_of(suites[side.suite].case(side.case, "cuda"), side.of):
        axis = grid.get(relation.axis, ())
        places = [] if isinstance(axis, Draw) else [axis_number(str(value)) for value in values_of(axis)]
        if _meets(side, grid) and any(place is not None and relation.at.holds(place) for place in places):
            return ""
    return f"no point of {side.suite}/{side.case} has {relation.axis} {relation.at}"


def grids_of(case: Case, allocators: Sequence[str]) -> list[Grid]:
    """The grids of a case, with those that only one of these allocators has. `same` stands for any allocator."""
    variants: Mapping[str, Grid] = getattr(case, "variants", {})
    own = [more for name, more in variants.items() if name in allocators or SAME in allocators]
    return [*case.grids, *({**grid, **more} for more in own for grid in case.grids)]


def _meets(side: Side, grid: Grid) -> bool:
    for condition in side.where:
        axis = grid.get(condition.key, ("",))
        if not isinstance(axis, Draw) and not any(condition.holds(str(value)) for value in values_of(axis)):
            return False
    return True
