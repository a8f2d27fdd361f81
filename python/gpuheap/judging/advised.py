"""The papers' recommendations by pattern: `benchmarks/claims/tables/recommendations.toml`."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from gpuheap.catalogue import ALLOCATORS
from gpuheap.errors import UserError, unknown_name
from gpuheap.judging.language import Span, parse_span
from gpuheap.judging.lines import Source
from gpuheap.paths import Layout

GRANULARITIES = ("thread", "warp")
REUSES = ("cross-size", "same-size", "none")
MEMORIES = ("tight", "ample")
_KEYS = ("paper", "at", "says", "allocators", "sizes", "granularity", "reuse", "memory")


@dataclass(frozen=True)
class Recommendation:
    paper: str
    at: str
    says: str
    allocators: tuple[str, ...]
    sizes: Span  # the sizes in bytes
    granularity: tuple[str, ...]
    reuse: tuple[str, ...]
    memory: tuple[str, ...]

    def fits(self, low: int, high: int, granularity: str, reuse: str, memory: str) -> bool:
        """Whether the recommendation covers all these sizes and this pattern."""
        inside = self.sizes.low <= low and high <= self.sizes.high
        return inside and granularity in self.granularity and reuse in self.reuse and memory in self.memory

    @property
    def narrowness(self) -> int:
        """The number of the recommendation's conditions."""
        narrow = [self.granularity != GRANULARITIES, self.reuse != REUSES, self.memory != MEMORIES, self.sizes != Span()]
        return sum(narrow)


def load_recommendations(layout: Layout) -> tuple[Recommendation, ...]:
    source = Source(layout.claims / "tables" / "recommendations.toml")
    entries = source.said.get("recommendation")
    places = source.tables("recommendation")
    if not isinstance(entries, list) or len(entries) != len(places) or set(source.said) != {"recommendation"}:
        raise UserError(f"{source.path}:1: expected recommendations only, each under a line [[recommendation]]")
    return tuple(_read(source, entry, *place) for entry, place in zip(entries, places, strict=True))


def _read(source: Source, said: dict[str, Any], first: int, last: int) -> Recommendation:
    def complaint(key: str, words: object) -> UserError:
        return UserError(f"{source.path}:{source.line_of(key, first, last)}: recommendation: {words}")

    def words_of(key: str, known: Collection[str], default: tuple[str, ...] | None) -> tuple[str, ...]:
        value = said.get(key, default)
        if not isinstance(value, (list, tuple)) or not value:
            raise complaint(key, f"{key} must be a list of names")
        for name in value:
            if name not in known:
                raise complaint(key, unknown_name(key, str(name), known))
        return tuple(value)

    for key in said:
        if key not in _KEYS:
            raise complaint(key, unknown_name("key", key, _KEYS))
    for key in ("paper", "at", "says"):
        if not isinstance(said.get(key), str) or not said[key]:
            raise complaint(key, f"{key} is missing")
    try:
        sizes = parse_span(str(said["sizes"])) if "sizes" in said else Span(-math.inf, math.inf)
    except ValueError:
        raise complaint("sizes", f"sizes is '{said['sizes']}', expected a range like ..512 or 513..2048") from None
    return Recommendation(
        paper=said["paper"],
        at=said["at"],
        says=said["says"],
        allocators=words_of("allocators", ALLOCATORS, None),
        sizes=sizes,
        granularity=words_of("granularity", GRANULARITIES, GRANULARITIES),
        reuse=words_of("reuse", REUSES, REUSES),
        memory=words_of("memory", MEMORIES, MEMORIES),
    )
