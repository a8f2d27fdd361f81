"""The sources of memory for programs of a suite, and the library and its settings for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.files import replace_file
from gpuheap.host.heaps import PREFIX, find_heap, heap_bytes
from gpuheap.host.history import History, history_of
from gpuheap.host.launch import find_merging_library
from gpuheap.host.plan import beside_a_heap, make_plan
from gpuheap.host.rehearsal import verdicts
from gpuheap.host.trace import find_traces, read_trace
from gpuheap.host.variables import for_merging, for_pools, for_trace
from gpuheap.paths import find_layout

PLAIN = "plain"
# The names of the modes on the command line and in the library's settings.
POOLS = {"device": "device", "zero_copy": "zero-copy", "zero_copy_shared": "zero-copy", "unified": "unified", "unified_shared": "unified"}
# The modes in which host and device share the program's memory, so that it makes no copies. The program reads the kind of memory from the variable MEMORY.
SHARED = {"zero_copy_shared": "pinned", "unified_shared": "managed"}
MEMORY = "GPUHEAP_PROGRAM_MEMORY"
ELIDE = "zero_copy_elide"  # zero-copy pools, without the downloads that a rehearsal proves needless


@dataclass(frozen=True)
class Mode:
    """A source of memory.

    library: the library that is preloaded into the program. variables: the library's settings. requests: the number of requests in the profile, of which the
    library must serve some in each run; 0 if it serves none. downloads: the number of copies to the host that each run must drop.
    """

    library: Path
    variables: dict[str, str]
    requests: int
    downloads: int = 0


# Runs the program once with a library and its variables, and returns the reason if the run failed or printed something else than the plain one.
Rehearse = Callable[[Path, dict[str, str]], str]


def prepare_mode(mode: str, history: History, library: Path, folder: Path, traces: Path, only: str, rehearse: Rehearse) -> Mode:
    """Prepares a mode. `history` is of the plain run; plans go to `folder`, and runs will be traced into `traces`, which is empty.

    Raises UserError if the mode's allocator is not built or cannot serve, or if no plan can be made from the profile.
    """
    if mode == PLAIN:
        return Mode(library, for_trace(traces, only), 0)
    if mode == ELIDE:
        return _eliding(history, folder, traces, only, rehearse)
    if mode not in POOLS:
        # Requests that the heap cannot serve go to the driver, so the heap gets all the memory that the mode may use.
        heap = find_heap(PREFIX + mode, library, find_layout())
        path = folder / "heap.plan"
        replace_file(path, beside_a_heap(history).text())
        given = {"GPUHEAP_HOST_HEAP_LIBRARY": str(heap), "GPUHEAP_HOST_HEAP_BYTES": str(heap_bytes(None, history))}
        return Mode(library, {**for_pools(traces, only, PREFIX + mode, path), **given}, len(history.allocations))
    plan = make_plan(history)
    path = folder / "pools.plan"
    replace_file(path, plan.text())
    # Requests that the pools cannot serve fail, so that the driver's memory does not take part in the measurement.
    variables = {**for_pools(traces, only, POOLS[mode], path), "GPUHEAP_HOST_STRICT": "1"}
    return Mode(library, variables, sum(pool.requests for pool in plan.pools))


def _eliding(history: History, folder: Path, traces: Path, only: str, rehearse: Rehearse) -> Mode:
    """The mode ELIDE. Its rehearsal makes every copy and watches the pairs of host and device buffers, as that of `gpuheap host validate` does."""
    library = find_merging_library(find_layout())
    path = folder / "paged.plan"
    plan = make_plan(history, paged=True)
    replace_file(path, plan.text())
    why = rehearse(library, for_merging(traces, only, "rehearse", path))
    if why:
        raise UserError(f"no copy can be dropped: in the rehearsal {why}")
    found = verdicts([history_of(read_trace(each)) for each in find_traces(traces)])
    proven = [each for each in found if each.proven]
    if not proven:
        raise UserError(f"no copy can be dropped: {found[0].why if found else 'no device buffer is copied with the host'}")
    replace_file(path, replace(plan, pairs=tuple((each.host_site, each.device_site) for each in proven)).text())
    variables = {**for_merging(traces, only, "elide", path), "GPUHEAP_HOST_STRICT": "1"}
    return Mode(library, variables, sum(pool.requests for pool in plan.pools), sum(each.downloads for each in proven))
