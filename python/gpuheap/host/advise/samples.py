"""The measurements of a program's runs, and the folder that keeps them: about.json, and samples.jsonl with a line that is written when a run ends."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from gpuheap.errors import UserError
from gpuheap.files import append, read_text, replace_file

PLAIN = "plain"
OK, FAILED, TIMEOUT = "ok", "failed", "timeout"
VERSION = 1
SAMPLES, ABOUT, PROFILE, REPORT = "samples.jsonl", "about.json", "profile", "report.html"

_ELSEWHERE = "name another folder with -o"

Record = TypeVar("Record")


@dataclass(frozen=True)
class Sample:
    """One run. Times are in nanoseconds. The time of a call is the time for which the program waits for it."""

    mode: str
    round: int
    status: str  # OK: the run ended by itself, with any exit code
    code: int
    output: str  # the digest of its output
    total_ns: int  # of the process, from its start to its end
    span_ns: int = 0  # from the first driver call to the last
    calls: dict[str, int] = field(default_factory=dict)  # time by kind of call: measure.KINDS
    functions: dict[str, int] = field(default_factory=dict)  # time by driver function
    launches: dict[str, int] = field(default_factory=dict)  # time of launch calls by kernel
    counters: dict[str, int] = field(default_factory=dict)  # the pools' counters: measure.COUNTED
    messages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """Nsight Compute's metrics of a kernel over its profiled launches. A metric is None if Nsight Compute does not report it."""

    name: str
    launches: int
    duration_ns: float | None = None  # of one launch, mean
    l1_hit: float | None = None  # 0..1
    l2_hit: float | None = None
    shared_bytes: float | None = None  # of a block
    sectors: float | None = None  # the sectors of global memory that all launches access
    ideal_sectors: float | None = None  # the sectors that coalesced accesses would need
    l1_requests: float | None = None
    dram_bytes: float | None = None
    stalled: float | None = None  # the share of resident warps that are stalled
    stalls: dict[str, float] = field(default_factory=dict)  # by reason: the stalled warps for each instruction issued


@dataclass(frozen=True)
class Program:
    """The program's characteristics (section 5.1 of the paper), from the traced run. They are the same in every mode."""

    allocations: int
    frees: int
    copies: int  # between host and device
    copied_bytes: int
    largest_copy_bytes: int
    launches: int
    kernels: int  # the number of different kernels
    dynamic_shared: bool  # whether a launch asked for dynamic shared memory


@dataclass(frozen=True)
class Session:
    """The data from which verdicts are computed."""

    command: tuple[str, ...]
    modes: tuple[str, ...]  # PLAIN first
    runs: int  # the number of runs that were asked for, of each mode
    program: Program
    device: str = ""
    driver: str = ""
    ignored: tuple[str, ...] = ()  # patterns of lines that the comparison of outputs leaves out
    samples: tuple[Sample, ...] = ()
    kernels: tuple[Kernel, ...] = ()  # Nsight Compute's metrics of the plain program's kernels
    kernel_times: dict[str, dict[str, float]] = field(default_factory=dict)  # mode, kernel: mean ns of a launch
    profiler: str = ""  # why Nsight Compute gave no metrics, or how many launches it profiled


def write_about(folder: Path, session: Session) -> None:
    kept = {key: value for key, value in asdict(session).items() if key != "samples"}
    replace_file(folder / ABOUT, json.dumps({"version": VERSION, **kept}, indent=1, ensure_ascii=False) + "\n", _ELSEWHERE)


def append_sample(folder: Path, sample: Sample) -> None:
    append(folder / SAMPLES, (json.dumps(asdict(sample)) + "\n").encode(), f"{_ELSEWHERE}; the samples so far are kept")


def read_session(folder: Path) -> Session:
    """Reads a folder that `gpuheap host advise` wrote. Raises UserError for any other folder. An incomplete last line of a killed process is skipped."""
    try:
        about = json.loads(read_text(folder / ABOUT))
        lines = read_text(folder / SAMPLES).split("\n") if (folder / SAMPLES).exists() else [""]
    except (UserError, ValueError, RecursionError) as error:
        raise UserError(f"{folder} holds no samples of `gpuheap host advise` ({error}): name the folder that it wrote") from None
    if not isinstance(about, dict) or about.get("version") != VERSION:
        raise UserError(f"{folder / ABOUT} is of another version of gpuheap: this one reads version {VERSION}; measure again")
    try:
        samples = [_made(Sample, json.loads(line)) for line in lines[:-1]]
        return _made(
            Session,
            {**about, "program": _made(Program, about["program"]), "kernels": [_made(Kernel, each) for each in about["kernels"]], "samples": samples},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{folder} is damaged: {type(error).__name__}: {error}; measure again") from None


def _made(kind: type[Record], values: dict[str, Any]) -> Record:
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items() if key in known})


def of_mode(samples: Iterable[Sample], mode: str) -> list[Sample]:
    return [sample for sample in samples if sample.mode == mode]
