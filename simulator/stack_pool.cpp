// Maps stacks in groups. Each stack has a guard page below it, so that a lane that overflows its stack ends in a fault and not in another
// lane's frames.
#include "stack_pool.hpp"

#include "sanitizer_hooks.hpp"

#include <sys/mman.h>

#include <atomic>
#include <new>

namespace gpuheap::simulator {

namespace {
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t stacks_per_mapping = 64;
constexpr std::size_t sizeof_header = 64;
static_assert(sizeof(stack) <= sizeof_header);
// Tops are staggered within their page, because at equal offsets the hot frames of all lanes would share a few sets of the CPU's L1 cache.
constexpr std::size_t stagger_bytes = 192;
constexpr std::size_t stagger_steps = 16;

// The limit of ThreadSanitizer's fibers in the whole process. A pool that has no stack to reuse exceeds it.
constexpr unsigned most_fibers = 2048;
std::atomic<unsigned> num_fibers{0};
}  // namespace

stack_pool::~stack_pool() { release_all(); }

void stack_pool::release_all() {
  end_launch();
  for (stack* s = free_; s != nullptr; s = s->next_free) destroy_fiber(s);
  for (void* p : mappings_) munmap(p, mapping_bytes_);
  mappings_.clear();
  free_ = nullptr;
}

void stack_pool::set_stack_bytes(std::size_t bytes) {
  bytes = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  if (bytes == stack_bytes_) return;
  release_all();
  stack_bytes_ = bytes;
}

void stack_pool::grow() {
  std::size_t const stride = stack_bytes_ + page_bytes;
  mapping_bytes_ = stride * stacks_per_mapping;
  void* const base = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  mappings_.push_back(base);
  for (std::size_t i = stacks_per_mapping; i-- > 0;) {
    std::byte* const low = static_cast<std::byte*>(base) + i * stride;
    (void)mprotect(low, page_bytes, PROT_NONE);  // fails when the process has too many mappings; the stack then has no guard
    std::byte* const high = low + stride - (i % stagger_steps) * stagger_bytes;
    auto* const s = reinterpret_cast<stack*>(high - sizeof_header);
    s->bottom = low + page_bytes;
    s->top = high - sizeof_header;
    s->fiber = s->fake_frames = nullptr;
    push(s);
  }
}

stack* stack_pool::take_with_fiber() {
  bool const may_make = num_fibers.load(std::memory_order_relaxed) < most_fibers || finished_.empty();
  if (free_ == nullptr && may_make) grow();
  stack* s = free_;
  if (s != nullptr && (s->fiber != nullptr || may_make)) {
    free_ = s->next_free;
  } else {
    s = finished_.front();
    finished_.pop_front();
  }
  if (s->fiber == nullptr) {
    s->fiber = hooks::make_fiber();
    num_fibers.fetch_add(1, std::memory_order_relaxed);
  }
  return s;
}

void stack_pool::destroy_fiber(stack* s) {
  if (s->fiber == nullptr) return;
  hooks::destroy_fiber(s->fiber);
  s->fiber = nullptr;
  num_fibers.fetch_sub(1, std::memory_order_relaxed);
}

void stack_pool::end_launch() {
  for (stack* s : finished_) push(s);
  finished_.clear();
}

}  // namespace gpuheap::simulator
