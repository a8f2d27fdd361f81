#!/usr/bin/env python3
"""A program of a suite of programs that misbehaves on request, and writes its own trace in place of the library that goes before programs.

FAKE_PROGRAM holds JSON: `device` (or null), `delay_s`, and `faults`, which maps "mode", or "mode/run number", to what happens there: exit3,
exit4, crash, hang, differs, unserved, no_times. FAKE_PROGRAM_LOG names a file that gets a line for each run.
"""

import json
import os
import signal
import struct
import sys
import time
from pathlib import Path

settings = json.loads(os.environ.get("FAKE_PROGRAM", "{}"))
H200 = {"name": "NVIDIA H200", "driver_version": 13000, "runtime_version": 13000, "compute_major": 9, "num_sms": 132, "total_bytes": 150 << 30}
if sys.argv[1:] == ["--describe"]:
    said = {"backend": "cuda", "version": "0.1.0", "allocators": [], "cases": [], "build": {"compiler": "fake 1.0", "flags": "-O3", "type": "Release"}}
    print(json.dumps({**said, "device": settings.get("device", H200), "device_error": settings.get("device_error", "")}))
    sys.exit(0)

folder = os.environ.get("GPUHEAP_HOST_TRACE", "")
mode = os.environ.get("GPUHEAP_HOST_POOL", "plain")
merging = os.environ.get("GPUHEAP_HOST_MERGE", "")
memory = os.environ.get("GPUHEAP_PROGRAM_MEMORY", "")
profiling = folder.endswith("profile")
log = Path(os.environ["FAKE_PROGRAM_LOG"])
name = " ".join(word for word in ("profile" if profiling else merging or mode, memory) if word)
strict = os.environ.get("GPUHEAP_HOST_STRICT", "")
gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
with log.open("a") as file:
    file.write(f"{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])} {name}{' strict' if strict == '1' else ''}{f' on GPU {gpu}' if gpu else ''}\n")
number = sum(1 for line in log.read_text().splitlines() if line.split()[:2] == [Path(sys.argv[0]).name, sys.argv[1]] and f" {name}" in line)
faults = settings.get("faults", {})
fault = faults.get(name) or faults.get(f"{name}/{number}")
time.sleep(settings.get("delay_s", 0))


def event(kind, begin=0, duration=0, address=0, other=0, count=0, detail=0):
    """As tools/host/trace_format.hpp has it."""
    return struct.pack("<HHIQIiQQQQIHBB", kind, 0, 0, begin, duration, 0, address, other, count, 0, 0, detail, 0, 0)


def write_trace():
    records = event(1, 1000, 2000, 4096, 0, 1024, 1)  # an allocation, a copy to it, a launch, a free
    records += event(3, 4000, 3000, 4096, 99, 1024, 1) + event(5, 8000, 1000) + event(2, 10000, 4000, 4096, 0, 0, 1)
    if fault == "unserved":
        text = b"E08\tthis device has no such memory"
        records += event(36, count=len(text)) + text.ljust(64, b"\0")
    served = 1 if mode != "plain" and fault != "unserved" else 0
    head = struct.pack("<16sIIIIQQ12Q", b"gpuheap-trace\n", 2, os.getpid(), 0, 1, 0, 1, 0, 0, 0, served, *[0] * 8)
    interpreter = Path(sys.executable).resolve().name
    (Path(folder) / f"{interpreter}.{os.getpid()}.trace").write_bytes(head.ljust(4096, b"\0") + records.ljust(16384, b"\0"))


if folder:  # without it the program runs as it is, for its counters
    write_trace()
if fault == "hang":
    time.sleep(600)
if fault == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
if fault == "exit3":
    print("cudaMalloc: out of memory", file=sys.stderr)
    sys.exit(3)
if fault == "exit4":
    print("wrong: a sum is not the CPU's")
    sys.exit(4)
if fault != "no_times" and "GPUHEAP_PROGRAM_TIMES" in os.environ:
    Path(os.environ["GPUHEAP_PROGRAM_TIMES"]).write_text(json.dumps({"kernel_us": 7.5 + number, "kernels": 1}))
print("right" if fault != "differs" else "rihgt", *sys.argv[1:])
