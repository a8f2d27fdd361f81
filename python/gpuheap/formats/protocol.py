"""The output of a benchmark executable: its description, and one line of JSON for each event of a run."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

from gpuheap.metrics import METRICS

STATUSES = ("ok", "unsupported", "timeout", "crash", "wrong")
FAILING = frozenset({"timeout", "crash", "wrong"})


class ProtocolError(Exception):
    """The output of an executable breaks the protocol."""


@dataclass(frozen=True)
class Device:
    name: str
    driver_version: str
    runtime_version: str
    compute_capability: str
    num_sms: int
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Allocator:
    """An allocator and its traits, as the executable knows them."""

    name: str
    title: str = ""
    paper: str = ""
    year: int = 0
    variant: str = ""
    reuse: str = ""
    min_alignment: int = 16
    smallest_bytes: int = 1
    largest_bytes: int = 0  # 0: bounded by the heap only
    free: str = "individually"
    warp_level: bool = False
    process_wide: bool = False
    overwrites: bool = False
    reuses_singly: bool = True
    full_reuse: bool = True
    detects_double_free: bool = False
    detects_foreign_free: bool = False
    supported: bool = True
    why_not: str = ""


@dataclass(frozen=True)
class CaseDescription:
    name: str
    brief: str = ""
    section: str = ""
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Description:
    """An executable's answer to `--describe`."""

    backend: str
    device: Device | None
    device_error: str
    allocators: tuple[Allocator, ...]
    baselines: tuple[str, ...]
    cases: tuple[CaseDescription, ...]
    version: str
    build: dict[str, str] = field(default_factory=dict)
    serves: bool = False  # whether one process can run several sweeps, one after the other
    raw: dict[str, Any] = field(default_factory=dict, repr=False)

    def allocator(self, name: str) -> Allocator | None:
        return next((a for a in self.allocators if a.name == name), None)

    def case(self, name: str) -> CaseDescription | None:
        return next((c for c in self.cases if c.name == name), None)


@dataclass(frozen=True)
class Measurement:
    """The values of one metric at one point, one for each run."""

    metric: str
    unit: str
    samples: tuple[float, ...]


@dataclass(frozen=True)
class PointResult:
    status: str
    reason: str = ""
    measurements: tuple[Measurement, ...] = ()

    @property
    def failing(self) -> bool:
        return self.status in FAILING


@dataclass(frozen=True)
class Begin:
    point: int


@dataclass(frozen=True)
class Result:
    point: int
    result: PointResult


def parse_description(text: str) -> Description:
    """Reads the answer to `--describe`. Keys that this version does not know are ignored. Raises ProtocolError."""
    said = _object(text)
    backend = said.get("backend")
    if backend not in ("simulator", "cuda"):
        raise ProtocolError(f"backend is {backend!r}, expected simulator or cuda")
    try:
        return Description(
            backend=backend,
            device=_device(said["device"]) if said.get("device") else None,
            device_error=str(said.get("device_error") or ""),
            allocators=tuple(read_allocator(entry) for entry in said["allocators"]),
            baselines=tuple(str(name) for name in said.get("baselines", [])),
            cases=tuple(_case(entry) for entry in said["cases"]),
            version=str(said.get("version", "")),
            build={str(key): str(value) for key, value in dict(said.get("build") or {}).items()},
            serves=said.get("serves") is True,
            raw=said,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"the description has a missing or wrong entry: {error}") from None


def read_allocator(entry: dict[str, Any]) -> Allocator:
    """Reads an allocator's traits. Keys that this version does not know are ignored."""
    known = {key: value for key, value in entry.items() if key in Allocator.__dataclass_fields__ and value is not None}
    return Allocator(**{"name": str(entry["name"]), **known})


def parse_event(line: str) -> Begin | Result:
    """Reads one line of a run. Raises ProtocolError."""
    said = _object(line)
    if set(said) == {"begin"}:
        return Begin(_index(said["begin"]))
    if "point" not in said:
        raise ProtocolError(f"expected begin or point in {_cut(line)}")
    status = said.get("status")
    if status not in STATUSES or status == "crash":
        raise ProtocolError(f"status is {status!r}")
    rows = said.get("rows") or []
    if not isinstance(rows, list):
        raise ProtocolError(f"rows is not a list in {_cut(line)}")
    measurements = tuple(_measurement(row) for row in rows)
    if status == "ok" and not measurements:
        raise ProtocolError("status is ok without any row")
    if len({m.metric for m in measurements}) != len(measurements):
        raise ProtocolError("a metric comes twice for one point")
    return Result(_index(said["point"]), PointResult(status, str(said.get("reason") or ""), measurements))


def _object(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except ValueError:
        raise ProtocolError(f"not JSON: {_cut(text)}") from None
    if not isinstance(said, dict):
        raise ProtocolError(f"expected an object, got {_cut(text)}")
    return said


def _device(said: dict[str, Any]) -> Device:
    return Device(
        name=str(said["name"]),
        driver_version=cuda_version(said.get("driver_version")),
        runtime_version=cuda_version(said.get("runtime_version")),
        compute_capability=f"{said.get('compute_major', 0)}.{said.get('compute_minor', 0)}",
        num_sms=int(said.get("num_sms", 0)),
        total_bytes=int(said.get("total_bytes", 0)),
        free_bytes=int(said.get("free_bytes", 0)),
    )


def cuda_version(said: Any) -> str:
    """Converts a version number of the CUDA API to text: 13000 to `13.0`. A text stays as it is."""
    if isinstance(said, int) and said >= 1000:
        return f"{said // 1000}.{said % 1000 // 10}"
    return "" if said in (None, 0) else str(said)


def _case(entry: dict[str, Any]) -> CaseDescription:
    parameters = [item["name"] if isinstance(item, dict) else item for item in entry.get("parameters", [])]
    return CaseDescription(
        str(entry["name"]), str(entry.get("brief", "")), str(entry.get("section", "")), tuple(str(p) for p in parameters)
    )


def _measurement(row: Any) -> Measurement:
    if not isinstance(row, dict) or not isinstance(row.get("samples"), list):
        raise ProtocolError(f"a row without samples: {_cut(json.dumps(row))}")
    metric, unit, samples = row.get("metric"), row.get("unit"), row["samples"]
    known = METRICS.get(str(metric))
    if known is None:
        raise ProtocolError(f"unknown metric {metric!r}")
    if unit != known.unit:
        raise ProtocolError(f"{metric} is in {known.unit}, not in {unit!r}")
    if not samples:
        raise ProtocolError(f"{metric} has no samples")
    if not all(isinstance(s, (int, float)) and not isinstance(s, bool) and math.isfinite(s) for s in samples):
        raise ProtocolError(f"{metric} has a sample that is not a finite number")
    return Measurement(known.name, known.unit, tuple(float(s) for s in samples))


def _index(said: Any) -> int:
    if not isinstance(said, int) or isinstance(said, bool) or said < 0:
        raise ProtocolError(f"{said!r} is not the number of a point")
    return said


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 80 else text[:77] + "..."
