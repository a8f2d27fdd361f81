// TBuddy: blocks of 2^order pages from a binary tree. A request of an order first acquires a unit of a bulk semaphore, then takes an
// available node.
//
// The state of the tree is a bit for each available node, in a bitmap tree for each order, and a word for each page that says what begins
// there.
//
//   publish:   available |= bit;  units += 1
//   take:      units -= 1;        some available bit is cleared
//   merge:     units -= 2;        both bits of a pair, which share a word, are cleared in one step; if one was clear already, units += 2
// So at any time, the number of an order's bits is the sum of its units, of the units that threads hold without a node yet, and of the
// nodes whose units are still to be added. A thread that holds a unit waits for no thread until it has a node or has given the unit back.
#pragma once

#include <gpuheap/allocators/bulkalloc/layout.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::bulk {

// Blocks for `count` lanes of a group. If `nodes` is 0, they are adjacent, and the first one begins at `page`. Otherwise each is the node
// of a set bit of `nodes`, in leaf `page` of the order's tree.
struct block_grant {
  uint64_t nodes = 0;
  uint32_t page = 0;
  uint32_t count = 0;
};

// The buddy tree. It lies in device memory, at the start of the region.
template <class Parts>
struct alignas(128) tbuddy {
  using semaphore = typename Parts::semaphore;
  using answer = typename semaphore::answer;

  geometry at;
  order_slot orders[max_orders];

  [[nodiscard]] GPUHEAP_FN semaphore units(unsigned order) { return {&orders[order].units}; }
  [[nodiscard]] GPUHEAP_FN static unsigned scattered(unsigned num_leaves) {
    return static_cast<unsigned>(uint64_t{simt::global_warp() * 0x9e3779b1u} * num_leaves >> 32);
  }

  // Makes a node available. `promised`: 1 if this thread had promised its unit, else 0.
  GPUHEAP_FN void publish(uint32_t node, unsigned order, unsigned promised) {
    orders[order].available.set(node);
    units(order).signal(1, promised);
  }

  // Takes up to `wanted` (at least 1) available nodes of one leaf. The caller holds a unit for each. Returns the bits of the nodes, and
  // sets `leaf` to their leaf.
  [[nodiscard]] GPUHEAP_FN uint64_t find(unsigned order, unsigned wanted, unsigned& leaf) {
    bitmap_tree const available = orders[order].available;
    uint64_t got = 0;
    simt::back_off pause;
    // Ends: at any time there are at least as many available nodes as units that threads hold. A search that finds no node came to each
    // leaf while other threads had taken its nodes, or before they published others there. Lock-free.
    GPUHEAP_NO_UNROLL
    while (!available.for_each_leaf(scattered(available.num_leaves), [&](unsigned i) {
      leaf = i;
      // relaxed: a guess at the bits that take_mask() will find.
      uint64_t const seen = available.leaf(i).load(simt::relaxed);
      if (seen == 0) {
        (void)available.clear_stale(i);
        return false;
      }
      uint64_t pick = seen;
      if (simt::popcount(seen) > wanted) pick &= simt::low_bits(simt::nth_set_bit(seen, wanted));
      got = available.take_mask(i, pick);
      return got != 0;
    })) {
      pause.wait();
    }
    return got;
  }

  // Takes one block, and returns its first page; no_page if neither the order nor a higher one has a block.
  [[nodiscard]] GPUHEAP_COLD static uint32_t take_block(tbuddy* self, unsigned order) {
    uint32_t page = no_page;
    unsigned height = order, waiting = 0;
    simt::back_off pause;
    // Climbs to an order that has a unit. At each height below, the thread promises the second half of the node that it will split.
    // Ends: `height` rises to the top, or this thread waits for the promise of a thread that has climbed higher; a thread at the top never
    // waits. All promises are kept or withdrawn inside the loop. So no lane that has promised waits at the loop's end for a lane that waits
    // for its promise.
    GPUHEAP_NO_UNROLL
    for (bool done = false; !done;) {
      bool const at_top = height == self->at.top;
      answer said = at_top ? answer::grow : self->units(height).ask(1, 2, waiting);
      if (at_top && self->units(height).try_wait(1)) said = answer::served;
      if (said == answer::served) {
        unsigned leaf = 0;
        uint64_t const bit = self->find(height, 1, leaf);
        page = (leaf * 64 + simt::lowest_bit(bit)) << height;
        // Ends: one pass per height.
        GPUHEAP_NO_UNROLL
        while (height-- > order) self->publish((page >> height) + 1, height, 1);
        done = true;
      } else if (said == answer::again) {
        pause.wait();
      } else if (at_top) {
        // Ends: one pass per height.
        GPUHEAP_NO_UNROLL
        while (height-- > order) self->units(height).fail(1);
        done = true;
      } else {
        ++height;
      }
    }
    return page;
  }

  // Takes `wanted` adjacent blocks from a larger one, and returns the first page; no_page if there is no such block. The rest of the larger
  // block becomes nodes. If one of these is of `order`, its bit is set here, and the caller adds its unit.
  [[nodiscard]] GPUHEAP_COLD static uint32_t take_row(tbuddy* self, unsigned order, unsigned wanted) {
    unsigned const further = simt::ceil_log2(wanted);
    uint32_t const page = take_block(self, order + further);
    if (page == no_page) return no_page;
    // Ends: one pass for each node of the rest.
    GPUHEAP_NO_UNROLL
    for (unsigned i = wanted; i < 1u << further; i += i & (0u - i)) {
      unsigned const up = simt::lowest_bit(i);
      uint32_t const node = (page >> (order + up)) + (i >> up);
      if (up == 0) {
        self->orders[order].available.set(node);
      } else {
        self->publish(node, order + up, 0);
      }
    }
    return page;
  }

  // Takes blocks for up to `wanted` lanes. `held`: units that the caller holds already. `single` becomes true when `wanted` adjacent blocks
  // cannot be had; from then on, each call takes one block.
  [[nodiscard]] GPUHEAP_FN static block_grant take_blocks(tbuddy* self, unsigned order, unsigned wanted, unsigned& held, bool& single) {
    if (held == 0 && !single && wanted > 1 && order + simt::ceil_log2(wanted) <= self->at.top) {
      uint32_t page = no_page;
      // If too few units are there or promised, the thread splits a larger block for all lanes. If the number of lanes is odd, one more
      // node remains for other threads.
      bool const served = self->units(order).wait(wanted, wanted + (wanted & 1), [&] {
        page = take_row(self, order, wanted);
        return page != no_page;
      });
      if (page != no_page) return {0, page, wanted};
      if (served) held = wanted;
    }
    if (held == 0) {
      single = true;
      uint32_t const page = take_block(self, order);
      return {0, page, page == no_page ? 0u : 1u};
    }
    block_grant got;
    got.nodes = self->find(order, held, got.page);
    got.count = simt::popcount(got.nodes);
    held -= got.count;
    return got;
  }
  // The first page of block `rank` of a grant.
  [[nodiscard]] GPUHEAP_FN static uint32_t page_of(block_grant const& got, unsigned order, unsigned rank) {
    if (got.nodes == 0) return got.page + (rank << order);
    return (got.page * 64 + simt::nth_set_bit(got.nodes, rank)) << order;
  }

  // Takes a block for each lane of `group`, and returns its first page; no_page if there is none. All lanes of `here` call. Their groups
  // are the lanes that want the same order; the mask of a lane that wants none is 0.
  [[nodiscard]] GPUHEAP_COLD static uint32_t take_for(tbuddy* self, simt::lane_mask here, structures::warp_group group, unsigned order) {
    simt::lane_mask const mine = simt::lane_mask{1} << simt::lane_id();
    uint32_t page = no_page;
    unsigned held = 0;
    bool single = false;
    // Ends: in each pass, a group has at least one lane served, or all of its lanes answered.
    GPUHEAP_NO_UNROLL
    do {
      unsigned const leader = group.mask != 0 ? group.leader() : simt::lane_id();
      block_grant got;
      if ((group.mask & mine) != 0 && group.leads()) got = take_blocks(self, order, group.size(), held, single);
      got.nodes = simt::shuffle(here, got.nodes, leader);
      got.page = simt::shuffle(here, got.page, leader);
      got.count = simt::shuffle(here, got.count, leader);
      // If a group was served in part, the next pass has another leader, which needs these values.
      held = simt::shuffle(here, held, leader);
      single = simt::shuffle(here, single ? 1u : 0u, leader) != 0;
      // The other lanes acquire what the leader acquired.
      simt::sync_warp(here);
      unsigned const rank = group.rank();
      if ((group.mask & mine) != 0 && rank < got.count) page = page_of(got, order, rank);
      bool const rest = got.count != 0 && got.count < group.size();
      group.mask = rest ? group.mask & (simt::all_lanes << simt::nth_set_bit(group.mask, got.count)) : 0;
    } while (simt::any_of(here, group.mask != 0));
    return page;
  }

  // Frees the nodes of the lanes whose `node` is not no_page, and joins buddies that are both available. All lanes of `here` call.
  GPUHEAP_COLD static void give(tbuddy* self, simt::lane_mask here, uint32_t node, unsigned order) {
    bool has = node != no_page;
    // Ends: `order` rises in each lane that has joined a pair.
    GPUHEAP_NO_UNROLL
    do {
      if (has) self->orders[order].available.set(node);
      auto const group = structures::warp_group::of_equal(here, self->key_of(has, order));
      if (has && group.leads()) self->units(order).signal(group.size());
      // Of two threads that publish two buddies, the later one finds both: their bits are in one word, and each thread loads the word after
      // it has set its own bit.
      bool pair = has && self->is_pair(node, order);
      has = false;
      simt::back_off pause;
      // Ends: a lane repeats the loop while its pair is available and fewer than two units are there. Then other threads hold more units
      // than there are nodes outside the pair. One of these threads takes a node of the pair, or gives its units back, and waits for no
      // thread before that.
      GPUHEAP_NO_UNROLL
      while (simt::any_of(here, pair)) {
        auto const wanting = structures::warp_group::of_equal(here, self->key_of(pair, order));
        unsigned got = 0;
        if (pair && wanting.leads()) got = self->units(order).try_wait_up_to(2 * wanting.size(), 2);
        got = wanting.from_leader(got);
        bool const granted = pair && 2 * wanting.rank() < got;
        bool const joined = granted && self->claim_pair(node, order);
        // The lanes whose units found no pair. Their units go back.
        simt::lane_mask const back = simt::ballot(here, granted && !joined) & wanting.mask;
        if (pair && wanting.leads() && back != 0) self->units(order).signal(2 * simt::popcount(back));
        if (joined) {
          node >>= 1;
          ++order;
          has = true;
        }
        if (granted) {
          pair = false;
        } else if (pair) {
          pause.wait();
          pair = self->is_pair(node, order);
        }
      }
    } while (simt::any_of(here, has));
  }

  // A key for forming groups: it differs between heaps, between orders, and between lanes that want a node and lanes that want none.
  [[nodiscard]] GPUHEAP_FN uint64_t key_of(bool wants, unsigned order) const {
    static_assert(alignof(tbuddy) > max_orders);
    return reinterpret_cast<simt::uintptr_t>(this) | (wants ? order : max_orders);
  }
  // Whether the node and its buddy are both available, and their parent is a node.
  [[nodiscard]] GPUHEAP_FN bool is_pair(uint32_t node, unsigned order) {
    if (!at.has_node(node >> 1, order + 1)) return false;
    uint64_t const both = uint64_t{3} << (node % 64 & ~1u);
    // relaxed: the load returns this thread's own change of the word, or a later one; a compare-exchange confirms it.
    return (orders[order].available.leaf(node / 64).load(simt::relaxed) & both) == both;
  }
  // Takes a node and its buddy, if both are available. Returns whether it did.
  [[nodiscard]] GPUHEAP_FN bool claim_pair(uint32_t node, unsigned order) {
    bitmap_tree const available = orders[order].available;
    auto const leaf = available.leaf(node / 64);
    uint64_t const both = uint64_t{3} << (node % 64 & ~1u);
    uint64_t seen = leaf.load(simt::relaxed);  // relaxed: the compare-exchange confirms it
    // Ends: a pass that does not return found the word changed by another thread. Lock-free.
    GPUHEAP_NO_UNROLL
    while ((seen & both) == both) {
      // consume_release: comes after the accesses of the threads that freed the two nodes, and before those of the thread that takes the
      // parent.
      if (!leaf.compare_exchange(seen, seen & ~both, simt::consume_release, simt::relaxed)) continue;
      if ((seen & ~both) == 0) (void)available.clear_stale(node / 64);
      return true;
    }
    return false;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::bulk
