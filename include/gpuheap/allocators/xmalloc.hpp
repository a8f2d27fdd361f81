// `xmalloc`: the requests of a warp become one, and bounded queues stand before a slow heap.
//   X. Huang, C. Rodrigues, S. Jones, I. Buck, W. Hwu, "XMalloc: A Scalable Lock-free Dynamic Memory Allocator for Many-core Machines", CIT
//   2010; "Scalable SIMD-parallel Memory Allocation for Many-core Machines", The Journal of Supercomputing 64(3), 2013.
//
// Layout of the allocator's own bytes:
//   +0             state {moves, queues' place}, and of each class {refill word, counts, second level's place}
//   first level    for each class `lists_per_class` queues of blocks, `list_capacity` long
//   second level   for each class a queue of superblocks that have a free block, long enough for all that fit
// and of what the backing gives:
//   superblock     +0 free blocks, a bit each    +4 class                  +16 blocks, `blocks_per_superblock` of one size, end to end
//   block          +0 origin {direct, class, index, distance to the superblock / 16}; of a direct block its payload's bytes
//                  +8 live pieces                +12 tag                   +16 payload
//   merged block   a block whose payload is cut into pieces: 4 bytes of tag lie before each piece, of the first in the block's own header
//   tag            {kind : 2 (1 piece, 2 block), live : 1, usable bytes / 4 : 7, distance to the merged block / 16 : 10, check : 12}
//
// malloc:    lanes that come together with less than `merge_below` bytes each ask as one; the lowest takes a block for all, and each lane
//            gets a piece. A block comes from a queue of its class, the lane's own first. If all are empty: from a superblock of the second
//            level, or else a new one from the backing. All its free blocks are taken by one exchange; one is kept, the others go to the
//            first level, and what finds no room there back to the superblock. What is larger than the largest class comes from the
//            backing.
// free:      the piece that dies last frees the merged block. A block goes to the first level, or if that is full back to its superblock.
// Reuse:     a block for its class, a merged one once all its pieces are free: a piece by itself makes room for nothing. A superblock that
// is wholly free goes back to the backing while the second level holds more than
//            `spare_percent` of the heap, and always when the backing is exhausted: then both levels of all classes are emptied first.
// Progress:  malloc of a piece or block is blocking: it may wait for a refill of its class, which waits for nothing but the backing and the
//            turn of a queue's cell (ring_queue.hpp). free waits for no more than these either.
//
// A superblock is in the second level, or on its way there, if and only if it has a free block: who returns the first bit puts it there,
// and who takes it out takes all bits. So the two alternate, it is there at most once, and who took out all N bits is alone with it: nobody
// has a block of it, and it is in no queue. That is why it can go back to the backing.
//
// The form is that of 2013. In the heap of 2010 memory blocks form a linked list, which a request searches and splits by compare-and-swap;
// here the backing stands in its place, so that a refill neither walks a list nor meets others at its head.
//
// Different from the paper and the code that circulates:
// - pieces are cut by a scan over one captured mask of lanes, not through a warp's slot in shared memory;
// - the queues are ring_queue: full and empty are claimed, not compared, and each cell says whose turn it is;
// - at most one lane in N that wait for a class refills it, and it keeps a block: so N misses take one superblock, and none is robbed of
// it;
// - all bits of a superblock are taken at once, so it needs neither the count, nor the version tag, nor the cap of ten million passes;
// - superblocks go back to the backing. A request that is refused one is served by a direct block, if that fits;
// - results are aligned to 16 bytes, pointers are kept whole, sizes have 64 bits;
// - a tag holds a check of its address: a free of what has none is refused, and so is the second free of a block as long as nothing else
//   has been made of its memory. Neither is exact, so the traits do not promise it.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/backing.hpp>
#include <gpuheap/allocators/xmalloc/layout.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/ring_queue.hpp>
#include <gpuheap/structures/transit_count.hpp>
#include <gpuheap/structures/warp_group.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace detail {
template <class A>
struct write_xmalloc_state;
template <class A>
struct init_xmalloc;
template <class A>
struct check_xmalloc;
}  // namespace detail

template <xmalloc_config Config = xmalloc_config{}, class Backing = default_backing>
class basic_xmalloc {
  using queue = structures::ring_queue<simt::uint64_t>;
  using tag = detail::xmalloc_tag;
  using origin = detail::xmalloc_origin;
  using layout = detail::xmalloc_layout<Config>;
  using class_state = typename layout::class_state;
  using refill_word = detail::xmalloc_refill;
  static constexpr unsigned num_classes = layout::num_classes, num_lists = layout::num_lists, num_blocks = layout::num_blocks;
  static constexpr simt::size_t header_bytes = layout::header_bytes, largest_request = simt::size_t{1} << 60;  // the backing has less
  static constexpr simt::uint32_t all_blocks = layout::all_blocks;
  static_assert(Backing::traits.min_alignment >= 16);

 public:
  // The same allocator over another backing.
  template <class Other>
  using with_backing = basic_xmalloc<Config, Other>;

  static constexpr allocator_traits traits{
      .name = "xmalloc",
      .title = "XMalloc",
      .paper = "Huang, Rodrigues, Jones, Buck, Hwu: XMalloc, CIT 2010",
      .year = 2010,
      .variant = "queues of blocks and superblocks before a backing heap",
      .reuse = "blocks of the same class, small ones once all that their warp got with them are free; wholly free superblocks: anything",
      .process_wide = Backing::traits.process_wide,
      .reuses_singly = false,
      .full_reuse = Backing::traits.full_reuse,
  };

  // `bytes` > 0. Lanes that call together may be served together.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > largest_request) return nullptr;  // before any sum
    // The lanes that ask this heap for a small block.
    auto const group =
        structures::warp_group::of_equal(simt::active_mask(), bytes < Config.merge_below ? to_word(reinterpret_cast<char*>(state_)) : 0);
    bool together = bytes < Config.merge_below && group.size() > 1;
    piece_place place;
    if (together) place = piece_in(group, static_cast<unsigned>(bytes));
    char* block = nullptr;
    // Ends: two passes at most. If the sum does not fit, each request alone may.
    GPUHEAP_NO_UNROLL
    while (true) {
      if (!together || group.leads()) block = allocate(together ? place.end : bytes);
      if (!together) break;
      // relaxed: the lanes' frees come after the barrier below.
      if (block != nullptr && group.leads()) word32{*live_word(block)}.store(group.size(), simt::relaxed);
      // The other lanes go on with what the leader acquired.
      simt::sync_warp(group.mask);
      block = group.from_leader(block);
      if (block != nullptr) break;
      together = false;
    }
    if (block == nullptr) return nullptr;
    char* const p = together ? block + place.begin : block;
    write_tag(p, together ? tag::of_piece(place.begin, place.usable, check_of(p)) : tag::of_block(check_of(p)));
    return p;
  }

  GPUHEAP_FN free_status free(void* p) const {
    if (p == nullptr) return free_status::null;
    if (!may_be_payload(p)) return free_status::foreign;
    auto* block = static_cast<char*>(p);
    tag const found = read_tag(block);
    if (!found.is_valid(check_of(block))) return free_status::foreign;
    // relaxed: one of several frees gets the bit; what follows orders.
    if (!tag{word32{*tag_word(block)}.fetch_and(~tag::live, simt::relaxed)}.is_live()) return free_status::double_free;
    if (found.is_piece()) {
      block -= found.distance();
      // handed_over: releases the accesses to this piece, and goes on with those to the others for whoever gets the block next.
      if (word32{*live_word(block)}.fetch_sub(1, simt::handed_over) != 1) return free_status::done;
    }
    return free_block(block);
  }

  // Of a live block; 0 for what free() would refuse.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void* p) const {
    if (p == nullptr || !may_be_payload(p)) return 0;
    auto* const block = static_cast<char*>(p);
    tag const found = read_tag(block);
    if (!found.is_valid(check_of(block)) || !found.is_live()) return 0;
    if (found.is_piece()) return found.usable();
    origin const from = read_origin(block);
    return from.is_direct() ? from.bytes() : layout::class_bytes(from.size_class());
  }

  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const requires has_owns<Backing> { return backing_.owns(p); }

#if GPUHEAP_HAS_HOST
  // Queues take less than an eighth of what a region has more than this.
  [[nodiscard]] static simt::size_t min_region_bytes() { return (layout::own_bytes_for(0) + Backing::min_region_bytes() + 2048) / 7 * 8; }
  [[nodiscard]] static simt::size_t own_bytes(simt::size_t region_bytes) requires(Backing::traits.process_wide) {
    return layout::own_bytes_for(region_bytes);
  }
  [[nodiscard]] static simt::size_t granted_bytes() requires has_granted_bytes<Backing> { return Backing::granted_bytes(); }

  [[nodiscard]] static basic_xmalloc create(memory::region region, stream_ref stream);

  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const requires has_footprint<Backing> {
    allocator_footprint all = backing_.footprint(stream);
    typename layout::state now;
    simt::copy(&now, state_, sizeof now, stream);
    simt::synchronize(stream);
    all.metadata_bytes += now.own_bytes;
    return all;
  }

  // What verify() found. Blocks in queues are counted as free.
  struct report {
    std::string problem;
    simt::uint64_t superblocks = 0;   // held, of all classes
    simt::uint64_t listed = 0;        // of these in the second level
    simt::uint64_t wholly_free = 0;   // of these without a block out
    simt::uint64_t first_level = 0;   // blocks there
    simt::uint64_t second_level = 0;  // free blocks of listed superblocks
  };
  [[nodiscard]] report verify(stream_ref stream) const;
#endif

 private:
  friend struct detail::write_xmalloc_state<basic_xmalloc>;
  friend struct detail::init_xmalloc<basic_xmalloc>;
  friend struct detail::check_xmalloc<basic_xmalloc>;
  using word32 = simt::global_ref<simt::uint32_t>;
  using word64 = simt::global_ref<simt::uint64_t>;

  // ---- own bytes

  [[nodiscard]] GPUHEAP_FN class_state& of_class(unsigned c) const { return state_->classes[c]; }
  [[nodiscard]] GPUHEAP_FN word64 refills(unsigned c) const { return word64{of_class(c).refill}; }
  [[nodiscard]] GPUHEAP_FN structures::transit_count moves() const { return {&state_->moves}; }
  [[nodiscard]] GPUHEAP_FN queue list(unsigned c, unsigned l) const {
    return {reinterpret_cast<char*>(state_) + layout::list_at(c, l), Config.list_capacity};
  }
  [[nodiscard]] GPUHEAP_FN queue second_level(unsigned c) const {
    class_state const& s = of_class(c);
    return {reinterpret_cast<char*>(state_) + simt::plain_read(s.second_at), simt::plain_read(s.second_capacity)};
  }
  // Where this lane looks first.
  [[nodiscard]] GPUHEAP_FN static unsigned home() { return simt::global_warp() % num_lists; }

  // ---- blocks' words

  [[nodiscard]] GPUHEAP_FN static simt::uint64_t* origin_word(char* block) { return reinterpret_cast<simt::uint64_t*>(block - 16); }
  [[nodiscard]] GPUHEAP_FN static simt::uint32_t* live_word(char* block) { return reinterpret_cast<simt::uint32_t*>(block - 8); }
  [[nodiscard]] GPUHEAP_FN static simt::uint32_t* tag_word(char* p) { return reinterpret_cast<simt::uint32_t*>(p - 4); }

  [[nodiscard]] GPUHEAP_FN simt::uint32_t check_of(char const* p) const {
    return tag::check_of(reinterpret_cast<simt::uintptr_t>(p), reinterpret_cast<simt::uintptr_t>(state_));
  }
  // relaxed, all: a tag and an origin are for whoever got the pointer from their writer, or a queue.
  GPUHEAP_FN static void write_tag(char* p, tag t) { word32{*tag_word(p)}.store(t.bits, simt::relaxed); }
  [[nodiscard]] GPUHEAP_FN static tag read_tag(char* p) { return {word32{*tag_word(p)}.load(simt::relaxed)}; }
  [[nodiscard]] GPUHEAP_FN static origin read_origin(char* block) { return {word64{*origin_word(block)}.load(simt::relaxed)}; }
  // Whether there may be a tag below p.
  [[nodiscard]] GPUHEAP_FN bool may_be_payload(void const* p) const {
    if constexpr (has_owns<Backing>) {
      if (!backing_.owns(p)) return false;
    }
    return reinterpret_cast<simt::uintptr_t>(p) % 16 == 0;
  }

  [[nodiscard]] GPUHEAP_FN static char* superblock_of(char* block, origin from) { return block - header_bytes - from.distance(); }
  [[nodiscard]] GPUHEAP_FN static word32 free_blocks(char* superblock) { return word32{*reinterpret_cast<simt::uint32_t*>(superblock)}; }

  // ---- pieces

  // Where a lane's piece lies in the group's block, and where the last one ends.
  struct piece_place {
    unsigned begin = 0, usable = 0, end = 0;
  };
  [[nodiscard]] GPUHEAP_FN static piece_place piece_in(structures::warp_group group, unsigned bytes) {
    // A piece, and the next one's tag.
    unsigned const step = static_cast<unsigned>(simt::round_up_pow2(bytes + 4, 16));
    piece_place place;
    unsigned total = 0;
    place.begin = group.sum_before(step, total);
    unsigned const last = simt::highest_bit(group.mask);
    place.usable = simt::lane_id() == last ? static_cast<unsigned>(simt::round_up_pow2(bytes, 16)) : step - 4;
    place.end = simt::shuffle(group.mask, place.begin + place.usable, last);
    return place;
  }

  // ---- blocks

  // The payload of a block; its tag is the caller's to write.
  [[nodiscard]] GPUHEAP_FN char* allocate(simt::size_t bytes) const {
    unsigned const c = layout::class_for(bytes);
    if (c >= num_classes) return direct_block(bytes);
    simt::uint64_t block = 0;
    if (pop_block(c, block)) return to_pointer(block);
    return wait_for_block(c);
  }
  [[nodiscard]] GPUHEAP_FN static char* to_pointer(simt::uint64_t word) { return reinterpret_cast<char*>(word); }
  [[nodiscard]] GPUHEAP_FN static simt::uint64_t to_word(char* p) { return reinterpret_cast<simt::uintptr_t>(p); }

  [[nodiscard]] GPUHEAP_FN bool pop_block(unsigned c, simt::uint64_t& block) const {
    unsigned const first = home();
    // Ends: one pass per list.
    GPUHEAP_NO_UNROLL
    for (unsigned l = 0; l < num_lists; ++l) {
      if (list(c, first ^ l).try_pop(block)) return true;
    }
    return false;
  }

  // From now on nobody's. `block`: a payload.
  GPUHEAP_FN free_status free_block(char* block) const {
    origin const from = read_origin(block);
    if (from.is_direct()) return detail::free_in(backing_, block - header_bytes);
    unsigned const c = from.size_class();
    if (list(c, home()).try_push(to_word(block))) return free_status::done;
    if (put_back(c, superblock_of(block, from), simt::uint32_t{1} << from.index())) retire_one(c);
    return free_status::done;
  }

  // Blocks become their superblock's again. True if it is wholly free now. It may be gone when this returns.
  GPUHEAP_FN bool put_back(unsigned c, char* superblock, simt::uint32_t blocks) const {
    // acq_rel: releases the accesses to the blocks, and carries those of earlier frees to whoever takes the bits.
    simt::uint32_t const before = free_blocks(superblock).fetch_or(blocks, simt::acq_rel);
    if (before == 0) list_superblock(c, superblock);
    if ((before | blocks) != all_blocks) return false;
    // relaxed: a hint for those who would give it back.
    word32{of_class(c).wholly_free}.fetch_add(1, simt::relaxed);
    return true;
  }
  GPUHEAP_FN void list_superblock(unsigned c, char* superblock) const {
    // Never full: there are at most as many superblocks as places, each is listed once, and it leaves its place before its bits are taken.
    (void)second_level(c).try_push(to_word(superblock));
  }
  // A superblock of the second level with all its free blocks, which are the caller's from now on; nullptr: there is none.
  [[nodiscard]] GPUHEAP_FN char* take_superblock(unsigned c, simt::uint32_t& blocks) const {
    simt::uint64_t word = 0;
    if (!second_level(c).try_pop(word)) return nullptr;
    // acquire: pairs with put_back(); release: later frees list it again, after it has left the queue.
    blocks = free_blocks(to_pointer(word)).exchange(0, simt::acq_rel);
    if (blocks == all_blocks) word32{of_class(c).wholly_free}.fetch_sub(1, simt::relaxed);
    return to_pointer(word);
  }
  // A superblock that the caller took with all its blocks.
  GPUHEAP_FN void give_back(unsigned c, char* superblock) const {
    (void)detail::free_in(backing_, superblock);
    // release: the backing has the memory before another superblock may be made.
    word32{of_class(c).superblocks}.fetch_sub(1, simt::release);
  }
  GPUHEAP_FN void begin_move() const {
    moves().begin();
    // release: pops are relaxed, and whoever finds that something has left its queue shall see that it is being moved.
    simt::fence(simt::release);
  }
  // Looks at one superblock of the second level, if it holds more than the class keeps: back to the backing if it is wholly free, to the
  // queue's end if not. Called once for each that became wholly free.
  GPUHEAP_FN void retire_one(unsigned c) const {
    if (second_level(c).size() <= simt::plain_read(of_class(c).spare)) return;
    begin_move();
    retire(c);
    moves().end();
  }
  // False: the second level is empty. Within a move.
  GPUHEAP_FN bool retire(unsigned c) const {
    simt::uint32_t blocks = 0;
    char* const superblock = take_superblock(c, blocks);
    if (superblock == nullptr) return false;
    if (blocks == all_blocks) {
      give_back(c, superblock);
    } else {
      put_back(c, superblock, blocks);
    }
    return true;
  }

  // ---- refill

  // When the first level has none: waits for one, or brings a superblock; nullptr when nothing is left.
  [[nodiscard]] GPUHEAP_FN char* wait_for_block(unsigned c) const {
    word64 const word = refills(c);
    // relaxed: counts. A read-modify-write reads the latest number of failures.
    unsigned const failures_before = refill_word::failures(word.fetch_add(refill_word::waiter_one, simt::relaxed));
    simt::back_off pause;
    search_state search;
    simt::uint64_t block = 0;
    // Ends: a waiting lane is served, or becomes a refiller, or learns that a search made after it came found nothing. While it waits there
    // is a refiller (waiters need one for every num_blocks of them), who waits for nobody who waits here: for the backing and for cells'
    // turns. A lane whose own search found nothing waits until no refill is under way, and refills no more unless something moved
    // meanwhile; all others come to that too, so there is such a moment. The refill lies inside the loop, so that no lane is kept with it.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      // acquire: pairs with the end of refills: what they brought is seen below.
      simt::uint64_t now = word.load(simt::acquire);
      if (pop_block(c, block)) {
        done = true;
      } else if (((refill_word::failures(now) - failures_before) & 0xffff) - 2 < 0x7fff) {
        // The second of these searches began after the first had ended, and the first ended after this lane came.
        done = true;
      } else if (search.done && refill_word::refillers(now) == 0) {
        done = nothing_is_left(c, search);
        search.done = false;
      } else if (!search.done && refill_word::refillers(now) * num_blocks < refill_word::waiters(now) &&
                 word.compare_exchange(now, now + refill_word::refiller_one, simt::acquire, simt::relaxed)) {
        search = {moves().look(), refill_word::failures(now), true};
        block = to_word(refill(c));
        // release: pairs with the load above.
        word.fetch_sub(refill_word::refiller_one, simt::release);
        done = block != 0;
      } else {
        pause.wait();
      }
    }
    word.fetch_sub(refill_word::waiter_one, simt::relaxed);
    return to_pointer(block);
  }
  struct search_state {
    simt::uint64_t moves = 0;  // before it
    unsigned failures = 0;
    bool done = false;
  };
  // After a search that found nothing, with no refill under way since: whether the class has nothing now, and nothing moved meanwhile.
  [[nodiscard]] GPUHEAP_FN bool nothing_is_left(unsigned c, search_state search) const {
    bool some = second_level(c).size() != 0;
    // Ends: one pass per list.
    GPUHEAP_NO_UNROLL
    for (unsigned l = 0; l < num_lists; ++l) some |= list(c, l).size() != 0;
    if (some || !structures::transit_count::quiet(search.moves) || moves().look_again() != search.moves) return false;
    word64 const word = refills(c);
    simt::uint64_t now = word.load(simt::relaxed);
    // Ends: a pass that goes on lost the word to another lane, and no search counts twice. Lock-free. relaxed: a count.
    GPUHEAP_NO_UNROLL
    while (refill_word::failures(now) == search.failures &&
           !word.compare_exchange(now, now + refill_word::failure_one, simt::relaxed, simt::relaxed)) {
    }
    return true;
  }

  // As a refiller: a block for the caller, and others for the first level; nullptr: there is nothing.
  [[nodiscard]] GPUHEAP_FN char* refill(unsigned c) const {
    simt::uint32_t blocks = 0;
    char* superblock = nullptr;
    // Ends: flush() says true only if there was something in a queue, which it has taken out. Another pass needs other threads' frees.
    GPUHEAP_NO_UNROLL
    while (true) {
      superblock = take_superblock(c, blocks);
      if (superblock == nullptr) superblock = new_superblock(c, blocks);
      if (superblock != nullptr) break;
      if (!flush()) return from_backing(layout::class_bytes(c));
    }
    char* const kept = block_at(superblock, c, simt::lowest_bit(blocks));
    blocks &= blocks - 1;
    queue const to = list(c, home());
    simt::uint32_t ticket = 0;
    unsigned const room = to.claim_pushes(simt::popcount(blocks), ticket);
    // Ends: one pass per block.
    GPUHEAP_NO_UNROLL
    for (unsigned n = 0; n < room; ++n, blocks &= blocks - 1)
      to.put(ticket + n, to_word(block_at(superblock, c, simt::lowest_bit(blocks))));
    to.publish(room);
    if (blocks != 0) put_back(c, superblock, blocks);
    return kept;
  }
  [[nodiscard]] GPUHEAP_FN static char* block_at(char* superblock, unsigned c, unsigned index) {
    return superblock + header_bytes + index * layout::block_bytes(c) + header_bytes;
  }
  // Likewise, with all its blocks.
  [[nodiscard]] GPUHEAP_FN char* new_superblock(unsigned c, simt::uint32_t& blocks) const {
    class_state& s = of_class(c);
    word32 const held{s.superblocks};
    // acquire: pairs with give_back().
    char* superblock = nullptr;
    if (held.fetch_add(1, simt::acquire) < simt::plain_read(s.second_capacity)) {
      superblock = static_cast<char*>(backing_.malloc(layout::superblock_bytes(c)));
    }
    if (superblock == nullptr) {
      held.fetch_sub(1, simt::relaxed);
      return nullptr;
    }
    blocks = all_blocks;
    // relaxed: published with the blocks.
    free_blocks(superblock).store(0, simt::relaxed);
    word32{reinterpret_cast<simt::uint32_t*>(superblock)[1]}.store(c, simt::relaxed);
    // Ends: one pass per block.
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i < num_blocks; ++i) {
      char* const block = block_at(superblock, c, i);
      simt::size_t const distance = static_cast<simt::size_t>(block - superblock) - header_bytes;
      word64{*origin_word(block)}.store(origin::of_superblock(c, i, distance).bits, simt::relaxed);
    }
    return superblock;
  }

  // Gives the backing all that no block of is out, of every class. False: there was nothing in any queue to look at.
  GPUHEAP_FN bool flush() const {
    bool any = false;
    // Ends: one pass per class.
    GPUHEAP_NO_UNROLL
    for (unsigned c = 0; c < num_classes; ++c) {
      // Ends: one pass per list.
      GPUHEAP_NO_UNROLL
      for (unsigned l = 0; l < num_lists; ++l) any |= list(c, l).size() != 0;
      any |= static_cast<int>(word32{of_class(c).wholly_free}.load(simt::relaxed)) > 0;
    }
    if (!any) return false;
    begin_move();
    // Ends: one pass per class.
    GPUHEAP_NO_UNROLL
    for (unsigned c = 0; c < num_classes; ++c) flush_class(c);
    moves().end();
    return true;
  }
  GPUHEAP_FN void flush_class(unsigned c) const {
    // Ends: one pass per list.
    GPUHEAP_NO_UNROLL
    for (unsigned l = 0; l < num_lists; ++l) {
      simt::uint64_t block = 0;
      // Ends: as many passes as the list had entries.
      GPUHEAP_NO_UNROLL
      for (unsigned n = list(c, l).size(); n != 0 && list(c, l).try_pop(block); --n) {
        origin const from = read_origin(to_pointer(block));
        put_back(c, superblock_of(to_pointer(block), from), simt::uint32_t{1} << from.index());
      }
    }
    if (static_cast<int>(word32{of_class(c).wholly_free}.load(simt::relaxed)) <= 0) return;
    // Ends: as many passes as the queue had entries: what is put back comes after them.
    GPUHEAP_NO_UNROLL
    for (unsigned n = second_level(c).size(); n != 0 && retire(c); --n) {
    }
  }

  // ---- direct blocks

  // One try.
  [[nodiscard]] GPUHEAP_FN char* from_backing(simt::size_t bytes) const {
    bytes = simt::round_up_pow2(bytes, 16);
    auto* const memory = static_cast<char*>(backing_.malloc(bytes + header_bytes));
    if (memory == nullptr) return nullptr;
    char* const block = memory + header_bytes;
    word64{*origin_word(block)}.store(origin::of_backing(bytes).bits, simt::relaxed);
    return block;
  }
  [[nodiscard]] GPUHEAP_FN char* direct_block(simt::size_t bytes) const {
    // Not worth a flush.
    if (bytes > simt::plain_read(state_->heap_bytes)) return nullptr;
    simt::back_off pause;
    char* block = nullptr;
    // Ends: a pass that goes on moved something itself, or saw another thread do so. Moves are bounded and wait for nothing here; who only
    // fails moves nothing.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      simt::uint64_t const seen = moves().look();
      block = from_backing(bytes);
      if (block != nullptr) {
        done = true;
      } else if (!flush()) {
        done = structures::transit_count::quiet(seen) && moves().look_again() == seen;
        if (!done) pause.wait();
      }
    }
    return block;
  }

  typename layout::state* state_ = nullptr;
  Backing backing_{};
};

using xmalloc = basic_xmalloc<>;
static_assert(device_allocator<xmalloc>);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE

#if GPUHEAP_HAS_HOST
#include <gpuheap/allocators/xmalloc/host.hpp>
#endif
