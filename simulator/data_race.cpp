// Data races between plain accesses, and between plain and atomic ones, in the weak mode.
#include <algorithm>
#include <string>

#include "machine.hpp"
#include "weak_memory.hpp"

namespace gpuheap::simulator {

namespace {

std::string what_and_where(operation what, site at) { return std::string(name_of(what)) + report::place(at); }

std::string race_text(lane const& me, std::string const& other) {
  return "data race: " + what_and_where(me.doing, me.at()) + " by thread " + std::to_string(me.global_index) + " (" + report::name_of(me) +
         ") and " + other + ": neither happens before the other";
}

[[noreturn, gnu::cold, gnu::noinline]] void race(lane* me, char const* other) {
  machine::of(me).note_failure(failure_kind::data_race, race_text(*me, other));
  machine::of(me).stop();
}

[[noreturn, gnu::cold, gnu::noinline]] void race_with_plain(lane* me, access_cell const& other) {
  operation const what = other.writes ? operation::plain_write : operation::plain_read;
  machine::of(me).note_failure(failure_kind::data_race,
                               race_text(*me, what_and_where(what, other.at) + " by thread " + std::to_string(other.global_index)));
  machine::of(me).stop();
}

}  // namespace

void weak_memory::plain_access(lane* me, void const* p, std::size_t bytes, bool writes) {
  std::uintptr_t const begin = reinterpret_cast<std::uintptr_t>(p);
  std::uintptr_t const end = begin + bytes;
  for (std::uintptr_t base = begin / granule_bytes * granule_bytes; base < end; base += granule_bytes) {
    unsigned const from = static_cast<unsigned>(std::max(begin, base) - base);
    unsigned const to = static_cast<unsigned>(std::min(end, base + granule_bytes) - base);
    auto const touched = static_cast<byte_mask>(((1u << to) - 1) & ~((1u << from) - 1));
    granule& g = table_.find_or_make(base);
    check_against_atomic(me, g, touched, writes);
    check_against_plain(me, g, touched, writes, !writes);
    note_plain(me, g, touched, writes);
    if (!writes) continue;
    for (location* l = g.locations; l != nullptr; l = l->next) {
      if ((l->bytes & touched) != 0) l->stores.forget(order_);
    }
  }
}

void weak_memory::check_against_plain(lane* me, granule& g, byte_mask bytes, bool writes, bool reads_l1) {
  if (g.cells == nullptr) return;
  for (unsigned i = 0; i < g.cells->num_kept; ++i) {
    access_cell const& c = g.cells->kept[i];
    bool const comes_before = reads_l1 ? me->view->knows(c.by) : me->view->reaches(c.by);
    if ((c.bytes & bytes) != 0 && (c.writes || writes) && !comes_before) race_with_plain(me, c);
  }
}

void weak_memory::check_against_atomic(lane* me, granule& g, byte_mask bytes, bool writes) {
  for (location const* l = g.locations; l != nullptr; l = l->next) {
    if ((l->bytes & bytes) == 0) continue;
    if (l->stores.has_unknown_store(*me->view, writes)) race(me, "an atomic store to the same bytes by another thread");
    if (writes && l->stores.has_unknown_read(*me->view)) race(me, "an atomic load of the same bytes by another thread");
  }
}

void weak_memory::note_plain(lane* me, granule& g, byte_mask bytes, bool writes) {
  access_cells& cells = table_.cells_of(g);
  access_cell const now{me->view->now(), me->global_index, me->at(), bytes, writes};
  // This access replaces earlier ones that it covers, because a later access that races with a covered one also races with this one. A
  // write also removes its bytes from earlier accesses that it covers in part, even if the lane has only consumed them and not acquired
  // them. That is sound, because a later read of these bytes by the lane gets the lane's own value.
  access_cell* free = nullptr;
  for (unsigned i = 0; i < cells.num_kept; ++i) {
    access_cell& c = cells.kept[i];
    if (writes && me->view->reaches(c.by)) c.bytes = static_cast<byte_mask>(c.bytes & ~bytes);
    bool const covered = c.bytes == 0 || (!writes && !c.writes && (c.bytes & ~bytes) == 0 && me->view->reaches(c.by));
    if (covered && free == nullptr) free = &c;
  }
  if (free != nullptr) {
    *free = now;
    return;
  }
  if (cells.num_kept < cells_per_granule) {
    cells.kept[cells.num_kept++] = now;
  } else {
    cells.kept[cells.oldest++ % cells_per_granule] = now;
  }
}

}  // namespace gpuheap::simulator
