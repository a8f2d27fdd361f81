"""The file that `gpuheap host validate` keeps for `gpuheap host pool --elide`: the proven pairs and the identity of the run. It is a text file.

    gpuheap-host-proof 1
    gpuheap 0.1.0
    program 3f1c... app          SHA-256 of its file, and its name
    arguments 90aa...            SHA-256
    plan 1c2f...                 checksum of the plan from the profile
    driver 13000
    pair 71aa... 9f3c... 3 12582912     sites of host and device buffer, downloads and bytes in the validation run
    checksum 8d01...             checksum of the lines above
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuheap import __version__
from gpuheap.errors import UserError
from gpuheap.files import naming
from gpuheap.host.plan import Plan, checksum, with_checksum

FIRST_LINE = "gpuheap-host-proof 1"
_MAKE = "make one with `gpuheap host validate -- program arguments`"


@dataclass(frozen=True)
class Proven:
    host_site: int
    device_site: int
    downloads: int
    bytes: int


@dataclass(frozen=True)
class Proof:
    version: str
    program: str  # the SHA-256 and the name of its file
    arguments: str  # their SHA-256
    plan: str  # its checksum
    driver: int
    pairs: tuple[Proven, ...]

    def text(self) -> str:
        lines = [FIRST_LINE, f"gpuheap {self.version}", f"program {self.program}", f"arguments {self.arguments}", f"plan {self.plan}", f"driver {self.driver}"]
        lines += [f"pair {pair.host_site:x} {pair.device_site:x} {pair.downloads} {pair.bytes}" for pair in self.pairs]
        return with_checksum(lines)

    @property
    def sites(self) -> tuple[tuple[int, int], ...]:
        return tuple((pair.host_site, pair.device_site) for pair in self.pairs)


def proof_of(words: Sequence[str], plan: Plan, pairs: Sequence[Proven]) -> Proof:
    """The proof of `pairs` for the program file as it is now, with these arguments and this plan."""
    path = Path(shutil.which(words[0]) or words[0])
    arguments = hashlib.sha256(b"".join(word.encode(errors="surrogateescape") + b"\0" for word in words[1:])).hexdigest()
    program = f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.name}"
    return Proof(__version__, program, arguments, f"{checksum(plan.text()):016x}", plan.driver, tuple(pairs))


def usable_proof(path: Path, words: Sequence[str], plan: Plan) -> Proof:
    """Reads a proof. Raises UserError (E09) for one that is missing, damaged, or of another program, other arguments, another profile or another gpuheap."""
    found = _read(path)
    wanted = proof_of(words, plan, ())
    for what, theirs, ours in (
        ("was made by gpuheap " + found.version + ", this is " + wanted.version, found.version, wanted.version),
        ("is of another program, or of another build of this one", found.program, wanted.program),
        ("is of other arguments", found.arguments, wanted.arguments),
        ("is of another profile", found.plan, wanted.plan),
    ):
        if theirs != ours:
            raise UserError(f"E09: {path} {what}: no copy is dropped by it; {_MAKE}")
    if not found.pairs:
        raise UserError(f"E09: {path} proves no pair, so there is no copy to drop: run without --elide")
    return found


def make_room(path: Path) -> None:
    """Removes an earlier proof. Raises UserError for a file that is no proof, and does not remove that file."""
    if not path.exists():
        return
    with naming(path, "replaced", "name another file with -o"):
        with path.open("rb") as file:
            if file.read(len(FIRST_LINE)) != FIRST_LINE.encode():
                raise UserError(f"{path} is not a proof, and is left as it is: name another file with -o")
        path.unlink()


def _read(path: Path) -> Proof:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise UserError(f"E09: {path} {why}, and --elide drops copies only between proven pairs: {_MAKE}") from None
    body, _, end = text.rpartition("checksum ")
    lines = body.splitlines()
    if not lines or lines[0] != FIRST_LINE:
        begins = text.splitlines()[0][:40] if text else ""
        raise UserError(f"E09: {path} is not a proof of this version: it begins with '{begins}', not '{FIRST_LINE}'; {_MAKE}")
    try:
        if end.strip() != f"{checksum(body):016x}":
            raise ValueError
        facts = dict(line.split(" ", 1) for line in lines[1:6])
        pairs = [line.split(" ") for line in lines[6:]]
        proven = tuple(Proven(int(host, 16), int(device, 16), int(downloads), int(size)) for _, host, device, downloads, size in pairs)
        return Proof(facts["gpuheap"], facts["program"], facts["arguments"], facts["plan"], int(facts["driver"]), proven)
    except (ValueError, KeyError):
        raise UserError(f"E09: {path} was cut short or changed by hand: {_MAKE}") from None
