"""Reads the trace files that the library of tools/host writes. tools/host/trace_format.hpp describes them.

The file of a process that still runs, or was killed, is read up to its last record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuheap.errors import UserError
from gpuheap.files import refusal

MAGIC = b"gpuheap-trace\n"
VERSION = 2
HEADER_BYTES, SLOT_BYTES, BLOCK_BYTES = 4096, 64, 16384

ALLOCATE, RELEASE, COPY, SET, LAUNCH, SYNCHRONISE, CONTEXT, CAPTURE, OTHER, MERGE = range(1, 11)
MODULE, STACK, NAME, FACT, MESSAGE = range(32, 37)
FIRST_TEXT = MODULE

MEMORY = ("unknown", "device", "managed", "pinned", "stream-ordered", "registered", "array", "physical", "imported")
DIRECTION = ("by address", "host to device", "device to host", "device to device", "host to host", "peer")
ASYNC, POOLED, ARRAY, ELIDED = 1, 2, 4, 8
NO_DEVICE = 255

EVENT = np.dtype(
    [
        ("kind", "<u2"), ("entry", "<u2"), ("thread", "<u4"), ("begin_ns", "<u8"), ("duration_ns", "<u4"), ("result", "<i4"),
        ("address", "<u8"), ("other", "<u8"), ("bytes", "<u8"), ("stream", "<u8"), ("stack", "<u4"), ("detail", "<u2"), ("device", "u1"), ("flags", "u1"),
    ]
)  # fmt: skip
FRAME = np.dtype([("base", "<u8"), ("offset", "<u8")])
HEADER = np.dtype(
    [("magic", "S16"), ("version", "<u4"), ("process", "<u4"), ("parent", "<u4"), ("ended", "<u4"), ("start_unix_ns", "<u8"), ("num_blocks", "<u8")]
)
COUNTERS = (
    "lookups", "hooks", "lost_events", "served", "served_bytes", "driver_allocations", "unprofiled", "too_large", "slot_busy", "foreign_frees",
    "pool_bytes", "refused", "elided", "elided_bytes", "not_elided", "separated", "separated_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class Module:
    path: str
    build_id: str


@dataclass(frozen=True)
class Frame:
    module: Module | None  # None: code outside of any module
    offset: int  # the address in the module's file


@dataclass(frozen=True)
class Stack:
    site: int  # a number that identifies the place in the program, the same in every run
    frames: tuple[Frame, ...]  # nearest first


@dataclass(frozen=True)
class Message:
    code: str
    words: str


@dataclass
class Trace:
    path: Path
    process: int
    parent: int
    ended: bool  # by exit or return from main
    start_unix_ns: int
    counters: dict[str, int]
    events: NDArray[Any]  # records of the type EVENT, by time
    periods: NDArray[Any]  # records of the type EVENT: in a rehearsal, each download that merged buffers could replace (rehearsal.py)
    facts: dict[str, str]
    devices: dict[int, tuple[str, int]]  # name and bytes
    stacks: dict[int, Stack]
    names: list[tuple[int, int, str]]  # the kernels' names: time, handle, name
    messages: list[Message]
    entries: tuple[str, ...]
    command: tuple[str, ...] = field(default=())

    @property
    def program(self) -> str:
        return Path(self.command[0]).name if self.command else self.path.name.split(".")[0]

    def entry(self, number: int) -> str:
        return self.entries[number] if number < len(self.entries) else f"entry {number}"

    @property
    def last_ns(self) -> int:
        return 0 if len(self.events) == 0 else int((self.events["begin_ns"] + self.events["duration_ns"]).max())


def find_traces(path: Path) -> list[Path]:
    """The trace files that a path means: the file itself, or those of a folder in the order of their last change. Raises UserError if there is none."""
    if path.is_dir():
        found = sorted(path.glob("*.trace"), key=lambda p: (p.stat().st_mtime_ns, p.name))
        if not found:
            raise UserError(f"E01: {path} holds no trace: no process in it used the CUDA driver, or the run was not traced")
        return found
    if not path.exists():
        raise UserError(f"E01: {path} does not exist: make it with `gpuheap host trace -o {path} -- program arguments`")
    if path.is_char_device() or path.is_block_device():  # /dev/zero never ends
        raise UserError(f"E01: {path} is a device: name a folder that `gpuheap host trace` made, or a file in it")
    return [path]


def read_trace(path: Path) -> Trace:
    """Reads a trace. Raises UserError (E01) if the file is not a trace of this version, or is damaged."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"E01: {refusal(path, 'read', error)}") from None
    try:
        return _parsed(path, data)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise UserError(f"E01: {path} is damaged ({type(error).__name__}: {error}): trace the program again") from None


def _parsed(path: Path, data: bytes) -> Trace:
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
        raise UserError(f"E01: {path} is not a trace: its first bytes are not those of one")
    header = np.frombuffer(data, HEADER, 1)[0]
    if header["version"] != VERSION:
        raise UserError(f"E01: {path} is a trace of version {header['version']}, this gpuheap reads version {VERSION}: trace the program again")
    counters = np.frombuffer(data, "<u8", len(COUNTERS), HEADER.itemsize)
    trace = Trace(
        path=path,
        process=int(header["process"]),
        parent=int(header["parent"]),
        ended=bool(header["ended"]),
        start_unix_ns=int(header["start_unix_ns"]),
        counters=dict(zip(COUNTERS, (int(value) for value in counters), strict=True)),
        events=np.empty(0, EVENT), periods=np.empty(0, EVENT), facts={}, devices={}, stacks={}, names=[], messages=[], entries=(),
    )  # fmt: skip
    parts, texts = [], []
    num_blocks = (len(data) - HEADER_BYTES) // BLOCK_BYTES
    slots = np.frombuffer(data, EVENT, num_blocks * (BLOCK_BYTES // SLOT_BYTES), HEADER_BYTES).reshape(num_blocks, -1)
    for number, block in enumerate(slots):
        if block["kind"][0] == 0:
            continue
        for first, last, text in _runs(block["kind"], block["bytes"]):
            if text:
                start = HEADER_BYTES + number * BLOCK_BYTES + (first + 1) * SLOT_BYTES
                texts.append((block[first], data[start : start + int(block["bytes"][first])]))
            else:
                parts.append(block[first:last])
    _place_texts(trace, texts)
    if parts:
        events = np.concatenate(parts)
        events = events[np.argsort(events["begin_ns"], kind="stable")]
        merged = events["kind"] == MERGE
        trace.events, trace.periods = events[~merged], events[merged]
    return trace


def _runs(kinds: NDArray[Any], sizes: NDArray[Any]) -> Iterator[tuple[int, int, bool]]:
    """The records of a block in order, as (first slot, end, whether it is text): runs of events, and each text record by itself."""
    stops = np.flatnonzero((kinds >= FIRST_TEXT) | (kinds == 0))
    at, end = 0, len(kinds)
    while at < end and kinds[at] != 0:
        if kinds[at] >= FIRST_TEXT:
            yield at, at + 1, True
            at += 1 + -(-int(sizes[at]) // SLOT_BYTES)
            continue
        after = np.searchsorted(stops, at)
        last = int(stops[after]) if after < len(stops) else end
        yield at, last, False
        at = last


def _place_texts(trace: Trace, texts: list[tuple[Any, bytes]]) -> None:
    modules: dict[int, Module] = {}
    stacks: list[tuple[int, int, bytes]] = []
    for record, payload in texts:
        kind = int(record["kind"])
        if kind == STACK:
            stacks.append((int(record["stack"]), int(record["address"]), payload))
            continue
        text = payload.decode("utf-8", "replace")
        if kind == MODULE:
            build_id, _, path = text.partition("\t")
            modules[int(record["address"])] = Module(path, build_id)
        elif kind == NAME:
            trace.names.append((int(record["begin_ns"]), int(record["address"]), text))
        elif kind == MESSAGE:
            code, _, words = text.partition("\t")
            trace.messages.append(Message(code, words))
        elif kind == FACT:
            _place_fact(trace, *text.split("=", 1))
    for number, site, payload in stacks:
        frames = np.frombuffer(payload, FRAME)
        trace.stacks[number] = Stack(site, tuple(Frame(modules.get(int(f["base"])), int(f["offset"])) for f in frames))


def _place_fact(trace: Trace, key: str, value: str) -> None:
    if key == "entries":
        trace.entries = tuple(value.split(","))
    elif key == "command":
        trace.command = tuple(value.rstrip("\0").split("\0"))
    elif key == "device":
        number, total, name = value.split(" ", 2)
        trace.devices[int(number)] = (name, int(total))
    else:
        trace.facts[key] = value
