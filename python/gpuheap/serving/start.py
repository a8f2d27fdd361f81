"""The environment with which a served program starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.host import launch
from gpuheap.host.variables import preloaded


@dataclass(frozen=True)
class Watch:
    """The settings for samples of the heaps while the program runs."""

    seconds: float = 1.0  # between two samples
    file: Path | None = None  # the file for samples as JSON; None: samples are printed on standard error, as text

    @staticmethod
    def asked(wanted: bool, every: float | None, file: Path | None) -> Watch | None:
        """Reads --watch, --every and --watch-file together. Raises UserError if they contradict each other, or if the file cannot be written."""
        if not wanted and file is None:
            if every is not None:
                raise UserError("--every needs --watch or --watch-file: add one of them, or leave out --every")
            return None
        seconds = 1.0 if every is None else every
        if not (0.001 <= seconds <= 86400):
            raise UserError(f"--every is {seconds:g}: give the seconds between two samples, from 0.001 to 86400")
        if file is not None:
            try:
                file.open("ab").close()
            except OSError as error:
                raise UserError(f"--watch-file: '{file}' cannot be written: {error.strerror}") from None
        return Watch(seconds, file)

    def begin(self) -> None:
        """Empties the file, once nothing stands in the way of the run: until then it keeps the samples of the last one."""
        if self.file is not None:
            self.file.write_bytes(b"")


@dataclass(frozen=True)
class Service:
    """The settings by which malloc in a program's kernels is served."""

    library: Path
    provider: Path | None  # None: CUDA's malloc serves the program; kernels may still be timed
    heap_bytes: str | None = None  # as GPUHEAP_BYTES
    stats: bool = False
    cache: Path | None = None
    watch: Watch | None = None

    def variables(self, times: Path | None = None) -> dict[str, str]:
        """The variables for the library; `times` is a folder for the times of kernels."""
        found = {
            "GPUHEAP_RUN_PROVIDER": str(self.provider or ""),
            "GPUHEAP_RUN_CACHE": str(self.cache or ""),
            "GPUHEAP_RUN_TIMES": str(times or ""),
        }
        if self.heap_bytes is not None:
            found["GPUHEAP_BYTES"] = self.heap_bytes
        if self.stats:
            found["GPUHEAP_STATS"] = "json" if os.environ.get("GPUHEAP_STATS") == "json" else "1"
        if self.watch is not None:
            found["GPUHEAP_WATCH"] = f"{self.watch.seconds:g}"
            found["GPUHEAP_WATCH_FILE"] = str(self.watch.file.absolute()) if self.watch.file is not None else ""
        return found

    def environment(self, times: Path | None = None) -> dict[str, str]:
        return preloaded(self.library, self.variables(times))


def check_program(words: Sequence[str]) -> None:
    """Checks a program. Raises UserError if it cannot be run, or if no library can be preloaded into it."""
    if not words or not words[0]:
        raise UserError("name the program to run: gpuheap run [options] ./program arguments")
    if shutil.which(words[0]) is None:
        path = Path(words[0])
        if path.is_dir():
            raise UserError(f"'{words[0]}' is a folder: name the program in it")
        if path.exists():
            if path.suffix in {".cu", ".cpp", ".cc", ".cxx", ".c"}:
                raise UserError(f"'{words[0]}' is source code, and a program is needed: compile it by nvcc, and name what nvcc wrote")
            raise UserError(f"'{words[0]}' is not executable: chmod +x {words[0]}")
        hint = f", or is it ./{words[0]}?" if "/" not in words[0] and (Path.cwd() / words[0]).exists() else ""
        raise UserError(f"'{words[0]}' is not there: give the program's path, or a name that PATH finds{hint}")
    try:
        launch.find_program(words)
    except UserError as error:
        raise UserError(str(error).removeprefix("E12: ")) from None


def cache_folder() -> Path | None:
    """The folder that keeps linked code; None if this user has no folder for it."""
    named = os.environ.get("XDG_CACHE_HOME")
    if named and Path(named).is_absolute():
        return Path(named) / "gpuheap" / "run"
    home = os.environ.get("HOME")
    return Path(home) / ".cache" / "gpuheap" / "run" if home else None
