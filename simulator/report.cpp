// The names of operations and failures, and the reports about lanes.
#include <algorithm>
#include <tuple>

#include "machine.hpp"

namespace gpuheap::simulator {

char const* name_of(operation what) {
  switch (what) {
    case operation::none:
      return "start";
    case operation::load:
      return "load";
    case operation::load_cached:
      return "load_cached";
    case operation::store:
      return "store";
    case operation::exchange:
      return "exchange";
    case operation::compare_exchange:
      return "compare_exchange";
    case operation::fetch_add:
      return "fetch_add";
    case operation::fetch_and:
      return "fetch_and";
    case operation::fetch_or:
      return "fetch_or";
    case operation::fetch_xor:
      return "fetch_xor";
    case operation::fetch_min:
      return "fetch_min";
    case operation::fetch_max:
      return "fetch_max";
    case operation::fence:
      return "fence";
    case operation::plain_read:
      return "plain_read";
    case operation::plain_write:
      return "plain_write";
    case operation::back_off:
      return "back_off";
    case operation::clock:
      return "clock";
    case operation::active_mask:
      return "active_mask";
    case operation::sync_warp:
      return "sync_warp";
    case operation::ballot:
      return "ballot";
    case operation::all_of:
      return "all_of";
    case operation::any_of:
      return "any_of";
    case operation::shuffle:
      return "shuffle";
    case operation::shuffle_up:
      return "shuffle_up";
    case operation::shuffle_down:
      return "shuffle_down";
    case operation::shuffle_xor:
      return "shuffle_xor";
    case operation::match_any:
      return "match_any";
    case operation::reduce_or:
      return "reduce_or";
    case operation::reduce_and:
      return "reduce_and";
    case operation::reduce_add:
      return "reduce_add";
    case operation::reduce_min:
      return "reduce_min";
    case operation::reduce_max:
      return "reduce_max";
    case operation::sync_block:
      return "sync_block";
    case operation::trap:
      return "trap";
  }
  return "?";
}

char const* name_of(failure_kind kind) {
  switch (kind) {
    case failure_kind::deadlock:
      return "deadlock";
    case failure_kind::livelock:
      return "livelock";
    case failure_kind::misuse:
      return "misuse";
    case failure_kind::data_race:
      return "data race";
    case failure_kind::trap:
      return "trap";
  }
  return "?";
}

std::string report::hex(lane_bits mask) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += digits[mask >> shift & 15];
  return text;
}

std::string report::place(site where) {
  if (where.file == nullptr) return "";
  std::string const path = where.file;
  std::size_t const slash = path.rfind('/');
  return " at " + (slash == std::string::npos ? path : path.substr(slash + 1)) + ":" + std::to_string(where.line);
}

std::string report::lane_list(lane_bits lanes) {
  std::string text;
  for (unsigned i = 0; i < warp_lanes; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    unsigned last = i;
    while (last + 1 < warp_lanes && (lanes >> (last + 1) & 1) != 0) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(i);
    if (last > i) text += "-" + std::to_string(last);
    i = last;
  }
  return text;
}

std::string report::name_of(lane const& l) {
  return "block " + std::to_string(l.in->in->index) + " warp " + std::to_string(l.in->index) + " lane " + std::to_string(l.index);
}

namespace {

// The lanes in `among` that do the same operation at the same place as `first`.
lane_bits lanes_like(warp const& w, lane const& first, lane_bits among) {
  bool const masked = (w.waiting >> first.index & 1) != 0;
  lane_bits alike = 0;
  for (; among != 0; among &= among - 1) {
    lane const& l = w.lanes[__builtin_ctz(among)];
    bool const same = l.doing == first.doing && l.at() == first.at() && l.runnable == first.runnable && (!masked || l.mask == first.mask);
    alike |= static_cast<lane_bits>(same) << l.index;
  }
  return alike;
}

}  // namespace

std::string report::lanes_of(machine const& m) {
  static constexpr unsigned most_lines = 40;
  std::string text;
  unsigned num_lines = 0, lanes_left_out = 0, lanes_not_started = 0;
  // Lanes that wait come first, because a deadlock consists of them.
  for (bool const running : {false, true}) {
    for (block const& b : m.slots_) {
      for (std::uint32_t i = 0; i < b.num_warps; ++i) {
        warp const& w = b.warps[i];
        for (lane_bits rest = w.existing & ~w.exited; rest != 0;) {
          lane const& first = w.lanes[__builtin_ctz(rest)];
          lane_bits const alike = lanes_like(w, first, rest);
          rest &= ~alike;
          if (first.runnable != running) continue;
          auto const count = static_cast<unsigned>(__builtin_popcount(alike));
          if (first.doing == operation::none) {
            lanes_not_started += count;
          } else if (num_lines == most_lines) {
            lanes_left_out += count;
          } else {
            ++num_lines;
            text += "  block " + std::to_string(b.index) + " warp " + std::to_string(w.index) + " lanes " + lane_list(alike);
            bool const stopped = (w.stalled >> first.index & 1) != 0;
            text += std::string(running   ? " can run, next "
                                : stopped ? " stand still before "
                                          : " wait in ") +
                    simulator::name_of(first.doing);
            text += (w.waiting >> first.index & 1) != 0 ? "(mask " + hex(first.mask) + ")" : "()";
            text += place(first.at()) + "\n";
          }
        }
      }
    }
  }
  if (lanes_left_out != 0) text += "  and " + std::to_string(lanes_left_out) + " lanes elsewhere\n";
  if (lanes_not_started != 0) text += "  and " + std::to_string(lanes_not_started) + " lanes that have reached no operation yet\n";
  return text;
}

}  // namespace gpuheap::simulator
