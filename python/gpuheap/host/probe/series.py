"""Series of equal requests, which gpuheap-host-probe makes. They are kept line by line in a file and can be read back."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpuheap.errors import UserError
from gpuheap.files import append, naming, read_text, replace_file
from gpuheap.paths import Layout

PROGRAM = "gpuheap-host-probe"
DRIVER = ("device", "managed", "host", "async")
KERNEL = "kernel"
VERSION = 1
LINES = "series.jsonl"
_ELSEWHERE = "name another folder with -o"


@dataclass(frozen=True)
class Machine:
    device: str
    driver: int
    memory_bytes: int
    heap_bytes: int  # the size of the heap of malloc in kernels
    lacks: dict[str, str]  # by allocator: why it cannot be measured; "" if it can


@dataclass(frozen=True)
class Series:
    """Equal requests to one allocator. All blocks live until the last request was made. Times are in nanoseconds; for malloc in kernels, in cycles."""

    allocator: str
    bytes: int
    addresses: tuple[int, ...]
    request: tuple[int, ...]
    release: tuple[int, ...]
    kernel: tuple[int, ...] = ()  # the first kernel after each request, from launch to end, by the host's clock
    again: tuple[int, ...] = ()  # the same kernel, launched again right after
    free_bytes: tuple[int, ...] = ()  # the device's free memory after each request
    free_bytes_before: int = 0
    free_bytes_released: int = 0  # after all blocks were freed
    error: int = 0  # the driver's error that ended the series early; 0: none


def series_of(line: dict[str, Any]) -> Series:
    if line["allocator"] == KERNEL:
        return Series(KERNEL, line["bytes"], tuple(line["addresses"]), tuple(line["request_cycles"]), tuple(line["release_cycles"]))
    return Series(
        line["allocator"], line["bytes"], tuple(line["addresses"]), tuple(line["request_ns"]), tuple(line["release_ns"]), tuple(line["kernel_ns"]),
        tuple(line["again_ns"]), tuple(line["free_bytes"]), line["free_bytes_before"], line["free_bytes_released"], line["error"],
    )  # fmt: skip


def machine_of(line: dict[str, Any]) -> Machine:
    if line.get("probe") != VERSION:
        raise ValueError(f"it begins with {str(line)[:60]}, and not with the machine")
    return Machine(line["device"], line["driver"], line["memory_bytes"], line["heap_bytes"], line["lacks"])


def find_program(layout: Layout) -> Path:
    named = os.environ.get("GPUHEAP_HOST_PROBE")
    if named:
        if not Path(named).is_file():
            raise UserError(f"GPUHEAP_HOST_PROBE is '{named}', which is not a file: name {PROGRAM}, or unset it")
        return Path(named).resolve()
    places = [layout.build / preset / "tools" / "host" / "probe" / PROGRAM for preset in ("cuda", "host")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        build = f"cmake --preset cuda -DGPUHEAP_BUILD_TESTS=OFF && cmake --build --preset cuda --target {PROGRAM}"
        raise UserError(f"{PROGRAM} is not built: run {build} in {layout.root} (./demo puts cmake into build/venv/bin)")
    return found


class Asked:
    """The running gpuheap-host-probe, as a context manager. Its answers are also kept in `file`."""

    def __init__(self, program: Path, file: Path, variables: Mapping[str, str] = MappingProxyType({})) -> None:
        """variables: environment variables that are added to those of this process."""
        with naming(program, "run"):
            self._process = subprocess.Popen(
                [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables}
            )
        self._kept = file
        replace_file(file, "", _ELSEWHERE)
        try:
            self.machine = machine_of(self._next())
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            self.__exit__()
            raise UserError(f"{program} is not {PROGRAM}: {error}") from None
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def end(self) -> None:
        """Ends the process: a request that waits for its answer then raises UserError. Any thread may call it."""
        self._process.kill()

    def ask(self, allocator: str, size: int, num: int) -> Series:
        """Makes a series of `num` requests of `size` bytes. Raises UserError if the driver fails for another reason than a lack of memory."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{allocator} {size} {num}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        return series_of(self._next())

    def _next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        append(self._kept, line.encode(), _ELSEWHERE)
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError(f"it says {line[:60]!r}")
        return found

    def _ended(self) -> UserError:
        assert self._process.stderr is not None
        said = self._process.stderr.read().strip().splitlines()
        return UserError(f"{PROGRAM} ended early: {said[-1]}" if said else f"{PROGRAM} ended early with code {self._process.wait()}")


def read_lines(folder: Path) -> tuple[Machine, list[Series]]:
    """Reads the series that a probe kept in a folder. Raises UserError for any other folder. A truncated last line is left out."""
    path = folder / LINES
    try:
        lines = read_text(path).split("\n")[:-1]
        return machine_of(json.loads(lines[0])), list(_all(lines[1:]))
    except UserError as error:
        raise UserError(f"{error}: name the folder that `gpuheap host probe` wrote") from None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} is not an output of `gpuheap host probe`: {type(error).__name__}: {error}") from None


def _all(lines: list[str]) -> Iterator[Series]:
    for line in lines:
        yield series_of(json.loads(line))
