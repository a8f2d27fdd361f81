// The slabs of halloc as device code sees them: the places of their words, how a class gets its head, how blocks are taken from the head,
// and how they are freed. ../halloc.hpp describes the whole allocator.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocators/halloc/slab_use.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/bitmap_tree.hpp>
#include <gpuheap/structures/chunk_map.hpp>
#include <gpuheap/structures/hash_probe.hpp>
#include <gpuheap/structures/spin_lock.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::halloc_parts {

using structures::bitmap_tree;
using structures::chunk_map;
using structures::warp_group;

// The offsets of a heap's parts from the region's base, in bytes.
//
//   +0        the slabs object below, for device code whose own copy lies in registers
//   +256      16 classes, 256 each: +0 head, +128 next head, +132 lock. Heads are slab numbers + 1, 0: none
//   sets      37 bitmap trees: free, sparse of 4 kinds, roomy of 16 classes, busy of 16 classes
//   words     a slab_use for each slab, 32 or 128 bytes apart, so that words that many threads change lie apart
//   taken, starts    a chunk_map for each slab, with room for as many chunks as the slab has of the smallest size
//   pool      the slabs, end to end; the base is aligned to 256
template <halloc_config Config>
struct layout {
  unsigned num_slabs = 0;
  unsigned lg_slab = 0;
  size_t words = 0, taken = 0, starts = 0, pool = 0;  // offsets from the region's base
  size_t end = 0;

  static constexpr size_t class_bytes = 256;
  static constexpr size_t sets = 256 + classes<Config>::count * class_bytes;
  [[nodiscard]] GPUHEAP_HD static constexpr size_t of_class(unsigned c) { return 256 + c * class_bytes; }
  static constexpr unsigned num_sets = 1 + classes<Config>::num_kinds + 2 * classes<Config>::count;
  static constexpr unsigned lg_largest = simt::ceil_log2(Config.slab_bytes);
  static constexpr unsigned lg_smallest = simt::ceil_log2(classes<Config>::largest_bytes);
  static_assert(Config.slab_bytes == size_t{1} << lg_largest && lg_largest >= lg_smallest);
  static_assert(Config.slab_bytes / classes<Config>::smallest <= 1u << 20,
                "`used` has room for 2^20 chunks and for 15 million more, which threads have counted and not claimed yet");
  static_assert(Config.sparse_permille <= Config.roomy_permille && Config.roomy_permille <= Config.busy_permille &&
                Config.busy_permille <= 1000);

  [[nodiscard]] GPUHEAP_HD static constexpr unsigned chunks_in(unsigned lg_slab) {
    return 1u << (lg_slab - simt::ceil_log2(classes<Config>::smallest));
  }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned word_stride(unsigned lg_slab) { return lg_slab < 15 ? 4 : 16; }  // in words
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned set_words(unsigned num_slabs) {
    return bitmap_tree::words_for(bitmap_tree::leaves_for(num_slabs), 1);
  }

  [[nodiscard]] GPUHEAP_HD static constexpr layout of(unsigned num_slabs, unsigned lg_slab) {
    size_t const n = num_slabs;
    layout at;
    at.num_slabs = num_slabs;
    at.lg_slab = lg_slab;
    at.words = simt::round_up_pow2(sets + size_t{num_sets} * set_words(num_slabs) * 8, 128);
    at.taken = at.words + n * word_stride(lg_slab) * 8;
    at.starts = at.taken + n * chunk_map::taken_words(chunks_in(lg_slab)) * 8;
    at.pool = simt::round_up_pow2(at.starts + n * chunk_map::start_words(chunks_in(lg_slab)) * 4, 256);
    at.end = at.pool + (n << lg_slab);
    return at;
  }
  // The layout with the most slabs of 2^lg_slab bytes that fit into `bytes`; it has no slab if none fits.
  [[nodiscard]] GPUHEAP_HD static constexpr layout most_in(size_t bytes, unsigned lg_slab) {
    size_t const fit = bytes >> lg_slab;
    layout at = of(static_cast<unsigned>(fit < max_slabs ? fit : max_slabs), lg_slab);
    // Ends: `num_slabs` falls. A step is half of the excess, since each slab that goes also frees its words.
    while (at.end > bytes && at.num_slabs != 0) {
      size_t const step = (at.end - bytes) >> (lg_slab + 1);
      at = of(at.num_slabs - (step == 0 ? 1 : static_cast<unsigned>(step)), lg_slab);
    }
    return at;
  }
  // The layout for a region of `bytes`: with the largest slabs of which min_slabs fit, or else with the smallest slabs.
  [[nodiscard]] GPUHEAP_HD static constexpr layout in(size_t bytes) {
    unsigned lg = lg_largest;
    // Ends: `lg` falls to lg_smallest.
    while (lg > lg_smallest && most_in(bytes, lg).num_slabs < Config.min_slabs) --lg;
    return most_in(bytes, lg);
  }
  // The number + 1 of a slab fits into 32 bits, and a tree can hold this many slabs.
  static constexpr unsigned max_slabs = 1u << 24;
};
static_assert(layout<halloc_config{}>::in(size_t{6} << 30).lg_slab == 22 && layout<halloc_config{}>::in(size_t{12} << 20).lg_slab == 17 &&
              layout<halloc_config{}>::in(size_t{12} << 20).num_slabs >= 90);
static_assert(layout<halloc_config{}>::in(layout<halloc_config{}>::of(1, 12).end).num_slabs == 1 &&
              layout<halloc_config{}>::in(layout<halloc_config{}>::of(1, 12).end - 1).num_slabs == 0);

// A trivially copyable view of the slabs.
template <halloc_config Config, class Rules>
class slabs {
 public:
  using sizes = classes<Config>;
  using places = layout<Config>;
  using fill = fill_levels<Config>;
  using word = slab_use::word;

  slabs() = default;
  GPUHEAP_HD slabs(void* base, places const& at)
      : base_{static_cast<char*>(base)},
        words_{reinterpret_cast<word*>(base_ + at.words)},
        taken_{reinterpret_cast<word*>(base_ + at.taken)},
        starts_{reinterpret_cast<uint32_t*>(base_ + at.starts)},
        pool_{base_ + at.pool},
        num_slabs_{at.num_slabs},
        lg_slab_{at.lg_slab} {}

  [[nodiscard]] GPUHEAP_HD char* base() const { return base_; }
  [[nodiscard]] GPUHEAP_HD unsigned num_slabs() const { return num_slabs_; }
  [[nodiscard]] GPUHEAP_HD size_t pool_bytes() const { return size_t{num_slabs_} << lg_slab_; }
  [[nodiscard]] GPUHEAP_HD places where() const { return places::of(num_slabs_, lg_slab_); }
  [[nodiscard]] GPUHEAP_HD bool holds(void const* p) const {
    return static_cast<size_t>(static_cast<char const*>(p) - pool_) < pool_bytes();
  }

  // The copy of this object in the region. Out-of-line functions are called on that copy. For a view in registers or among a kernel's
  // parameters, each kernel would need a copy in its stack frame.
  [[nodiscard]] GPUHEAP_HD slabs* home() const { return reinterpret_cast<slabs*>(base_); }

  // ---- malloc

  // Returns a block of class c, or nullptr. Any thread. The lanes of a warp that call together and want the same class share one addition
  // to the head's word.
  [[nodiscard]] GPUHEAP_FN void* malloc(unsigned c) const {
    unsigned const chunks = sizes::chunks_of(c);
    // One warp may use two heaps at once: the group is of one heap and one class.
    warp_group group = warp_group::of_equal(simt::active_mask(), reinterpret_cast<uint64_t>(base_) | c);
    bool drawn = true;
    // Ends: a lane that makes another pass has found its class's head used up; since then another head was published, or this one has got
    // room. Requests that are served use up a head. An addition in vain came after a load that saw room, so another addition came in
    // between, and the first such addition is served. So passes continue only while other requests are served. Lock-free, except for the
    // lock in renew_head().
    GPUHEAP_NO_UNROLL
    while (true) {
      uint32_t head = 0;
      slab_use w;
      if (group.leads()) drawn = draw(c, chunks, group.size(), head, w);
      // All lanes acquire what the leader acquired from the slab, which the shuffles below do not pass on.
      simt::sync_warp(group.mask);
      head = group.from_leader(head);
      w.bits = group.from_leader(w.bits);
      bool const served = has_room(head, w, c, group.rank() * chunks);
      simt::lane_mask const rest = simt::ballot(group.mask, !served);
      if (served) return take(head - 1, c, chunks, w.ticket() + group.rank());
      // The first of the remaining lanes leads them. If that is another lane than the one that made the addition, a lane was served, so the
      // addition was made.
      group.mask = rest;
      unsigned found = 0;
      if (group.leads()) {
        if (drawn) deallocate(head - 1, group.size() * chunks);
        found = home()->renew_head(c, head);
        drawn = true;
      }
      if (group.from_leader(found) == 0) return home()->serve_from_any(c);
    }
  }

  // ---- free

  // Frees a pointer into the pool. Any thread. A pointer to free memory at which a block began before is a double free; any other pointer
  // that is not a live block's is foreign.
  GPUHEAP_FN free_status free(void* p) const {
    size_t const offset = static_cast<size_t>(static_cast<char*>(p) - pool_);
    auto const s = static_cast<unsigned>(offset >> lg_slab_);
    unsigned const chunk = chunk_at(offset, sizes::kind_of(look(s).size_class()));
    if (chunk == chunk_map::none) return free_status::foreign;
    chunk_map const map = map_of(s);
    chunk_map::start const begun = map.unmark(chunk);
    if (begun.count == 0) return begun.has_begun ? free_status::double_free : free_status::foreign;
    // Pairs with the acquires of a thread that gets the chunks next: in claim() if the slab's chunks keep their size, in draw() otherwise.
    simt::fence(simt::release);
    map.release(chunk, begun.count);
    // The group: the lanes whose blocks have the same slab and the same length. The addresses of the slabs' words leave three bits for the
    // length, and differ between heaps.
    warp_group const group =
        warp_group::of_equal(simt::active_mask(), reinterpret_cast<uint64_t>(&word_of(s)) | simt::highest_bit(begun.count));
    // The other lanes' releases come before the leader's subtraction.
    simt::sync_warp(group.mask);
    if (group.leads()) deallocate(s, begun.count * group.size());
    return free_status::done;
  }

  // Returns the bytes of the live block at p; 0 if there is none. Any thread.
  [[nodiscard]] GPUHEAP_FN size_t block_bytes(void* p) const {
    size_t const offset = static_cast<size_t>(static_cast<char*>(p) - pool_);
    auto const s = static_cast<unsigned>(offset >> lg_slab_);
    unsigned const kind = sizes::kind_of(look(s).size_class());
    unsigned const chunk = chunk_at(offset, kind);
    return chunk == chunk_map::none ? 0 : size_t{map_of(s).count_at(chunk)} * sizes::chunk_bytes(kind);
  }

  // The number of a set: 0 is the free set, 1.. are the sparse sets by kind, 5.. the roomy sets by class, 21.. the busy sets by class.
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned set_of(slab_role level, unsigned c) {
    if (level == slab_role::unassigned) return 0;
    if (level == slab_role::sparse) return 1 + sizes::kind_of(c);
    return 1 + sizes::num_kinds + (level == slab_role::busy ? sizes::count : 0) + c;
  }
  [[nodiscard]] GPUHEAP_HD bitmap_tree set(unsigned i) const {
    return bitmap_tree::over(reinterpret_cast<word*>(base_ + places::sets) + size_t{i} * places::set_words(num_slabs_),
                             bitmap_tree::leaves_for(num_slabs_), 1);
  }

 private:
  using ref64 = simt::global_ref<word>;
  using ref32 = simt::global_ref<uint32_t>;

  // ---- places

  [[nodiscard]] GPUHEAP_FN word& word_of(unsigned s) const { return words_[size_t{s} * places::word_stride(lg_slab_)]; }
  [[nodiscard]] GPUHEAP_FN ref64 state(unsigned s) const { return ref64{word_of(s)}; }
  [[nodiscard]] GPUHEAP_FN chunk_map map_of(unsigned s) const {
    unsigned const chunks = places::chunks_in(lg_slab_);
    return {taken_ + size_t{s} * chunk_map::taken_words(chunks), starts_ + size_t{s} * chunk_map::start_words(chunks)};
  }
  [[nodiscard]] GPUHEAP_FN uint32_t& of_class(unsigned c, unsigned at) const {
    return *reinterpret_cast<uint32_t*>(base_ + places::of_class(c) + at);
  }
  [[nodiscard]] GPUHEAP_FN ref32 head_of(unsigned c) const { return ref32{of_class(c, 0)}; }
  [[nodiscard]] GPUHEAP_FN ref32 next_of(unsigned c) const { return ref32{of_class(c, 128)}; }
  [[nodiscard]] GPUHEAP_FN structures::spin_lock lock_of(unsigned c) const { return {&of_class(c, 132)}; }
  // Loads a slab's word for a free. relaxed: a thread that frees a block got its address from the block's owner, and while the block is
  // live, its slab's kind does not change.
  [[nodiscard]] GPUHEAP_FN slab_use look(unsigned s) const { return {state(s).load(simt::relaxed)}; }
  // The chunk that begins at `offset` of the pool, or chunk_map::none.
  [[nodiscard]] GPUHEAP_FN unsigned chunk_at(size_t offset, unsigned kind) const {
    unsigned const inside = static_cast<unsigned>(offset) & ((1u << lg_slab_) - 1);
    unsigned const units = inside / (sizes::smallest / 2) >> ((kind & 2) != 0 ? 4 : 0);
    unsigned const chunk = kind % 2 != 0 ? units / 3 : units / 2;
    return chunk * sizes::chunk_bytes(kind) == inside ? chunk : chunk_map::none;
  }
  [[nodiscard]] GPUHEAP_FN fill fill_of(unsigned c) const { return fill::of(lg_slab_, sizes::kind_of(c)); }
  // Whether a head whose word is w has a block of class c for a request, if `before` chunks go to lanes before it.
  [[nodiscard]] GPUHEAP_FN bool has_room(uint32_t head, slab_use w, unsigned c, unsigned before) const {
    return head != 0 && Rules::template serves<Config>(w, c) &&
           w.used() + before <= fill_of(c).last_start(w.is_packed(), sizes::chunks_of(c));
  }

  // ---- blocks of a slab

  // Counts `requests` blocks in the head of class c, which also draws their tickets. Sets `head`, and sets `w` to the head's word before
  // the addition. Returns false if there is no head, or it has no room; `w` is then the word that was loaded. One lane.
  GPUHEAP_FN bool draw(unsigned c, unsigned chunks, unsigned requests, uint32_t& head, slab_use& w) const {
    // relaxed, both: the addition confirms what the loads say. The load of the word prevents most additions in vain: a thread that adds in
    // vain hides room from others until it has subtracted again.
    head = head_of(c).load(simt::relaxed);
    if (head == 0) return false;
    w.bits = state(head - 1).load(simt::relaxed);
    if (!has_room(head, w, c, 0)) return false;
    // consume: see rules::draws.
    w.bits = state(head - 1).fetch_add(slab_use::draw(requests, chunks), Rules::draws);
    return true;
  }

  // Claims chunks that are counted for this thread, by hashing first and then anywhere, and makes a block of them. Returns the block;
  // nullptr if no aligned place was free.
  [[nodiscard]] GPUHEAP_FN void* claim(unsigned s, unsigned c, unsigned chunks, uint32_t ticket) const {
    chunk_map const map = map_of(s);
    unsigned const capacity = fill_of(c).capacity;
    structures::hash_probe const probe{capacity / chunks};
    unsigned const start = probe.first(ticket, sizes::together(c));
    unsigned first = start * chunks;
    bool claimed = map.claim(first, chunks);
    GPUHEAP_NO_UNROLL
    for (unsigned i = 1; !claimed && i < Config.walk_tries; ++i) {
      first = probe.at(start, i) * chunks;
      claimed = map.claim(first, chunks);
    }
    if (!claimed) first = claim_anywhere(map, first, chunks, capacity);
    if (first == chunk_map::none) return nullptr;
    map.mark(first, chunks);
    return pool_ + (size_t{s} << lg_slab_) + size_t{first} * sizes::chunk_bytes(sizes::kind_of(c));
  }
  GPUHEAP_COLD static unsigned claim_anywhere(chunk_map map, unsigned first, unsigned chunks, unsigned capacity) {
    return map.claim_any(first, chunks, capacity);
  }

  // Returns a block from slab s, in which `chunks` chunks are counted for this thread already, or else from another slab.
  [[nodiscard]] GPUHEAP_FN void* take(unsigned s, unsigned c, unsigned chunks, uint32_t ticket) const {
    void* const p = claim(s, c, chunks, ticket);
    return p != nullptr ? p : home()->serve_past_head(s, c);
  }
  // Returns a block from another slab, after the head had no aligned place: blocks of other classes leave none, or other threads took every
  // place first.
  [[nodiscard]] GPUHEAP_COLD void* serve_past_head(unsigned s, unsigned c) const {
    deallocate(s, sizes::chunks_of(c));
    // relaxed: the slab's word orders the accesses to the slab. The next request searches for another head.
    uint32_t seen = s + 1;
    if (head_of(c).compare_exchange(seen, 0, simt::relaxed, simt::relaxed)) retire(s);
    return serve_from_any(c);
  }

  // Subtracts chunks from the slab's count: counted chunks that a thread did not take, or chunks that were freed. If a subtraction brings a
  // slab that is no head to a lower level, the thread that subtracts files the slab there. Subtractions are ordered, so exactly one thread
  // does so.
  GPUHEAP_FN void deallocate(unsigned s, unsigned chunks) const {
    // relay: passes on the frees of this group (free() has the fence) and those of other threads, to the next thread that draws from the
    // slab or adopts it.
    slab_use const before{state(s).fetch_sub(chunks, simt::relay)};
    if (!before.is_filed()) return;
    unsigned const c = before.size_class();
    unsigned const bound = fill_of(c).below(before.role(), sizes::chunks_of(c));
    if (before.used() > bound && before.used() - chunks <= bound) home()->refile(s, before);
  }

  // ---- sets
  //
  // A slab's word says to which set the slab belongs; the sets help to find it. A thread that files a slab changes the word first, and sets
  // the bit afterwards. A thread that has taken a bit loads the word afterwards. If the slab still belongs to that set, the thread puts the
  // bit back or takes the slab. So a filed slab that no thread is changing has its bit. A bit of a slab that belongs to another set costs
  // the thread that finds the bit one load.

  [[nodiscard]] GPUHEAP_FN slab_role level_of(slab_use w) const {
    return Rules::level(fill_of(w.size_class()), w.used(), sizes::chunks_of(w.size_class()));
  }
  // Puts slab s into the set of its level, if that level has a set.
  GPUHEAP_FN void enter(unsigned s, slab_role level, unsigned c) const {
    if (level != slab_role::full) set(set_of(level, c)).set(s);
  }

  // Files a slab at the lower level that it has reached. `seen`: the slab's word before the subtraction.
  GPUHEAP_COLD void refile(unsigned s, slab_use seen) const {
    if (!seen.is(slab_role::full)) (void)set(set_of(seen.role(), seen.size_class())).take(s);
    // relaxed: the exchange decides.
    slab_use now{state(s).load(simt::relaxed)};
    // Ends: a pass that does not end the loop lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (now.is_filed()) {
      slab_role const level = level_of(now);
      if (level >= now.role()) return enter(s, now.role(), now.size_class());  // the bit that was taken above may be this one
      // consume_release: comes after the frees of the slab's blocks, and before a thread that adopts the slab.
      if (state(s).compare_exchange(now.bits, now.as(level, now.size_class(), false).bits, simt::consume_release, simt::relaxed))
        return enter(s, level, now.size_class());
    }
    // The slab is held or unassigned: the thread that gives it another role files it.
  }

  // Files slab s, which this thread holds. One thread.
  GPUHEAP_COLD void retire(unsigned s) const {
    slab_use now{state(s).load(simt::relaxed)};  // relaxed: the exchange decides
    // Ends: a pass that does not end the loop lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (true) {
      slab_role const level = level_of(now);
      // consume_release: comes after the frees of the slab's blocks, and before a thread that adopts the slab.
      if (state(s).compare_exchange(now.bits, now.as(level, now.size_class(), false).bits, simt::consume_release, simt::relaxed))
        return enter(s, level, now.size_class());
    }
  }

  // Makes a slab of set `from` a held one of class c. Returns its number + 1, or 0 if there is none.
  GPUHEAP_COLD uint32_t adopt_from(unsigned from, unsigned c) const {
    bitmap_tree const there = set(from);
    uint32_t found = 0;
    there.for_each_leaf(0, [&](unsigned leaf) {
      // relaxed: a guess; take() decides.
      word bits = there.leaf(leaf).load(simt::relaxed);
      GPUHEAP_NO_UNROLL
      for (; bits != 0 && found == 0; bits &= bits - 1) {
        unsigned const s = leaf * bitmap_tree::bits_per_leaf + simt::lowest_bit(bits);
        if (there.take(s) && adopt(s, c)) found = s + 1;
      }
      return found != 0;
    });
    return found;
  }
  // Makes slab s, whose bit this thread has taken, a held one of class c. Returns false if the slab's word no longer allows that.
  GPUHEAP_FN bool adopt(unsigned s, unsigned c) const {
    slab_use now{state(s).load(simt::relaxed)};  // relaxed: the exchange decides
    // Ends: a pass that does not end the loop lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (Rules::template may_adopt<Config>(now, c)) {
      // relay: passes on the frees in this slab, to threads that draw from it.
      if (state(s).compare_exchange(now.bits, now.as(slab_role::held, c, now.is(slab_role::busy)).bits, simt::relay, simt::relaxed))
        return true;
    }
    return false;
  }
  // Finds a slab for class c and holds it. Returns its number + 1, or 0. If `also_busy`, takes a busy slab if there is no other.
  GPUHEAP_FN uint32_t find_slab(unsigned c, bool also_busy) const {
    uint32_t found = adopt_from(set_of(slab_role::roomy, c), c);
    if (found == 0) found = adopt_from(set_of(slab_role::sparse, c), c);
    if (found == 0) found = adopt_from(set_of(slab_role::unassigned, c), c);
    if (found == 0 && also_busy) found = adopt_from(set_of(slab_role::busy, c), c);
    return found;
  }

  // ---- heads

  // Replaces class c's head `seen`, which has no room. Returns true if there is another head, or this one has room again, so that the
  // caller should try again; false if no slab can become the head. One lane of a group.
  GPUHEAP_COLD bool renew_head(unsigned c, uint32_t seen) const {
    structures::spin_lock const lock = lock_of(c);
    simt::back_off pause;
    bool waited = false, done = false, is_worth_a_try = true;
    // Ends: as in spin_lock::run(), or once there is another head, or the lock's holder has left. Blocking.
    GPUHEAP_NO_UNROLL
    while (!done) {
      bool const open = lock.is_open();
      // relaxed: as in draw(). If the lock is open, the load is not older than its last holder's stores.
      if (head_of(c).load(simt::relaxed) != seen) {
        done = true;
      } else if (open && waited) {
        // The holder has left, and the head is the same. If the head is packed and full, or there is no head, the holder found no slab.
        is_worth_a_try = seen != 0 && (!is_packed(seen) || has_room_now(seen, c));
        done = true;
      } else if (uint32_t old = 0, found = 0; open && lock.try_run([&] { is_worth_a_try = replace_head(c, seen, old, found); })) {
        if (old != 0) retire(old - 1);
        if (found != 0 && num_slabs_ >= Config.prefetch_slabs) fetch_next(c);
        done = true;
      } else {
        waited = true;
        pause.wait();
      }
    }
    return is_worth_a_try;
  }
  // Whether the head is packed, and whether it has room. relaxed, both: guesses.
  GPUHEAP_FN bool is_packed(uint32_t head) const { return slab_use{state(head - 1).load(simt::relaxed)}.is_packed(); }
  GPUHEAP_FN bool has_room_now(uint32_t head, unsigned c) const {
    return head != 0 && has_room(head, slab_use{state(head - 1).load(simt::relaxed)}, c, 0);
  }
  // Replaces the head `seen` by another slab, if it still has no room. Sets `found` to the new head, and `old` to the replaced one, which
  // the caller has to file. Returns whether the caller should try again. The lock's holder calls.
  GPUHEAP_FN bool replace_head(unsigned c, uint32_t seen, uint32_t& old, uint32_t& found) const {
    uint32_t const head = head_of(c).load(simt::relaxed);  // relaxed: after the lock's acquire
    if (head != seen || has_room_now(head, c)) return true;
    // relaxed: the slab's word orders the accesses to the slab.
    found = next_of(c).exchange(0, simt::relaxed);
    if (found == 0) found = find_slab(c, true);
    if (found == 0) return pack(head, c);
    // relaxed: the slab's word orders the accesses to the slab. The exchange returns the slab that this class held, unless a thread has
    // taken it away meanwhile (take_unused(), serve_past_head()).
    old = head_of(c).exchange(found, simt::relaxed);
    return true;
  }
  // Marks a head as packed, because no slab can replace it. Returns whether no thread had marked it before, or it has room.
  GPUHEAP_FN bool pack(uint32_t head, unsigned c) const {
    if (head == 0) return false;
    // relaxed: the bit guards nothing. If the slab is another class's head by now, that head is filled more than it should be.
    slab_use const w{state(head - 1).fetch_or(slab_use::packed_bit, simt::relaxed)};
    return !w.is_packed() || has_room(head, w, c, 0);
  }
  // Fetches the class's next head in advance, so that the next replacement need not search.
  GPUHEAP_FN void fetch_next(unsigned c) const {
    // relaxed, both: the slab's word orders the accesses to the slab.
    if (next_of(c).load(simt::relaxed) != 0) return;
    uint32_t const found = find_slab(c, false);
    uint32_t none = 0;
    if (found != 0 && !next_of(c).compare_exchange(none, found, simt::relaxed, simt::relaxed)) retire(found - 1);
  }

  // ---- the last resort

  // Returns a block from any slab that has room for it: from a slab of the same kind, which may be in any set or be the head of any class,
  // or from an empty slab, even if a class holds that slab. nullptr if no slab had room when this thread loaded its word. One lane.
  GPUHEAP_COLD void* serve_from_any(unsigned c) const {
    if (!Rules::looks_everywhere) return nullptr;
    unsigned const chunks = sizes::chunks_of(c);
    unsigned s = simt::global_warp() % num_slabs_;
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i < num_slabs_; ++i) {
      slab_use w;
      bool holds = false;
      if (count_in(s, c, w, holds)) {
        void* const p = claim(s, c, chunks, w.ticket());
        if (p == nullptr) deallocate(s, chunks);
        if (holds) retire(s);
        if (p != nullptr) return p;
      }
      s = s + 1 == num_slabs_ ? 0 : s + 1;
    }
    return nullptr;
  }
  // Counts one block of class c in slab s, and sets `w` to the slab's word before the change. Returns whether it did. Sets `holds` if this
  // thread holds the slab now, and has to file it.
  GPUHEAP_FN bool count_in(unsigned s, unsigned c, slab_use& w, bool& holds) const {
    unsigned const chunks = sizes::chunks_of(c);
    word const one = slab_use::draw(1, chunks);
    w.bits = state(s).load(simt::relaxed);  // relaxed: the exchange or the addition decides
    if (rules::serves<Config>(w, c)) {
      unsigned const last = fill_of(c).last_start(true, chunks);
      if (w.used() > last) return false;
      // consume: see rules::draws.
      w.bits = state(s).fetch_add(one, Rules::draws);
      if (Rules::template serves<Config>(w, c) && w.used() <= last) return true;
      deallocate(s, chunks);
      return false;
    }
    bool const taken_away = w.is(slab_role::held) && w.used() == 0 && take_unused(s, w.size_class());
    // Ends: a pass that does not end the loop lost the word to another thread's change. Lock-free.
    GPUHEAP_NO_UNROLL
    while (taken_away ? w.used() == 0 : w.is(slab_role::unassigned)) {
      // relay: acquires the frees, and passes them on to threads that draw from the slab.
      if (state(s).compare_exchange(w.bits, w.as(slab_role::held, c, false).bits + one, simt::relay, simt::relaxed)) return holds = true;
    }
    if (taken_away) retire(s);
    return false;
  }
  // Takes an empty slab away from the class that holds it as its head or next head. Returns true if this thread holds it now.
  GPUHEAP_FN bool take_unused(unsigned s, unsigned of) const {
    // relaxed, both: the slab's word orders the accesses to the slab.
    uint32_t is_head = s + 1, is_next = s + 1;
    return head_of(of).compare_exchange(is_head, 0, simt::relaxed, simt::relaxed) ||
           next_of(of).compare_exchange(is_next, 0, simt::relaxed, simt::relaxed);
  }

  char* base_ = nullptr;
  word* words_ = nullptr;
  word* taken_ = nullptr;
  uint32_t* starts_ = nullptr;
  char* pool_ = nullptr;
  unsigned num_slabs_ = 0;
  unsigned lg_slab_ = 0;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::halloc_parts
