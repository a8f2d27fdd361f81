"""Pairs of host and device buffers, from copies alone: what may be one, and what speaks against it."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from host_tools import Bench, needs_double

from gpuheap.host.history import Allocation, Copy, History
from gpuheap.host.pairs import NAMED_ELSEWHERE, ON_DEVICE, SEVERAL_DEVICES, SEVERAL_HOSTS, pairs_by_place, pairs_of

HOST = 1 << 40


class Program:
    """Buffers that are made and copied, a step of time each."""

    def __init__(self) -> None:
        self.history = History(SimpleNamespace(stacks={}), end_ns=1 << 30)  # type: ignore[arg-type]
        self._now = 0

    def buffer(self, size: int, memory: str = "device") -> Allocation:
        self._now += 1
        index = len(self.history.allocations)
        made = Allocation(index, memory, 0, (index + 1) << 24, size, 0, 0, 1, 1, 0, self._now)
        self.history.allocations.append(made)
        return made

    def free(self, ended: Allocation) -> None:
        self._now += 1
        ended.end_ns = self._now

    def _copy(self, direction: str, size: int, addresses: tuple[int, int], blocks: tuple[int, int]) -> None:
        self._now += 1
        self.history.copies.append(Copy(direction, False, False, size, 1, self._now, 1, addresses, blocks))

    def up(self, to: Allocation, host: int, size: int = 0, offset: int = 0) -> None:
        self._copy("host to device", size or to.bytes, (HOST + host + offset, to.address + offset), (-1, to.index))

    def down(self, source: Allocation, host: int, size: int = 0, offset: int = 0) -> None:
        self._copy("device to host", size or source.bytes, (source.address + offset, HOST + host + offset), (source.index, -1))

    def across(self, to: Allocation, source: Allocation) -> None:
        self._copy("device to device", to.bytes, (source.address, to.address), (source.index, to.index))

    def verdicts(self) -> list[str]:
        return [pair.refuted for pair in pairs_of(self.history)]


def test_three_up_kernels_and_the_same_three_down_are_candidates() -> None:
    program = Program()
    buffers = [program.buffer(size) for size in (4096, 4096, 256)]
    program.buffer(512)  # never copied: no pair
    for number, each in enumerate(buffers):
        program.up(each, number << 20)
    for number, each in enumerate(buffers):
        program.down(each, number << 20)
    pairs = pairs_of(program.history)
    assert [(pair.host_address - HOST, len(pair.copies), pair.whole, pair.refuted) for pair in pairs] == [(n << 20, 2, True, "") for n in range(3)]
    (place,) = pairs_by_place(program.history)
    assert (place.buffers, place.up, place.down, place.bytes, place.whole, place.refuted) == (3, 3, 3, 2 * (4096 + 4096 + 256), True, "")


def test_a_third_buffer_that_gets_the_result_speaks_against_a_pair() -> None:
    program = Program()
    one, other = program.buffer(4096), program.buffer(4096)
    program.up(one, 0)
    program.up(other, 1 << 20)
    program.down(other, 2 << 20)
    assert program.verdicts() == ["", SEVERAL_HOSTS]


def test_a_copy_on_the_device_speaks_against_both_its_buffers() -> None:
    program = Program()
    one, other = program.buffer(4096), program.buffer(4096)
    program.up(one, 0)
    program.across(other, one)
    program.down(other, 1 << 20)
    assert program.verdicts() == [ON_DEVICE, ON_DEVICE]


def test_one_host_buffer_for_two_device_buffers_is_no_pair_while_both_live() -> None:
    program = Program()
    one, other = program.buffer(4096), program.buffer(4096)
    program.up(one, 0)
    program.up(other, 4000)  # overlaps in part
    assert program.verdicts() == [SEVERAL_DEVICES, SEVERAL_DEVICES]
    program = Program()
    for _ in range(3):  # one after the other
        block = program.buffer(4096)
        program.up(block, 0)
        program.free(block)
    assert program.verdicts() == ["", "", ""]


def test_parts_are_told_from_the_whole() -> None:
    program = Program()
    one, other = program.buffer(4096), program.buffer(4096)
    program.up(one, 0)
    program.down(one, 0, size=4, offset=128)
    program.up(other, 1 << 20)
    assert [(pair.whole, pair.refuted) for pair in pairs_of(program.history)] == [(False, ""), (True, "")]


@pytest.mark.parametrize("why", ["captured", "shared"])
def test_what_a_graph_or_another_process_may_name_is_no_pair(why: str) -> None:
    program = Program()
    block = program.buffer(4096)
    program.up(block, 0)
    setattr(block, why, True)
    assert program.verdicts() == [NAMED_ELSEWHERE]


def test_other_memory_has_no_pair() -> None:
    program = Program()
    program.up(program.buffer(4096, "managed"), 0)
    assert pairs_of(program.history) == []


def test_verdicts_are_those_of_looking_at_every_pair_of_copies() -> None:
    draw = random.Random(5)
    for _ in range(200):
        program = Program()
        blocks = [program.buffer(64 * draw.randint(1, 3)) for _ in range(3)]
        for _ in range(draw.randint(1, 8)):
            block = draw.choice(blocks)
            draw.choice((program.up, program.down))(block, draw.choice((0, 64, 1 << 20, 2 << 20)))
        for pair in pairs_of(program.history):
            bases = {copy.addresses[0 if copy.direction == "host to device" else 1] for copy in pair.copies}
            expected = SEVERAL_HOSTS if len(bases) > 1 else ""
            for copy in program.history.copies if not expected else ():
                host = copy.addresses[0 if copy.direction == "host to device" else 1]
                meets = host < min(bases) + pair.device.bytes and min(bases) < host + copy.bytes
                if copy not in pair.copies and copy.begin_ns > pair.device.begin_ns and meets:
                    expected = SEVERAL_DEVICES
            assert pair.refuted == expected


@needs_double
def test_the_report_shows_them(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.traced("host_patterns", "dlsym", "rounds", "3")
    (found,) = bench.report("trace")
    (place,) = found["pairs"]  # the first buffer of each round; the second is never copied
    assert (place["buffers"], place["up"], place["down"], place["whole"], place["refuted"]) == (3, 3, 3, True, "")
    assert place["bytes"] == 2 * (4000 + 4400 + 4800)
    ran = bench.gpuheap("host", "report", "trace")
    assert "candidate" in ran.stdout and "candidate" in (tmp_path / "trace" / "report.html").read_text()
