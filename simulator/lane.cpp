// The functions that a lane calls about itself: its place, clocks, back-off, trap.
#include <gpuheap_simulator/lane.hpp>

#include <stdexcept>
#include <string>

#include "machine.hpp"

namespace gpuheap::simulator {

namespace detail {
void called_from_host(char const* what) {
  throw std::logic_error(std::string("simulator: ") + what + "() is device code and was called from the host");
}
}  // namespace detail

namespace {
lane const& caller(char const* what) {
  lane const* const me = current();
  if (me == nullptr) [[unlikely]]
    detail::called_from_host(what);
  return *me;
}
constexpr std::uint64_t cycles_per_point = 32;
constexpr std::uint64_t ns_per_point = 20;

std::uint64_t tick(site where) {
  lane* const me = current();
  if (me == nullptr) detail::called_from_host("clock");
  scheduling_point(me, operation::clock, where);
  return machine::of(me).points();
}
}  // namespace

unsigned lane_id() { return caller("lane_id").index; }
unsigned thread_in_block() {
  lane const& me = caller("thread_in_block");
  return me.in->index * warp_lanes + me.index;
}
unsigned threads_per_block() { return machine::of(&caller("threads_per_block")).running().what.block_threads; }
unsigned block_id() { return caller("block_id").in->in->index; }
unsigned num_blocks() { return machine::of(&caller("num_blocks")).running().num_blocks; }
unsigned sm_id() { return caller("sm_id").in->in->sm; }
unsigned launch_id() { return machine::of(&caller("launch_id")).running().id; }

std::uint64_t clock_cycles(site where) { return tick(where) * cycles_per_point; }
std::uint64_t clock_ns(site where) { return tick(where) * ns_per_point; }

void back_off(site where) {
  lane* const me = current();
  if (me == nullptr) return;
  note(me, operation::back_off, where);
  machine::of(me).back_off(me);
}

void trap(site where) {
  lane* const me = current();
  if (me == nullptr) detail::called_from_host("trap");
  note(me, operation::trap, where);
  machine& m = machine::of(me);
  m.note_failure(failure_kind::trap, report::name_of(*me) + " called trap()" + report::place(where));
  m.stop();
}

}  // namespace gpuheap::simulator
