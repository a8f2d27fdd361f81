// `kma`: superblocks of 4096 bytes, which a queue holds while they are free. Each size class has some superblocks from which it hands out
// blocks.
//   R. Spliet, L. Howes, B. R. Gaster, A. L. Varbanescu, "KMA: A Dynamic Memory Manager for OpenCL", GPGPU-7, 2014.
// This is the paper's lower layer, the generic manager. Its upper layer, lists and queues that take pages from it, is in
// gpuheap/containers/: paged_list.hpp and paged_queue.hpp, for any heap. opencl/kma.cl is the manager in OpenCL C.
//
// Layout of a region:
//   | state | words, hints, bits of superblocks | queued bits | room sets | queue | superblocks of 4096 bytes ...                   |
//
//   word of a superblock   {class, blocks in use}, one word (slab_word.hpp). A superblock has 256 blocks of 16 bytes, or 128 of 32, ...,
//                          or 1 of 4096; or it is part of a run of superblocks
//   bits                   a bit for each block in use; hints at full words of these (hinted_bits.hpp)
//   heads, queue, sets     the places where superblocks are found: see kma/manager.hpp
//
// malloc:    for a request of up to a superblock, malloc raises the count of a head of the class by one compare-exchange. Then it takes a
//            bit by an atomic OR; its search for a clear bit begins at the count. If no head has room, malloc makes a head of a superblock
//            of the class's room set, or of a free one from the queue. For a request of more than a superblock it takes a run of adjacent
//            free superblocks (page_runs.hpp).
// free:      clears the block's bit, then lowers the superblock's count. The free that lowers it to 0 puts the superblock into the
//            queue. If the superblock was full, the free puts it into the room set.
// Reuse:     a freed block serves its class at once. A superblock without live blocks serves any class, and runs.
// Progress:  blocking. malloc and free wait for their turn at a cell of the queue (ring_queue.hpp), that is, for the thread that used the
//            cell one lap before. A malloc that finds no block also waits for relocations, and for a superblock that another thread has
//            claimed for an incomplete run; that thread waits for no thread. A malloc that does not wait is lock-free. Before malloc
//            returns nullptr, it has found all places empty while no relocation was open, or has loaded every superblock's word. A request
//            for a run may be refused while another thread has claimed superblocks that it then gives back.
// Misuse:    a second free, or a pointer at which nothing begins, is refused as long as the superblock is the same as at the first free.
//            After the superblock's next opening, a stale pointer may equal that of a live block, as in any allocator. A second free that
//            is under way at that time may clear a bit of the superblock's new contents.
//
// Different from the paper and its code, and why:
//   - Class and count are one word, and a thread raises the count only by an exchange of the whole word. In the paper a late thread may
//     take a block of a superblock that has another class by then.
//   - A head is a guess that the superblock's word confirms. In the paper nothing confirms it: the thread that took the last block stores
//     0, whatever the head is by then, so a superblock is lost, or a second one is installed. And all threads that find the mark "being
//     installed", or a head that is full or closed, wait for another thread, which may be a lane of their own warp that cannot run.
//   - A class has several heads, up to 32 depending on the heap's size, and the lanes of a warp that want the same class add to the count
//     together. In the paper all threads of a class change one word.
//   - A superblock that was full and has room again is found through its class's room set. In the paper it is found only when all of its
//     blocks are free.
//   - The queue is a ring_queue: threads claim its places and entries, a cell says whose turn it is, and no superblock stays behind in the
//     queue. In the paper a tag of 11 bits guards links of 16 bits, which suffice for 256 MiB at most.
//   - The manager's metadata lies outside the superblocks. So the returned pointers are aligned to 16 bytes, sizes are powers of two that
//     fill a superblock exactly (in the paper 124, 252, 508, ... bytes, as header and bits lie in the superblock), and a program that
//     writes before a block's start does not damage the metadata.
//   - A free that finds its block's bit clear is a second free, and changes no count.
//   - Requests may exceed a superblock. The paper's manager refuses more than 4080 bytes.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/kma/manager.hpp>
#include <gpuheap/allocators/kma/verify.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace kma_parts {

// The parts of the allocator. Tests replace some of them by parts with a mistake.
struct parts {
  using slab = structures::slab_state;
  using bits = structures::free_bits;
  using blocks = structures::hinted_bits;
  template <kma_config Config, class Parts>
  using state = manager<Config, Parts>;
};

}  // namespace kma_parts

template <kma_config Config = kma_config{}, class Parts = kma_parts::parts>
class basic_kma {
 public:
  using state_type = typename Parts::template state<Config, Parts>;
  using layout_type = kma_parts::layout<Config, Parts>;

  static constexpr allocator_traits traits{
      .name = "kma",
      .title = "KMA",
      .paper = "Spliet, Howes, Gaster, Varbanescu: KMA: A Dynamic Memory Manager for OpenCL, GPGPU-7, 2014",
      .year = 2014,
      .reuse = "a block: requests of its class; a superblock of which nothing is in use: any request",
      .detects_double_free = true,
      .detects_foreign_free = true,
  };

  basic_kma() = default;

  // Returns memory of `bytes` > 0 bytes; nullptr if there is none.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > Config.superblock_bytes) return malloc_run(bytes);
    unsigned const c = layout_type::class_for(static_cast<unsigned>(bytes)), capacity = layout_type::capacity(c);
    // The mask is captured once for the whole call.
    simt::lane_mask const here = simt::active_mask();
    // The group: the lanes that ask this heap for the same class. If a superblock has fewer blocks than a warp has lanes, at most that many
    // adjacent lanes form a group. The state's address is a multiple of 128 and has at most 57 bits, so the shifted address leaves the low
    // bits free.
    static_assert(layout_type::num_classes <= 1u << 7);
    unsigned const neighbours = simt::lane_id() / capacity;
    auto group = structures::warp_group::of_equal(here, reinterpret_cast<simt::uintptr_t>(state_) << 5 | neighbours << 7 | c);
    simt::lane_mask const mine = simt::lane_mask{1} << simt::lane_id();
    void* p = nullptr;
    // `group`: the lanes that have no answer yet.
    // Ends: in each pass, a group has at least one lane served, or all of its lanes answered.
    GPUHEAP_NO_UNROLL
    do {
      unsigned const leader = group.mask != 0 ? group.leader() : simt::lane_id();
      kma_parts::grant got;
      if ((group.mask & mine) != 0 && group.leads()) got = reserve(c, group.size(), neighbours);
      got = kma_parts::grant::unpacked(simt::shuffle(here, got.packed(), leader));
      // The other lanes acquire what the leader acquired.
      simt::sync_warp(here);
      unsigned const room = got.none() ? simt::warp_lanes : capacity - got.before.fill(), rank = group.rank();
      if ((group.mask & mine) != 0 && !got.none() && rank < room) p = at_.take_block(got.superblock, c, got.before.fill() + rank);
      group.mask = room < group.size() ? group.mask & (simt::all_lanes << simt::nth_set_bit(group.mask, room)) : 0;
    } while (simt::any_of(here, group.mask != 0));
    return p;
  }

  GPUHEAP_FN free_status free(void* p) const {
    if (p == nullptr) return free_status::null;
    // release: publishes the owner's accesses to the memory. Pairs with the acquire half of the claim by which the next owner takes it.
    simt::fence(simt::release);
    kma_parts::place const at = locate(p);
    if (!at.exact) return free_status::foreign;
    if (at.seen.is_free()) return free_status::double_free;
    if (at.seen.kind() == kma_parts::run_head) return state_->give_run(at.superblock) ? free_status::done : free_status::double_free;
    // The bit is cleared first: it must be clear before the lower count lets other threads search for it. The result of release_block()
    // shows that it is clear.
    if (!at_.release_block(at)) return free_status::double_free;
    unsigned const c = at.seen.kind() - 1, before = at_.state(at.superblock).release(1).fill();
    if (before == 1 || before == layout_type::capacity(c)) state_->has_room_again(at.superblock, c, before);
    return free_status::done;
  }

  // Returns the bytes that the owner of the block at p may use; 0 for a pointer at which nothing begins.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void const* p) const {
    kma_parts::place const at = locate(p);
    if (!at.exact || at.seen.is_free()) return 0;
    if (at.seen.kind() == kma_parts::run_head) return simt::size_t{state_->length_of(at.superblock)} * Config.superblock_bytes;
    return layout_type::class_bytes(at.seen.kind() - 1);
  }
  static constexpr bool rounded_size_is_exact = true;
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t rounded_size(simt::size_t bytes) {
    if (bytes > Config.superblock_bytes) return simt::round_up_or_same(bytes, Config.superblock_bytes);
    return layout_type::class_bytes(layout_type::class_for(static_cast<unsigned>(bytes)));
  }
  // Whether p is the address of a live block.
  [[nodiscard]] GPUHEAP_FN bool is_live(void const* p) const {
    kma_parts::place const at = locate(p);
    return at.exact && !at.seen.is_free() && (at.seen.kind() == kma_parts::run_head || at_.has_owner(at));
  }
  // Whether p lies in a superblock.
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const {
    auto const* const byte = static_cast<char const*>(p);
    return byte >= at_.superblocks && static_cast<simt::size_t>(byte - at_.superblocks) / Config.superblock_bytes < at_.num_superblocks;
  }

#if GPUHEAP_HAS_HOST
  // ---- host

  [[nodiscard]] static simt::size_t min_region_bytes() { return layout_type::bytes_for(4, sizeof(state_type)); }

  // Initialises the region in stream order and returns the view. The region may be in use by an earlier heap, which is forgotten.
  [[nodiscard]] static basic_kma create(memory::region where, stream_ref stream) {
    auto const base = simt::round_up_pow2(reinterpret_cast<simt::uintptr_t>(where.base), layout_type::part_alignment);
    simt::uintptr_t behind = 0;
    basic_kma heap;
    heap.at_ = layout_type::over(base, sizeof(state_type), layout_type::superblocks_within(where.bytes, sizeof(state_type)), behind);
    heap.state_ = reinterpret_cast<state_type*>(base);
    heap.region_bytes_ = where.bytes;
    state_type initial{};
    initial.at = heap.at_;
    for (auto& of_class : initial.heads) {
      for (auto& head : of_class) head = kma_parts::no_superblock;
    }
    initial.runs.end += heap.at_.num_superblocks;
    simt::copy(heap.state_, &initial, sizeof initial, stream);
    // The words between the state and the queue are zero at first.
    simt::fill(heap.at_.states, 0, static_cast<simt::size_t>(heap.at_.queue_memory - reinterpret_cast<char*>(heap.at_.states)), stream);
    launch(heap.at_.queue().capacity(), kma_parts::fill_queue<layout_type>{heap.at_}, {.stream = stream});
    return heap;
  }

  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const {
    auto const found = kma_parts::count_superblocks(at_, state_, false, stream);
    return {found.held * Config.superblock_bytes, region_bytes_ - simt::size_t{at_.num_superblocks} * Config.superblock_bytes, 0};
  }

  // Checks the whole heap. Waits for the stream; no kernel may be running on the heap.
  [[nodiscard]] kma_parts::audit verify(stream_ref stream) const { return kma_parts::verify(at_, state_, stream); }
#endif

  // The layout and the state, for tests and tools.
  [[nodiscard]] GPUHEAP_HD layout_type const& geometry() const { return at_; }
  [[nodiscard]] GPUHEAP_HD state_type* state() const { return state_; }

 private:
  // Reserves up to `wanted` blocks of class c in one superblock. `further` spreads the groups of one warp over the heads.
  [[nodiscard]] GPUHEAP_FN kma_parts::grant reserve(unsigned c, unsigned wanted, unsigned further) const {
    unsigned const h = (simt::sm_id() + further) % at_.num_heads;
    kma_parts::uint32_t const s = state_->head(c, h).load(simt::relaxed);  // relaxed: a guess, which the word confirms
    if (s != kma_parts::no_superblock) {
      auto const state = at_.state(s);
      kma_parts::slab_word const before = state.look();
      if (layout_type::has_room(before, c)) {
        unsigned const room = layout_type::capacity(c) - before.fill();
        kma_parts::slab_word seen = before;
        if (state.reserve(seen, room < wanted ? room : wanted)) return {s, before};
      }
    }
    return state_->search(c, wanted, h);
  }

  // Returns a run of superblocks for `bytes` bytes, or nullptr.
  GPUHEAP_FN void* malloc_run(simt::size_t bytes) const {
    // This comes before any arithmetic that could wrap around.
    if (bytes > simt::size_t{at_.num_superblocks} * Config.superblock_bytes) return nullptr;
    return state_->take_run(simt::ceil_div(bytes, Config.superblock_bytes));
  }

  // The block or run that begins at p, if the result is `exact`.
  [[nodiscard]] GPUHEAP_FN kma_parts::place locate(void const* p) const {
    kma_parts::place at;
    if (!owns(p)) return at;
    auto const offset = static_cast<simt::size_t>(static_cast<char const*>(p) - at_.superblocks);
    at.superblock = static_cast<kma_parts::uint32_t>(offset / Config.superblock_bytes);
    at.seen = at_.state(at.superblock).look();
    auto const within = static_cast<unsigned>(offset % Config.superblock_bytes);
    unsigned const kind = at.seen.kind();
    if (kind == 0 || kind > layout_type::num_classes) {
      at.exact = kind == kma_parts::run_head && within == 0;
      return at;
    }
    at.block = within / layout_type::class_bytes(kind - 1);
    at.exact = within % layout_type::class_bytes(kind - 1) == 0;
    return at;
  }

  layout_type at_;
  state_type* state_ = nullptr;
  simt::size_t region_bytes_ = 0;
};

using kma = basic_kma<>;
static_assert(device_allocator<kma> && answers_free<kma> && has_exact_rounded_size<kma>);
#if GPUHEAP_HAS_HOST
static_assert(has_verify<kma> && has_footprint<kma>);
#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
