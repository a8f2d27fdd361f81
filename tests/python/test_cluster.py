"""Machines of a Dask cluster: the tables are those of one machine, and what is finished stays when the cluster goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from fake_checkout import Checkout

from gpuheap.running.cluster import Cluster, ClusterWorker, SchedulerGone
from gpuheap.running.workers import WorkerLost

pytest.importorskip("distributed", reason="measuring on several machines: no Dask: pip install distributed")

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]


class LocalCluster:
    """A scheduler and workers of their own, as a user starts them."""

    def __init__(self, checkout: Checkout, folder: Path) -> None:
        self._checkout = checkout
        self._folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(self.file),
        )
        try:
            # The file is there before its text is.
            self._until(lambda: self.file.exists() and self.file.read_text().rstrip().endswith("}"))
        except BaseException:
            self.close()
            raise
        self.address: str = json.loads(self.file.read_text())["address"]

    def add_worker(self, **variables: str) -> subprocess.Popen[bytes]:
        log = self._folder / f"worker-{len(self.processes)}.log"
        options = [
            "--nthreads",
            "1",
            "--no-nanny",
            "--no-dashboard",
            "--local-directory",
            str(self._folder),
            "--death-timeout",
            "20",
        ]
        worker = self._start("worker", self.address, *options, log=log, **variables)
        self._until(lambda: b"Registered to" in log.read_bytes())
        return worker

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def _start(self, what: str, *arguments: str, log: Path | None = None, **variables: str) -> subprocess.Popen[bytes]:
        output = (log or self._folder / f"{what}.log").open("wb")
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments]
        process = subprocess.Popen(
            command,
            env={**self._checkout.variables(), **variables},
            stdout=output,
            stderr=output,
            cwd=self._folder,
        )
        self.processes.append(process)
        return process

    @staticmethod
    def _until(happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def cluster(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    checkout.settings["backend"] = "cuda"
    cluster = LocalCluster(checkout, tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        cluster.close()


def test_machines_share_the_work_and_the_tables_are_those_of_one(checkout: Checkout, cluster: LocalCluster, error_line: ErrorLine) -> None:
    assert "has no workers: start `dask worker" in error_line(checkout.gpuheap("bench", "mini", "--scheduler", cluster.address))
    checkout.fail(**{"cuda_malloc/256": "crash"})
    for number in range(2):
        cluster.add_worker(CUDA_VISIBLE_DEVICES=str(number))
    assert checkout.gpuheap("bench", "mini", "--output", "one").returncode == 0
    checkout.log()
    # As for one, the scheduler's own file serves as its address.
    # A suite is the same by its name and by its file, of which the workers know nothing.
    suite = checkout.root / "benchmarks" / "suites" / "mini.toml"
    suite = suite.rename(checkout.root / "mine.toml")
    (checkout.root / "benchmarks" / "suites" / "other.toml").write_text(suite.read_text().replace('"mini"', '"other"'))
    ran = checkout.gpuheap("bench", "mine.toml", "--output", "two", "--scheduler", str(cluster.file))
    assert ran.returncode == 0, ran.stderr
    assert f"by 2 workers (2 workers of {cluster.file} have it)" in ran.stdout
    assert {line.split()[1] for line in checkout.log() if line.startswith("gpu ")} == {
        "0",
        "1",
    }
    assert (checkout.root / "one" / "mini.csv").read_bytes() == (checkout.root / "two" / "mini.csv").read_bytes()


def test_a_worker_and_then_the_scheduler_go_away(checkout: Checkout, cluster: LocalCluster) -> None:
    checkout.fail(**{"sharded_spans/128": "hang", "atomic_malloc/64": "hang"})
    doomed = [cluster.add_worker(), cluster.add_worker()]
    process = checkout.start(
        "bench",
        "alloc_single",
        "-a",
        "sharded_spans,atomic_malloc",
        "--no-baselines",
        "--scheduler",
        cluster.address,
    )
    deadline = time.monotonic() + 60
    while not (checkout.gpu_table.exists() and checkout.gpu_table.read_text().count("\n") == 1 + 2 * (3 + 2)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    doomed[0].kill()
    time.sleep(2)
    cluster.scheduler.kill()
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 2, out + errors
    assert errors.splitlines() == [
        f"gpuheap: the scheduler at {cluster.address} went away: finished points are kept in results/nvidia-h200, "
        "and the same command goes on from there"
    ]
    assert "is gone; the other workers take over its points" in out
    checkout.settings.pop("faults")
    checkout.log()
    assert checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans,atomic_malloc", "--no-baselines").returncode == 0
    assert len(checkout.points_run()) == 10 - 5


def test_a_loss_is_the_schedulers_when_nothing_listens_there(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(cluster.address) as connection:
        monkeypatch.setattr(Cluster, "connected", True)  # as the client says until it has noticed
        worker = ClusterWorker(connection, "tcp://127.0.0.1:1", "here")
        assert isinstance(worker._lost(), WorkerLost)
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        assert isinstance(worker._lost(), SchedulerGone)


def test_an_interruption_ends_the_processes_of_the_machines(checkout: Checkout, cluster: LocalCluster) -> None:
    checkout.fail(**{"sharded_spans/64": "hang"})
    cluster.add_worker()
    process = checkout.start(
        "bench",
        "alloc_single",
        "-a",
        "sharded_spans",
        "--no-baselines",
        "--scheduler",
        cluster.address,
    )
    deadline = time.monotonic() + 60
    while not (checkout.log_file.exists() and "bytes=64" in checkout.log_file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "")
    assert "stopped: 2 of 5 points are kept" in out
    deadline = time.monotonic() + 10
    while any(str(checkout.bench) in " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])):
        assert time.monotonic() < deadline, "the machine goes on"
        time.sleep(0.1)


def test_machines_with_other_devices_are_refused(checkout: Checkout, cluster: LocalCluster, error_line: ErrorLine) -> None:
    cluster.add_worker()
    other = {
        "name": "NVIDIA T4",
        "total_bytes": 16 << 30,
        "free_bytes": 15 << 30,
        "num_sms": 40,
    }
    cluster.add_worker(FAKE_BENCH=json.dumps({"backend": "cuda", "device": other}))
    assert "has another device than worker" in error_line(checkout.gpuheap("bench", "mini", "--scheduler", cluster.address))
    assert not (checkout.root / "results").exists()


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("127.0.0.1:9", "no Dask scheduler answers at '127.0.0.1:9'"),
        (
            "nowhere",
            "'nowhere' is neither host:port, tcp://host:port nor a scheduler file",
        ),
        ("log", "'log' is not a scheduler file"),
    ],
)
def test_no_scheduler_is_said_so(checkout: Checkout, error_line: ErrorLine, address: str, complaint: str) -> None:
    checkout.log_file.write_text("{}")
    assert f"--scheduler: {complaint}" in error_line(checkout.gpuheap("bench", "mini", "--scheduler", address))


def test_gpus_and_scheduler_do_not_go_together(checkout: Checkout, error_line: ErrorLine) -> None:
    assert "--gpus chooses GPUs of this machine; --scheduler uses other machines" in error_line(
        checkout.gpuheap("bench", "mini", "--gpus", "2", "--scheduler", "a:1")
    )
