// What a lane does at a scheduling point, and where in the source: the vocabulary of reports.
#pragma once

#include <cstdint>

namespace gpuheap::simulator {

// A place in the source. `here()` as a default argument is the caller's line.
struct site {
  char const* file = nullptr;
  unsigned line = 0;

  [[nodiscard]] static constexpr site here(char const* file = __builtin_FILE(), unsigned line = __builtin_LINE()) { return {file, line}; }
  friend constexpr bool operator==(site const&, site const&) = default;
};

enum class operation : std::uint8_t {
  none,
  load,
  load_cached,
  store,
  exchange,
  compare_exchange,
  fetch_add,
  fetch_and,
  fetch_or,
  fetch_xor,
  fetch_min,
  fetch_max,
  fence,
  plain_read,
  plain_write,
  back_off,
  clock,
  active_mask,
  sync_warp,
  ballot,
  all_of,
  any_of,
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  match_any,
  reduce_or,
  reduce_and,
  reduce_add,
  reduce_min,
  reduce_max,
  sync_block,
  trap,
};

// The operation as device code spells it.
[[nodiscard]] char const* name_of(operation what);

// Memory orders, with the values of the compiler's __ATOMIC_ constants (and of std::memory_order).
enum class order : int {
  relaxed = __ATOMIC_RELAXED,
  acquire = __ATOMIC_ACQUIRE,
  release = __ATOMIC_RELEASE,
  acq_rel = __ATOMIC_ACQ_REL,
  seq_cst = __ATOMIC_SEQ_CST
};

[[nodiscard]] constexpr bool acquires(order o) { return o == order::acquire || o == order::acq_rel || o == order::seq_cst; }
[[nodiscard]] constexpr bool releases(order o) { return o == order::release || o == order::acq_rel || o == order::seq_cst; }

}  // namespace gpuheap::simulator
