"""The functions that serve a program's device malloc keep every register that ptxas assumes: read from compiled code, for each architecture.

ptxas takes malloc, free and over-aligned new for calls into the system, which keep more than a function does. The library's functions are
ordinary functions that use no register above R31, and so keep what ordinary functions keep, and all above R31. These tests look at both sides:
what callers count on, and what the library's code uses.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from build_tree import ARCHITECTURES, FROM_PTX, SERVED, library, run, tool
from device_code import Cubin, Instruction, disassemble, kept_across_call, nvdisasm

HERE = Path(__file__).parent
MOST = 32  # registers of the library's functions: R0 to R31
CALLEES = ["malloc", "free", "over-aligned new", "an ordinary function"]
ORDINARY = 3
NAMES = (*SERVED, "ordinary")
CALLERS = ("registers", "predicates", "uniform", "barriers")

# Registers that ordinary functions keep: these below R32 (those from R36 on do not matter here); UR36 and up, B6 and up; no predicate.
KEPT_BELOW_32 = {2, *range(16, 20), *range(22, 32)}
FIRST_KEPT = {"UR": 36, "B": 6}


def numbers(kept: set[str], kind: str) -> set[int]:
    return {int(m[1]) for r in kept if (m := re.fullmatch(kind + r"(\d+)", r))}


def disassembled(cubin: Path) -> dict[str, list[Instruction]]:
    found = nvdisasm()
    if found is None:
        pytest.skip("registers of relinked programs: no nvdisasm: install the CUDA toolkit's, or pip install nvidia-cuda-nvdisasm")
    return disassemble(found, cubin)


def kept_by(functions: dict[str, list[Instruction]]) -> dict[str, set[str]]:
    return {name: kept_across_call(functions[name], NAMES) for name in CALLERS}


def breaches(functions: dict[str, list[Instruction]]) -> list[str]:
    """The registers on which a caller relies and which ordinary functions within MOST registers do not keep."""
    kept = kept_by(functions)
    found = [f"R{n} is kept" for n in sorted(numbers(kept["registers"], "R")) if n < MOST and n not in KEPT_BELOW_32]
    for kind, name in (
        ("P", "predicates"),
        ("UP", "predicates"),
        ("UP", "uniform"),
        ("P", "uniform"),
        ("P", "barriers"),
    ):
        found += [f"{kind}{n} is kept ({name})" for n in sorted(numbers(kept[name], kind))]
    for name, registers in kept.items():
        for kind, first in FIRST_KEPT.items():
            found += [f"{kind}{n} is kept ({name})" for n in sorted(numbers(registers, kind)) if n < first]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("malloc")


def compiled(folder: Path, architecture: str, callee: int) -> Path:
    """The callers of one callee. Their PTX is the same for all architectures: ptxas is what is looked at."""
    ptx, cubin = (
        folder / f"callee{callee}.ptx",
        folder / f"callee{callee}_sm{architecture}.cubin",
    )
    if not ptx.exists():
        run(
            tool("nvcc"),
            "-rdc=true",
            "-ptx",
            "-arch=compute_75",
            "-std=c++17",
            f"-DCALLEE={callee}",
            HERE / "conventions.cu",
            "-o",
            ptx,
        )
    if not cubin.exists():
        run(tool("ptxas"), "-c", f"-arch=sm_{architecture}", ptx, "-o", cubin)
    return cubin


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("callee", range(4), ids=CALLEES)
def test_callers_count_on_no_more_than_the_library_keeps(folder: Path, architecture: str, callee: int) -> None:
    functions = disassembled(compiled(folder, architecture, callee))
    assert breaches(functions) == []
    # The callers do hold as much as they can: else the test would see nothing.
    held = kept_by(functions)
    assert numbers(held["registers"], "R") >= {
        *range(22, 32),
        *range(36, 40),
        *range(44, 48),
    }
    assert len(numbers(held["uniform"], "UR")) >= 8
    assert len(numbers(held["barriers"], "B")) >= 2


def test_a_function_with_more_registers_would_not_do(folder: Path) -> None:
    """The reason for the limit, where it exists: callers of malloc keep registers that ordinary functions use as they like."""
    malloc, ordinary = (numbers(kept_by(disassembled(compiled(folder, "90", callee)))["registers"], "R") for callee in (0, ORDINARY))
    assert malloc - ordinary != set(), "ptxas takes malloc for an ordinary function now: the library needs no limit any more"
    assert min(malloc - ordinary) >= MOST


def linked(folder: Path, architecture: str) -> Cubin:
    """A program of all callees that is linked with the library."""
    archive = library()
    source, ptx = folder / "caller.cu", folder / "caller.ptx"
    caller, cubin = (
        folder / f"caller{architecture}.cubin",
        folder / f"linked{architecture}.cubin",
    )
    if not ptx.exists():
        source.write_text(
            "struct alignas(64) wide { int v[16]; };\n"
            "__global__ void k(void** p) { p[0] = malloc(7); free(p[1]); p[2] = new wide; delete static_cast<int*>(p[3]); }\n"
        )
        run(tool("nvcc"), "-rdc=true", "-ptx", "-arch=compute_75", source, "-o", ptx)
    if not cubin.exists():
        run(tool("ptxas"), "-c", f"-arch=sm_{architecture}", ptx, "-o", caller)
        run(
            tool("nvlink"),
            f"--arch=sm_{architecture}",
            caller,
            f"-L{archive.parent}",
            "-lgpuheap_malloc",
            "-o",
            cubin,
        )
    return Cubin(cubin.read_bytes())


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, FROM_PTX])
def test_the_library_stays_within_its_registers(folder: Path, architecture: str) -> None:
    cubin = linked(folder, architecture)
    assert cubin.undefined() == []
    assert {n: cubin.functions()[n].binding for n in SERVED} == dict.fromkeys(SERVED, "global")
    counts = cubin.registers()
    own = {name: count for name, count in counts.items() if "_Z1kPPv" not in name}
    assert set(SERVED) <= set(own) and all(count > 0 for count in own.values())
    assert {name: count for name, count in own.items() if count > MOST} == {}


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, FROM_PTX])
def test_the_library_s_instructions_are_instructions(folder: Path, architecture: str) -> None:
    """No instruction of zeros, which ptxas has made of what an architecture lacks."""
    cubin = linked(folder, architecture)
    for name in cubin.functions():
        code = cubin.code(name)
        zero = [at for at in range(0, len(code), 16) if code[at : at + 16] == bytes(16)]
        assert zero == [], f"{name} at {zero}"


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, FROM_PTX])
def test_no_function_of_a_program_takes_the_place_of_the_library_s(folder: Path, architecture: str) -> None:
    """The library's functions that nvlink may exchange for others of the same name are in a namespace that no program has. ptxas's own helpers
    have at most 24 registers however they were compiled."""
    cubin = linked(folder, architecture)
    counts = cubin.registers()
    weak = [n for n, s in cubin.functions().items() if s.binding == "weak" and "for_malloc" not in n and "device_malloc" not in n]
    assert {name: counts[name] for name in weak if not (name.startswith("__cuda_") and counts[name] <= 24)} == {}


def test_link_time_optimisation_keeps_the_convention(tmp_path: Path) -> None:
    """The library has no LTO code: callers that are compiled at link time count on what they count on elsewhere."""
    archive = library()
    for callee in (0, 1):
        made = tmp_path / f"callee{callee}.o"
        cubin = made.with_suffix(".cubin")
        flags = (
            "-dlto",
            "-rdc=true",
            "-c",
            "-arch=sm_90",
            "-std=c++17",
            f"-DCALLEE={callee}",
        )
        run(tool("nvcc"), *flags, HERE / "conventions.cu", "-o", made)
        command = [
            tool("nvcc"),
            "-dlto",
            "-rdc=true",
            "-dlink",
            "-cubin",
            "-arch=sm_90",
            made,
            f"-L{archive.parent}",
            "-lgpuheap_malloc",
        ]
        done = subprocess.run([*map(str, command), "-o", str(cubin)], check=False, capture_output=True, text=True)
        if "linker library load error" in done.stderr:
            pytest.skip("link-time optimisation of relinked programs: nvlink finds no libnvvm: install the whole CUDA toolkit, with nvvm/lib64")
        assert done.returncode == 0, done.stderr
        assert breaches(disassembled(cubin)) == []
        counts = Cubin(cubin.read_bytes()).registers()
        assert {n: c for n, c in counts.items() if ("malloc" in n or n == "free") and c > MOST} == {}


def test_the_reader_sees_what_a_caller_keeps() -> None:
    """The reading itself, on instructions written by hand."""
    from device_code import parse

    code = [parse(t) for t in ("MOV R20, 0x0", "CALL.ABS.NOINC `(malloc)", "IADD3 R6, R33, R6, RZ", "LDG.E.64 R8, desc[UR4][R2.64]",
                               "@P1 MOV R10, R9", "ISETP.NE.AND P2, PT, R10, R11, P3", "STG.E.64 desc[UR36][R12.64], R14", "BSYNC B5")]  # fmt: skip
    expected = "R33 R6 UR4 UR5 R2 R3 P1 R10 R11 P3 UR36 UR37 R12 R13 R14 R15 B5"
    assert kept_across_call(code, NAMES) == set(expected.split())
