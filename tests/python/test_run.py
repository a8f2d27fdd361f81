"""`gpuheap run` on the driver double: real device code of nvcc is linked by nvJitLink, and the double records what the driver would have got."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from served_steps import IMAGE, LIBRARY, NVCC, PROGRAM, STEPS, Bench, Compile, is_whole, needs_the_tool

pytestmark = needs_the_tool

OTHER = 'extern "C" __global__ void other(int* p) { *p = 1; }\n'
PART = 'extern __device__ int twice(int); extern "C" __global__ void part(int** p) { *p = static_cast<int*>(malloc(4)); **p = twice(2); }\n'
HELPER = "__device__ int twice(int a) { return 2 * a; }\n"
@pytest.mark.parametrize("way", ["dlsym", "lookup", "per-thread"])
def test_a_library_is_linked_and_its_state_written_before_the_first_launch(bench: Bench, compiled: Compile, way: str) -> None:
    ran = bench.served(way, "context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make", "launch=drop")
    assert (ran.stdout, ran.stderr, ran.returncode) == ("done\n", "", 0)
    assert is_whole(bench.symbols())
    assert bench.log("^launch") == ["launch make of cubin, state 1", "launch drop of cubin, state 1"]
    assert bench.log(name="provider.log") == ["make 1, limit 0"]
    assert len(bench.log("^link$")) == 1 and len(bench.log("^load cubin$")) == 1


@pytest.mark.parametrize("step", ["library", "module", "ex", "fat", "path", "library-path", "wrapper"])
@pytest.mark.parametrize("form", [["-arch=sm_90"], ["--no-compress", "-arch=sm_90"], ["--compress-mode=speed", "-arch=sm_90"]], ids=["zstd", "clear", "lz4"])
def test_every_way_to_load_and_every_packing(bench: Bench, compiled: Compile, step: str, form: list[str]) -> None:
    ran = bench.served("context", f"{step}={compiled(PROGRAM, *form)}", "launch=make")
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    assert is_whole(bench.symbols()) and bench.log("^launch") == ["launch make of cubin, state 1"]


@pytest.mark.parametrize(
    "options",
    [["-gencode=arch=compute_75,code=compute_75"], ["-gencode=arch=compute_80,code=[sm_80,compute_80]", "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]"],
     ["-G", "-arch=sm_90"], ["-lineinfo", "-maxrregcount=40", "-Xptxas", "-O1", "-arch=sm_90"], ["-DWIDE", "-arch=sm_90"], ["-rdc=true", "-arch=sm_90"]],
    ids=["older PTX", "several", "debug", "options", "over-aligned", "relocatable"],
)  # fmt: skip
def test_every_build_of_a_program(bench: Bench, compiled: Compile, options: list[str]) -> None:
    ran = bench.served("context", f"library={compiled(PROGRAM, *options)}", "launch=make")
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    assert is_whole(bench.symbols())
    if "-maxrregcount=40" in options:
        assert bench.log("^link option") == ["link option 0 = 40", "link option 7 = 1", "link option 13 = 1"]
    if "-G" in options:
        assert "link option 11 = 1" in bench.log()


@pytest.mark.parametrize("form", [["-arch=sm_90"], ["-ptx", "-arch=sm_90"], ["-maxrregcount=32", "-arch=sm_90"]], ids=["fat", "text", "noted by nvcc"])
def test_what_a_program_asks_of_the_compiler_holds_for_its_ptx(bench: Bench, compiled: Compile, form: list[str]) -> None:
    ran = bench.served("context", f"options={compiled(PROGRAM, *form)}", "launch=make")
    assert (ran.stdout, ran.stderr) == ("logs '' of 0, '' of 0\ndone\n", "")
    assert is_whole(bench.symbols())
    least = 32 if "-maxrregcount=32" in form else 40
    assert sorted(bench.log("^link option")) == ["link option 0 = " + str(least), "link option 13 = 1", "link option 7 = 2"]


def test_the_options_of_code_that_is_not_served_are_the_drivers(bench: Bench, compiled: Compile) -> None:
    ran = bench.served("context", f"options={compiled(OTHER, '-arch=sm_90')}", "launch=other")
    assert ran.stdout == "logs 'not written' of 64, 'not written' of 64\ndone\n"


@pytest.mark.parametrize("architecture", ["75", "80", "100", "120"])
def test_other_devices(bench: Bench, compiled: Compile, architecture: str) -> None:
    image = compiled(IMAGE, "-rdc=true", f"-arch=sm_{architecture}")
    ran = bench.served(
        "context",
        f"library={compiled(PROGRAM, '-gencode=arch=compute_75,code=compute_75')}",
        "launch=make",
        DOUBLE_ARCHITECTURE=architecture,
        PROVIDER_IMAGE=str(image),
    )
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    assert is_whole(bench.symbols())


def test_ptx_alone(bench: Bench, compiled: Compile) -> None:
    ran = bench.served("context", f"module={compiled(PROGRAM, '-ptx', '-arch=sm_90')}", "launch=make")
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    assert is_whole(bench.symbols())


def test_a_linked_image_is_made_of_its_parts(bench: Bench, compiled: Compile) -> None:
    parts = [compiled(source, "-rdc=true", "-arch=sm_90") for source in (PART, HELPER)]
    cubins = [compiled(source, "-rdc=true", "-arch=sm_90", "-cubin") for source in (PART, HELPER)]
    objects = []
    for number, cubin in enumerate(cubins):
        objects.append(bench.folder / f"{number}.cubin")
        shutil.copy(cubin, objects[-1])
    linked, image = bench.folder / "linked.cubin", bench.folder / "linked.fatbin"
    tools = Path(str(NVCC)).parent
    subprocess.run([tools / "nvlink", "-arch=sm_90", *objects, "-o", linked], check=True, capture_output=True)
    subprocess.run([tools / "fatbinary", "-64", f"--image3=kind=elf,sm=90,file={linked}", f"--create={image}"], check=True, capture_output=True)
    ran = bench.served("context", f"linked={image},{parts[0]},{parts[1]}", "launch=part")
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    assert bench.log("^launch") == ["launch part of cubin, state 1"]
    assert {"part", "gpuheap_malloc"} <= set(bench.symbols()) and "malloc" not in bench.symbols()
    # Without PTX in a part that asks there is nothing to link.
    bare = compiled(PART, "-rdc=true", "-gencode=arch=compute_90,code=sm_90")
    ran = bench.served("context", f"linked={image},{bare},{parts[1]}", "launch=part")
    assert "machine code alone" in ran.stderr and bench.log("^load") == ["load fat binary"]


def test_what_needs_nothing_is_passed_on_untouched(bench: Bench, compiled: Compile) -> None:
    ran = bench.served("context", f"library={compiled(OTHER, '-arch=sm_90')}", "launch=other")
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    assert bench.log("^load") == ["load fat binary"] and bench.log("^link") == [] and bench.log(name="provider.log") == []


def test_machine_code_alone_is_told_and_runs_as_before(bench: Bench, compiled: Compile) -> None:
    for form in (["-gencode=arch=compute_90,code=sm_90"], ["-cubin", "-arch=sm_90"]):
        ran = bench.served("context", f"library={compiled(PROGRAM, *form)}", f"library={compiled(PROGRAM, *form)}", "launch=make")
        assert ran.stdout == "done\n" and ran.returncode == 0
        assert ran.stderr.count("\n") == 1 and ran.stderr.startswith("gpuheap: device code of run_steps keeps CUDA's malloc: it brings machine code alone")
        assert bench.log("^link") == [] and bench.log(name="provider.log") == []


@pytest.mark.parametrize(
    ("variables", "words"),
    [({"DOUBLE_NO_LINK": "222"}, "the driver does not link its PTX (error 222)"),
     ({"DOUBLE_NVJITLINK": "libnone.so"}, "the driver does not link its PTX (error 221)"),
     ({"DOUBLE_DEVICES": "2", "DOUBLE_LAST_ARCHITECTURE": "120"}, "the devices are of different architectures"),
     ({"PROVIDER_REFUSAL": "it is a double"}, "cannot serve: it is a double")],
)  # fmt: skip
def test_a_program_that_cannot_be_served_runs_as_before(bench: Bench, compiled: Compile, variables: dict[str, str], words: str) -> None:
    ran = bench.served("context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make", **variables)
    assert ran.stdout == "done\n" and ran.returncode == 0
    assert words in ran.stderr and ran.stderr.count("\n") == 1
    assert bench.log("^load") == ["load fat binary"]


def test_an_image_without_a_function_that_the_program_needs(bench: Bench, compiled: Compile) -> None:
    image = compiled(IMAGE, "-rdc=true", "-arch=sm_90", "-DWITHOUT_ALIGNED")
    ran = bench.served("context", f"library={compiled(PROGRAM, '-DWIDE', '-arch=sm_90')}", "launch=make", PROVIDER_IMAGE=str(image))
    assert "gpuheap_aligned_malloc" in ran.stderr and ran.stdout == "done\n" and bench.log("^load") == ["load fat binary"]


GREEDY = """
#include <cstddef>
extern "C" {
__constant__ unsigned long long* gpuheap_malloc_state;
__device__ __attribute__((used)) void* gpuheap_malloc(size_t bytes) {
  unsigned long long values[80];
  for (int i = 0; i < 80; ++i) values[i] = gpuheap_malloc_state[i * bytes];
  __syncwarp();
  for (int i = 0; i < 80; ++i) gpuheap_malloc_state[i] = values[79 - i] * bytes;
  return reinterpret_cast<void*>(values[bytes % 2]);
}
__device__ __attribute__((used)) void gpuheap_free(void*) {}
}
"""


def test_kernels_start_with_as_many_threads_as_before(bench: Bench, compiled: Compile) -> None:
    """A kernel takes the registers of all that it calls: with a greedy allocator's code the largest blocks would not start, and that is compiled."""
    image = compiled(GREEDY, "-rdc=true", "-arch=sm_90")
    ran = bench.served("context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make", PROVIDER_IMAGE=str(image))
    assert ran.stdout == "done\n" and "more registers than their largest blocks leave to a thread" in ran.stderr
    assert bench.log("^load") == ["load fat binary"] and "link option 0 = 64" in bench.log()


def test_code_that_cannot_be_linked_is_linked_once(bench: Bench, compiled: Compile) -> None:
    library = compiled(PROGRAM, "-arch=sm_90")
    steps = ("context", f"library={library}", f"library={library}", "launch=make")
    ran = bench.served(*steps, DOUBLE_NO_LINK="222")
    assert ran.stdout == "done\n" and ran.stderr.count("(error 222)") == 1
    assert len(bench.log("^link$")) == 1 and bench.log("^load") == ["load fat binary"] * 2
    # So is code that is linked, and cannot replace the program's own: twice here, without a bound on registers and with one.
    ran = bench.served(*steps, PROVIDER_IMAGE=str(compiled(GREEDY, "-rdc=true", "-arch=sm_90")))
    assert ran.stdout == "done\n" and ran.stderr.count("more registers than their largest blocks leave to a thread") == 1
    assert len(bench.log("^link$")) == 2 and bench.log("^load") == ["load fat binary"] * 2
    # An error that does not come from the code may be gone at the next load.
    ran = bench.served(*steps, DOUBLE_NO_LINK="2")
    assert len(bench.log("^link$")) == 2


def test_equal_ptx_beside_other_machine_code_is_linked_for_each(bench: Bench, compiled: Compile) -> None:
    """What was linked for one image is checked against the machine code of the other, which has a kernel more."""
    images = []
    for number, source in enumerate((PROGRAM, PROGRAM + OTHER)):
        cubin, ptx = bench.folder / f"{number}.cubin", bench.folder / f"{number}.ptx"
        shutil.copy(compiled(source, "-cubin", "-arch=sm_90"), cubin)
        shutil.copy(compiled(PROGRAM, "-ptx", "-arch=sm_90"), ptx)
        images.append(bench.folder / f"{number}.fatbin")
        words = ["-64", f"--image3=kind=elf,sm=90,file={cubin}", f"--image3=kind=ptx,sm=90,file={ptx}", f"--create={images[-1]}"]
        subprocess.run([Path(str(NVCC)).parent / "fatbinary", *words], check=True, capture_output=True)
    ran = bench.served("context", f"library={images[0]}", "launch=make", f"library={images[1]}", "launch=other")
    assert ran.stdout == "done\n" and "the kernel other is not in its PTX" in ran.stderr
    assert bench.log("^load") == ["load cubin", "load fat binary"]


def test_a_heap_that_cannot_be_made_leaves_null_pointers(bench: Bench, compiled: Compile) -> None:
    ran = bench.served("context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make", "launch=make", PROVIDER_NO_HEAP="the device is full")
    assert ran.stdout == "done\n" and ran.stderr.count("the device is full") == 1
    assert bench.log("^launch") == ["launch make of cubin, state 0"] * 2


def test_contexts_have_heaps_of_their_own(bench: Bench, compiled: Compile) -> None:
    library = compiled(PROGRAM, "-arch=sm_90")
    assert bench.served("context", f"library={library}", "launch=make", "other", "launch=make").stdout == "done\n"
    assert bench.log("^launch") == ["launch make of cubin, state 1", "launch make of cubin, state 2"]
    # After a reset, too; what is loaded again is linked once.
    assert bench.served("context", f"library={library}", "launch=make", "reset", "context", f"library={library}", "launch=make").stdout == "done\n"
    assert bench.log("^launch") == ["launch make of cubin, state 1", "launch make of cubin, state 2"]
    assert len(bench.log("^link$")) == 1 and bench.log("forget", "provider.log") == ["forget 1"]
    # A module lives in one.
    assert bench.served("context", f"module={library}", "launch=make", "other", f"module={library}", "launch=make").stdout == "done\n"
    assert bench.log("^launch") == ["launch make of cubin, state 1", "launch make of cubin, state 2"]


def test_modules_that_come_later_share_the_heap(bench: Bench, compiled: Compile) -> None:
    first, second = compiled(PROGRAM, "-arch=sm_90"), compiled(PROGRAM, "-G", "-arch=sm_90")
    assert bench.served("context", f"library={first}", "launch=make", f"library={second}", "launch=drop", "unload").stdout == "done\n"
    assert bench.log("^launch") == ["launch make of cubin, state 1", "launch drop of cubin, state 1"]
    assert bench.log(name="provider.log") == ["make 1, limit 0"]


def test_a_library_loaded_before_any_context(bench: Bench, compiled: Compile) -> None:
    assert bench.served(f"library={compiled(PROGRAM, '-arch=sm_90')}", "context", "launch=make").stdout == "done\n"
    assert bench.log("^launch") == ["launch make of cubin, state 1"]


def test_the_first_launch_is_captured(bench: Bench, compiled: Compile) -> None:
    ran = bench.served("context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "capture", "launch=make", "end", "graph", "launch=make")
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    assert bench.log("^launch") == ["launch make of cubin, state 0", "launch of a graph", "launch make of cubin, state 1"]


def test_a_driver_call_that_fails_ends_or_stops_nothing(bench: Bench, compiled: Compile) -> None:
    """If any call fails, of the library's own or of the program's, the program ends by itself, with its own message or one line of the library's."""
    steps = ("context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make", "launch=drop", "unload", "reset", "context", "launch=make")
    variables = {"GPUHEAP_RUN_CACHE": str(bench.folder / "cache"), "GPUHEAP_STATS": "1", "PROVIDER_REFUSES": "2"}
    sound = bench.served(*steps, **variables)
    assert sound.returncode == 0
    nth = 0
    seen = set()
    while True:
        assert nth < 500
        ran = bench.served(*steps, **variables, DOUBLE_FAILS=str(nth))
        failed = bench.log("^failed ")
        if not failed:
            break
        nth += 1
        seen.add(failed[0])
        assert ran.returncode in (0, 1), f"{failed}: {ran.stdout}{ran.stderr}"  # 1: a step of the program's own says that it failed
        assert ran.stdout.endswith("done\n"), f"{failed}: {ran.stdout}{ran.stderr}"
        others = [line for line in ran.stderr.splitlines() if not line.startswith("gpuheap: ")]
        assert all("999" in line or "error" in line or "no " in line for line in others), f"{failed}: {ran.stderr}"
    assert nth > 20
    assert {"failed cuStreamCreate", "failed cuMemcpyHtoDAsync_v2", "failed cuCtxGetId", "failed cuLibraryGetGlobal"} <= seen


def test_the_heap_is_watched_while_the_program_runs(bench: Bench, compiled: Compile) -> None:
    steps = ("context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make", "sleep=0.3")
    ran = bench.gpuheap("--watch", "--every", "0.02", str(STEPS), *steps)
    lines = [line for line in ran.stderr.splitlines() if " live blocks of " in line]
    assert len(lines) > 3, ran.stderr
    assert re.fullmatch(r"gpuheap: device 0: 0\.\d s: 1 KiB of 1 MiB held, 11 live blocks of 176 B in all, 0 requests found no memory", lines[0])
    assert "sample" not in ran.stdout
    ran = bench.gpuheap("--watch-file", "series.jsonl", "--every", "0.02", str(STEPS), *steps)
    assert "live blocks" not in ran.stderr
    series = [json.loads(line) for line in (bench.folder / "series.jsonl").read_text().splitlines()]
    assert len(series) > 3
    assert [each["live_blocks"] for each in series] == list(range(11, 11 + len(series)))
    assert all(later["seconds"] >= earlier["seconds"] for earlier, later in itertools.pairwise(series))
    assert all(each["gpuheap"] == "sample" and "metadata_bytes" not in each for each in series)
    assert (ran.returncode, ran.stdout) == (0, "done\n")


def test_statistics_are_json_if_asked_for(bench: Bench, compiled: Compile) -> None:
    steps = ("context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make")
    ran = bench.gpuheap("--stats", str(STEPS), *steps, GPUHEAP_STATS="json")
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("{")]
    found = json.loads(line)
    assert found["gpuheap"] == "heap"
    assert found["sizes"] == [{"block_bytes": 16, "blocks": 3}]


def test_a_heap_whose_device_was_reset_is_told(bench: Bench, compiled: Compile) -> None:
    steps = ("context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make", "unnamed-reset")
    ran = bench.gpuheap("--stats", str(STEPS), *steps)
    assert (ran.returncode, ran.stdout) == (0, "done\n")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("gpuheap: device 0 (Double): 1 heap cannot be asked, since its context ended unseen, as by cudaDeviceReset")
    # The heap of the context that comes next is asked.
    ran = bench.gpuheap("--stats", str(STEPS), *steps, "context", steps[1], "launch=make")
    assert "gpuheap: device 0 (Double): not freed: " in ran.stderr
    assert ran.stderr.count(" 1 heap cannot be asked") == 1


LOADED = ("context", "library", "launch=make")


@pytest.mark.parametrize(
    ("steps", "reported", "unknown", "untimed"),
    [((*LOADED, "unnamed-reset"), [], {0: 1}, 1),
     ((*LOADED, "unnamed-reset", "wait", "wait"), [], {0: 1}, 1),
     ((*LOADED, "wait", "unnamed-reset", "unnamed-reset"), [], {0: 1}, 0),
     ((*LOADED, "unnamed-reset", *LOADED, "wait"), [2], {0: 1}, 1),
     ((*LOADED, "unnamed-reset", *LOADED, "unnamed-reset", "wait"), [], {0: 2}, 2),
     ((*LOADED, "unnamed-reset", "reset", *LOADED, "reset", "wait"), [2], {0: 1}, 2),
     ((*LOADED, "context=1", "launch=make", "unnamed-reset=1", "wait"), [1], {1: 1}, 1),
     ((*LOADED, "context=1", "launch=make", "unnamed-reset=0", "wait"), [2], {0: 1}, 1),
     ((*LOADED, "other", "launch=make", "unnamed-reset", "wait"), [2], {0: 1}, 1),
     ((*LOADED, "other", "launch=make", "ended-elsewhere", "wait"), [2, 1], {}, 0),
     ((*LOADED, "other", "launch=make", "ended-elsewhere", "unnamed-reset", "wait"), [2], {0: 1}, 1),
     ((*LOADED, "other", "launch=make", "unload", "ended-elsewhere", "wait"), [2, 1], {}, 0),
     ((*LOADED, "unload", "reset", "wait"), [1], {}, 1)],
    ids=["reset", "wait", "reset twice", "new work", "new work reset", "named", "current device", "other device", "other context", "destroyed", "both",
         "unloaded and destroyed", "unloaded and reset"],
)  # fmt: skip
def test_no_context_that_has_ended_is_asked(
    bench: Bench, compiled: Compile, steps: tuple[str, ...], reported: list[int], unknown: dict[int, int], untimed: int
) -> None:
    """The double ends a process that asks one, and a program of the runtime's may end with one current."""
    library = f"library={compiled(PROGRAM, '-arch=sm_90')}"
    ran = bench.served(
        *(library if step == "library" else step for step in steps), DOUBLE_DEVICES="2", GPUHEAP_STATS="1", GPUHEAP_RUN_TIMES=str(bench.folder)
    )
    assert (ran.stdout, ran.returncode) == ("done\n", 0), ran.stderr
    assert bench.log("^report", "provider.log") == [f"report {number}" for number in reported]
    told = re.findall(r"device (\d) \(Double\): (\d) heaps? cannot be asked", ran.stderr)
    assert {int(device): int(heaps) for device, heaps in told} == unknown
    (times,) = [json.loads(file.read_text()) for file in bench.folder.glob("*.json")]
    launches = steps.count("launch=make")
    assert (times["launches"], times["untimed"], times["kernel_ms"]) == (launches, untimed, launches - untimed)


def test_samples_that_cannot_be_had_are_told(bench: Bench, compiled: Compile) -> None:
    steps = ("context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make", "sleep=0.1")
    bench.gpuheap("--watch-file", "series.jsonl", "--every", "0.02", str(STEPS), *steps, PROVIDER_NO_SAMPLE="1")
    series = [json.loads(line) for line in (bench.folder / "series.jsonl").read_text().splitlines()]
    assert series
    assert all(each == {"gpuheap": "no sample", "device": 0, "why": "the device is lost"} for each in series)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--every", "1"), "--every needs --watch or --watch-file: add one of them, or leave out --every"),
        (("--watch", "--every", "0"), "--every is 0: give the seconds between two samples, from 0.001 to 86400"),
        (("--watch", "--every", "nan"), "--every is nan"),
        (("--watch-file", "/nonexistent/file"), "--watch-file: '/nonexistent/file' cannot be written"),
        (("--watch", "--compare", "sharded_spans,cuda_malloc"), "--watch and --watch-file are for one run: leave out --compare"),
    ],
)
def test_a_watch_that_makes_no_sense_is_refused(bench: Bench, options: tuple[str, ...], text: str) -> None:
    ran = bench.gpuheap(*options, str(STEPS))
    assert ran.returncode == 2
    assert text in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_a_heap_that_refused_a_request_grows_before_the_next_launch(bench: Bench, compiled: Compile) -> None:
    bench.served("context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make", "launch=make", "launch=make", PROVIDER_REFUSES="3")
    assert bench.log("grow", "provider.log") == ["grow"]


def test_a_child_made_by_fork_has_its_own(bench: Bench, compiled: Compile) -> None:
    ran = bench.served("fork", "context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make", "exit=5")
    assert ran.returncode == 5 and bench.log("^launch") == ["launch make of cubin, state 1"]


def test_the_command_gives_the_programs_output_and_exit_code(bench: Bench, compiled: Compile) -> None:
    steps = ["context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make"]
    ran = bench.gpuheap(str(STEPS), *steps, "exit=7")
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 7)
    assert bench.log("^launch") == ["launch make of cubin, state 1"]
    assert bench.gpuheap(str(STEPS), "context", "abort").returncode == 128 + signal.SIGABRT
    ran = bench.gpuheap("--stats", str(STEPS), *steps, "--stats")
    assert "no step '--stats'" in ran.stderr  # what follows the program is the program's
    ran = bench.gpuheap("--stats", str(STEPS), *steps)
    assert ran.stdout == "done\n" and "3 blocks of 16 B" in ran.stderr
    assert bench.gpuheap("--allocator", "cuda_malloc", str(STEPS), *steps).stdout == "done\n" and bench.log("^load") == ["load fat binary"]


def test_linked_code_is_kept_on_disk(bench: Bench, compiled: Compile) -> None:
    steps = [str(STEPS), "context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make"]
    assert bench.gpuheap(*steps).stdout == "done\n" and len(bench.log("^link$")) == 1
    assert bench.gpuheap(*steps).stdout == "done\n" and bench.log("^link$") == [] and is_whole(bench.symbols())
    assert bench.gpuheap("--no-cache", *steps).stdout == "done\n" and len(bench.log("^link$")) == 1
    # Another driver, device or allocator's image is another link; a damaged file is none.
    assert bench.gpuheap(*steps, DOUBLE_VERSION="13010").stdout == "done\n" and len(bench.log("^link$")) == 1
    files = list((bench.folder / "cache" / "gpuheap" / "run").iterdir())
    assert len(files) == 2
    for file in files:
        file.write_bytes(file.read_bytes()[:-1])
    assert bench.gpuheap(*steps).stdout == "done\n" and len(bench.log("^link$")) == 1
    shutil.rmtree(bench.folder / "cache")
    (bench.folder / "cache").write_text("a file")
    ran = bench.gpuheap(*steps)
    assert (ran.stdout, ran.stderr) == ("done\n", "")


def test_a_comparison(bench: Bench, compiled: Compile) -> None:
    steps = [str(STEPS), "context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make", "launch=drop"]
    ran = bench.gpuheap("--compare", "cuda_malloc,sharded_spans,gallatin", "--runs", "2", "--json", *steps)
    assert ran.returncode == 0, ran.stderr
    outcomes = {each["allocator"]: each for each in json.loads(ran.stdout)["outcomes"]}
    assert list(outcomes) == ["cuda_malloc", "sharded_spans", "gallatin"]
    for each in outcomes.values():
        assert each["kernel_ms"] == 2 and each["exit_codes"] == [0] and each["same_output"] and each["notes"] == []
        assert len(each["runs"]) == 2 and all(run["launches"] == 2 and run["seconds"] > 0 for run in each["runs"])
    assert bench.log("^launch make of fat binary") and bench.log("^launch make of cubin")
    ran = bench.gpuheap("--compare", "sharded_spans,cuda_malloc", "--runs", "1", *steps, "exit=3")
    lines = ran.stdout.splitlines()
    assert lines[0].split() == ["allocator", "whole", "program", "kernels", "exit", "code", "output"]
    assert re.fullmatch(r"sharded_spans +[0-9.]+ s \(1\.00\) +2\.000 ms \(1\.00\) +3 +as plain", lines[1]), lines
    assert lines[2].startswith("cuda_malloc")


def test_a_comparison_tells_what_differs(bench: Bench, compiled: Compile) -> None:
    script = bench.folder / "program.sh"
    script.write_text(f'#!/bin/bash\necho "took $RANDOM$RANDOM"\n[ -z "$GPUHEAP_RUN_PROVIDER" ] || echo served\nexec {STEPS} "$@"\n')
    script.chmod(0o755)
    steps = [str(script), "context", f"library={compiled(PROGRAM, '-gencode=arch=compute_90,code=sm_90')}", "launch=make"]
    ran = bench.gpuheap("--compare", "cuda_malloc,sharded_spans", "--runs", "1", "--ignore", "^took", *steps)
    lines = ran.stdout.splitlines()
    assert lines[1].endswith("as plain") and lines[2].endswith("differs from plain")
    assert lines[3].startswith("sharded_spans: device code of run_steps keeps CUDA's malloc: it brings machine code alone")


def test_a_comparison_ends_what_does_not_end(bench: Bench) -> None:
    ran = bench.gpuheap("--compare", "sharded_spans", "--runs", "1", "--timeout", "0.3", "/bin/sleep", "100")
    assert ran.returncode == 0 and "timed out" in ran.stdout


def test_a_comparison_outlives_times_that_were_cut_and_tells_of_a_plain_run_that_failed(bench: Bench) -> None:
    script = bench.folder / "program.sh"
    script.write_text('#!/bin/bash\n[ -z "$GPUHEAP_RUN_TIMES" ] || printf \'{"kernel_ms": 1\' > "$GPUHEAP_RUN_TIMES/cut.json"\nkill -KILL $$\n')
    script.chmod(0o755)
    ran = bench.gpuheap("--compare", "sharded_spans", "--runs", "1", str(script))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[1].split()[-4:] == ["unknown", "-9", "as", "plain"]
    assert "plain, without any library: SIGKILL" in ran.stderr


@pytest.mark.parametrize("options", [[], ["--compare", "sharded_spans,cuda_malloc"]])
def test_ctrl_c_ends_all(bench: Bench, options: list[str]) -> None:
    script = bench.folder / "long.sh"
    script.write_text("#!/bin/bash\necho $$ > started\nexec sleep 100\n")
    script.chmod(0o755)
    command = [sys.executable, "-m", "gpuheap", "run", *options, str(script)]
    process = subprocess.Popen(command, cwd=bench.folder, env=bench.environment(), stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 30
    while not (bench.folder / "started").exists() or not (bench.folder / "started").read_text().strip():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in errors
    child = int((bench.folder / "started").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["./nothing"], "'./nothing' is not there"), (["."], "'.' is a folder"), ([""], "name the program to run"),
     (["./plain.txt"], "'./plain.txt' is not executable: chmod +x ./plain.txt"),
     (["--allocator", "gallatn", str(STEPS)], "unknown allocator 'gallatn': did you mean 'gallatin'?"),
     (["--compare", "cuda_malloc,gpuhep", str(STEPS)], "unknown allocator 'gpuhep'"),
     (["--allocator", "scatteralloc", str(STEPS)], "is not built for programs"), (["--bytes", "many", str(STEPS)], "--bytes: 'many' is not a size"),
     (["--runs", "3", str(STEPS)], "--runs needs --compare: add --compare, or leave out --runs"),
     (["--json", str(STEPS)], "--json needs --compare: add --compare, or leave out --json"),
     (["--compare", ",", str(STEPS)], "--compare: name allocators"),
     (["--allocator", "sharded_spans", "--compare", "cuda_malloc", str(STEPS)], "exclude each other"),
     (["--compare", "cuda_malloc", "--ignore", "(", str(STEPS)], "is not a regular expression"),
     (["--compare", "cuda_malloc", "--ignore", "(\udcff", str(STEPS)], "is not a regular expression"),
     (["--compare", "cuda_malloc", "--timeout", "inf", str(STEPS)], "--timeout is inf"),
     (["./static"], "is linked statically")],
)  # fmt: skip
def test_mistakes_are_one_line_and_exit_code_2(bench: Bench, words: list[str], said: str) -> None:
    (bench.folder / "plain.txt").write_text("text")
    (bench.folder / "static.c").write_text("int main(void) { return 0; }")
    if words == ["./static"]:
        subprocess.run(["g++", "-x", "c", "static.c", "-static", "-o", "static"], cwd=bench.folder, check=True)
    ran = bench.gpuheap(*words)
    assert ran.returncode == 2 and ran.stdout == "" and ran.stderr.startswith("gpuheap: ") and ran.stderr.count("\n") == 1
    assert said in ran.stderr


def test_allocators_that_cannot_serve_and_machines_without_a_gpu(bench: Bench) -> None:
    ran = bench.gpuheap(str(STEPS), PROVIDER_REFUSAL="it is a double")
    refused = "gpuheap: the allocator 'sharded_spans' cannot serve a program's malloc: it is a double; choose another allocator\n"
    assert (ran.returncode, ran.stderr) == (2, refused)
    (bench.folder / "series.jsonl").write_text("of the last run\n")
    ran = bench.gpuheap("--watch-file", "series.jsonl", str(STEPS), DOUBLE_DEVICES="0")
    assert ran.returncode == 2 and "no GPU here" in ran.stderr and ran.stderr.count("\n") == 1
    assert (bench.folder / "series.jsonl").read_text() == "of the last run\n"
    (bench.folder / "empty").mkdir()
    (bench.folder / "empty" / "libcuda.so.1").write_text("no library")
    ran = bench.gpuheap(str(STEPS), LD_LIBRARY_PATH=str(bench.folder / "empty"))
    assert ran.returncode == 2 and "no CUDA driver here" in ran.stderr and ran.stderr.count("\n") == 1


def test_a_kind_of_heap_chooses_the_library(bench: Bench, compiled: Compile) -> None:
    steps = [str(STEPS), "context", f"library={compiled(PROGRAM, '-arch=sm_90')}", "launch=make"]
    ran = bench.gpuheap(*steps, GPUHEAP_KIND="checked")
    assert ran.returncode == 2 and "the allocator 'checked' is not built for programs" in ran.stderr and "gpuheap_malloc_provider_checked" in ran.stderr
    shutil.move(bench.folder / "providers" / "libgpuheap_malloc_sharded_spans.so", bench.folder / "providers" / "libgpuheap_malloc_checked.so")
    ran = bench.gpuheap(*steps, GPUHEAP_KIND="checked")
    assert (ran.stdout, ran.stderr, ran.returncode) == ("done\n", "", 0)
    assert bench.log("^launch") == ["launch make of cubin, state 1"]
    shutil.move(bench.folder / "providers" / "libgpuheap_malloc_checked.so", bench.folder / "providers" / "libgpuheap_malloc_hardened.so")
    assert bench.gpuheap(*steps, GPUHEAP_KIND="hardened").returncode == 0
    ran = bench.gpuheap(*steps, GPUHEAP_KIND="chequed")
    assert (ran.returncode, ran.stderr) == (2, "gpuheap: GPUHEAP_KIND is 'chequed': set it to release, hardened or checked, or unset it\n")


def test_it_shows_nothing_but_the_drivers_names(bench: Bench) -> None:
    lines = subprocess.run(["readelf", "--dyn-syms", "-W", str(LIBRARY)], capture_output=True, text=True, check=True).stdout.splitlines()
    shown = {words[7].split("@")[0] for words in (line.split() for line in lines) if len(words) > 7 and words[6] != "UND" and words[0] != "Num:"}
    assert {name for name in shown if not name.startswith("cu")} == {"dlsym"}
