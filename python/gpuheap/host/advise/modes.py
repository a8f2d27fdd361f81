"""The modes that are measured, and the environment that the program gets in each."""

from __future__ import annotations

from pathlib import Path

from gpuheap.host.advise.samples import PLAIN
from gpuheap.host.launch import Program
from gpuheap.host.pooling import plan_for
from gpuheap.host.variables import for_pools, for_trace, preloaded

POOLS = ("device", "zero-copy", "unified")


class Modes:
    """PLAIN, and those of POOLS. Every run is traced into one folder; `plan` is where the pools' plan is written to."""

    def __init__(self, library: Path, traces: Path, plan: Path, only: str) -> None:
        self._library, self._traces, self._plan, self._only = library, traces, plan, only

    @property
    def names(self) -> tuple[str, ...]:
        return (PLAIN, *POOLS)

    def for_profile(self, folder: Path) -> dict[str, str]:
        return preloaded(self._library, for_trace(folder, self._only))

    def after_profile(self, folder: Path, program: Program) -> dict[str, dict[str, str]]:
        """By name, once `folder` holds the profile. Raises UserError for a profile that no plan can be made from."""
        self._plan.write_text(plan_for(folder, program, self._only).text(), encoding="utf-8")
        return {name: preloaded(self._library, self._variables(name)) for name in self.names}

    def _variables(self, name: str) -> dict[str, str]:
        return for_trace(self._traces, self._only) if name == PLAIN else for_pools(self._traces, self._only, name, self._plan)
