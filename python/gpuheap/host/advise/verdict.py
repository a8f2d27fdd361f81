"""Computes advice from samples. Nothing is run, so the samples of a kept folder can be judged again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpuheap.host.advise.rules import Judgement, Metrics, Rule, judge_rules, judge_steady, metrics_of
from gpuheap.host.advise.samples import OK, PLAIN, TIMEOUT, Sample, Session, of_mode
from gpuheap.host.advise.statistics import FEWEST_FOR_MEANS, FEWEST_FOR_SHAPES, Ratio, Spread, ratio_of_means, ratio_of_widths, spread_of

# The kinds of calls that a program repeats in its steady state. Section 6.3.2 of the paper leaves out allocation and freeing.
STEADY = ("copy", "set", "prefetch", "launch", "synchronise")
WHOLE_PROGRAM, STEADY_STATE = "whole program", "steady state"


@dataclass(frozen=True)
class Mode:
    """The outcome of a mode's runs. `barred` says why the mode cannot be recommended; "" if it can."""

    name: str
    runs: int  # the number of runs that ended well
    barred: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """One quantity in one mode, compared with plain."""

    mode: str
    spread: Spread
    to_plain: Ratio | None


@dataclass(frozen=True)
class Choice:
    """The choice for one criterion. If none is possible, `mode` is None and `why` has the reason."""

    mode: str | None
    equals: tuple[str, ...]  # the modes that cannot be told apart from the best one; `mode` is one of them
    why: str


@dataclass(frozen=True)
class Verdict:
    scope: str
    lines: tuple[Line, ...]  # fastest mean first
    fastest: Choice
    steadiest: Choice


@dataclass(frozen=True)
class Normalised:
    """A driver function, a kernel or a kind of call: each mode's mean as a multiple of plain's; None if it does not occur in the mode."""

    name: str
    plain_ns: float
    ratios: dict[str, float | None]


@dataclass(frozen=True)
class Advice:
    session: Session
    metrics: Metrics
    rules: Judgement
    steady_rules: tuple[Rule, ...]
    modes: tuple[Mode, ...]
    verdicts: tuple[Verdict, ...]
    calls: tuple[Normalised, ...]  # calls by their purpose
    functions: tuple[Normalised, ...]
    launches: tuple[Normalised, ...]  # time of launch calls by kernel
    kernels: tuple[Normalised, ...]  # time on the device; empty if it is not known
    shapes: dict[str, dict[str, int | None]]  # the number of tops of the distribution of times, by kind of call and mode
    unknown: tuple[str, ...]  # sentences about facts that could not be determined, with the reason


def whole_program(sample: Sample) -> float:
    return float(sample.total_ns)


def steady_state(sample: Sample) -> float:
    return float(sum(sample.calls.get(kind, 0) for kind in STEADY))


def judge(session: Session) -> Advice:
    modes = tuple(mode_of(session, name) for name in session.modes)
    metrics = metrics_of(session.kernels)
    rules = judge_rules(session.program, metrics)
    good = {mode.name: good_samples(session, mode.name) for mode in modes}
    good = {name: samples for name, samples in good.items() if samples}
    allowed = {mode.name for mode in modes if not mode.barred}
    verdicts = tuple(
        verdict_of(scope, {name: [value(sample) for sample in samples] for name, samples in good.items()}, allowed, rules)
        for scope, value in ((WHOLE_PROGRAM, whole_program), (STEADY_STATE, steady_state))
    )
    shapes = _shapes(good)
    return Advice(
        session=session,
        metrics=metrics,
        rules=rules,
        steady_rules=judge_steady(shapes, verdicts[1].fastest.equals),
        modes=modes,
        verdicts=verdicts,
        calls=normalised(good, lambda sample: sample.calls),
        functions=normalised(good, lambda sample: sample.functions),
        launches=normalised(good, lambda sample: sample.launches),
        kernels=_kernel_times(session),
        shapes=shapes,
        unknown=_unknown(session, rules),
    )


def good_samples(session: Session, mode: str) -> list[Sample]:
    """The runs that count: those with plain's exit code and, if all plain runs have the same output, with that output."""
    code, output = _expected(session)
    samples = [sample for sample in of_mode(session.samples, mode) if sample.status == OK and sample.code == code]
    return samples if mode == PLAIN or output is None else [sample for sample in samples if sample.output == output]


def mode_of(session: Session, name: str) -> Mode:
    samples = of_mode(session.samples, name)
    code, output = _expected(session)
    good = good_samples(session, name)
    ended = [sample for sample in samples if sample.status == OK]
    notes = tuple(Counter(words for sample in samples for words in sample.messages).keys())
    if not samples:
        return Mode(name, 0, "it was not run", notes)
    if code is None:
        return Mode(name, len(good), "no plain run ended by itself, so there is nothing to compare with", notes)
    limits = sum(1 for sample in samples if sample.status == TIMEOUT)
    if len(ended) < len(samples):
        words = f"{limits} runs exceeded the time limit" if limits else f"{len(samples) - len(ended)} runs could not be started or were ended by a signal"
        return Mode(name, len(good), f"of {len(samples)} runs, {words}", notes)
    others = Counter(sample.code for sample in ended if sample.code != code)
    if others:
        return Mode(name, len(good), f"it ended {others.total()} of {len(samples)} times with code {others.most_common(1)[0][0]}, and plain with {code}", notes)
    if name == PLAIN:
        return Mode(name, len(good), "", notes)
    if output is None:
        why = "the program's own output differs from run to run, so this mode's cannot be checked: leave the lines that differ out with --ignore"
        return Mode(name, len(good), why, notes)
    if len(good) < len(samples):
        return Mode(name, len(good), f"its output differed from plain's in {len(samples) - len(good)} of {len(samples)} runs", notes)
    if session.program.allocations and all(sample.counters.get("served", 0) == 0 for sample in samples):
        return Mode(name, len(good), "no request was served from a pool" + (f" ({notes[0]})" if notes else ""), notes)
    missed = max(sample.counters.get("driver_allocations", 0) for sample in samples)
    return Mode(name, len(good), "", (f"up to {missed} requests of a run went to the driver", *notes) if missed else notes)


def _expected(session: Session) -> tuple[int | None, str | None]:
    """The exit code of most plain runs and the digest of their output, which is None if the outputs differ from each other."""
    plain = [sample for sample in of_mode(session.samples, PLAIN) if sample.status == OK]
    if not plain:
        return None, None
    outputs = {sample.output for sample in plain}
    return Counter(sample.code for sample in plain).most_common(1)[0][0], outputs.pop() if len(outputs) == 1 else None


def verdict_of(scope: str, values: Mapping[str, Sequence[float]], allowed: set[str], rules: Judgement) -> Verdict:
    """Compares the modes by `values`, which has each mode's values. Modes that are not allowed are shown, but never chosen."""
    plain = values.get(PLAIN, ())
    lines = [Line(name, spread_of(found), ratio_of_means(found, plain) if name != PLAIN else None) for name, found in values.items()]
    lines.sort(key=lambda line: (line.spread.mean, line.mode))
    choices = {name: found for name, found in values.items() if name in allowed}
    return Verdict(scope, tuple(lines), fastest_of(choices, rules), steadiest_of(choices, rules))


def fastest_of(values: Mapping[str, Sequence[float]], rules: Judgement) -> Choice:
    enough = {name: found for name, found in values.items() if len(found) >= FEWEST_FOR_MEANS}
    if not enough:
        return Choice(None, (), f"means are compared from {FEWEST_FOR_MEANS} runs on")
    if max(max(found) for found in enough.values()) <= 0:
        return Choice(None, (), "all its times are 0")
    best = min(enough, key=lambda name: (sum(enough[name]) / len(enough[name]), name))
    return _choice(best, [name for name in enough if name == best or _same(ratio_of_means(enough[name], enough[best]))], rules, "its mean is the least")


def steadiest_of(values: Mapping[str, Sequence[float]], rules: Judgement) -> Choice:
    """The most predictable mode: that with the fewest tops, then the narrowest distribution. A slow mode may be predictable."""
    enough = {name: found for name, found in values.items() if len(found) >= FEWEST_FOR_SHAPES}
    if not enough:
        most = max((len(found) for found in values.values()), default=0)
        why = f"distributions are not judged under {FEWEST_FOR_SHAPES} runs of a mode: there are {most}; use --runs {FEWEST_FOR_SHAPES} or more"
        return Choice(None, (), why)
    if max(max(found) for found in enough.values()) <= 0:
        return Choice(None, (), "all its times are 0")
    spreads = {name: spread_of(found) for name, found in enough.items()}
    fewest = min(spread.tops or 1 for spread in spreads.values())
    single = {name: found for name, found in enough.items() if (spreads[name].tops or 1) == fewest}
    best = min(single, key=lambda name: (spreads[name].width, name))
    equals = [name for name in single if name == best or _same(ratio_of_widths(single[name], single[best]))]
    return _choice(best, equals, rules, "its distribution is the narrowest" + (" of those with one top" if fewest == 1 else f", though it has {fewest} tops"))


def _same(ratio: Ratio | None) -> bool:
    return ratio is None or ratio.is_one


def _choice(best: str, equals: list[str], rules: Judgement, reason: str) -> Choice:
    """Chooses among modes that the measurements cannot tell apart: one that the deciding rule recommends; else plain, which changes nothing; else `best`."""
    if len(equals) == 1:
        return Choice(best, (best,), f"measured: {reason}")
    others = f"the measurements do not tell {_listed(equals)} apart"
    decided = rules.decided
    wanted = [name for name in equals if decided is not None and name in decided.modes]
    if decided is not None and wanted and len(wanted) < len(equals):
        return Choice(best if best in wanted else wanted[0], tuple(equals), f"{others}; rule {decided.number} ({decided.condition}) decides")
    if PLAIN in equals:
        return Choice(PLAIN, tuple(equals), f"{others}; plain changes nothing")
    return Choice(best, tuple(equals), f"{others}; {reason}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1]


def normalised(good: Mapping[str, Sequence[Sample]], part: Callable[[Sample], Mapping[str, float]]) -> tuple[Normalised, ...]:
    """The mean times of each name as multiples of plain's, the longest plain time first. Names that plain lacks are left out."""
    means: dict[str, dict[str, float]] = {}
    for mode, samples in good.items():
        for name in {name for sample in samples for name in part(sample)}:
            means.setdefault(name, {})[mode] = sum(part(sample).get(name, 0) for sample in samples) / len(samples)
    return _to_plain(means, list(good))


def _to_plain(means: Mapping[str, Mapping[str, float]], modes: Sequence[str]) -> tuple[Normalised, ...]:
    found = [
        Normalised(name, of[PLAIN], {mode: of[mode] / of[PLAIN] if mode in of else None for mode in modes if mode != PLAIN})
        for name, of in means.items()
        if of.get(PLAIN, 0) > 0
    ]
    return tuple(sorted(found, key=lambda each: (-each.plain_ns, each.name)))


def _kernel_times(session: Session) -> tuple[Normalised, ...]:
    names = {name for times in session.kernel_times.values() for name in times}
    means = {name: {mode: times[name] for mode, times in session.kernel_times.items() if name in times} for name in names}
    return _to_plain(means, [mode for mode in session.modes if mode in session.kernel_times])


def _shapes(good: Mapping[str, Sequence[Sample]]) -> dict[str, dict[str, int | None]]:
    """The number of tops by kind of call and mode, for allocations and copies, which section 6.3.2 of the paper examines, and for launches."""
    found: dict[str, dict[str, int | None]] = {}
    for kind in ("allocate", "copy", "launch"):
        tops = {mode: spread_of([sample.calls.get(kind, 0) for sample in samples]).tops for mode, samples in good.items()}
        if any(count is not None for count in tops.values()):
            found[kind] = tops
    return found


def _unknown(session: Session, rules: Judgement) -> tuple[str, ...]:
    found = []
    if session.profiler and rules.unknown:
        numbers = ", ".join(str(rule.number) for rule in rules.unknown)
        why = session.profiler + (", without the metrics that they need" if session.kernels else "")
        found.append(f"{'rule' if len(rules.unknown) == 1 else 'rules'} {numbers} could not be evaluated: {why}")
    if session.program.launches and not session.kernel_times:
        where = "a trace holds the host's calls, and the time of a wait for a kernel belongs to the call that waits"
        found.append(f"times of kernels and copies on the device are not known: {where}")
    return tuple(found)
