"""A folder that looks like a checkout, with a benchmark executable that does as it is told."""

from __future__ import annotations

import functools
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]

# Root may write what nobody else may: a command that begins so may not.
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.getuid() == 0 else ()

SUITE = """
[suite]
name = "mini"
brief = "for the tests"
baselines = ["store_only"]

[[case]]
name = "alloc_single"
section = "Allocation"
metrics = ["malloc_us", "free_us"]
heap_bytes = "1GiB"
runs = 4
timeout_s = 20
axes = { threads = [100], bytes = [16, 32, 64, 128, 256], state = ["warm"] }
headline = { bytes = 64 }

[case.simulator]
heap_bytes = "16MiB"

[[case]]
name = "churn"
section = "Mixed use"
metrics = ["kernel_us", "failed_requests"]
heap_bytes = "1GiB"
runs = 4
timeout_s = 20
baselines = []
axes = { threads = [100], bytes = [1024], rounds = [4] }

[[case]]
name = "graph_update"
section = "Applications"
metrics = ["build_ms", "kernel_us", "allocations"]
heap_bytes = "1GiB"
runs = 2
timeout_s = 20
baselines = []
axes = { phase = ["init", "update"], threads = [100], scale = [4], edge_factor = [2] }
"""


class Checkout:
    """A folder that looks like a checkout, and the commands run in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log_file = root / "log"
        self.bench = root / "gpuheap-bench"
        self.environment: dict[str, str] = {}
        self.settings: dict[str, Any] = {}
        (root / "benchmarks" / "suites").mkdir(parents=True)
        (root / "benchmarks" / "suites" / "mini.toml").write_text(SUITE)
        self.build()

    def build(self, text: str = "") -> None:
        """Puts the fake executable in place; another text makes another build."""
        source = (REPOSITORY / "tests" / "python" / "fake_bench.py").read_text().split("\n", 1)[1]
        self.bench.write_text(f"#!{sys.executable}\n{source}\n# {text}\n")
        self.bench.chmod(0o755)

    def variables(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("GPUHEAP_", "FAKE_", "CUDA_VISIBLE"))}
        return {
            **kept,
            "PYTHONPATH": str(REPOSITORY / "python"),
            "GPUHEAP_ROOT": str(self.root),
            "GPUHEAP_BENCH": str(self.bench),
            "FAKE_BENCH": json.dumps(self.settings),
            "FAKE_BENCH_LOG": str(self.log_file),
            "COLUMNS": "200",
            **self.environment,
        }

    def gpuheap(
        self, *arguments: str, cwd: Path | None = None, ordinary: bool = False, largest_file: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`ordinary`: without the rights of root. `largest_file`: as many bytes fit into each file, as on a disk that is almost full."""
        command = [*(WITHOUT_RIGHTS if ordinary else ()), sys.executable, "-m", "gpuheap", *arguments]
        before = None if largest_file is None else functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (largest_file, largest_file))
        return subprocess.run(
            command, cwd=cwd or self.root, env=self.variables(), capture_output=True, text=True, timeout=120, preexec_fn=before
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "gpuheap", *arguments]
        # In the background of a shell the tests inherit ignored interruptions, and so would the programs that they start.
        heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        return subprocess.Popen(
            command, cwd=self.root, env=self.variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed
        )

    @property
    def table(self) -> Path:
        return self.root / "build" / "results" / "simulator" / "mini.csv"

    @property
    def gpu_table(self) -> Path:
        return self.root / "results" / "nvidia-h200" / "mini.csv"

    def log(self) -> list[str]:
        """The calls of the executable since the last look."""
        if not self.log_file.exists():
            return []
        lines = self.log_file.read_text().splitlines()
        self.log_file.unlink()
        return lines

    def points_run(self) -> list[str]:
        return [line.split(" ", 1)[1] for line in self.log() if line.startswith("point ")]

    def fail(self, **faults: str) -> None:
        """`fail(**{"sharded_spans/64": "crash"})`: what happens to an allocator at a size of alloc_single."""
        self.settings["faults"] = {
            f"alloc_single/{where.split('/')[0]}/threads=100,bytes={where.split('/')[1]},state=warm": fault
            for where, fault in faults.items()
        }
