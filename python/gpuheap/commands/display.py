"""The output of `gpuheap bench` and `gpuheap list`."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from gpuheap.answers.verdicts import AIM, FAILED, MET, NOTHING, PART, Verdict, summary_words, verdicts
from gpuheap.answers.views import CaseView, case_views, point_id, point_words, status_words
from gpuheap.formats.points import Point
from gpuheap.formats.protocol import Allocator, PointResult
from gpuheap.formats.results import Row
from gpuheap.formats.suites import Suite
from gpuheap.paths import Layout
from gpuheap.running.bench import Outcome
from gpuheap.running.environment import spoken
from gpuheap.running.estimate import Estimate
from gpuheap.running.plan import Plan, PlannedSweep
from gpuheap.units import format_bytes, format_seconds, format_value

STATUS_STYLE = {"ok": "green", "unsupported": "bright_black", "timeout": "yellow", "crash": "red", "wrong": "bold red"}
VERDICT_STYLE = {AIM: "green", MET: "default", FAILED: "bold red", PART: "yellow", NOTHING: "bright_black"}
ALLOCATORS_PER_TABLE = 7
SIMULATED = "simulated on the CPU: shows correctness and scheduling, not speed"


class ProgressListener:
    """Shows a progress bar for the whole plan, and prints a line for each finished sweep. Without a terminal there is no bar."""

    def __init__(self, console: Console, plan: Plan, workers: int = 1) -> None:
        self._console = console
        self._total = plan.num_points
        self._estimate = Estimate(plan.sweeps, workers)
        self._settled: dict[int, int] = {}  # the number of points of each sweep that are finished or skipped
        self._at: dict[int, str] = {}  # the point that each running sweep is at
        self._bar = Progress(
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", style="bright_black"),
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=plan.num_points, left="")
        self._widest = max(len(sweep.case.name) for sweep in plan.sweeps)
        self._widest_allocator = max(len(sweep.allocator) for sweep in plan.sweeps)

    def __enter__(self) -> ProgressListener:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def goes_on(self, since: str) -> None:
        words = f"note: an earlier run with --fresh was stopped: this run continues it, and keeps the points measured since {spoken(since)}"
        self._console.print(words, style="yellow", highlight=False, soft_wrap=True)

    def sweep_begins(self, sweep: PlannedSweep, kept: int) -> None:
        self._estimate.begins(sweep, kept)
        self._at[id(sweep)] = f"{sweep.case.name} {sweep.allocator}"
        self._settled[id(sweep)] = kept
        self._show()

    def point_begins(self, sweep: PlannedSweep, point: Point, worker: str) -> None:
        self._at[id(sweep)] = f"{worker + ': ' if worker else ''}{sweep.case.name} {sweep.allocator}  {point}"
        self._show()

    def point_ends(self, sweep: PlannedSweep, point: Point, result: PointResult) -> None:
        self._estimate.point_ends(sweep)
        self._settled[id(sweep)] += 1
        self._show()

    def sweep_ends(self, sweep: PlannedSweep, rows: list[Row], untried: int) -> None:
        self._estimate.untried(sweep, len(sweep.points) - self._settled[id(sweep)])
        self._settled[id(sweep)] = len(sweep.points)
        self._at.pop(id(sweep), None)
        self._show()
        line = Text(f"{sweep.case.name:<{self._widest}}  {sweep.allocator:<{self._widest_allocator}}  ")
        line.append_text(_status_text(rows))
        if untried:
            line.append(f", {untried} not tried after three failures in a row", "yellow")
        if not self._console.is_terminal and self._left_words:
            line.append(f"  [{sum(self._settled.values())}/{self._total}, {self._left_words}]", "bright_black")
        self._console.print(line)

    def worker_lost(self, words: str) -> None:
        self._console.print(f"{words}; the other workers take over its points", style="yellow", highlight=False, soft_wrap=True)

    @property
    def _left_words(self) -> str:
        seconds = self._estimate.seconds_left
        return f"about {format_seconds(seconds)} left" if seconds is not None and seconds >= 1 else ""

    def _show(self) -> None:
        running = "; ".join(self._at.values())
        self._bar.update(self._task, completed=sum(self._settled.values()), description=running, left=self._left_words)


def print_outcome(console: Console, outcome: Outcome, plan: Plan, suites: dict[str, Suite], backend: str, layout: Layout) -> None:
    """Prints the summary of a run: medians on a GPU, statuses in the simulator; then the bounds, every failure, and the files of the tables."""
    views = case_views(outcome.rows, suites)
    if views:
        console.print()
        print_summary(console, views, backend)
    print_bounds(console, verdicts(outcome.rows, suites), suites)
    failures = [row for view in views for row in view.failures if row.status != "unsupported"]
    for row in failures:
        words = Text(f"{row.status:<8}", STATUS_STYLE[row.status])
        words.append(f" {row.case} {row.allocator} {point_words(point_id(row))}: {row.reason or 'no reason given'}", "default")
        console.print(words, soft_wrap=True)
    which = f"since the run with --fresh began, {spoken(outcome.again_since)}" if outcome.again_since else "from an earlier run (--fresh measures them again)"
    kept = f", {outcome.kept} kept {which}" if outcome.kept else ""
    console.print(f"{outcome.measured} points measured{kept}", style="bright_black", highlight=False)
    for path in outcome.tables.values():
        if path.exists():
            console.print(f"results: {layout.shown(path)}", highlight=False, soft_wrap=True)


def print_stopped(console: Console, outcome: Outcome, plan: Plan, folder: str) -> None:
    """Says what is kept after Ctrl-C."""
    kept = f"{outcome.measured + outcome.kept} of {plan.num_points} points are kept in {folder}"
    console.print(f"stopped: {kept}; the same command goes on from there", style="yellow", highlight=False, soft_wrap=True)


def print_time_is_up(console: Console, outcome: Outcome, plan: Plan, folder: str) -> None:
    """Says what is kept when the minutes of --minutes are over."""
    kept = f"{outcome.measured + outcome.kept} of {plan.num_points} points are kept in {folder}"
    console.print(f"the time is up: {kept}; the same command goes on from there", style="yellow", highlight=False, soft_wrap=True)


def print_summary(console: Console, views: Sequence[CaseView], backend: str) -> None:
    allocators = list(dict.fromkeys(name for view in views for name in view.allocators))
    for first in range(0, len(allocators), ALLOCATORS_PER_TABLE):
        columns = allocators[first : first + ALLOCATORS_PER_TABLE]
        console.print(_status_table(views, columns) if backend == "simulator" else _median_table(views, columns))
    if backend == "simulator":
        console.print(SIMULATED, style="bright_black")


def print_bounds(console: Console, found: Sequence[Verdict], suites: dict[str, Suite]) -> None:
    """Prints a line for each bound: its worst measured value, its limit and aim, the verdict, and the worst point."""
    for name in dict.fromkeys(verdict.suite for verdict in found):
        of_suite = [verdict for verdict in found if verdict.suite == name]
        several = len({verdict.allocator for verdict in of_suite}) > 1
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("case", "bound"):
            table.add_column(column, overflow="fold")
        for column in ("worst", "must", "aim"):
            table.add_column(column, justify="right", no_wrap=True)
        for column in ("", "at"):
            table.add_column(column, overflow="fold")
        for verdict in of_suite:
            bound = verdict.bound
            case = f"{verdict.case} {verdict.allocator}" if several else verdict.case
            style = VERDICT_STYLE[verdict.verdict]
            cells = [case, bound.words, verdict.worst_words, bound.limit_words(bound.must), bound.limit_words(bound.aim)]
            table.add_row(*cells, Text(verdict.verdict_words, style), verdict.where_words)
        console.print(table)
        stated = f", stated for {suites[name].bounds_on}" if suites[name].bounds_on else ""
        console.print(f"{summary_words(of_suite)} ({', '.join(dict.fromkeys(v.allocator for v in of_suite))}{stated})", highlight=False)


def allocator_table(allocators: Sequence[Allocator], baselines: Sequence[str]) -> Table:
    """The allocators and their traits."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("name", "description", "sizes", "frees", "notes"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for allocator in allocators:
        table.add_row(
            Text(allocator.name, "bold" if allocator.supported else "bright_black"),
            _title(allocator),
            _sizes(allocator),
            allocator.free + (f"; {allocator.reuse}" if allocator.reuse else ""),
            _notes(allocator),
        )
    for baseline in baselines:
        table.add_row(Text(baseline, "bright_black"), "baseline: the cases' kernels without an allocator", "", "", "")
    return table


def _status_text(rows: Sequence[Row]) -> Text:
    text = Text()
    counts: dict[str, int] = {}
    for status in {point_id(row): row.status for row in rows}.values():
        counts[status] = counts.get(status, 0) + 1
    for status, count in sorted(counts.items(), key=lambda s: (s[0] != "ok", s[0])):
        text.append(", " if text else "").append(f"{count} {status}", STATUS_STYLE[status])
    reasons = list(dict.fromkeys(row.reason for row in rows if row.status == "unsupported" and row.reason))
    if reasons:
        text.append(f": {reasons[0]}", "bright_black")
    return text


def _median_table(views: Sequence[CaseView], allocators: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("case", overflow="fold")
    table.add_column("median of", overflow="fold")
    for name in allocators:
        table.add_column(name, justify="right", overflow="fold")
    for view in views:
        for metric, point in view.headlines():
            cells = [_cell(view.find(name, metric, point)) for name in allocators]
            table.add_row(view.name, f"{metric}, {point_words(point)}", *cells)
    return table


def _status_table(views: Sequence[CaseView], allocators: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("case", overflow="fold")
    for name in allocators:
        table.add_column(name, justify="right", overflow="fold")
    for view in views:
        table.add_row(view.name, *[_statuses(view, name) for name in allocators])
    return table


def _statuses(view: CaseView, name: str) -> Text:
    statuses, failed_requests = view.statuses(name), view.failed_requests(name)
    worst = next((s for s in ("wrong", "crash", "timeout") if s in statuses), "timeout" if failed_requests else "")
    return Text(status_words(statuses, failed_requests), STATUS_STYLE[worst] if worst else "default")


def _cell(row: Row | None) -> Text:
    if row is None:
        return Text("")
    if row.statistics is None or not row.ok:
        return Text(row.status, STATUS_STYLE[row.status])
    return Text(format_value(row.statistics.median, row.unit))


def _title(allocator: Allocator) -> str:
    named = not allocator.year or str(allocator.year) in allocator.paper  # a paper's name may end with its year
    published = " ".join(part for part in (allocator.paper, "" if named else str(allocator.year)) if part)
    return ", ".join(part for part in (allocator.title, allocator.variant, published) if part)


def _sizes(allocator: Allocator) -> str:
    largest = format_bytes(allocator.largest_bytes) if allocator.largest_bytes else "the heap"
    return f"{format_bytes(allocator.smallest_bytes)} to {largest}"


def _notes(allocator: Allocator) -> str:
    notes = []
    if not allocator.supported:
        notes.append(f"unsupported here: {allocator.why_not}")
    if allocator.warp_level:
        notes.append("each warp has memory of its own")
    if allocator.process_wide:
        notes.append("one heap per process")
    if allocator.overwrites:
        notes.append("overwrites live memory, by design")
    if not allocator.reuses_singly and allocator.free == "individually":
        notes.append("freed memory is used again only after its neighbours are freed")
    if not allocator.full_reuse and allocator.free != "never":
        notes.append("freed memory does not serve every size again")
    detected = [kind for kind, found in (("double", allocator.detects_double_free), ("foreign", allocator.detects_foreign_free)) if found]
    if detected:
        notes.append(f"detects {' and '.join(detected)} free")
    return "; ".join(notes)
