// The operation of a lane at a scheduling point and its place in the source, as reports show them.
#pragma once

#include <cstdint>

namespace gpuheap::simulator {

// A place in the source. As a default argument, `here()` gives the line of the call.
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

// Memory orders. The first six have the values of the compiler's __ATOMIC_ constants and of std::memory_order. The weak mode distinguishes
// three orders of GPUs:
//   consume          a load or read-modify-write. What was released before the value that it reads happens before the lane's later atomic
//                    accesses and plain writes, but not before its plain reads and cached loads, which may find old lines in the L1
//   relay            a consume that also passes on what is visible to the whole device: what the lane acquired or consumed, and what it did
//                    before its last release. A store with this order passes the same on, but does not consume
//   consume_release  a release that also consumes
enum class order : int {
  relaxed = __ATOMIC_RELAXED,
  consume = __ATOMIC_CONSUME,
  acquire = __ATOMIC_ACQUIRE,
  release = __ATOMIC_RELEASE,
  acq_rel = __ATOMIC_ACQ_REL,
  seq_cst = __ATOMIC_SEQ_CST,
  relay = 6,
  consume_release = 7
};

[[nodiscard]] constexpr bool acquires(order o) { return o == order::acquire || o == order::acq_rel || o == order::seq_cst; }
[[nodiscard]] constexpr bool consumes(order o) { return o == order::consume || o == order::relay || o == order::consume_release; }
[[nodiscard]] constexpr bool releases(order o) {
  return o == order::release || o == order::acq_rel || o == order::seq_cst || o == order::consume_release;
}

// Each of these functions gives the compiler's constant for an order that is at least as strong as `o`: for a load (or a failed
// compare-exchange), for a store, and for a read-modify-write.
[[nodiscard]] constexpr int load_constant(order o) {
  return o == order::relaxed || o == order::seq_cst ? static_cast<int>(o) : __ATOMIC_ACQUIRE;
}
[[nodiscard]] constexpr int store_constant(order o) {
  return o == order::relaxed || o == order::seq_cst ? static_cast<int>(o) : __ATOMIC_RELEASE;
}
[[nodiscard]] constexpr int change_constant(order o) {
  if (o == order::consume) return __ATOMIC_ACQUIRE;
  return o == order::relay || o == order::consume_release ? __ATOMIC_ACQ_REL : static_cast<int>(o);
}

}  // namespace gpuheap::simulator
