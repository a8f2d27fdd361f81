// The code of the default allocator that nearly all of its simulated tests have in common: default_instances.cpp compiles it once, and the
// tests only declare it.
#pragma once

#include <gpuheap/heap.hpp>

#ifndef GPUHEAP_TEST_INSTANCE
#define GPUHEAP_TEST_INSTANCE extern template
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

GPUHEAP_TEST_INSTANCE struct sharded::partial_choice<sharded::shipped>;
GPUHEAP_TEST_INSTANCE struct sharded::refills<sharded::shipped>;
GPUHEAP_TEST_INSTANCE struct sharded::drains<sharded::shipped>;
GPUHEAP_TEST_INSTANCE struct sharded::large_allocations<sharded::shipped>;
GPUHEAP_TEST_INSTANCE struct sharded::control<sharded::shipped>;
GPUHEAP_TEST_INSTANCE struct sharded::reclaim_all<sharded::shipped>;
GPUHEAP_TEST_INSTANCE struct sharded::growing_parts<sharded::spans>;
GPUHEAP_TEST_INSTANCE struct sharded::detail::image<sharded::spans>;
GPUHEAP_TEST_INSTANCE sharded::audit sharded::verify<sharded::spans>(sharded::layout const&, sharded::spans const*, stream_ref);
GPUHEAP_TEST_INSTANCE void sharded::take_census<sharded::spans>(sharded::layout const&, sharded::spans*, live_total*, stream_ref);
GPUHEAP_TEST_INSTANCE class basic_sharded_spans<sharded::shipped>;
GPUHEAP_TEST_INSTANCE class heap<sharded_spans, uncounted>;

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
