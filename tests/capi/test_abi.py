"""The C interface is what capi/abi/v<N>.txt says that version N of it is: its symbols, signatures, constants, and what its structs look like.

A change that this finds needs the next GPUHEAP_ABI_VERSION, names with its number, and a file of its own:
    python tests/capi/test_abi.py > capi/abi/v2.txt
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include" / "gpuheap.h"
DEVICE_HEADER = ROOT / "include" / "gpuheap_device.h"
STRUCTS = ("gpuheap_options", "gpuheap_stats")


def run(*command: str | Path) -> str:
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
    return ran.stdout


def version() -> int:
    found = re.search(r"#define GPUHEAP_ABI_VERSION (\d+)", HEADER.read_text())
    assert found
    return int(found[1])


def prototypes(header: str, folder: Path) -> list[str]:
    """The functions that a header declares, as C types, without their parameters' names."""
    source = folder / "prototypes.c"
    source.write_text(header)
    run("gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT / 'include'}", "-aux-info", folder / "info", source)
    lines = re.findall(r"extern (.*\bgpuheap_v\d+_\w+ \(.*\));", (folder / "info").read_text())
    return sorted(re.sub(r"\s+", " ", line) for line in lines)


def constants(header: str) -> list[str]:
    return re.findall(r"\b(GPUHEAP_[A-Z_]+)\b(?= = \d)", header)


def printed(folder: Path) -> list[str]:
    """Sizes, offsets and constants, as a C program says them."""
    code = ["#include <stddef.h>", "#include <stdio.h>", "#include <gpuheap.h>", "int main(void) {"]
    text = re.sub(r"//[^\n]*", "", HEADER.read_text())
    for name in constants(text):
        code.append(f'  printf("constant {name} %d\\n", (int){name});')
    for struct in STRUCTS:
        body = re.search(rf"typedef struct \{{([^}}]*)\}} {struct};", text)
        assert body, struct
        code.append(f'  printf("struct {struct} %zu bytes\\n", sizeof({struct}));')
        for field in re.findall(r"\b(\w+);", body[1]):
            member = f"(({struct}*)0)->{field}"
            code.append(f'  printf("field {struct}.{field} at %zu, %zu bytes\\n", offsetof({struct}, {field}), sizeof({member}));')
    source = folder / "printed.c"
    source.write_text("\n".join([*code, "  return 0;", "}", ""]))
    run("gcc", "-std=c99", "-Wall", "-Werror", f"-I{ROOT / 'include'}", source, "-o", folder / "printed")
    return run(folder / "printed").splitlines()


def device_declarations() -> str:
    """The device header as C sees it."""
    text = re.sub(r'extern "C" \{', "", DEVICE_HEADER.read_text()).replace("\n}\n", "\n").replace("version();", "version(void);")
    return "#include <stddef.h>\n" + text.replace("__device__ ", "").replace("#pragma once\n", "")


def interface(folder: Path) -> list[str]:
    host = [f"host {line}" for line in prototypes("#include <gpuheap.h>\n", folder)]
    device = [f"device {line}" for line in prototypes(device_declarations(), folder)]
    values = re.findall(r"\b(GPUHEAP_[A-Z_]+) = (\d+)", DEVICE_HEADER.read_text())
    return [*host, *device, *printed(folder), *(f"device constant {name} {value}" for name, value in values)]


def recorded(number: int) -> list[str]:
    file = ROOT / "capi" / "abi" / f"v{number}.txt"
    assert file.is_file(), f"GPUHEAP_ABI_VERSION is {number}, and there is no {file}: python tests/capi/test_abi.py > {file}"
    return file.read_text().splitlines()


def names(lines: list[str], side: str) -> set[str]:
    return {found[1] for line in lines if line.startswith(f"{side} ") and (found := re.search(r"\b(gpuheap_v\d+_\w+)", line))}


def test_headers_are_what_the_version_says(tmp_path: Path) -> None:
    assert interface(tmp_path) == recorded(version())


def test_names_carry_the_version() -> None:
    lines = recorded(version())
    found = names(lines, "host") | names(lines, "device")
    assert len(found) > 25
    assert {name for name in found if not name.startswith(f"gpuheap_v{version()}_")} == set()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("uint64_t bytes, void* stream", "uint32_t bytes, void* stream"),
        ("  uint64_t failed_requests;", "  uint32_t failed_requests;"),
        ("GPUHEAP_EXHAUSTED = 3", "GPUHEAP_EXHAUSTED = 7"),
        ("int32_t gpuheap_v1_device", "uint32_t gpuheap_v1_device"),
    ],
)
def test_a_change_is_noticed(before: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEADER.read_text()
    assert before in text
    (tmp_path / "include").mkdir()
    changed = tmp_path / "include" / "gpuheap.h"
    changed.write_text(text.replace(before, after))
    shutil.copy(DEVICE_HEADER, tmp_path / "include")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "HEADER", changed)
    changed_interface = interface(tmp_path)
    monkeypatch.undo()
    assert changed_interface != recorded(version())


@pytest.mark.parametrize("standard", ["c99", "c11", "c17", "c2x"])
def test_header_is_c(standard: str, tmp_path: Path) -> None:
    source = tmp_path / "header.c"
    source.write_text("#include <gpuheap.h>\n#include <gpuheap.h>\nint main(void) { return gpuheap_abi_version() == GPUHEAP_ABI_VERSION; }\n")
    run("gcc", f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT / 'include'}", source)


def test_library_exports_the_interface_alone(wheel_build: Path) -> None:
    symbols = run("nm", "-D", "--defined-only", wheel_build / "capi" / "libgpuheap.so")
    assert {line.split()[-1] for line in symbols.splitlines()} == names(recorded(version()), "host")


def compiled(folder: Path, namespace: str, *options: str, source: str = "device.cu") -> Path:
    """Device functions, for the oldest architecture."""
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        pytest.skip("the C interface: no nvcc found: install the CUDA toolkit, 13.0 or newer")
    out = folder / f"{namespace}.{source}.o"
    always = ("-std=c++20", "-rdc=true", f"-I{ROOT}", f"-I{ROOT / 'include'}", f"-DGPUHEAP_BACKEND_NAMESPACE={namespace}")
    run(nvcc, *always, *options, ROOT / "capi" / source, "-o", out)
    return out


def test_device_functions_are_weak_and_all_there(tmp_path: Path) -> None:
    sources = ("device.cu", "programs.cu")
    ptx = "".join(compiled(tmp_path, "for_c_of_the_test", "-arch=sm_75", "-ptx", "--Ofast-compile=max", source=source).read_text() for source in sources)
    weak = set(re.findall(r"^\.weak \.func\s+(?:\([^)]*\) )?(gpuheap_v\d+_\w+)", ptx, re.MULTILINE))
    assert weak == names(recorded(version()), "device")


@pytest.mark.whole
def test_two_versions_live_in_one_link(wheel_build: Path, tmp_path: Path) -> None:
    both = wheel_build / "capi" / "gpuheap.fatbin", compiled(tmp_path, "for_c_0_0_1", "-arch=sm_90", "-cubin", "-O1")
    nvlink = Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc").resolve().parent / "nvlink"
    run(nvlink, "-arch=sm_90", *both, "-o", tmp_path / "linked.cubin")
    assert (tmp_path / "linked.cubin").stat().st_size > 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as printed_in:
        print("\n".join(interface(Path(printed_in))))
