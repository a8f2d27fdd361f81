"""The answers on the report's first screen: the best allocator for each kind of use, at the headline point of a case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuheap.answers.patterns import is_contender
from gpuheap.answers.views import CaseView, PointId, point_words
from gpuheap.catalogue import DEFAULT, TOOLKIT
from gpuheap.metrics import METRICS
from gpuheap.report.tables import Chip, Traits, chip, ratio_words, unvaried
from gpuheap.units import format_value

# The cases that matter to a program's author, in the order in which they are shown, each with its description. Each is shown for one suite.
QUESTIONS = {
    "alloc_single": "blocks of one size",
    "alloc_mixed": "blocks of random sizes",
    "churn": "replacing blocks again and again",
    "larson": "blocks that pass from thread to thread",
    "graph_init": "making the adjacency lists of a graph",
    "graph_update": "inserting edges into a graph",
    "kdtree": "building a kd-tree",
    "churn_long_lived": "blocks of which some live for ever",
    "utilisation": "filling a heap to its end",
}
SUITES = ("quick", "heap", "survey", "gallatin", "stress", "regeff")
LEAST_RIVALS = 2  # with fewer allocators, none is called the best


@dataclass(frozen=True)
class Answer:
    question: str
    where: str
    best: Chip
    value: str
    ours: str  # the default allocator's value (a time with its ratio to the best), or why there is none; empty if it is the best
    toolkit: str  # the same for CUDA's malloc


def answers(views: Sequence[CaseView], traits: Traits) -> tuple[Answer, ...]:
    found = []
    for case, words in QUESTIONS.items():
        candidates = sorted((view for view in views if view.name == case), key=_preference)
        told = next((lines for view in candidates if (lines := _of_case(view, words, traits))), [])
        found += told
    return tuple(found)


def _preference(view: CaseView) -> tuple[int, int]:
    """The sort key of a case's views: the suite that compares the most allocators first, then the order of SUITES."""
    return (-len(view.allocators), SUITES.index(view.suite) if view.suite in SUITES else len(SUITES))


def _of_case(view: CaseView, words: str, traits: Traits) -> list[Answer]:
    shown = [(metric, point) for metric, point in view.headlines() if METRICS[metric].lower_is_better is not None and metric != "failed_requests"]
    if not shown and "utilisation" in view.metrics and (point := view.headline("utilisation")) is not None:
        shown = [("utilisation", point)]
    made = []
    for metric, point in shown[:2]:
        line = _answer(view, words, metric, point, traits)
        if line is not None:
            made.append(line)
    return made


def _answer(view: CaseView, words: str, metric: str, point: PointId, traits: Traits) -> Answer | None:
    values = {}
    for name in view.allocators:
        row = view.find(name, metric, point)
        failed_requests = view.find(name, "failed_requests", point)
        short = failed_requests is not None and failed_requests.statistics is not None and failed_requests.statistics.median > 0 and metric != "utilisation"
        if row is not None and row.ok and row.statistics is not None and not short:
            values[name] = row.statistics.median
    rivals = [name for name in values if is_contender(name, traits)]
    if len(rivals) < LEAST_RIVALS:
        return None
    lower = METRICS[metric].lower_is_better is not False
    best = min(rivals, key=lambda name: values[name] if lower else -values[name])

    def beside(name: str) -> str:
        if name in values:
            shown = format_value(values[name], METRICS[metric].unit)
            ratio = ratio_words(values[name], values[best])[0] if METRICS[metric].is_time and name != best else ""
            return f"{shown}, {ratio}" if ratio else shown
        row = view.find(name, metric, point)
        return "was not measured" if row is None else "requests failed" if row.ok else row.status

    label = METRICS[metric].label
    return Answer(
        question=f"{words}: {label}",
        where=point_words(point, hide=unvaried(view)),
        best=chip(best),
        value=format_value(values[best], METRICS[metric].unit),
        ours="" if best == DEFAULT else beside(DEFAULT),
        toolkit="" if best == TOOLKIT else beside(TOOLKIT),
    )
