// A heap that finds misuse. checked<Allocator> is the allocator with a header before each block, a guard after it, and a quarantine for
// freed blocks.
//
//   gpuheap::heap<gpuheap::checked<>> heap{1_GiB};                     over the default allocator
//   gpuheap::heap<gpuheap::checked<gpuheap::scatteralloc>> other{1_GiB};
//   launch(...);
//   heap.check();   // throws gpuheap::misuse_error, which names the first misuse and the block
//
// Layout of a region:  | misuse record | a copy of this view | tags | quarantine | the allocator's own region |
// docs/misuse.md lists the kinds of misuse that it finds.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/block_tag.hpp>
#include <gpuheap/checking/block_words.hpp>
#include <gpuheap/checking/kind_name.hpp>
#include <gpuheap/checking/quarantine.hpp>
#include <gpuheap/checking/tag_table.hpp>
#include <gpuheap/checking/walk.hpp>
#include <gpuheap/default_allocator.hpp>
#include <gpuheap/leaks.hpp>
#include <gpuheap/misuse.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/far_call.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/simt/word_pair.hpp>

#if GPUHEAP_HAS_HOST
#include <vector>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// @brief The options of a checked heap.
struct checked_options {
  // The largest number of blocks in quarantine: a power of two, or 0 for no quarantine. A heap halves it until there is at most one for
  // each 4 KiB of its region.
  unsigned quarantine_blocks = 4096;
  // The largest size in bytes of a block in quarantine; 0: a quarter of the heap divided by the number of blocks. Larger blocks are only
  // checked when they are freed.
  simt::size_t quarantine_largest = 0;
  // Whether the heap fills each new block with 0xcd bytes, and each block in quarantine with a pattern, all of whose bytes it checks later.
  // Without this option, the heap writes the pattern into at most the first 64 bytes of a block in quarantine, and checks these and the
  // guard.
  bool fill = false;
};

namespace detail {

struct checked_kind {
  static constexpr char word[] = "checked";
};

}  // namespace detail

#if defined(GPUHEAP_NO_DEFAULT_ALLOCATOR)
template <device_allocator Allocator, checked_options Options = checked_options{}>
class checked;
#else
template <device_allocator Allocator = sharded_spans, checked_options Options = checked_options{}>
class checked;
#endif

// @brief An allocator whose heap finds wrong frees, writes outside of blocks, and writes to freed blocks.
// @tparam Allocator the allocator that serves the requests: one that takes its memory from the heap's region, aligns to 16 bytes and frees
// blocks one by one
// @tparam Options see checked_options
// @note A request of n bytes takes up to n + 31 bytes from the inner allocator. A request with an alignment of a > 16 bytes takes up to n +
// a + 15 bytes. The heap finds a mistake of the program when the block is freed, when it leaves quarantine, or during heap::check(),
// whichever comes first. No wrong pointer reaches the inner allocator: exactly one thread changes a block's header from live to freed, and
// only this thread passes the block on.
template <device_allocator Allocator, checked_options Options>
class checked {
  static_assert(Allocator::traits.free == frees::individually, "gpuheap: checked<> needs an allocator that frees blocks one by one");
  static_assert(!Allocator::traits.process_wide, "gpuheap: checked<> needs an allocator that takes its memory from the heap's region");
  static_assert(!Allocator::traits.overwrites && !Allocator::traits.warp_level && Allocator::traits.min_alignment >= 16,
                "gpuheap: checked<> needs an allocator that gives each thread memory of its own, aligned to 16 bytes");
  static_assert((Options.quarantine_blocks & (Options.quarantine_blocks - 1)) == 0, "gpuheap: quarantine_blocks is a power of two, or 0");

  GPUHEAP_HD static constexpr allocator_traits make_traits() {
    allocator_traits made = Allocator::traits;
    made.name = checking::kind_name<detail::checked_kind, Allocator>::all.words;
    made.min_alignment = 16;
    made.reuses_singly = Options.quarantine_blocks == 0 && made.reuses_singly;
    made.detects_double_free = true;
    made.detects_foreign_free = true;
    if (made.largest_bytes > 64) made.largest_bytes -= 32;
    return made;
  }

 public:
  static constexpr allocator_traits traits = make_traits();
  static constexpr bool takes_census = true;

  // ---- device: any thread, any divergence

  // As malloc() of the inner allocator.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const { return malloc(bytes, block_tag{}); }
  // The same, and gives the block a tag, which reports show.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes, block_tag tag) const {
    if (bytes > checking::most_bytes) return nullptr;
    checking::block_facts const facts = asked(bytes, tag);
    void* base = inner_.malloc(facts.whole_bytes());
    if (base == nullptr) base = malloc_again(facts.whole_bytes(), 0);
    return begin_block(base, facts);
  }
  // As aligned_malloc() of the inner allocator, with a tag as for malloc().
  [[nodiscard]] GPUHEAP_FN void* aligned_malloc(simt::size_t bytes, simt::size_t alignment,
                                                block_tag tag = {}) const requires has_aligned_malloc<Allocator> {
    if (bytes > checking::most_bytes) return nullptr;
    checking::block_facts facts = asked(bytes, tag);
    if (alignment > 16) facts.lg_alignment = simt::highest_bit(static_cast<simt::uint64_t>(alignment));
    void* base = inner_.aligned_malloc(facts.whole_bytes(), alignment);
    if (base == nullptr) base = malloc_again(facts.whole_bytes(), alignment);
    return begin_block(base, facts);
  }

  // Frees the block at p, or records why p is wrong. nullptr does nothing. The block goes into a ring of the quarantine
  // (checking/quarantine.hpp). The oldest block of that ring leaves the quarantine and goes back to the inner allocator. A block that is
  // too large for the quarantine goes back at once. Reports of this free, and of a later misuse of the block, show `tag`.
  GPUHEAP_FN free_status free(void* p, block_tag tag = {}) const {
    // The mask is captured once for the whole call: the lanes that free together.
    simt::lane_mask const here = simt::active_mask();
    ended const block = p != nullptr ? end_block(p, tag) : ended{};
    simt::uint64_t base = block.of.word == 0 || block.stays ? 0 : block.of.base();
    if constexpr (Options.quarantine_blocks != 0) {  // at compile time, so that lanes with different heaps stay together
      checking::freed_by by{};
      if (block.stays)
        by = checking::freed_by::of(simt::block_id(), simt::thread_in_block(), tags_.place_of(tag), block.of.address(), secret_);
      checking::quarantined const oldest = quarantine_.put(here, block.stays ? block.of : checking::quarantined{}, by);
      if (oldest.word != 0) base = end_quarantine(oldest, by);
    }
    simt::sync_warp(here);  // so that the inner allocator sees the lanes together
    inner_.free(reinterpret_cast<void*>(static_cast<simt::uintptr_t>(base)));
    return p == nullptr ? free_status::null : block.status;
  }
  // Records a mismatched free if the live block at p was not asked for with `bytes` bytes. heap_ref::destroy() calls this before the free.
  GPUHEAP_FN void expect_size(void* p, simt::size_t bytes) const {
    checking::header_words header;
    if (!find_block(p, header) || header.state() != checking::block_state::live || header.facts().bytes == bytes) return;
    tell_mismatch(self_, static_cast<simt::uint64_t>(reinterpret_cast<simt::uintptr_t>(p)), bytes);
  }
  // The requested size of the live block that begins at p; 0 if no live block begins there.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void* p) const {
    checking::header_words header;
    return find_block(p, header) && header.state() == checking::block_state::live ? header.facts().bytes : 0;
  }
  // Whether p is the start of a live block.
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const { return usable_size(const_cast<void*>(p)) != 0; }
  [[nodiscard]] GPUHEAP_FN bool is_live(void const* p) const { return owns(p); }
  // Shortens the block in place, and writes a new guard. A block cannot become longer.
  [[nodiscard]] GPUHEAP_FN bool try_resize(void* p, simt::size_t bytes) const {
    checking::header_words header;
    if (!find_block(p, header) || header.state() != checking::block_state::live) return false;
    checking::block_facts facts = header.facts();
    if (bytes >= facts.bytes) return bytes == facts.bytes;
    auto const address = reinterpret_cast<simt::uintptr_t>(p);
    check_guard(address, header, 0);
    facts.bytes = bytes;
    mend_guard(address, facts, true);
    write_header(address, facts);
    return true;
  }
  [[nodiscard]] GPUHEAP_HD misuse_record* record() const { return record_; }

  // ---- parts of the walks (checking/walk.hpp). Device

  // Reads the header before p. True: it is the valid header of a block, live or in quarantine.
  [[nodiscard]] GPUHEAP_FN bool find_block(void const* p, checking::header_words& header) const {
    auto const address = reinterpret_cast<simt::uintptr_t>(p);
    if (address % 16 != 0 || address < first_ + checking::header_bytes || address >= end_) return false;
    header = read_header(address);
    return is_block(address, header);
  }
  // Checks the guard of a live block, or the guard and the pattern of a block in quarantine. No kernel uses the heap meanwhile.
  GPUHEAP_FN void check_block(simt::uint64_t address, checking::header_words header) const {
    if (header.state() == checking::block_state::live) {
      check_guard(address, header, 2);
    } else {
      check_freed(self_, address, header, {}, 2);
    }
  }
  [[nodiscard]] GPUHEAP_FN block_info described(simt::uint64_t address, checking::header_words header) const {
    auto const facts = header.facts();
    return {address, facts.bytes, tags_.tag_at(facts.tag).word, facts.block, facts.thread};
  }
  [[nodiscard]] GPUHEAP_HD simt::uint64_t first_address() const { return first_; }
  [[nodiscard]] GPUHEAP_HD simt::uint64_t end_address() const { return end_; }
  // Records that the block at `base`, which is live in the inner allocator, has no header: the program has overwritten it.
  GPUHEAP_FN void report_damaged(simt::uint64_t base) const {
    misuse_finding found{};
    found.what = misuse::damaged_header;
    found.found_while = 2;
    found.pointer = base + checking::header_bytes;
    detail::record_misuse(record_, found);
  }

#if GPUHEAP_HAS_HOST
  // ---- host

  [[nodiscard]] static simt::size_t min_region_bytes() {
    simt::size_t const inner = Allocator::min_region_bytes();
    // quarantine_blocks_for() never falls when the size rises, so the region has room for its quarantine.
    return own_bytes_for(quarantine_blocks_for(own_bytes_for(Options.quarantine_blocks) + inner)) + inner;
  }

  [[nodiscard]] static checked create(memory::region region, stream_ref stream) {
    checked made;
    auto* const base = static_cast<char*>(region.base);
    unsigned const blocks = quarantine_blocks_for(region.bytes);
    simt::size_t const own = own_bytes_for(blocks);
    simt::fill(base, 0, own, stream);
    made.record_ = reinterpret_cast<misuse_record*>(base);
    made.tags_ = checking::tag_table{reinterpret_cast<simt::uint64_t*>(base + record_bytes + self_bytes())};
    if (blocks != 0) made.quarantine_ = {base + record_bytes + self_bytes() + checking::tag_table::bytes, blocks};
    made.largest_ = Options.quarantine_largest != 0 || blocks == 0 ? Options.quarantine_largest : region.bytes / 4 / blocks;
    made.first_ = reinterpret_cast<simt::uintptr_t>(base) + own;
    made.end_ = made.first_ + (region.bytes - own);
    made.secret_ = checking::next_secret();
    made.inner_ = Allocator::create({base + own, region.bytes - own}, stream);
    made.self_ = reinterpret_cast<checked*>(base + record_bytes);
    simt::copy(made.self_, &made, sizeof made, stream);
    return made;
  }
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const requires has_footprint<Allocator> {
    allocator_footprint made = inner_.footprint(stream);
    made.metadata_bytes += own_bytes_for(quarantine_.blocks());
    return made;
  }
  [[nodiscard]] auto verify(stream_ref stream) const requires has_verify<Allocator> { return inner_.verify(stream); }

  // Stores the number and the bytes of the live blocks at `into`, in stream order. The kernel reads the whole heap.
  void take_census(live_total* into, stream_ref stream) const { checking::take_census(*this, into, stream); }
  // Lists every live block, in the order of addresses. Waits for the stream; no kernel uses the heap meanwhile.
  [[nodiscard]] std::vector<block_info> blocks(stream_ref stream = {}) const { return checking::blocks(*this, stream); }
  // Counts the live blocks of each size, the smallest size first. Waits for the stream; no kernel uses the heap meanwhile.
  [[nodiscard]] std::vector<live_size> live_blocks(stream_ref stream = {}) const { return checking::live_blocks(*this, stream); }
  // Checks every block, in stream order, and records the misuse that it finds. No kernel uses the heap meanwhile.
  void check_blocks(stream_ref stream) const {
    checking::check_blocks(*this, stream);
    if constexpr (has_blocks<Allocator>) checking::check_headers(*this, inner_.blocks(stream), stream);
  }
  // The largest number of blocks in quarantine, and the largest size of each.
  [[nodiscard]] live_size quarantine() const { return {largest_, quarantine_.blocks()}; }
#endif

 private:
  static constexpr simt::size_t record_bytes = simt::round_up_pow2(sizeof(misuse_record), 256);
  static constexpr simt::size_t checked_bytes = 64;  // the first bytes of a freed block, which are checked without Options.fill

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static unsigned quarantine_blocks_for(simt::size_t region_bytes) {
    unsigned blocks = Options.quarantine_blocks;
    // Ends: a pass halves `blocks`.
    while (blocks != 0 && blocks > region_bytes / 4096) blocks /= 2;
    return blocks;
  }
  [[nodiscard]] static constexpr simt::size_t self_bytes() { return simt::round_up_pow2(sizeof(checked), 256); }
  [[nodiscard]] static simt::size_t own_bytes_for(unsigned blocks) {
    return record_bytes + self_bytes() + checking::tag_table::bytes + simt::round_up_pow2(checking::quarantine::bytes_for(blocks), 256);
  }
#endif

  [[nodiscard]] GPUHEAP_FN checking::block_facts asked(simt::size_t bytes, block_tag tag) const {
    checking::block_facts facts;
    facts.bytes = bytes;
    facts.tag = tags_.place_of(tag);
    facts.block = simt::block_id();
    facts.thread = simt::thread_in_block();
    return facts;
  }

  // ---- the words of a block. All accesses are relaxed. A thread that owns a block got it from the allocator or from another thread of the
  // program, which orders this thread's accesses after the earlier ones, and no other thread writes these words. A wrong free may read them
  // while the owner writes them. It then reads no valid header, or an older one; in both cases it reports misuse.

  [[nodiscard]] GPUHEAP_FN static checking::word_ref word_at(simt::uint64_t address) {
    return checking::word_ref{*reinterpret_cast<simt::uint64_t*>(static_cast<simt::uintptr_t>(address))};
  }
  [[nodiscard]] GPUHEAP_FN static simt::uint64_t* words_at(simt::uint64_t address) {
    return reinterpret_cast<simt::uint64_t*>(static_cast<simt::uintptr_t>(address));
  }
  [[nodiscard]] GPUHEAP_FN static checking::header_words read_header(simt::uint64_t address) {
    simt::word_pair const pair = simt::load_pair(words_at(address - 16));
    return {pair.first, pair.second};
  }
  GPUHEAP_FN void write_header(simt::uint64_t address, checking::block_facts const& facts) const {
    auto const header = checking::header_words::of(facts, checking::block_state::live, address, secret_);
    simt::store_pair(words_at(address - 16), {header.first, header.second});
  }
  // The bits of the block's last word that are padding, if its size is not a multiple of 8.
  [[nodiscard]] GPUHEAP_FN static simt::uint64_t pad_mask(checking::block_facts const& facts) {
    return ~simt::uint64_t{0} << facts.bytes % 8 * 8;
  }
  // Writes the guard and the pad before it for a new block, whose bytes the program has not written yet.
  GPUHEAP_FN void write_guard(simt::uint64_t address, checking::block_facts const& facts) const {
    simt::uint64_t const guard = checking::guard_of(address, secret_), end = address + facts.padded_bytes(), mask = pad_mask(facts);
    word_at(end).store(guard, simt::relaxed);
    if (facts.bytes % 8 != 0) word_at(end - 8).store(Options.fill ? (checking::new_fill & ~mask) | (guard & mask) : guard, simt::relaxed);
  }
  // Writes the guard, and with `with_pad` the pad, of a block whose bytes must stay as they are.
  GPUHEAP_FN void mend_guard(simt::uint64_t address, checking::block_facts const& facts, bool with_pad) const {
    simt::uint64_t const guard = checking::guard_of(address, secret_), end = address + facts.padded_bytes(), mask = pad_mask(facts);
    word_at(end).store(guard, simt::relaxed);
    if (!with_pad || facts.bytes % 8 == 0) return;
    word_at(end - 8).store((word_at(end - 8).load(simt::relaxed) & ~mask) | (guard & mask), simt::relaxed);
  }
  [[nodiscard]] GPUHEAP_FN bool is_block(simt::uint64_t address, checking::header_words header) const {
    return header.is_valid(address, secret_) && address + header.facts().padded_bytes() + checking::guard_bytes <= end_;
  }
  GPUHEAP_FN void* begin_block(void* base, checking::block_facts const& facts) const {
    if (base == nullptr) return nullptr;
    simt::uint64_t const address = reinterpret_cast<simt::uintptr_t>(base) + facts.offset();
    if constexpr (Options.fill) {
      for (simt::size_t at = 0; at < facts.padded_bytes(); at += 8) word_at(address + at).store(checking::new_fill, simt::relaxed);
    }
    write_guard(address, facts);
    write_header(address, facts);
    return reinterpret_cast<void*>(static_cast<simt::uintptr_t>(address));
  }
  // The outcome of end_block(): the status of the free, and for a block that it ended, whether the block goes into quarantine, and the
  // quarantine's word for it.
  struct ended {
    free_status status = free_status::done;
    bool stays = false;
    checking::quarantined of{};
  };
  // Changes the first word of the header of p's block from live to freed, or to 0 if the block does not go into quarantine; or records why
  // p is wrong.
  GPUHEAP_FN ended end_block(void* p, block_tag tag) const {
    auto const address = reinterpret_cast<simt::uintptr_t>(p);
    checking::header_words header;
    if (!find_block(p, header) || header.state() != checking::block_state::live) return {refuse_far(self_, address, tag)};
    auto const facts = header.facts();
    bool const stays = Options.quarantine_blocks != 0 && facts.bytes <= largest_;
    simt::uint64_t expected = header.first;
    simt::uint64_t const after = stays ? header.first_with(checking::block_state::freed, address, secret_) : 0;
    // relaxed: exactly one of the threads that free this block changes the word. The program has ordered its accesses to the block before
    // its free.
    if (!word_at(address - 16).compare_exchange(expected, after, simt::relaxed, simt::relaxed)) return {refuse_far(self_, address, tag)};
    if (guard_difference(address, facts, true).bits != 0) tell_guard(self_, address, header, 0, tag);
    if (stays) stamp(address, facts);
    return {free_status::done, stays, checking::quarantined::of(address, facts.lg_alignment)};
  }
  [[nodiscard]] GPUHEAP_FN static simt::size_t stamped_bytes(checking::block_facts const& facts) {
    simt::size_t const all = facts.padded_bytes();
    return Options.fill || all < checked_bytes ? all : checked_bytes;
  }
  // Writes the pattern that a block has while it is in quarantine.
  GPUHEAP_FN void stamp(simt::uint64_t address, checking::block_facts const& facts) const {
    simt::size_t const bytes = stamped_bytes(facts);
    simt::uint64_t const fill = checking::freed_fill(address, secret_);
    for (simt::size_t at = 0; at < bytes; at += 16) {
      if (bytes - at == 8) {
        word_at(address + at).store(fill, simt::relaxed);
      } else {
        simt::store_pair(words_at(address + at), {fill, fill});
      }
    }
  }
  // Checks a block that leaves quarantine, and returns its base, for the inner allocator. `by`: the thread that freed the block.
  GPUHEAP_FN simt::uint64_t end_quarantine(checking::quarantined block, checking::freed_by by) const {
    simt::uint64_t const address = block.address();
    // These loads are in flight together with that of the header. The words past the block's end, as the header gives it, are ignored.
    simt::word_pair first[checked_bytes / 16] = {};
    bool const roomy = address + checked_bytes <= end_;
    auto const header = read_header(address);
    if (roomy) {
      for (unsigned i = 0; i < checked_bytes / 16; ++i) first[i] = simt::load_pair(words_at(address + i * 16));
    }
    if (!is_block(address, header) || header.state() != checking::block_state::freed) {
      tell_damaged(self_, address, 1);
    } else {
      auto const facts = header.facts();
      simt::size_t const bytes = stamped_bytes(facts);
      simt::uint64_t const fill = checking::freed_fill(address, secret_);
      bool changed = !roomy || bytes > checked_bytes;
      for (unsigned i = 0; i < checked_bytes / 16; ++i) {
        changed = changed || (i * 16 < bytes && first[i].first != fill);
        changed = changed || (i * 16 + 8 < bytes && first[i].second != fill);
      }
      changed = changed || guard_difference(address, facts, keeps_pad(facts)).bits != 0;
      if (changed) check_freed(self_, address, header, by, 1);
    }
    // The block no longer has a header. The inner free comes after this store, as it does after all other accesses to the block.
    word_at(address - 16).store(0, simt::relaxed);
    return block.base();
  }

  // ---- checks of guards and pads

  // A change: the bits of the word at address `at` that differ from the values that the heap wrote.
  struct difference {
    simt::uint64_t at = 0, bits = 0;
  };
  // The change of a block's pad, if `with_pad` is set and the pad has changed; else the change of the block's guard. In quarantine the
  // pattern may cover the pad, and `with_pad` is then false.
  [[nodiscard]] GPUHEAP_FN difference guard_difference(simt::uint64_t address, checking::block_facts const& facts, bool with_pad) const {
    simt::uint64_t const guard = checking::guard_of(address, secret_), end = address + facts.padded_bytes();
    simt::uint64_t const behind = word_at(end).load(simt::relaxed) ^ guard;
    simt::uint64_t pad = 0;
    if (with_pad && facts.bytes % 8 != 0) pad = (word_at(end - 8).load(simt::relaxed) ^ guard) & pad_mask(facts);
    return pad != 0 ? difference{end - 8, pad} : difference{end, behind};
  }
  [[nodiscard]] GPUHEAP_FN static bool keeps_pad(checking::block_facts const& facts) { return facts.padded_bytes() > stamped_bytes(facts); }
  // Records a change of a live block's pad or guard, and repairs them, so that the change is recorded once.
  GPUHEAP_FN void check_guard(simt::uint64_t address, checking::header_words header, unsigned found_while) const {
    if (guard_difference(address, header.facts(), true).bits != 0) tell_guard(self_, address, header, found_while, {});
  }

  // ---- rarely called functions

  [[nodiscard]] GPUHEAP_FN misuse_finding finding_of(misuse what, simt::uint64_t pointer, simt::uint64_t address,
                                                     checking::header_words header, checking::freed_by by) const {
    auto const facts = header.facts();
    misuse_finding found{};
    found.what = what;
    found.pointer = pointer;
    found.address = address;
    found.bytes = facts.bytes;
    found.tag = tags_.tag_at(facts.tag);
    found.asked_block = facts.block;
    found.asked_thread = facts.thread;
    if (header.state() == checking::block_state::freed) {
      if (!by.is_valid(address, secret_)) by = quarantine_.find_freed_by(address);
      if (by.is_valid(address, secret_)) {
        found.freed_block = by.block();
        found.freed_thread = by.thread();
        found.freed_tag = tags_.tag_at(by.tag());
      }
    }
    return found;
  }
  // Records that the pad or the guard of a live block has changed, and repairs them.
  GPUHEAP_COLD static void tell_guard(checked const* me, simt::uint64_t address, checking::header_words header, unsigned found_while,
                                      block_tag tag) {
    auto const facts = header.facts();
    difference const found = me->guard_difference(address, facts, true);
    if (found.bits != 0) tell_changed(me, misuse::write_past_end, address, header, {}, found, found_while, tag);
    me->mend_guard(address, facts, true);
  }
  // Records a change of a block in quarantine, if there is one, and repairs the block. `by`: the thread that freed the block; if it is not
  // valid, the quarantine is searched for it.
  GPUHEAP_COLD static void check_freed(checked const* me, simt::uint64_t address, checking::header_words header, checking::freed_by by,
                                       unsigned found_while) {
    auto const facts = header.facts();
    simt::size_t const bytes = stamped_bytes(facts);
    simt::uint64_t const fill = checking::freed_fill(address, me->secret_);
    difference found = me->guard_difference(address, facts, keeps_pad(facts));
    GPUHEAP_NO_UNROLL
    for (simt::size_t at = 0; at < bytes; at += 8) {
      simt::uint64_t const bits = word_at(address + at).load(simt::relaxed) ^ fill;
      if (bits == 0) continue;
      found = {address + at, bits};
      break;
    }
    if (found.bits == 0) return;
    tell_changed(me, misuse::write_after_free, address, header, by, found, found_while, {});
    me->stamp(address, facts);
    me->mend_guard(address, facts, keeps_pad(facts));
  }
  GPUHEAP_COLD static void tell_changed(checked const* me, misuse what, simt::uint64_t address, checking::header_words header,
                                        checking::freed_by by, difference change, unsigned found_while, block_tag tag) {
    unsigned byte = 0;
    // Ends: at the lowest byte that differs.
    while ((change.bits >> 8 * byte & 0xff) == 0) ++byte;
    misuse_finding found = me->finding_of(what, change.at + byte, address, header, by);
    found.found_while = found_while;
    found.found_tag = tag;
    detail::record_misuse(me->record_, found);
  }
  GPUHEAP_COLD static void tell_damaged(checked const* me, simt::uint64_t address, unsigned found_while) {
    misuse_finding found{};
    found.what = misuse::damaged_header;
    found.found_while = found_while;
    found.pointer = address;
    detail::record_misuse(me->record_, found);
  }
  GPUHEAP_COLD static void tell_mismatch(checked const* me, simt::uint64_t address, simt::uint64_t believed) {
    misuse_finding found = me->finding_of(misuse::mismatched_free, address, address, read_header(address), {});
    found.believed = believed;
    detail::record_misuse(me->record_, found);
  }
  // Finds out why a pointer is not a live block, records that, and returns the status of the free. `tag`: that of the free.
  GPUHEAP_COLD static free_status refuse_far(checked const* me, simt::uint64_t pointer, block_tag tag) {
    misuse_finding found{};
    found.what = misuse::foreign_free;
    found.pointer = pointer;
    if (pointer >= me->first_ && pointer < me->end_) {
      found.what = misuse::unknown_free;
      checking::header_words header;
      if (me->find_block(reinterpret_cast<void*>(static_cast<simt::uintptr_t>(pointer)), header)) {
        found = me->finding_of(misuse::double_free, pointer, pointer, header, {});
      } else {
        constexpr unsigned most_looks = 4096;
        simt::uint64_t address = pointer & ~simt::uint64_t{15};
        GPUHEAP_NO_UNROLL
        for (unsigned look = 0; look < most_looks && address >= me->first_ + checking::header_bytes; ++look, address -= 16) {
          if (!me->find_block(reinterpret_cast<void*>(static_cast<simt::uintptr_t>(address)), header)) continue;
          if (pointer < address + header.facts().padded_bytes() + checking::guard_bytes)
            found = me->finding_of(misuse::interior_free, pointer, address, header, {});
          break;
        }
        if constexpr (has_is_live<Allocator>) {
          void* const base = reinterpret_cast<void*>(static_cast<simt::uintptr_t>(pointer - checking::header_bytes));
          if (found.what == misuse::unknown_free && pointer % 16 == 0 && me->inner_.is_live(base)) found.what = misuse::damaged_header;
        }
      }
    }
    found.found_tag = tag;
    detail::record_misuse(me->record_, found);
    return found.what == misuse::double_free ? free_status::double_free : free_status::foreign;
  }

  // Called when nothing fits: empties the quarantine into the inner allocator, and makes the request again. `alignment`: 0 for a request
  // that is not aligned.
  GPUHEAP_FN void* malloc_again(simt::size_t bytes, simt::size_t alignment) const {
    return quarantine_.blocks() == 0 ? nullptr : simt::far_call(&checked::malloc_again_far, self_, bytes, alignment);
  }
  GPUHEAP_COLD static void* malloc_again_far(checked const* me, simt::size_t bytes, simt::size_t alignment) {
    simt::uint64_t const puts = me->quarantine_.puts() + 1;
    // relaxed, both: the word only saves work, and the atomics of the quarantine and of the inner allocator pass the blocks on. If the word
    // has the present number, a thread has emptied the quarantine since the last block was put in, so there is nothing to do.
    if (me->quarantine_.emptied_at().load(simt::relaxed) != puts) {
      GPUHEAP_NO_UNROLL
      for (unsigned place = 0; place < me->quarantine_.blocks(); ++place) empty_place(me, place);
      me->quarantine_.emptied_at().store(puts, simt::relaxed);
    }
    return ask_inner(me, bytes, alignment);
  }
  // Each of these functions is out of line, so that a kernel's malloc needs no more registers than the inner one.
  GPUHEAP_COLD static void empty_place(checked const* me, unsigned place) {
    checking::freed_by by{};
    checking::quarantined const block = me->quarantine_.take(place, by);
    if (block.word != 0) give_inner(me, me->end_quarantine(block, by));
  }
  GPUHEAP_COLD static void give_inner(checked const* me, simt::uint64_t base) {
    me->inner_.free(reinterpret_cast<void*>(static_cast<simt::uintptr_t>(base)));
  }
  GPUHEAP_COLD static void* ask_inner(checked const* me, simt::size_t bytes, simt::size_t alignment) {
    if constexpr (has_aligned_malloc<Allocator>) {
      if (alignment != 0) return me->inner_.aligned_malloc(bytes, alignment);
    }
    return me->inner_.malloc(bytes);
  }

  Allocator inner_{};
  misuse_record* record_ = nullptr;
  // A copy of this view in the heap's memory, for rarely called functions. Their callers then need no copy in their stack frames.
  checked* self_ = nullptr;
  checking::tag_table tags_{};
  checking::quarantine quarantine_{};
  simt::uint64_t first_ = 0, end_ = 0;  // the first address of the inner allocator's region, and the one after its last
  simt::uint64_t secret_ = 0;           // a number that is part of the check of this heap's headers
  simt::size_t largest_ = 0;            // the largest size in bytes of a block in quarantine
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
