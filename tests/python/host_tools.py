"""Programs on the driver double, with the host tools before them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "host" / "tests" / "host"
LIBRARY = ROOT / "build" / "host" / "tools" / "host" / "libgpuheap_host.so"

# What CMake says of it, so that ./test tells both once.
NOT_BUILT = "the tool `gpuheap host`, which watches programs of CUDA: not built: install the CUDA toolkit, 13.0 or newer, then ./test"
needs_double = pytest.mark.skipif(not (LIBRARY.exists() and (BUILT / "libcuda.so.1").exists()), reason=NOT_BUILT)


def codes(ran: subprocess.CompletedProcess[str]) -> list[str]:
    """Of the messages of a run, in order."""
    return re.findall(r"^gpuheap: ([EW]\d\d)", ran.stderr, re.MULTILINE)


@dataclass(frozen=True)
class Bench:
    """A folder to run in, and what runs there: by default programs on the double."""

    folder: Path
    built: Path = BUILT
    library: Path = LIBRARY
    driver: str = str(BUILT)  # where libcuda.so.1 is looked for first

    def environment(self, **variables: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("GPUHEAP_HOST", "DOUBLE_", "LD_"))}
        found = {"LD_LIBRARY_PATH": self.driver, "PYTHONPATH": str(ROOT / "python"), "GPUHEAP_HOST_LIBRARY": str(self.library)}
        return {**kept, **found, **variables}

    def plain(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run(*self.program(words), **variables)

    def program(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return (str(self.built / words[0]), *words[1:])

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=self.folder, env=self.environment(**variables), capture_output=True, text=True, timeout=120)

    def gpuheap(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        # Wide enough for names: where several workers test at once they are given 80 columns.
        return self.run(sys.executable, "-m", "gpuheap", *words, **{"COLUMNS": "140", **variables})

    def traced(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """The program with the library before it, as `gpuheap host trace` starts it; its trace is in `trace/`."""
        (self.folder / "trace").mkdir(exist_ok=True)
        for old in (self.folder / "trace").iterdir():
            old.unlink()
        return self.run(*self.program(words), LD_PRELOAD=str(self.library), GPUHEAP_HOST_TRACE=str(self.folder / "trace"), **variables)

    def pooled(self, mode: str, *words: str, strict: bool = False, **variables: str) -> subprocess.CompletedProcess[str]:
        """Likewise with pools, planned from `trace/`; counts are in `pool/`, the double's log in `log`."""
        from gpuheap.host.history import history_of
        from gpuheap.host.plan import make_plan

        plan = self.folder / "plan"
        plan.write_text(make_plan(history_of(max(self.traces("trace"), key=lambda trace: len(trace.events)))).text())
        (self.folder / "pool").mkdir(exist_ok=True)
        for old in [*(self.folder / "pool").iterdir(), *self.folder.glob("log")]:
            old.unlink()
        pools = {"GPUHEAP_HOST_TRACE": str(self.folder / "pool"), "GPUHEAP_HOST_EVENTS": "0", "GPUHEAP_HOST_POOL": mode, "GPUHEAP_HOST_PLAN": str(plan)}
        pools |= {"DOUBLE_LOG": str(self.folder / "log"), "GPUHEAP_HOST_STRICT": "1" if strict else "0"}
        return self.run(*self.program(words), LD_PRELOAD=str(self.library), **{**pools, **variables})

    def traces(self, folder: str) -> list[Any]:
        from gpuheap.host.trace import find_traces, read_trace

        return [read_trace(path) for path in find_traces(self.folder / folder)]

    def trace(self, folder: str = "trace") -> Any:
        found = self.traces(folder)
        assert len(found) == 1
        return found[0]

    def history(self) -> Any:
        from gpuheap.host.history import history_of

        return history_of(self.trace())

    def log(self) -> Counter[str]:
        """The number of times that each call reached the double."""
        path = self.folder / "log"
        return Counter(line.split()[0] for line in path.read_text().splitlines()) if path.exists() else Counter()

    def report(self, folder: str) -> Any:
        ran = self.gpuheap("host", "report", folder, "--json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)
