"""Computes the times of one run, and the program's characteristics, from traces. Calls, launches and counters are summed over the processes of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuheap.host.advise.samples import Program
from gpuheap.host.history import History, launches_of
from gpuheap.host.trace import ALLOCATE, CONTEXT, COPY, LAUNCH, RELEASE, SET, SYNCHRONISE, Trace

# The kinds of driver calls, by their purpose.
KINDS = ("allocate", "free", "copy", "set", "prefetch", "launch", "synchronise", "context", "other")
_BY_KIND = {ALLOCATE: "allocate", RELEASE: "free", COPY: "copy", SET: "set", LAUNCH: "launch", SYNCHRONISE: "synchronise", CONTEXT: "context"}
_BY_NAME = {
    "cuMemcpy": "copy", "cuMemPrefetch": "prefetch", "cuGraphLaunch": "launch", "cuDevicePrimaryCtxRetain": "context", "cuCtxCreate": "context",
}  # fmt: skip
COUNTED = ("served", "driver_allocations", "unprofiled", "too_large", "slot_busy", "refused", "pool_bytes", "elided", "not_elided", "separated")


def kind_of(kind: int, entry: str) -> str:
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    return next((does for name, does in _BY_NAME.items() if entry.startswith(name)), "other")


def times_of(traces: Sequence[Trace]) -> dict[str, Any]:
    """The fields of a Sample that follow from the traces of a run. Times are in nanoseconds."""
    calls: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    launches: Counter[str] = Counter()
    counters: Counter[str] = Counter()
    messages: dict[str, None] = {}
    span_ns = 0
    for trace in traces:
        events = trace.events
        for entry, kind, duration_ns in _summed(events):
            name = trace.entry(entry)
            functions[name] += duration_ns
            calls[kind_of(kind, name)] += duration_ns
        launched = events[(events["kind"] == LAUNCH) & (events["result"] == 0)]
        for name, each in launches_of(trace, launched).items():
            launches[name] += each.api_ns
        for name in COUNTED:
            counters[name] += trace.counters[name]
        messages.update(dict.fromkeys(f"{each.code}: {each.words}" for each in trace.messages))
        if len(events):
            span_ns = max(span_ns, trace.last_ns - int(events["begin_ns"][0]))
    return {
        "span_ns": span_ns, "calls": dict(calls), "functions": dict(functions), "launches": dict(launches), "counters": dict(counters),
        "messages": tuple(messages),
    }  # fmt: skip


def _summed(events: NDArray[Any]) -> list[tuple[int, int, int]]:
    """The (entry, kind, total time in nanoseconds) of each pair of an entry and a kind that occurs."""
    keys = events["entry"].astype("u4") << np.uint32(16) | events["kind"].astype("u4")
    found, which = np.unique(keys, return_inverse=True)
    sums = np.bincount(which, weights=events["duration_ns"].astype("f8"), minlength=len(found))
    return [(int(key) >> 16, int(key) & 0xFFFF, round(total)) for key, total in zip(found, sums, strict=True)]


def program_of(histories: Sequence[History]) -> Program:
    moved = [copy for history in histories for copy in history.copies if "host" in copy.direction and "device" in copy.direction]
    launches: Counter[str] = Counter()
    for history in histories:
        launches.update({name: each.count for name, each in history.launches.items()})
    return Program(
        allocations=sum(len(history.allocations) for history in histories),
        frees=sum(1 for history in histories for each in history.allocations if not each.leaked),
        copies=len(moved),
        copied_bytes=sum(copy.bytes for copy in moved),
        largest_copy_bytes=max((copy.bytes for copy in moved), default=0),
        launches=launches.total(),
        kernels=len(launches),
        dynamic_shared=any(bool((h.trace.events["bytes"][h.trace.events["kind"] == LAUNCH] > 0).any()) for h in histories),
    )
