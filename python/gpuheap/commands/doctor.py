"""`gpuheap doctor`: examines what gpuheap can run on this machine, and what is missing."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuheap import toolkit
from gpuheap.errors import UserError
from gpuheap.paths import Layout
from gpuheap.running.executable import build_command, candidates, choose, describe
from gpuheap.units import format_bytes

OLDEST_GCC = (11,)
OLDEST_TOOLKIT = (13, 0)  # the oldest toolkit with CCCL 3.0
OLDEST_COMPUTE_CAPABILITY = (7, 5)
OLDEST_CMAKE = (3, 28)  # the version that CMakeLists.txt requires


@dataclass(frozen=True)
class Finding:
    """The result of one check. `level` is good, note (gpuheap works all the same) or problem (something cannot run; `advice` says what to do)."""

    what: str
    level: str
    text: str
    advice: str = ""


def examine(layout: Layout) -> list[Finding]:
    """Every finding, in the order of a build: system, compilers, GPU, executables, the chosen backend, the libraries for unchanged programs."""
    checks: list[Callable[[Layout], list[Finding]]] = [_python, _compiler, _cmake, _gpu, _toolkit, _executables, _backend, _libraries]
    return [finding for check in checks for finding in check(layout)]


def _python(_: Layout) -> list[Finding]:
    version = platform.python_version()
    return [Finding("python", "good", f"{version} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores")]


def _compiler(_: Layout) -> list[Finding]:
    named = os.environ.get("CXX")
    for program in [named] if named else ["g++", "clang++", "c++"]:
        path = shutil.which(program)
        version = toolkit.compiler_version(path) if path else None
        if path is None or version is None:
            continue
        if "clang" not in Path(path).name and toolkit.version_tuple(version) < OLDEST_GCC:
            return [
                Finding("compiler", "problem", f"{path} {version}", "C++20 needs g++ 11 or newer: apt-get install g++-12, then CXX=g++-12")
            ]
        return [Finding("compiler", "good", f"{path} {version}")]
    if named:
        return [Finding("compiler", "problem", f"CXX is '{named}', which does not run", "unset CXX or name a C++ compiler")]
    return [Finding("compiler", "problem", "no C++ compiler", "apt-get install g++")]


def _cmake(layout: Layout) -> list[Finding]:
    own = layout.build / "venv" / "bin" / "cmake"
    path = str(own) if own.exists() else shutil.which("cmake")
    version = toolkit.program_version(path) if path else None
    if path is None or version is None:
        return [Finding("cmake", "note", "none", "./demo installs one into build/venv; or pip install cmake")]
    if toolkit.version_tuple(version) < OLDEST_CMAKE:
        return [Finding("cmake", "note", f"{path} {version}", f"older than {_dotted(OLDEST_CMAKE)}: pip install cmake, or let ./demo do it")]
    return [Finding("cmake", "good", f"{path} {version}")]


def _gpu(_: Layout) -> list[Finding]:
    names = toolkit.gpu_names()
    driver = toolkit.driver_version()
    if not names and driver is None:
        return [Finding("gpu", "note", "no NVIDIA GPU or driver", "kernels run in the simulator; timings come from recorded results")]
    if not names:
        return [Finding("gpu", "problem", f"driver {driver} is loaded, but nvidia-smi lists no GPU", "look at `nvidia-smi` and `dmesg`")]
    findings = [Finding("gpu", "good", ", ".join(names))]
    cuda = toolkit.driver_cuda_version()
    if cuda is not None and toolkit.version_tuple(cuda) < OLDEST_TOOLKIT:
        text = f"{driver} supports CUDA {cuda}"
        findings.append(
            Finding(
                "driver", "problem", text, f"too old for CUDA {_dotted(OLDEST_TOOLKIT)}: install driver 580 or newer, or use --backend simulator"
            )
        )
    else:
        findings.append(Finding("driver", "good", f"{driver}, supports CUDA {cuda or 'of an unknown version'}"))
    return findings


def _toolkit(_: Layout) -> list[Finding]:
    nvcc = toolkit.find_nvcc()
    if nvcc is None:
        named = os.environ.get("CUDACXX")
        if named:
            return [Finding("toolkit", "problem", f"CUDACXX is '{named}', which does not run", "unset CUDACXX or name an nvcc")]
        level = "problem" if toolkit.gpu_names() else "note"
        return [Finding("toolkit", level, "no nvcc", "install CUDA 13.0 or newer and put nvcc on PATH to build for a GPU")]
    version = toolkit.toolkit_version()
    if version is None:
        return [Finding("toolkit", "problem", f"{nvcc} does not run", "install the toolkit again, or set CUDACXX")]
    if toolkit.version_tuple(version)[:2] < OLDEST_TOOLKIT:
        return [
            Finding(
                "toolkit",
                "note",
                f"CUDA {version}, {nvcc}",
                f"older than {_dotted(OLDEST_TOOLKIT)}, which brings the CCCL that gpuheap needs: pip install nvidia-cuda-cccl",
            )
        ]
    return [Finding("toolkit", "good", f"CUDA {version}, {nvcc}")]


def _executables(layout: Layout) -> list[Finding]:
    try:
        found = candidates(layout)
    except UserError as error:
        return [Finding("executable", "problem", str(error), "unset GPUHEAP_BENCH or name an executable")]
    if not found:
        return [Finding("executable", "problem", "none is built", f"./demo, or {build_command('simulator')}")]
    findings = []
    for path in found.values():
        try:
            description = describe(path)
        except UserError as error:
            findings.append(Finding("executable", "problem", str(error), "build it again"))
            continue
        text = f"{layout.shown(path)}: {description.backend} backend, version {description.version or 'unknown'}"
        device = description.device
        if description.backend == "cuda" and device is None:
            findings.append(
                Finding(
                    "executable",
                    "problem",
                    f"{text}, finds no device: {description.device_error}",
                    _device_advice(description.device_error),
                )
            )
            continue
        findings.append(Finding("executable", "good", text))
        if description.backend == "cuda" and device is not None:
            if toolkit.version_tuple(device.compute_capability) < OLDEST_COMPUTE_CAPABILITY:
                text = f"{device.name} is sm_{device.compute_capability.replace('.', '')}"
                findings.append(Finding("device", "problem", text, "sm_75 (Turing) or newer is needed: use --backend simulator"))
            else:
                memory = f"{format_bytes(device.free_bytes)} free of {format_bytes(device.total_bytes)}"
                findings.append(
                    Finding(
                        "device", "good", f"{device.name}, sm_{device.compute_capability.replace('.', '')}, {device.num_sms} SMs, {memory}"
                    )
                )
        missing = [f"{a.name} ({a.why_not})" for a in description.allocators if not a.supported]
        if missing:
            findings.append(Finding("allocators", "note", f"unsupported on {description.backend}: {', '.join(missing)}"))
    return findings


def _backend(layout: Layout) -> list[Finding]:
    try:
        executable = choose(layout)
    except UserError as error:
        return [Finding("backend", "problem", "none", str(error))]
    return [Finding("backend", "good", f"{executable.backend}: {executable.why}")]


def _libraries(layout: Layout) -> list[Finding]:
    """Whether `gpuheap run` and `gpuheap host` find the libraries that they load into a program. The benchmark needs neither."""
    from gpuheap.host import launch
    from gpuheap.serving import libraries

    def of_run() -> list[Path]:
        return [libraries.find_library(layout), libraries.find_provider(libraries.default_allocator(), layout)]

    def of_host() -> list[Path]:
        return [launch.find_library(layout)]

    findings = []
    for command, find in (("run", of_run), ("host", of_host)):
        try:
            findings.append(Finding(command, "good", ", ".join(layout.shown(path) for path in find())))
        except UserError as error:
            what, _, advice = str(error).partition(": ")
            findings.append(Finding(command, "note", f"gpuheap {command} cannot run a program yet: {what}", advice))
    return findings


def _device_advice(error: str) -> str:
    if "driver" in error.lower() and ("insufficient" in error.lower() or "version" in error.lower()):
        return "the driver is older than the toolkit that built the executable: install driver 580 or newer, or use --backend simulator"
    return "look at `nvidia-smi`; until then kernels run in the simulator (--backend simulator)"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
