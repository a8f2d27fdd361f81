"""The host tools take nothing away that is not theirs, and damaged files are one line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gpuheap.errors import UserError
from gpuheap.host.history import history_of
from gpuheap.host.launch import find_program, prepare_folder
from gpuheap.host.proof import FIRST_LINE, make_room
from gpuheap.host.trace import BLOCK_BYTES, EVENT, HEADER_BYTES, MAGIC, SLOT_BYTES, VERSION, read_trace


def test_a_file_that_is_no_proof_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(UserError, match="notes is not a proof, and is left as it is: name another file with -o"):
        make_room(tmp_path / "notes")
    with pytest.raises(UserError, match="cannot be replaced: is a directory"):
        make_room(tmp_path)
    assert (tmp_path / "notes").read_text() == "mine"
    (tmp_path / "proof").write_text(f"{FIRST_LINE}\n")
    make_room(tmp_path / "proof")
    make_room(tmp_path / "proof")
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("name", ["index.html", "notes", "old.trace/"])
def test_a_folder_of_others_is_not_emptied(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.1.trace").write_text("")
    path = tmp_path / name
    path.mkdir() if name.endswith("/") else path.write_text("mine")
    with pytest.raises(UserError, match="holds other files .*: name an empty folder for the trace with -o"):
        prepare_folder(tmp_path)
    assert path.exists() and (tmp_path / "a.1.trace").exists()


def test_a_folder_of_an_earlier_trace_is_emptied(tmp_path: Path) -> None:
    for name in ("a.1.trace", "b.2.trace", "report.html", "pools.plan"):
        (tmp_path / name).write_text("")
    assert prepare_folder(tmp_path) == tmp_path.resolve() and not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="file is a file: name a folder"):
        prepare_folder(tmp_path / "file")
    with pytest.raises(UserError, match="x cannot be made: not a directory: name another folder with -o"):
        prepare_folder(tmp_path / "file" / "x")


def test_a_program_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(Path("/bin/true").read_bytes()[:80])
    path.chmod(0o755)
    with pytest.raises(UserError, match="E12: .*program is cut short"):
        find_program([str(path)])


def test_a_damaged_trace_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.trace"
    head = MAGIC.ljust(16, b"\0") + VERSION.to_bytes(4, "little")
    refused = 0
    for seed in range(60):
        chance = random.Random(seed)
        block = bytearray(chance.randbytes(BLOCK_BYTES) if seed % 2 else BLOCK_BYTES)
        for slot in range(0, BLOCK_BYTES, SLOT_BYTES):
            block[slot : slot + 2] = chance.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 32, 33, 34, 35, 36, 77]).to_bytes(2, "little")
        path.write_bytes(head.ljust(HEADER_BYTES, b"\0") + block)
        try:
            history_of(read_trace(path))
        except UserError as error:
            refused += 1
            assert str(error).startswith(f"E01: {path} is damaged (")
    assert 0 < refused < 60
    assert EVENT.itemsize == SLOT_BYTES
