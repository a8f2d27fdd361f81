"""The metrics that results may hold: unit, label, and which direction is better."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    label: str
    lower_is_better: bool | None = True  # None: neither direction is better

    @property
    def is_time(self) -> bool:
        return self.unit in ("us", "ms")

    @property
    def over_requested(self) -> bool:
        """Whether it is a ratio to the bytes that were asked for."""
        return self.name in ("address_range_ratio", "footprint_ratio")


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("malloc_us", "us", "malloc"),
        Metric("free_us", "us", "free"),
        Metric("kernel_us", "us", "kernel"),
        Metric("init_ms", "ms", "initialisation"),
        Metric("registers_malloc", "count", "registers of malloc"),
        Metric("registers_free", "count", "registers of free"),
        Metric("registers_pair", "count", "registers of malloc and free"),
        Metric("registers_churn", "count", "registers of churn"),
        Metric("stack_bytes", "bytes", "stack per thread"),
        Metric("spill_bytes", "bytes", "spilled per thread"),
        Metric("registers_bound", "count", "bound on registers", None),
        Metric("utilisation", "ratio", "utilisation", False),
        Metric("utilisation_of_own", "ratio", "utilisation without the share for large requests", False),
        Metric("address_range_ratio", "ratio", "address range over requested"),
        Metric("footprint_ratio", "ratio", "footprint over requested"),
        Metric("internal_fragmentation", "ratio", "internal fragmentation"),
        Metric("metadata_ratio", "ratio", "metadata share"),
        Metric("failed_requests", "count", "failed requests"),
        Metric("throughput", "1/s", "operations per second", False),
        Metric("slowdown", "ratio", "slowdown"),
        Metric("speedup", "ratio", "speedup", False),  # papers print it; rows hold the two values from which it is computed
        Metric("call_ms", "ms", "MPI call"),
        Metric("malloc_ms", "ms", "malloc of the call's buffers"),
        Metric("free_ms", "ms", "free of the call's buffers"),
        Metric("without_malloc_ms", "ms", "MPI call without malloc"),
        Metric("malloc_cycles", "cycles", "malloc, cycles"),
        Metric("work_cycles", "cycles", "work, cycles", None),
        Metric("free_cycles", "cycles", "free, cycles"),
        Metric("gflops", "gflop/s", "arithmetic rate", False),
        Metric("build_ms", "ms", "build"),
        Metric("allocations", "count", "allocations", None),
        Metric("deallocations", "count", "deallocations", None),
        Metric("copies", "count", "copies", None),
        Metric("kernels", "count", "kernels", None),
        Metric("size_mean", "bytes", "mean request", None),
        Metric("size_stddev", "bytes", "spread of requests", None),
        Metric("references", "count", "references", None),
        Metric("wait_max_us", "us", "longest wait"),
        Metric("api_us", "us", "API time"),
        Metric("copy_us", "us", "copies"),
        Metric("total_ms", "ms", "total"),
        Metric("l1_hit_rate", "ratio", "L1 hit rate", False),
        Metric("l2_hit_rate", "ratio", "L2 hit rate", False),
        Metric("excess_sectors", "count", "excess sectors of global memory a launch"),
        Metric("excess_sector_ratio", "ratio", "excess sectors over all of global memory"),
        Metric("excess_wavefronts", "count", "excess wavefronts of shared memory a launch"),
        Metric("excess_wavefront_ratio", "ratio", "excess wavefronts over all of shared memory"),
        Metric("launches", "count", "launches", None),
        Metric("slot_bytes", "bytes", "distance of neighbours"),
        Metric("granularity", "bytes", "power of two in all addresses", None),
        Metric("first_kernel_us", "us", "kernel after a request"),
        Metric("next_kernel_us", "us", "the same kernel again"),
        Metric("scheduling_points", "count", "scheduling points", None),
    )
}
