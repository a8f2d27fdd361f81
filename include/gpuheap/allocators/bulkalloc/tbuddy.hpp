// TBuddy: blocks of 2^order pages from a binary tree. A request of an order first acquires a unit of a bulk semaphore, then takes an
// available node.
//
// The tree's state is a bit for each available node, in a bitmap tree for each order, and a word for each page with what begins there.
//
//   publish:   available |= bit;  units += 1
//   take:      units -= 1;        some available bit is cleared
//   merge:     units -= 2;        both bits of a pair, which share a word, are cleared in one step; or units += 2
// So at any time the bits of an order = its units + units that threads hold without having a node yet + nodes whose unit is still to be
// added. A thread that holds a unit waits for no thread until it has a node or has given the unit back.
#pragma once

#include <gpuheap/allocators/bulkalloc/layout.hpp>
#include <gpuheap/structures/warp_group.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::bulk {

// The memory that a group got: blocks for `count` lanes, `stride` pages apart from `page` on, or at the set bits of `nodes`, which belong
// to leaf `page` of the order's tree.
struct block_grant {
  uint64_t nodes = 0;
  uint32_t page = 0;
  uint32_t count = 0;
};

// In device memory, at the start of the region.
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

  // Adds a node, of which `promised` were promised.
  GPUHEAP_FN void publish(uint32_t node, unsigned order, unsigned promised) {
    orders[order].available.set(node);
    units(order).signal(1, promised);
  }

  // Finds up to `wanted` (at least 1) available nodes of one leaf, for as many units that the caller holds. `leaf` is set to that leaf.
  [[nodiscard]] GPUHEAP_FN uint64_t find(unsigned order, unsigned wanted, unsigned& leaf) {
    bitmap_tree const available = orders[order].available;
    uint64_t got = 0;
    simt::back_off pause;
    // Ends: there are at least as many nodes as units held. A search that finds none missed nodes that other threads published or took
    // meanwhile. Lock-free.
    GPUHEAP_NO_UNROLL
    while (!available.for_each_leaf(scattered(available.num_leaves), [&](unsigned i) {
      leaf = i;
      // relaxed: only a guess at the bits that the taking will find.
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

  // Takes one block; no_page if there is none, nor a larger one.
  [[nodiscard]] GPUHEAP_COLD static uint32_t take_block(tbuddy* self, unsigned order) {
    uint32_t page = no_page;
    unsigned height = order, waiting = 0;
    simt::back_off pause;
    // Climbs to an order that has a unit; below it, the thread promises a second half at each height.
    // Ends: `height` rises to the top, or this thread waits for a promise by a thread that climbs further up: the one at the top never
    // waits. All promises are kept or withdrawn inside the loop, so that no lane that has promised waits at the loop's end for one that
    // waits for it.
    // waits for it.
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

  // Takes `wanted` adjacent blocks from a larger one; no_page if there is none. The rest of it becomes nodes. If one of them is of `order`,
  // the caller counts it.
  [[nodiscard]] GPUHEAP_COLD static uint32_t take_row(tbuddy* self, unsigned order, unsigned wanted) {
    unsigned const further = simt::ceil_log2(wanted);
    uint32_t const page = take_block(self, order + further);
    if (page == no_page) return no_page;
    // Ends: one pass for each of the largest nodes that the rest is.
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

  // Takes blocks for up to `wanted` lanes, for `held` units that the caller has already. `single`: set when so many adjacent blocks are not
  // available; then it takes one at a time.
  [[nodiscard]] GPUHEAP_FN static block_grant take_blocks(tbuddy* self, unsigned order, unsigned wanted, unsigned& held, bool& single) {
    if (held == 0 && !single && wanted > 1 && order + simt::ceil_log2(wanted) <= self->at.top) {
      uint32_t page = no_page;
      // Without units, the thread makes a larger block for all, with one node for others if the group is odd.
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

  // Takes a block for each lane of `group` (the lanes of equal orders, of all lanes `here`, which all call this; mask 0: this lane wants
  // none). no_page: there is none.
  [[nodiscard]] GPUHEAP_COLD static uint32_t take_for(tbuddy* self, simt::lane_mask here, structures::warp_group group, unsigned order) {
    simt::lane_mask const mine = simt::lane_mask{1} << simt::lane_id();
    uint32_t page = no_page;
    unsigned held = 0;
    bool single = false;
    // Ends: a pass serves at least one lane of each group, or answers all its lanes.
    GPUHEAP_NO_UNROLL
    do {
      unsigned const leader = group.mask != 0 ? group.leader() : simt::lane_id();
      block_grant got;
      if ((group.mask & mine) != 0 && group.leads()) got = take_blocks(self, order, group.size(), held, single);
      got.nodes = simt::shuffle(here, got.nodes, leader);
      got.page = simt::shuffle(here, got.page, leader);
      got.count = simt::shuffle(here, got.count, leader);
      // If a group was served in part, its leader is another lane than before.
      held = simt::shuffle(here, held, leader);
      single = simt::shuffle(here, single ? 1u : 0u, leader) != 0;
      // The other lanes get what the leader acquired.
      simt::sync_warp(here);
      unsigned const rank = group.rank();
      if ((group.mask & mine) != 0 && rank < got.count) page = page_of(got, order, rank);
      bool const rest = got.count != 0 && got.count < group.size();
      group.mask = rest ? group.mask & (simt::all_lanes << simt::nth_set_bit(group.mask, got.count)) : 0;
    } while (simt::any_of(here, group.mask != 0));
    return page;
  }

  // All lanes `here` call this; those with a `node` give it back. Joins buddies that are both available.
  GPUHEAP_COLD static void give(tbuddy* self, simt::lane_mask here, uint32_t node, unsigned order) {
    bool has = node != no_page;
    // Ends: `order` rises in each lane that goes on.
    GPUHEAP_NO_UNROLL
    do {
      if (has) self->orders[order].available.set(node);
      auto const group = structures::warp_group::of_equal(here, self->key_of(has, order));
      if (has && group.leads()) self->units(order).signal(group.size());
      // Of two nodes that are published, the later one finds the other: both are bits of one word, and each thread looks after it has set
      // its own.
      bool pair = has && self->is_pair(node, order);
      has = false;
      simt::back_off pause;
      // Ends: a lane goes on while a pair is available and no two units are there. Then more units are held by others than there are other
      // nodes: one of them takes a node of this pair, or gives its units back, and waits for no thread before.
      GPUHEAP_NO_UNROLL
      while (simt::any_of(here, pair)) {
        auto const wanting = structures::warp_group::of_equal(here, self->key_of(pair, order));
        unsigned got = 0;
        if (pair && wanting.leads()) got = self->units(order).try_wait_up_to(2 * wanting.size(), 2);
        got = wanting.from_leader(got);
        bool const granted = pair && 2 * wanting.rank() < got;
        bool const joined = granted && self->claim_pair(node, order);
        // Units for which no pair was left.
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

  // A key that differs between heaps, and between the orders of lanes that want something.
  [[nodiscard]] GPUHEAP_FN uint64_t key_of(bool wants, unsigned order) const {
    static_assert(alignof(tbuddy) > max_orders);
    return reinterpret_cast<simt::uintptr_t>(this) | (wants ? order : max_orders);
  }
  // Whether the node and its buddy are both available, and their parent is a node.
  [[nodiscard]] GPUHEAP_FN bool is_pair(uint32_t node, unsigned order) {
    if (!at.has_node(node >> 1, order + 1)) return false;
    uint64_t const both = uint64_t{3} << (node % 64 & ~1u);
    // relaxed: reads this thread's own change of the word, or a later one; a compare-exchange confirms it.
    return (orders[order].available.leaf(node / 64).load(simt::relaxed) & both) == both;
  }
  // Takes a node and its buddy, if both are available.
  [[nodiscard]] GPUHEAP_FN bool claim_pair(uint32_t node, unsigned order) {
    bitmap_tree const available = orders[order].available;
    auto const leaf = available.leaf(node / 64);
    uint64_t const both = uint64_t{3} << (node % 64 & ~1u);
    uint64_t seen = leaf.load(simt::relaxed);
    // Ends: a pass that goes on found the word changed by another thread. Lock-free.
    GPUHEAP_NO_UNROLL
    while ((seen & both) == both) {
      // consume_release: comes after threads that freed both, and before a thread that takes the parent.
      if (!leaf.compare_exchange(seen, seen & ~both, simt::consume_release, simt::relaxed)) continue;
      if ((seen & ~both) == 0) (void)available.clear_stale(node / 64);
      return true;
    }
    return false;
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::bulk
