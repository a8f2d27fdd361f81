"""The modes in which programs of a suite get their memory, and the library's settings for each mode."""

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
    """A prepared mode. `variables` configure the library. `requests` is the number of the profile's requests of which the mode must serve some."""

    variables: dict[str, str]
    requests: int


def prepare_mode(mode: str, history: History, library: Path, folder: Path, traces: Path, only: str) -> Mode:
    """Prepares a mode. `history` is that of the plain run. Plans are written into `folder`, and runs will be traced into `traces`.

    Raises UserError if the mode's allocator is not built or cannot serve, or if no plan can be made from the profile.
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
    # Requests that the pools cannot serve fail, so that the driver's memory does not take part in the measurement.
    variables = {**for_pools(traces, only, POOLS[mode], path), "GPUHEAP_HOST_STRICT": "1"}
    return Mode(variables, sum(pool.requests for pool in plan.pools))
