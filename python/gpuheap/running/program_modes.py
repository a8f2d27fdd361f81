"""Where programs of a suite get their memory, and what the library is told for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.host.history import History
from gpuheap.host.plan import make_plan
from gpuheap.host.variables import for_pools, for_trace

PLAIN = "plain"
# As the command line and the library spell them.
POOLS = {"device": "device", "zero_copy": "zero-copy", "unified": "unified"}


@dataclass(frozen=True)
class Mode:
    """`variables`: for the library, beside those of a trace. `requests`: of the profile, that must not all go to the driver."""

    variables: dict[str, str]
    requests: int


def prepare_mode(mode: str, history: History, folder: Path, traces: Path, only: str) -> Mode:
    """`history` is of the plain run; plans go to `folder`, and runs will be traced into `traces`.

    Raises UserError for a mode that this build or this profile has no memory for.
    """
    if mode == PLAIN:
        return Mode(for_trace(traces, only), 0)
    if mode not in POOLS:
        raise UserError(f"the library of this build serves no requests from the heap of '{mode}'")
    plan = make_plan(history)
    path = folder / "pools.plan"
    path.write_text(plan.text(), encoding="utf-8")
    # What the profile had is served from the pools, or the run fails.
    variables = {**for_pools(traces, only, POOLS[mode], path), "GPUHEAP_HOST_STRICT": "1"}
    return Mode(variables, sum(pool.requests for pool in plan.pools))
