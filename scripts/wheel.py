"""Builds the wheel: the libraries and the device code, then the package that contains them, with the oldest platform tag that auditwheel accepts.

    python scripts/wheel.py                          # into build/wheel/dist
    python scripts/wheel.py --architectures 75,90    # for fewer architectures, which is faster
    python scripts/wheel.py --providers sharded_spans   # without the heaps that `gpuheap run` makes under GPUHEAP_KIND

Needs nvcc 13, CMake and Ninja; Triton's device code needs clang 19 or newer and is left out without it.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from old_glibc import link

ROOT = Path(__file__).resolve().parents[1]
TARGETS: tuple[str, ...] = ("gpuheap_capi", "gpuheap_capi_code")
PROVIDERS: tuple[str, ...] = ()  # the allocators that serve a program under `gpuheap run`
if platform.machine() == "x86_64":  # elsewhere there is no `gpuheap run`
    PROVIDERS += ("sharded_spans", "hardened", "checked")
    TARGETS += ("gpuheap_run",)
OPTIONS = {
    "GPUHEAP_ENABLE_CUDA": "ON", "GPUHEAP_ENABLE_HOST": "OFF", "GPUHEAP_ENABLE_OPENCL": "OFF", "GPUHEAP_ENABLE_COALESCE": "OFF",
    "GPUHEAP_BUILD_TESTS": "OFF", "GPUHEAP_BUILD_BENCHMARKS": "OFF", "GPUHEAP_BUILD_EXAMPLES": "OFF", "GPUHEAP_BUILD_TOOLS": "ON",
}  # fmt: skip
MOST_BYTES = 8_000_000  # the largest size of the wheel


class NewerGlibc(Exception):
    """A library requires a newer glibc than the wheel promises."""


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def run(*command: str | Path, **more: str) -> None:
    print("+", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, env={**os.environ, **more})


def build(folder: Path, architectures: Sequence[str], providers: Sequence[str]) -> None:
    """Builds the libraries and the device code in the build folder."""
    options = dict(OPTIONS)
    if architectures:
        wanted = ";".join([*(f"{each}-real" for each in architectures), f"{architectures[0]}-virtual"])
        options |= {"GPUHEAP_CAPI_ARCHITECTURES": wanted, "GPUHEAP_MALLOC_ARCHITECTURES": wanted, "GPUHEAP_CAPI_LTO_ARCHITECTURES": ";".join(architectures)}
    options["CMAKE_SHARED_LINKER_FLAGS"] = " ".join(link.flags(folder / "old_glibc"))
    run("cmake", "--preset", "library", "-S", ROOT, "-B", folder, *(f"-D{name}={value}" for name, value in options.items()))
    run("cmake", "--build", folder, *(f"--target={target}" for target in (*TARGETS, *(f"gpuheap_malloc_provider_{name}" for name in providers))))


def stage(build_folder: Path, folder: Path, providers: Sequence[str]) -> None:
    """Makes the package in `folder` as the wheel contains it: Python, libraries, device code, headers and CMake files. Raises NewerGlibc."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "python" / "gpuheap", folder / "gpuheap", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "python" / "pyproject.toml", folder)
    shutil.copy(ROOT / "LICENSE", folder)
    package = folder / "gpuheap"
    for part in ("lib", "device", "cmake"):
        (package / part).mkdir()
    served = [build_folder / "malloc" / f"libgpuheap_malloc_{name}.so" for name in providers]
    for library in (build_folder / "capi" / "libgpuheap.so", *build_folder.glob("tools/malloc/run/libgpuheap_run.so"), *served):
        shutil.copy(library, package / "lib")
    libraries = sorted((package / "lib").glob("*.so"))
    run("strip", "--strip-unneeded", *libraries)
    for library in libraries:
        if (newest := link.newest_version(library)) > link.NEWEST:
            raise NewerGlibc(f"{library.name} requires glibc {_dotted(newest)}, and the wheel promises {_dotted(link.NEWEST)}: see `objdump -T {library}`")
    for code in ("gpuheap.fatbin", "gpuheap.lto.fatbin", "gpuheap.bc"):
        if (build_folder / "capi" / code).is_file():
            shutil.copy(build_folder / "capi" / code, package / "device")
    shutil.copytree(ROOT / "include", package / "include")
    (package / "device" / "source" / "capi").mkdir(parents=True)
    for source in ("device.cu", "malloc.cu", "view.hpp"):
        shutil.copy(ROOT / "capi" / source, package / "device" / "source" / "capi")
    for template in (ROOT / "python" / "cmake").iterdir():
        shutil.copy(template, package / "cmake")


def make_wheel(folder: Path, out: Path) -> Path:
    """Builds the wheel with its platform tag, and returns its path."""
    shutil.rmtree(out, ignore_errors=True)
    raw = folder / "raw"
    # The version is read from the header of a checkout, or from the package's own.
    run(sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", raw, folder)
    (wheel,) = raw.glob("*.whl")
    tag = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", f"linux_{platform.machine()}", str(wheel)]
    tagged = subprocess.run(tag, check=True, capture_output=True, text=True)
    wheel = raw / tagged.stdout.split()[-1]
    out.mkdir(parents=True)
    # auditwheel copies no library into the wheel: the libraries need only glibc, libstdc++, and the driver, which they load at run time.
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", out, "--exclude", "libcuda.so.1", wheel)
    (finished,) = out.glob("*.whl")
    return finished


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "wheel", help="the build folder")
    parser.add_argument("--architectures", default="", help="the GPU architectures, as 75,90,120, the first one also as PTX; default: all")
    parser.add_argument("--providers", default=",".join(PROVIDERS), help="the allocators and kinds of heaps of `gpuheap run`, as sharded_spans; default: all")
    given = parser.parse_args()
    providers = [each for each in given.providers.split(",") if each]
    if unknown := [each for each in providers if each not in PROVIDERS]:
        parser.error(f"--providers: {unknown[0]!r} serves no program here: there are {', '.join(PROVIDERS) or 'none on this machine'}")
    folder: Path = given.build.resolve()
    try:
        build(folder, [each for each in given.architectures.split(",") if each], providers)
        stage(folder, folder / "stage", providers)
        wheel = make_wheel(folder / "stage", folder / "dist")
    except subprocess.CalledProcessError as error:
        print(f"wheel.py: {error.cmd[0]} failed, see above", file=sys.stderr)
        return 2
    except NewerGlibc as error:
        print(f"wheel.py: {error}", file=sys.stderr)
        return 2
    size = wheel.stat().st_size
    print(f"{wheel}: {size / 1e6:.1f} MB")
    if size > MOST_BYTES:
        print(f"wheel.py: the wheel has {size} bytes, and at most {MOST_BYTES} are promised", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
