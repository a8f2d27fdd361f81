"""The modes that are measured, and the environment that the program gets in each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuheap.host import heaps
from gpuheap.host.advise.samples import PLAIN
from gpuheap.host.history import History
from gpuheap.host.launch import Program
from gpuheap.host.plan import beside_a_heap, make_plan
from gpuheap.host.pooling import profile_of
from gpuheap.host.variables import for_pools, for_trace, preloaded
from gpuheap.paths import Layout

POOLS = ("device", "zero-copy", "unified")


class Modes:
    """PLAIN, those of POOLS, and a heap for each allocator that is named. Every run is traced into one folder; plans are written into another."""

    def __init__(self, library: Path, layout: Layout, traces: Path, plans: Path, only: str, allocators: Sequence[str]) -> None:
        """Raises UserError for an allocator whose heap is not there, or cannot serve."""
        self._library, self._traces, self._plans, self._only = library, traces, plans, only
        self._heaps = {name: heaps.find_heap(name, library, layout) for name in (heaps.PREFIX + each for each in allocators)}

    @property
    def names(self) -> tuple[str, ...]:
        return (PLAIN, *POOLS, *self._heaps)

    def for_profile(self, folder: Path) -> dict[str, str]:
        return preloaded(self._library, for_trace(folder, self._only))

    def after_profile(self, folder: Path, program: Program) -> dict[str, dict[str, str]]:
        """By name, once `folder` holds the profile. Raises UserError for a profile that no plan can be made from."""
        history = profile_of(folder, program, self._only)
        self._plans.mkdir()
        for kind, plan in (("pools", make_plan(history)), ("heap", beside_a_heap(history))):
            (self._plans / f"{kind}.plan").write_text(plan.text(), encoding="utf-8")
        return {name: preloaded(self._library, self._variables(name, history)) for name in self.names}

    def _variables(self, name: str, history: History) -> dict[str, str]:
        if name == PLAIN:
            return for_trace(self._traces, self._only)
        if name not in self._heaps:
            return for_pools(self._traces, self._only, name, self._plans / "pools.plan")
        heap = self._heaps[name]
        of_heap = {"GPUHEAP_HOST_HEAP_LIBRARY": str(heap), "GPUHEAP_HOST_HEAP_BYTES": str(heaps.heap_bytes(None, history))}
        return {**for_pools(self._traces, self._only, name, self._plans / "heap.plan"), **of_heap}
