"""Groups tables of results by case, for the summary on the terminal and for the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from gpuheap.catalogue import ordered
from gpuheap.formats.results import Row
from gpuheap.formats.suites import Case, Suite
from gpuheap.metrics import METRICS
from gpuheap.units import format_bytes, format_count

PointId = tuple[int | None, int | None, str]  # threads, bytes, parameter


@dataclass(frozen=True)
class CaseView:
    """The rows of one case of one table."""

    suite: str
    name: str
    section: str
    brief: str
    metrics: tuple[str, ...]
    rows: tuple[Row, ...]
    wanted_headline: PointId | None  # the point that the suite wants in summaries
    case: Case | None = None  # the suite's definition; None if no suite of this checkout has the case

    @cached_property
    def allocators(self) -> list[str]:
        return ordered(row.allocator for row in self.rows)

    @cached_property
    def points(self) -> list[PointId]:
        """The points, sorted by the parameter, then by threads, then by bytes."""
        found = dict.fromkeys(point_id(row) for row in self.rows)
        return sorted(found, key=lambda p: (p[2], p[0] or 0, p[1] or 0))

    def find(self, allocator: str, metric: str, point: PointId) -> Row | None:
        """The measured row, or the row that says why the point has no value; None if there is neither."""
        return self._by_place.get((allocator, metric, point)) or self._by_place.get((allocator, "", point))

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, PointId], Row]:
        return {(row.allocator, row.metric, point_id(row)): row for row in self.rows}

    def untried(self, allocator: str) -> int:
        """The number of points of which other allocators have rows and this one has none. A sweep skips points after three failures in a row."""
        return len(self.points) - len({point_id(row) for row in self.rows if row.allocator == allocator})

    def headline(self, metric: str) -> PointId | None:
        """The point that summaries show for a metric; None without a measured point.

        It is the suite's headline if this was measured, else a point with the headline's threads and bytes, else the first measured point.
        """
        measured = [point_id(row) for row in self.rows if row.metric == metric]
        if self.wanted_headline in measured or not measured:
            return self.wanted_headline if measured else None
        if self.wanted_headline is not None:
            # The headline's parameter may be a phase that this metric does not have.
            near = [p for p in measured if p[:2] == self.wanted_headline[:2]]
            if near:
                return near[0]
        return measured[0]

    def statuses(self, allocator: str) -> Counter[str]:
        """The number of points by their status."""
        seen = {point_id(row): row.status for row in self.rows if row.allocator == allocator}
        return Counter(seen.values())

    def failed_requests(self, allocator: str) -> float:
        """The number of failed requests: the sum of the medians of all points."""
        return sum(row.statistics.median for row in self.rows if row.allocator == allocator and row.metric == "failed_requests" and row.statistics)

    def headlines(self) -> list[tuple[str, PointId]]:
        """The metrics that summaries show, each with its point. `failed_requests` is among them only if a request failed."""
        shown = [*self.times, *(["failed_requests"] if any(self.failed_requests(name) for name in self.allocators) else [])]
        pairs = [(metric, self.headline(metric)) for metric in shown if metric in self.metrics]
        return [(metric, point) for metric, point in pairs if point is not None]

    @property
    def times(self) -> list[str]:
        return [metric for metric in self.metrics if METRICS[metric].is_time]

    @property
    def failures(self) -> list[Row]:
        """One row for each allocator and point that did not end ok."""
        return list({(row.allocator, point_id(row)): row for row in self.rows if not row.ok}.values())


def point_id(row: Row) -> PointId:
    return (row.threads, row.bytes, row.key[6])


def case_views(rows: Iterable[Row], suites: Mapping[str, Suite]) -> list[CaseView]:
    """The cases of a table in the suite's order; a case that no suite of this checkout has comes last."""
    by_case: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        by_case.setdefault((row.suite, row.case, row.backend), []).append(row)
    views: list[tuple[tuple[int, int], CaseView]] = []
    for (suite_name, case_name, backend), found in by_case.items():
        suite = suites.get(suite_name)
        case: Case | None = suite.cases[case_name][backend] if suite is not None and case_name in suite.cases else None
        measured = dict.fromkeys(row.metric for row in found if row.metric)
        listed = [metric for metric in (case.metrics if case is not None else ()) if metric in measured]
        headline = None
        if case is not None:
            point = case.headline_point()
            headline = (point.threads, point.bytes, point.parameter)
        rank = (
            (list(suites).index(suite_name), list(suite.cases).index(case_name))
            if suite is not None and case is not None
            else (len(suites), 0)
        )
        view = CaseView(
            suite=suite_name,
            name=case_name,
            section=case.section if case is not None else "",
            brief=case.brief if case is not None else "",
            metrics=(*listed, *(metric for metric in measured if metric not in listed)),
            rows=tuple(found),
            wanted_headline=headline,
            case=case,
        )
        views.append((rank, view))
    return [view for _, view in sorted(views, key=lambda pair: pair[0])]


def point_words(point: PointId, hide: Iterable[str] = ()) -> str:
    """For example `1,000,000 threads, 16 B, phase=init`. Keys in `hide` are left out."""
    threads, size, parameter = point
    words = []
    if threads is not None and "threads" not in hide:
        words.append(f"{format_count(threads)} thread{'' if threads == 1 else 's'}")
    if size is not None and "bytes" not in hide:
        words.append(format_bytes(size))
    words += [part for part in parameter.split(";") if part and part.split("=")[0] not in hide]
    return ", ".join(words)


def status_words(statuses: Counter[str], failed_requests: float = 0) -> str:
    """For example `6 ok`, `4 ok, 1 timeout, 1 crash` or `6 ok, 12 requests failed`."""
    words = [f"{count} {status}" for status, count in sorted(statuses.items(), key=lambda s: (s[0] != "ok", s[0]))]
    return ", ".join(words + ([f"{format_count(failed_requests)} requests failed"] if failed_requests else []))
