"""Analysis of simulated allocators whose granularity, bins and chunks are known; and `gpuheap host probe` over the driver double."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from host_tools import NOT_BUILT, ROOT, Bench, needs_double

from gpuheap.errors import UserError
from gpuheap.host.probe.analyse import Rule, analyse, chunk_of, granularity_of, kernel_times, rules_of, slot_of, slots_of
from gpuheap.host.probe.series import KERNEL, Machine, Series, read_lines
from gpuheap.host.probe.show import notes_of, slot_words
from gpuheap.host.probe.sweep import driver_series, kernel_series, sizes_up_to

PROBE = ROOT / "build" / "host" / "tools" / "host" / "probe" / "gpuheap-host-probe"
BUDGET = 64 << 20


class Simulated:
    """Slots by `slot_of_size`, cut from chunks of `chunk_bytes`, which lie apart; from `own_from` on each request takes memory of its own, rounded up to
    `own_step`."""

    def __init__(
        self, rng: random.Random, slot_of_size: Callable[[int], int], chunk_bytes: int, own_from: int = 1 << 40, own_step: int = 1, downwards: bool = False
    ) -> None:
        self.slot_of_size, self.chunk_bytes, self.downwards = slot_of_size, chunk_bytes, downwards
        self.own_from, self.own_step = own_from, own_step
        self.rng = rng
        self.next_chunk = 1 << 44
        self.free = 1 << 36

    def take(self, size: int, alignment: int, gap: int = 0) -> int:
        self.next_chunk = -(-self.next_chunk // alignment) * alignment
        at = self.next_chunk
        self.next_chunk += size + gap
        self.free -= size
        return at

    def ask(self, allocator: str, size: int, num: int) -> Series:
        before, free, addresses = self.free, [], []
        at = end = 0
        slot = self.slot_of_size(size)
        for _ in range(num):
            if size >= self.own_from:
                addresses.append(self.take(-(-size // self.own_step) * self.own_step, self.own_step))
            else:
                if at + slot > end:
                    at = self.take(self.chunk_bytes, self.chunk_bytes, self.rng.randrange(1, 8) * self.chunk_bytes)
                    end = at + self.chunk_bytes
                # Downwards: from the end of the chunk, with whatever is left over at its begin.
                addresses.append(end - slot - (at - (end - self.chunk_bytes)) if self.downwards else at)
                at += slot
            free.append(self.free)
        self.free = before
        ones = (1,) * num
        return Series(allocator, size, tuple(addresses), ones, ones, ones, ones, tuple(free), before, before)


def multiples(step: int, overhead: int = 0) -> Callable[[int], int]:
    return lambda size: -(-size // step) * step + overhead


def powers(least: int) -> Callable[[int], int]:
    return lambda size: max(least, 1 << (size - 1).bit_length())


def table(sizes: list[int]) -> Callable[[int], int]:
    return lambda size: next((each for each in sizes if each >= size), size)


@pytest.mark.parametrize("seed", range(24))
def test_granularity_rule_and_chunks_of_a_simulated_allocator_are_found(seed: int) -> None:
    rng = random.Random(seed)
    step, chunk = rng.choice([16, 32, 256, 512]), rng.choice([1, 2, 4]) << 20
    overhead = rng.choice([0, 0, 16, step])
    own_from, own_step = chunk // 4 + 4, chunk
    simulated = Simulated(rng, multiples(step, overhead), chunk, own_from, own_step, downwards=rng.random() < 0.5)
    found = analyse("device", list(driver_series(simulated.ask, "device", BUDGET)))
    first, second = found.rules
    assert first.rule == Rule("multiples", step, overhead) and second.rule == Rule("multiples", own_step, 0)
    assert first.last < own_from <= second.first and second.first - first.last <= 4  # the edge, to the byte that a step allows
    assert found.granularity is not None and found.granularity <= step
    shared = [each for each in found.chunks if each.chunk_bytes]
    assert shared[0].chunk_bytes == chunk and shared[0].first == 4 and found.chunks[-1].chunk_bytes == 0
    assert found.irregular == () and found.unserved == () and found.kept_bytes == 0


@pytest.mark.parametrize("least", [16, 64, 512])
def test_powers_of_two_are_found(least: int) -> None:
    found = analyse("device", list(driver_series(Simulated(random.Random(1), powers(least), 32 << 20).ask, "device", BUDGET)))
    assert [each.rule for each in found.rules] == [Rule("powers", least, 0)] and found.granularity == least
    assert found.bins[0].slot_bytes == least and (found.bins[0].first, found.bins[0].last) == (4, least)


@pytest.mark.parametrize("seed", range(12))
def test_every_bin_of_malloc_in_kernels_is_found_to_the_step(seed: int) -> None:
    rng = random.Random(seed)
    bins = sorted(rng.sample(range(16, 5200, 16), 9)) + [5216]
    simulated = Simulated(rng, table(bins), 1 << 20)
    found = analyse(KERNEL, list(kernel_series(simulated.ask)))
    expected = []
    low = 4
    for each in bins:
        if low <= min(each, 4800):
            expected.append((low, min(each, 4800) // 4 * 4, each))
            low = each // 4 * 4 + 4
    assert [(each.first, each.last, each.slot_bytes) for each in found.bins] == expected


@pytest.mark.parametrize("seed", range(8))
def test_edges_of_bins_without_a_rule_are_looked_for(seed: int) -> None:
    rng = random.Random(seed)
    bins = sorted({rng.randrange(1, 400) * 16 for _ in range(6)}) + [6416, 1 << 30]
    found = analyse("device", list(driver_series(Simulated(rng, table(bins), 1 << 40).ask, "device", 40_000)))
    assert len(found.bins) > 3
    for each in [each for each in found.bins if each.last < 6144]:  # the sweep's last size: what ends above it was not looked for
        assert each.slot_bytes in bins and each.last == each.slot_bytes, (bins, found.bins)


def test_blocks_in_holes_do_not_hide_the_rule() -> None:
    rng = random.Random(4)
    simulated = Simulated(rng, multiples(512), 1 << 30)

    def ask(allocator: str, size: int, num: int) -> Series:
        series = simulated.ask(allocator, size, num)
        moved = [address + (1 << 30) * rng.randrange(2, 90) if rng.random() < 0.15 else address for address in series.addresses]
        return Series(allocator, size, tuple(moved), series.request, series.release)

    made = [ask("host", size, 24) for size in sizes_up_to(1 << 20)]
    assert [each.rule for each in rules_of(slots_of(made))] == [Rule("multiples", 512, 0)]


def test_what_does_not_tell_is_not_told() -> None:
    ones = (1,) * 6
    scattered = Series("host", 64, (100, 1000, 5000, 20000, 70000, 300000), ones, ones)
    assert slot_of(scattered) is None and chunk_of(scattered) is None
    assert slot_of(Series("host", 64, (0, 64, 128), ones[:3], ones[:3])) is None  # too few
    assert granularity_of([]) is None and granularity_of([0x7F0000000200, 0x7F0000000600]) == 512
    found = analyse("host", [scattered])
    assert found.irregular == (64,) and found.rules == () and slot_words(found) == "not seen"
    machine = Machine("x", 1, 1, 1, {"async": "the driver has none", "device": ""})
    assert notes_of(machine, [found], ("async", "host")) == [
        "async was not measured: the driver has none", "host: blocks of 64 B have no common distance, so their slots are not known"
    ]  # fmt: skip


def test_chunks_show_in_addresses_where_free_memory_does_not_fall() -> None:
    simulated = Simulated(random.Random(2), multiples(512), 64 << 10)
    series = simulated.ask("host", 512, 1000)
    assert chunk_of(Series("host", 512, series.addresses, series.request, series.release)) == 64 << 10


def test_kernels_after_new_memory_are_told_apart() -> None:
    series = Series("device", 512, (1, 2, 3, 4), (1,) * 4, (1,) * 4, (900, 10, 800, 12), (9, 9, 9, 9), (90, 90, 80, 80), 100, 100)
    times = kernel_times([series])
    assert (times.after_new_memory, times.after_other, times.again) == (850, 11, 9)
    assert kernel_times([]).again is None


@pytest.mark.parametrize("text", ["", "{}\n", "nonsense\n", '{"probe": 9}\n'])
def test_what_is_no_output_of_a_probe_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "series.jsonl").write_text(text)
    with pytest.raises(UserError, match="is not an output of"):
        read_lines(tmp_path)


# --- over the double


needs_probe = pytest.mark.skipif(not PROBE.exists(), reason=NOT_BUILT)


@needs_double
@needs_probe
def test_the_double_is_probed_from_end_to_end(tmp_path: Path, error_line) -> None:
    bench = Bench(tmp_path)
    variables = {"GPUHEAP_HOST_PROBE": str(PROBE)}
    ran = bench.gpuheap("host", "probe", "--budget", "512KiB", "--json", **variables)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["machine"]["device"] == "Double" and [each["name"] for each in found["allocators"]] == ["device", "managed", "host", "async"]
    assert found["notes"][0] == "kernel was not measured: this machine has no GPU that runs the kernel with malloc"
    for each in found["allocators"]:
        assert each["granularity"] == 512 and each["kernels"]["again"] > 0
        # The double takes each block's bytes, rounded up to 512, from the device's memory, and gives them back.
        assert each["kept_bytes"] == (None if each["name"] == "host" else 0)
        assert each["name"] == "host" or {chunk["chunk_bytes"] for chunk in each["chunks"]} == {0}
        for one in each["bins"]:
            assert one["slot_bytes"] >= one["last"] + 2 * 512  # its redzones
    folder = tmp_path / "host.probe"
    with (folder / "requests.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(each["requests"] for each in found["allocators"]) and {row["unit"] for row in rows} == {"ns"}
    page = (folder / "report.html").read_text()
    assert page.count("<svg") == 3 and not re.search(r'(src|href)="(?!#)', page)
    again = bench.gpuheap("host", "probe", "--from", "host.probe", "--json")
    assert json.loads(again.stdout) == found
    shown = bench.gpuheap("host", "probe", "--from", "host.probe")
    assert "Double, driver 13000" in shown.stdout and "report: host.probe/report.html" in shown.stdout
    (folder / "notes.txt").write_text("x")
    assert "holds other files" in error_line(bench.gpuheap("host", "probe", **variables))
    assert "unknown allocator 'heap'" in error_line(bench.gpuheap("host", "probe", "--allocator", "heap", **variables))
    assert "is not a file" in error_line(bench.gpuheap("host", "probe", "-o", "other", GPUHEAP_HOST_PROBE="/nonexistent"))


@needs_double
@needs_probe
def test_requests_that_the_device_has_no_memory_for_are_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    variables = {"GPUHEAP_HOST_PROBE": str(PROBE), "DOUBLE_MEMORY": "200000"}
    ran = bench.gpuheap("host", "probe", "--allocator", "device", "--budget", "1MiB", **variables)
    assert ran.returncode == 0 and "failed because memory ran out" in ran.stdout


@needs_probe
def test_without_a_driver_it_says_so(tmp_path: Path, error_line) -> None:
    bench = Bench(tmp_path, driver="")
    assert "no CUDA driver" in error_line(bench.gpuheap("host", "probe", GPUHEAP_HOST_PROBE=str(PROBE)))


@needs_double
@needs_probe
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("device 2 1", "at least 4 bytes"),
        ("device", "ALLOCATOR BYTES COUNT"),
        ("heap 8 1", "none of device, managed, host, async and kernel"),
        ("kernel 8 1", "no GPU"),
    ],
)
def test_the_program_refuses_what_it_cannot_ask(tmp_path: Path, line: str, words: str) -> None:
    bench = Bench(tmp_path)
    ran = subprocess.run([str(PROBE)], input=line + "\n", env=bench.environment(), capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2 and words in ran.stderr


@needs_probe
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_the_kernels_are_valid(tmp_path: Path, target: str) -> None:
    tool = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if tool is None:
        pytest.skip("PTX of the tools: no ptxas: install the CUDA toolkit, 13.0 or newer")
    (tmp_path / "kernels.ptx").write_text(subprocess.run([str(PROBE), "ptx"], capture_output=True, text=True, check=True).stdout)
    command = [tool, f"-arch={target}", "-c", str(tmp_path / "kernels.ptx"), "-o", str(tmp_path / "kernels.o")]
    assert subprocess.run(command, capture_output=True, text=True).returncode == 0
