"""The pictures that the repository's suites ask for: each is there once every point was measured, and each figure of the papers has one."""

from __future__ import annotations

import dataclasses
import re
from functools import cache

import pytest
from fake_checkout import REPOSITORY
from matplotlib.textpath import TextPath
from synthetic import plausible, rows_of_suites

from gpuheap.answers.views import CaseView, case_views
from gpuheap.formats.plots import Plot
from gpuheap.formats.suites import Case, load_suites
from gpuheap.judging.printed import load_printed
from gpuheap.paths import Layout
from gpuheap.report.charts import charts_of
from gpuheap.report.figures import case_file
from gpuheap.report.inline import chart_for_page

LAYOUT = Layout(REPOSITORY)
SUITES = load_suites(LAYOUT)
PRINTED = load_printed(LAYOUT)
CASES = [(suite.name, name) for suite in SUITES.values() for name in suite.cases]
SAID = [(suite, name, number) for suite, name in CASES for number in range(len(SUITES[suite].case(name, "cuda").plots))]
# The papers' figures of cases that the suites measure: the survey's figures 9 to 11, Gallatin's 4 to 7, the register-efficient allocators' 3 and 4, those of
# coalescing for MPI.
FIGURES = {
    "survey": {
        "alloc_single": {"figure 9a", "figure 9b", "figures 9c and 9e", "figures 9d and 9f"},
        "alloc_warp": {"figure 9g"},
        "alloc_mixed": {"figure 9h"},
        "alloc_scaling": {"figures 10a to 10d", "figures 10e to 10h"},
        "fragmentation": {"figure 11a"},
        "utilisation": {"figure 11b"},
        "work_generation": {"figure 11c", "figure 11d"},
        "memory_access": {"figure 11e"},
        "graph_init": {"figure 11f"},
        "graph_update_focused": {"figure 11g"},
    },
    "gallatin": {
        "alloc_single": {"figure 4a", "figure 4b", "section 6.8", "section 6.9"},
        "alloc_mixed": {"figure 4c", "figure 4d", "section 6.8", "section 6.9"},
        "alloc_scaling": {"figure 5", "section 6.8"},
        "fragmentation": {"figure 6a", "figure 6b, over the requested bytes"},
        "utilisation": {"figure 6c"},
        "graph_init": {"figure 7a"},
        "graph_update": {"figure 7a"},
        "graph_update_focused": {"figure 7a"},
        "graph_expansion": {"figure 7b"},
    },
    "regeff": {
        "alloc_dealloc": {"figure 3a"},
        "alloc_cycle_dealloc": {"figure 3b", "figure 3c", "figure 4"},
        "probability": {"figure 3d"},
        "kdtree": {"table 2"},
    },
    "coalescing": {
        "linear": {"figure 1", "figure 3", "figure 4"},
        "quadratic": {"figure 2", "figure 3"},
        "mpi_reduce": {"figure 5"},
        "mpi_broadcast": {"figure 5"},
        "mpi_alltoall": {"figure 5"},
    },
}


@cache
def views() -> dict[tuple[str, str], CaseView]:
    """Every suite once every point was measured, none of them late."""
    return {(view.suite, view.name): view for view in case_views(rows_of_suites(SUITES, plausible), SUITES)}


def showing(suite: str, name: str, plot: Plot) -> CaseView:
    view = views()[suite, name]
    assert view.case is not None
    return dataclasses.replace(view, case=dataclasses.replace(view.case, plots=(plot,)))


@pytest.mark.parametrize(("suite", "name", "number"), SAID)
def test_a_plot_of_a_suite_shows_its_metrics_along_its_axis(suite: str, name: str, number: int) -> None:
    case: Case = SUITES[suite].case(name, "cuda")
    plot = case.plots[number]
    drawn = charts_of(showing(suite, name, plot), PRINTED)
    assert {chart.metric.name for chart in drawn} >= set(plot.metrics)
    for chart in drawn:
        assert all(series.marks for series in chart.series)
        if plot.x:
            assert chart.axis == plot.axis
            assert len(chart.xs) > 1
        if plot.curves:
            assert any(series.curve for series in chart.series)
        if plot.allocators:
            assert {series.allocator for series in chart.series} == set(plot.allocators)
        assert chart_for_page(chart).startswith("<svg")


@pytest.mark.parametrize(("suite", "name"), CASES)
def test_every_allocator_with_a_value_is_in_a_picture_of_its_case(suite: str, name: str) -> None:
    view = views()[suite, name]
    charts = charts_of(view, PRINTED)
    assert charts
    assert len({chart.name for chart in charts}) == len(charts)
    allocators = {row.allocator for row in view.rows if row.ok and row.metric in {chart.metric.name for chart in charts}}
    assert {series.allocator for chart in charts for series in chart.series} == allocators


@pytest.mark.parametrize(("suite", "name"), [(suite, name) for suite, cases in FIGURES.items() for name in cases])
def test_what_a_paper_draws_is_drawn(suite: str, name: str) -> None:
    assert {plot.figure for plot in SUITES[suite].case(name, "cuda").plots} - {""} == FIGURES[suite][name]


def test_the_numbers_that_papers_print_stand_in_their_pictures() -> None:
    """All that compare with those of another machine and belong to a picture: table 2, figure 3 of coalescing for MPI, utilisation."""
    shown = {(key, number.words) for key, view in views().items() for chart in charts_of(view, PRINTED) for number in chart.printed}
    by_case = {key: sum(1 for other, _ in shown if other == key) for key, _ in shown}
    slowdowns = [value for value in PRINTED if (value.suite, value.case, value.metric) == ("regeff", "kdtree_queue", "slowdown")]
    assert by_case["regeff", "kdtree_queue"] >= len(slowdowns) > 80
    speedups = [value for value in PRINTED if (value.suite, value.case, value.metric) == ("coalescing", "linear", "speedup")]
    assert by_case["coalescing", "linear"] == len(speedups) == 16


@pytest.mark.parametrize(
    ("suite", "name"), [("survey", "graph_init"), ("regeff", "kdtree"), ("coalescing", "mpi_alltoall"), ("gallatin", "fragmentation")]
)
def test_words_side_by_side_curves_dots_and_bytes_are_drawn_as_files(suite: str, name: str) -> None:
    text = case_file(charts_of(views()[suite, name], PRINTED), "synthetic")
    assert text.count("<text") > 20 and "sharded_spans" in text


@pytest.mark.parametrize(("suite", "name"), [("survey", "graph_update_focused"), ("ablation", "churn_long_lived"), ("regeff", "kdtree")])
def test_the_heading_of_a_file_is_as_wide_as_its_pictures_at_most(suite: str, name: str) -> None:
    text = case_file(charts_of(views()[suite, name], PRINTED), "NVIDIA H200")
    _, _, width, _ = text.split('viewBox="')[1].split('"')[0].split()
    heading = re.findall(r"<text[^>]*font-size: 10px[^>]*>([^<]*)", text)
    assert " ".join(heading).startswith(f"NVIDIA H200: {name}, ")
    for line in heading:
        assert TextPath((0, 0), line, size=10).get_extents().width < float(width), line


def test_bytes_are_ratios_times_what_was_asked_for() -> None:
    chart, *_ = charts_of(views()["survey", "fragmentation"])
    ratio = next(
        chart for chart in charts_of(views()["survey", "fragmentation"]) if chart.unit == "ratio" and "round 1" in chart.fixed.split(", ")
    )
    assert (chart.unit, chart.title) == ("bytes", "address range")
    for series in chart.series:
        beside = {mark.x: mark.median for other in ratio.series if other.allocator == series.allocator for mark in other.marks}
        assert [mark.median for mark in series.marks] == pytest.approx([beside[mark.x] * mark.x * 100_000 for mark in series.marks])
