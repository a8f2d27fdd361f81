// `regeff_c`, `regeff_cf`, `regeff_cm`, `regeff_cfm`: one circular list of chunks in the order of their addresses. CMalloc, CFMalloc,
// CMMalloc and CFMMalloc of
//   M. Vinkler, V. Havran, "Register Efficient Memory Allocator for GPUs", HPG 2014 (extended in Computer Graphics Forum 34(8), 2015),
//   section 4, algorithm 3.
//
// Layout of a region. Sizes and positions of chunks are counted in units of `unit_bytes` (64) bytes. If 2^29 units are not enough for a
// region (beyond about 32 GiB), a unit has 128 bytes, or 256, and so on.
//   +0       the bytes held, as footprint() last added them up (256 bytes)
//   hints    positions at which walks begin, 32 bytes apart. C and CF have one hint, CM and CFM one for each multiprocessor
//   table    one header for each unit, and one for the end. The header of the chunk that begins at unit x is table[x]
//   pool     the units; unit 0 lies at a multiple of min(unit_bytes, 256)
//
//   header   {state, next}. C, CM: two words of 32 bits. CF, CFM: fused into one, the state in its three highest bits
//              free       a chunk from x to `next` that any thread may lock
//              live       a chunk from x to `next` that malloc has returned. The end's header is live for ever; its `next` is 0
//              held       a chunk that a thread has locked; the thread will set its next state
//              absorbed   a chunk that was merged into the one before it: no chunk begins here any more. `next` stays
//              0          no chunk has ever begun here
//
// At the start, the pool is split (equation 1) into trees of chunks, which lie in breadth-first order. The root has R units, node i has R /
// 2^floor(log2 i), and a leaf has `leaf_units` (4). R is the largest number for which the trees fit. C and CF have one tree. CM and CFM
// have one for each multiprocessor (SM), whose hint starts at the root; the SM id modulo the number of hints selects the hint. The rest of
// the pool is one last chunk. Two other strategies, which the paper leaves to later work, are parameters: `none`, one chunk; and `equal`,
// chunks of `equal_units` from end to end, over which the hints are spread.
//
// Invariants at rest (verify): `next` leads from unit 0 to the end, always forward, over chunks that are free or live; no other header is
// free, live or held.
//
// malloc:   walks along `next` from the hint to a free chunk that is large enough, locks it, cuts off the rest if the chunk has at least
//           max_fragmentation times the units of the request, and moves the hint behind the block.
// free:     absorbs the next chunk if that is free, and sets the block's chunk free.
// Reuse:    freed units serve any request that fits into them, alone or together with free neighbours.
// Progress: free is wait-free. malloc is blocking: it passes over chunks that other threads hold. If it finds nothing in the whole pool, it
//           walks again, and waits for held chunks that might be large enough. A thread that holds a chunk waits for nothing.
//
// Different from the paper:
//   - Merging is safe, because headers lie in a table, outside the chunks. In the published form a header lies in front of its chunk. A
//     thread may read a chunk's position, and another thread may then absorb the chunk. The first thread then locks and follows bytes that
//     are a block's contents by now. This is the paper's central mistake. (The measurements in the survey by Winter et al., PPoPP 2021, are
//     of a build that does not merge.) In the table, an absorbed header cannot be locked, and its `next` leads forward into the list. So a
//     thread may use an old position, and a hint may hold any position. The alternative is to merge only while no thread walks. Each call
//     would then change a count of the walking threads by two more atomics on one word, and under load chunks would never be merged. The
//     table takes 4 (fused) or 8 bytes for each unit, in large blocks too. This is why units have 64 bytes, and not 16: the table is 6 % or
//     11 % of the region.
//   - Blocks are aligned to the unit, as no header lies in front of them. The published ones are aligned to 4 or 8 bytes.
//   - The walk ends. The published one ends only when it finds a chunk. Here there are four laps: from the hint to the end; over all
//     chunks; over all chunks, waiting for held ones; over all chunks, with free neighbours counted together. If no other thread calls
//     meanwhile, nullptr means that no run of free chunks is large enough.
//   - In the last lap, malloc merges neighbours if that serves its request. free merges forward only, as published, so blocks that are
//     freed in the order of their addresses would otherwise stay apart for ever.
//   - malloc locks a chunk only if it looks large enough, and reads its size under the lock. The published walk locks every chunk on its
//     way, and so hides free chunks from other threads. The published C relies on a size that was read before the lock.
//   - Leaves have 256 bytes, not 16, because large requests spend most of their time on walks over leaves.
//   - Heaps may exceed 4 GiB, because positions count units. The published ones count bytes, in 31 or 32 bits.
//   - A failed malloc returns nullptr, not the address of the pool's first byte. free refuses a pointer without a live header.
//   - free does not change the hints: a hint at an absorbed header does no harm.
//   - A free waits for the result of an atomic at its own header, by which it refuses a second free. The published free only reads and
//     stores there. So the frees of C and CF take up to 1.4 times the published ones' time (docs/decisions/originals.md).
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
  unsigned leaf_units = 4;         // units of the smallest chunks at the start
  unsigned max_fragmentation = 2;  // a chunk with at least this many times the units of the request is cut in two
  regeff_split split = regeff_split::tree;
  unsigned equal_units = 16;  // units of the chunks at the start, for regeff_split::equal
};

namespace regeff {

using simt::uint32_t;

// The bits of a header: the state, and `next`, the position at which the chunk ends.
inline constexpr uint32_t free_bit = 1u << 31, live_bit = 1u << 30, here_bit = 1u << 29, next_mask = here_bit - 1;
inline constexpr uint32_t state_mask = ~next_mask;
inline constexpr uint32_t free_state = here_bit | free_bit, live_state = here_bit | live_bit;

// The table of headers. A view; any thread of the device.
//
//   look(x)         state | next
//   lock(x)         free -> held. Returns the chunk's end. If the chunk was not free, changes nothing and returns 0
//   end_life(x)     live -> held. Returns the header as it was; nothing has changed if it was not live
//   absorb(x, n)    a held chunk that ends at n becomes part of the chunk before it, which the caller holds too
//   cut(x, n)       a free chunk begins at x, inside one that the caller holds, and ends at n, where the held chunk ended. No header leads
//                   to it yet. A thread that knows x from an earlier chunk may lock the new chunk at once, and sees everything that the
//                   caller stored before
//   set_live(x, n)  a held chunk becomes a block that ends at n
//   seems_free(x)   a guess
//   set_free(x, n)  a held chunk becomes a free one that ends at n. Everything that the thread did happens before the next lock
//
// Orders. `consume` is for a thread that accesses the position that it has read. It pairs with the fence in cut(), which orders the store
// of a header before any store that leads to it. It also pairs with the release in set_free(), so that the next owner's accesses come after
// the last owner's. `relay` is for a thread that holds a chunk and writes a position that it got by a `consume`. A plain atomic store is
// enough there: failed locks and refused second frees of other threads may come between, but they change nothing in the header of a held
// chunk.
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
  // relaxed: the block's owner calls this, and comes after the thread that made the chunk a block.
  [[nodiscard]] GPUHEAP_FN uint32_t end_life(uint32_t x) const { return at(x).fetch_and(~live_bit, simt::relaxed); }
  GPUHEAP_FN void absorb(uint32_t x, uint32_t next) const { at(x).store(next, simt::relay); }
  GPUHEAP_FN void cut(uint32_t x, uint32_t next) const {
    at(x).store(free_state | next, simt::relay);
    simt::fence(simt::release);
  }
  GPUHEAP_FN void set_live(uint32_t x, uint32_t next) const { at(x).store(live_state | next, simt::relay); }
  GPUHEAP_FN void set_free(uint32_t x, uint32_t next) const { at(x).store(free_state | next, simt::release); }

  // Conversions between a word and a header in the form of look(), for words that no thread changes.
  [[nodiscard]] GPUHEAP_HD static constexpr uint32_t header_of(word w) { return w; }
  [[nodiscard]] GPUHEAP_HD static constexpr word word_of(uint32_t header) { return header; }

  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> at(uint32_t x) const { return simt::global_ref<uint32_t>{words[x]}; }
};

// As published, one word is a flag that says whether the chunk is free; a lock clears the flag. The other word has the chunk's end, here
// together with the rest of the state.
struct alignas(8) flag_and_next {
  uint32_t flag, next;
};
template <>
struct headers<false> {
  using word = flag_and_next;
  word* words = nullptr;

  // The two values may come from different moments. The flag counts only if the other word says that the chunk is neither live nor
  // absorbed, and a thread that relies on the flag locks the chunk.
  [[nodiscard]] GPUHEAP_FN uint32_t look(uint32_t x) const {
    // relaxed: a guess, which lock() confirms.
    uint32_t const flag = flag_at(x).load(simt::relaxed);
    uint32_t const next = next_at(x).load(simt::consume);
    return (next & state_mask) == here_bit ? next | flag : next;
  }
  // relaxed: a guess that lock() confirms.
  [[nodiscard]] GPUHEAP_FN bool seems_free(uint32_t x) const { return flag_at(x).load(simt::relaxed) != 0; }
  // The end is read under the lock. relaxed: only the thread that holds the chunk writes the end.
  [[nodiscard]] GPUHEAP_FN uint32_t lock(uint32_t x) const {
    return flag_at(x).fetch_and(~free_bit, simt::consume) != 0 ? next_at(x).load(simt::relaxed) & next_mask : 0;
  }
  // relaxed: only the thread that holds the chunk changes the end in this word.
  [[nodiscard]] GPUHEAP_FN uint32_t end_life(uint32_t x) const { return next_at(x).fetch_and(~live_bit, simt::relaxed); }
  // The end stays in the word. The result of the atomic is not used, so the hardware returns none.
  GPUHEAP_FN void absorb(uint32_t x, uint32_t) const { next_at(x).fetch_and(next_mask, simt::relay); }
  // relaxed, both: the fence orders the end before the flag, and before the caller's later stores.
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

// The split of a pool at the start: trees one after the other, then the rest. All numbers count units.
struct split {
  uint32_t units = 0, trees = 1, leaf = 1;
  uint32_t levels = 0;  // levels of each tree; 0: there are no trees

  // The split of `units` > 0 units into `trees` trees with leaves of `leaf` units.
  [[nodiscard]] GPUHEAP_HD static constexpr split of(uint32_t units, uint32_t trees, uint32_t leaf) {
    split s{units, trees, leaf, 0};
    // Ends: the left side at least doubles with each level.
    while ((simt::uint64_t{leaf} * (s.levels + 1)) << s.levels < units / trees) ++s.levels;
    return s;
  }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t root_units() const { return levels == 0 ? 0 : leaf << (levels - 1); }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t tree_units() const { return levels * root_units(); }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t tree_nodes() const { return (1u << levels) - 1; }
  [[nodiscard]] GPUHEAP_HD constexpr uint32_t rest_begin() const { return trees * tree_units(); }
  // Node i of a tree, counted breadth first from 1: its units, and its begin relative to the tree's.
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
// The result of verify().
struct audit {
  std::string problem;  // empty: every invariant holds
  simt::size_t chunks = 0, live_chunks = 0;
  simt::size_t free_units = 0, live_units = 0, largest_free_units = 0;
};
#endif

}  // namespace regeff

// `Headers`: the table of headers. Tests pass tables with mistakes.
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

  // Returns memory of `bytes` > 0 bytes, aligned to traits.min_alignment; nullptr if no chunk and no run of free chunks is large enough.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    // This comes before any arithmetic: a request that is not larger than the pool has fewer than 2^29 units.
    if (bytes > pool_bytes()) return nullptr;
    uint32_t const need = static_cast<uint32_t>((bytes - 1) >> lg_unit_) + 1;
    // relaxed, like every access to a hint: a walk may begin at any position. If this thread does not see the header there yet, it reads 0,
    // which counts as the end.
    uint32_t at = my_hint().load(simt::relaxed), begin = at;  // begin: the first of the adjacent chunks that count together
    // Lap 0: from the hint to the end. 1: all chunks. 2: all, waiting for held ones. 3: all, joining free neighbours.
    unsigned lap = 0;
    // Ends: positions rise until the end's header leads back to 0, so a lap has at most as many passes as there are units, and there are
    // four laps. Two things add passes. If take() fails in lap 2 or 3, the next pass looks at the same chunk again: another thread holds a
    // chunk there, is between two of its own steps, and waits for nothing. If several threads lock adjacent chunks, the one at the highest
    // position succeeds. And lap 3 turns into lap 2 again if it meets a chunk that was absorbed meanwhile: then another thread's free or
    // take() has merged that chunk.
    GPUHEAP_NO_UNROLL
    while (true) {
      uint32_t const header = headers_.look(at);
      uint32_t const next = header & regeff::next_mask;
      // From lap 2 on, a held chunk counts as free: take() then fails, and is repeated until the chunk is no longer held.
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
      // The chunk at `at` was absorbed while this thread walked to it, and was large enough. Its units may still be free, as part of a
      // chunk that begins before `at`.
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
    // A load comes first: most neighbours are not free, and a load costs less than an atomic in vain.
    if (headers_.seems_free(end)) {
      if (uint32_t const behind = headers_.lock(end); behind != 0) {
        headers_.absorb(end, behind);
        end = behind;
      }
    }
    headers_.set_free(x, end);
    return free_status::done;
  }

  // Returns the bytes that the owner of the block at p may use; 0 for a pointer that is not a live block's.
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

  // Held bytes are those of all live chunks, as a kernel adds them up. The peak is not recorded. Waits for the stream.
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const;

  [[nodiscard]] regeff::audit verify(stream_ref stream) const;
#endif

 private:
  using header_word = typename Headers::word;
  static constexpr simt::size_t state_bytes = 256, hint_stride = 8;  // the stride is in words

  // Takes `need` units at `begin`, of one chunk or of several adjacent ones. Returns the end of the block; 0 if another thread has some of
  // the units.
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

  // The hint of this multiprocessor. malloc computes its address twice rather than keeping it in a register.
  [[nodiscard]] GPUHEAP_FN simt::global_ref<uint32_t> my_hint() const {
    if constexpr (Config.multi) {
      return simt::global_ref<uint32_t>{hints_[simt::sm_id() % num_hints_ * hint_stride]};
    } else {
      return simt::global_ref<uint32_t>{*hints_};
    }
  }
  [[nodiscard]] GPUHEAP_HD simt::size_t pool_bytes() const { return simt::size_t{units_} << lg_unit_; }
  // The offset of p in the pool. For a pointer below the pool, the result exceeds the pool's bytes.
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

  // log2 of the bytes of a unit, for a region in which units and their headers take `bytes` bytes.
  [[nodiscard]] static constexpr uint32_t lg_unit_for(simt::size_t bytes) {
    uint32_t lg = simt::lowest_bit(Config.unit_bytes);
    // Ends: the number of units about halves with each pass.
    while (bytes / ((simt::size_t{1} << lg) + sizeof(header_word)) > regeff::next_mask) ++lg;
    return lg;
  }
  static_assert(lg_unit_for(0) == simt::lowest_bit(Config.unit_bytes) &&
                lg_unit_for(simt::size_t{1} << 29) == simt::lowest_bit(Config.unit_bytes) &&
                lg_unit_for((unit + sizeof(header_word)) << 29) == simt::lowest_bit(Config.unit_bytes) + 1 &&
                lg_unit_for(((unit + sizeof(header_word)) << 29) - 1) == simt::lowest_bit(Config.unit_bytes));
#endif

  // Called by create()'s kernel: thread i of n writes every n-th chunk, and hint i. Thread 0 also writes the last chunk and the end.
  friend struct regeff::init_chunks<basic_regeff>;
  GPUHEAP_FN void init_chunks(uint32_t i, uint32_t n, regeff::split const& split) const {
    if constexpr (Config.split == regeff_split::equal) {
      constexpr uint32_t each = Config.equal_units;
      uint32_t const whole = split.units / each;
      // `chunk` has 64 bits, because n is added to the last chunk's number.
      for (simt::uint64_t chunk = i; chunk < whole; chunk += n) {
        auto const begin = static_cast<uint32_t>(chunk) * each;
        write_header(begin, regeff::free_state | (begin + each));
      }
      if (i < num_hints_) simt::plain_write(hints_[i * hint_stride], static_cast<uint32_t>(simt::uint64_t{whole} * i / num_hints_) * each);
      if (i == 0 && whole * each != split.units) write_header(whole * each, regeff::free_state | split.units);
    } else {
      // `chunk` has 64 bits, as above.
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

  // Called by footprint()'s kernel: thread i of n adds up the live chunks that begin at every n-th unit. Each live header in the table is
  // that of a block.
  friend struct regeff::sum_held<basic_regeff>;
  GPUHEAP_FN void sum_held(uint32_t i, uint32_t n) const {
    simt::uint64_t units = 0;
    // x + n stays below 2^30.
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
  // The bytes for units and their headers. The end's header, and the bytes that may be lost to the pool's alignment, are not among them.
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
  // If a leaf is larger than the pool, there are no trees.
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

// Checks that the list leads from unit 0 to the end, always forward, over chunks that are free or live; that no other header is free, live
// or held; and that at some time a chunk has begun at each hint's position.
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
  // Ends: x rises with each pass.
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
