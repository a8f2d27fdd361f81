// `dynasoar`: blocks of up to 64 objects of one class, whose fields form a structure of arrays. Hierarchical bitmaps find the blocks.
// DynaSOAr is an allocator of objects. This file is its interface as an allocator of bytes; object_heap.hpp declares and makes objects with
// fields.
//   M. Springer, H. Masuhara, "DynaSOAr: A Parallel Memory Allocator for Object-Oriented Programming on GPUs with Efficient Memory Access",
//   ECOOP 2019.
//
// Layout:    pool (dynasoar/layout.hpp): state | bitmaps of blocks: free; for each class active, allocated | words of each block | blocks
//            behind it the backing's part, backing_percent of the heap
//   block    1 KiB: 64 slots of the smallest class, which is how the paper sizes blocks, or as many slots of another class as fit. A free
//            bit for each slot and the tag {class, capacity} lie in 16 bytes outside of the block
//   classes  in the paper, the user declares them. Here there is one class for each size of size_classes.hpp up to a block's, and the bytes
//            are its only field
//
// malloc:    the lanes of a warp that want one class take the slots of an active block by one AND. A thread that finds no free slot in five
//            active blocks opens a free block (dynasoar/blocks.hpp). Requests larger than a block go to the backing.
// free:      sets the slot's bit by an OR. The first free in a full block makes it active. The free of the last live slot closes the block,
//            so that any class can open it.
// Reuse:     a freed slot serves its class at once. A block without live slots serves any class. The backing reuses its own memory; pool
//            and backing do not exchange memory.
// Progress:  malloc is blocking: a request that finds no memory waits, before it returns nullptr, for threads that are moving a block
//            between its states, which wait for no thread. A request that finds memory is lock-free. free: lock-free.
// Misuse:    a second free is refused while its block has live slots or is free, and so is a pointer into the middle of a slot. This is not
//            exact: two simultaneous frees of the last slot of a block can damage the block's words. So the traits promise neither refusal.
//
// Different from the paper, and why (its abstract and published code):
//   - Pointers are addresses here, and in object_heap.hpp 8-byte handles of a type of their own. The published ones are handles that look
//     like addresses.
//   - While a thread has a slot of a block, the block's class cannot change. Only then does a thread change the block's states, and it
//     changes the states of the class that the block has. If the thread wants another class, it gives the slots back with the capacity of
//     the block's class. The published code first changes the states of the requested class, which can hang, and undoes this with the wrong
//     capacity, which can allocate memory twice.
//   - A block is closed by a compare-exchange of "all free" against "none". The published code exchanges all bits of a block that is not
//     empty and puts them back; meanwhile requests find the block full.
//   - A thread that sets or clears the active bit of a block compares the bit with the block's state again afterwards. In the published
//     code each thread repeats its change until it flips the bit itself, and waits for a thread that has yet to flip it the other way.
//   - A request that finds no memory gets nullptr; the published search never ends. A second free is refused; the published one never ends.
//   - A summary bit of a bitmap is missing at most while a thread is changing the bitmap (bitmap_tree.hpp), and a search that such a change
//     crossed is repeated. The published search can fail although there are blocks.
//   - The words of all blocks form one array; in the published code they take 64 bytes in front of each block. So blocks are aligned to
//     their size, and a pass over all blocks reads contiguous words.
//   - Warps are identified by their place in the grid, because the hardware's number of a warp may change while the warp runs.
//   - A class inherits fields from one base class at most, without virtual functions. In the published code, a class is marked as abstract;
//     here a base class is abstract if it is not among the heap's classes.
//   - Two features are left out: the pass that moves objects together (CompactGpu, ISMM 2019), because pointers cannot be found and
//     rewritten here; and arrays of objects. The benchmark's case field_access measures the gain by structures of arrays.
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/allocator_members.hpp>
#include <gpuheap/allocators/backing.hpp>
#include <gpuheap/allocators/dynasoar/blocks.hpp>
#include <gpuheap/allocators/dynasoar/verify.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/warp.hpp>
#include <gpuheap/structures/size_classes.hpp>
#include <gpuheap/structures/warp_group.hpp>

#if GPUHEAP_HAS_HOST
#include <string>
#endif

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// The sizes of blocks and of the backing.
struct dynasoar_config {
  unsigned smallest_bytes = 16;   // bytes of the smallest object, a power of two; 64 of them make a block
  unsigned backing_percent = 50;  // percent of the heap's bytes for the backing, which serves requests larger than a block
};

template <dynasoar_config Config = dynasoar_config{}, class Backing = default_backing, class Pool = soa::block_pool>
class basic_dynasoar {
 public:
  static constexpr unsigned block_bytes = Config.smallest_bytes * soa::free_slots::most;
  static_assert(Config.smallest_bytes >= 16 && (Config.smallest_bytes & (Config.smallest_bytes - 1)) == 0);

  // The same allocator over another backing.
  template <class Other>
  using with_backing = basic_dynasoar<Config, Other, Pool>;

  static constexpr allocator_traits traits{
      .name = "dynasoar",
      .title = "DynaSOAr",
      .paper =
          "Springer, Masuhara: DynaSOAr: A Parallel Memory Allocator for Object-Oriented Programming on GPUs with Efficient Memory "
          "Access, ECOOP 2019",
      .year = 2019,
      .variant = "sizes as classes of objects, before a backing heap",
      .reuse = "a slot: its class; a block of which nothing is in use: any class; beyond 1 KiB as the backing says",
      .largest_bytes = block_bytes,
      .process_wide = Backing::traits.process_wide,
      .full_reuse = Backing::traits.full_reuse,
  };

  // Returns memory of `bytes` > 0 bytes; nullptr if neither pool nor backing has a place for it.
  [[nodiscard]] GPUHEAP_FN void* malloc(simt::size_t bytes) const {
    if (bytes > block_bytes) return backing_.malloc(bytes);
    unsigned const c = class_of(static_cast<unsigned>(bytes));
    // The group: the lanes that ask this pool for this class. The pool's address is a multiple of 256, so the class fits into its low bits.
    auto const group = structures::warp_group::of_equal(simt::active_mask(), reinterpret_cast<simt::uintptr_t>(pool_.base) | c);
    soa::place const at = pool_.take(group, c, capacity(c));
    return at.none() ? nullptr : pool_.block(at.block) + at.slot * slot_bytes(c);
  }

  GPUHEAP_FN free_status free(void* p) const {
    if (p == nullptr) return free_status::null;
    if (!pool_.holds(p)) return detail::free_in(backing_, p);
    spot const at = locate(p);
    if (at.tag.is_free()) return free_status::double_free;
    if (!at.exact) return free_status::foreign;
    // release: publishes the owner's accesses to the memory. Pairs with the acquire half of the claim by which the next owner takes it.
    simt::fence(simt::release);
    soa::free_slots::word const bit = soa::free_slots::word{1} << at.slot;
    return (pool_.deallocate(at.block, at.tag, bit) & bit) == 0 ? free_status::done : free_status::double_free;
  }

  // Returns the bytes that the owner of the block at p may use; 0 for a pointer into the pool at which no slot begins.
  [[nodiscard]] GPUHEAP_FN simt::size_t usable_size(void* p) const requires has_usable_size<Backing> {
    if (!pool_.holds(p)) return backing_.usable_size(p);
    spot const at = locate(p);
    return at.exact ? slot_bytes(at.tag.kind()) : 0;
  }
  // Whether p is the address of a live block.
  [[nodiscard]] GPUHEAP_FN bool is_live(void* p) const requires has_usable_size<Backing> {
    if (!pool_.holds(p)) return backing_.usable_size(p) != 0;
    spot const at = locate(p);
    if (at.tag.is_free() || !at.exact) return false;
    // relaxed: the answer is exact for the block's owner, and a guess for any other thread.
    auto const free = simt::global_ref<soa::free_slots::word>{pool_.blocks()[at.block].free}.load(simt::relaxed);
    return (free >> at.slot & 1) == 0;
  }
  static constexpr bool rounded_size_is_exact = has_exact_rounded_size<Backing>;
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t rounded_size(simt::size_t bytes) requires has_rounded_size<Backing> {
    return bytes > block_bytes ? Backing::rounded_size(bytes) : slot_bytes(class_of(static_cast<unsigned>(bytes)));
  }
  [[nodiscard]] GPUHEAP_FN bool owns(void const* p) const requires has_owns<Backing> { return pool_.holds(p) || backing_.owns(p); }

#if GPUHEAP_HAS_HOST
  // The fewest bytes that hold a pool of one block, and the bytes that the backing needs.
  [[nodiscard]] static simt::size_t min_region_bytes() {
    simt::size_t const own = soa::pool_layout::bytes_for(1, num_classes, block_bytes);
    if (Backing::min_region_bytes() == 0) return own;
    simt::size_t const shared = simt::round_up_pow2(own * 100 / (100 - Config.backing_percent), 256) + 512;
    simt::size_t const apart = simt::round_up_pow2(own, 256) + 256 + Backing::min_region_bytes();
    return shared > apart ? shared : apart;
  }
  [[nodiscard]] static simt::size_t own_bytes(simt::size_t region_bytes) requires(Backing::traits.process_wide) {
    return cut::own_bytes_of(region_bytes, Config.backing_percent);
  }
  [[nodiscard]] static simt::size_t granted_bytes() requires has_granted_bytes<Backing> { return Backing::granted_bytes(); }

  [[nodiscard]] static basic_dynasoar create(memory::region region, stream_ref stream) {
    cut const parts = cut::of(region, Config.backing_percent);
    basic_dynasoar a;
    static_cast<soa::pool_layout&>(a.pool_) = soa::pool_layout::over({region.base, parts.own_bytes}, num_classes, block_bytes);
    soa::initialise(a.pool_, stream);
    a.backing_ = Backing::create(parts.rest, stream);
    return a;
  }

  // Held bytes are whole blocks of the pool, and those of the backing. The peak is not recorded. Waits for the stream.
  [[nodiscard]] allocator_footprint footprint(stream_ref stream) const requires has_footprint<Backing> {
    allocator_footprint all = backing_.footprint(stream);
    all.held_bytes += simt::size_t{soa::held_blocks(pool_, stream)} * block_bytes;
    all.metadata_bytes += pool_.metadata_bytes();
    all.peak_held_bytes = 0;
    return all;
  }

  // Checks the pool, and the backing if it has verify(). Waits for the stream; no kernel may be running on the heap.
  [[nodiscard]] soa::audit verify(stream_ref stream) const {
    soa::audit found = soa::verify(pool_, stream);
    if constexpr (has_verify<Backing>) {
      if (found.problem.empty()) found.problem = backing_.verify(stream).problem;
    }
    return found;
  }
#endif

  // The pool, for tests and tools.
  [[nodiscard]] GPUHEAP_HD Pool const& pool() const { return pool_; }

 private:
#if GPUHEAP_HAS_HOST
  using cut = detail::backing_cut<Backing>;
#endif

  // Class 0 is the class of Config.smallest_bytes in size_classes.hpp; the other classes follow in order.
  static constexpr unsigned first_class = structures::size_classes::class_of(Config.smallest_bytes);
  static constexpr unsigned num_classes = structures::size_classes::class_of(block_bytes) + 1 - first_class;
  static_assert(num_classes <= 256, "a class and the pool's address are one word");
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned class_of(unsigned bytes) {
    return bytes <= Config.smallest_bytes ? 0 : structures::size_classes::class_of(bytes) - first_class;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned slot_bytes(unsigned c) {
    return structures::size_classes::slot_bytes(c + first_class);
  }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned capacity(unsigned c) {
    return structures::size_classes::slot_of(c + first_class, block_bytes);
  }

  // A block of the pool, its tag, and the slot in it; `exact` if a pointer is the start of that slot.
  struct spot {
    simt::uint32_t block = 0;
    unsigned slot = 0;
    soa::block_tag tag{};
    bool exact = false;
  };
  [[nodiscard]] GPUHEAP_FN spot locate(void const* p) const {
    auto const offset = static_cast<simt::size_t>(static_cast<char const*>(p) - pool_.data);
    spot at;
    at.block = static_cast<simt::uint32_t>(offset / block_bytes);
    at.tag = pool_.tag_of(at.block);
    if (at.tag.is_free()) return at;
    auto const within = static_cast<unsigned>(offset % block_bytes);
    unsigned const c = at.tag.kind();
    at.slot = structures::size_classes::slot_of(c + first_class, within);
    at.exact = at.slot * slot_bytes(c) == within && at.slot < at.tag.capacity();
    return at;
  }

  Pool pool_{};
  Backing backing_{};
};

using dynasoar = basic_dynasoar<>;
static_assert(device_allocator<dynasoar> && device_allocator<basic_dynasoar<dynasoar_config{}, refusing_backing>>);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
