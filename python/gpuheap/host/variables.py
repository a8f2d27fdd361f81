"""The environment variables that configure the library that is preloaded into a program."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gpuheap.errors import UserError


def preloaded(library: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with `variables`, and with the library first in LD_PRELOAD. Raises UserError for a path that LD_PRELOAD cannot hold."""
    if set(str(library)) & set(" :"):
        raise UserError(
            f"'{library}' has a space or a colon in its path, where LD_PRELOAD is split: copy {library.parent} to a path without them, "
            f"and name {library.name} there in GPUHEAP_RUN_LIBRARY (gpuheap run) or GPUHEAP_HOST_LIBRARY (otherwise)"
        )
    before = os.environ.get("LD_PRELOAD", "")
    return {**os.environ, **variables, "LD_PRELOAD": f"{library}:{before}" if before else str(library)}


def for_trace(folder: Path, only: str) -> dict[str, str]:
    return {"GPUHEAP_HOST_TRACE": str(folder), "GPUHEAP_HOST_ONLY": only}


def for_pools(folder: Path, only: str, mode: str, plan: Path) -> dict[str, str]:
    """The variables for the pools of a mode, by the file `plan`. The trace in `folder` holds the counts, and the calls unless GPUHEAP_HOST_EVENTS is 0."""
    return {**for_trace(folder, only), "GPUHEAP_HOST_POOL": mode, "GPUHEAP_HOST_PLAN": str(plan)}


def for_merging(folder: Path, only: str, use: str, plan: Path) -> dict[str, str]:
    """The variables for zero-copy pools whose pairs are rehearsed ("rehearse") or merged ("elide"), for the library of find_merging_library()."""
    return {**for_pools(folder, only, "zero-copy", plan), "GPUHEAP_HOST_MERGE": use}
