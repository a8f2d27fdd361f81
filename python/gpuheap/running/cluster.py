"""Uses the machines of a Dask cluster as workers. The user starts the cluster, by `dask scheduler` and `dask worker`."""

from __future__ import annotations

import json
import logging
import queue
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError
from gpuheap.running import remote
from gpuheap.running.executable import Executable
from gpuheap.running.runner import Sweep, SweepEvent
from gpuheap.running.workers import WorkerLost

CONNECT_S = 10
PATIENCE_S = 6.0  # the time after which a scheduler that does not answer counts as gone
POLL_S = 0.25
STOP_S = 5.0  # the time in which a machine must receive the request to stop


class SchedulerGone(UserError):
    """The scheduler no longer answers."""


class Cluster:
    """A connection to a scheduler. `close` ends it; the machines stop their work at the end of the current sweep at the latest."""

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError:
            raise UserError("--scheduler needs Dask: pip install distributed") from None
        # Dask's log would repeat on the terminal what this program prints itself.
        for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self.address = address
        self._topic = f"gpuheap-{uuid.uuid4().hex[:12]}"
        self._inboxes: dict[str, queue.SimpleQueue[tuple[int, remote.Message]]] = {}
        try:
            self._client = distributed.Client(_reachable(address), timeout=CONNECT_S, set_as_default=False, name="gpuheap")
        except (OSError, TimeoutError) as error:
            raise _no_scheduler(address, error) from None
        self._client.subscribe_topic(self._topic, self._heard)

    def close(self) -> None:
        with suppress(Exception):
            self._client.close(timeout=2)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def examine(self, path: Path) -> tuple[list[ClusterWorker], Executable]:
        """The machines, and the executable as they describe it. Raises UserError unless all have one build and one kind of device."""
        found: dict[str, dict[str, Any]] = self._ask(remote.probe, [str(path)])
        if not found:
            raise UserError(f"--scheduler: {self.address} has no workers: start `dask worker {self.address}` on each machine")
        for address, said in found.items():
            if "error" in said:
                raise UserError(f"worker {address} on {said['host']}: {said['error']}")
        address, first = next(iter(found.items()))
        for other, said in found.items():
            for what, words in (("identities", "another build of the executable"), ("device", "another device")):
                if said[what] != first[what]:
                    raise UserError(
                        f"worker {other} on {said['host']} has {words} than worker {address} on {first['host']} "
                        f"({_short(said[what])}, not {_short(first[what])}): a table has rows of one build and one device"
                    )
        if first["description"].backend == "cuda" and not first["device"]:
            raise UserError(f"worker {address} on {first['host']} finds no GPU: {first['device_error']}")
        executable = Executable(path, first["description"], f"{len(found)} workers of {self.address} have it", first["machine"])
        return [ClusterWorker(self, address, f"{said['host']} {address.rpartition(':')[2]}") for address, said in found.items()], executable

    def check_build(self, executable: Executable) -> None:
        """Raises UserError unless all machines have this additional executable, in the same build."""
        own = executable.identity()
        for address, said in self._ask(remote.probe, [str(executable.path)]).items():
            if "error" in said:
                raise UserError(f"worker {address} on {said['host']}: {said['error']}")
            if said["identities"] != [own]:
                raise UserError(f"worker {address} on {said['host']} has another build of {executable.path} than this machine")

    def _ask(self, function: Any, *arguments: Any) -> dict[str, Any]:
        try:
            return dict(self._client.run(function, *arguments, on_error="raise"))
        except ModuleNotFoundError as error:
            raise UserError(
                f"a worker of {self.address} lacks the package {error.name}: pip install ./python there, or set PYTHONPATH"
            ) from None
        except (OSError, TimeoutError) as error:
            raise SchedulerGone(f"the scheduler at {self.address} does not answer: {error}") from None

    def start(self, address: str, executable: Executable, sweep: Sweep) -> _Job:
        job = f"{self._topic}-{uuid.uuid4().hex[:12]}"
        inbox: queue.SimpleQueue[tuple[int, remote.Message]] = queue.SimpleQueue()
        self._inboxes[job] = inbox
        future = self._client.submit(
            remote.run_job, job, self._topic, str(executable.path), sweep, key=job, workers=[address], allow_other_workers=False, pure=False
        )
        return _Job(job, future, inbox)

    def stop(self, job: str, address: str) -> None:
        """Sends the machine one request to stop. A machine that does not receive the request ends the sweep by itself."""
        with suppress(Exception):
            self._client.sync(self._client._run, remote.stop_job, job, workers=[address], callback_timeout=STOP_S)

    @property
    def connected(self) -> bool:
        return bool(self._client.status == "running")

    def answers(self) -> bool:
        """Whether the scheduler answers a request now.

        `connected` is not enough, because the client notices late that a scheduler is gone. A connection is not enough either, because the system
        accepts connections for a process that is ending.
        """
        scheduler = self._client.scheduler
        if scheduler is None:
            return False
        try:
            _reachable(self.address)  # raises at once if nothing listens there
            self._client.sync(scheduler.echo, data=0, callback_timeout=CONNECT_S)
        except Exception:
            return False
        return self.connected

    def has(self, address: str) -> bool:
        """Whether the scheduler still lists the machine."""
        try:
            return address in self._client.scheduler_info(n_workers=-1)["workers"]
        except Exception:
            return True  # `connected` finds a scheduler that is gone

    def _heard(self, event: tuple[float, Any]) -> None:
        job, number, said = event[1]
        inbox = self._inboxes.get(job)
        if inbox is not None:
            inbox.put((number, said))


@dataclass(frozen=True)
class _Job:
    name: str
    future: Any
    inbox: queue.SimpleQueue[tuple[int, remote.Message]]


@dataclass(frozen=True)
class ClusterWorker:
    """One worker of the cluster."""

    cluster: Cluster
    address: str
    name: str

    def run(self, executable: Executable, sweep: Sweep, stop: threading.Event) -> Iterator[SweepEvent]:
        job = self.cluster.start(self.address, executable, sweep)
        told = 0
        silent_since: float | None = None
        looked = time.monotonic()
        try:
            # Ends: when the job is done, when the machine or the scheduler is lost, or when `stop` is set.
            while not job.future.done():
                if stop.is_set():
                    self.cluster.stop(job.name, self.address)
                    return
                with suppress(queue.Empty):
                    number, said = job.inbox.get(timeout=POLL_S)
                    # Only messages in sequence are passed on. The job's result holds all messages, so _rest() passes on the others.
                    if number == told:
                        told += 1
                        yield remote.from_message(said)
                    continue
                now = time.monotonic()
                silent_since = None if self.cluster.connected else silent_since or now
                if silent_since is not None and now - silent_since > PATIENCE_S:
                    raise self._gone()
                if now - looked > 1:
                    looked = now
                    if self.cluster.connected and not self.cluster.has(self.address):
                        raise self._lost()
            yield from self._rest(job, told)
        finally:
            self.cluster._inboxes.pop(job.name, None)

    def _rest(self, job: _Job, told: int) -> Iterator[SweepEvent]:
        """The events of the result that did not arrive as messages."""
        try:
            said: list[remote.Message] = job.future.result(timeout=CONNECT_S)
        except Exception as error:
            raise self._lost(f" ({type(error).__name__})") from None
        for message in said[told:]:
            yield remote.from_message(message)

    def _lost(self, why: str = "") -> SchedulerGone | WorkerLost:
        """The error for work that ended without a result: the scheduler is gone if it does not answer, else this machine is."""
        return WorkerLost(f"worker {self.name} is gone{why}") if self.cluster.answers() else self._gone()

    def _gone(self) -> SchedulerGone:
        return SchedulerGone(f"the scheduler at {self.cluster.address} went away")


def _short(said: Any) -> str:
    return ", ".join(said) if isinstance(said, list) else str(said) or "none"


def _reachable(address: str) -> str:
    """The scheduler's address. `address` is this address or a scheduler file. Raises UserError at once if nothing answers there; a client would keep trying."""
    if Path(address).is_file():
        try:
            named = str(json.loads(Path(address).read_text())["address"])
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(f"--scheduler: '{address}' is not a scheduler file: `dask scheduler --scheduler-file FILE` writes one") from None
    else:
        named = address
    found = re.fullmatch(r"(?:(?:tcp|tls)://)?\[?([^\[\]/]+?)\]?:(\d{1,5})", named)
    if found is None:
        raise UserError(f"--scheduler: '{named}' is neither host:port, tcp://host:port nor a scheduler file")
    try:
        socket.create_connection((found[1], int(found[2])), timeout=CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise _no_scheduler(address, error) from None
    return named


def _no_scheduler(address: str, error: Exception) -> UserError:
    words = " ".join(str(error).split())[:200] or type(error).__name__
    return UserError(
        f"--scheduler: no Dask scheduler answers at '{address}' ({words}): start one with `dask scheduler`, "
        "and `dask worker ADDRESS` on each machine"
    )
