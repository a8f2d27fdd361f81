"""Every run's value, kept beside a table as Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError
from gpuheap.files import replacement
from gpuheap.formats.protocol import PointResult
from gpuheap.formats.results import ELSEWHERE, Row

_KEY = ("suite", "case", "allocator", "backend", "threads", "bytes", "parameter")


class SampleFile:
    """The samples of one suite. Values are kept in memory until `save`, which merges them with what the file holds and replaces it."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow  # type: ignore[import-untyped]
            import pyarrow.parquet as parquet  # type: ignore[import-untyped]
        except ImportError:
            raise UserError("--samples needs pyarrow: pip install pyarrow") from None
        self._arrow: Any = pyarrow
        self._parquet: Any = parquet
        self.path = path
        # Read before anything is measured: what cannot be gone on with is told then.
        self._there = self._read()
        self._new: list[dict[str, object]] = []

    def add(self, rows: Sequence[Row], result: PointResult) -> None:
        """The samples behind the rows of one point."""
        for row, measurement in zip(rows, result.measurements, strict=False):
            key = dict(zip(_KEY, row.key, strict=True))
            for run, value in enumerate(measurement.samples):
                self._new.append({**key, "metric": row.metric, "unit": row.unit, "run": run, "value": value})

    def save(self) -> None:
        if not self._new:
            return
        arrow = self._arrow
        text, whole = arrow.string(), arrow.int64()
        schema = arrow.schema(
            [(name, whole if name in ("threads", "bytes") else text) for name in _KEY]
            + [("metric", text), ("unit", text), ("run", arrow.int32()), ("value", arrow.float64())]
        )
        measured_again = {tuple(sample[name] for name in _KEY) for sample in self._new}
        kept = [sample for sample in self._there if tuple(sample[name] for name in _KEY) not in measured_again]
        table = arrow.Table.from_pylist(kept + self._new, schema=schema)
        with replacement(self.path, f"{ELSEWHERE}; the rows are kept, and the samples of this run are not") as file:
            self._parquet.write_table(table, file)

    def _read(self) -> list[dict[str, object]]:
        if not self.path.exists():
            return []
        try:
            found: list[dict[str, object]] = self._parquet.read_table(self.path).to_pylist()
        except (OSError, ValueError) as error:  # those of pyarrow are such
            raise UserError(f"{self.path} is not readable as Parquet ({error}): delete it, and its samples with it") from None
        if found and not set(_KEY) <= set(found[0]):
            raise UserError(f"{self.path} holds no samples of gpuheap bench: delete it or {ELSEWHERE}")
        return found
