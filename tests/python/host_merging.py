"""Runs with the library that merges host buffers with device buffers, and what they leave."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from host_tools import Bench, codes

from gpuheap.host.history import history_of
from gpuheap.host.launch import MERGING_LIBRARY
from gpuheap.host.plan import Plan, make_plan
from gpuheap.host.rehearsal import Verdict, verdicts


def planned(bench: Bench, pairs: Sequence[tuple[int, int]] = ()) -> Path:
    """From `trace/`, with these pairs."""
    plan = make_plan(history_of(max(bench.traces("trace"), key=lambda trace: len(trace.events))), paged=True)
    file = bench.folder / "plan"
    file.write_text(Plan(plan.driver, plan.devices, plan.pools, plan.left_out, tuple(pairs)).text())
    return file


def merged(bench: Bench, use: str, plan: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A run with the library that merges; its trace is in `pool/`, the double's log in `log`."""
    (bench.folder / "pool").mkdir(exist_ok=True)
    for old in [*(bench.folder / "pool").iterdir(), *bench.folder.glob("log")]:
        old.unlink()
    own = {"GPUHEAP_HOST_TRACE": str(bench.folder / "pool"), "GPUHEAP_HOST_POOL": "zero-copy", "GPUHEAP_HOST_PLAN": str(plan), "GPUHEAP_HOST_MERGE": use}
    own["DOUBLE_LOG"] = str(bench.folder / "log")
    return bench.run(*bench.program(words), LD_PRELOAD=str(bench.library.with_name(MERGING_LIBRARY)), **{**own, **variables})


def rehearsed(bench: Bench, *words: str) -> list[Verdict]:
    plain = bench.traced(*words)
    ran = merged(bench, "rehearse", planned(bench), *words)
    assert ran.stdout == plain.stdout and errors(ran) == [] and plain.returncode == ran.returncode == 0
    return verdicts([history_of(trace) for trace in bench.traces("pool")])


def proven(found: Sequence[Verdict]) -> list[tuple[int, int]]:
    return [(each.host_site, each.device_site) for each in found if each.proven]


def errors(ran: subprocess.CompletedProcess[str]) -> list[str]:
    return [code for code in codes(ran) if code != "W01"]  # buffers that the program never frees


def counters(bench: Bench) -> tuple[int, int, int]:
    counts: Any = bench.trace("pool").counters
    return counts["elided"], counts["separated"], counts["not_elided"]
