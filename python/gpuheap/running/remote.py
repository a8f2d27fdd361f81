"""Runs one sweep on a machine of a cluster, and sends its events as they come. Every machine needs this package."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError
from gpuheap.formats.protocol import Measurement, PointResult
from gpuheap.running.children import Stopped
from gpuheap.running.environment import machine_facts
from gpuheap.running.executable import Executable, describe
from gpuheap.running.runner import PointBegan, PointEnded, Sweep, SweepCutShort, SweepEvent, run_sweep

Message = list[Any]  # an event in the types that Dask's log of events can carry: lists, texts and numbers

_running: dict[str, threading.Event] = {}  # the jobs of this process, each with the event that ends it


def probe(paths: list[str]) -> dict[str, Any]:
    """The facts of a machine: its executables' identities and its device, or an error if an executable does not run there."""
    try:
        described = [(path, describe(Path(path))) for path in paths]
    except UserError as error:
        return {"host": socket.gethostname(), "error": str(error)}
    devices = [description.device.name if description.device is not None else "" for _, description in described]
    return {
        "host": socket.gethostname(),
        "identities": [Executable(Path(path), description, "").identity() for path, description in described],
        "device": devices[0],
        "device_error": described[0][1].device_error,
        "description": described[0][1],
        "machine": machine_facts(),
    }


def run_job(job: str, topic: str, path: str, sweep: Sweep) -> list[Message]:
    """Runs a sweep. Sends each event under the topic, and returns all events, because messages may be lost."""
    from distributed import get_worker

    worker = get_worker()
    stop = _running.setdefault(job, threading.Event())
    said: list[Message] = []
    try:
        for event in run_sweep(Path(path), sweep, stop=stop):
            said.append(to_message(event))
            if worker.status.name != "running":
                break
            worker.log_event(topic, [job, len(said) - 1, said[-1]])
    except Stopped:
        pass
    except UserError as error:
        said.append(["error", str(error)])
    finally:
        _running.pop(job, None)
    return said


def stop_job(job: str) -> None:
    """Ends the job within a second, if it runs in this process."""
    if job in _running:
        _running[job].set()


def to_message(event: SweepEvent) -> Message:
    if isinstance(event, PointBegan):
        return ["began", event.index]
    if isinstance(event, SweepCutShort):
        return ["cut", event.remaining]
    result = event.result
    return ["ended", event.index, result.status, result.reason, [[m.metric, m.unit, list(m.samples)] for m in result.measurements]]


def from_message(said: Message) -> SweepEvent:
    """The event of a message. Raises UserError if the message is an error of the other machine."""
    kind, *rest = said
    if kind == "began":
        return PointBegan(rest[0])
    if kind == "cut":
        return SweepCutShort(rest[0])
    if kind == "error":
        raise UserError(rest[0])
    index, status, reason, measurements = rest
    return PointEnded(index, PointResult(status, reason, tuple(Measurement(m, unit, tuple(samples)) for m, unit, samples in measurements)))
