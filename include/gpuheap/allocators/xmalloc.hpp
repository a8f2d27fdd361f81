// `xmalloc`: the requests of a warp become one request, which bounded queues of free blocks serve before a slow backing heap does.
//   X. Huang, C. Rodrigues, S. Jones, I. Buck, W. Hwu, "XMalloc: A Scalable Lock-free Dynamic Memory Allocator for Many-core Machines", CIT
//   2010; "Scalable SIMD-parallel Memory Allocation for Many-core Machines", The Journal of Supercomputing 64(3), 2013.
//
// Layout of the allocator's own memory:
//   +0             state {relocation count, sizes}, and for each class {refill word, counts, place of its second level}
//   first level    for each class `lists_per_class` queues of blocks, `list_capacity` long
//   second level   for each class a queue of superblocks that have a free block, long enough for all superblocks that fit
// Layout of the memory from the backing:
//   superblock     +0 a bit for each free block  +4 class                  +16 blocks, `blocks_per_superblock` of one size, end to end
//   block          +0 origin {direct, class, index, distance to the superblock / 16}; of a direct block the size of its payload
//                  +8 live pieces                +12 tag                   +16 payload
//   merged block   a block whose payload is cut into pieces. A tag of 4 bytes lies before each piece, that of the first at +12
//   tag            {kind : 2 (1 piece, 2 block), live : 1, usable bytes / 4 : 7, distance to the merged block / 16 : 10, check : 12}
//
// malloc:    lanes that call together with less than `merge_below` bytes each make one request. The lowest lane takes a block for all, and
//            each lane gets a piece. A block comes from a queue of its class, the lane's own queue first. If all queues of the class are
//            empty, a lane takes a superblock from the second level, or else a new one from the backing. One exchange takes all free blocks
//            of that superblock: the lane keeps one, the others go to the first level, and those that find no room there go back to the
//            superblock. Requests above the largest class go to the backing.
// free:      the last live piece of a merged block frees the block. A block goes to the lane's queue of the first level, or to its
//            superblock if that queue is full.
// Reuse:     a freed block serves its class. A merged block is reusable when all its pieces are free, not before. When a superblock has
//            become wholly free and the second level holds more than `spare_percent` of the heap, the level's first superblock leaves it:
//            to the backing if it is wholly free, otherwise to the level's end. When the backing is exhausted, the blocks of the first
//            level go back to their superblocks, and then all wholly free superblocks to the backing.
// Progress:  malloc of a piece or block is blocking: it may wait for a refill of its class. A refill waits only for the backing and for the
//            turn of a queue's cell (ring_queue.hpp). free waits only for these two as well. malloc of a direct block may also wait for
//            another thread that gives memory to the backing.
//
// A superblock is in the second level, or on its way there, if and only if it has a free block: the thread that returns the first bit puts
// the superblock there, and the thread that takes it out takes all bits. These two events alternate, so a superblock is in the queue at
// most once. A thread that took the bits of all N blocks is alone with the superblock, since no thread has a block of it, and no queue
// holds it. Such a superblock can go back to the backing.
//
// The design is that of 2013. In the heap of 2010 memory blocks form a linked list, which a request searches and splits by
// compare-and-swap. Here the backing takes the place of that list, so refills neither walk a list nor contend for its head.
//
// Different from the paper and from the published code:
// - pieces are cut by a scan over one captured mask of lanes, not through a warp's slot in shared memory;
// - the queues are ring_queue: a thread claims places and entries instead of testing for full and empty, and each cell says whose turn it
//   is;
// - of every N lanes that wait for a class (N is blocks_per_superblock), at most one refills the class, and this lane keeps a block of the
//   superblock. N misses therefore take only one superblock, and the refilling lane cannot lose its block to other lanes;
// - all bits of a superblock are taken at once, so the published count, version tag and cap of ten million passes are not needed;
// - superblocks go back to the backing. If the backing refuses a superblock, a direct block serves the request, if the backing has one;
// - the returned pointers are aligned to 16 bytes, pointers are stored in full, and sizes have 64 bits;
// - a tag holds a checksum of its address. A free of a pointer without a valid tag is refused. A second free of a block is refused as long
//   as its memory is not used again. Neither check is exact, so the traits promise neither.
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
#include <gpuheap/structures/relocation_count.hpp>
#include <gpuheap/structures/ring_queue.hpp>
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
  static constexpr simt::size_t header_bytes = layout::header_bytes, largest_request = simt::size_t{1} << 60;  // more than any backing has
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
      .reuse = "a block: its class, a merged one once all its pieces are free; a superblock of which nothing is in use: any request",
      .process_wide = Backing::traits.process_wide,
      .reuses_singly = false,
      .full_reuse = Backing::traits.full_reuse,
  };

  // Returns memory of `bytes` > 0 bytes; nullptr if there is none. Lanes that call together may share a block.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > largest_request) return nullptr;  // before any sum that could wrap around
    // The lanes that ask this heap for a small block.
    auto const group =
        structures::warp_group::of_equal(simt::active_mask(), bytes < Config.merge_below ? to_word(reinterpret_cast<char*>(state_)) : 0);
    bool together = bytes < Config.merge_below && group.size() > 1;
    piece_place place;
    if (together) place = piece_in(group, static_cast<unsigned>(bytes));
    char* block = nullptr;
    // Ends: at most two passes. If the sum of the requests does not fit, each single request still may.
    GPUHEAP_NO_UNROLL
    while (true) {
      if (!together || group.leads()) block = allocate(together ? place.end : bytes);
      if (!together) break;
      // relaxed: the lanes free their pieces after the barrier below.
      if (block != nullptr && group.leads()) word32{*live_word(block)}.store(group.size(), simt::relaxed);
      // The barrier passes on to the other lanes what the leader acquired.
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
    // relaxed: only one of several frees gets the bit; the operations below order memory.
    if (!tag{word32{*tag_word(block)}.fetch_and(~tag::live, simt::relaxed)}.is_live()) return free_status::double_free;
    if (found.is_piece()) {
      block -= found.distance();
      // consume_release: releases the accesses to this piece, and orders those to the other pieces before the block's next use.
      if (word32{*live_word(block)}.fetch_sub(1, simt::consume_release) != 1) return free_status::done;
    }
    return free_block(block);
  }

  // The usable bytes of a live block; 0 for a pointer that free() would refuse.
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
  // The fewest bytes that hold the queues, and the bytes that the backing needs. Beyond own_bytes_for(0), the queues take less than an
  // eighth of a region.
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

  // The result of verify(), which counts blocks in queues as free.
  struct report {
    std::string problem;
    simt::uint64_t superblocks = 0;   // superblocks of all classes
    simt::uint64_t listed = 0;        // those in the second level
    simt::uint64_t wholly_free = 0;   // those of the second level whose blocks are all free
    simt::uint64_t first_level = 0;   // blocks in the first level
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

  // ---- own memory

  [[nodiscard]] GPUHEAP_FN class_state& of_class(unsigned c) const { return state_->classes[c]; }
  [[nodiscard]] GPUHEAP_FN word64 refills(unsigned c) const { return word64{of_class(c).refill}; }
  [[nodiscard]] GPUHEAP_FN structures::relocation_count relocations() const { return {&state_->moves}; }
  [[nodiscard]] GPUHEAP_FN queue list(unsigned c, unsigned l) const {
    return {reinterpret_cast<char*>(state_) + layout::list_at(c, l), Config.list_capacity};
  }
  [[nodiscard]] GPUHEAP_FN queue second_level(unsigned c) const {
    class_state const& s = of_class(c);
    return {reinterpret_cast<char*>(state_) + simt::plain_read(s.second_at), simt::plain_read(s.second_capacity)};
  }
  // The queue of a class at which this lane looks first.
  [[nodiscard]] GPUHEAP_FN static unsigned home() { return simt::global_warp() % num_lists; }

  // ---- blocks' words

  [[nodiscard]] GPUHEAP_FN static simt::uint64_t* origin_word(char* block) { return reinterpret_cast<simt::uint64_t*>(block - 16); }
  [[nodiscard]] GPUHEAP_FN static simt::uint32_t* live_word(char* block) { return reinterpret_cast<simt::uint32_t*>(block - 8); }
  [[nodiscard]] GPUHEAP_FN static simt::uint32_t* tag_word(char* p) { return reinterpret_cast<simt::uint32_t*>(p - 4); }

  [[nodiscard]] GPUHEAP_FN simt::uint32_t check_of(char const* p) const {
    return tag::check_of(reinterpret_cast<simt::uintptr_t>(p), reinterpret_cast<simt::uintptr_t>(state_));
  }
  // relaxed, all three: a thread that reads a tag or an origin got the pointer from the thread that wrote it, or from a queue.
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

  // The place of a lane's piece in the group's block, and the end of the last piece.
  struct piece_place {
    unsigned begin = 0, usable = 0, end = 0;
  };
  [[nodiscard]] GPUHEAP_FN static piece_place piece_in(structures::warp_group group, unsigned bytes) {
    // A piece takes its own bytes and those of the next piece's tag.
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

  // Returns the payload of a block, or nullptr. The caller writes its tag.
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
    GPUHEAP_NO_UNROLL
    for (unsigned l = 0; l < num_lists; ++l) {
      if (list(c, first ^ l).try_pop(block)) return true;
    }
    return false;
  }

  // Frees a block, which no thread owns from now on. `block`: its payload.
  GPUHEAP_FN free_status free_block(char* block) const {
    origin const from = read_origin(block);
    if (from.is_direct()) return detail::free_in(backing_, block - header_bytes);
    unsigned const c = from.size_class();
    if (list(c, home()).try_push(to_word(block))) return free_status::done;
    if (put_back(c, superblock_of(block, from), simt::uint32_t{1} << from.index())) retire_one(c);
    return free_status::done;
  }

  // Puts `blocks`, a bit for each, back into their superblock. Returns whether the superblock is wholly free now. When the call returns,
  // another thread may have given the superblock back to the backing.
  GPUHEAP_FN bool put_back(unsigned c, char* superblock, simt::uint32_t blocks) const {
    // acq_rel: releases the accesses to the blocks, and passes on those of earlier frees to the thread that takes the bits.
    simt::uint32_t const before = free_blocks(superblock).fetch_or(blocks, simt::acq_rel);
    if (before == 0) list_superblock(c, superblock);
    if ((before | blocks) != all_blocks) return false;
    // relaxed: a hint for threads that give superblocks back.
    word32{of_class(c).wholly_free}.fetch_add(1, simt::relaxed);
    return true;
  }
  GPUHEAP_FN void list_superblock(unsigned c, char* superblock) const {
    // The queue is never full: it has a place for each superblock, a superblock is listed once, and it leaves its place before its bits are
    // taken.
    (void)second_level(c).try_push(to_word(superblock));
  }
  // Takes a superblock from the second level with all its free blocks, which the caller owns from now on. Returns nullptr if the level is
  // empty.
  [[nodiscard]] GPUHEAP_FN char* take_superblock(unsigned c, simt::uint32_t& blocks) const {
    simt::uint64_t word = 0;
    if (!second_level(c).try_pop(word)) return nullptr;
    // acquire: pairs with put_back(). release: later frees list the superblock again, after it has left the queue.
    blocks = free_blocks(to_pointer(word)).exchange(0, simt::acq_rel);
    // relaxed: a hint, as in put_back().
    if (blocks == all_blocks) word32{of_class(c).wholly_free}.fetch_sub(1, simt::relaxed);
    return to_pointer(word);
  }
  // Gives the backing a superblock that the caller took with all its blocks.
  GPUHEAP_FN void deallocate(unsigned c, char* superblock) const {
    (void)detail::free_in(backing_, superblock);
    // release: the backing has the memory before a thread may make another superblock.
    word32{of_class(c).superblocks}.fetch_sub(1, simt::release);
  }
  // Begins a move: a relocation of blocks or superblocks.
  GPUHEAP_FN void begin_move() const {
    relocations().begin();
    // release: pops are relaxed. A thread that misses an entry in its queue must see that a move is under way.
    simt::fence(simt::release);
  }
  // If the second level holds more superblocks than the class keeps, takes one. If it is wholly free, it goes to the backing, and otherwise
  // to the queue's end. Called once for each superblock that becomes wholly free.
  GPUHEAP_FN void retire_one(unsigned c) const {
    if (second_level(c).size() <= simt::plain_read(of_class(c).spare)) return;
    begin_move();
    retire(c);
    relocations().end();
  }
  // Takes a superblock as retire_one() does, without the test of the level's size, during a move that the caller has begun. Returns false
  // if the second level is empty.
  GPUHEAP_FN bool retire(unsigned c) const {
    simt::uint32_t blocks = 0;
    char* const superblock = take_superblock(c, blocks);
    if (superblock == nullptr) return false;
    if (blocks == all_blocks) {
      deallocate(c, superblock);
    } else {
      put_back(c, superblock, blocks);
    }
    return true;
  }

  // ---- refill

  // Called when the first level has no block: waits for a block, or refills the class from a superblock. Returns nullptr if no memory is
  // left.
  [[nodiscard]] GPUHEAP_FN char* wait_for_block(unsigned c) const {
    word64 const word = refills(c);
    // relaxed: counts. A read-modify-write reads the latest number of failures.
    unsigned const failures_before = refill_word::failures(word.fetch_add(refill_word::waiter_one, simt::relaxed));
    simt::back_off pause;
    search_state search;
    simt::uint64_t block = 0;
    // Ends: a waiting lane is served, or becomes a refiller, or learns that a search which began after its own arrival found nothing. While
    // it waits, there is a refiller, one for every num_blocks waiters. A refiller waits for no lane of this loop, only for the backing and
    // for the turns of cells. A lane whose own search found nothing waits until no refill is under way, and refills again only if something
    // moved meanwhile. All other lanes come to the same point, so there is a moment without a refill. The refill lies inside the loop, so
    // that no lane of the warp has to wait behind it.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      // acquire: pairs with the end of a refill, whose blocks are seen below.
      simt::uint64_t now = word.load(simt::acquire);
      if (pop_block(c, block)) {
        done = true;
      } else if (((refill_word::failures(now) - failures_before) & 0xffff) - 2 < 0x7fff) {
        // Two searches have failed since this lane arrived. The second began after the first had ended, so it began after the arrival.
        done = true;
      } else if (search.done && refill_word::refillers(now) == 0) {
        done = nothing_is_left(c, search);
        search.done = false;
        if (!done) pause.wait();
      } else if (!search.done && refill_word::refillers(now) * num_blocks < refill_word::waiters(now) &&
                 word.compare_exchange(now, now + refill_word::refiller_one, simt::acquire, simt::relaxed)) {
        search = {relocations().read_begin(), refill_word::failures(now), true};
        block = to_word(refill(c));
        // release: pairs with the load above.
        word.fetch_sub(refill_word::refiller_one, simt::release);
        done = block != 0;
      } else {
        pause.wait();
      }
    }
    // relaxed: a count.
    word.fetch_sub(refill_word::waiter_one, simt::relaxed);
    return to_pointer(block);
  }
  struct search_state {
    simt::uint64_t moves = 0;  // the relocation count before the search
    unsigned failures = 0;
    bool done = false;
  };
  // After a search that found nothing, while no refill is under way: whether the class has no block now, and nothing has moved since.
  [[nodiscard]] GPUHEAP_FN bool nothing_is_left(unsigned c, search_state search) const {
    bool some = second_level(c).size() != 0;
    GPUHEAP_NO_UNROLL
    for (unsigned l = 0; l < num_lists; ++l) some |= list(c, l).size() != 0;
    if (some || !structures::relocation_count::quiet(search.moves) || relocations().read_end() != search.moves) return false;
    word64 const word = refills(c);
    simt::uint64_t now = word.load(simt::relaxed);
    // Ends: a pass that is repeated lost the word to another lane, and each search counts once. Lock-free. relaxed: a count.
    GPUHEAP_NO_UNROLL
    while (refill_word::failures(now) == search.failures &&
           !word.compare_exchange(now, now + refill_word::failure_one, simt::relaxed, simt::relaxed)) {
    }
    return true;
  }

  // Called by a refiller: returns a block for the caller, and brings others to the first level. Returns nullptr if no memory is left.
  [[nodiscard]] GPUHEAP_FN char* refill(unsigned c) const {
    simt::uint32_t blocks = 0;
    char* superblock = nullptr;
    // Ends: flush() returns true only if it moved entries of the first level or superblocks. Another pass needs frees of other threads.
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
  // Makes a superblock of memory from the backing, and takes all its blocks. Returns nullptr if the backing has no memory.
  [[nodiscard]] GPUHEAP_FN char* new_superblock(unsigned c, simt::uint32_t& blocks) const {
    class_state& s = of_class(c);
    word32 const held{s.superblocks};
    // acquire: pairs with deallocate().
    char* superblock = nullptr;
    if (held.fetch_add(1, simt::acquire) < simt::plain_read(s.second_capacity)) {
      superblock = static_cast<char*>(backing_.malloc(layout::superblock_bytes(c)));
    }
    if (superblock == nullptr) {
      // relaxed: the count only limits the number of superblocks.
      held.fetch_sub(1, simt::relaxed);
      return nullptr;
    }
    blocks = all_blocks;
    // relaxed: published together with the blocks.
    free_blocks(superblock).store(0, simt::relaxed);
    word32{reinterpret_cast<simt::uint32_t*>(superblock)[1]}.store(c, simt::relaxed);
    GPUHEAP_NO_UNROLL
    for (unsigned i = 0; i < num_blocks; ++i) {
      char* const block = block_at(superblock, c, i);
      simt::size_t const distance = static_cast<simt::size_t>(block - superblock) - header_bytes;
      word64{*origin_word(block)}.store(origin::of_superblock(c, i, distance).bits, simt::relaxed);
    }
    return superblock;
  }

  // Moves the blocks of the first level into their superblocks, and gives the wholly free superblocks to the backing, for all classes.
  // Returns whether it moved any. If a count says that there are some, but other threads are taking them, it returns false after a
  // relocation of nothing, so its caller does not take the heap for exhausted.
  GPUHEAP_FN bool flush() const {
    bool any = false, moved = false;
    GPUHEAP_NO_UNROLL
    for (unsigned c = 0; c < num_classes; ++c) {
      GPUHEAP_NO_UNROLL
      for (unsigned l = 0; l < num_lists; ++l) any |= list(c, l).size() != 0;
      // relaxed: a hint.
      any |= static_cast<int>(word32{of_class(c).wholly_free}.load(simt::relaxed)) > 0;
    }
    if (!any) return false;
    begin_move();
    GPUHEAP_NO_UNROLL
    for (unsigned c = 0; c < num_classes; ++c) moved |= flush_class(c);
    relocations().end();
    return moved;
  }
  // Returns whether it moved a block or superblock.
  GPUHEAP_FN bool flush_class(unsigned c) const {
    bool moved = false;
    GPUHEAP_NO_UNROLL
    for (unsigned l = 0; l < num_lists; ++l) {
      simt::uint64_t block = 0;
      GPUHEAP_NO_UNROLL
      for (unsigned n = list(c, l).size(); n != 0 && list(c, l).try_pop(block); --n) {
        origin const from = read_origin(to_pointer(block));
        put_back(c, superblock_of(to_pointer(block), from), simt::uint32_t{1} << from.index());
        moved = true;
      }
    }
    // relaxed: a hint.
    if (static_cast<int>(word32{of_class(c).wholly_free}.load(simt::relaxed)) <= 0) return moved;
    // retire() puts superblocks back behind the entries that the queue has now, so each entry is visited once.
    GPUHEAP_NO_UNROLL
    for (unsigned n = second_level(c).size(); n != 0 && retire(c); --n) moved = true;
    return moved;
  }

  // ---- direct blocks

  // Returns the payload of a direct block, or nullptr. Asks the backing once.
  [[nodiscard]] GPUHEAP_FN char* from_backing(simt::size_t bytes) const {
    bytes = simt::round_up_pow2(bytes, 16);
    auto* const memory = static_cast<char*>(backing_.malloc(bytes + header_bytes));
    if (memory == nullptr) return nullptr;
    char* const block = memory + header_bytes;
    // relaxed: other threads learn of the block from this one.
    word64{*origin_word(block)}.store(origin::of_backing(bytes).bits, simt::relaxed);
    return block;
  }
  [[nodiscard]] GPUHEAP_FN char* direct_block(simt::size_t bytes) const {
    // If the request exceeds the heap, a flush would not help.
    if (bytes > simt::plain_read(state_->heap_bytes)) return nullptr;
    simt::back_off pause;
    char* block = nullptr;
    // Ends: a pass that is repeated has moved a block or superblock, or saw another thread move one. Moves are bounded, and wait for no
    // thread of this loop. A thread whose flush() returns false moves nothing, and waits if another thread was moving something.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      simt::uint64_t const seen = relocations().read_begin();
      block = from_backing(bytes);
      if (block != nullptr) {
        done = true;
      } else if (!flush()) {
        done = structures::relocation_count::quiet(seen) && relocations().read_end() == seen;
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
