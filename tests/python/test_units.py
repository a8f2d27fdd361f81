"""Sizes and values as people read and write them."""

from __future__ import annotations

import pytest

from gpuheap.errors import UserError, unknown_name
from gpuheap.running.environment import slug
from gpuheap.units import format_bytes, format_count, format_factor, format_seconds, format_value, heap_size, parse_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 1),
        ("1024", 1024),
        ("8GiB", 8 << 30),
        ("8G", 8 << 30),
        ("512 MiB", 512 << 20),
        ("1.5KiB", 1536),
        ("64kb", 65536),
        (4096, 4096),
        ("2TiB", 2 << 40),
    ],
)
def test_sizes(text: str | int, count: int) -> None:
    assert parse_bytes(text, "x") == count


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1e9", "8 giga", "0", "1,5G", "0x10"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UserError, match="^x: "):
        parse_bytes(text, "x")


@pytest.mark.parametrize("text", ["16777216TiB", "18446744073709551616", "9" * 400, "9" * 5000, "9" * 400 + ".5GiB"])
def test_a_size_beyond_64_bits_is_refused_in_few_words(text: str) -> None:
    with pytest.raises(UserError, match="^x: '.* is more than 64 bits can address: write a size below 16777216TiB") as refused:
        parse_bytes(text, "x")
    assert len(str(refused.value)) < 150


def test_leading_zeros_are_no_digits_of_a_size() -> None:
    assert parse_bytes("0" * 5000 + "16", "x") == 16
    assert parse_bytes("18446744073709551615", "x") == (1 << 64) - 1


def test_values() -> None:
    assert [format_value(v, "us") for v in (0.0123, 0.5, 1, 38.24, 999.96, 1234, 78500, 2.5e6)] == [
        "12.3 ns",
        "500 ns",
        "1 µs",
        "38.2 µs",
        "1 ms",
        "1.23 ms",
        "78.5 ms",
        "2.5 s",
    ]
    assert format_value(3, "ms") == "3 ms"
    assert format_value(0, "us") == "0 ns"
    assert format_value(261234, "count") == "261,234"
    assert format_value(0.934, "ratio") == "0.934"


def test_counts_bytes_factors_seconds() -> None:
    assert [format_count(v) for v in (1, 1000, 1_000_000)] == ["1", "1,000", "1,000,000"]
    assert [format_bytes(v) for v in (16, 1023, 1024, 1536, 16 << 30)] == ["16 B", "1023 B", "1 KiB", "1.5 KiB", "16 GiB"]
    assert [format_factor(v) for v in (1, 1.234, 3.42, 27.2, 1234.0)] == ["1.00", "1.23", "3.4", "27", "1,234"]
    assert [format_seconds(v) for v in (0.5, 12, 125)] == ["0.5 s", "12 s", "2 min 5 s"]


def test_near_names() -> None:
    known = ["regeff_c", "regeff_cf", "ouroboros_p_s", "sharded_spans"]
    assert str(unknown_name("allocator", "regef_c", known)) == "unknown allocator 'regef_c': did you mean 'regeff_c' or 'regeff_cf'?"
    assert str(unknown_name("allocator", "ouro", known)) == "unknown allocator 'ouro': did you mean 'ouroboros_p_s'?"
    assert str(unknown_name("allocator", "xyz", ["a", "b"])) == "unknown allocator 'xyz': there are a, b"


def test_slugs() -> None:
    assert [slug(name) for name in ("NVIDIA H200", "NVIDIA GeForce RTX 4090", "NVIDIA H100 80GB HBM3")] == [
        "nvidia-h200",
        "nvidia-geforce-rtx-4090",
        "nvidia-h100-80gb-hbm3",
    ]


@pytest.mark.parametrize(
    ("text", "variable"),
    [("4GiB", "4294967296"), (" 512M ", "536870912"), ("40%", "40%"), ("37.5 %", "37.5%"), ("100%", "100%"), ("0.5%", "0.5%")],
)
def test_a_heap_has_a_size_or_a_share_of_the_memory(text: str, variable: str) -> None:
    assert heap_size(text, "--bytes") == variable


@pytest.mark.parametrize("text", ["0%", "0.0 %", "100.5%", "9999%", "%", "-5%", "40%%", "1e1%", "4GiB%", "nan%", ""])
def test_what_is_no_heap_size_is_told(text: str) -> None:
    with pytest.raises(UserError, match=r"^--bytes: '.*' is (not a size|no share of the free memory): write "):
        heap_size(text, "--bytes")
