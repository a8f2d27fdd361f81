// Tests of the cost of the default heap's requests in scheduling points, which only the simulator counts.
#include <gpuheap/heap.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap_simulator/launch.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace {

// Each thread asks so many times, whether it is served or not.
struct ask {
  gpuheap::heap<>::ref_type heap;
  unsigned requests;
  std::size_t bytes;
  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned k = 0; k < requests; ++k) (void)heap.malloc(bytes);
  }
};
// The scheduling points of a request, in a heap of 2 MiB of which six times as much is asked.
double points_per_request(gpuheap::simulator::scheduler_kind kind, std::uint64_t seed) {
  constexpr unsigned num_threads = 1024, requests = 64;
  gpuheap::simulator::settings settings;
  settings.scheduler = kind;
  settings.seed = seed;
  gpuheap::simulator::scoped_settings const scope{settings};
  gpuheap::heap<> heap{2 << 20};
  gpuheap::launch(num_threads, ask{heap.ref(), requests, 200});
  return static_cast<double>(gpuheap::simulator::last_run().points) / (num_threads * requests);
}

TEST(StepsOfRequests, AreFewOnTheWayToAFullHeap) {
  using gpuheap::simulator::scheduler_kind;
  EXPECT_LE(points_per_request(scheduler_kind::round_robin, 0), 60);
  EXPECT_LE(points_per_request(scheduler_kind::pct, 1), 60);
  EXPECT_LE(points_per_request(scheduler_kind::run_through, 0), 120);
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) sum += points_per_request(scheduler_kind::random, seed);
  EXPECT_LE(sum / 4, 200);
}

}  // namespace
