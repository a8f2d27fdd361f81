"""Downloads the graphs of the literature's evaluation from the SuiteSparse Matrix Collection into a cache folder."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError, unknown_name
from gpuheap.files import make_folder, naming, replace_file, replacement, write_all
from gpuheap.units import format_bytes

SERVER = "https://suitesparse-collection-website.herokuapp.com"  # GPUHEAP_DATA_URL names another server with the same folders
CHUNK_BYTES = 1 << 20
TIMEOUT_S = 30.0
ELSEWHERE = "name another folder with GPUHEAP_DATA"
_FACTS = {"archive_bytes", "archive_sha256", "matrix_bytes", "matrix_sha256"}


@dataclass(frozen=True)
class Dataset:
    """A graph of the collection, stored as a matrix."""

    name: str
    group: str
    brief: str

    @property
    def path(self) -> str:
        return f"MM/{self.group}/{self.name}.tar.gz"


# The graphs that the suites name: one or two of each class of the tenth DIMACS challenge, the two small graphs of the survey's code, and Orkut.
DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset("1138_bus", "HB", "a power network of 1,138 vertices"),
        Dataset("email", "Arenas", "mails between 1,133 members of a university"),
        Dataset("fe_body", "DIMACS10", "a mesh"),
        Dataset("kron_g500-logn16", "DIMACS10", "generated: a Kronecker graph"),
        Dataset("preferentialAttachment", "DIMACS10", "generated: preferential attachment"),
        Dataset("luxembourg_osm", "DIMACS10", "a road network"),
        Dataset("144", "DIMACS10", "a mesh"),
        Dataset("caidaRouterLevel", "DIMACS10", "routers of the internet"),
        Dataset("coAuthorsCiteseer", "DIMACS10", "authors who wrote papers together"),
        Dataset("coPapersDBLP", "DIMACS10", "papers with authors in common"),
        Dataset("delaunay_n20", "DIMACS10", "generated: a triangulation"),
        Dataset("rgg_n_2_20_s0", "DIMACS10", "generated: points in a square, near ones joined"),
        Dataset("com-Orkut", "SNAP", "friends of a social network: 3 million vertices, 117 million edges"),
    )
}


def cache_folder() -> Path:
    """The folder of downloads: GPUHEAP_DATA, else a folder in the user's cache."""
    named = os.environ.get("GPUHEAP_DATA")
    if named:
        return Path(named).resolve()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuheap" / "data"
    except RuntimeError:
        raise UserError("the graphs need a folder, and this user has no home folder: name a folder with GPUHEAP_DATA") from None


class Store:
    """The files of a cache folder, and the lock file that holds their sizes and checksums.

    gpuheap does not know the collection's checksums. The first download of a file is trusted and recorded if it is complete and a valid
    archive. Every later download, on any machine that has the lock file, must have the same bytes.
    """

    def __init__(self, folder: Path, server: str | None = None) -> None:
        self.folder = folder
        self._server = (server or os.environ.get("GPUHEAP_DATA_URL") or SERVER).rstrip("/")
        self._lock = folder / "lock.json"

    def get(self, name: str, say: Callable[[int, int | None], None]) -> tuple[Path, bool]:
        """Returns the matrix file, and whether it was in the folder already. `say` receives the bytes so far and the bytes in all, None if unknown.

        Raises UserError. A file that is incomplete, or differs from its record, is removed.
        """
        if name not in DATASETS:
            raise unknown_name("data set", name, DATASETS)
        dataset = DATASETS[name]
        matrix = self.folder / f"{name}.mtx"
        known = self._known().get(name, {})
        if matrix.is_file() and known.get("matrix_bytes") == matrix.stat().st_size:
            if _checksum(matrix) == known.get("matrix_sha256"):
                return matrix, True
            matrix.unlink()
        make_folder(self.folder, ELSEWHERE)
        part = self.folder / f"{name}.tar.gz.part"
        self._download(dataset, part, known.get("archive_bytes"), say)
        found = _checksum(part)
        if known and found != known["archive_sha256"]:
            part.unlink()
            raise UserError(
                f"{self._url(dataset)}: its checksum is {found[:16]}..., but {known['archive_sha256'][:16]}... in {self._lock}: the file "
                f"was removed. If the collection has a new version, remove {name} from {self._lock}"
            )
        try:
            _unpack(part, name, matrix)
        except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
            part.unlink()
            raise UserError(f"{self._url(dataset)} is not an archive with {name}.mtx ({error}): it was removed, try again") from None
        facts = {"url": self._url(dataset), "archive_bytes": part.stat().st_size, "archive_sha256": found}
        facts |= {"matrix_bytes": matrix.stat().st_size, "matrix_sha256": _checksum(matrix)}
        if known and facts["matrix_sha256"] != known["matrix_sha256"]:
            raise UserError(
                f"{self._lock}: {name}: the recorded checksums of its archive and its matrix contradict each other: remove {name} from this file"
            )
        part.unlink()
        replace_file(self._lock, json.dumps(self._known() | {name: facts}, indent=2, sort_keys=True) + "\n", ELSEWHERE)
        return matrix, False

    def has(self, name: str) -> bool:
        return (self.folder / f"{name}.mtx").is_file()

    def _known(self) -> dict[str, dict[str, Any]]:
        if not self._lock.exists():
            return {}
        try:
            found = json.loads(self._lock.read_text())
            known = {str(name): dict(facts) for name, facts in found.items()}
            if not all(facts.keys() >= _FACTS for facts in known.values()):
                raise ValueError
            return known
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            raise UserError(f"{self._lock} is not readable: delete it to trust the next downloads") from None

    def _url(self, dataset: Dataset) -> str:
        return f"{self._server}/{dataset.path}"

    def _download(self, dataset: Dataset, part: Path, recorded: int | None, say: Callable[[int, int | None], None]) -> None:
        """Downloads an archive to `part`, from where an earlier download stopped. The archive is complete when this returns."""
        url = self._url(dataset)
        have = part.stat().st_size if part.exists() else 0
        if recorded is not None and have > recorded:
            part.unlink()
            have = 0
        try:
            request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                if have and answer.status != 206:
                    have = 0  # the server sends the whole file again
                length = answer.headers.get("Content-Length")
                total = have + int(length) if length is not None and length.isdigit() else None
                with naming(part, "written", ELSEWHERE):
                    file = part.open("ab" if have else "wb", buffering=0)
                with file:
                    # Ends: when the server's answer ends.
                    while chunk := answer.read(CHUNK_BYTES):
                        with naming(part, "written", f"{ELSEWHERE}; the same command goes on from here"):
                            write_all(file.fileno(), chunk)
                        have += len(chunk)
                        say(have, total)
        except urllib.error.HTTPError as error:
            if error.code != 416:  # 416: the server has no bytes beyond those that are here
                raise UserError(f"{url}: the server answers {error.code} {error.reason}") from None
            total = have
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise UserError(
                f"{url} cannot be reached ({reason}): on a machine without network, download it elsewhere, unpack {dataset.name}.mtx, "
                f"and name that file with --graph; without it the suites use generated graphs of the same classes"
            ) from None
        if total is not None and have < total:
            part.unlink()
            raise UserError(f"{url} broke off after {format_bytes(have)} of {format_bytes(total)}: the part was removed, try again")
        if recorded is not None and have != recorded:
            part.unlink()
            raise UserError(f"{url} has {have} bytes, but {self._lock} records {recorded}: the file was removed, try again")


def _unpack(archive: Path, name: str, matrix: Path) -> None:
    """Extracts one matrix from an archive, which may hold more files. Reads the whole archive first, because gzip notices a truncated file only at its end."""
    with gzip.open(archive) as whole:
        while whole.read(CHUNK_BYTES):
            pass
    with tarfile.open(archive, "r:gz") as tar:
        member = next((m for m in tar if m.isfile() and Path(m.name).name == f"{name}.mtx"), None)
        content = tar.extractfile(member) if member is not None else None
        if content is None:
            raise tarfile.TarError(f"there is no {name}.mtx in it")
        with replacement(matrix, ELSEWHERE) as file:
            while chunk := content.read(CHUNK_BYTES):
                file.write(chunk)


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
