"""Reading compiled device code: which registers functions use, from a cubin, and what its instructions read and write."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

REGCOUNT = 0x2F  # of an attribute in .nv.info: a symbol and how many registers it takes


@dataclass(frozen=True)
class Section:
    name: str
    kind: int
    link: int
    info: int
    data: bytes


@dataclass(frozen=True)
class Symbol:
    name: str
    function: bool
    binding: str  # local, global, weak
    section: int  # 0: undefined
    size: int


class Cubin:
    """An ELF file of device code."""

    def __init__(self, data: bytes) -> None:
        if data[:4] != b"\x7fELF":
            raise ValueError("no ELF file")
        offset, count, names = (
            struct.unpack_from("<Q", data, 40)[0],
            *struct.unpack_from("<HH", data, 60),
        )
        heads = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * i) for i in range(count)]
        strings = data[heads[names][4] : heads[names][4] + heads[names][5]]
        nobits = 8
        self.sections = [
            Section(
                _string(strings, h[0]),
                h[1],
                h[6],
                h[7],
                b"" if h[1] == nobits else data[h[4] : h[4] + h[5]],
            )
            for h in heads
        ]
        table = next((s for s in self.sections if s.kind == 2), None)
        self.symbols: list[Symbol] = []
        if table is not None:
            texts = self.sections[table.link].data
            for name, info, _, section, _, size in struct.iter_unpack("<IBBHQQ", table.data):
                binding = {0: "local", 1: "global", 2: "weak"}.get(info >> 4, "other")
                self.symbols.append(Symbol(_string(texts, name), info & 15 == 2, binding, section, size))

    def undefined(self) -> list[str]:
        """Without what the driver provides, whose names begin with a dot."""
        return [s.name for s in self.symbols if s.section == 0 and s.name and s.binding != "local" and not s.name.startswith(".")]

    def functions(self) -> dict[str, Symbol]:
        return {s.name: s for s in self.symbols if s.function and s.section != 0}

    def registers(self) -> dict[str, int]:
        """The number of registers of each function. Up to sm_89 the head of its section has it, later an attribute."""
        counts = {s.name.removeprefix(".text."): s.info >> 24 for s in self.sections if s.name.startswith(".text.")}
        for section in self.sections:
            if section.name == ".nv.info":
                counts |= {self.symbols[symbol].name: count for symbol, count in _register_counts(section.data)}
        return counts

    def code(self, function: str) -> bytes:
        return next(s.data for s in self.sections if s.name == f".text.{function}")


def _string(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()


def _register_counts(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == 4:  # the value follows; else it is in the head
            if attribute == REGCOUNT:
                yield struct.unpack_from("<II", data, at)
            at += size


def nvdisasm() -> str | None:
    """The toolkit's disassembler, or that of its wheel."""
    wheels = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    found = shutil.which("nvdisasm") or shutil.which("nvdisasm", path="/usr/local/cuda/bin")
    return found or next((str(p) for p in sorted(wheels.glob("*/bin/nvdisasm"))), None)


@dataclass
class Instruction:
    """One machine instruction. Register names: R5, UR4, P0, UP1, B6. A write under a condition is a write that may not happen."""

    text: str
    opcode: str
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    conditional: bool = False


REGISTER = re.compile(r"(?<![\w.])(UR|UP|R|P|B)(\d+)\b")
NO_RESULT = (
    "ST",
    "RED",
    "BRA",
    "EXIT",
    "CALL",
    "RET",
    "BAR",
    "MEMBAR",
    "NOP",
    "BSYNC",
    "WARPSYNC",
    "BREAK",
    "ERRBAR",
    "CCTL",
    "YIELD",
)


def disassemble(tool: str, cubin: Path) -> dict[str, list[Instruction]]:
    """The instructions of each function, in the order in which they lie."""
    done = subprocess.run([tool, "-ndf", "-c", str(cubin)], capture_output=True, text=True, check=True)
    functions: dict[str, list[Instruction]] = {}
    for line in done.stdout.splitlines():
        if head := re.match(r"\.text\.(\S+):", line):
            functions[head[1]] = []
        elif found := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
            functions[next(reversed(functions))].append(parse(found[1]))
    return functions


def parse(text: str) -> Instruction:
    condition = re.match(r"@!?(U?P)(\d+)\s+|@!?U?PT\s+", text)
    rest = text[condition.end() :] if condition else text
    opcode, _, operands = rest.partition(" ")
    made = Instruction(text, opcode, conditional=condition is not None)
    if condition and condition[1]:
        made.reads.add(condition[1] + condition[2])
    parts = [p.strip() for p in operands.split(",")] if operands else []
    results = 0 if opcode.startswith(NO_RESULT) else count_results(opcode, parts)
    for number, part in enumerate(parts):
        for kind, index in REGISTER.findall(part):
            if number < results and "[" not in part:
                made.writes |= {f"{kind}{int(index) + k}" for k in range(width(opcode) if kind in ("R", "UR") else 1)}
            else:
                wide = ".64" in part or (kind in ("R", "UR") and opcode.startswith("ST") and number > 0 and width(opcode) > 1)
                made.reads |= {f"{kind}{int(index) + k}" for k in range(2 if wide else 1)}
    return made


def count_results(opcode: str, parts: list[str]) -> int:
    """The number of leading operands that are written: predicates that stand first, then one other, then predicates for carries."""
    predicate = re.compile(r"^(U?P\d+|U?PT)$")
    count = 0
    while count < len(parts) and predicate.match(parts[count]):
        count += 1
    if opcode.startswith(("ISETP", "FSETP", "DSETP", "UISETP", "PSETP", "UPSETP", "PLOP3", "UPLOP3")):
        return min(count, 2)
    if count < len(parts):
        count += 1
    if opcode.startswith(("IADD3", "UIADD3", "LEA", "ULEA", "IMAD", "LOP3")) and not opcode.endswith(".X"):
        while count < len(parts) and predicate.match(parts[count]) and count < 3:
            count += 1
    return count


def width(opcode: str) -> int:
    """Registers of 32 bits that an instruction's result takes; 1 where the name does not say."""
    if ".128" in opcode:
        return 4
    return 2 if ".64" in opcode or ".WIDE" in opcode or opcode.startswith(("CS2R", "DADD", "DMUL", "DFMA", "F2F.F64")) else 1


def kept_across_call(code: list[Instruction], callees: tuple[str, ...]) -> set[str]:
    """The registers that instructions after the first call of a callee read and have not written: the caller relies on the callee to keep them.

    Follows the text, so it is exact where no branch leads back, and at least what is kept elsewhere. R1 is the stack's, R4 and R5 are the
    result's.
    """
    call = next(n for n, i in enumerate(code) if i.opcode.startswith("CALL") and any(f"({name})" in i.text for name in callees))
    written: set[str] = set()
    kept: set[str] = set()
    for instruction in code[call + 1 :]:
        kept |= {r for r in instruction.reads if r not in written}
        if not instruction.conditional:
            written |= instruction.writes
    return kept - {"R1", "R4", "R5"}
