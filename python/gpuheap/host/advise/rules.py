"""The paper's six rules for the choice of a method (section 6.3.1; docs/host.md), evaluated as hypotheses about a program.

The paper measured on a board whose CPU and GPU share their memory. The rules may fail on a card with its own memory, so they only choose among
modes that the measurements cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuheap.host.advise.samples import PLAIN, Kernel, Program
from gpuheap.units import format_bytes, format_count

FIRED, SILENT, UNKNOWN = "fired", "silent", "unknown"

# Where the paper gives no number, the number is the project's, and the comment says so.
HIGH_HIT_RATE = 0.9
LARGE_BYTES = 4 << 20  # the paper's 4 MB: its table counts 1024 x 1024 floats as exactly that
MANY_LAUNCHES = 100  # the project's: the paper calls 24 launches few and 382 many
COALESCED_EXCESS = 0.01  # the project's: the share of excess sectors up to which the paper's "no excess sectors" counts as met
MANY_STALLED = 0.9  # the project's: a share of the resident warps
ZERO_COPY_TRAFFIC = 2.0  # the project's: the bytes that kernels move for each byte copied, above which zero-copy gets a warning


@dataclass(frozen=True)
class Rule:
    number: int
    condition: str
    modes: tuple[str, ...]  # the modes that the rule recommends
    outcome: str
    why: str  # the numbers that decided it, or what is missing


@dataclass(frozen=True)
class Judgement:
    """Rules in the paper's order of importance; the first that fired decides."""

    rules: tuple[Rule, ...]
    decided: Rule | None
    conflicts: tuple[Rule, ...]  # rules that fired too, and recommend none of the deciding rule's modes
    caution: str  # a warning about zero-copy on a card with memory of its own; "" if none is needed

    @property
    def unknown(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if rule.outcome == UNKNOWN)


@dataclass(frozen=True)
class Metrics:
    """The metrics of all of a program's kernels together. Rates are means, weighted by the kernels' times. A metric is None if it is not known."""

    l1_hit: float | None = None
    l2_hit: float | None = None
    excess: float | None = None  # the share of sectors that coalesced accesses would save
    shared_bytes: float | None = None  # the shared memory of a block, the largest of all kernels
    stalled: float | None = None
    l1_requests: float | None = None
    dram_bytes: float | None = None


def metrics_of(kernels: Sequence[Kernel]) -> Metrics:
    sectors = [(each.sectors, each.ideal_sectors) for each in kernels if each.sectors is not None and each.ideal_sectors is not None]
    total = sum(all_sectors for all_sectors, _ in sectors)
    excess = sum(max(0.0, every - ideal) for every, ideal in sectors)
    return Metrics(
        l1_hit=_weighted(kernels, "l1_hit"),
        l2_hit=_weighted(kernels, "l2_hit"),
        excess=(excess / total if total > 0 else 0.0) if sectors else None,
        shared_bytes=max((each.shared_bytes for each in kernels if each.shared_bytes is not None), default=None),
        stalled=_weighted(kernels, "stalled"),
        l1_requests=_sum(kernels, "l1_requests"),
        dram_bytes=_sum(kernels, "dram_bytes"),
    )


def _weighted(kernels: Sequence[Kernel], name: str) -> float | None:
    known = [(getattr(each, name), (each.duration_ns or 1.0) * each.launches) for each in kernels if getattr(each, name) is not None]
    weight = sum(w for _, w in known)
    return sum(value * w for value, w in known) / weight if weight > 0 else None


def _sum(kernels: Sequence[Kernel], name: str) -> float | None:
    known = [getattr(each, name) for each in kernels if getattr(each, name) is not None]
    return sum(known) if known else None


def judge_rules(program: Program, metrics: Metrics) -> Judgement:
    many, size = program.launches > MANY_LAUNCHES, program.largest_copy_bytes
    shape = f"{format_count(program.launches)} launches, largest copy {format_bytes(size)}"
    rules = (
        _rule(1, "L1 and L2 hit rates above 90 %", (PLAIN,), *_hit_rates(metrics)),
        _rule(2, "coalesced access", ("zero-copy", "unified"), *_coalesced(metrics)),
        _rule(3, "many kernels, data of at least 4 MB", ("zero-copy",), many and size >= LARGE_BYTES, shape),
        _rule(4, "few kernels, data of at most 4 MB", ("unified",), not many and size <= LARGE_BYTES, shape)
        if program.launches
        else _rule(4, "few kernels, data of at most 4 MB", ("unified",), False, "no kernel is launched"),
        _rule(5, "shared memory used", ("unified",), *_shared(program, metrics)),
        _rule(6, "many stalled warps", ("zero-copy",), *_stalled(metrics)),
    )
    fired = [rule for rule in rules if rule.outcome == FIRED]
    decided = fired[0] if fired else None
    conflicts = tuple(rule for rule in fired[1:] if decided is not None and not set(rule.modes) & set(decided.modes))
    return Judgement(rules, decided, conflicts, _caution(program, metrics))


def judge_steady(calls: Mapping[str, Mapping[str, int | None]], fastest: Sequence[str]) -> tuple[Rule, ...]:
    """The paper's rules for the steady state of a program (section 6.3.2).

    `calls`: by kind of call and by mode, the number of tops (local maxima) of the distribution of times. `fastest`: the mode with the least time in
    the steady state, and the modes that cannot be told apart from it; empty if there are too few runs.
    """
    mapped, traditional = ("zero-copy", "unified"), (PLAIN, "device")
    known = [(mode, tops) for kind in ("allocate", "copy") for mode, tops in calls.get(kind, {}).items() if tops is not None]
    several = sorted({mode for mode, tops in known if mode in traditional and tops > 1})
    single = sorted({mode for mode, _ in known if mode in mapped} - {mode for mode, tops in known if tops > 1})
    shapes = f"several tops: {', '.join(several) or 'none'}; one top of {' and '.join(mapped)}: {', '.join(single) or 'none'}"
    shortest = (PLAIN, "heap:scatteralloc")
    return (
        _rule(7, "copies and launches are fastest in plain mode or with ScatterAlloc", shortest, any(mode in fastest for mode in shortest) if fastest else None,
              f"least: {', '.join(fastest)}" if fastest else "too few runs"),
        _rule(8, "copies and allocations have several tops in traditional memory, one in others", mapped, bool(several and single) if known else None,
              shapes if known else "too few runs"),
    )  # fmt: skip


def _rule(number: int, condition: str, modes: tuple[str, ...], holds: bool | None, why: str) -> Rule:
    return Rule(number, condition, modes, UNKNOWN if holds is None else FIRED if holds else SILENT, why)


def _hit_rates(metrics: Metrics) -> tuple[bool | None, str]:
    rates = [(name, rate) for name, rate in (("L1", metrics.l1_hit), ("L2", metrics.l2_hit)) if rate is not None]
    words = ", ".join(f"{name} {rate:.0%}" for name, rate in rates)
    if any(rate <= HIGH_HIT_RATE for _, rate in rates):
        return False, words  # one low value decides
    return (True, words) if len(rates) == 2 else (None, words + ", the other rate is not known" if words else "hit rates are not known")


def _coalesced(metrics: Metrics) -> tuple[bool | None, str]:
    if metrics.excess is None:
        return None, "excess sectors are not known"
    return metrics.excess <= COALESCED_EXCESS, f"{metrics.excess:.1%} of the sectors are in excess"


def _shared(program: Program, metrics: Metrics) -> tuple[bool | None, str]:
    if program.dynamic_shared:
        return True, "launches ask for dynamic shared memory"
    if metrics.shared_bytes is None:
        return None, "no launch asks for dynamic shared memory; what kernels declare is not known"
    return metrics.shared_bytes > 0, f"{format_bytes(metrics.shared_bytes)} in a block at most"


def _stalled(metrics: Metrics) -> tuple[bool | None, str]:
    if metrics.stalled is None:
        return None, "stalled warps are not known"
    return metrics.stalled >= MANY_STALLED, f"{metrics.stalled:.0%} of the resident warps wait"


def _caution(program: Program, metrics: Metrics) -> str:
    if metrics.dram_bytes is None or program.copied_bytes == 0:
        return ""
    ratio = metrics.dram_bytes / program.copied_bytes
    if ratio <= ZERO_COPY_TRAFFIC:
        return ""
    return f"profiled kernels move {ratio:.3g} bytes for each byte copied: on a card with its own memory, zero-copy sends them over the bus"
