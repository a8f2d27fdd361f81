// deferred_reclamation: threads read the entries of a table, and some replace an entry. A replaced entry ends when no thread can still read
// it. With read-copy-update a writer either leaves the entry to the thread that waits for readers already, or waits itself.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/structures/rcu.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "harness/structure_rounds.hpp"

namespace gpuheap::bench {

// The thing to which a slot points. `ended` is written once, when it ends.
struct table_entry {
  structures::rcu_link link;
  unsigned ended;
};
// Ends an entry.
struct end_entry {
  simt::uint64_t* count;
  GPUHEAP_FN void operator()(structures::rcu_link* link) const {
    simt::plain_write(reinterpret_cast<table_entry*>(link)->ended, 1u);
    simt::atomic_ref<simt::uint64_t>{*count}.fetch_add(1, simt::relaxed);  // relaxed: a count
  }
};
static_assert(offsetof(table_entry, link) == 0);

// Thread i reads a slot, and one thread of `writers` then puts entry num_slots + i / writers into another.
template <bool Delegates>
struct read_and_replace {
  static constexpr unsigned num_slots = 64;
  structures::rcu_state* state;
  simt::uint64_t* slots;  // numbers of entries
  table_entry* entries;
  simt::uint64_t* ended;  // how many entries; how many were read too late
  unsigned writers;

  GPUHEAP_FN void operator()(unsigned i) const {
    structures::rcu const domain{state};
    unsigned const hash = i * 0x9e3779b1u >> 16;
    unsigned const epoch = domain.enter();
    // acquire: pairs with the exchange below.
    auto const seen = simt::atomic_ref<simt::uint64_t>{slots[hash % num_slots]}.load(simt::acquire);
    bool const late = simt::plain_read(entries[seen].ended) != 0;
    domain.leave(epoch);
    if (late) simt::atomic_ref<simt::uint64_t>{ended[1]}.fetch_add(1, simt::relaxed);  // relaxed: a count
    if (i % writers != 0) return;
    // acq_rel: publishes the new entry, and comes after the publication of the old one.
    auto const old = simt::atomic_ref<simt::uint64_t>{slots[hash / num_slots % num_slots]}.exchange(num_slots + i / writers, simt::acq_rel);
    end_entry const end{ended};
    if constexpr (Delegates) {
      domain.retire(entries[old].link, end);
    } else {
      domain.synchronize();
      end(&entries[old].link);
    }
  }
};

struct deferred_reclamation {
  static constexpr parameter parameters[] = {structure_threads_parameter, choice_parameter("which", "delegated", "delegated|waiting"),
                                             number_parameter("writers", "32", 1, 65536),  // one thread of so many
                                             block_threads_parameter};
  static constexpr case_description description{
      .name = "deferred_reclamation",
      .brief = "readers and writers of a table: writers leave reclamation to one that waits, or wait each",
      .section = "Structures",
      .parameters = parameters,
      .without_allocator = true,
  };

  template <class>
  static outcome run(session const& s, point const& p) {
    return p.text("which") == "delegated" ? measure<read_and_replace<true>>(s, p) : measure<read_and_replace<false>>(s, p);
  }

 private:
  template <class Kernel>
  static outcome measure(session const& s, point const& p) {
    owned_stream stream;
    auto const writers = static_cast<unsigned>(p.number("writers"));
    std::size_t const writes = simt::ceil_div(p.threads(), writers);
    device_array<structures::rcu_state> state(1);
    device_array<simt::uint64_t> slots(Kernel::num_slots), ended(2);
    device_array<table_entry> entries(Kernel::num_slots + writes);
    std::vector<simt::uint64_t> first(Kernel::num_slots);
    for (std::size_t slot = 0; slot != first.size(); ++slot) first[slot] = slot;
    auto const reset = [&](stream_ref on) {
      state.zero(on);
      ended.zero(on);
      entries.zero(on);
      slots.upload(first, on);
    };
    auto const fault = [&](stream_ref on) -> std::string {
      auto const after = ended.download(on);
      if (after[1] != 0) return std::to_string(after[1]) + " entries were read after they had ended";
      return after[0] == writes ? "" : std::to_string(after[0]) + " of " + std::to_string(writes) + " entries ended";
    };
    return run_structure_rounds(s, p, stream, p.threads(), reset, Kernel{state.data(), slots.data(), entries.data(), ended.data(), writers},
                                fault);
  }
};

}  // namespace gpuheap::bench
