"""Suite files: what they mean, and what is said about mistakes in them."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY, SUITE

from gpuheap.errors import UserError
from gpuheap.formats.points import values_of
from gpuheap.formats.results import COLUMNS
from gpuheap.formats.suites import Suite, load_suite, load_suites, select
from gpuheap.paths import Layout
from gpuheap.running.runner import FAILURES_THAT_END_A_GRID


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    (tmp_path / "mini.toml").write_text(SUITE)
    return load_suite(tmp_path / "mini.toml")


def test_points_are_all_combinations_the_last_axis_fastest(suite: Suite) -> None:
    points = suite.case("graph_update", "cuda").points()
    assert [point.argument for point in points] == [
        "threads=100,edge_factor=2,phase=init,scale=4",
        "threads=100,edge_factor=2,phase=update,scale=4",
    ]
    assert points[0].parameter == "edge_factor=2;phase=init;scale=4"


def test_host_overrides_what_it_names(suite: Suite) -> None:
    assert suite.case("alloc_single", "cuda").heap_bytes == 1 << 30
    assert suite.case("alloc_single", "simulator").heap_bytes == 1 << 24
    assert suite.case("alloc_single", "simulator").runs == 4


def test_a_cut_keeps_the_ends_of_each_axis(suite: Suite) -> None:
    case = replace(suite.case("alloc_single", "cuda"), runs=10).cut()
    assert (case.grids[0]["bytes"], case.runs) == ((16, 256), 5)
    assert replace(suite.case("alloc_single", "simulator"), runs=10).cut().runs == 3
    assert case.headline_point().bytes == 16


def test_cases_and_suites_are_chosen_by_name(suite: Suite) -> None:
    suites = {"mini": suite}
    assert select(suites, ["mini"]) == [(suite, ("alloc_single", "churn", "graph_update"))]
    assert select(suites, ["graph_update", "mini/alloc_single"]) == [(suite, ("alloc_single", "graph_update"))]


def test_a_case_without_a_suite_is_of_a_suite_that_compares_allocators() -> None:
    suites = load_suites(Layout(REPOSITORY))
    assert {case: select(suites, [case])[0][0].name for case in ("replay", "larson", "churn_long_lived", "alloc_single", "kmeans_100")} == {
        "replay": "stress",  # and of `ablation`, which measures the default allocator only
        "larson": "stress",
        "churn_long_lived": "heap",
        "alloc_single": "quick",
        "kmeans_100": "programs",
    }


def with_axes(tmp_path: Path, axes: str, host: str = "", lists: str = "{}") -> Suite:
    old = 'axes = { threads = [100], bytes = [16, 32, 64, 128, 256], state = ["warm"] }'
    text = (
        SUITE.replace('brief = "for the tests"', f"lists = {lists}")
        .replace(old, f"axes = {axes}")
        .replace('heap_bytes = "16MiB"', f'heap_bytes = "16MiB"\n{host}')
    )
    (tmp_path / "mini.toml").write_text(text)
    return load_suite(tmp_path / "mini.toml")


TWO_GRIDS = "[{ threads = [100], bytes = [16, 64] }, { threads = [7], bytes = [8192], heap = ['24GiB'] }]"


def test_axes_may_be_a_list_of_which_each_entry_is_all_combinations(tmp_path: Path) -> None:
    case = with_axes(tmp_path, TWO_GRIDS).case("alloc_single", "cuda")
    assert [point.argument for point in case.points()] == [
        "threads=100,bytes=16",
        "threads=100,bytes=64",
        "threads=7,bytes=8192,heap=24GiB",
    ]
    assert case.axes == ("threads", "bytes", "heap")
    assert case.headline_point().argument == "threads=100,bytes=64"


def test_an_allocator_may_have_axes_of_its_own_beside_the_points_of_all(tmp_path: Path) -> None:
    text = SUITE.replace('heap_bytes = "16MiB"', 'heap_bytes = "16MiB"\nvariants = { scatteralloc = { page = [8192, 16384, 65536] } }', 1)
    (tmp_path / "mini.toml").write_text(text)
    case = next(iter(load_suite(tmp_path / "mini.toml").cases.values()))["simulator"]
    everybody, own = case.points(allocator="sharded_spans"), case.points(allocator="scatteralloc")
    assert case.points() == everybody
    assert own[: len(everybody)] == everybody
    assert len(own) == 4 * len(everybody)
    assert {dict(point.others)["page"] for point in own[len(everybody) :]} == {"8192", "16384", "65536"}
    assert "page" in case.axes
    assert {dict(point.others).get("page") for point in case.cut().points(allocator="scatteralloc")} == {None, "8192", "65536"}


def test_axes_of_the_simulator_replace_those_of_the_same_name_or_the_list(tmp_path: Path) -> None:
    by_name = with_axes(tmp_path, TWO_GRIDS, "axes = { threads = [5] }").case("alloc_single", "simulator")
    assert [point.argument for point in by_name.points()] == ["threads=5,bytes=16", "threads=5,bytes=64", "threads=5,bytes=8192,heap=24GiB"]
    all_of_it = with_axes(tmp_path, TWO_GRIDS, "axes = [{ threads = [5], bytes = [64] }]").case("alloc_single", "simulator")
    assert [point.argument for point in all_of_it.points()] == ["threads=5,bytes=64"]


def test_values_may_be_drawn_by_the_seed(tmp_path: Path) -> None:
    suite = with_axes(tmp_path, "[{ threads = [100], bytes = [64] }, { threads = [9], bytes = { draw = 10, from = 1, to = 8192 } }]")
    case = suite.case("alloc_single", "cuda")
    drawn = [point.bytes or 0 for point in case.points(7) if point.threads == 9]
    assert len(set(drawn)) == 10
    assert drawn == sorted(drawn) and drawn[0] >= 1 and drawn[-1] <= 8192
    assert case.points(7) == case.points(7) != case.points(8)
    # Measured rows name these sizes: the draw must never change.
    assert [point.bytes for point in case.points() if point.threads == 9] == [233, 769, 1101, 2090, 3683, 4059, 5338, 6257, 6462, 6943]
    assert len(case.cut().points()) == 1 + 2


def test_axes_may_be_a_named_list_or_follow_a_rule(tmp_path: Path) -> None:
    steps = "{ bytes = { from = 4, to = 13, step = 4 }, threads = { from = 1, to = 20, times = 4 } }"
    axes = f"[{{ bytes = {{ list = 'sizes' }}, threads = [1] }}, {steps}]"
    suite = with_axes(tmp_path, axes, "axes = { bytes = { list = 'sizes' }, threads = [2] }", "{ sizes = [64, 5000] }")
    sizes = [(point.bytes, point.threads) for point in suite.case("alloc_single", "cuda").points()]
    assert sizes == [(64, 1), (5000, 1)] + [(size, threads) for size in (4, 8, 12) for threads in (1, 4, 16)]
    assert [point.bytes for point in suite.case("alloc_single", "simulator").points()] == [64, 5000]


def test_a_suite_may_say_what_quick_and_full_are(tmp_path: Path) -> None:
    others = "quick = { threads = [7], bytes = [64] }\nfull = { threads = [100, 200], bytes = [16, 64] }"
    suite = with_axes(tmp_path, "{ threads = [100], bytes = [16, 64] }\n" + others)
    case = suite.case("alloc_single", "cuda")
    assert [point.argument for point in case.cut().points()] == ["threads=7,bytes=64"]
    assert case.cut().headline_point().argument == "threads=7,bytes=64"
    assert len(case.widened().points()) == 4
    assert case.widened().runs == case.runs
    simulated = suite.case("alloc_single", "simulator")  # has none of its own
    assert len(simulated.cut().points()) == 2
    assert simulated.widened() == simulated


def of_paper(tmp_path: Path, case: str) -> Suite:
    text = SUITE.replace('name = "mini"', 'name = "mini"\npaper = "Somebody 2020"')
    text = text.replace("runs = 4\ntimeout_s = 20", case).replace("runs = 2\ntimeout_s = 20", case)
    (tmp_path / "mini.toml").write_text(text)
    return load_suite(tmp_path / "mini.toml")


def test_rows_of_a_papers_suite_have_five_runs_and_a_minute(tmp_path: Path) -> None:
    good = 'runs = 100\ntimeout_s = 60\npaper = "section 3"\nenough_s = 0.5'
    suite = of_paper(tmp_path, good)
    case = suite.case("churn", "cuda")
    assert (suite.paper, case.paper, case.enough_s) == ("Somebody 2020", "section 3", 0.5)
    assert (case.cut().runs, case.runs_that_count(), case.cut().runs_that_count()) == (5, 5, 5)
    for old, new, complaint in (
        ("runs = 100", "runs = 4", "runs is 4: a case of a paper's suite has at least 5"),
        ("timeout_s = 60", "timeout_s = 30", "timeout_s is 30: a point of a paper's suite has at least 60 s"),
        ('paper = "section 3"\n', "", "paper is missing"),
    ):
        with pytest.raises(UserError, match=complaint):
            of_paper(tmp_path, good.replace(old, new))


@pytest.mark.parametrize("name", ["survey", "gallatin", "regeff", "stress"])
def test_papers_points_have_twenty_runs_unless_one_takes_a_second(name: str) -> None:
    suite = load_suites(Layout(REPOSITORY))[name]
    for case_name in suite.cases:
        case = suite.case(case_name, "cuda")
        batches = min((value for grid in case.grids for value in values_of(grid.get("batches", (1,)))), key=int)
        exact = case.metrics[0].startswith("registers")
        assert exact or case.runs * int(batches) >= 20, case_name  # each batch is a run
        assert case.enough_s == 0 or case.enough_s >= 20, case_name
        assert case.timeout_s >= 60, case_name


def test_without_a_time_that_is_enough_all_runs_count(suite: Suite) -> None:
    assert suite.case("alloc_single", "cuda").runs_that_count() == 4


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('name = "mini"', "", "suite.name is missing"),
        ('heap_bytes = "16MiB"', "heap = 3", "unknown key 'heap'"),
        ("runs = 4", "runs = 0", "runs must be a positive whole number"),
        ("runs = 4", "runs = 2.5", "runs must be a positive whole number"),
        ("timeout_s = 20", "timeout_s = -1", "timeout_s must be a positive number"),
        ("bytes = [16, 32", "bytes = [0, 32", "axis 'bytes' must be a list of positive whole numbers"),
        ("bytes = [16, 32", "bytes = [32, 32", "axis 'bytes' has a value twice"),
        ('state = ["warm"]', 'state = ["warm;cold"]', "must not contain any of , ; ="),
        ("headline = { bytes = 64 }", "headline = { bytes = 65 }", "headline bytes=65 is not on that axis"),
        ("headline = { bytes = 64 }", "headline = { page = 64 }", "unknown key 'page'"),
        ('"malloc_us", "free_us"', '"malloc_us", "fre_us"', "unknown metric 'fre_us': did you mean 'free_us'"),
        ('heap_bytes = "1GiB"', 'heap_bytes = "1 gigabyte"', "'1 gigabyte' is not a size"),
        ("bytes = [16, 32, 64, 128, 256]", "bytes = { draw = 3, from = 5, to = 9 }", "3 numbers cannot be drawn from 5 to 9"),
        ("bytes = [16, 32, 64, 128, 256]", "bytes = { draw = 3, to = 9 }", "axis 'bytes': from must be a positive whole number"),
        ("bytes = [16, 32, 64, 128, 256]", "bytes = { list = 'sizes' }", "unknown list of suite.lists 'sizes'"),
        ("bytes = [16, 32, 64, 128, 256]", "bytes = { from = 1, to = 9 }", "one of draw, step and times"),
        ("bytes = [16, 32, 64, 128, 256]", "bytes = { from = 1, to = 9, times = 1 }", "times must be 2 or more"),
        ("bytes = [16, 32, 64, 128, 256]", "bytes = { from = 1, to = 9, steps = 1 }", "unknown key 'steps'"),
        ('axes = { threads = [100], bytes = [16, 32', "axes = []\nold = { bytes = [16, 32", "unknown key 'old'"),
        ("[[case]]", "[[case]", "(at line"),
        ('name = "churn"', 'name = "alloc_single"', "case 'alloc_single' comes twice"),
    ],
)
def test_a_mistake_is_named_with_the_file(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = tmp_path / "mini.toml"
    path.write_text(SUITE.replace(old, new, 1))
    with pytest.raises(UserError) as error:
        load_suite(path)
    assert str(path) in str(error.value)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_the_suites_of_the_repository_read() -> None:
    suites = load_suites(Layout(REPOSITORY))
    assert set(suites["quick"].cases) == {"alloc_single", "alloc_warp", "alloc_mixed", "alloc_scaling", "churn", "graph_update"}
    assert {name for name, suite in suites.items() if suite.paper} >= {"survey", "gallatin"}
    for suite in suites.values():
        for backends in suite.cases.values():
            for shown in backends.values():
                for case in (shown, shown.cut(), shown.widened()):
                    assert case.headline_point() in case.points()
                case = shown
                assert case.metrics, f"{suite.name}: {case.name} names no metrics"
                assert case.headline_point() in case.points()
                assert not set(case.axes) & (set(COLUMNS) - {"threads", "bytes"}), (
                    f"{suite.name}: {case.name} has an axis named like a column"
                )


def test_a_contender_that_fails_leaves_the_others_of_the_structures_their_points() -> None:
    """Three failing points in a row end a sweep: those of one contender are never three in a row."""
    suite = load_suites(Layout(REPOSITORY))["structures"]
    for name, backends in suite.cases.items():
        contenders = [point.fields.get("which") or point.fields["layout"] for point in backends["cuda"].points()]
        if set(contenders) <= {"successor", "claim"}:
            continue  # two operations of one structure
        for contender in set(contenders):
            runs = [sum(1 for _ in group) for which, group in groupby(contenders) if which == contender]
            assert max(runs) < FAILURES_THAT_END_A_GRID, name
