// Groups of threads that allocate together, for heap_ref::malloc(group, ...). Compiles under NVRTC.
//
//   this_warp(mask)         the lanes of `mask`
//   this_warp()             the lanes that execute the call together
//   this_block(scratch)     all threads of the block; `scratch` is one block_scratch for each block, in shared or global memory
//   live_block(scratch)     the threads of the block that have not returned; the call counts them
//   tile, coalesced group   a group of cooperative_groups, or of any type that has thread_rank(), size(), sync() and shfl(value, rank)
//
// Every thread of a group makes each call that takes the group. The call waits for all of these threads. Among them, accesses before the
// call happen before those after it.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief A group of threads with the operations that the collective calls use.
//
// `rank()` returns 0..size()-1, each value once. `sync()` waits for all threads of the group and orders memory among them. `from_first(v)`
// returns rank 0's v to all, after everything that rank 0 did before; v has 8 bytes. `sum_before(v, total)` returns the sum of v over the
// lower ranks and sets `total` to the sum over all.
template <class G>
concept thread_group = requires(G const& group, void* p, simt::uint64_t value, simt::uint64_t& total) {
  { group.rank() } -> simt::same_as<unsigned>;
  group.sync();
  { group.from_first(p) } -> simt::same_as<void*>;
  { group.sum_before(value, total) } -> simt::same_as<simt::uint64_t>;
};

// @brief A group of cooperative_groups, or a type with the same members.
template <class G>
concept cooperative_group = requires(G const& group) {
  { group.thread_rank() } -> simt::convertible_to<simt::uint64_t>;
  { group.size() } -> simt::convertible_to<simt::uint64_t>;
  group.sync();
};
// @brief A cooperative_group whose threads can read each other's registers: a tile or a coalesced group, not a thread block.
template <class G>
concept shuffling_group = cooperative_group<G> && requires(G const& group, unsigned long long value, unsigned rank) {
  { group.shfl(value, rank) } -> simt::convertible_to<unsigned long long>;
};

// @brief The lanes of one mask, as a group. this_warp() makes it.
class warp_threads {
 public:
  GPUHEAP_FN explicit warp_threads(simt::lane_mask mask) : mask_{mask} {}

  [[nodiscard]] GPUHEAP_FN simt::lane_mask mask() const { return mask_; }
  [[nodiscard]] GPUHEAP_FN unsigned size() const { return simt::popcount(mask_); }
  [[nodiscard]] GPUHEAP_FN unsigned rank() const { return structures::warp_group{mask_}.rank(); }

  GPUHEAP_FN void sync() const { simt::sync_warp(mask_); }
  template <class T>
  [[nodiscard]] GPUHEAP_FN T from_first(T value) const {
    sync();  // a shuffle orders no memory accesses
    return simt::shuffle(mask_, value, simt::lowest_bit(mask_));
  }
  [[nodiscard]] GPUHEAP_FN simt::uint64_t sum_before(simt::uint64_t value, simt::uint64_t& total) const {
    return structures::warp_group{mask_}.sum_before(value, total);
  }

 private:
  simt::lane_mask mask_;
};

// @brief A group of the lanes of a warp.
// @param mask the lanes of the group, the caller's included; all of them make this call
[[nodiscard]] GPUHEAP_FN inline warp_threads this_warp(simt::lane_mask mask) { return warp_threads{mask}; }
// @brief A group of the lanes that are converged at this call. Other lanes of the warp may make the call at another time, and get a group
// of their own. A program that allocates with such a group keeps the group for the free.
[[nodiscard]] GPUHEAP_FN inline warp_threads this_warp() { return warp_threads{simt::active_mask()}; }

// Memory through which the threads of a block exchange values. Each block has one object, in memory that all its threads can access:
//   __shared__ gpuheap::block_scratch scratch;
// or, in code for both backends, element block_id() of an array in device memory. The object needs no initialisation. Between two calls of
// the block, a program may use the object's memory for other purposes.
struct block_scratch {
  simt::uint64_t common;                   // the value that rank 0 passes to all threads
  simt::uint64_t sums[simt::warp_lanes];   // the sum of each warp of the block
  simt::uint32_t lanes[simt::warp_lanes];  // for live_block(): the live lanes of each warp
};

// @brief All threads of the calling block. this_block() makes it.
class block_threads {
 public:
  static constexpr bool spans_warps = true;

  GPUHEAP_FN explicit block_threads(block_scratch& scratch) : scratch_{&scratch} {}

  [[nodiscard]] GPUHEAP_FN unsigned size() const { return simt::threads_per_block(); }
  [[nodiscard]] GPUHEAP_FN unsigned rank() const { return simt::thread_in_block(); }

  GPUHEAP_FN void sync() const { simt::sync_block(); }
  template <class T>
  [[nodiscard]] GPUHEAP_FN T from_first(T value) const {
    static_assert(sizeof(T) == 8);
    if (rank() == 0) simt::plain_write(scratch_->common, simt::bit_cast<simt::uint64_t>(value));
    sync();  // the write comes before the reads
    T const common = simt::bit_cast<T>(simt::plain_read(scratch_->common));
    sync();  // the reads come before the next call writes
    return common;
  }
  // Each warp adds up its lanes' values, then the first warp adds up the warps' sums. If the block has several warps, the first one has 32
  // lanes, so there is a lane for each sum.
  [[nodiscard]] GPUHEAP_FN simt::uint64_t sum_before(simt::uint64_t value, simt::uint64_t& total) const {
    unsigned const warp = rank() / simt::warp_lanes;
    unsigned const lane = rank() % simt::warp_lanes;
    unsigned const warps = static_cast<unsigned>(simt::ceil_div(size(), simt::warp_lanes));
    unsigned const lanes = size() - warp * simt::warp_lanes;  // the lanes of this warp and of later ones
    warp_threads const mine{static_cast<simt::lane_mask>(simt::low_bits(lanes < simt::warp_lanes ? lanes : simt::warp_lanes))};
    simt::uint64_t of_warp = 0;
    simt::uint64_t const in_warp = mine.sum_before(value, of_warp);
    if (lane == 0) simt::plain_write(scratch_->sums[warp], of_warp);
    sync();  // the warps' sums are written before the first warp reads them
    if (warp == 0) {
      simt::uint64_t of_block = 0;
      simt::uint64_t const before = mine.sum_before(lane < warps ? simt::plain_read(scratch_->sums[lane]) : 0, of_block);
      if (lane < warps) simt::plain_write(scratch_->sums[lane], before);
      if (lane == 0) simt::plain_write(scratch_->common, of_block);
    }
    sync();  // the sums of the warps before are written before they are read
    simt::uint64_t const before_warp = simt::plain_read(scratch_->sums[warp]);
    total = simt::plain_read(scratch_->common);
    sync();  // the reads come before the next call writes
    return before_warp + in_warp;
  }

 private:
  block_scratch* scratch_;
};

// @brief A group of all threads of the calling block.
// @param scratch one block_scratch of the block, in shared or device memory
// @note No thread of the block has returned, and the last block of the launch is not partial.
[[nodiscard]] GPUHEAP_FN inline block_threads this_block(block_scratch& scratch) { return block_threads{scratch}; }
// @brief The same for a thread_block of cooperative_groups, which has the same threads and ranks.
template <cooperative_group Block>
[[nodiscard]] GPUHEAP_FN block_threads this_block(Block const&, block_scratch& scratch) {
  static_assert(!shuffling_group<Block>, "gpuheap: a tile or a coalesced group needs no scratch: pass it as it is");
  return block_threads{scratch};
}

// @brief The threads of the calling block that have not returned, ranked in the order of their numbers. live_block() makes it.
class live_block_threads {
 public:
  static constexpr bool spans_warps = true;

  // Counts the live threads of the block. Passes three barriers of the block.
  GPUHEAP_FN explicit live_block_threads(block_scratch& scratch) : scratch_{&scratch} {
    structures::warp_group const here{simt::active_mask()};
    // The lanes of a warp may arrive in parts. Each part clears the words of all warps, because a warp without live lanes cannot clear its
    // own. No thread reads the words now. relaxed, all: the barriers order the accesses.
    for (unsigned w = here.rank(); w < simt::warp_lanes; w += here.size()) lanes_of(w).store(0, simt::relaxed);
    sync();
    if (here.leads()) lanes_of(simt::thread_in_block() / simt::warp_lanes).fetch_or(here.mask, simt::relaxed);
    sync();
    unsigned const own = simt::thread_in_block() / simt::warp_lanes;
    unsigned const num_warps = static_cast<unsigned>(simt::ceil_div(simt::threads_per_block(), simt::warp_lanes));
    for (unsigned w = 0; w < num_warps; ++w) {
      simt::lane_mask const lanes = lanes_of(w).load(simt::relaxed);
      if (lanes != 0) warps_ |= simt::lane_mask{1} << w;
      if (w < own) rank_ += simt::popcount(lanes);
      if (w == own) mine_ = lanes;
      size_ += simt::popcount(lanes);
    }
    rank_ += simt::popcount(mine_ & ((simt::lane_mask{1} << simt::lane_id()) - 1));
    sync();  // the reads come before the next call writes
  }

  [[nodiscard]] GPUHEAP_FN unsigned size() const { return size_; }
  [[nodiscard]] GPUHEAP_FN unsigned rank() const { return rank_; }

  GPUHEAP_FN void sync() const { simt::sync_living_block(); }
  template <class T>
  [[nodiscard]] GPUHEAP_FN T from_first(T value) const {
    static_assert(sizeof(T) == 8);
    if (rank_ == 0) simt::plain_write(scratch_->common, simt::bit_cast<simt::uint64_t>(value));
    sync();  // the write comes before the reads
    T const common = simt::bit_cast<T>(simt::plain_read(scratch_->common));
    sync();  // the reads come before the next call writes
    return common;
  }
  [[nodiscard]] GPUHEAP_FN simt::uint64_t sum_before(simt::uint64_t value, simt::uint64_t& total) const {
    simt::uint64_t of_warp = 0;
    simt::uint64_t const in_warp = warp_threads{mine_}.sum_before(value, of_warp);
    unsigned const own = simt::thread_in_block() / simt::warp_lanes;
    if (simt::lane_id() == simt::lowest_bit(mine_)) simt::plain_write(scratch_->sums[own], of_warp);
    sync();  // the warps' sums are written before they are read
    simt::uint64_t before = 0;
    total = 0;
    for (simt::lane_mask rest = warps_; rest != 0; rest &= rest - 1) {
      unsigned const w = simt::lowest_bit(rest);
      simt::uint64_t const sum = simt::plain_read(scratch_->sums[w]);
      if (w < own) before += sum;
      total += sum;
    }
    sync();  // the reads come before the next call writes
    return before + in_warp;
  }

 private:
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<simt::uint32_t, simt::scope::block> lanes_of(unsigned warp) const {
    return simt::atomic_ref<simt::uint32_t, simt::scope::block>{scratch_->lanes[warp]};
  }

  block_scratch* scratch_;
  simt::lane_mask mine_ = 0;   // the live lanes of the caller's warp
  simt::lane_mask warps_ = 0;  // a bit for each warp that has live lanes
  unsigned rank_ = 0;
  unsigned size_ = 0;
};

// @brief A group of the threads of the calling block that have not returned. Waits for all of them.
// @param scratch one block_scratch of the block, in shared or device memory
// @note Every live thread of the block makes this call, and every call that takes the group. Other threads of the block, and whole warps,
// may have returned before, and the last block of a launch may be partial. Once a thread of the group returns, no thread may use the group
// any more.
[[nodiscard]] GPUHEAP_FN inline live_block_threads live_block(block_scratch& scratch) { return live_block_threads{scratch}; }

namespace detail {

// A thread_group over a tile or a coalesced group.
template <shuffling_group G>
class shuffling_threads {
 public:
  GPUHEAP_FN explicit shuffling_threads(G const& group) : group_{group} {}

  [[nodiscard]] GPUHEAP_FN unsigned rank() const { return static_cast<unsigned>(group_.thread_rank()); }
  [[nodiscard]] GPUHEAP_FN unsigned size() const { return static_cast<unsigned>(group_.size()); }
  GPUHEAP_FN void sync() const { group_.sync(); }
  template <class T>
  [[nodiscard]] GPUHEAP_FN T from_first(T value) const {
    sync();  // a shuffle orders no memory accesses
    return simt::bit_cast<T>(group_.shfl(simt::bit_cast<unsigned long long>(value), 0u));
  }
  [[nodiscard]] GPUHEAP_FN simt::uint64_t sum_before(simt::uint64_t value, simt::uint64_t& total) const {
    unsigned long long sum = value;
    auto const threads = static_cast<unsigned>(group_.size());
    // All threads make the same number of passes.
    for (unsigned known = 1; known < threads; known *= 2) {
      unsigned long long const theirs = group_.shfl(sum, rank() >= known ? rank() - known : rank());
      if (rank() >= known) sum += theirs;
    }
    total = group_.shfl(sum, threads - 1);
    return sum - value;
  }

 private:
  G const& group_;
};

// Whether a thread_group may have threads of several warps.
template <class G>
inline constexpr bool spans_warps = requires {
  requires G::spans_warps;
};

// Turns any group that the collective calls take into a thread_group.
template <thread_group G>
[[nodiscard]] GPUHEAP_FN G const& as_thread_group(G const& group) {
  return group;
}
template <cooperative_group G>
GPUHEAP_FN auto as_thread_group(G const& group) {
  static_assert(shuffling_group<G>, "gpuheap: this group has no shfl(): for a thread_block pass gpuheap::this_block(scratch)");
  if constexpr (shuffling_group<G>) return shuffling_threads<G>{group};
}

}  // namespace detail

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
