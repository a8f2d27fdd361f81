// Atomic accesses in the weak mode. Plain accesses are in data_race.cpp.
#include "weak_memory.hpp"

#include "machine.hpp"

namespace gpuheap::simulator {

namespace {
byte_mask bytes_of(void const* p, unsigned size) {
  return static_cast<byte_mask>(((1u << size) - 1) << (reinterpret_cast<std::uintptr_t>(p) % granule_bytes));
}
std::uintptr_t address_of(void const* p) { return reinterpret_cast<std::uintptr_t>(p); }
}  // namespace

void weak_memory::reset(settings const& s, random_source& random, std::size_t num_slots) {
  random_ = &random;
  stale_one_in_ = s.stale_one_in;
  num_stale_loads_ = 0;
  order_.reset(num_slots);
  table_.reset();
}

location* weak_memory::location_in(granule& g, byte_mask bytes) {
  if (g.mixed) return nullptr;
  // Ends: at most one location for each byte.
  for (location* l = g.locations; l != nullptr; l = l->next) {
    if (l->bytes == bytes) return l;
    if ((l->bytes & bytes) != 0) {
      collapse(g);
      return nullptr;
    }
  }
  return nullptr;
}

void weak_memory::collapse(granule& g) {
  g.mixed = true;
  for (location* l = g.locations; l != nullptr; l = l->next) {
    if (!l->stores.empty()) {
      release_info const& r = l->stores[l->stores.newest()].release;
      if (r.known != nullptr) g.releases = g.releases.known == nullptr ? happens_before::share(r) : order_.combined(g.releases, r);
    }
    l->stores.forget(order_);
  }
  g.locations = nullptr;
}

void weak_memory::release_in_mixed(thread_view& v, granule& g, order o) {
  release_info own = order_.carried(v, o);
  if (own.known == nullptr) return;
  if (g.releases.known == nullptr) {
    g.releases = own;
    return;
  }
  g.releases = order_.combined(g.releases, own);
  order_.drop(own);
}

location* weak_memory::location_for_store(granule& g, byte_mask bytes, std::uint64_t before) {
  location* l = location_in(g, bytes);
  if (l == nullptr) {
    if (g.mixed) return nullptr;
    l = &table_.add_location(g, bytes);
  } else if (!l->stores.empty() && l->stores[l->stores.newest()].value != before) {
    l->stores.forget(order_);
  }
  if (l->stores.empty()) l->stores.start(before);
  return l;
}

std::uint64_t weak_memory::load(lane* me, void const* p, unsigned size, std::uint64_t latest, order o, bool cached) {
  thread_view& v = *me->view;
  if (o == order::seq_cst) order_.fence(v, o);
  granule* const g = table_.find(address_of(p));
  if (g == nullptr) return latest;
  byte_mask const bytes = bytes_of(p, size);
  if (g->cells != nullptr) check_against_plain(me, *g, bytes, false, cached);
  location* const l = location_in(*g, bytes);
  if (g->mixed) {
    order_.learn(v, g->releases, o);
    return latest;
  }
  if (l == nullptr || l->stores.empty()) return latest;
  store_history& stores = l->stores;
  std::uint32_t number = stores.newest();
  if (stores[number].value != latest) {
    stores.forget(order_);
    return latest;
  }
  if (number != stores.oldest() && random_->one_in(stale_one_in_)) {
    std::uint32_t const from = stores.oldest_readable(v, cached);
    std::uint32_t const choice = from + random_->below(number - from + 1);
    num_stale_loads_ += choice != number;
    number = choice;
  }
  stored const& seen = stores[number];
  if (!cached) stores.note_read(v, number, order_.num_slots());
  order_.learn(v, seen.release, o);
  return seen.value;
}

void weak_memory::observe(lane* me, void const* p, unsigned size, std::uint64_t latest, order o) {
  thread_view& v = *me->view;
  if (o == order::seq_cst) order_.fence(v, o);
  granule* const g = table_.find(address_of(p));
  if (g == nullptr) return;
  byte_mask const bytes = bytes_of(p, size);
  if (g->cells != nullptr) check_against_plain(me, *g, bytes, false, false);
  location* const l = location_in(*g, bytes);
  if (g->mixed) return order_.learn(v, g->releases, o);
  if (l == nullptr || l->stores.empty()) return;
  stored const& newest = l->stores[l->stores.newest()];
  if (newest.value != latest) return l->stores.forget(order_);
  l->stores.note_read(v, l->stores.newest(), order_.num_slots());
  order_.learn(v, newest.release, o);
}

void weak_memory::store(lane* me, void const* p, unsigned size, std::uint64_t before, std::uint64_t after, order o) {
  thread_view& v = *me->view;
  if (o == order::seq_cst) order_.fence(v, o);
  granule& g = table_.find_or_make(address_of(p));
  byte_mask const bytes = bytes_of(p, size);
  if (g.cells != nullptr) check_against_plain(me, g, bytes, true, false);
  location* const l = location_for_store(g, bytes, before);
  if (l == nullptr) return release_in_mixed(v, g, o);
  moment const by = v.now();
  l->stores.append(order_, {after, by, order_.carried(v, o)});
}

void weak_memory::read_modify_write(lane* me, void const* p, unsigned size, std::uint64_t before, std::uint64_t after, order o) {
  thread_view& v = *me->view;
  if (o == order::seq_cst) order_.fence(v, o);
  granule& g = table_.find_or_make(address_of(p));
  byte_mask const bytes = bytes_of(p, size);
  if (g.cells != nullptr) check_against_plain(me, g, bytes, true, false);
  location* const l = location_for_store(g, bytes, before);
  if (l == nullptr) {
    order_.learn(v, g.releases, o);
    return release_in_mixed(v, g, o);
  }
  release_info const sequence = happens_before::share(l->stores[l->stores.newest()].release);
  order_.learn(v, sequence, o);
  moment const by = v.now();
  release_info const own = order_.carried(v, o);
  l->stores.append(order_, {after, by, order_.carried_on(v, own, sequence, o)});
  order_.drop(sequence);
}

namespace weak {

namespace {
weak_memory& memory_of(lane* me) { return machine::of(me).memory(); }
}  // namespace

std::uint64_t load(lane* me, void const* p, unsigned size, std::uint64_t latest, order o, bool cached) {
  return memory_of(me).load(me, p, size, latest, o, cached);
}
void store(lane* me, void const* p, unsigned size, std::uint64_t before, std::uint64_t after, order o) {
  memory_of(me).store(me, p, size, before, after, o);
}
void read_modify_write(lane* me, void const* p, unsigned size, std::uint64_t before, std::uint64_t after, order o) {
  memory_of(me).read_modify_write(me, p, size, before, after, o);
}
void observe(lane* me, void const* p, unsigned size, std::uint64_t latest, order o) { memory_of(me).observe(me, p, size, latest, o); }
void fence(lane* me, order o) { memory_of(me).fence(me, o); }
void note_performed(lane* me) { memory_of(me).note_performed(me); }
void plain_read(lane* me, void const* p, std::size_t bytes) { memory_of(me).plain_access(me, p, bytes, false); }
void plain_write(lane* me, void const* p, std::size_t bytes) { memory_of(me).plain_access(me, p, bytes, true); }

}  // namespace weak

}  // namespace gpuheap::simulator
