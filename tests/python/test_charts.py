"""The pictures of a case, from its sweeps or from its suite's text; and the best allocator for each pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from gpuheap.answers.patterns import best_per_pattern
from gpuheap.answers.views import CaseView, case_views
from gpuheap.errors import UserError
from gpuheap.formats.points import make_point
from gpuheap.formats.protocol import Measurement, PointResult
from gpuheap.formats.results import Row, rows_of
from gpuheap.formats.suites import Suite, load_suite
from gpuheap.judging.printed import PrintedValue
from gpuheap.metrics import METRICS
from gpuheap.report.charts import Chart, Failure, Mark, Series, charts_of, failed_words, highlight
from gpuheap.report.inline import chart_for_page
from gpuheap.report.tables import timeouts_table

CASE = """
[suite]
name = "drawn"

[[case]]
name = "case"
heap_bytes = "1GiB"
metrics = {metrics}
axes = {axes}
"""


def suite_of(folder: Path, axes: str, plot: str = "", metrics: str = '["malloc_us"]') -> Suite:
    path = folder / "drawn.toml"
    path.write_text(CASE.format(axes=axes, metrics=metrics) + (f"plot = {plot}\n" if plot else ""))
    return load_suite(path)


def view_of(
    suite: Suite,
    values: dict[str, float],
    metrics: Iterable[tuple[str, str]] = (("malloc_us", "us"),),
    **failing: str,
) -> CaseView:
    """Every allocator at every point of the suite, its times a multiple of its value."""
    rows: list[Row] = []
    for name, value in values.items():
        for number, point in enumerate(suite.case("case", "cuda").points(), start=1):
            samples = [value * number * factor for factor in (0.9, 1.0, 1.1)]
            result = PointResult(
                "ok",
                "",
                tuple(Measurement(metric, unit, tuple(samples)) for metric, unit in metrics),
            )
            if failing.get(name) and number > 1:
                result = PointResult(failing[name], "as asked")
            rows += rows_of("drawn", "case", name, "cuda", point, "", result)
    (view,) = case_views(rows, {"drawn": suite})
    return view


def words(chart: Chart) -> tuple[str | None, str, str]:
    return chart.axis, chart.x_scale, chart.fixed


def test_the_swept_axis_lies_along_x_and_others_make_panels(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, '{ threads = [1000, 2000], bytes = [16, 64, 256], state = ["warm"] }')
    found = charts_of(view_of(suite, {"sharded_spans": 1, "cuda_malloc": 2}))
    assert [words(chart) for chart in found] == [
        ("bytes", "log", "state warm, 1,000 threads"),
        ("bytes", "log", "state warm, 2,000 threads"),
    ]
    assert [len(series.marks) for series in found[0].series] == [3, 3]
    assert len({chart.name for chart in found}) == 2
    assert found[0].y_range == found[1].y_range, "charts of one unit compare at a glance"


def test_each_sweep_of_a_case_has_its_own_picture(tmp_path: Path) -> None:
    heaps, iterations = '{ heap = ["128KiB", "1MiB", "2GiB"], bytes = [4] }', "{ iterations = [10, 20, 100], bytes = [4] }"
    axes = f"[{heaps}, {iterations}, {{ page = [4096, 8192], bytes = [4, 64, 1024] }}]"
    found = charts_of(view_of(suite_of(tmp_path, axes), {"sharded_spans": 1}))
    assert [words(chart) for chart in found] == [
        ("heap", "log", "4 B"),
        ("iterations", "linear", "4 B"),
        ("bytes", "log", "page 4 KiB"),
        ("bytes", "log", "page 8 KiB"),
    ]
    assert [mark.x for mark in found[0].series[0].marks] == [
        128 << 10,
        1 << 20,
        2 << 30,
    ]


def test_names_on_an_axis_stand_side_by_side_in_the_order_of_the_suite(
    tmp_path: Path,
) -> None:
    (chart,) = charts_of(
        view_of(
            suite_of(tmp_path, '{ graph = ["rome", "athens", "oslo"] }'),
            {"sharded_spans": 1, "cuda_malloc": 2},
        )
    )
    assert (chart.axis, chart.x_scale, chart.labels) == (
        "graph",
        "words",
        ("rome", "athens", "oslo"),
    )
    assert chart.x_words(1) == "athens"


def test_a_suite_may_say_how_it_is_drawn(tmp_path: Path) -> None:
    plot = '{ x = "bytes", curves = "page", metrics = ["malloc_us"], figure = "figure 4", x_scale = "linear", y_scale = "log" }'
    suite = suite_of(
        tmp_path,
        "{ page = [4096, 8192, 16384], bytes = [4, 64, 1024] }",
        plot,
        '["malloc_us", "free_us"]',
    )
    (chart,) = charts_of(view_of(suite, {"scatteralloc": 1}, [("malloc_us", "us"), ("free_us", "us")]))
    assert words(chart) == ("bytes", "linear", "")
    assert [series.label for series in chart.series] == [f"scatteralloc, page {page} KiB" for page in (4, 8, 16)]
    assert [series.curve_index for series in chart.series] == [0, 1, 2]
    assert chart.figure == "figure 4"


def test_times_over_a_baseline_and_variances(tmp_path: Path) -> None:
    plots = '[{ over = "atomic_malloc" }, { statistic = "variance" }]'
    view = view_of(suite_of(tmp_path, "{ bytes = [16, 64] }", plots), {"sharded_spans": 3, "atomic_malloc": 1.5})
    over, variance = charts_of(view)
    assert {series.allocator: [mark.median for mark in series.marks] for series in over.series} == {"sharded_spans": [2, 2], "atomic_malloc": [1, 1]}
    assert (over.title, over.unit, over.y_words(2)) == (
        "malloc, over atomic_malloc",
        "ratio",
        "2",
    )
    assert variance.series[0].marks[0].median == pytest.approx(0.3**2)
    assert variance.y_words(0.25) == "0.25 µs²"


def test_several_axes_along_x_join_their_sweeps_in_one_picture(tmp_path: Path) -> None:
    axes = '[{ scene = ["hall"], triangles = [76_000, 2_169_000] }, { scene = ["soup"], triangles = [500] }]'
    plot = '{ x = ["scene", "triangles"], metrics = ["malloc_us"] }'
    (chart,) = charts_of(view_of(suite_of(tmp_path, axes, plot), {"sharded_spans": 1, "cuda_malloc": 2}))
    assert (chart.axis, chart.x_scale, chart.labels) == ("scene, triangles", "words", ("hall 76K", "hall 2169K", "soup 500"))
    assert chart.series[0].marks[1].words == "gpuheap (sharded_spans) at hall 2169K: 2 µs (1.82 to 2.18 µs)"


def test_some_allocators_some_points_and_means(tmp_path: Path) -> None:
    plot = '{ x = "bytes", where = { bytes = "64.." }, allocators = ["halloc"], statistic = "mean" }'
    view = view_of(suite_of(tmp_path, "{ bytes = [16, 64, 256] }", plot), {"halloc": 1, "cuda_malloc": 2})
    (chart,) = charts_of(view)
    assert [series.allocator for series in chart.series] == ["halloc"]
    assert chart.xs == [64, 256]
    assert chart.title == "malloc, mean"


def test_a_ratio_is_over_the_reference_at_the_point_or_at_that_without_the_curve(tmp_path: Path) -> None:
    plot = '{ x = "bytes", curves = "upstream", over = "cuda_malloc" }'
    suite = suite_of(tmp_path, '{ upstream = ["own", "sharded_spans"], bytes = [16, 64] }', plot)
    view = view_of(suite, {"halloc": 2, "cuda_malloc": 1})
    own = [row for row in view.rows if row.allocator != "cuda_malloc" or row.parameters["upstream"] == "own"]
    (both,) = case_views(own, {"drawn": suite})
    (chart,) = charts_of(both)
    assert [series.label for series in chart.series] == ["cuda_malloc", "halloc, upstream own", "halloc, upstream sharded_spans"]
    # Times rise from point to point: those of the second curve are the third and the fourth.
    assert [[mark.median for mark in series.marks] for series in chart.series] == [[1, 1], [2, 2], [6, 4]]


def test_numbers_of_papers_stand_where_they_belong(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, "{ threads = [1000], bytes = [16, 64] }", metrics='["utilisation"]')
    view = view_of(suite, {"halloc": 0.4}, [("utilisation", "ratio")])

    def value(allocator: str, size: int, threads: int | None = 1000, comparable: bool = True) -> PrintedValue:
        where = ("a paper", "figure 7", "a machine", "drawn", "case", allocator, threads, size, "")
        return PrintedValue(*where, "utilisation", "ratio", 0.75, comparable)

    printed = [value("halloc", 64), value("halloc", 64, 2000), value("kma", 64), value("halloc", 16, None, comparable=False)]
    (chart,) = charts_of(view, printed)
    assert [(number.allocator, number.x, number.value) for number in chart.printed] == [("halloc", 64, 0.75)]
    assert chart.printed[0].words == "halloc in a paper, figure 7 (a machine): 0.75"
    assert "halloc in a paper, figure 7 (a machine): 0.75" in chart_for_page(chart)


def test_a_case_without_times_shows_what_it_measures(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, "{ bytes = [16, 64] }", metrics='["utilisation", "failed_requests"]')
    (chart,) = charts_of(view_of(suite, {"sharded_spans": 0.4}, [("utilisation", "ratio"), ("failed_requests", "count")]))
    assert (chart.metric.name, chart.y_scale) == ("utilisation", "linear")


def test_points_on_no_sweep_are_drawn_all_the_same(tmp_path: Path) -> None:
    view = view_of(suite_of(tmp_path, "{ bytes = [16, 64] }"), {"sharded_spans": 1})
    other = rows_of(
        "drawn",
        "case",
        "sharded_spans",
        "cuda",
        make_point({"bytes": 99}),
        "graph=web.mtx",
        PointResult("ok", "", (Measurement("malloc_us", "us", (1.0,)),)),
    )
    (both,) = case_views([*view.rows, *other], {"drawn": suite_of(tmp_path, "{ bytes = [16, 64] }")})
    assert [chart.fixed for chart in charts_of(both)] == ["", "99 B, graph web.mtx"]


def test_a_finer_sweep_is_drawn_like_the_suites(tmp_path: Path) -> None:
    coarse = suite_of(tmp_path, "{ bytes = [16, 32, 64] }")
    view = view_of(suite_of(tmp_path, "{ bytes = [16, 20, 24, 32, 48, 64] }"), {"sharded_spans": 1})
    (both,) = case_views(view.rows, {"drawn": coarse})
    (chart,) = charts_of(both)
    assert [mark.x for mark in chart.series[0].marks] == [16, 20, 24, 32, 48, 64]


@pytest.mark.parametrize(
    ("plot", "complaint"),
    [
        ('{ x = "page" }', "plot: x: unknown axis 'page'"),
        (
            '{ x_scale = "log10" }',
            "plot: x_scale is 'log10', expected log or linear or words",
        ),
        (
            '{ metrics = ["malloc_ms"] }',
            "plot: unknown metric 'malloc_ms': did you mean 'malloc_us'",
        ),
        (
            "{ where = { bytes = 17 } }",
            "plot: no sweep of the case has these axes and values",
        ),
        ('{ x = ["bytes", "page"] }', "plot: x: unknown axis 'page'"),
        ('{ where = { bytes = "small.." } }', "plot: where bytes is 'small..', expected a range like 16..256, ..256 or 16.."),
        ('{ over = "atomc" }', "plot: unknown allocator 'atomc': did you mean 'atomic_malloc'"),
        ('{ allocators = ["haloc"] }', "plot: unknown allocator 'haloc': did you mean 'halloc'"),
        (
            '{ metrics = ["malloc_us"], in_bytes = true }',
            "plot: in_bytes needs metrics that are ratios to requested bytes: address_range_ratio, footprint_ratio",
        ),
        ('{ statistic = "mode" }', "plot: statistic is 'mode', expected median or mean or variance"),
        (
            '[{ figure = "9a" }, { colour = "red" }]',
            "plot, entry 2: unknown key 'colour'",
        ),
    ],
)
def test_a_mistake_in_a_plot_is_named(tmp_path: Path, plot: str, complaint: str) -> None:
    with pytest.raises(UserError, match="drawn.toml: case: ") as raised:
        suite_of(tmp_path, "{ bytes = [16, 64] }", plot)
    assert complaint in str(raised.value)


VALUES = {"sharded_spans": 1.0, "halloc": 2.0, "kma": 3.0, "atomic_malloc": 0.1, "store_only": 0.01}
TRAITS = {"atomic_malloc": {"free": "never"}}


def test_the_best_is_among_those_that_give_memory_back_and_served_everything(
    tmp_path: Path,
) -> None:
    suite = suite_of(tmp_path, "{ threads = [1000, 1_000_000], bytes = [16, 32, 4096] }")
    found = best_per_pattern([view_of(suite, VALUES)], TRAITS)
    assert [(pattern.where, sorted(pattern.best)) for pattern in found] == [
        ("up to 10,000 threads", ["over 2 KiB", "up to 64 B"]),
        ("over 100,000 threads", ["over 2 KiB", "up to 64 B"]),
    ]
    best = found[0].best["up to 64 B"]
    assert (best.allocator, best.second, best.points, best.contenders) == (
        "sharded_spans",
        "halloc",
        2,
        3,
    )
    assert best.ahead == pytest.approx(2)
    (failed, *_) = best_per_pattern([view_of(suite, VALUES, sharded_spans="crash")], TRAITS)
    assert failed.best["up to 64 B"].allocator == "halloc", "sharded_spans has no value at the second point"
    assert (
        failed.best["up to 64 B"].complete,
        failed.best["up to 64 B"].contenders,
    ) == (2, 3)


def test_who_fails_requests_is_not_the_best(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, "{ bytes = [16, 32] }", metrics='["malloc_us", "failed_requests"]')
    view = view_of(suite, {"halloc": 2.0, "kma": 3.0, "xmalloc": 4.0}, [("malloc_us", "us")])
    short = rows_of(
        "drawn",
        "case",
        "sharded_spans",
        "cuda",
        make_point({"bytes": 16}),
        "",
        PointResult(
            "ok",
            "",
            (
                Measurement("malloc_us", "us", (1.0,)),
                Measurement("failed_requests", "count", (5.0,)),
            ),
        ),
    )
    (both,) = case_views([*view.rows, *short], {"drawn": suite})
    (pattern,) = best_per_pattern([both], {})
    assert pattern.best["up to 64 B"].allocator == "halloc"


def test_two_allocators_are_no_field(tmp_path: Path) -> None:
    view = view_of(
        suite_of(tmp_path, "{ bytes = [16, 32] }"),
        {"sharded_spans": 1.0, "halloc": 2.0, "atomic_malloc": 0.1},
    )
    assert best_per_pattern([view], TRAITS) == []


def test_points_out_of_time_have_a_table(tmp_path: Path) -> None:
    view = view_of(
        suite_of(tmp_path, "{ bytes = [16, 32, 64] }"),
        {"sharded_spans": 1.0, "halloc": 2.0},
        halloc="timeout",
    )
    table = timeouts_table([view], view.allocators, {})
    assert table is not None
    ((line, cell),) = [(line.chip.name, line.cells[0]) for line in table.lines]
    assert (line, cell.value, cell.reason) == ("halloc", "2 of 3", "32 B: as asked")
    assert (
        timeouts_table(
            [view_of(suite_of(tmp_path, "{ bytes = [16] }"), {"sharded_spans": 1.0})],
            ["sharded_spans"],
            {},
        )
        is None
    )


def test_a_line_is_broken_where_a_point_failed() -> None:
    marks = tuple(Mark(x, 1.0, 1.0, 1.0, "") for x in (1, 2, 4, 8))
    whole = Series("sharded_spans", marks, (Failure(16, "timeout", "timeout"),))
    broken = Series("cuda_malloc", marks, (Failure(3, "timeout", "timeout"), Failure(6, "crash", "crash")))
    assert [len(piece) for piece in whole.pieces] == [4]
    assert [[mark.x for mark in piece] for piece in broken.pieces] == [[1, 2], [4], [8]]
    assert Series("cuda_malloc", ()).pieces == []
    chart = chart_with(whole, broken)
    assert failed_words([chart]) == "crashed: cuda_malloc; timed out: sharded_spans, cuda_malloc"
    line = re.search(r'data-n="cuda_malloc".*?<path class="line"[^>]* d="([^"]*)"', chart_for_page(chart))
    assert line is not None and line[1].count("M") == 3
    assert line[1].count("L") == 1


def test_ours_and_the_best_four_are_in_colour() -> None:
    names = ["sharded_spans", "cuda_malloc", "halloc", "kma", "gallatin", "xmalloc", "store_only"]
    values = {name: 10.0 * (number + 1) for number, name in enumerate(names)} | {"sharded_spans": 1000.0, "store_only": 1.0}
    series = [Series(name, tuple(Mark(x, values[name], values[name], values[name], "") for x in (1, 2))) for name in names]
    # The fastest, but at one of the two points only.
    series.append(Series("bulkalloc", (Mark(1, 1.0, 1.0, 1.0, ""),)))
    chart = chart_with(*series)
    assert chart.highlighted == {"sharded_spans", "cuda_malloc", "halloc", "kma", "gallatin"}
    page = chart_for_page(chart)
    assert 'class="series s-xmalloc rest"' in page and 'class="series s-halloc"' in page and 'class="series s-sharded_spans ours"' in page


def chart_with(*series: Series) -> Chart:
    chart = Chart("n", "alloc_single", "malloc", "", "", METRICS["malloc_us"], "bytes", series, unit="us", y_range=(1.0, 1000.0))
    return replace(chart, highlighted=highlight([chart]))
