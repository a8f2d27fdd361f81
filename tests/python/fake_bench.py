#!/usr/bin/env python3
"""A benchmark executable that speaks the protocol and misbehaves on request.

FAKE_BENCH holds JSON: `backend`, `device` (or null with `device_error`), `serve_s` before it serves, `start_s` before the first point, `delay_s` before
each result, and `faults`, which maps "case/allocator/point argument" to what happens there: crash, early, exit3, hang, half, garbage, unit,
wrong, unsupported, usage, silent, noise. FAKE_BENCH_LOG names a file that gets a line for each process and each
point.
"""

import json
import os
import signal
import sys
import time
import zlib

CASES = {
    "alloc_single": ["threads", "bytes", "state", "heap"],
    "alloc_warp": ["threads", "bytes", "state"],
    "alloc_mixed": ["threads", "bytes", "state", "dist"],
    "alloc_scaling": ["threads", "bytes", "state"],
    "churn": ["threads", "bytes", "rounds"],
    "graph_update": ["threads", "batches", "phase", "graph", "scale", "edge_factor"],
}
H200 = {
    "name": "NVIDIA H200",
    "driver_version": 13000,
    "runtime_version": 13000,
    "compute_major": 9,
    "compute_minor": 0,
    "num_sms": 132,
    "total_bytes": 150 << 30,
    "free_bytes": 149 << 30,
}
settings = json.loads(os.environ.get("FAKE_BENCH", "{}"))


def allocator(name, **traits):
    return {
        "name": name,
        "title": f"the {name} allocator",
        "free": "individually",
        "smallest_bytes": 1,
        "largest_bytes": 0,
        "supported": True,
        **traits,
    }


def description():
    backend = settings.get("backend", "simulator")
    return {
        "backend": backend,
        "device": settings.get(
            "device", H200 if backend == "cuda" else {**H200, "name": "simulator", "total_bytes": 4 << 30, "free_bytes": 4 << 30}
        ),
        "device_error": settings.get("device_error", ""),
        "allocators": [
            allocator("sharded_spans", detects_double_free=True),
            allocator(
                "cuda_malloc",
                process_wide=True,
                supported=backend == "cuda",
                why_not="" if backend == "cuda" else "this machine has no built-in device heap",
            ),
            allocator("atomic_malloc", free="never"),
            allocator("atomic_wrap_malloc", overwrites=True),
        ],
        "baselines": ["store_only"],
        "cases": [
            {"name": name, "brief": f"what {name} does", "section": "Allocation", "parameters": keys} for name, keys in CASES.items()
        ],
        "version": "0.1.0",
        "serves": settings.get("serves", False),
        "build": {"compiler": "fake 1.0", "flags": "-O3", "type": "Release", "identity": settings.get("identity", "")},
    }


def log(text):
    if "FAKE_BENCH_LOG" in os.environ:
        with open(os.environ["FAKE_BENCH_LOG"], "a", errors="backslashreplace") as file:
            file.write(text + "\n")


def say(record):
    print(json.dumps(record), flush=True)


def measure(case, allocator_name, point, runs):
    """Numbers that depend on their names only."""
    values = dict(part.split("=") for part in point.split(","))
    base = 5 + zlib.crc32(allocator_name.encode()) % 40 + int(values.get("bytes", 0)) / 100 + int(values.get("threads", 0)) / 1e5
    names = {"churn": [("kernel_us", "us"), ("failed_requests", "count")]}
    names["graph_update"] = [("build_ms", "ms")] if values.get("phase") == "init" else [("kernel_us", "us"), ("allocations", "count")]
    rows = []
    for index, (metric, unit) in enumerate(names.get(case, [("malloc_us", "us"), ("free_us", "us")])):
        samples = [0] * runs if metric == "failed_requests" else [round(base * (1 + index / 3) * (1 + run / 50), 4) for run in range(runs)]
        rows.append({"metric": metric, "unit": unit, "samples": samples})
    return rows


def misbehave(fault, index):
    if fault == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "exit3":
        print("fake: the device failed", file=sys.stderr)
        sys.exit(3)
    if fault == "hang":
        time.sleep(600)
    if fault == "half":
        sys.stdout.write(f'{{"point":{index},"status":"ok","rows":[{{"metr')
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGABRT)
    if fault == "garbage":
        print('{"point": nonsense}', flush=True)
        time.sleep(600)
    if fault == "unit":
        say({"point": index, "status": "ok", "rows": [{"metric": "malloc_us", "unit": "ms", "samples": [1]}]})
    if fault in ("wrong", "unsupported"):
        say({"point": index, "status": fault, "reason": f"{fault}; as asked", "rows": []})
    if fault == "silent":
        sys.exit(0)


def main(arguments):
    if arguments == ["--describe"]:
        if settings.get("describe") == "fails":
            print("fake: libcuda.so.1 not found", file=sys.stderr)
            sys.exit(1)
        print(json.dumps(description()))
        return
    if arguments == ["--serve"]:
        log("serve")
        time.sleep(settings.get("serve_s", 0))
        say_densely({"serves": True})
        while count := word():
            sweep([word() for _ in range(int(count))])
            say_densely({"done": True})
        return
    sweep(arguments)


def say_densely(record):
    print(json.dumps(record, separators=(",", ":")), flush=True)


def word():
    """A word of a request on standard input; "" at its end."""
    letters = b""
    while (letter := sys.stdin.buffer.read(1)) not in (b"", b"\0"):
        letters += letter
    return letters.decode()


def sweep(arguments):
    if "--first-run" in arguments:
        arguments = [word for word in arguments if word != "--first-run"]
        log("first run")
    points = []
    options = {"--skip": "0"}
    for name, value in zip(arguments[::2], arguments[1::2], strict=True):
        if name == "--point":
            points.append(value)
        else:
            options[name] = value
    case, name = options["--case"], options["--allocator"]
    asked = [f"skip={options['--skip']}", f"points={len(points)}", f"heap={options['--heap-bytes']}", f"seed={options['--seed']}"]
    log(f"start {case}/{name} {' '.join(asked)} graph={options.get('--graph')}")
    if options["--enough-s"] != "0":
        log(f"limits timeout={options['--timeout-s']} enough={options['--enough-s']}")
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        log(f"gpu {os.environ['CUDA_VISIBLE_DEVICES']} {case}/{name}")
    time.sleep(settings.get("start_s", 0))
    for index in range(int(options["--skip"]), len(points)):
        fault = settings.get("faults", {}).get(f"{case}/{name}/{points[index]}")
        if fault == "usage":
            print(f"fake: {options.get('--graph')}:3: expected 5 entries, found 4", file=sys.stderr)
            sys.exit(2)
        if fault == "noise":
            print("a kernel's own printf", flush=True)
        if fault == "early":
            os.kill(os.getpid(), signal.SIGSEGV)
        say({"begin": index})
        log(f"point {case}/{name}/{points[index]}")
        misbehave(fault, index)
        if fault in ("unit", "wrong", "unsupported"):
            continue
        time.sleep(settings.get("delay_s", 0))
        say({"point": index, "status": "ok", "reason": "", "rows": measure(case, name, points[index], int(options["--runs"]))})


main(sys.argv[1:])
