"""The folders of a checkout of the repository, and of the data in an installed package."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpuheap.errors import UserError, printable

# The parts of a checkout that are package data: tables, claims and suites. In a checkout these are links.
RECORDED = Path(__file__).resolve().parent / "recorded"

# The backends, each with the CMake preset that builds it. The preset names the build folder too.
PRESETS = {"cuda": "cuda", "simulator": "host"}


@dataclass(frozen=True)
class Layout:
    """The folders of one checkout, or of the package's own data."""

    root: Path

    @property
    def suites(self) -> Path:
        return self.root / "benchmarks" / "suites"

    @property
    def claims(self) -> Path:
        """The claims of the papers, as data."""
        return self.root / "benchmarks" / "claims"

    @property
    def results(self) -> Path:
        """Tables measured on GPUs, one folder each."""
        return self.root / "results"

    @property
    def build(self) -> Path:
        """The folder of files that commands make. Nothing is written into an installed package."""
        return Path.cwd() / "build" if self.root == RECORDED else self.root / "build"

    @property
    def simulated_results(self) -> Path:
        """Tables of the simulator. They lie outside of `results/`, because that folder holds GPU measurements only."""
        return self.build / "results" / "simulator"

    @property
    def report(self) -> Path:
        return self.build / "report.html"

    def executables(self, backend: str) -> tuple[Path, ...]:
        """Where the builds put the executable of a backend, the usual place first."""
        usual = self.build / PRESETS[backend] / "benchmarks" / "gpuheap-bench"
        # A CUDA build that finds Boost.Context also makes the simulator's executable.
        return (usual, self.build / "cuda" / "benchmarks" / "host" / "gpuheap-bench") if backend == "simulator" else (usual,)

    def shown(self, path: Path) -> str:
        """`path` for a message: relative to the current folder, else relative to the checkout, else as it is. Unprintable characters are escaped."""
        for base in (Path.cwd(), self.root):
            try:
                return printable(str(path.relative_to(base)))
            except ValueError:
                continue
        return printable(str(path))


def find_layout() -> Layout:
    """The checkout: `GPUHEAP_ROOT`, else the checkout that contains this package, else the one that contains the current folder.

    Without a checkout, it is the package's own data, which are enough for commands that only read. Raises UserError if there is neither.
    """
    named = os.environ.get("GPUHEAP_ROOT")
    if named:
        if not (Path(named) / "benchmarks" / "suites").is_dir():
            raise UserError(f"GPUHEAP_ROOT is '{named}', which holds no benchmarks/suites: name a checkout, or unset it")
        return Layout(Path(named).resolve())
    here = Path.cwd()
    for folder in (Path(__file__).resolve().parents[2], here, *here.parents):
        if (folder / "benchmarks" / "suites").is_dir():
            return Layout(folder.resolve())
    if (RECORDED / "benchmarks" / "suites").is_dir():
        return Layout(RECORDED)
    raise UserError("no gpuheap checkout found: run inside one, or set GPUHEAP_ROOT to it")
