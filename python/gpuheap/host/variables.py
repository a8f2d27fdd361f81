"""What the library that stands before a program is told, through the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def preloaded(library: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """This process's environment, with the library before whatever is preloaded already."""
    before = os.environ.get("LD_PRELOAD", "")
    return {**os.environ, **variables, "LD_PRELOAD": f"{library}:{before}" if before else str(library)}


def for_trace(folder: Path, only: str) -> dict[str, str]:
    return {"GPUHEAP_HOST_TRACE": str(folder), "GPUHEAP_HOST_ONLY": only}


def for_pools(folder: Path, only: str, mode: str, plan: Path) -> dict[str, str]:
    """Pools of a mode by a plan; the trace in `folder` holds the counts, and the calls unless GPUHEAP_HOST_EVENTS is 0."""
    return {**for_trace(folder, only), "GPUHEAP_HOST_POOL": mode, "GPUHEAP_HOST_PLAN": str(plan)}


def for_merging(folder: Path, only: str, use: str, plan: Path) -> dict[str, str]:
    """Zero-copy pools whose pairs are rehearsed ("rehearse") or merged ("elide"); with find_merging_library()."""
    return {**for_pools(folder, only, "zero-copy", plan), "GPUHEAP_HOST_MERGE": use}
