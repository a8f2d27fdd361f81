"""The certainty of a verdict: by a bootstrap over the runs, and by the values that time-outs leave possible.

A draw resamples the runs of each measurement, at random and with repetition, and judges the relation by the statistics of the new samples. A completion
gives each point that timed out one of the values that its time limit leaves possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuheap.judging import language as say
from gpuheap.judging.draws import DRAWS, STRETCHES, Drawn, held_in_draws, hold_in_draws
from gpuheap.judging.evidence import Evidence, Reading
from gpuheap.judging.relations import NotMeasured, hold
from gpuheap.judging.series import Votes

CONFIDENCE = 0.95
# A verdict whose share of all possible draws is below 95 % is that of all FEW_DRAWS draws with a probability of less than 5 %. So DRAWS draws are made only
# if the first FEW_DRAWS do not all agree.
FEW_DRAWS = 60


@dataclass(frozen=True)
class Certainty:
    holds: bool | None  # None: undecided
    least: float  # the share of draws in which the relation holds, for the completion in which it is smallest
    most: float  # the same share, for the completion in which it is largest
    with_runs: int  # measurements whose runs are known
    measurements: int
    open_points: int  # points that timed out, or that were skipped after failures
    within_noise: bool = False  # the relation holds in few draws, but so many of its comparisons may hold that it may hold
    estimated: bool = False  # whether the runs of some measurements are estimated from percentiles

    @property
    def basis(self) -> str:
        """For example `95 %`, `no interval`, `95 %, 3 of 8 measurements` or `95 %, by percentiles`."""
        if not self.with_runs:
            return "no interval" if self.measurements else ""
        part = "" if self.with_runs == self.measurements else f", {self.with_runs} of {self.measurements} measurements"
        return f"{CONFIDENCE:.0%}{part}{', by percentiles' if self.estimated else ''}".replace("%", " %")

    @property
    def words(self) -> str:
        """The reason why the relation is undecided; "" if it is decided."""
        if self.holds is not None:
            return ""
        if self.within_noise:
            return f"holds in {self.most:.0%} of all draws of the runs, although enough of its comparisons hold in more than {1 - CONFIDENCE:.0%} each"
        if self.least == self.most:
            return f"holds in {self.least:.0%} of all draws of the runs"
        between = f"holds in {self.least:.0%} to {self.most:.0%} of all draws of the runs" if self.with_runs else "the verdict depends on them"
        return f"{self.open_points} point{'s' if self.open_points != 1 else ''} without an end: {between}"


def certainty(relation: say.Relation, evidence: Evidence) -> Certainty:
    """The certainty of a relation for which hold() does not raise NotMeasured."""
    readings = [reading for side in say.sides_of(relation) for reading in _readings_of(side, evidence)]
    measured = {reading.runs for reading in readings if reading.runs is not None}
    with_runs = {runs for runs in measured if runs.enough}
    open_points = {(reading.allocator, tuple(sorted(reading.fields.items()))) for reading in readings if reading.is_open}
    completions = [(stretch, "") for stretch in (STRETCHES if open_points else STRETCHES[-1:])]
    if any(reading.is_open and reading.between is None for reading in readings):
        completions += [(STRETCHES[0], name) for name in sorted({reading.allocator for reading in readings if reading.ok})]
    try:
        shares = [_share(relation, evidence, stretch, like, bool(with_runs)) for stretch, like in completions]
    except NotMeasured:  # no measurement is left without the open points, of whose values nothing is known
        shares = [(0.0, False), (1.0, False)]
    least, most = min(share for share, _ in shares), max(share for share, _ in shares)
    within_noise = most <= 1 - CONFIDENCE and any(may_hold for _, may_hold in shares)
    holds = True if least >= CONFIDENCE else False if most <= 1 - CONFIDENCE and not within_noise else None
    estimated = any(runs.estimated for runs in with_runs)
    return Certainty(holds, least, most, len(with_runs), len(measured), len(open_points), within_noise, estimated)


def _readings_of(side: say.Side, evidence: Evidence) -> Sequence[Reading]:
    named = tuple(name for name in side.of if name != say.SAME)
    return evidence.find(side, named).readings if named else ()


def _share(relation: say.Relation, evidence: Evidence, stretch: float, like: str, noisy: bool) -> tuple[float, bool]:
    """The share of draws in which the relation holds, and whether it may hold although that share is small.

    Of many comparisons that all hold by little, some fail in nearly every draw. So a relation may hold unless too few of its comparisons hold in more
    than 5 % of the draws each. If no runs are known, there is one draw: the measured statistics. Raises NotMeasured.
    """
    drawn = Drawn(evidence, stretch, like)
    if not noisy:
        return float(hold(relation, drawn).holds), False
    held, counts, votes = _draw(relation, drawn, range(FEW_DRAWS))
    if held == FEW_DRAWS or (held == 0 and not votes.decided_by(count > 0 for count in counts)):
        return held / FEW_DRAWS, False
    more, more_counts, _ = _draw(relation, drawn, range(FEW_DRAWS, DRAWS))
    may_hold = votes.decided_by(count + again > (1 - CONFIDENCE) * DRAWS for count, again in zip(counts, more_counts, strict=True))
    return (held + more) / DRAWS, may_hold


def _draw(relation: say.Relation, drawn: Drawn, numbers: range) -> tuple[int, list[int], Votes]:
    """In how many of these draws the relation holds, in how many each of its comparisons, and the votes of a draw."""
    votes, comparisons = hold_in_draws(relation, drawn, numbers)
    return int(held_in_draws(votes, iter(comparisons)).sum()), [int(each.sum()) for each in comparisons], votes
