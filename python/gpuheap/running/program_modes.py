"""The sources of memory for programs of a suite, and the library's settings for each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuheap.files import replace_file
from gpuheap.host.heaps import PREFIX, find_heap, heap_bytes
from gpuheap.host.history import History
from gpuheap.host.plan import beside_a_heap, make_plan
from gpuheap.host.variables import for_pools, for_trace
from gpuheap.paths import find_layout

PLAIN = "plain"
# The names of the modes on the command line and in the library's settings.
POOLS = {"device": "device", "zero_copy": "zero-copy", "unified": "unified"}


@dataclass(frozen=True)
class Mode:
    """A source of memory. `variables`: the library's, without those of a trace. `requests`: those of the profile, not all of which may go to the driver."""

    variables: dict[str, str]
    requests: int


def prepare_mode(mode: str, history: History, library: Path, folder: Path, traces: Path, only: str) -> Mode:
    """`history` is of the plain run; plans go to `folder`, and runs will be traced into `traces`.

    Raises UserError for a mode that this build or this profile has no memory for.
    """
    if mode == PLAIN:
        return Mode(for_trace(traces, only), 0)
    if mode not in POOLS:
        # Requests that the heap cannot serve go to the driver, so the heap gets all the memory that the mode may use.
        heap = find_heap(PREFIX + mode, library, find_layout())
        path = folder / "heap.plan"
        replace_file(path, beside_a_heap(history).text())
        given = {"GPUHEAP_HOST_HEAP_LIBRARY": str(heap), "GPUHEAP_HOST_HEAP_BYTES": str(heap_bytes(None, history))}
        return Mode({**for_pools(traces, only, PREFIX + mode, path), **given}, len(history.allocations))
    plan = make_plan(history)
    path = folder / "pools.plan"
    replace_file(path, plan.text())
    # The run fails unless the pools serve all blocks of the profile.
    variables = {**for_pools(traces, only, POOLS[mode], path), "GPUHEAP_HOST_STRICT": "1"}
    return Mode(variables, sum(pool.requests for pool in plan.pools))
