// The out-of-line atomic operations: fences and 16 bytes.
#include <gpuheap_simulator/atomic.hpp>

#include <cstring>

#include "machine.hpp"

namespace gpuheap::simulator {

namespace {
char fence_object;  // only its address is used: ThreadSanitizer sees all fences synchronise on this object
}

namespace detail {
order order_under_tsan(lane* me, order o) {
  if (me->release_fenced && o == order::relaxed) o = order::release;
  if (me->release_fenced && o == order::acquire) o = order::acq_rel;
  if (me->release_fenced && o == order::consume) o = order::relay;
  if (releases(o)) hooks::release(&fence_object);
  return o;
}
}  // namespace detail

void fence(order o, site where) {
  lane* const me = current();
  if (me == nullptr) return __atomic_thread_fence(static_cast<int>(o));
  scheduling_point(me, operation::fence, where);
  __atomic_thread_fence(static_cast<int>(o));
  if (hooks::under_tsan) {
    if (acquires(o)) hooks::acquire(&fence_object);
    if (releases(o)) me->release_fenced = true;
    if (o == order::seq_cst) hooks::release(&fence_object);
  }
  if (in_weak_mode(me)) weak::fence(me, o);
}

#if defined(__x86_64__)
namespace {
struct alignas(16) two_words {
  std::uint64_t low, high;
};
bool compare_exchange_two(two_words* object, two_words* expected, two_words desired) {
  bool won;
  asm volatile("lock cmpxchg16b %1"
               : "=@ccz"(won), "+m"(*object), "+a"(expected->low), "+d"(expected->high)
               : "b"(desired.low), "c"(desired.high)
               : "memory");
  return won;
}
}  // namespace
#endif

bool compare_exchange_16(void* object, void* expected, void const* desired, site where) {
  lane* const me = current();
  if (me != nullptr) scheduling_point(me, operation::compare_exchange, where);
#if defined(__x86_64__)
  two_words wanted, wish;
  std::memcpy(&wanted, expected, sizeof wanted);
  std::memcpy(&wish, desired, sizeof wish);
  two_words const before = wanted;
  bool const won = compare_exchange_two(static_cast<two_words*>(object), &wanted, wish);
  std::memcpy(expected, &wanted, sizeof wanted);
  if (me != nullptr && in_weak_mode(me)) {
    auto* const halves = static_cast<std::uint64_t*>(object);
    if (won) {
      weak::read_modify_write(me, halves, 8, before.low, wish.low, order::acq_rel);
      weak::read_modify_write(me, halves + 1, 8, before.high, wish.high, order::acq_rel);
    } else {
      weak::observe(me, halves, 8, wanted.low, order::acquire);
      weak::observe(me, halves + 1, 8, wanted.high, order::acquire);
    }
  }
  return won;
#else
  (void)object, (void)expected, (void)desired;
  if (me == nullptr) detail::called_from_host("compare_exchange_16");
  trap(where);
#endif
}

}  // namespace gpuheap::simulator
