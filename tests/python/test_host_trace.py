"""Traces of programs on the driver double: whatever way leads to the driver, what is recorded is what the program did."""

from __future__ import annotations

import re
import shutil
import signal
import struct
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest
from host_tools import BUILT, LIBRARY, ROOT, Bench, needs_double

from gpuheap.errors import UserError
from gpuheap.host.history import history_of
from gpuheap.host.launch import find_program, profiler_note
from gpuheap.host.sites import flows_of, peaks_of, sites_of
from gpuheap.host.stacks import Place, Symbols
from gpuheap.host.summary import warnings_of
from gpuheap.host.trace import BLOCK_BYTES, HEADER_BYTES, Frame, Module, Stack, find_traces, read_trace

pytestmark = needs_double


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize(
    ("program", "way"), [("host_patterns_linked", "linked"), ("host_patterns", "dlsym"), ("host_patterns", "lookup"), ("host_patterns", "per-thread"),
     ("host_patterns", "early"), ("host_patterns", "private")],
)  # fmt: skip
def test_every_way_to_the_driver_is_seen(bench: Bench, program: str, way: str) -> None:
    plain = bench.plain(program, way, "rounds", "5")
    traced = bench.traced(program, way, "rounds", "5")
    assert traced.stdout == plain.stdout and traced.returncode == 0 and traced.stderr == ""
    history = bench.history()
    assert history.trace.ended and history.trace.devices == {0: ("Double", 64 << 30)} and history.trace.facts["driver"] == "13000"
    assert [each.bytes for each in history.allocations] == [size for size in (4000, 4400, 4800, 5200, 4000) for _ in range(2)]
    assert Counter(copy.direction for copy in history.copies) == {"host to device": 5, "device to host": 5}
    assert {name: each.count for name, each in history.launches.items()} == {"add_one": 5, "scale": 5}
    assert history.leaks == [] and history.failures == []
    assert [(peak.memory, peak.device, peak.bytes) for peak in peaks_of(history)] == [("device", 0, 10400)]
    per_thread = [name for name in (history.trace.entry(int(e)) for e in set(history.trace.events["entry"])) if name.endswith(("_ptds", "_ptsz"))]
    assert bool(per_thread) == (way == "per-thread")


def test_every_kind_of_memory_and_copy_is_told_apart(bench: Bench) -> None:
    assert bench.traced("host_patterns", "dlsym", "kinds").returncode == 0
    history = bench.history()
    made = {each.memory: each.bytes for each in history.allocations}
    assert made == {"managed": 4096, "pinned": 8192, "device": 512 * 16, "stream-ordered": 2048, "registered": 65536}
    assert history.leaks == []
    flows = {(flow.direction, flow.pinned, flow.asynchronous): (flow.count, flow.bytes) for flow in flows_of(history.copies)}
    assert flows == {
        ("host to device", True, True): (1, 4096),
        ("host to device", True, False): (1, 100),
        ("device to device", False, False): (2, 2048 + 1024),
        ("device to host", True, False): (1, 200),
        ("device to device", False, True): (2, 32 + 48),
    }
    assert [(each.bytes, each.asynchronous) for each in history.sets] == [(512, False)]


def test_leaks_come_with_their_stacks(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "leak", "3")
    history = bench.history()
    assert sorted(each.bytes for each in history.leaks) == [1000, 2000, 3000]
    symbols = Symbols()
    symbols.learn(history.trace.stacks.values())
    source = (ROOT / "tests" / "host" / "programs" / "patterns.cpp").read_text().splitlines()
    helper = next(number for number, line in enumerate(source, 1) if "void allocate_for_good(" in line)  # without a frame of its own
    if shutil.which("addr2line"):
        words = [place.words for place in symbols.places(history.trace.stacks[history.leaks[0].stack]) if not place.of_runtime]
        assert re.search(r"allocate\(unsigned long\) \(patterns.cpp:\d+\)", words[0]) and words[1].endswith(f"(patterns.cpp:{helper})")
        assert re.search(r"leak(\(int\))? \(patterns.cpp:\d+\)", words[2]) and not words[2].endswith(f":{helper})")


def test_places_in_the_runtime_are_no_places_of_the_program() -> None:
    for place in (
        Place("cudaError cudaMalloc<int>(int**, unsigned long)", "/usr/local/cuda/include/cuda_runtime.h", 879, "app", 16),
        Place("libcudart_static_0a1b", "", 0, "app", 16), Place("", "", 0, "libcudart.so.13", 16), Place("_start", "", 0, "app", 16),
    ):  # fmt: skip
        assert place.of_runtime, place
    assert not Place("leak()", "/x/cases.cu", 173, "app", 16).of_runtime


def test_places_tell_how_many_live_at_once(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "phases", "5")
    sites = sites_of(bench.history())
    assert sorted((site.count, site.most_live, site.peak_bytes) for site in sites) == [(1, 1, 1024), (15, 5, 1024 * 31)]


def test_threads_record_side_by_side(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "threads", "4")
    history = bench.history()
    assert len(history.allocations) == 400 and history.leaks == [] and history.failures == []
    assert {each.thread for each in history.allocations} == {1, 2, 3, 4}


@pytest.mark.parametrize("way", ["dlsym", "early", "private"])
def test_several_devices_are_told_apart(bench: Bench, way: str) -> None:
    bench.traced("host_patterns", way, "devices", "3", DOUBLE_DEVICES="3")
    assert sorted(bench.trace().devices) == [0, 1, 2]
    assert [(peak.device, peak.bytes) for peak in sorted(peaks_of(bench.history()), key=lambda p: p.device)] == [(0, 4096), (1, 4096), (2, 4096)]


def test_a_killed_process_leaves_what_it_did(bench: Bench) -> None:
    assert bench.traced("host_patterns", "dlsym", "dies").returncode == -signal.SIGKILL
    history = bench.history()
    assert not history.trace.ended
    assert [each.bytes for each in history.leaks] == [12345] and len(history.copies) == 2


def test_a_process_that_leaves_by_exit_is_marked_so(bench: Bench) -> None:
    assert bench.traced("host_patterns", "dlsym", "leaves").returncode == 4
    assert not bench.trace().ended


def test_a_child_after_fork_has_a_trace_of_its_own(bench: Bench) -> None:
    plain, traced = bench.plain("host_patterns", "dlsym", "forks"), bench.traced("host_patterns", "dlsym", "forks")
    assert sorted(traced.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    parent, child = sorted(bench.traces("trace"), key=lambda trace: "forked" in trace.facts)
    assert [each.bytes for each in history_of(parent).allocations] == [400, 400, 1200, 1200]
    assert [each.bytes for each in history_of(child).allocations] == [800, 800]
    assert child.devices == parent.devices == {0: ("Double", 64 << 30)} and child.facts["driver"] == parent.facts["driver"]
    assert [message.code for message in child.messages] == ["W02"] and child.parent == parent.process


def test_programs_that_a_program_starts_are_recorded_or_left_out(bench: Bench) -> None:
    words = ("sh", "-c", f"{BUILT}/host_patterns dlsym rounds 1; exec {BUILT}/host_patterns_linked linked rounds 2")
    for only, expected in (("", ["host_patterns", "host_patterns_linked"]), ("host_patterns_linked", ["host_patterns_linked"])):
        (bench.folder / "trace").mkdir(exist_ok=True)
        for old in (bench.folder / "trace").iterdir():
            old.unlink()
        ran = bench.run(*words, LD_PRELOAD=str(LIBRARY), GPUHEAP_HOST_TRACE=str(bench.folder / "trace"), GPUHEAP_HOST_ONLY=only)
        assert ran.returncode == 0 and ran.stderr == ""
        assert sorted(trace.program for trace in bench.traces("trace")) == expected


def test_a_python_program_is_seen(bench: Bench) -> None:
    script = bench.folder / "script.py"
    script.write_text(
        "import ctypes\n"
        "driver = ctypes.CDLL('libcuda.so.1')\n"
        "context, block = ctypes.c_void_p(), ctypes.c_uint64()\n"
        "driver.cuInit(0); driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0); driver.cuCtxSetCurrent(context)\n"
        "print(driver.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(4096)), driver.cuMemFree_v2(block))\n"
    )
    (bench.folder / "trace").mkdir()
    ran = bench.run(sys.executable, str(script), LD_PRELOAD=str(LIBRARY), GPUHEAP_HOST_TRACE=str(bench.folder / "trace"))
    assert ran.stdout == "0 0\n" and ran.stderr == ""
    assert [each.bytes for each in bench.history().allocations] == [4096]


@pytest.mark.parametrize("runtime", ["static", "shared"])
def test_the_runtime_gets_wrappers_however_it_is_linked(bench: Bench, runtime: str) -> None:
    if not (BUILT / f"host_runtime_{runtime}").exists():
        pytest.skip("programs of the CUDA runtime: no libcudart: install the CUDA toolkit, 13.0 or newer, then ./test")
    plain, traced = bench.plain(f"host_runtime_{runtime}"), bench.traced(f"host_runtime_{runtime}")
    assert traced.stdout == plain.stdout
    counters = bench.trace().counters
    assert counters["lookups"] > 300 and counters["hooks"] > 80


def test_an_older_driver_is_not_asked_for_what_came_later(bench: Bench) -> None:
    ran = bench.traced("host_patterns", "dlsym", "rounds", "1", DOUBLE_VERSION="11020")
    assert ran.returncode == 0 and ran.stderr == "" and bench.trace().facts["driver"] == "11020"


def test_a_driver_that_lacks_functions_of_its_version_is_told_of(bench: Bench) -> None:
    plain = bench.plain("host_patterns", "dlsym", "rounds", "2")
    ran = bench.traced("host_patterns", "dlsym", "rounds", "2", LD_LIBRARY_PATH=str(BUILT / "bare"))
    assert ran.stdout == plain.stdout and ran.returncode == 0
    assert ran.stderr.startswith("gpuheap: E11: ") and "cuMemcpyPeer" in ran.stderr and "cuMemAlloc_v2" not in ran.stderr
    assert len(bench.history().allocations) == 4


def test_notes_warn_of_caches_and_of_profilers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.traced("host_patterns", "dlsym", "rounds", "1")
    history = bench.history()
    assert warnings_of(history) == []
    number, stack = next(iter(history.trace.stacks.items()))
    frames = (Frame(Module("/x/libc10_cuda.so", ""), 16), *stack.frames)
    history.trace.stacks[number] = Stack(stack.site, frames)
    assert [words[:4] for words in warnings_of(history)] == ["W03:"]
    assert profiler_note() is None
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/x/profiler.so")
    assert "E13" in (profiler_note() or "")


def test_failures_of_the_driver_are_passed_on_and_counted(bench: Bench) -> None:
    plain, traced = bench.plain("host_patterns", "dlsym", "twice"), bench.traced("host_patterns", "dlsym", "twice")
    assert traced.stdout == plain.stdout
    history = bench.history()
    assert [(each.entry, each.result, each.count) for each in history.failures] == [("cuMemFree_v2", 1, 2), ("cuMemFreeHost", 1, 1)]
    assert history.null_frees == 1 and history.leaks == []


@pytest.mark.parametrize(("pattern", "lost"), [("resets", 0), ("unnamed_resets", 2)])
def test_a_reset_of_the_device_ends_what_lives_there(bench: Bench, pattern: str, lost: int) -> None:
    bench.traced("host_patterns", "dlsym", pattern, "2")
    assert [leak.lost for leak in bench.history().leaks] == ["its device was reset"] * lost


def test_a_report_draws_its_pictures_as_files(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "rounds", "3")
    ran = bench.gpuheap("host", "report", "trace", "--figures", "drawn/here")
    assert ran.returncode == 0 and "figures: 5 in drawn/here" in ran.stdout, ran.stdout + ran.stderr
    files = sorted((bench.folder / "drawn" / "here").iterdir())
    assert [file.stem for file in files] == ["copies", "lifetimes", "live", "sizes", "timeline"]
    for file in files:
        root = ET.fromstring(file.read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and float(root.get("width", "")) > 300 and "var(" not in file.read_text()
    (bench.folder / "a_file").touch()
    refused = bench.gpuheap("host", "report", "trace", "--figures", "a_file")
    assert refused.returncode == 2 and "a_file/live.svg cannot be written: not a directory" in refused.stderr


def test_dlsym_still_knows_its_caller(bench: Bench) -> None:
    after = BUILT / "libhost_next_symbol.so"
    code = f"import ctypes; print(ctypes.CDLL({str(after)!r}).next_is_another())"
    for preloaded in (str(after), f"{LIBRARY}:{after}"):
        ran = bench.run(sys.executable, "-c", code, LD_PRELOAD=preloaded, GPUHEAP_HOST_TRACE=str(bench.folder))
        assert ran.stdout == "1\n", (preloaded, ran.stderr)
    assert list(bench.folder.iterdir()) == []  # and a program without CUDA leaves no trace


def test_a_full_or_missing_folder_stops_the_trace_and_not_the_program(bench: Bench) -> None:
    plain = bench.plain("host_patterns", "dlsym", "rounds", "1")
    ran = bench.run(str(BUILT / "host_patterns"), "dlsym", "rounds", "1", LD_PRELOAD=str(LIBRARY), GPUHEAP_HOST_TRACE="/nonexistent")
    assert ran.stdout == plain.stdout and ran.returncode == 0
    assert ran.stderr.count("nothing is recorded") == 1


def test_a_torn_file_reads_up_to_the_tear(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "rounds", "200")
    path = bench.trace().path
    whole = len(read_trace(path).events)
    path.write_bytes(path.read_bytes()[: HEADER_BYTES + 2 * BLOCK_BYTES + 100])
    assert 0 < len(read_trace(path).events) < whole


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.trace"
    for content, words in ((b"hello", "is not a trace"), (b"gpuheap-trace\n\0\0" + struct.pack("<I", 9) + bytes(5000), "of version 9")):
        path.write_bytes(content)
        with pytest.raises(UserError, match=f"E01.*{words}"):
            read_trace(path)


def test_a_device_is_no_trace() -> None:
    with pytest.raises(UserError, match="E01: /dev/zero is a device"):
        find_traces(Path("/dev/zero"))


def test_the_time_added_to_a_call_is_below_a_microsecond(bench: Bench) -> None:
    # The best of three: other work on the machine may add to any of them.
    added = []
    for _ in range(3):
        plain, traced = (f("host_patterns", "dlsym", "many", "200000") for f in (bench.plain, bench.traced))
        nanoseconds = [float(re.search(r"(\d+) ns a call", ran.stdout)[1]) for ran in (plain, traced)]  # type: ignore[index]
        added.append(nanoseconds[1] - nanoseconds[0])
    assert min(added) < 1000, added


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: p.write_text("plain text"), "neither an ELF program nor a script"),
        (lambda p: p.write_bytes(b"\x7fELF\x01\x01\x01" + bytes(60)), "not a 64-bit x86 program"),
        (lambda p: p.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(11) + struct.pack("<H", 62) + bytes(60)), "linked statically"),
    ],
)
def test_programs_that_nothing_can_be_put_before_are_refused(tmp_path: Path, make, words: str) -> None:
    path = tmp_path / "program"
    make(path)
    path.chmod(0o755)
    with pytest.raises(UserError, match=f"E12.*{words}"):
        find_program([str(path)])


def test_a_program_with_anothers_rights_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "program"
    shutil.copy("/bin/true", path)
    path.chmod(0o4755)
    with pytest.raises(UserError, match="E12.*rights"):
        find_program([str(path)])


def test_the_command_traces_and_reports(bench: Bench, error_line) -> None:
    program = str(BUILT / "host_patterns")
    ran = bench.gpuheap("host", "trace", "-o", "t", "--", program, "dlsym", "kinds")
    assert ran.returncode == 0 and ran.stdout == bench.plain("host_patterns", "dlsym", "kinds").stdout
    assert "1 process recorded" in ran.stderr
    assert bench.gpuheap("host", "trace", "-o", "t", "--", program, "dlsym", "leaves").returncode == 4
    (found,) = bench.report("t")
    assert not found["ended"] and [site["memory"] for site in found["sites"]] == ["device", "device"]
    (bench.folder / "t" / "notes.txt").write_text("mine")
    assert "holds other files ('notes.txt')" in error_line(bench.gpuheap("host", "trace", "-o", "t", "--", program, "dlsym", "kinds"))
    assert "E01" in error_line(bench.gpuheap("host", "report", "nothing"))
    assert "is not a program that can be run" in error_line(bench.gpuheap("host", "trace", "--", "no-such-program"))


def test_the_page_shows_each_process_with_its_pictures(bench: Bench) -> None:
    bench.traced("host_patterns", "dlsym", "phases", "5")
    ran = bench.gpuheap("host", "report", "trace", "-o", "page.html")
    assert ran.returncode == 0, ran.stderr
    assert "allocate(unsigned long)" in ran.stdout and "report: page.html" in ran.stdout
    page = (bench.folder / "page.html").read_text()
    assert page.count("<svg") == 5 and 'aria-label="live bytes over time"' in page
    assert not re.search(r'(src|href)="(?!#)', page), "the page needs nothing else"
    assert "Never freed" not in page and "31 KiB" in page
