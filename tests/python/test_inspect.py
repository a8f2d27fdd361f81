"""`gpuheap inspect`: what it says of dumps whose blocks are known."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpuheap.errors import UserError
from gpuheap.inspection.dump import read_dump
from gpuheap.inspection.summary import CELLS, changed_groups, summarise

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]
Block = tuple[int, int, int]  # offset, bytes, number of the name
REGION = 1 << 24


def text(words: str) -> bytes:
    raw = words.encode()
    return struct.pack("<Q", len(raw)) + raw.ljust((len(raw) + 7) // 8 * 8, b"\0")


def write(
    path: Path,
    blocks: Sequence[Block],
    names: Sequence[str] = ("tree.cu:45", "tag 7"),
    region: int = REGION,
) -> Path:
    head = struct.pack(
        "<8s5Q",
        b"gpuheap\x01",
        0x7F0000000000,
        region,
        region + 4096,
        len(blocks),
        len(names),
    )
    rows = b"".join(struct.pack("<QQ", offset // 16 | name << 38 | 5 << 54, size | 9 << 38) for offset, size, name in blocks)
    path.write_bytes(head + text("checked sharded_spans") + b"".join(map(text, names)) + rows)
    return path


def inspect(*words: str | Path) -> subprocess.CompletedProcess[str]:
    package = Path(__file__).resolve().parents[2] / "python"
    return subprocess.run(
        [sys.executable, "-m", "gpuheap", "inspect", *map(str, words)],
        cwd=package,
        capture_output=True,
        text=True,
        check=False,
    )


def test_totals_groups_and_gaps(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a",
        [(0, 16, 0), (16, 16, 0), (64, 100, 1), (1024, 100, 1), (1136, 40, 2)],
    )
    found = summarise(read_dump(path))
    assert (found.blocks, found.bytes, found.span_bytes) == (5, 272, 1176)
    assert [(g.name, g.blocks, g.bytes) for g in found.groups] == [
        ("tree.cu:45", 2, 200),
        ("tag 7", 1, 40),
        ("16 bytes", 2, 32),
    ]
    assert (found.gaps, found.largest_gap) == (3, 860)
    ran = inspect(path)
    assert ran.returncode == 0, ran.stderr
    assert "5 live blocks, 272 B" in ran.stdout
    assert "tree.cu:45" in ran.stdout


def test_the_map_has_every_byte_once(tmp_path: Path) -> None:
    random.seed(3)
    blocks: list[Block] = []
    at = 0
    while at < REGION - (1 << 20):
        size = random.choice([16, 40, 1000, 5000, 70000, 900000])
        blocks.append((at, size, 0))
        at += (size + 15) // 16 * 16 + random.choice([0, 16, 4096])
    found = summarise(read_dump(write(tmp_path / "a", blocks)))
    live = bytearray(REGION)
    for offset, size, _ in blocks:
        live[offset : offset + size] = b"\1" * size
    cell = found.cell_bytes
    assert [round(share * cell) for share in found.cells.tolist()] == [sum(live[n * cell : (n + 1) * cell]) for n in range(CELLS)]


def test_the_picture_is_svg_with_darker_live_parts(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [(0, REGION // 2, 0)])
    ran = inspect(path, "--svg", tmp_path / "map.svg")
    assert ran.returncode == 0, ran.stderr
    root = ET.parse(tmp_path / "map.svg").getroot()
    fills = [rect.get("fill") for rect in root.iter("{http://www.w3.org/2000/svg}rect") if rect.get("width") == "640"]
    assert fills == ["#123e78"] * 32 + ["#eef0f3"] * 32


def test_two_dumps_are_compared(tmp_path: Path) -> None:
    first = write(tmp_path / "a", [(0, 16, 0), (64, 100, 1)])
    second = write(tmp_path / "b", [(64, 100, 1), (192, 100, 1), (320, 40, 2)])
    changes = changed_groups(summarise(read_dump(first)), summarise(read_dump(second)))
    assert [(g.name, g.blocks, g.bytes) for g in changes] == [
        ("tree.cu:45", 1, 100),
        ("tag 7", 1, 40),
        ("16 bytes", -1, -16),
    ]
    ran = inspect(first, second, "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert [dump["blocks"] for dump in told["dumps"]] == [2, 3]
    assert told["changes"][0] == {"name": "tree.cu:45", "blocks": 1, "bytes": 100}
    assert "+1 blocks" in inspect(first, second).stdout


def test_an_empty_heap(tmp_path: Path) -> None:
    ran = inspect(write(tmp_path / "a", [], names=()))
    assert ran.returncode == 0, ran.stderr
    assert "0 live blocks, 0 B" in ran.stdout


@pytest.mark.parametrize(
    ("blocks", "what"),
    [
        ([(0, 32, 0), (16, 16, 0)], "overlap"),
        ([(REGION - 16, 32, 0)], "outside"),
        ([(0, 16, 3)], "unknown names"),
    ],
)
def test_damaged_blocks_are_refused(tmp_path: Path, blocks: list[Block], what: str) -> None:
    path = write(tmp_path / "a", blocks)
    with pytest.raises(UserError, match=f"is damaged.*{what}"):
        summarise(read_dump(path))


def test_mistakes_are_one_line(tmp_path: Path, error_line: ErrorLine) -> None:
    path = write(tmp_path / "a", [(0, 16, 0)])
    (tmp_path / "cut").write_bytes(path.read_bytes()[:-8])
    (tmp_path / "other").write_text("no dump at all, but long enough to have a head of one, and more")
    (tmp_path / "head").write_bytes(path.read_bytes()[:50])
    assert "cut off" in error_line(inspect(tmp_path / "cut"))
    assert "is no dump" in error_line(inspect(tmp_path / "other"))
    assert "is damaged" in error_line(inspect(tmp_path / "head"))
    assert "cannot be read: No such file or directory: name a file that heap.write_dump() wrote" in error_line(inspect(tmp_path / "none"))
    assert "at least 1" in error_line(inspect(path, "--groups", "0"))
    assert "cannot be written" in error_line(inspect(path, "--svg", tmp_path))


def test_a_dump_is_not_replaced_by_its_map(tmp_path: Path, error_line: ErrorLine) -> None:
    path = write(tmp_path / "a", [(0, 16, 0)])
    before = path.read_bytes()
    for svg in (path, tmp_path / "link"):
        (tmp_path / "link").exists() or (tmp_path / "link").symlink_to("a")
        assert "--svg" in error_line(inspect(path, "--svg", svg))
    later = write(tmp_path / "b", [(0, 16, 0)])
    assert "is read by this command" in error_line(inspect(later, path, "--svg", path))
    assert path.read_bytes() == before


def test_names_in_a_dump_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [(0, 16, 1)], names=("\x1b[31mred\nline\0",))
    said = inspect(path).stdout
    assert "\\x1b[31mred\\nline\\x00" in said and "\x1b" not in said and "\0" not in said


def test_a_pipe_is_no_dump(tmp_path: Path, error_line: ErrorLine) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is a pipe" in error_line(inspect(tmp_path / "pipe"))


def test_two_million_blocks_take_a_moment(tmp_path: Path) -> None:
    import numpy as np

    count = 2_000_000
    path = write(tmp_path / "a", [], names=(), region=count * 64)
    head = bytearray(path.read_bytes())
    head[32:40] = struct.pack("<Q", count)
    rows = np.empty((count, 2), dtype="<u8")
    rows[:, 0] = np.arange(count) * 4
    rows[:, 1] = 48
    path.write_bytes(bytes(head) + rows.tobytes())
    began = time.process_time()
    found = summarise(read_dump(path))
    assert (found.blocks, found.gaps, found.largest_gap) == (count, count - 1, 16)
    assert time.process_time() - began < 2.0
