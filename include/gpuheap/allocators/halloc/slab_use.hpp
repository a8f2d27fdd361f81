// The word that describes the use of a halloc slab, and the rules by which the use changes. Pure functions.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// The parameters. The defaults are the published values, unless a comment says otherwise.
struct halloc_config {
  unsigned slab_bytes = 4u << 20;      // a power of two. A small heap has smaller slabs, each of which still holds the largest block
  unsigned min_slabs = 64;             // the slabs that a small heap has at least, if smaller slabs make that possible (not published)
  unsigned smallest_chunk_bytes = 16;  // a power of two. The chunk sizes are this and 3/2 of it, and 16 times these
  unsigned sparse_permille = 12;       // a slab of which at most this share of chunks is used may serve another class
  unsigned roomy_permille = 600;       // a slab of which at most this share is used is preferred as a new head
  unsigned busy_permille = 835;        // a head of which this share is used is replaced
  unsigned walk_tries = 31;            // places that a thread tries by hashing, before it tries all others in order
  unsigned prefetch_slabs = 64;        // heaps of fewer slabs fetch no head in advance (not published)
  unsigned backing_percent = 25;       // percent of the heap's bytes for the backing
};

namespace halloc_parts {

using simt::size_t;
using simt::uint32_t;
using simt::uint64_t;

// The sizes of blocks. A block of class 2u has two units of smallest_chunk_bytes / 2 * 2^u bytes, and a block of class 2u + 1 has three. A
// *kind* is a size of chunks. The blocks of classes 0, 2, 4, 6 are 1, 2, 4 and 8 chunks of kind 0, those of classes 8, 10, 12, 14 as many
// chunks of kind 2. The blocks of classes 1, 3, 5, 7 are 1, 2, 4 and 8 chunks of kind 1, those of classes 9, 11, 13, 15 as many chunks of
// kind 3.
template <halloc_config Config>
struct classes {
  static constexpr unsigned smallest = Config.smallest_chunk_bytes;
  static constexpr unsigned count = 16;
  static constexpr unsigned num_kinds = 4;
  static constexpr size_t largest_bytes = smallest / 2 * 3 << (count / 2 - 1);
  static_assert(smallest >= 16 && (smallest & (smallest - 1)) == 0);
  // If the smallest chunks have 16 bytes, a block of class 1 is one chunk of 24 bytes, which is not aligned to 16. Then class 1 has no
  // blocks.
  static constexpr bool has_class_1 = smallest / 2 * 3 % 16 == 0;

  // The class of a request of `bytes` bytes, 1 <= bytes <= largest_bytes.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned of_bytes(size_t bytes) {
    if (bytes <= smallest) return 0;
    auto const b = static_cast<uint32_t>(bytes);
    unsigned const high = simt::highest_bit(b - 1);
    unsigned const c = 2 * (high - simt::ceil_log2(smallest)) + (b <= 3u << (high - 1) ? 1 : 2);
    return c == 1 && !has_class_1 ? 2 : c;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned bytes_of(unsigned c) { return smallest / 2 * (2 + c % 2) << (c / 2); }
  // Chunks of a block.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned chunks_of(unsigned c) { return 1u << (c / 2 % 4); }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned kind_of(unsigned c) { return c / 8 * 2 + c % 2; }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned chunk_bytes(unsigned kind) {
    return smallest / 2 * (2 + kind % 2) << ((kind & 2) != 0 ? 4 : 0);
  }
  // Lanes of a warp that get adjacent blocks.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned together(unsigned c) { return c < 2 ? 4 : c < 4 ? 2 : 1; }
};
static_assert(classes<halloc_config{}>::largest_bytes == 3072 && classes<halloc_config{}>::of_bytes(1) == 0 &&
              classes<halloc_config{}>::of_bytes(16) == 0 && classes<halloc_config{}>::of_bytes(17) == 2 &&
              classes<halloc_config{}>::of_bytes(32) == 2 && classes<halloc_config{}>::of_bytes(33) == 3 &&
              classes<halloc_config{}>::of_bytes(48) == 3 && classes<halloc_config{}>::of_bytes(49) == 4 &&
              classes<halloc_config{}>::of_bytes(3071) == 15 && classes<halloc_config{}>::of_bytes(3072) == 15);
static_assert(classes<halloc_config{}>::bytes_of(15) == 3072 && classes<halloc_config{}>::bytes_of(2) == 32 &&
              classes<halloc_config{}>::chunks_of(15) * classes<halloc_config{}>::chunk_bytes(classes<halloc_config{}>::kind_of(15)) ==
                  3072);

// The role of a slab. The four in the middle are levels of fill. A slab with such a role is no head, and is in the set of its level, unless
// it is full.
enum class slab_role : unsigned {
  unassigned,  // has no live block; in the free set, for any class
  sparse,      // has so few live blocks that another class of its kind may take it; in its kind's sparse set
  roomy,       // in its class's roomy set
  busy,        // in its class's busy set
  full,        // has no room for a block of its class; in no set. The free that makes room puts it into a set
  held,        // is a class's head or next head, or held by a thread that is about to put it into a set
};

// The word of a slab.
//
//   bit  0                24      28     31       32       64
//        | used chunks    | class | role | packed | ticket |
//
//   used     at least the number of chunks whose bits are set. A thread adds its chunks before it claims them, and subtracts them after it
//            has released them, or has found that it must not claim any. So if used == 0, no thread is about to claim chunks. While a
//            thread's chunks are counted, and the kind is the one that the thread expects, the kind does not change
//   class    the class whose head the slab is or last was; an unassigned slab keeps it too
//   packed   for a head: requests fill it entirely before it is replaced
//   ticket   the number of requests that were added to the word so far, modulo 2^32: each request starts its search at another place
struct slab_use {
  using word = uint64_t;
  static constexpr unsigned class_at = 24, role_at = 28, packed_at = 31, ticket_at = 32;
  static constexpr word used_mask = (word{1} << class_at) - 1;
  static constexpr word packed_bit = word{1} << packed_at;

  word bits = 0;

  [[nodiscard]] GPUHEAP_HD constexpr unsigned used() const { return static_cast<unsigned>(bits & used_mask); }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned size_class() const { return static_cast<unsigned>(bits) >> class_at & 15; }
  [[nodiscard]] GPUHEAP_HD constexpr slab_role role() const { return static_cast<slab_role>(static_cast<unsigned>(bits) >> role_at & 7); }
  [[nodiscard]] GPUHEAP_HD constexpr bool is_packed() const { return (bits & packed_bit) != 0; }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t ticket() const { return static_cast<uint32_t>(bits >> ticket_at); }
  [[nodiscard]] GPUHEAP_HD constexpr bool is(slab_role r) const { return role() == r; }
  // Whether the slab is in use and no head.
  [[nodiscard]] GPUHEAP_HD constexpr bool is_filed() const { return !is(slab_role::unassigned) && !is(slab_role::held); }

  // The value to add to the word for `requests` requests of `chunks` chunks each.
  [[nodiscard]] GPUHEAP_HD static constexpr word draw(unsigned requests, unsigned chunks) {
    return word{requests} << ticket_at | word{requests} * chunks;
  }
  // The word with another role, class and packed bit; used chunks and ticket stay.
  [[nodiscard]] GPUHEAP_HD constexpr slab_use as(slab_role r, unsigned c, bool packed) const {
    constexpr word keep = used_mask | ~word{0xffffffff};
    return {(bits & keep) | word{c} << class_at | word{static_cast<unsigned>(r)} << role_at | (packed ? packed_bit : 0)};
  }
};
static_assert(slab_use{}.as(slab_role::held, 15, true).is_packed() && slab_use{}.as(slab_role::held, 15, false).size_class() == 15 &&
              slab_use{slab_use::draw(3, 8)}.as(slab_role::busy, 2, false).used() == 24 &&
              slab_use{slab_use::draw(3, 8)}.as(slab_role::busy, 2, false).ticket() == 3 && slab_use{}.is(slab_role::unassigned) &&
              slab_use{}.as(slab_role::busy, 2, false).is(slab_role::busy));

// The number of chunks of one kind in a slab, and the bounds of its levels of fill.
template <halloc_config Config>
struct fill_levels {
  unsigned capacity = 0;  // a multiple of 8

  [[nodiscard]] GPUHEAP_HD static constexpr fill_levels of(unsigned lg_slab, unsigned kind) {
    constexpr unsigned lg_unit = simt::ceil_log2(classes<Config>::smallest) - 1;
    unsigned const units = 1u << (lg_slab - lg_unit - ((kind & 2) != 0 ? 4 : 0));
    unsigned const chunks = (kind % 2 != 0 ? units / 3 : units / 2) & ~7u;
    // hash_probe steps by 11 places, so the number of places may not be a multiple of 11.
    return {chunks % 11 == 0 ? chunks - 8 : chunks};
  }
  [[nodiscard]] GPUHEAP_HD constexpr unsigned share(unsigned permille) const { return capacity * (permille * 4096 / 1000) >> 12; }

  // The most used chunks at which a slab with blocks of `chunks` chunks is on a level below `r`.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned below(slab_role r, unsigned chunks) const {
    if (r == slab_role::full) return capacity - chunks;
    if (r == slab_role::busy) return least(share(Config.roomy_permille), capacity - chunks);
    return r == slab_role::roomy ? share(Config.sparse_permille) : 0;
  }
  // The most used chunks at which a head still serves a request.
  [[nodiscard]] GPUHEAP_HD constexpr unsigned last_start(bool packed, unsigned chunks) const {
    return packed ? capacity - chunks : least(share(Config.busy_permille) - 1, capacity - chunks);
  }

 private:
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }
};
static_assert(fill_levels<halloc_config{}>::of(22, 0).capacity == 262144 && fill_levels<halloc_config{}>::of(22, 1).capacity == 174760 &&
              fill_levels<halloc_config{}>::of(22, 2).capacity == 16384 && fill_levels<halloc_config{}>::of(22, 3).capacity == 10920 &&
              fill_levels<halloc_config{}>::of(12, 3).capacity == 8 && fill_levels<halloc_config{}>::of(16, 1).capacity == 2720);

// The decisions about slabs, as functions. Tests replace some of them by the published mistakes.
struct rules {
  // The level of a slab that is no head.
  template <halloc_config Config>
  [[nodiscard]] GPUHEAP_HD static constexpr slab_role level(fill_levels<Config> slab, unsigned used, unsigned chunks) {
    if (used == 0) return slab_role::unassigned;
    if (used > slab.below(slab_role::full, chunks)) return slab_role::full;
    if (used > slab.below(slab_role::busy, chunks)) return slab_role::busy;
    return used > slab.below(slab_role::roomy, chunks) ? slab_role::roomy : slab_role::sparse;
  }
  // Whether a slab that was found in a set may become a head of class c.
  template <halloc_config Config>
  [[nodiscard]] GPUHEAP_HD static constexpr bool may_adopt(slab_use w, unsigned c) {
    if (w.is(slab_role::unassigned)) return true;
    if (w.is(slab_role::sparse)) return classes<Config>::kind_of(w.size_class()) == classes<Config>::kind_of(c);
    return (w.is(slab_role::roomy) || w.is(slab_role::busy)) && w.size_class() == c;
  }
  // Whether blocks of class c may be taken from a slab whose word was w when they were counted.
  template <halloc_config Config>
  [[nodiscard]] GPUHEAP_HD static constexpr bool serves(slab_use w, unsigned c) {
    return !w.is(slab_role::unassigned) && classes<Config>::kind_of(w.size_class()) == classes<Config>::kind_of(c);
  }
  // The order of the addition that counts chunks. It acquires all frees of the slab's blocks (deallocate()), also those that were made
  // while the slab had another chunk size.
  static constexpr simt::memory_order draws = simt::consume;
  // Whether a request for which there is no head searches every slab before it fails.
  static constexpr bool looks_everywhere = true;
};

}  // namespace halloc_parts

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
