// `regeff_c`, `regeff_cf`, `regeff_cm`, `regeff_cfm`: one circular list of chunks in the order of their addresses. CMalloc, CFMalloc,
// CMMalloc and CFMMalloc of
//   M. Vinkler, V. Havran, "Register Efficient Memory Allocator for GPUs", HPG 2014 (extended in Computer Graphics Forum 34(8), 2015),
//   section 4, algorithm 3.
//
// Layout of a region. Sizes and positions of chunks are counted in units of `unit_bytes` (64), twice that and so on in regions so large
// that 2^29 units are not enough (about 32 GiB).
//   +0       bytes held, as footprint() last added them up (256 bytes); then the hints, 32 bytes apart: C, CF one; CM, CFM one for each
//            multiprocessor
//   table    one header for each unit, and one for the end. The header of the chunk that begins at unit x is table[x]
//   pool     the units; unit 0 lies at a multiple of min(unit_bytes, 256)
//
//   header   {state, next}. C, CM: two words of 32 bits. CF, CFM: fused into one, the state in its three highest bits
//              free       a chunk from x to `next` that any thread may lock
//              live       a chunk from x to `next` that malloc has returned. The end: live for ever, next 0, which closes the circle
//              held       a chunk in transit: a thread has locked it and will say what it is
//              absorbed   the chunk before it has swallowed it: no chunk begins here any more. `next` stays
//              0          no chunk has ever begun here
//
// Pre-split (equation 1): trees of chunks, breadth first, the root of R units, node i of R / 2^floor(log2 i), the leaves of `leaf_units`
// (4), R the largest for which they fit. C, CF: one tree. CM, CFM: one for each multiprocessor, whose hint starts at the root; hints are
// taken by SM id modulo their number. The rest is one last chunk. Two other strategies, which the paper leaves to later work, are
// parameters: `none`, one chunk, and `equal`, chunks of `equal_units` from end to end, over which the hints are spread.
//
// Invariants at rest (verify): `next` leads from unit 0 to the end, always forward, over chunks that are free or live; no other header is
// free, live or held.
//
// malloc:   walks along `next` from the hint to a free chunk that is large enough, locks it, cuts off what is left over if the chunk has at
//           least max_fragmentation times what was asked, and moves the hint behind the block.
// free:     absorbs the next chunk if that is free, and sets its own free.
// Reuse:    freed units serve any request that they are enough for, alone or with free neighbours.
// Progress: free is wait-free. malloc is blocking: it passes over what others hold; if it then has found nothing in all of the pool, it
//           walks again and waits for chunks in transit that might be enough. A thread that holds them waits for nothing.
//
// Different from the paper:
//   - Merging is safe: headers lie in a table, outside the chunks. Published, a header lies in front of its chunk, and a walker that came
//     by its position before the chunk was absorbed locks, and follows, what is a block's contents by now: the central mistake (the
//     survey's measurements are of a build that does not merge). In the table an absorbed header cannot be locked, and leads on, forward,
//     into the list; so it does not matter how late a walker comes, or where a hint points. The alternative, to merge only while no thread
//     walks, needs a count of walkers: two atomics more on one word for each call, and no merging under load. Price: 4 (fused) or 8 bytes
//     for each unit, in large blocks as well. This is why units have 64 bytes (the table is 6 % or 11 % of the region) and not 16.
//   - Results are aligned to the unit, as no header lies in front of them. Published, to 4 or 8 bytes.
//   - The walk ends. Published, it does so only when it finds something. Here there are four laps: from the hint to the end; once around;
//     once around waiting; once around with free neighbours counted together. At rest, nullptr means that no run of free chunks is enough.
//   - In that last lap malloc merges neighbours where this serves it. Free merges forward only, as published, and blocks freed in the
//     order of their addresses would stay apart for ever.
//   - A chunk is locked only if it looks large enough, and measured under the lock. Published, the walk locks all that it meets, which
//     hides free chunks from others, and C relies on a size read before the lock.
//   - Leaves of 256 bytes, not 16: walks over the leaves are what large requests spend their time with.
//   - Heaps above 4 GiB: positions are units. Published, 31 or 32 bits of bytes.
//   - Failure is nullptr, not the pool's first byte. free refuses what has no live header.
//   - free leaves the hints alone: one at an absorbed header does no harm.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/warp.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// How the pool is split at the start.
enum class regeff_split { tree, none, equal };

// The differences between the four variants, and sizes.
struct regeff_config {
  bool fused = false;              // state and next in one word of 32 bits
  bool multi = false;              // a hint and a tree for each multiprocessor
  unsigned unit_bytes = 64;        // a power of two, at least 16
  unsigned leaf_units = 4;         // of the smallest chunks at the start
  unsigned max_fragmentation = 2;  // a chunk with at least so many times what was asked is cut in two
  regeff_split split = regeff_split::tree;
  unsigned equal_units = 16;  // of the chunks at the start, for regeff_split::equal
};

namespace regeff {

using simt::uint32_t;

// A header's state, and where the chunk ends.
inline constexpr uint32_t free_bit = 1u << 31, live_bit = 1u << 30, here_bit = 1u << 29, next_mask = here_bit - 1;
inline constexpr uint32_t state_mask = ~next_mask;
inline constexpr uint32_t free_state = here_bit | free_bit, live_state = here_bit | live_bit;

// The table of headers. A view; any thread of the device.
//
//   look(x)         state | next
//   lock(x)         free -> held. Returns the chunk's end; 0 if it was not free, and nothing has changed
//   end_life(x)     live -> held. Returns the header before; nothing has changed if it was not live
//   absorb(x, n)    for a held chunk up to n: it belongs to the chunk before it, which the caller holds too
//   cut(x, n)       a free chunk begins at x, inside one that the caller holds, and ends at n as that one did. No header leads to it yet.
//                   A thread that knows the position from an earlier chunk may lock it at once, and sees all that the caller stored before
//   set_live(x, n)  for a held chunk: it is a block now and ends at n
//   seems_free(x)   a guess
//   set_free(x, n)  for a held chunk: it is free and ends at n. All that the thread did happens before the next lock
//
// Orders. `consume` is for a thread that accesses the position that it has read. It pairs with the fence in cut(), by which a header is
// written before any other leads to it, and with the release in set_free(), so that a block's next owner comes after its last one. `relay`
// is for a thread that holds a chunk and writes a position that it got in this way. A store is enough there: changes by other threads
// meanwhile, by a lock or a refused second free, may be lost.
template <bool Fused>
struct headers;

template <>
struct headers<true> {
  using word = uint32_t;
  word* words = nullptr;

  [[nodiscard]] GPUHEAP_FN uint32_t look(uint32_t x) const { return at(x).load(simt::consume); }
  // relaxed: a guess that lock() confirms.
  [[nodiscard]] GPUHEAP_FN bool seems_free(uint32_t x) const { return (at(x).load(simt::relaxed) & free_bit) != 0; }
  [[nodiscard]] GPUHEAP_FN uint32_t lock(uint32_t x) const {
    uint32_t const before = at(x).fetch_and(~free_bit, simt::consume);
    return (before & free_bit) != 0 ? before & next_mask : 0;
  }
  // relaxed: the block's owner calls, and the thread that made it one comes before it.
  [[nodiscard]] GPUHEAP_FN uint32_t end_life(uint32_t x) const { return at(x).fetch_and(~live_bit, simt::relaxed); }
  GPUHEAP_FN void absorb(uint32_t x, uint32_t next) const { at(x).store(next, simt::relay); }
  GPUHEAP_FN void cut(uint32_t x, uint32_t next) const {
    at(x).store(free_state | next, simt::relay);
    simt::fence(simt::release);
  }
  GPUHEAP_FN void set_live(uint32_t x, uint32_t next) const { at(x).store(live_state | next, simt::relay); }
  GPUHEAP_FN void set_free(uint32_t x, uint32_t next) const { at(x).store(free_state | next, simt::release); }

  // The header, at rest.
  [[nodiscard]] GPUHEAP_HD static constexpr uint32_t header_of(word w) { return w; }
  [[nodiscard]] GPUHEAP_HD static constexpr word word_of(uint32_t header) { return header; }

  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> at(uint32_t x) const { return simt::global_ref<uint32_t>{words[x]}; }
};

// As published: a flag that says free or not, and is what is locked; and the end, here with what else the state says.
struct alignas(8) flag_and_next {
  uint32_t flag, next;
};
template <>
struct headers<false> {
  using word = flag_and_next;
  word* words = nullptr;

  // The two values may be of different times. The flag matters only to a thread that finds no block here, and a thread that relies on it
  // locks it.
  [[nodiscard]] GPUHEAP_FN uint32_t look(uint32_t x) const {
    uint32_t const flag = flag_at(x).load(simt::relaxed);
    uint32_t const next = next_at(x).load(simt::consume);
    return (next & state_mask) == here_bit ? next | flag : next;
  }
  // relaxed: a guess that lock() confirms.
  [[nodiscard]] GPUHEAP_FN bool seems_free(uint32_t x) const { return flag_at(x).load(simt::relaxed) != 0; }
  // The end is read under the lock. relaxed: only the thread that holds the chunk writes it.
  [[nodiscard]] GPUHEAP_FN uint32_t lock(uint32_t x) const {
    return flag_at(x).fetch_and(~free_bit, simt::consume) != 0 ? next_at(x).load(simt::relaxed) & next_mask : 0;
  }
  // relaxed: only the thread that holds the chunk changes the word's end.
  [[nodiscard]] GPUHEAP_FN uint32_t end_life(uint32_t x) const { return next_at(x).fetch_and(~live_bit, simt::relaxed); }
  // The end stays. No thread waits for the answer, so the hardware sends none.
  GPUHEAP_FN void absorb(uint32_t x, uint32_t) const { next_at(x).fetch_and(next_mask, simt::relay); }
  // relaxed, both: the fence orders the end before the flag, and before what the caller stores.
  GPUHEAP_FN void cut(uint32_t x, uint32_t next) const {
    next_at(x).store(here_bit | next, simt::relaxed);
    simt::fence(simt::release);
    flag_at(x).store(free_bit, simt::relaxed);
  }
  GPUHEAP_FN void set_live(uint32_t x, uint32_t next) const { next_at(x).store(live_state | next, simt::relay); }
  GPUHEAP_FN void set_free(uint32_t x, uint32_t next) const {
    next_at(x).store(here_bit | next, simt::relay);
    flag_at(x).store(free_bit, simt::release);
  }

  [[nodiscard]] GPUHEAP_HD static constexpr uint32_t header_of(word w) { return w.flag | w.next; }
  [[nodiscard]] GPUHEAP_HD static constexpr word word_of(uint32_t header) { return {header & free_bit, header & ~free_bit}; }

  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> flag_at(uint32_t x) const { return simt::global_ref<uint32_t>{words[x].flag}; }
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> next_at(uint32_t x) const { return simt::global_ref<uint32_t>{words[x].next}; }
};

// How a pool is split at the start: trees one behind the other, and the rest. In units.
struct split {
  uint32_t units = 0, trees = 1, leaf = 1;
  uint32_t levels = 0;  // of each tree; 0: no trees

  // `units` > 0.
  [[nodiscard]] GPUHEAP_HD static constexpr split of(uint32_t units, uint32_t trees, uint32_t leaf) {
    split s{units, trees, leaf, 0};
    // Ends: the left side doubles, and more, with each level.
    while ((simt::uint64_t{leaf} * (s.levels + 1)) << s.levels < units / trees) ++s.levels;
    return s;
  }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t root_units() const { return levels == 0 ? 0 : leaf << (levels - 1); }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t tree_units() const { return levels * root_units(); }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t tree_nodes() const { return (1u << levels) - 1; }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t rest_begin() const { return trees * tree_units(); }
  // Node i of a tree, from 1 on, breadth first: its units, and where it begins, counted from the tree's begin.
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t node_units(uint32_t i) const { return root_units() >> simt::highest_bit(i); }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t node_begin(uint32_t i) const {
    uint32_t const depth = simt::highest_bit(i);
    return depth * root_units() + (i - (1u << depth)) * node_units(i);
  }
};
static_assert(split::of(1, 1, 1).levels == 0 && split::of(1, 1, 1).rest_begin() == 0 && split::of(2, 1, 1).levels == 1 &&
              split::of(4, 1, 1).levels == 1 && split::of(5, 1, 1).levels == 2 && split::of(12, 1, 1).levels == 2 &&
              split::of(13, 1, 1).levels == 3 && split::of(5, 9, 1).levels == 0 && split::of(8, 1, 4).levels == 1 &&
              split::of(16, 1, 4).levels == 1 && split::of(17, 1, 4).levels == 2);
static_assert(split::of(13, 1, 1).node_begin(1) == 0 && split::of(13, 1, 1).node_units(1) == 4 && split::of(13, 1, 1).node_begin(3) == 6 &&
              split::of(13, 1, 1).node_begin(7) == 11 && split::of(13, 1, 1).node_units(7) == 1 && split::of(13, 1, 1).rest_begin() == 12 &&
              split::of(34, 2, 4).node_units(3) == 4 && split::of(34, 2, 4).tree_units() == 16 && split::of(34, 2, 4).rest_begin() == 32);

template <class A>
struct init_chunks;
template <class A>
struct sum_held;

#if GPUHEAP_HAS_HOST
// The result of a walk along the list at rest.
struct audit {
  std::string problem;  // empty: every invariant holds
  simt::size_t chunks = 0, live_chunks = 0;
  simt::size_t free_units = 0, live_units = 0, largest_free_units = 0;
};
#endif

}  // namespace regeff

// `Headers`: the table. Tests put mistakes there.
template <regeff_config Config = regeff_config{}, class Headers = regeff::headers<Config.fused>>
class basic_regeff {
  using uint32_t = simt::uint32_t;
  static constexpr simt::size_t unit = Config.unit_bytes;
  static_assert(unit >= 16 && (unit & (unit - 1)) == 0 && Config.leaf_units >= 1 && Config.max_fragmentation >= 1);

  GPUHEAP_HD static constexpr char const* by_kind(char const* c, char const* cf, char const* cm, char const* cfm) {
    return Config.multi ? (Config.fused ? cfm : cm) : (Config.fused ? cf : c);
  }

 public:
  static constexpr allocator_traits traits{
      .name = by_kind("regeff_c", "regeff_cf", "regeff_cm", "regeff_cfm"),
      .title = by_kind("CMalloc", "CFMalloc", "CMMalloc", "CFMMalloc"),
      .paper = "Vinkler, Havran: Register Efficient Memory Allocator for GPUs, HPG 2014",
      .year = 2014,
      .variant = by_kind("circular list", "circular list, fused headers", "circular list, a hint per multiprocessor",
                         "circular list, fused headers, a hint per multiprocessor"),
      .reuse = "any request that fits into a chunk or a run of free neighbours",
      .min_alignment = unit < 256 ? unit : 256,
      .detects_double_free = true,
      .detects_foreign_free = true,
  };

  // `bytes` > 0.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    // Before any arithmetic: what is not larger than the pool has less than 2^29 units.
    if (bytes > pool_bytes()) return nullptr;
    uint32_t const need = static_cast<uint32_t>((bytes - 1) >> lg_unit_) + 1;
    // relaxed, as all of the hint: any position is right. One whose header this thread cannot see yet counts as the end.
    uint32_t at = my_hint().load(simt::relaxed), begin = at;  // begin: of the chunks in a row that are looked at together
    // 0: from the hint to the end. 1: all, from here on. 2: waiting for what is in transit. 3: joining neighbours
    unsigned lap = 0;
    // Ends: positions rise until the end's header leads back to 0, so a lap has at most as many passes as there are units, and there are
    // four, beside two kinds of passes. Looking again where take() failed: another thread holds a chunk there. It is between two of its own
    // steps and waits for nothing; of threads that take each other's neighbours, the one at the highest position gets its. And lap 2 again
    // after a chunk was absorbed under our eyes: then another thread's free has come to an end.
    GPUHEAP_NO_UNROLL
    while (true) {
      uint32_t const header = headers_.look(at);
      uint32_t const next = header & regeff::next_mask;
      // A thread that waits counts held chunks as free until they are tried.
      bool const usable = (header & regeff::free_bit) != 0 || (lap >= 2 && (header & regeff::state_mask) == regeff::here_bit);
      if (usable && next - begin >= need) {
        if (uint32_t const end = take(begin, need); end != 0) {
          my_hint().store(end, simt::relaxed);
          return pool_ + (simt::size_t{begin} << lg_unit_);
        }
        if (lap >= 2) {
          simt::back_off{}.wait();
          at = begin;
          continue;
        }
      }
      // Absorbed while we came here, and large enough: it is still free, but behind us.
      if (lap == 3 && (header & regeff::here_bit) == 0 && next - at >= need) lap = 2;
      if (!usable || lap != 3) begin = next;
      at = next;
      if (next == 0 && ++lap == 4) return nullptr;
    }
  }

  GPUHEAP_FN free_status free(void* p) const {
    if (p == nullptr) return free_status::null;
    if (!may_begin_block(p)) return free_status::foreign;
    uint32_t const x = unit_of(p);
    uint32_t const header = headers_.end_life(x);
    if ((header & regeff::live_bit) == 0) return header == 0 ? free_status::foreign : free_status::double_free;
    uint32_t end = header & regeff::next_mask;
    // A look first: most neighbours are not free, and a load costs less than taking a header in vain.
    if (headers_.seems_free(end)) {
      if (uint32_t const behind = headers_.lock(end); behind != 0) {
        headers_.absorb(end, behind);
        end = behind;
      }
    }
    headers_.set_free(x, end);
    return free_status::done;
  }

  // 0 for a pointer that is not a live block's.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void* p) const {
    if (!may_begin_block(p)) return 0;
    uint32_t const x = unit_of(p);
    uint32_t const header = headers_.look(x);
    return (header & regeff::live_bit) == 0 ? 0 : simt::size_t{(header & regeff::next_mask) - x} << lg_unit_;
  }
  [[nodiscard]] GPUHEAP_HD simt::size_t rounded_size(simt::size_t bytes) const {
    return simt::round_up_or_same(bytes, simt::size_t{1} << lg_unit_);
  }

  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const { return offset_of(p) < pool_bytes(); }

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static simt::size_t min_region_bytes() {
    return table_offset(num_hints_here()) + 2 * sizeof(header_word) + unit + traits.min_alignment;
  }

  [[nodiscard]] static basic_regeff create(memory::region region, stream_ref stream);

  // Whole chunks count as held.
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const;

  [[nodiscard]] regeff::audit verify(stream_ref stream) const;
#endif

 private:
  using header_word = typename Headers::word;
  static constexpr simt::size_t state_bytes = 256, hint_stride = 8;  // in words

  // Takes `need` units at `begin`, which are one chunk or several in a row. Returns the hint's new place; 0: another thread has some of
  // them.
  [[nodiscard]] GPUHEAP_FN uint32_t take(uint32_t begin, uint32_t need) const {
    uint32_t end = headers_.lock(begin);
    if (end == 0) return 0;
    // Ends: the end rises by at least a unit each pass.
    GPUHEAP_NO_UNROLL
    while (end - begin < need) {
      uint32_t const behind = headers_.lock(end);
      if (behind == 0) {
        headers_.set_free(begin, end);
        return 0;
      }
      headers_.absorb(end, behind);
      end = behind;
    }
    if (end - begin != need && (end - begin) / Config.max_fragmentation >= need) {
      headers_.cut(begin + need, end);
      end = begin + need;
    }
    headers_.set_live(begin, end);
    return end;
  }

  // Found twice in a call rather than kept in a register.
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> my_hint() const {
    if constexpr (Config.multi) {
      return simt::global_ref<uint32_t>{hints_[simt::sm_id() % num_hints_ * hint_stride]};
    } else {
      return simt::global_ref<uint32_t>{*hints_};
    }
  }
  [[nodiscard]] GPUHEAP_HD simt::size_t pool_bytes() const { return simt::size_t{units_} << lg_unit_; }
  // Beyond the pool's bytes for a pointer below the pool.
  [[nodiscard]] GPUHEAP_FN simt::size_t offset_of(void const* p) const {
    return static_cast<simt::size_t>(static_cast<char const*>(p) - pool_);
  }
  [[nodiscard]] GPUHEAP_FN bool may_begin_block(void const* p) const {
    simt::size_t const offset = offset_of(p);
    return offset < pool_bytes() && (offset & ((simt::size_t{1} << lg_unit_) - 1)) == 0;
  }
  [[nodiscard]] GPUHEAP_FN uint32_t unit_of(void const* p) const { return static_cast<uint32_t>(offset_of(p) >> lg_unit_); }

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static uint32_t num_hints_here() { return Config.multi ? simt::query_device().num_sms : 1; }
  [[nodiscard]] static simt::size_t table_offset(uint32_t num_hints) { return state_bytes + num_hints * hint_stride * sizeof(uint32_t); }

  // For units and their headers in so many bytes.
  [[nodiscard]] static constexpr uint32_t lg_unit_for(simt::size_t bytes) {
    uint32_t lg = simt::lowest_bit(Config.unit_bytes);
    // Ends: the number of units halves, about.
    while (bytes / ((simt::size_t{1} << lg) + sizeof(header_word)) > regeff::next_mask) ++lg;
    return lg;
  }
  static_assert(lg_unit_for(0) == simt::lowest_bit(Config.unit_bytes) &&
                lg_unit_for(simt::size_t{1} << 29) == simt::lowest_bit(Config.unit_bytes) &&
                lg_unit_for((unit + sizeof(header_word)) << 29) == simt::lowest_bit(Config.unit_bytes) + 1 &&
                lg_unit_for(((unit + sizeof(header_word)) << 29) - 1) == simt::lowest_bit(Config.unit_bytes));
#endif

  // Called by create()'s kernel: thread i of n writes every n-th chunk of the trees and one hint, the first one also the rest and the end.
  friend struct regeff::init_chunks<basic_regeff>;
  GPUHEAP_FN void init_chunks(uint32_t i, uint32_t n, regeff::split const& split) const {
    if constexpr (Config.split == regeff_split::equal) {
      constexpr uint32_t each = Config.equal_units;
      uint32_t const whole = split.units / each;
      // 64 bits, as n is added to the last one's number.
      for (simt::uint64_t chunk = i; chunk < whole; chunk += n) {
        auto const begin = static_cast<uint32_t>(chunk) * each;
        write_header(begin, regeff::free_state | (begin + each));
      }
      if (i < num_hints_) simt::plain_write(hints_[i * hint_stride], static_cast<uint32_t>(simt::uint64_t{whole} * i / num_hints_) * each);
      if (i == 0 && whole * each != split.units) write_header(whole * each, regeff::free_state | split.units);
    } else {
      // As above.
      for (simt::uint64_t chunk = i; chunk < simt::uint64_t{split.trees} * split.tree_nodes(); chunk += n) {
        uint32_t const node = static_cast<uint32_t>(chunk) % split.tree_nodes() + 1;
        uint32_t const begin = static_cast<uint32_t>(chunk) / split.tree_nodes() * split.tree_units() + split.node_begin(node);
        write_header(begin, regeff::free_state | (begin + split.node_units(node)));
      }
      if (i < num_hints_) simt::plain_write(hints_[i * hint_stride], i * split.tree_units());
      if (i == 0) write_header(split.rest_begin(), regeff::free_state | split.units);
    }
    if (i == 0) write_header(split.units, regeff::live_state);
  }
  GPUHEAP_FN void write_header(uint32_t x, uint32_t header) const { simt::plain_write(headers_.words[x], Headers::word_of(header)); }

  // Called by footprint()'s kernel: thread i of n adds up every n-th unit's chunk, if that is live. Such headers are those of blocks,
  // whatever pointer leads there.
  friend struct regeff::sum_held<basic_regeff>;
  GPUHEAP_FN void sum_held(uint32_t i, uint32_t n) const {
    simt::uint64_t units = 0;
    // Sums stay below 2^30.
    for (uint32_t x = i; x < units_; x += n) {
      uint32_t const header = Headers::header_of(simt::plain_read(headers_.words[x]));
      if ((header & regeff::live_bit) != 0) units += (header & regeff::next_mask) - x;
    }
    // relaxed: a sum.
    if (units != 0) simt::atomic_ref<simt::uint64_t>{*held_}.fetch_add(units << lg_unit_, simt::relaxed);
  }

  simt::uint64_t* held_ = nullptr;
  uint32_t* hints_ = nullptr;
  Headers headers_{};
  char* pool_ = nullptr;
  uint32_t units_ = 0;
  uint32_t lg_unit_ = 0;
  uint32_t num_hints_ = 1;
  simt::size_t region_bytes_ = 0;
};

using regeff_c = basic_regeff<regeff_config{}>;
using regeff_cf = basic_regeff<regeff_config{.fused = true}>;
using regeff_cm = basic_regeff<regeff_config{.multi = true}>;
using regeff_cfm = basic_regeff<regeff_config{.fused = true, .multi = true}>;
static_assert(device_allocator<regeff_c> && device_allocator<regeff_cf> && device_allocator<regeff_cm> && device_allocator<regeff_cfm>);

#if GPUHEAP_HAS_HOST
namespace regeff {
// Kernels, `num_threads` threads.
template <class A>
struct init_chunks {
  A heap;
  split parts;
  uint32_t num_threads;
  GPUHEAP_FN void operator()(unsigned i) const { heap.init_chunks(i, num_threads, parts); }
};
template <class A>
struct sum_held {
  A heap;
  uint32_t num_threads;
  GPUHEAP_FN void operator()(unsigned i) const { heap.sum_held(i, num_threads); }
};
}  // namespace regeff

template <regeff_config Config, class Headers>
basic_regeff<Config, Headers> basic_regeff<Config, Headers>::create(memory::region region, stream_ref stream) {
  constexpr simt::size_t align = traits.min_alignment;
  uint32_t const num_hints = num_hints_here();
  simt::size_t const table = table_offset(num_hints);
  // A unit and its header, beside the end's header and what aligns the pool.
  simt::size_t const rest = region.bytes - table - sizeof(header_word) - (align - 1);
  uint32_t const lg_unit = lg_unit_for(rest);
  simt::size_t const units = rest / ((simt::size_t{1} << lg_unit) + sizeof(header_word));
  auto* const base = static_cast<char*>(region.base);
  basic_regeff a;
  a.held_ = reinterpret_cast<simt::uint64_t*>(base);
  a.hints_ = reinterpret_cast<uint32_t*>(base + state_bytes);
  a.headers_.words = reinterpret_cast<header_word*>(base + table);
  simt::size_t const pool = simt::round_up_pow2(table + (units + 1) * sizeof(header_word), align);
  a.pool_ = base + pool;
  a.units_ = static_cast<uint32_t>(units);
  a.lg_unit_ = lg_unit;
  a.num_hints_ = num_hints;
  a.region_bytes_ = region.bytes;
  simt::fill(base, 0, pool, stream);
  // No tree fits where a leaf is larger than the pool.
  uint32_t const leaf = Config.split == regeff_split::tree ? Config.leaf_units : a.units_ + 1;
  regeff::split const split = regeff::split::of(a.units_, num_hints, leaf);
  simt::uint64_t const chunks =
      Config.split == regeff_split::equal ? a.units_ / Config.equal_units : simt::uint64_t{split.trees} * split.tree_nodes();
  auto num_threads = static_cast<uint32_t>(chunks < (1u << 20) ? chunks : 1u << 20);
  if (num_threads < num_hints) num_threads = num_hints;
  static_assert(Config.equal_units >= 1);
  simt::launch(num_threads, regeff::init_chunks<basic_regeff>{a, split, num_threads}, {.stream = stream});
  return a;
}

template <regeff_config Config, class Headers>
allocator_footprint basic_regeff<Config, Headers>::footprint(stream_ref stream) const {
  simt::fill(held_, 0, sizeof *held_, stream);
  uint32_t const num_threads = units_ < (1u << 16) ? units_ : 1u << 16;
  simt::launch(num_threads, regeff::sum_held<basic_regeff>{*this, num_threads}, {.stream = stream});
  simt::uint64_t held = 0;
  simt::copy(&held, held_, sizeof held, stream);
  simt::synchronize(stream);
  return {.held_bytes = held, .metadata_bytes = region_bytes_ - pool_bytes()};
}

// Checks that the list leads from unit 0 to the end, always forward, over chunks that are free or live; that nothing else in the table is;
// and that the hints lie in it.
template <regeff_config Config, class Headers>
regeff::audit basic_regeff<Config, Headers>::verify(stream_ref stream) const {
  std::vector<header_word> table(units_ + simt::size_t{1});
  std::vector<uint32_t> hints(num_hints_ * hint_stride);
  simt::copy(table.data(), headers_.words, table.size() * sizeof(header_word), stream);
  simt::copy(hints.data(), hints_, hints.size() * sizeof(uint32_t), stream);
  simt::synchronize(stream);
  auto const state = [&](simt::size_t x) { return Headers::header_of(table[x]) & regeff::state_mask; };
  auto const next = [&](simt::size_t x) { return Headers::header_of(table[x]) & regeff::next_mask; };

  regeff::audit found;
  auto const wrong = [&](std::string const& what, simt::size_t x) { found.problem += what + " at unit " + std::to_string(x) + "\n"; };
  if (state(units_) != regeff::live_state || next(units_) != 0) wrong("the end's header is not that of the end", units_);
  simt::size_t x = 0;
  // Ends: x rises.
  while (x < units_) {
    if (state(x) != regeff::free_state && state(x) != regeff::live_state) return wrong("a chunk neither free nor live", x), found;
    simt::size_t const end = next(x);
    if (end <= x || end > units_) return wrong("a chunk that does not end behind its begin", x), found;
    for (simt::size_t inside = x + 1; inside < end; ++inside) {
      if (state(inside) != 0) wrong("a header inside a chunk", inside);
    }
    bool const live = state(x) == regeff::live_state;
    ++found.chunks;
    found.live_chunks += live;
    (live ? found.live_units : found.free_units) += end - x;
    if (!live && end - x > found.largest_free_units) found.largest_free_units = end - x;
    x = end;
  }
  for (simt::size_t h = 0; h < num_hints_; ++h) {
    simt::size_t const at = hints[h * hint_stride];
    if (at > units_ || (at != units_ && state(at) == 0 && next(at) <= at)) wrong("a hint where no chunk has ever begun", at);
  }
  return found;
}
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
