// `bulkalloc`: BulkAllocator. A request is served in two steps: it acquires a unit of a bulk semaphore, which guarantees that there is
// memory for it, and then finds this memory. Requests that get no unit make new units, and many requests may do so at the same time.
//   I. Gelado, M. Garland, "Throughput-oriented GPU memory allocation", PPoPP 2019.
//
// Layout of a region:
//   | state: orders | arenas | trees of orders | words of pages | pages of 4096 bytes ...                                          |
//
//   order    a semaphore and a bit for each available node of one height of the buddy tree over the pages (bulkalloc/tbuddy.hpp)
//   word     for each page, what begins there: a block of 2^order pages, a chunk, or a block that was freed
//   arena    at most one for each multiprocessor: a list of bins for each size, with a semaphore and read-copy-update; a list of chunks,
//            with a mutex
//   chunk    a block of 64 pages (fewer in a small heap) with 62 bins, each of which holds up to 4096 bytes of objects
//            (bulkalloc/ualloc.hpp has a drawing)
//
// malloc:    sizes are powers of two. Up to 1024 bytes: one lane acquires units of the arena's class for all lanes of its warp that ask for
//            the same size; it then finds a bin in the class's list, and takes bits of the bin's objects. If there are too few units, the
//            lane makes a bin of a page of a chunk; if the arena has no chunk with a free page, the lane takes a chunk from the tree. A
//            larger request acquires a unit of its order, and takes a node; if there are no units, it splits a node of the next higher
//            order that has one. If the arena and the tree have nothing, a small request tries the other arenas, and then takes a page for
//            its object alone.
// free:      an address that is not a multiple of 4096 is an object's; the chunk begins at this address rounded down. The free clears the
//            object's bit, corrects the bin's count, and adds a unit. An empty bin goes back to its chunk when no reader is left, and an
//            empty chunk to the tree. An address that is a multiple of 4096 is a block's, and the word of its page has the block's order.
//            Two buddies that are both available are joined.
// Reuse:     an empty bin serves any size in its arena; the pages of an empty chunk serve any request.
// Progress:  blocking. malloc waits for threads that have promised units. These wait at most for promises of larger blocks, so the last of
//            them waits for no thread. Locks are held while links change, and holders never wait. malloc returns nullptr if no arena and no
//            order has memory for it, and no thread has promised any. free waits for the lock of a list or chunk. Of the threads whose
//            frees empty bins of a list, one at a time waits for the threads that walk the list, on behalf of all.
// Misuse:    a second free, or a pointer at which nothing begins, is refused until the memory of the bin or block gets another use. A
//            second free that is under way at that moment may clear a bit of the new contents.
//
// Different from the paper, and why:
//   - Chunks have 64 pages: 62 bins and as many tails. The paper's chunks have 128 pages, which contradicts its numbers of tails and of
//     bits.
//   - The tree has no locks and no partial nodes, which guide the paper's searches; here the summaries of the bits guide them. With locks,
//     many changes would contend for the few nodes near the root.
//   - Buddies are joined after both are available, by one step on the word that has both bits, so the later of two frees sees the earlier
//     one. In the paper a block is joined before it is made available. If two buddies are freed at the same time, each free may find the
//     other block in use, and they stay apart. A thread that has units for a pair, and finds the pair broken, returns the units and
//     searches again.
//   - The word of a block's first page has its order. The paper guesses the order from the states of the nodes above.
//   - Threads wait only while enough units are promised. A thread whose promise fails withdraws it, so that the waiting threads continue.
//   - A list has only bins with free objects, and a warp takes as much as it can from one bin: no long walks over bins with few objects.
//   - Readers load the epoch twice. Of the threads that retire bins, only the runner waits for the readers (structures/rcu.hpp).
//   - Requests are served from other arenas and from single pages before they fail: the memory of one multiprocessor's arena is not lost
//     for the others.
//   - The lanes of a warp that come to the lock of one list hold its collective mutex together. Each lane has a bin of its own to link, so
//     they act one after the other under one acquisition. In the paper they act at the same time.
//   - Objects of 8 bytes take 16 bytes, since malloc's results are aligned to 16.
//   - A pool need not be a power of two, nor aligned to more than a page: chunks and buddies are found by the distance from its start.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/bulkalloc/ualloc.hpp>
#include <gpuheap/allocators/bulkalloc/verify.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace bulk {

// The parts of the allocator. Tests replace some of them by parts with a mistake.
struct parts {
  using semaphore = structures::bulk_semaphore;
  using mutex = structures::collective_mutex;
  using readers = structures::rcu;
  using bits = structures::hinted_bits;
  template <class Parts>
  using tree = tbuddy<Parts>;
  template <class Parts>
  using state = heap_state<Parts>;
};

// Kernel: thread i initialises arena i, and makes the pool's node of order i available, if the pool has one.
template <class Parts>
struct make_heap {
  heap_state<Parts>* state;
  GPUHEAP_FN void operator()(unsigned i) const {
    geometry const at = state->at();
    if (i < at.num_arenas) {
      at.arenas[i] = arena{};
    }
    // The pool consists of a node for each set bit of its number of pages, the largest first.
    if (i <= at.top && (at.num_pages >> i & 1) != 0) state->blocks.publish((at.num_pages >> i) - 1, i, 0);
  }
};

}  // namespace bulk

template <bulkalloc_config Config = bulkalloc_config{}, class Parts = bulk::parts>
class basic_bulkalloc {
 public:
  using state_type = typename Parts::template state<Parts>;
  using tree_type = typename state_type::tree;
  static_assert(Config.chunk_pages >= 4 && Config.chunk_pages <= 64 && (Config.chunk_pages & (Config.chunk_pages - 1)) == 0);
  static_assert(Config.max_arenas != 0 && Config.max_arenas < 1u << state_type::search::arena_bits);

  static constexpr allocator_traits traits{
      .name = "bulkalloc",
      .title = "BulkAllocator",
      .paper = "Gelado, Garland: Throughput-oriented GPU memory allocation, PPoPP 2019",
      .year = 2019,
      .reuse = "a bin of which nothing is in use: any size of its arena; a chunk without bins in use: any request",
      .detects_double_free = true,
      .detects_foreign_free = true,
  };

  basic_bulkalloc() = default;

  // Returns memory of `bytes` > 0 bytes; nullptr if there is none.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    // The mask is captured once for the whole call.
    simt::lane_mask const here = simt::active_mask();
    unsigned const c = bytes <= largest_object ? bulk::class_of(bytes) : bulk::num_classes;
    bool const small = c < bulk::num_classes;
    void* p = nullptr;
    if (simt::any_of(here, small)) p = malloc_small(here, small, c);
    bool const wants_pages = p == nullptr && bytes <= simt::size_t{num_pages_} * bulk::page_bytes;
    if (simt::any_of(here, wants_pages)) {
      unsigned const order = small || !wants_pages ? 0 : simt::ceil_log2(simt::ceil_div(bytes, bulk::page_bytes));
      bool const asks = wants_pages && num_pages_ >> order != 0;
      auto group = structures::warp_group::of_equal(here, state_->blocks.key_of(asks, order));
      if (!asks) group.mask = 0;
      bulk::uint32_t const page = tree_type::take_for(&state_->blocks, here, group, order);
      if (page != bulk::no_page) {
        // relaxed: other threads get the pointer through the program's own synchronisation, which orders this store for them.
        simt::global_ref<bulk::uint32_t>{words_[page]}.store(bulk::page_word::of(order, bulk::page_word::live).bits, simt::relaxed);
        p = pool_ + simt::size_t{page} * bulk::page_bytes;
      }
    }
    return p;
  }

  GPUHEAP_FN free_status free(void* p) const {
    if (p == nullptr) return free_status::null;
    // release: publishes the owner's accesses to the memory. Pairs with the acquire half of the claim by which the next owner takes it.
    simt::fence(simt::release);
    place const at = locate(p);
    if (at.status != free_status::done) return at.status;
    if (at.is_block()) {
      auto const word = simt::global_ref<bulk::uint32_t>{words_[at.page]};
      bulk::uint32_t expected = bulk::page_word::of(at.order, bulk::page_word::live).bits;
      // relay: passes on what that fence released, to the thread that takes the block next. Of two frees, only one finds the block live.
      if (!word.compare_exchange(expected, bulk::page_word::of(at.order, bulk::page_word::freed).bits, simt::relay, simt::relaxed))
        return free_status::double_free;
    } else if (!state_type::objects_of(bin_at(at.page), at.c).release(at.object)) {
      return free_status::double_free;
    }
    // The lanes that have freed a block or an object.
    simt::lane_mask const here = simt::active_mask();
    // The leaders' steps come after the accesses of all lanes.
    simt::sync_warp(here);
    if (simt::any_of(here, !at.is_block())) {
      auto const group =
          structures::warp_group::of_equal(here, at.is_block() ? simt::uintptr_t{0} : reinterpret_cast<simt::uintptr_t>(&bin_at(at.page)));
      if (!at.is_block() && group.leads()) state_type::give_objects(state_, at.arena, at.c, at.page, group.size());
    }
    if (simt::any_of(here, at.is_block()))
      tree_type::give(&state_->blocks, here, at.is_block() ? at.page >> at.order : bulk::no_page, at.order);
    return free_status::done;
  }

  // Returns the bytes that the owner of the block at p may use; 0 for a pointer at which nothing begins.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void const* p) const {
    place const at = locate(p);
    if (at.status != free_status::done) return 0;
    return at.is_block() ? simt::size_t{bulk::page_bytes} << at.order : bulk::object_bytes(at.c);
  }
  // The bytes that a request takes. A small request may get a whole page instead.
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t rounded_size(simt::size_t bytes) {
    if (bytes <= largest_object) return bulk::object_bytes(bulk::class_of(bytes));
    return bytes <= bulk::page_bytes ? bulk::page_bytes : bytes > simt::size_t{1} << 63 ? bytes : simt::size_t{1} << simt::ceil_log2(bytes);
  }
  // Whether p is the address of a live block.
  [[nodiscard]] GPUHEAP_FN bool is_live(void const* p) const {
    place const at = locate(p);
    if (at.status != free_status::done || at.is_block()) return at.status == free_status::done;
    using segment = structures::free_bits;
    // relaxed: the bit was set before its owner got the pointer.
    auto const taken = state_type::objects_of(bin_at(at.page), at.c).segment(at.object / segment::most).ref().load(simt::relaxed);
    return (taken >> (at.object % segment::most) & 1) != 0;
  }
  // Whether p lies in a page.
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const {
    auto const* const byte = static_cast<char const*>(p);
    return byte >= pool_ && static_cast<simt::size_t>(byte - pool_) / bulk::page_bytes < num_pages_;
  }

#if GPUHEAP_HAS_HOST
  // ---- host

  [[nodiscard]] static simt::size_t min_region_bytes() {
    bulk::uint64_t* trees = nullptr;
    simt::uintptr_t end = 0;
    (void)bulk::geometry::over(nullptr, min_pages, Config, num_sms(), sizeof(state_type), trees, end);
    return end + bulk::page_bytes + bulk::geometry::part_alignment;
  }

  // Initialises the region in stream order and returns the view. The region may be in use by an earlier heap, which is forgotten.
  [[nodiscard]] static basic_bulkalloc create(memory::region where, stream_ref stream) {
    auto const base = simt::round_up_pow2(reinterpret_cast<simt::uintptr_t>(where.base), alignof(state_type));
    memory::region const aligned{reinterpret_cast<void*>(base), where.bytes - (base - reinterpret_cast<simt::uintptr_t>(where.base))};
    state_type initial{};
    bulk::uint64_t* trees = nullptr;
    bulk::geometry const at = bulk::geometry::within(aligned, Config, num_sms(), sizeof(state_type), trees);
    initial.blocks.at = at;
    bulk::uint64_t* next = trees;
    for (unsigned order = 0; order <= at.top; ++order) {
      initial.blocks.orders[order].available = bulk::bitmap_tree::over(next, at.leaves_of(at.num_pages, order), 1);
      next += at.tree_words(at.num_pages, order);
    }
    basic_bulkalloc heap;
    heap.state_ = reinterpret_cast<state_type*>(base);
    heap.pool_ = at.pool;
    heap.words_ = at.words;
    heap.num_pages_ = at.num_pages;
    heap.chunk_pages_ = at.chunk_pages;
    heap.num_arenas_ = at.num_arenas;
    heap.region_bytes_ = where.bytes;
    simt::copy(heap.state_, &initial, sizeof initial, stream);
    simt::fill(trees, 0, static_cast<simt::size_t>(next - trees) * sizeof *trees, stream);
    simt::fill(at.words, 0, simt::size_t{at.num_pages} * sizeof *at.words, stream);
    unsigned const threads = at.num_arenas < bulk::max_orders ? bulk::max_orders : at.num_arenas;
    launch(threads, bulk::make_heap<Parts>{heap.state_}, {.block_threads = 32, .stream = stream});
    return heap;
  }

  // Held bytes include the unused parts of chunks. The peak is not recorded. Waits for the stream.
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const {
    bulk::uint32_t free_pages = 0;
    // Only the words of the semaphores are copied, since tests' parts of the state may not be copyable.
    for (unsigned order = 0; order != bulk::max_orders; ++order) {
      structures::bulk_semaphore::word units = 0;
      simt::copy(&units, &state_->blocks.orders[order].units, sizeof units, stream);
      simt::synchronize(stream);
      free_pages += static_cast<bulk::uint32_t>(structures::bulk_semaphore::count(units)) << order;
    }
    return {simt::size_t{num_pages_ - free_pages} * bulk::page_bytes, region_bytes_ - simt::size_t{num_pages_} * bulk::page_bytes, 0};
  }

  // Checks the whole heap. Waits for the stream; no kernel may be running on the heap.
  [[nodiscard]] bulk::audit verify(stream_ref stream) const { return bulk::verify<Parts>(state_, stream); }
#endif

  // The state, for tests and tools.
  [[nodiscard]] GPUHEAP_HD state_type* state() const { return state_; }

 private:
  static constexpr unsigned largest_object = 1024;
  static constexpr unsigned min_pages = 8;
  static_assert(bulk::class_of(largest_object) == bulk::num_classes - 1);

  // The object or block at a pointer.
  struct place {
    free_status status = free_status::foreign;  // done: a live block, or an object whose bit may be clear already
    bulk::uint32_t page = 0;                    // the first page of the block, or the page of the bin
    bulk::uint32_t arena = 0;
    bulk::uint16_t order = 0;
    bulk::uint16_t c = bulk::num_classes;  // num_classes: a block
    bulk::uint32_t object = 0;
    [[nodiscard]] GPUHEAP_FN bool is_block() const { return c == bulk::num_classes; }
  };

  [[nodiscard]] GPUHEAP_FN bulk::bin_header& bin_at(bulk::uint32_t page) const {
    return *reinterpret_cast<bulk::bin_header*>(pool_ + simt::size_t{page} * bulk::page_bytes);
  }
  // relaxed: a thread that frees a live block got its pointer from a thread that saw this word.
  [[nodiscard]] GPUHEAP_FN bulk::page_word word_at(bulk::uint32_t page) const {
    return {simt::global_ref<bulk::uint32_t>{words_[page]}.load(simt::relaxed)};
  }

  // Allocates an object of class c for each lane of `here` that `wants` one. All lanes of `here` call. Returns the lane's object, or
  // nullptr.
  [[nodiscard]] GPUHEAP_FN void* malloc_small(simt::lane_mask here, bool wants, unsigned c) const {
    using search = typename state_type::search;
    auto group = structures::warp_group::of_equal(here, reinterpret_cast<simt::uintptr_t>(state_) | c);
    if (!wants) group.mask = 0;
    c = wants ? c : 0;  // lanes that do not ask have class 0
    simt::lane_mask const mine = simt::lane_mask{1} << simt::lane_id();
    // The multiprocessor's number is read once, since the thread may run on another one later.
    search where{simt::sm_id() % num_arenas_};
    void* p = nullptr;
    // Ends: in each pass, a group has at least one lane served, or all of its lanes answered.
    GPUHEAP_NO_UNROLL
    do {
      unsigned const leader = group.mask != 0 ? group.leader() : simt::lane_id();
      bulk::object_grant got;
      if ((group.mask & mine) != 0 && group.leads()) got = state_type::take_objects(state_, c, group.size(), where);
      // If a group was served in part, the next pass has another leader, which needs the state of the search.
      where = search::unpacked(simt::shuffle(here, where.packed(), leader));
      bulk::uint64_t const said = simt::shuffle(here, bulk::uint64_t{got.page} << 32 | got.before << 16 | got.count, leader);
      // The other lanes acquire what the leader acquired.
      simt::sync_warp(here);
      auto const page = static_cast<bulk::uint32_t>(said >> 32);
      unsigned const count = said & 0xffff, before = said >> 16 & 0xffff, rank = group.rank();
      if ((group.mask & mine) != 0 && rank < count) {
        // The objects of a bin are mostly taken in order, so the search for a free one begins behind as many objects as were not free.
        unsigned const object = before == 0 ? rank : state_type::objects_of(bin_at(page), c).claim(bulk::objects(c) - before + rank);
        p = state_->at().object_at(page, c, object);
      }
      bool const rest = count != 0 && count < group.size();
      group.mask = rest ? group.mask & (simt::all_lanes << simt::nth_set_bit(group.mask, count)) : 0;
    } while (simt::any_of(here, group.mask != 0));
    return p;
  }

  // Finds the object or block that begins at p.
  [[nodiscard]] GPUHEAP_FN place locate(void const* p) const {
    place at;
    if (!owns(p)) return at;
    auto const offset = static_cast<simt::size_t>(static_cast<char const*>(p) - pool_);
    at.page = static_cast<bulk::uint32_t>(offset / bulk::page_bytes);
    auto const within = static_cast<unsigned>(offset % bulk::page_bytes);
    bulk::page_word const word = word_at(at.page);
    if (within == 0 && word.has(bulk::page_word::live) && !word.has(bulk::page_word::chunk)) {
      at.order = static_cast<bulk::uint16_t>(word.order());
      at.status = free_status::done;
      return at;
    }
    bulk::uint32_t const first = at.page & ~(chunk_pages_ - 1);
    if (within == 0 || !word_at(first).has(bulk::page_word::chunk)) {
      at.status = why_refused(state_, at.page);
      return at;
    }
    locate_object(at, first, within);
    return at;
  }
  // Finds the object at byte `within` of page at.page, which lies in the chunk that begins at page `first`.
  GPUHEAP_FN void locate_object(place& at, bulk::uint32_t first, unsigned within) const {
    bulk::geometry const& all = state_->at();
    unsigned const header_pages = all.header_pages(), page = at.page - first;
    if (within < bulk::header_bytes) return;
    unsigned data = within - bulk::header_bytes;
    if (page < header_pages) {
      unsigned const tail = page * bulk::tails_per_page + data / bulk::tail_bytes;
      if (tail >= chunk_pages_ - header_pages) return;
      at.page = first + header_pages + tail;
      data = bulk::data_bytes + data % bulk::tail_bytes;
    }
    // relaxed, all: a bin in use has its words, and a thread that frees an object is ordered after the thread that got the object.
    auto& chunk = *reinterpret_cast<bulk::chunk_header*>(&bin_at(first));
    if ((simt::global_ref<bulk::uint64_t>{chunk.touched}.load(simt::relaxed) >> (at.page - first) & 1) == 0) return;
    unsigned const c = simt::global_ref<bulk::uint32_t>{bin_at(at.page).info}.load(simt::relaxed) & (bulk::bin_header::linked - 1);
    if (c >= bulk::num_classes || data % bulk::object_bytes(c) != 0 || data / bulk::object_bytes(c) >= bulk::objects(c)) return;
    bool const in_use = (simt::global_ref<bulk::uint64_t>{chunk.used}.load(simt::relaxed) >> (at.page - first) & 1) != 0;
    at.c = static_cast<bulk::uint16_t>(c);
    at.object = data / bulk::object_bytes(c);
    at.arena = simt::global_ref<bulk::uint32_t>{chunk.arena}.load(simt::relaxed);
    at.status = in_use ? free_status::done : free_status::double_free;
  }
  // The status of a refused free of a pointer into `page`, at which nothing live begins: `double_free` if the page lies in a freed block
  // and in no live one, otherwise `foreign`.
  GPUHEAP_COLD static free_status why_refused(state_type* state, bulk::uint32_t page) {
    bulk::geometry const& all = state->at();
    bool freed = false;
    GPUHEAP_NO_UNROLL
    for (unsigned order = 0; order <= all.top; ++order) {
      // relaxed: a guess, which only names the mistake.
      bulk::page_word const word{all.word(page >> order << order).load(simt::relaxed)};
      if (word.order() < order) continue;
      if (word.has(bulk::page_word::live)) return free_status::foreign;
      freed |= word.has(bulk::page_word::freed);
    }
    return freed ? free_status::double_free : free_status::foreign;
  }

#if GPUHEAP_HAS_HOST
  [[nodiscard]] static unsigned num_sms() {
    unsigned const n = simt::query_device().num_sms;
    return n == 0 ? 1 : n;
  }
#endif

  state_type* state_ = nullptr;
  char* pool_ = nullptr;
  bulk::uint32_t* words_ = nullptr;
  bulk::uint32_t num_pages_ = 0;
  bulk::uint16_t chunk_pages_ = 0, num_arenas_ = 0;
  simt::size_t region_bytes_ = 0;
};

using bulkalloc = basic_bulkalloc<>;
static_assert(device_allocator<bulkalloc> && answers_free<bulkalloc>);
#if GPUHEAP_HAS_HOST
static_assert(has_verify<bulkalloc> && has_footprint<bulkalloc>);
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
