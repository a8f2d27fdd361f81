"""The readers of tables, suites, claims, protocols, dumps and sizes, with files that are nearly right.

They give something, or one line says what is wrong.

GPUHEAP_EXAMPLES is the number of inputs for each test (default 40, always the same ones); with GPUHEAP_EXAMPLES_SEED they are others.
scripts/nightly_properties.py runs them for an hour each."""

from __future__ import annotations

import json
import os
import re
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

hypothesis = pytest.importorskip("hypothesis", reason="properties: no hypothesis: run ./test, which installs it into build/venv")

from hypothesis import strategies as some  # noqa: E402

from gpuheap.errors import UserError  # noqa: E402
from gpuheap.formats import protocol, results, suites  # noqa: E402
from gpuheap.inspection import dump  # noqa: E402
from gpuheap.judging import reader  # noqa: E402
from gpuheap.units import format_bytes, parse_bytes  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SEED = os.environ.get("GPUHEAP_EXAMPLES_SEED")

hypothesis.settings.register_profile(
    "gpuheap",
    max_examples=int(os.environ.get("GPUHEAP_EXAMPLES", "40")),
    derandomize=SEED is None,
    database=None,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("gpuheap")
Test = Callable[..., None]


def seeded(test: Test) -> Test:
    seeded_test: Test = test if SEED is None else hypothesis.seed(int(SEED))(test)
    return seeded_test


def is_one_line(error: Exception) -> None:
    text = str(error)
    assert text, "an error without words"
    assert len(text.splitlines()) == 1, text
    assert all(character.isprintable() for character in text), repr(text)


# Texts that replace a word of a file.
WORDS = some.one_of(
    some.sampled_from(
        [*["", "0", "-1", "1e999", "nan", "inf", "true", '""', '"x"', "[]", "{}", "[1, 2]", '["a"]', "1979-05-27"], "0x10", "9" * 30, *",=]\x00é\t"]
    ),
    some.integers(-(2**70), 2**70).map(str),
    some.text(max_size=12),
)


@some.composite
def nearly(draw: Callable[..., object], text: str) -> str:
    """A text of which a few words or lines are others."""
    lines = text.splitlines()
    for _ in range(draw(some.integers(1, 4))):  # type: ignore[call-overload]
        if not lines:
            break
        at = draw(some.integers(0, len(lines) - 1))
        kind = draw(some.sampled_from(["word", "word", "word", "drop", "twice", "cut", "swap"]))
        line = lines[at]  # type: ignore[call-overload]
        if kind == "word":
            places = [match.span() for match in re.finditer(r'"[^"]*"|[\w.+-]+', line)]
            if places:
                begin, end = draw(some.sampled_from(places))  # type: ignore[misc]
                lines[at] = f"{line[:begin]}{draw(WORDS)}{line[end:]}"  # type: ignore[call-overload]
        elif kind == "drop":
            del lines[at]  # type: ignore[arg-type]
        elif kind == "twice":
            lines.insert(at, line)  # type: ignore[arg-type]
        elif kind == "cut":
            lines[at] = line[: draw(some.integers(0, len(line)))]  # type: ignore[call-overload, misc]
        else:
            other = draw(some.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]  # type: ignore[call-overload]
    return "\n".join(lines) + draw(some.sampled_from(["\n", "", "\n\n"]))  # type: ignore[operator]


def head_of(path: Path, lines: int) -> str:
    return "\n".join(path.read_text().splitlines()[:lines]) + "\n"


def in_a_file(data: bytes, name: str, read: Callable[[Path], object]) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            return read(path)
        except UserError as error:
            is_one_line(error)
            return None


@seeded
@hypothesis.given(nearly(head_of(ROOT / "results" / "nvidia-h200" / "quick.csv", 40)))
def test_tables(text: str) -> None:
    rows = in_a_file(text.encode(errors="surrogatepass"), "quick.csv", results.read_table)
    for row in rows or []:  # type: ignore[attr-defined]
        again = results.parse_row(results.format_row(row).rstrip("\n"))
        assert again == row


@seeded
@hypothesis.given(some.sampled_from(["quick", "soak", "gallatin"]).flatmap(lambda name: nearly((ROOT / "benchmarks" / "suites" / f"{name}.toml").read_text())))
def test_suites(text: str) -> None:
    in_a_file(text.encode(errors="surrogatepass"), "suite.toml", suites.load_suite)


@seeded
@hypothesis.given(some.sampled_from(["regeff", "gallatin"]).flatmap(lambda name: nearly(head_of(ROOT / "benchmarks" / "claims" / f"{name}.toml", 120))))
def test_claims(text: str) -> None:
    in_a_file(text.encode(errors="surrogatepass"), "claims.toml", reader.load_paper)


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(["name", "metric", "values", "unit", "x"]), inner, max_size=3),
    max_leaves=8,
)
EVENTS = some.dictionaries(some.sampled_from(["begin", "point", "status", "reason", "rows", "other"]), JSON, max_size=5)
ROWS = some.lists(some.dictionaries(some.sampled_from(["metric", "unit", "values", "samples", "failed_requests"]), JSON, max_size=5), max_size=2)
LIKELY = some.fixed_dictionaries({"point": some.integers(-1, 3), "status": some.sampled_from(["ok", "wrong", "timeout", "crash"]), "rows": ROWS})


@seeded
@hypothesis.given(some.one_of(some.text(max_size=20), EVENTS.map(json.dumps), LIKELY.map(json.dumps)))
def test_events_of_the_executable(line: str) -> None:
    try:
        protocol.parse_event(line)
    except protocol.ProtocolError as error:
        assert str(error)


DESCRIPTIONS = some.dictionaries(some.sampled_from(["identity", "backend", "device", "allocators", "cases", "release", "program"]), JSON, max_size=7)


@seeded
@hypothesis.given(some.one_of(some.text(max_size=20), DESCRIPTIONS.map(json.dumps)))
def test_descriptions_of_the_executable(text: str) -> None:
    try:
        protocol.parse_description(text)
    except protocol.ProtocolError as error:
        assert str(error)


def whole_dump() -> bytes:
    """A heap of 64 KiB with two blocks, as heap.write_dump() writes it."""
    names = b"tag\0"
    head = struct.Struct("<8s5Q").pack(dump.MAGIC, 1 << 32, 1 << 16, 1 << 16, 2, 1)
    return head + b"gpuheap\0" + names + struct.pack("<4Q", 0, 64, (1 << 38) | 16, 32)


@seeded
@hypothesis.given(some.lists(some.tuples(some.integers(0, 120), some.integers(0, 255)), max_size=5), some.integers(0, 130))
def test_dumps(changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(whole_dump())
    for place, value in changes:
        if place < len(data):
            data[place] = value

    def read(path: Path) -> int:
        return sum(len(part.bytes) for part in dump.read_dump(path).parts())

    in_a_file(bytes(data[:length]), "heap.dump", read)


@seeded
@hypothesis.given(some.one_of(some.text(max_size=12), some.from_regex(r"\A[0-9.]{0,6} ?[KMGTkmgt]?i?[Bb]?\Z")))
def test_sizes(text: str) -> None:
    try:
        found = parse_bytes(text, "--bytes")
    except UserError as error:
        is_one_line(error)
        return
    assert found >= 0
    assert format_bytes(found)
