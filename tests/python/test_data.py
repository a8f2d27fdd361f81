"""`gpuheap data get` against a server on this machine: what comes is whole and what was recorded, or it goes."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_checkout import Checkout

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]
MATRIX = b"%%MatrixMarket matrix coordinate pattern symmetric\n% a graph\n3 3 2\n2 1\n3 2\n" + b"% padding\n" * 2000


def archive_of(content: bytes, name: str = "144/144.mtx") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=0) as tar:
        for path, data in (("144/144_coord.mtx", b"no matrix of a graph"), (name, content)):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


class Server:
    """Serves one archive, in whole or in part."""

    def __init__(self) -> None:
        self.content = archive_of(MATRIX)
        self.stops_after: int | None = None  # bytes of an answer
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = self.headers.get("Range")
                owner.asked.append((self.path, wanted))
                if self.path != "/MM/DIMACS10/144.tar.gz":
                    self.send_error(404)
                    return
                start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and owner.ranges else 0
                if start and start >= len(owner.content):
                    self.send_error(416)
                    return
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(owner.content) - start))
                self.end_headers()
                self.wfile.write(owner.content[start:][: owner.stops_after])

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def data(checkout: Checkout, server: Server) -> Path:
    folder = checkout.root / "cache"
    checkout.environment |= {"GPUHEAP_DATA": str(folder), "GPUHEAP_DATA_URL": server.url}
    return folder


def test_a_graph_comes_once_and_its_checksum_is_recorded(checkout: Checkout, server: Server, data: Path) -> None:
    ran = checkout.gpuheap("data", "get", "144")
    assert (ran.returncode, ran.stdout) == (0, f"{data / '144.mtx'}\n"), ran.stderr
    assert (data / "144.mtx").read_bytes() == MATRIX
    facts = json.loads((data / "lock.json").read_text())["144"]
    assert facts["archive_sha256"] == hashlib.sha256(server.content).hexdigest()
    assert facts["matrix_sha256"] == hashlib.sha256(MATRIX).hexdigest()
    assert sorted(path.name for path in data.iterdir()) == ["144.mtx", "lock.json"]
    assert checkout.gpuheap("data", "get", "144").stdout == f"{data / '144.mtx'}\n"
    assert server.asked == [("/MM/DIMACS10/144.tar.gz", None)]
    assert "144                     here  a mesh" in checkout.gpuheap("data", "list").stdout


def test_other_bytes_than_those_recorded_are_refused_and_removed(
    checkout: Checkout, server: Server, data: Path, error_line: ErrorLine
) -> None:
    checkout.gpuheap("data", "get", "144")
    # Damaged on the disk: it is fetched again, and must be what it was.
    (data / "144.mtx").write_bytes(MATRIX[:-1] + b"!")
    assert checkout.gpuheap("data", "get", "144").returncode == 0
    assert (data / "144.mtx").read_bytes() == MATRIX
    (data / "144.mtx").unlink()
    server.content = archive_of(MATRIX.replace(b"2 1", b"3 1"))
    line = error_line(checkout.gpuheap("data", "get", "144"))
    assert "its checksum is" in line and "the file was removed" in line and str(data / "lock.json") in line
    assert [path.name for path in data.iterdir()] == ["lock.json"]


def test_what_breaks_off_is_refused_and_removed(checkout: Checkout, server: Server, data: Path, error_line: ErrorLine) -> None:
    server.stops_after = 5000
    line = error_line(checkout.gpuheap("data", "get", "144"))
    assert "broke off after 4.88 KiB of" in line
    assert list(data.iterdir()) == []


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_goes_on(checkout: Checkout, server: Server, data: Path, ranges: bool) -> None:
    server.ranges = ranges
    data.mkdir()
    (data / "144.tar.gz.part").write_bytes(server.content[:3000])
    assert checkout.gpuheap("data", "get", "144").returncode == 0
    assert (data / "144.mtx").read_bytes() == MATRIX
    assert server.asked == [("/MM/DIMACS10/144.tar.gz", "bytes=3000-")]


def test_a_part_that_is_whole_is_taken(checkout: Checkout, server: Server, data: Path) -> None:
    data.mkdir()
    (data / "144.tar.gz.part").write_bytes(server.content)
    assert checkout.gpuheap("data", "get", "144").returncode == 0
    assert (data / "144.mtx").read_bytes() == MATRIX


@pytest.mark.parametrize("content", [b"no archive", archive_of(MATRIX)[:-3000], archive_of(MATRIX, "144/other.mtx")])
def test_what_is_no_archive_with_the_graph_is_refused_and_removed(
    checkout: Checkout, server: Server, data: Path, error_line: ErrorLine, content: bytes
) -> None:
    server.content = content
    assert "is not an archive with 144.mtx" in error_line(checkout.gpuheap("data", "get", "144"))
    assert list(data.iterdir()) == []


def test_without_network_it_says_what_to_do(checkout: Checkout, server: Server, data: Path, error_line: ErrorLine) -> None:
    server.close()
    line = error_line(checkout.gpuheap("data", "get", "144"))
    assert line.startswith(f"{server.url}/MM/DIMACS10/144.tar.gz cannot be reached (")
    assert "--graph" in line and "generated graphs" in line


def test_names_and_answers_that_are_none(checkout: Checkout, server: Server, data: Path, error_line: ErrorLine) -> None:
    assert "unknown data set '145': did you mean '144'?" in error_line(checkout.gpuheap("data", "get", "145"))
    assert "the server answers 404" in error_line(checkout.gpuheap("data", "get", "fe_body"))
