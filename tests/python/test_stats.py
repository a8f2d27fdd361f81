"""The JSON of a heap's statistics."""

from __future__ import annotations

import json

from gpuheap.heaps.heap import Stats


def test_statistics_as_json() -> None:
    stats = Stats(
        heap_bytes=1 << 20, usable_bytes=1000, at_most_bytes=1 << 20, live_allocations=3, live_bytes=48, peak_live_bytes=None, held_bytes=64, metadata_bytes=9,
        failed_requests=1, first_failed_bytes=4096, double_frees=0, foreign_frees=0,
    )  # fmt: skip
    text = stats.json()
    assert "\n" not in text
    assert json.loads(text)["live_allocations"] == 3
    assert json.loads(text)["peak_live_bytes"] is None
