"""`gpuheap bench --for-claims`: finds the points that open claims (whose verdict more rows can change) need, and counts open claims after the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from gpuheap.errors import UserError
from gpuheap.formats.results import Row, read_table
from gpuheap.judging.judge import Judged, judge_all
from gpuheap.judging.language import Paper
from gpuheap.judging.needs import Needs, evidence_of, is_open, needs_of
from gpuheap.judging.show import counts_text
from gpuheap.running.environment import Environment
from gpuheap.running.plan import Plan


@dataclass(frozen=True)
class ForClaims:
    """The papers' claims, judged by the rows in one folder that one build of the executable measured.

    `recorded` is the folder of the tables that are recorded for this kind of GPU. Rows of any build, in either folder, tell how long a point
    takes.
    """

    papers: tuple[Paper, ...]
    folder: Path
    recorded: Path

    def needs(self, plan: Plan, identity: str) -> Needs:
        """Returns the points of the plan that open claims wait for. Raises UserError if the plan's backend is not cuda."""
        if plan.sweeps[0].executable.backend != "cuda":
            raise UserError("--for-claims needs a GPU: times of the simulator decide no claim")
        return self._needs(plan, identity)[1]

    def print_open(self, console: Console, plan: Plan, identity: str) -> None:
        """Prints the counts of verdicts, and how many points of the plan the open claims wait for."""
        judged, left = self._needs(plan, identity)
        console.print(counts_text(judged))
        points = left.plan.num_points if left.plan is not None else 0
        waiting = f"; {left.waiting} of them wait for {points} points of this plan, which the same command measures" if points else ""
        console.print(f"open: {sum(map(is_open, judged))} claims{waiting}", highlight=False, soft_wrap=True)

    def _needs(self, plan: Plan, identity: str) -> tuple[list[Judged], Needs]:
        there = self._rows(plan, self.folder)
        evidence, own = evidence_of(there, self._builds(), identity)
        judged = judge_all(self.papers, evidence)
        earlier = there if self.recorded == self.folder else there + self._rows(plan, self.recorded)
        return judged, needs_of(plan, judged, own, earlier)

    def _rows(self, plan: Plan, folder: Path) -> list[Row]:
        names = {sweep.suite.name for sweep in plan.sweeps} | {side.suite for paper in self.papers for claim in paper.claims for side in claim.sides}
        paths = [folder / f"{name}.csv" for name in sorted(names)]
        return [row for path in paths if path.exists() for row in read_table(path) if row.backend == "cuda"]

    def _builds(self) -> dict[tuple[str, str, str], str]:
        sweeps = Environment(self.folder).facts.get("sweeps") or {}
        return {
            (suite, case, name): build for suite, cases in sweeps.items() for case, allocators in cases.items() for name, build in allocators.items()
        }

