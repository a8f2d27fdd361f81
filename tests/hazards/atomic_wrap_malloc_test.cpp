// The hazards of the published AWMalloc.
#include "mutant.hpp"

#include <gpuheap/allocators/atomic_wrap_malloc.hpp>

namespace {

using namespace hazards;

// As published (algorithm 2): the wrap is tried after a fetch_add, and a thread that loses it to another thread's wrap leaves with the
// bytes below the counter.
struct published_take {
  static constexpr simt::uint64_t none = ~simt::uint64_t{0};
  GPUHEAP_FN static simt::uint64_t take(simt::uint64_t& top, simt::uint64_t need, simt::uint64_t pool) {
    simt::atomic_ref<simt::uint64_t> const counter{top};
    simt::uint64_t end = counter.fetch_add(need, simt::relaxed) + need;
    // Ends: a pass that goes on has seen another thread move the counter.
    while (end > pool) {
      simt::uint64_t seen = end;
      if (counter.compare_exchange(seen, need, simt::relaxed, simt::relaxed)) return 0;
      end = seen + need <= pool ? counter.fetch_add(need, simt::relaxed) + need : seen;
    }
    return end - need;
  }
};
using published_wrap = bump_mutant<simt::uint64_t, published_take>;

// Sets of blocks of less than a lap each, several of which cross the pool's end.
bool separates_a_lap() {
  using heap_t = gpuheap::heap<gpuheap::atomic_wrap_malloc>;
  simt::size_t const pool = 16_KiB;
  heap_t heap{heap_t::min_bytes() + pool};
  test::rng random{3};
  for (unsigned set = 0; set < 4; ++set) {
    std::vector<std::size_t> sizes(20);
    for (auto& s : sizes) s = 16 + random.below(pool / 20);
    test::blocks<heap_t::ref_type> b(heap.ref(), sizes);
    b.malloc_all(32);
    if (b.failed_requests() != 0 || !are_apart(b)) return false;
  }
  return true;
}
// Blocks of which two seldom fit beside each other: what the loser of a wrap leaves with then begins before the pool.
template <class A>
bool stays_inside_the_pool() {
  gpuheap::memory::allocation const memory{gpuheap::memory::device, gpuheap::heap<A>::min_bytes() + 16_KiB};
  gpuheap::heap<A> heap{memory.where()};
  test::rng random{4};
  std::vector<std::size_t> sizes(40);
  for (auto& s : sizes) s = 4_KiB + random.below(8_KiB);
  test::blocks<typename gpuheap::heap<A>::ref_type> b(heap.ref(), sizes);
  b.malloc_all(64);
  auto const pointers = b.pointers().read();
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    auto* const p = static_cast<char*>(pointers[i]);
    auto* const base = static_cast<char*>(memory.base());
    if (p < base + 256 || p + sizes[i] > base + memory.bytes()) return false;
  }
  return true;
}
TEST(Hazard5, LosersOfTheWrapLeaveWithBytesOfAnother) {
  expect_right(1000, separates_a_lap);
  expect_right(1000, stays_inside_the_pool<gpuheap::atomic_wrap_malloc>);
  expect_found(1000, stays_inside_the_pool<published_wrap>);
}

// Whether a request larger than the pool is refused. The exchange of the published form accepts it.
template <class A>
bool refuses_more_than_the_pool() {
  gpuheap::heap<A> heap{64_KiB};
  test::blocks<typename gpuheap::heap<A>::ref_type> b(heap.ref(), 1, 100_KiB);
  b.malloc_all();
  return b.failed_requests() == 1;
}
TEST(Hazard5, MoreThanThePoolIsAccepted) {
  EXPECT_TRUE(refuses_more_than_the_pool<gpuheap::atomic_wrap_malloc>());
  EXPECT_FALSE(refuses_more_than_the_pool<published_wrap>()) << "the test does not see the published mistake";
}

}  // namespace
