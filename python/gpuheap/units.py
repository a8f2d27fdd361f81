"""Byte sizes and measured values, read and written for people."""

from __future__ import annotations

import math
import re

from gpuheap.errors import UserError

_SIZE = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]i?)?B?\s*$", re.IGNORECASE)
_SHARE = re.compile(r"^\s*([0-9]{1,4}(?:\.[0-9]+)?)\s*%\s*$")
_LARGEST = (1 << 64) - 1
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_bytes(text: str | int, what: str) -> int:
    """Reads a size, as `1073741824`, `8GiB` or `512M`, in bytes. All units are powers of 1024. Raises UserError, which begins with `what`."""
    if isinstance(text, bool) or not isinstance(text, (int, str)):
        raise UserError(f"{what}: '{text}' is not a size: write bytes or a unit, like 1073741824 or 8GiB")
    match = _SIZE.match(str(text))
    if match is None:
        raise UserError(f"{what}: '{text}' is not a size: write bytes or a unit, like 1073741824 or 8GiB")
    unit = (match.group(2) or "").lower().rstrip("i")
    scale: int = 1024 ** _POWER[unit]
    digits = match.group(1).lstrip("0") or "0"
    # Python refuses to convert thousands of digits, so the number of digits is checked first.
    value = _LARGEST + 1 if len(digits.partition(".")[0]) > 20 else round(float(digits) * scale) if "." in digits else int(digits) * scale
    if value <= 0:
        raise UserError(f"{what}: a size must be positive, not '{text}'")
    if value > _LARGEST:
        shown = str(text) if len(str(text)) <= 40 else f"{str(text)[:37]}..."
        raise UserError(f"{what}: '{shown}' is more than 64 bits can address: write a size below {1 << 24}TiB")
    return value


def heap_size(text: str, what: str) -> str:
    """Reads the size of a heap as GPUHEAP_BYTES takes it: as parse_bytes() does, or a share of the device's free memory, as `40%`. Raises UserError."""
    share = _SHARE.match(text)
    if share is None:
        return str(parse_bytes(text, what))
    if not 0 < float(share[1]) <= 100:
        raise UserError(f"{what}: '{text}' is no share of the free memory: write one above 0% and up to 100%")
    return f"{share[1]}%"


def format_bytes(count: int | float) -> str:
    """For example `16 B`, `8 KiB` or `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{_short(count)} {unit}"
        count /= 1024
    return f"{_short(count)} TiB"


def format_count(count: int | float) -> str:
    """A whole number in full, as `1,000,000`; any other number with three significant digits."""
    return f"{count:,.0f}" if float(count).is_integer() else f"{count:,.3g}"


def format_value(value: float, unit: str) -> str:
    """A measured value with the unit that suits it: about three digits, but whole counts in full."""
    if unit == "count":
        return format_count(value) if float(value).is_integer() else f"{value:,.4g}"
    if unit == "bytes":
        return format_bytes(value)
    if unit in ("us", "ms"):
        nanoseconds = value * (1e3 if unit == "us" else 1e6)
        for scale, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
            # 999.95 of the smaller unit would be printed as 1000
            if abs(nanoseconds) >= scale * 0.99995:
                return f"{_short(nanoseconds / scale)} {name}"
        return f"{_short(nanoseconds)} ns"
    text = _short(value) if value == 0 or abs(value) >= 1e-4 else f"{value:.2g}"
    return text if unit in ("ratio", "") else f"{text} {unit.replace('us', 'µs')}"


def format_factor(factor: float) -> str:
    """For example `1.02`, `3.4`, `27` or `1,200`."""
    if factor < 1.995:
        return f"{factor:.2f}"
    if factor < 9.95:
        return f"{factor:.1f}"
    return f"{factor:,.0f}"


def format_seconds(seconds: float) -> str:
    """For example `12 s`, `0.5 s`, `2 min 5 s` or `1 h 20 min`."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    if seconds >= 3600:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def _short(value: float) -> str:
    """Three significant digits without an exponent; whole numbers below 10,000 in full."""
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) < 1e4:
        return str(int(value))
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    rounded = f"{value:,.{min(digits, 6)}f}"
    return rounded.rstrip("0").rstrip(".") if "." in rounded else rounded
