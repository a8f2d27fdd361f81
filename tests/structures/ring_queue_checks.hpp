// Checks of a bounded queue, for the real one and for queues with a mistake in them.
//
// A Queue is a view like ring_queue: made over memory, with init(i), try_push() and try_pop().
#pragma once

#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "exploration.hpp"
#include "owned_cells.hpp"

#include <gpuheap/structures/ring_queue.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace structures_test {

using gpuheap::structures::ring_queue;

// Kernel.
template <class Queue>
struct init_queue {
  Queue queue;
  GPUHEAP_FN void operator()(unsigned i) const { queue.init(i); }
};

// A queue's memory.
template <class Queue>
class queue_memory {
 public:
  explicit queue_memory(unsigned capacity) : memory_(Queue::bytes_for(capacity) / 8 + 1), queue_{memory_.data(), capacity} {
    gpuheap::launch(capacity, init_queue<Queue>{queue_});
  }
  [[nodiscard]] Queue queue() const { return queue_; }

 private:
  test::device_array<simt::uint64_t> memory_;
  Queue queue_;
};

// Values of which any two differ in both halves, if they have 64 bits: the low half says who pushed it and in which round.
template <class T>
[[nodiscard]] GPUHEAP_HD T value_of(unsigned i, unsigned round) {
  unsigned const low = (i + 1) << 8 | round;
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(~low) << 32 | low;
  } else {
    return low;
  }
}
template <class T>
[[nodiscard]] GPUHEAP_HD bool is_value(T v, unsigned threads, unsigned rounds) {
  auto const low = static_cast<unsigned>(v);
  if ((low >> 8) == 0 || (low >> 8) > threads || (low & 0xff) >= rounds) return false;
  return v == value_of<T>((low >> 8) - 1, low & 0xff);
}

// Kernel: each thread pushes what it can and pops what it can, in an order of its own. Each value owns a cell: plain accesses, ordered by
// the queue alone.
template <class Queue, class T>
struct push_and_pop {
  Queue queue;
  unsigned threads, rounds;
  owned_cells cells;
  unsigned* pushed;  // by value
  unsigned* popped;
  unsigned* garbage;

  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    unsigned next = 0;
    for (unsigned step = 0; step < 2 * rounds; ++step) {
      if (next < rounds && random.below(2) == 0) {
        T const v = value_of<T>(i, next);
        cells.claim(i * rounds + next, i);
        if (queue.try_push(v)) {
          count(&pushed[i * rounds + next]);
        } else {
          cells.release(i * rounds + next, i);
        }
        ++next;
      } else {
        pop();
      }
    }
  }
  GPUHEAP_FN bool pop() const {
    T v{};
    if (!queue.try_pop(v)) return false;
    if (!is_value<T>(v, threads, rounds)) {
      count(garbage);
      return true;
    }
    auto const low = static_cast<unsigned>(v);
    unsigned const thing = ((low >> 8) - 1) * rounds + (low & 0xff);
    count(&popped[thing]);
    cells.release(thing, (low >> 8) - 1);
    return true;
  }
};
// Kernel, one thread: empties the queue.
template <class Queue, class T>
struct pop_the_rest {
  push_and_pop<Queue, T> of;
  unsigned most;
  unsigned* left;
  GPUHEAP_FN void operator()(unsigned) const {
    for (unsigned n = 0; n < most && of.pop(); ++n) ++*left;
  }
};

// Each pushed item is popped once, no other is, and the accesses before a push happen before those after its pop.
template <class Queue, class T>
std::string every_value_is_popped_once(unsigned threads, unsigned capacity, unsigned rounds) {
  queue_memory<Queue> memory(capacity);
  test::device_array<unsigned> pushed(threads * rounds), popped(threads * rounds), garbage(1), left(1);
  cell_memory cells(threads * rounds);
  push_and_pop<Queue, T> const kernel{memory.queue(), threads, rounds, cells.view(), pushed.data(), popped.data(), garbage.data()};
  gpuheap::launch(threads, kernel, {.block_threads = 64});
  gpuheap::launch(1, pop_the_rest<Queue, T>{kernel, capacity + 1, left.data()});
  std::string problems = cells.problem();
  auto const in = pushed.read(), out = popped.read();
  require(problems, garbage.first() == 0, "values were popped that nobody pushed");
  require(problems, left.first() <= capacity, "more values than places");
  require(problems, in == out, "not every value that was pushed was popped once");
  return problems;
}

// Kernel: each thread pushes one value and then pops one: at each pop there are as many values as threads that may want one.
template <class Queue, class T>
struct push_then_pop {
  Queue queue;
  unsigned rounds;
  unsigned* refused;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned round = 0; round < rounds; ++round) {
      T v{};
      if (!queue.try_push(value_of<T>(i, round)) || !queue.try_pop(v)) count(refused);
    }
  }
};
// In a queue with a place for each thread, no push and no pop of these is refused.
template <class Queue, class T>
std::string nobody_is_refused_who_need_not_be(unsigned threads, unsigned rounds) {
  unsigned const capacity = 1u << simt::ceil_log2(threads < 2 ? 2 : threads);
  queue_memory<Queue> memory(capacity);
  test::device_array<unsigned> refused(1);
  gpuheap::launch(threads, push_then_pop<Queue, T>{memory.queue(), rounds, refused.data()}, {.block_threads = 64});
  std::string problems;
  require(problems, refused.first() == 0, std::to_string(refused.first()) + " pushes or pops were refused");
  return problems;
}

// Kernel, one thread: how many values go in until the queue is full, and come out until it is empty.
template <class Queue, class T>
struct fill_and_empty {
  Queue queue;
  unsigned most;
  unsigned* in;
  unsigned* out;
  GPUHEAP_FN void operator()(unsigned) const {
    while (*in < most && queue.try_push(value_of<T>(*in, 1))) ++*in;
    T v{};
    while (*out < most && queue.try_pop(v)) ++*out;
  }
};
// After a contended kernel full and empty are exact.
template <class Queue, class T>
std::string no_place_is_lost(unsigned threads, unsigned capacity, unsigned rounds) {
  queue_memory<Queue> memory(capacity);
  test::device_array<unsigned> pushed(threads * rounds), popped(threads * rounds), garbage(1), left(1), in(1), out(1);
  cell_memory cells(threads * rounds);
  push_and_pop<Queue, T> const kernel{memory.queue(), threads, rounds, cells.view(), pushed.data(), popped.data(), garbage.data()};
  gpuheap::launch(threads, kernel, {.block_threads = 64});
  gpuheap::launch(1, pop_the_rest<Queue, T>{kernel, capacity + 1, left.data()});
  gpuheap::launch(1, fill_and_empty<Queue, T>{memory.queue(), 2 * capacity, in.data(), out.data()});
  std::string problems;
  require(problems, in.first() == capacity, std::to_string(in.first()) + " of " + std::to_string(capacity) + " values go in");
  require(problems, out.first() == in.first(), std::to_string(out.first()) + " of " + std::to_string(in.first()) + " values come out");
  return problems;
}

// Kernel: even threads push their values in order, as long as there is room; odd ones pop, and look whether the values of each producer
// come in order.
template <class Queue, class T>
struct keep_order {
  Queue queue;
  unsigned threads, rounds;
  unsigned* last;  // by popping thread and producer: the last round seen + 1
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    for (unsigned step = 0; step < rounds; ++step) {
      if (i % 2 == 0) {
        (void)queue.try_push(value_of<T>(i, step));
        continue;
      }
      T v{};
      if (!queue.try_pop(v)) continue;
      unsigned const from = (static_cast<unsigned>(v) >> 8) - 1, round = static_cast<unsigned>(v) & 0xff;
      unsigned& seen = last[i * threads + from];
      if (round + 1 <= seen) count(wrong);
      seen = round + 1;
    }
  }
};
template <class Queue, class T>
std::string values_of_a_producer_come_in_order(unsigned threads, unsigned capacity, unsigned rounds) {
  queue_memory<Queue> memory(capacity);
  test::device_array<unsigned> last(threads * threads), wrong(1);
  gpuheap::launch(threads, keep_order<Queue, T>{memory.queue(), threads, rounds, last.data(), wrong.data()}, {.block_threads = 64});
  std::string problems;
  require(problems, wrong.first() == 0, std::to_string(wrong.first()) + " values came after a later one of the same producer");
  return problems;
}

// ---- published mistakes

// A queue of the published kind: head and tail are moved by exchanges, and the head is read before the tail. Full is a distance of the
// capacity, or more: what is popped between the two reads makes it more. Taken for equal only, the next push overwrites what nobody has
// read. A place is {value, ticket + 1}.
template <bool Equal>
struct queue_by_distance {
  struct words {
    simt::uint32_t head, tail;
  };
  [[nodiscard]] static constexpr simt::size_t bytes_for(simt::uint32_t capacity) { return sizeof(words) + capacity * 8; }
  queue_by_distance(void* memory, simt::uint32_t places) : at{static_cast<words*>(memory)}, capacity{places} {}
  GPUHEAP_FN void init(simt::uint32_t i) const {
    reinterpret_cast<simt::uint64_t*>(at + 1)[i] = 0;
    if (i == 0) *at = {0, 0};
  }
  [[nodiscard]] GPUHEAP_FN simt::atomic_ref<simt::uint64_t> place(simt::uint32_t ticket) const {
    return simt::atomic_ref<simt::uint64_t>{reinterpret_cast<simt::uint64_t*>(at + 1)[ticket % capacity]};
  }
  GPUHEAP_FN bool try_push(simt::uint32_t value) const {
    simt::atomic_ref<simt::uint32_t> const head{at->head}, tail{at->tail};
    while (true) {
      simt::uint32_t const h = head.load(simt::acquire);
      simt::uint32_t t = tail.load(simt::acquire);
      auto const distance = static_cast<int>(t - h), full = static_cast<int>(capacity);
      if (Equal ? distance == full : distance >= full) return false;
      if (!tail.compare_exchange(t, t + 1, simt::acq_rel, simt::relaxed)) continue;
      place(t).store(simt::uint64_t{value} << 32 | (t + 1), simt::release);
      return true;
    }
  }
  GPUHEAP_FN bool try_pop(simt::uint32_t& value) const {
    simt::atomic_ref<simt::uint32_t> const head{at->head}, tail{at->tail};
    simt::back_off pause;
    for (unsigned tries = 0; tries < 1000; ++tries) {
      simt::uint32_t h = head.load(simt::acquire);
      if (static_cast<int>(tail.load(simt::acquire) - h) <= 0) return false;
      simt::uint64_t const seen = place(h).load(simt::acquire);
      if (static_cast<simt::uint32_t>(seen) != h + 1) {  // not there yet; or, with the mistake, overwritten for good
        pause.wait();
        continue;
      }
      value = static_cast<simt::uint32_t>(seen >> 32);
      if (head.compare_exchange(h, h + 1, simt::acq_rel, simt::relaxed)) return true;
    }
    return false;
  }

  words* at;
  simt::uint32_t capacity;
};

// ring_queue with turns that order nothing: a pop may see its turn and an old value.
template <class T>
struct queue_with_relaxed_turns : ring_queue<T> {
  queue_with_relaxed_turns(void* memory, simt::uint32_t capacity)
      : ring_queue<T>(memory, capacity), cells{reinterpret_cast<typename ring_queue<T>::cell*>(static_cast<char*>(memory) + 128)} {}
  GPUHEAP_FN bool try_push(T value) const {
    simt::uint32_t t = 0;
    if (this->claim_pushes(1, t) == 0) return false;
    auto& c = wait(t, t);
    simt::atomic_ref<T>{c.value}.store(value, simt::relaxed);
    simt::atomic_ref<simt::uint32_t>{c.turn}.store(t + 1, simt::relaxed);
    this->publish(1);
    return true;
  }
  GPUHEAP_FN bool try_pop(T& value) const {
    simt::uint32_t t = 0;
    if (this->claim_pops(1, t) == 0) return false;
    auto& c = wait(t, t + 1);
    value = simt::atomic_ref<T>{c.value}.load(simt::relaxed);
    simt::atomic_ref<simt::uint32_t>{c.turn}.store(t + this->capacity(), simt::relaxed);
    this->recycle(1);
    return true;
  }
  GPUHEAP_FN auto& wait(simt::uint32_t ticket, simt::uint32_t turn) const {
    auto& c = cells[ticket % this->capacity()];
    simt::back_off pause;
    while (simt::atomic_ref<simt::uint32_t>{c.turn}.load(simt::relaxed) != turn) pause.wait();
    return c;
  }
  typename ring_queue<T>::cell* cells;
};

// One that counts an entry before it is there, and lets whoever is let in read at once.
template <class T>
struct queue_without_turns : ring_queue<T> {
  queue_without_turns(void* memory, simt::uint32_t capacity)
      : ring_queue<T>(memory, capacity), cells{reinterpret_cast<typename ring_queue<T>::cell*>(static_cast<char*>(memory) + 128)} {}
  GPUHEAP_FN bool try_push(T value) const {
    simt::uint32_t t = 0;
    if (this->claim_pushes(1, t) == 0) return false;
    simt::atomic_ref<T>{cells[t % this->capacity()].value}.store(value, simt::release);
    this->publish(1);
    return true;
  }
  GPUHEAP_FN bool try_pop(T& value) const {
    simt::uint32_t t = 0;
    if (this->claim_pops(1, t) == 0) return false;
    value = simt::atomic_ref<T>{cells[t % this->capacity()].value}.load(simt::acquire);
    this->recycle(1);
    return true;
  }
  typename ring_queue<T>::cell* cells;
};

// A claim that fails and does not give back what it subtracted: places get lost.
template <class T>
struct queue_that_keeps_claims : ring_queue<T> {
  queue_that_keeps_claims(void* memory, simt::uint32_t capacity) : ring_queue<T>(memory, capacity), words{static_cast<char*>(memory)} {}
  GPUHEAP_FN bool try_pop(T& value) const {
    simt::atomic_ref<simt::uint32_t> const items{*reinterpret_cast<simt::uint32_t*>(words + 32)};
    if (static_cast<int>(items.load(simt::relaxed)) <= 0) return false;
    if (static_cast<int>(items.fetch_sub(1, simt::relaxed)) <= 0) return false;
    items.fetch_add(1, simt::relaxed);
    return ring_queue<T>::try_pop(value);
  }
  char* words;
};

}  // namespace structures_test
