"""Judgement over made-up samples: what is said for each kind of data, and what is not."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import fake_ncu
import numpy as np
import pytest

from gpuheap.errors import UserError
from gpuheap.host.advise import nsight
from gpuheap.host.advise.rules import FIRED, SILENT, UNKNOWN, Metrics, judge_rules, judge_steady, metrics_of
from gpuheap.host.advise.runs import run_process, seconds_left
from gpuheap.host.advise.samples import (
    FAILED,
    OK,
    PLAIN,
    TIMEOUT,
    Kernel,
    Program,
    Sample,
    Session,
    append_sample,
    read_session,
    write_about,
)
from gpuheap.host.advise.show import as_json, decision_words
from gpuheap.host.advise.statistics import num_tops, ratio_of_means, ratio_of_widths, spread_of
from gpuheap.host.advise.verdict import Advice, fastest_of, judge, steadiest_of

SMALL = Program(allocations=3, frees=3, copies=3, copied_bytes=48 << 10, largest_copy_bytes=16 << 10, launches=4, kernels=2, dynamic_shared=False)
NO_RULE = judge_rules(dataclasses.replace(SMALL, largest_copy_bytes=8 << 20), Metrics())
Series = Callable[[np.random.Generator, int], np.ndarray]


def normal(mean: float, deviation: float) -> Series:
    return lambda random, runs: np.maximum(random.normal(mean, deviation, runs), 1)


def two_tops(low: float, high: float, deviation: float) -> Series:
    return lambda random, runs: np.where(random.random(runs) < 0.4, random.normal(high, deviation, runs), random.normal(low, deviation, runs))


def session_of(totals: dict[str, Series], runs: int = 30, program: Program = SMALL, **changed: object) -> Session:
    random = np.random.default_rng(5)
    samples = [
        Sample(mode, number, OK, 0, "same", round(value), calls={"copy": round(value / 4), "launch": round(value / 8), "allocate": 1000},
               functions={"cuMemcpyHtoD_v2": round(value / 4)}, launches={"scale": round(value / 8)}, counters={"served": 0 if mode == PLAIN else 3})
        for mode, series in totals.items()
        for number, value in enumerate(series(random, runs))
    ]  # fmt: skip
    return Session(("./app",), tuple(totals), runs, program, samples=tuple(samples), profiler="no profiler", **changed)  # type: ignore[arg-type]


def altered(session: Session, mode: str, **changed: object) -> Session:
    return dataclasses.replace(session, samples=tuple(dataclasses.replace(s, **changed) if s.mode == mode else s for s in session.samples))  # type: ignore[arg-type]


def choices(advice: Advice) -> list[str | None]:
    return [choice.mode for verdict in advice.verdicts for choice in (verdict.fastest, verdict.steadiest)]


def test_a_faster_mode_is_recommended_for_both_scopes_and_nothing_is_said_of_distributions_under_a_hundred_runs() -> None:
    advice = judge(session_of({PLAIN: normal(100e6, 2e6), "device": normal(80e6, 2e6), "unified": normal(120e6, 1e6)}))
    assert choices(advice) == ["device", None, "device", None]
    assert "not judged under 100 runs" in advice.verdicts[0].steadiest.why and "there are 30" in advice.verdicts[0].steadiest.why
    assert [line.mode for line in advice.verdicts[0].lines] == ["device", PLAIN, "unified"]
    ratio = advice.verdicts[0].lines[0].to_plain
    assert ratio is not None and ratio.low < 0.8 < ratio.high and not ratio.is_one
    assert all(line.spread.tops is None for line in advice.verdicts[0].lines)


def test_with_a_hundred_runs_the_narrowest_of_one_top_is_predictable_though_it_is_slow() -> None:
    totals = {PLAIN: two_tops(100e6, 140e6, 1e6), "device": two_tops(80e6, 90e6, 0.5e6), "unified": normal(150e6, 1e6), "zero-copy": normal(150e6, 6e6)}
    advice = judge(session_of(totals, runs=120))
    assert choices(advice)[:2] == ["device", "unified"]
    tops = {line.mode: line.spread.tops for line in advice.verdicts[0].lines}
    assert tops == {PLAIN: 2, "device": 2, "unified": 1, "zero-copy": 1}
    assert advice.shapes["copy"] == tops and "one top" in advice.verdicts[0].steadiest.why


def test_where_all_have_several_tops_the_one_with_the_fewest_is_named_as_such() -> None:
    random = np.random.default_rng(3)
    three = np.concatenate([random.normal(mean, 1, 60) for mean in (100, 150, 220)])
    two = np.concatenate([random.normal(mean, 1, 90) for mean in (100, 300)])
    choice = steadiest_of({PLAIN: list(three), "device": list(two)}, NO_RULE)
    assert choice.mode == "device" and "though it has 2 tops" in choice.why


def test_what_measuring_cannot_tell_apart_is_a_tie_that_the_deciding_rule_breaks() -> None:
    same = {PLAIN: normal(100e6, 5e6), "device": normal(100e6, 5e6), "unified": normal(100e6, 5e6)}
    advice = judge(session_of(same))
    choice = advice.verdicts[0].fastest
    assert advice.rules.decided is not None and advice.rules.decided.number == 4
    assert choice.mode == "unified" and set(choice.equals) == set(same) and "rule 4" in choice.why
    without = judge(session_of(same, program=dataclasses.replace(SMALL, largest_copy_bytes=8 << 20)))
    assert without.rules.decided is None and without.verdicts[0].fastest.mode == PLAIN and "plain changes nothing" in without.verdicts[0].fastest.why
    slower_plain = judge(session_of({**same, PLAIN: normal(200e6, 5e6), "unified": normal(200e6, 5e6), "zero-copy": normal(100e6, 5e6)}))
    assert slower_plain.verdicts[0].fastest.mode in ("device", "zero-copy") and len(slower_plain.verdicts[0].fastest.equals) == 2


def test_a_rule_never_overrules_what_was_measured() -> None:
    advice = judge(session_of({PLAIN: normal(100e6, 1e6), "unified": normal(101.5e6, 1e6)}, runs=60))
    assert advice.rules.decided is not None and advice.rules.decided.modes == ("unified",)
    assert advice.verdicts[0].fastest.mode == PLAIN and "the measurements favour plain" in decision_words(advice)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"output": "other"}, "output differed from plain's in 30 of 30"),
        ({"code": 3}, "ended 30 of 30 times with code 3, and plain with 0"),
        ({"status": FAILED, "code": 139}, "ended by a signal"),
        ({"status": TIMEOUT}, "exceeded the time limit"),
        ({"counters": {"served": 0}, "messages": ("E08: the device lacks it",)}, "no request was served from a pool (E08: the device lacks it)"),
    ],
)
def test_a_mode_that_fails_in_any_way_is_told_and_never_recommended(changed: dict[str, object], words: str) -> None:
    advice = judge(altered(session_of({PLAIN: normal(100e6, 1e6), "device": normal(50e6, 1e6), "unified": normal(90e6, 1e6)}), "device", **changed))
    barred = {mode.name: mode.barred for mode in advice.modes}
    assert words in barred["device"] and barred[PLAIN] == barred["unified"] == ""
    assert choices(advice) == ["unified", None, "unified", None]


def test_one_wrong_output_in_many_runs_is_enough() -> None:
    session = session_of({PLAIN: normal(100e6, 1e6), "device": normal(50e6, 1e6)})
    samples = list(session.samples)
    samples[-1] = dataclasses.replace(samples[-1], output="other")
    advice = judge(dataclasses.replace(session, samples=tuple(samples)))
    assert "in 1 of 30 runs" in advice.modes[1].barred and choices(advice)[0] == PLAIN


def test_a_program_whose_own_output_differs_allows_no_mode_but_plain() -> None:
    session = session_of({PLAIN: normal(100e6, 1e6), "device": normal(50e6, 1e6)})
    samples = tuple(dataclasses.replace(s, output=str(s.round)) for s in session.samples)
    advice = judge(dataclasses.replace(session, samples=samples))
    assert "--ignore" in advice.modes[1].barred and advice.modes[0].barred == "" and choices(advice)[0] == PLAIN


def test_a_plain_run_that_never_ends_by_itself_leaves_nothing_to_compare_with() -> None:
    advice = judge(altered(session_of({PLAIN: normal(100e6, 1e6), "device": normal(50e6, 1e6)}), PLAIN, status=FAILED, code=139))
    assert all(mode.barred for mode in advice.modes) and choices(advice) == [None] * 4


def test_an_exit_code_that_is_the_programs_own_is_no_failure() -> None:
    session = session_of({PLAIN: normal(100e6, 1e6), "device": normal(50e6, 1e6)})
    advice = judge(dataclasses.replace(session, samples=tuple(dataclasses.replace(s, code=4) for s in session.samples)))
    assert choices(advice)[0] == "device"


def test_interrupted_after_few_runs_it_says_what_it_can() -> None:
    session = session_of({PLAIN: normal(100e6, 1e6), "device": normal(50e6, 1e6)}, runs=3)
    advice = judge(session)
    assert choices(advice) == [None] * 4 and "from 5 runs on" in advice.verdicts[0].fastest.why
    nothing = judge(dataclasses.replace(session, samples=()))
    assert choices(nothing) == [None] * 4 and [mode.barred for mode in nothing.modes] == ["it was not run"] * 2


def test_a_program_without_kernels_and_copies_has_no_steady_state() -> None:
    program = Program(2, 2, 0, 0, 0, 0, 0, False)
    session = session_of({PLAIN: normal(100e6, 1e6), "device": normal(90e6, 1e6)}, runs=100, program=program)
    session = dataclasses.replace(session, samples=tuple(dataclasses.replace(s, calls={"allocate": 1000}, launches={}) for s in session.samples))
    advice = judge(session)
    assert choices(advice)[0] == "device" and choices(advice)[2:] == [None, None]
    assert "all its times are 0" in advice.verdicts[1].fastest.why and advice.launches == () and advice.kernels == ()
    assert all(rule.outcome != FIRED for rule in advice.rules.rules) and not any("times of kernels" in words for words in advice.unknown)


def test_everything_is_beside_plain() -> None:
    advice = judge(session_of({PLAIN: normal(100e6, 1e6), "device": normal(50e6, 1e6)}))
    assert [(row.name, row.ratios["device"]) for row in advice.calls] == [
        ("copy", pytest.approx(0.5, rel=0.02)), ("launch", pytest.approx(0.5, rel=0.02)), ("allocate", 1.0)
    ]  # fmt: skip
    timed = dataclasses.replace(advice.session, kernel_times={PLAIN: {"scale": 10.0, "gone": 1.0}, "device": {"scale": 15.0, "new": 1.0}})
    assert [(row.name, row.ratios) for row in judge(timed).kernels] == [("scale", {"device": 1.5}), ("gone", {"device": None})]


# --- the rules


@pytest.mark.parametrize(
    ("launches", "largest", "fired"),
    [(2046, 4 << 20, [3]), (382, 16 << 20, [3]), (1, 4 << 20, [4]), (4, 64 << 10, [4]), (3, 111 << 20, []), (502, 919664, []), (0, 0, [])],
)
def test_size_and_number_of_kernels(launches: int, largest: int, fired: list[int]) -> None:
    rules = judge_rules(dataclasses.replace(SMALL, launches=launches, largest_copy_bytes=largest), Metrics())
    assert [rule.number for rule in rules.rules if rule.outcome == FIRED] == fired


def test_without_a_profiler_four_rules_are_unknown_and_said_to_be() -> None:
    advice = judge(session_of({PLAIN: normal(1e6, 1e4)}))
    assert [rule.number for rule in advice.rules.unknown] == [1, 2, 5, 6]
    assert advice.unknown[0] == "rules 1, 2, 5, 6 could not be evaluated: no profiler"


def test_dynamic_shared_memory_is_seen_without_a_profiler_and_a_low_rate_settles_the_first_rule() -> None:
    rules = judge_rules(dataclasses.replace(SMALL, dynamic_shared=True), Metrics(l1_hit=0.4))
    assert [rule.outcome for rule in rules.rules] == [SILENT, UNKNOWN, SILENT, FIRED, FIRED, UNKNOWN]


def test_the_first_rule_that_holds_decides_and_those_against_it_are_named() -> None:
    metrics = Metrics(l1_hit=0.95, l2_hit=0.97, excess=0.0, shared_bytes=1024, stalled=0.95, dram_bytes=1e9)
    rules = judge_rules(SMALL, metrics)
    assert [rule.outcome for rule in rules.rules] == [FIRED, FIRED, SILENT, FIRED, FIRED, FIRED]
    assert rules.decided is not None and rules.decided.number == 1 and [rule.number for rule in rules.conflicts] == [2, 4, 5, 6]
    without = judge_rules(SMALL, dataclasses.replace(metrics, l2_hit=0.5))
    assert without.decided is not None and without.decided.number == 2 and without.conflicts == ()  # 4, 5 and 6 choose one of its two
    assert "over the bus" in rules.caution and judge_rules(SMALL, dataclasses.replace(metrics, dram_bytes=1000.0)).caution == ""


def test_what_the_paper_says_of_the_steady_state() -> None:
    tops = {"copy": {PLAIN: 2, "device": 1, "unified": 1, "zero-copy": 2}, "allocate": {PLAIN: 1, "unified": 1}, "launch": {PLAIN: 3}}
    assert [rule.outcome for rule in judge_steady(tops, ("device", PLAIN))] == [FIRED, FIRED]
    assert judge_steady(tops, ())[1].why == "several tops: plain; one top of zero-copy and unified: unified"
    assert [rule.outcome for rule in judge_steady({"copy": {PLAIN: 1, "unified": 1}}, ("device",))] == [SILENT, SILENT]
    assert [rule.outcome for rule in judge_steady({}, ())] == [UNKNOWN, UNKNOWN]


def test_metrics_of_several_kernels_are_weighted_by_their_time() -> None:
    kernels = (Kernel("a", 1, 3000.0, l1_hit=1.0, sectors=100, ideal_sectors=50), Kernel("b", 3, 3000.0, l1_hit=0.6, sectors=100, ideal_sectors=100))
    metrics = metrics_of(kernels)
    assert metrics.l1_hit == pytest.approx(0.7) and metrics.excess == 0.25 and metrics.l2_hit is None and metrics.stalled is None


# --- statistics


@pytest.mark.parametrize("seed", range(12))
def test_tops_of_known_distributions(seed: int) -> None:
    random = np.random.default_rng(seed)
    for runs in (100, 500):
        assert num_tops(random.normal(100, 3, runs)) == 1
        assert num_tops(random.lognormal(0, 0.3, runs)) == 1
        assert num_tops(np.where(random.random(runs) < 0.3, random.normal(110, 1.5, runs), random.normal(100, 1.5, runs))) == 2
    assert num_tops(np.concatenate([random.normal(mean, 2, 100) for mean in (100, 130, 170)])) == 3
    outliers = np.concatenate([random.normal(100, 1, 490), random.normal(5000, 1, 10)])
    assert num_tops(outliers) == 1  # 2 % are no top


def test_equal_values_have_one_top_and_no_width() -> None:
    spread = spread_of([5.0] * 200)
    assert (spread.tops, spread.width, spread.deviation) == (1, 0.0, 0.0)
    assert spread_of([7.0]).deviation == 0.0 and spread_of([1.0, 2.0]).tops is None


def test_ratios_need_runs_and_something_to_divide_by() -> None:
    assert ratio_of_means([1.0] * 4, [1.0] * 9) is None and ratio_of_means([1.0] * 9, [0.0] * 9) is None
    assert ratio_of_widths([1.0] * 99, [1.0] * 100) is None
    found = ratio_of_means([2.0] * 9, [1.0] * 9)
    assert found is not None and (found.value, found.low, found.high) == (2.0, 2.0, 2.0)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    held = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        ratio = ratio_of_means(random.normal(110, 10, 30), random.normal(100, 10, 30))
        assert ratio is not None
        held += ratio.low <= 1.1 <= ratio.high
    assert 178 <= held <= 200


def test_choices_do_not_depend_on_the_order_of_the_modes() -> None:
    random = np.random.default_rng(1)
    values = {name: list(random.normal(100, 5, 120)) for name in (PLAIN, "device", "unified")}
    found = {(fastest_of(dict(order), NO_RULE).mode, steadiest_of(dict(order), NO_RULE).mode) for order in itertools.permutations(values.items())}
    assert len(found) == 1


# --- Nsight Compute's CSV


def test_the_raw_page_is_read() -> None:
    first, second = nsight.kernels_of(nsight.parse(fake_ncu.printed(list(nsight.METRICS))))
    assert (first.name, first.launches, first.duration_ns, second.duration_ns) == ("_Z5scalePjPKjj", 2, 6000.0, 2000.0)
    assert (second.l1_hit, second.l2_hit, second.shared_bytes, first.shared_bytes) == (0.955, 0.91, 0.0, 4096.0)
    assert (first.sectors, first.ideal_sectors, first.dram_bytes, first.stalled) == (6000.0, 4000.0, 6e6, pytest.approx(0.98))
    assert first.stalls == {"long_scoreboard": 20.0, "wait": 2.0}


def test_units_and_missing_metrics() -> None:
    heads = '"ID","Kernel Name","gpu__time_duration.sum","dram__bytes.sum","lts__t_sector_hit_rate.pct"\n'
    text = heads + '"","","usecond","Mbyte","%"\n"0","k","1,005.5","2","n/a"\n'
    (kernel,) = nsight.kernels_of(nsight.parse(text))
    assert (kernel.duration_ns, kernel.dram_bytes, kernel.l2_hit, kernel.stalls) == (1005500.0, 2e6, None, {})
    assert nsight.parse("") == nsight.parse("==ERROR== no\n") == []


HEADS = '"ID","Kernel Name","gpu__time_duration.sum","lts__t_sector_hit_rate.pct"\n"","","ns","%"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEADS + '"0","k","1,000"\n', "a row has 3 cells below 4 heads"),
        (HEADS + '"0","k","1,000","7","8"\n', "a row has 5 cells below 4 heads"),
        (HEADS + '"0","k","1,000","12 of 30"\n', "lts__t_sector_hit_rate.pct is '12 of 30', which is no number"),
        (HEADS.replace("Kernel Name", "Kernel"), "no column 'Kernel Name'"),
    ],
)
def test_a_table_that_is_no_table_is_refused(text: str, words: str) -> None:
    with pytest.raises(nsight.Garbled) as error:
        nsight.parse(text)
    assert words in str(error.value)


def test_accesses_are_told_by_launch() -> None:
    slow = ("k", {nsight.DURATION: 3.0, "l1tex__t_sector_hit_rate.pct": 90.0, "memory_l2_theoretical_sectors_global": 300.0,
                  "memory_l2_theoretical_sectors_global_ideal": 100.0})  # fmt: skip
    fast = ("k", {nsight.DURATION: 1.0, "l1tex__t_sector_hit_rate.pct": 50.0, "memory_l2_theoretical_sectors_global": 100.0,
                  "memory_l2_theoretical_sectors_global_ideal": 100.0})  # fmt: skip
    found = nsight.accesses_of([slow, fast])
    assert found == {"launches": 2, "l1_hit_rate": pytest.approx(0.8), "excess_sectors": 100, "excess_sector_ratio": 0.5}
    none = ("k", {"memory_l1_wavefronts_shared": 0.0, "memory_l1_wavefronts_shared_ideal": 0.0})
    assert nsight.accesses_of([none]) == {"launches": 1, "excess_wavefronts": 0, "excess_wavefront_ratio": 0}


@pytest.mark.parametrize(
    ("log", "words"),
    [("==ERROR== ERR_NVGPUCTRPERM - no", "run as root"), ("==PROF== x\n==ERROR== Unknown option\n", "Unknown option"), ("", "did not say why")],
)
def test_why_there_is_no_report(log: str, words: str) -> None:
    assert words in nsight.failure_words(log)


# --- what is kept


def test_a_session_is_read_as_it_was_written_and_a_torn_line_is_left_out(tmp_path: Path) -> None:
    session = session_of({PLAIN: normal(1e6, 1e4), "heap:scatteralloc": normal(1e6, 1e4)}, runs=4)
    session = dataclasses.replace(session, kernels=(Kernel("a", 1, 3.0, stalls={"wait": 1.0}),), kernel_times={PLAIN: {"a": 3.0}}, ignored=("x",))
    write_about(tmp_path, session)
    for sample in session.samples:
        append_sample(tmp_path, sample)
    assert read_session(tmp_path) == session
    path = tmp_path / "samples.jsonl"
    path.write_text(path.read_text()[:-20])
    assert read_session(tmp_path).samples == session.samples[:-1]
    assert as_json(judge(session))["modes"][1]["name"] == "heap:scatteralloc"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "holds no samples"), ({"about.json": '{"version": 9}'}, "another version"), ({"about.json": '{"version": 1}'}, "damaged"),
        ({"about.json": "{"}, "holds no samples"),
    ],
)
def test_what_is_no_session_is_refused(tmp_path: Path, files: dict[str, str], words: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=words):
        read_session(tmp_path)


def test_a_run_that_goes_on_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    words: Sequence[str] = ("sh", "-c", "sleep 60 & wait")
    ended = run_process(words, {"PATH": "/usr/bin:/bin"}, tmp_path / "out", tmp_path / "err", 0.2)
    assert (ended.code, ended.in_time) == (None, False) and ended.nanoseconds < 20e9
    assert run_process(("sh", "-c", "exit 5"), {"PATH": "/usr/bin:/bin"}, tmp_path / "out", tmp_path / "err", 60).code == 5


def test_the_time_left_is_each_modes_own() -> None:
    assert seconds_left({PLAIN: []}, {PLAIN: 3}) is None
    assert seconds_left({PLAIN: [1.0, 3.0], "device": [10.0], "unified": []}, {PLAIN: 2, "device": 1, "unified": 1}) == pytest.approx(4 + 10 + 14 / 3)
