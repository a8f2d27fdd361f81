// Checks of the bulk semaphore, the collective mutex and read-copy-update: for the real ones and for ones with a mistake in them.
#pragma once

#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/bulk_semaphore.hpp>
#include <gpuheap/structures/collective_mutex.hpp>
#include <gpuheap/structures/rcu.hpp>

#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::bulk_semaphore;
using gpuheap::structures::collective_mutex;
using gpuheap::structures::rcu;
using gpuheap::structures::rcu_link;
using gpuheap::structures::rcu_state;
using gpuheap::structures::warp_group;

// ---- bulk_semaphore: a supply that those who are told to grow make, batch by batch, until it ends

struct supply {
  unsigned* made;    // batches
  unsigned* units;   // by thread: how many it was served
  unsigned* failed;  // requests that could not be served
  unsigned most;     // batches that can be made
  unsigned batch;
  unsigned* held = nullptr;  // units that threads have
  unsigned* wrong = nullptr;

  // Read-modify-writes, all: each sees what was made before its units were.
  GPUHEAP_FN void take(unsigned n) const {
    unsigned const now = simt::atomic_ref<unsigned>{*held}.fetch_add(n, simt::relaxed) + n;
    unsigned const batches = simt::atomic_ref<unsigned>{*made}.fetch_add(0, simt::relaxed);
    if (now > (batches < most ? batches : most) * batch) count(wrong);
  }
  // False: there may be no more.
  GPUHEAP_FN bool make_batch() const { return simt::atomic_ref<unsigned>{*made}.fetch_add(1, simt::relaxed) < most; }
  GPUHEAP_FN void give(unsigned n) const { simt::atomic_ref<unsigned>{*held}.fetch_sub(n, simt::relaxed); }
};
// Kernel: every thread asks a few times, for one unit or two, and gives back what it got in some rounds.
template <class Semaphore>
struct ask_for_units {
  Semaphore units;
  supply from;
  unsigned rounds;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const n = 1 + random.below(2);
      bool const served = units.wait(n, from.batch, [&] { return from.make_batch(); });
      if (!served) {
        count(from.failed);
        continue;
      }
      from.take(n);
      if (random.below(2) == 0) {
        from.give(n);
        units.signal(n);
      } else {
        from.units[i] += n;
      }
    }
  }
};
// Units served, there and made agree, nothing is promised at the end, and nobody was refused while a batch could be made.
template <class Semaphore>
std::string units_are_served_once(unsigned threads, unsigned most, unsigned batch, unsigned rounds) {
  test::device_array<simt::uint64_t> word(1);
  test::device_array<unsigned> made(1), units(threads), failed(1), held(1), wrong(1);
  Semaphore semaphore;
  semaphore.at = word.data();
  supply const from{made.data(), units.data(), failed.data(), most, batch, held.data(), wrong.data()};
  gpuheap::launch(threads, ask_for_units<Semaphore>{semaphore, from, rounds}, {.block_threads = 64});
  unsigned served = 0;
  for (unsigned n : units.read()) served += n;
  unsigned const batches = made.first() < most ? made.first() : most;
  auto const left = bulk_semaphore::count(word.first());
  std::string problems;
  require(problems, bulk_semaphore::surplus(word.first()) == 0, "promises and waiters do not cancel out");
  require(problems, served + left == batches * batch,
          std::to_string(served) + " units were served, " + std::to_string(left) + " are there, and " + std::to_string(batches * batch) +
              " were made");
  require(problems, wrong.first() == 0, "more units were held than had been made");
  require(problems, failed.first() == 0 || made.first() >= most, "a request was refused while more could be made");
  return problems;
}

// Kernel: the first thread that is told to grow makes all that is ever needed; nobody else need.
template <class Semaphore>
struct make_all_at_once {
  Semaphore units;
  unsigned batch;
  unsigned* growers;
  unsigned* cell;
  unsigned* wrong;

  GPUHEAP_FN void operator()(unsigned) const {
    (void)units.wait(1, batch, [&] {
      count(growers);
      simt::plain_write(*cell, 1u);
      return true;
    });
    if (simt::plain_read(*cell) != 1) count(wrong);
  }
};
// One grower is enough for as many as it promised for; what it did before it signalled is seen by those who are served.
template <class Semaphore>
std::string one_grower_serves_its_batch(unsigned threads) {
  test::device_array<simt::uint64_t> word(1);
  test::device_array<unsigned> growers(1), cell(1), wrong(1);
  Semaphore semaphore;
  semaphore.at = word.data();
  gpuheap::launch(threads, make_all_at_once<Semaphore>{semaphore, threads, growers.data(), cell.data(), wrong.data()},
                  {.block_threads = 64});
  std::string problems;
  require(problems, growers.first() == 1, std::to_string(growers.first()) + " threads made a batch that all of them could share");
  require(problems, wrong.first() == 0, "a thread that was served does not see what the grower did");
  require(problems, word.first() == 0, "units are left, or promises");
  return problems;
}

// Kernel: who gets a unit owns one of as many cells, which are taken and given back by all; never more at once than there are.
template <class Semaphore>
struct hold_units {
  Semaphore units;
  unsigned* inside;
  unsigned most;
  unsigned rounds;
  unsigned* wrong;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const n = 1 + random.below(3);
      unsigned const got = random.below(2) == 0 ? units.try_wait_up_to(n, 1) : units.try_wait(n) ? n : 0;
      if (got == 0) continue;
      simt::atomic_ref<unsigned> const holders{*inside};
      if (got > n || holders.fetch_add(got, simt::relaxed) + got > most) count(wrong);
      holders.fetch_sub(got, simt::relaxed);
      units.signal(got);
    }
  }
};
template <class Semaphore>
std::string tries_take_no_more_than_there_is(unsigned threads, unsigned most, unsigned rounds) {
  test::device_array<simt::uint64_t> word(std::vector<simt::uint64_t>{bulk_semaphore::of(most)});
  test::device_array<unsigned> inside(1), wrong(1);
  Semaphore semaphore;
  semaphore.at = word.data();
  gpuheap::launch(threads, hold_units<Semaphore>{semaphore, inside.data(), most, rounds, wrong.data()}, {.block_threads = 64});
  std::string problems;
  require(problems, wrong.first() == 0, "more units were held than there are");
  require(problems, word.first() == bulk_semaphore::of(most), "not all units came back");
  return problems;
}

// Kernel: a unit for each of some threads is there, and others try for more than all.
template <class Semaphore>
struct try_beside_the_greedy {
  Semaphore units;
  unsigned modest;  // threads
  unsigned* refused;

  GPUHEAP_FN void operator()(unsigned i) const {
    if (i % 2 == 0) {
      (void)units.try_wait(modest + 1);
    } else if (!units.try_wait(1)) {
      count(refused);
    }
  }
};
template <class Semaphore>
std::string tries_hide_no_units(unsigned threads) {
  unsigned const modest = threads / 2;
  test::device_array<simt::uint64_t> word(std::vector<simt::uint64_t>{bulk_semaphore::of(modest)});
  test::device_array<unsigned> refused(1);
  Semaphore semaphore;
  semaphore.at = word.data();
  gpuheap::launch(threads, try_beside_the_greedy<Semaphore>{semaphore, modest, refused.data()}, {.block_threads = 64});
  std::string problems;
  require(problems, refused.first() == 0 && word.first() == 0, "a unit that was there was refused");
  return problems;
}

// Kernel: lanes ask together, with whoever is there; each tells whether it was served.
template <class Semaphore>
struct ask_together {
  Semaphore units;
  supply from;
  unsigned rounds;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      if (random.below(3) == 0) continue;
      warp_group const group{simt::active_mask()};
      unsigned const served = units.wait_together(group, from.batch, [&] { return from.make_batch(); });
      if (group.rank() < served) {
        ++from.units[i];
      } else {
        count(from.failed);
      }
    }
  }
};
template <class Semaphore>
std::string lanes_are_served_together(unsigned threads, unsigned most, unsigned batch, unsigned rounds) {
  test::device_array<simt::uint64_t> word(1);
  test::device_array<unsigned> made(1), units(threads), failed(1);
  Semaphore semaphore;
  semaphore.at = word.data();
  supply const from{made.data(), units.data(), failed.data(), most, batch};
  gpuheap::launch(threads, ask_together<Semaphore>{semaphore, from, rounds}, {.block_threads = 64});
  unsigned served = 0;
  for (unsigned n : units.read()) served += n;
  unsigned const batches = made.first() < most ? made.first() : most;
  std::string problems;
  require(problems, served + word.first() == batches * batch, "units served, there and made differ, or are promised");
  require(problems, failed.first() == 0 || made.first() >= most, "a lane was refused while more could be made");
  return problems;
}

// Kernel: one thread promises a unit to each of the others, takes its time, and counts how often the word changes while they wait.
template <class Semaphore>
struct take_time {
  Semaphore units;
  unsigned* changes;

  GPUHEAP_FN void operator()(unsigned) const {
    (void)units.wait(1, 32, [&] {
      simt::back_off pause;
      // All others wait.
      for (unsigned look = 0; look < 2000; ++look) pause.wait();
      unsigned n = 0;
      simt::uint64_t last = units.look();
      for (unsigned look = 0; look < 500; ++look) {
        simt::uint64_t const now = units.look();
        n += now != last;
        last = now;
        pause.wait();
      }
      *changes = n;
      return true;
    });
  }
};
template <class Semaphore>
unsigned changes_while_waiting() {
  test::device_array<simt::uint64_t> word(1);
  test::device_array<unsigned> changes(1);
  Semaphore semaphore;
  semaphore.at = word.data();
  gpuheap::launch(32, take_time<Semaphore>{semaphore, changes.data()});
  return changes.first();
}

// ---- collective_mutex: cells that only a holder touches

// Kernel: lanes enter with whoever wants the same mutex, in any state of divergence; each adds to the total, the last ends the turn.
template <class Mutex>
struct enter_together {
  Mutex mutexes[2];
  unsigned* turns;   // of each mutex; plain
  unsigned* totals;  // likewise
  unsigned rounds;
  unsigned* wrong;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const which = random.below(2);
      if (random.below(4) == 0) {
        mutexes[which].run_alone([&] { turn(which, 1, 0); });
      } else {
        auto const group = warp_group::of_equal(simt::active_mask(), which);
        mutexes[which].run(group, [&] { turn(which, group.size(), group.rank(), &group); });
      }
    }
  }
  // The lanes go one after the other.
  GPUHEAP_FN void turn(unsigned which, unsigned size, unsigned rank, warp_group const* group = nullptr) const {
    unsigned const before = simt::plain_read(turns[which]);
    if (group != nullptr) simt::sync_warp(group->mask);
    for (unsigned r = 0; r < size; ++r) {
      if (r == rank) simt::plain_write(totals[which], simt::plain_read(totals[which]) + 1);
      if (group != nullptr) simt::sync_warp(group->mask);
    }
    if (simt::plain_read(turns[which]) != before) count(wrong);
    if (group != nullptr) simt::sync_warp(group->mask);
    if (rank == size - 1) simt::plain_write(turns[which], before + 1);
  }
};
template <class Mutex>
std::string one_group_at_a_time(unsigned threads, unsigned rounds) {
  test::device_array<unsigned> words(2), turns(2), totals(2), wrong(1);
  enter_together<Mutex> kernel{{}, turns.data(), totals.data(), rounds, wrong.data()};
  for (unsigned m = 0; m < 2; ++m) kernel.mutexes[m].at = words.data() + m;
  gpuheap::launch(threads, kernel, {.block_threads = 64});
  auto const sums = totals.read(), taken = turns.read(), held = words.read();
  std::string problems;
  require(problems, wrong.first() == 0, "a group's turn was ended by another");
  require(problems, sums[0] + sums[1] == threads * rounds,
          std::to_string(sums[0] + sums[1]) + " of " + std::to_string(threads * rounds) + " additions inside the mutexes are left");
  require(problems, taken[0] + taken[1] != 0 && held[0] + held[1] == 0, "a mutex is set, and no thread holds it");
  return problems;
}

// ---- rcu: a place with a current thing; readers look at it, writers put another one there and let the old one end

struct thing {
  rcu_link link;
  unsigned alive;  // plain
};
template <class Rcu>
struct end_thing {
  unsigned* ended;
  unsigned* wrong;
  thing* things;
  unsigned* free_things;  // a thing that ended may be used again: taken by exchange

  GPUHEAP_FN void operator()(rcu_link* link) const {
    auto* const it = reinterpret_cast<thing*>(link);
    if (simt::plain_read(it->alive) != 1) count(wrong);
    simt::plain_write(it->alive, 0u);
    count(ended);
    // release: pairs with the taker's acquire.
    simt::atomic_ref<unsigned>{free_things[it - things]}.store(1, simt::release);
  }
};
// Kernel: each thread reads, or replaces the thing that is there.
template <class Rcu>
struct read_and_replace {
  Rcu domain;
  thing* things;
  unsigned num_things;
  unsigned* current;  // number of the thing + 1
  end_thing<Rcu> end;
  unsigned* replaced;
  unsigned* wrong;
  unsigned rounds;
  bool delegates;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    for (unsigned round = 0; round < rounds; ++round) {
      if (random.below(3) != 0) {
        unsigned const parity = domain.enter();
        // acquire: pairs with the writer's exchange.
        unsigned const now = simt::atomic_ref<unsigned>{*current}.load(simt::acquire);
        if (simt::plain_read(things[now - 1].alive) != 1) count(wrong);
        domain.leave(parity);
        continue;
      }
      for (unsigned n = 0; n < num_things; ++n) {
        // acquire: pairs with the end of the thing's last use.
        unsigned expected = 1;
        if (!simt::atomic_ref<unsigned>{end.free_things[n]}.compare_exchange(expected, 0, simt::acquire, simt::relaxed)) continue;
        simt::plain_write(things[n].alive, 1u);
        // acq_rel: publishes the thing; comes after the publication of the old one.
        unsigned const old = simt::atomic_ref<unsigned>{*current}.exchange(n + 1, simt::acq_rel);
        count(replaced);
        if (delegates) {
          domain.retire(things[old - 1].link, end);
        } else {
          domain.synchronize();
          end(&things[old - 1].link);
        }
        break;
      }
    }
  }
};
template <class Rcu>
std::string readers_see_things_that_live(unsigned threads, unsigned num_things, unsigned rounds, bool delegates) {
  test::device_array<rcu_state> state(1);
  std::vector<thing> first(num_things);
  first[0].alive = 1;
  test::device_array<thing> things(first);
  std::vector<unsigned> there(num_things, 1u);
  there[0] = 0;
  test::device_array<unsigned> free_things(there), current(std::vector<unsigned>{1}), ended(1), replaced(1), wrong(1);
  Rcu domain;
  domain.at = state.data();
  end_thing<Rcu> const end{ended.data(), wrong.data(), things.data(), free_things.data()};
  gpuheap::launch(
      threads,
      read_and_replace<Rcu>{domain, things.data(), num_things, current.data(), end, replaced.data(), wrong.data(), rounds, delegates},
      {.block_threads = 64});
  std::string problems;
  require(problems, wrong.first() == 0, "a reader saw a thing that had ended, or a thing ended twice");
  require(problems, ended.first() == replaced.first(),
          std::to_string(replaced.first()) + " things were replaced, and " + std::to_string(ended.first()) + " ended");
  rcu_state const after = state.read().front();
  require(problems, after.readers[0] == 0 && after.readers[1] == 0 && after.barrier == 0 && after.runner == 0 && after.queue == 0,
          "the domain is not at rest");
  return problems;
}

}  // namespace structures_test
