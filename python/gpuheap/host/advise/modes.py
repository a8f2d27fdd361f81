"""The modes that are measured, and the environment variables that the program gets in each mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuheap.files import make_folder, replace_file
from gpuheap.host import heaps
from gpuheap.host.advise.samples import PLAIN
from gpuheap.host.history import History, history_of
from gpuheap.host.launch import Program, find_merging_library
from gpuheap.host.plan import beside_a_heap, make_plan
from gpuheap.host.pooling import profile_of
from gpuheap.host.rehearsal import verdicts
from gpuheap.host.trace import read_trace
from gpuheap.host.variables import for_merging, for_pools, for_trace, preloaded
from gpuheap.paths import Layout

POOLS = ("device", "zero-copy", "unified")
ELIDE = "elide"  # zero-copy, without the copies between proven pairs of buffers


class Modes:
    """The modes: PLAIN, those of POOLS, ELIDE once pairs are proven, and a heap for each named allocator.

    Every run but that of the profile is traced into one folder; plans are written into another.
    """

    def __init__(self, library: Path, layout: Layout, traces: Path, plans: Path, only: str, allocators: Sequence[str]) -> None:
        """Raises UserError for an allocator whose heap is not built, or cannot take the place of the driver's allocator."""
        self._library, self._traces, self._plans, self._only = library, traces, plans, only
        self._layout = layout
        self._pairs: tuple[tuple[int, int], ...] = ()
        self._heaps = {name: heaps.find_heap(name, library, layout) for name in (heaps.PREFIX + each for each in allocators)}

    @property
    def names(self) -> tuple[str, ...]:
        return (PLAIN, *POOLS, *([ELIDE] if self._pairs else []), *self._heaps)

    def for_profile(self, folder: Path) -> dict[str, str]:
        return preloaded(self._library, for_trace(folder, self._only))

    def for_rehearsal(self, profile: Path, program: Program) -> dict[str, str]:
        """The environment of the rehearsal: the program makes every copy, the library watches the pairs, and the run is traced."""
        make_folder(self._plans)
        file = self._plans / "paged.plan"
        replace_file(file, make_plan(profile_of(profile, program, self._only), paged=True).text())
        return preloaded(find_merging_library(self._layout), for_merging(self._traces, self._only, "rehearse", file))

    def learn_pairs(self) -> int:
        """Keeps the pairs that the rehearsal proved, and returns their number."""
        found = verdicts([history_of(read_trace(path)) for path in self._traces.glob("*.trace")])
        self._pairs = tuple((each.host_site, each.device_site) for each in found if each.proven)
        return len(self._pairs)

    def after_profile(self, folder: Path, program: Program) -> dict[str, dict[str, str]]:
        """The environments by mode, once `folder` holds the profile. Raises UserError for a profile from which no plan can be made."""
        history = profile_of(folder, program, self._only)
        make_folder(self._plans)
        paged = replace(make_plan(history, paged=True), pairs=self._pairs)
        for kind, plan in (("pools", make_plan(history)), ("paged", paged), ("heap", beside_a_heap(history))):
            replace_file(self._plans / f"{kind}.plan", plan.text())
        return {name: preloaded(self._library_of(name), self._variables(name, history)) for name in self.names}

    def _library_of(self, name: str) -> Path:
        return find_merging_library(self._layout) if name == ELIDE else self._library

    def _variables(self, name: str, history: History) -> dict[str, str]:
        if name == PLAIN:
            return for_trace(self._traces, self._only)
        if name == ELIDE:
            return for_merging(self._traces, self._only, "elide", self._plans / "paged.plan")
        if name not in self._heaps:
            return for_pools(self._traces, self._only, name, self._plans / "pools.plan")
        heap = self._heaps[name]
        of_heap = {"GPUHEAP_HOST_HEAP_LIBRARY": str(heap), "GPUHEAP_HOST_HEAP_BYTES": str(heaps.heap_bytes(None, history))}
        return {**for_pools(self._traces, self._only, name, self._plans / "heap.plan"), **of_heap}
