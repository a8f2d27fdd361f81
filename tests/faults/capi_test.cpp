// The C interface with each call of the runtime and of the driver failing in turn: it returns a status and a text that name the failure,
// and leaves no heap or memory behind.
#include "launches.hpp"

#include "capi/library.cu"
#include "every_call.hpp"

#include <memory>
#include <vector>

namespace {

// A status as an exception, for the steps below.
class status_error : public std::runtime_error {
 public:
  explicit status_error(gpuheap_status status) : std::runtime_error{gpuheap_last_error()}, status_{status} {}
  [[nodiscard]] gpuheap_status status() const { return status_; }

 private:
  gpuheap_status status_;
};
void require_success(gpuheap_status status) {
  if (status != GPUHEAP_SUCCESS) throw status_error(status);
}
bool is_of_the_device(std::exception const& e) {
  auto const* const found = dynamic_cast<status_error const*>(&e);
  return found != nullptr && (found->status() == GPUHEAP_CUDA_ERROR || found->status() == GPUHEAP_OUT_OF_MEMORY);
}

struct heap_of_c {
  gpuheap_options options{};
  gpuheap_heap* heap = nullptr;
  void* pointers[2] = {};

  explicit heap_of_c(gpuheap_options with) : options{with} { options.struct_bytes = sizeof options; }
  heap_of_c(heap_of_c const&) = delete;
  heap_of_c& operator=(heap_of_c const&) = delete;
  ~heap_of_c() { gpuheap_destroy(heap); }

  [[nodiscard]] gpuheap_stats stats() const {
    gpuheap_stats found{};
    found.struct_bytes = sizeof found;
    require_success(gpuheap_get_stats(heap, &found, nullptr));
    return found;
  }
  // Whether kernels read the view that was last written.
  [[nodiscard]] bool view_is_current() const {
    auto const address = reinterpret_cast<std::uintptr_t>(gpuheap_get_handle(heap)) & ~gpuheap::c_interface::kind_bits;
    return heap->is_written && std::memcmp(reinterpret_cast<void const*>(address), &heap->written, sizeof heap->written) == 0;
  }
  faults::life all{{[this] {
                      gpuheap_status const made = gpuheap_create(&heap, &options);
                      EXPECT_EQ(heap == nullptr, made != GPUHEAP_SUCCESS);
                      require_success(made);
                    },
                    [this] {
                      if (heap != nullptr) (void)stats();
                    },
                    [this] {
                      if (heap != nullptr) require_success(gpuheap_check(heap, nullptr));
                    },
                    [this] {
                      if (heap != nullptr && options.at_most_bytes != 0) require_success(gpuheap_grow(heap, 16 << 20, nullptr));
                    },
                    [this] {
                      if (heap != nullptr) require_success(gpuheap_free_blocks(heap, pointers, 2, nullptr));
                    },
                    [this] {
                      if (heap != nullptr) require_success(gpuheap_free_blocks_on_device(heap, pointers, 2, nullptr));
                    },
                    [this] {
                      if (heap != nullptr) require_success(gpuheap_reset(heap, nullptr));
                    }},
                   [this] { return std::to_string(stats().heap_bytes) + " " + std::to_string(view_is_current()); }};
};

void fail_every_call_of(uint64_t at_most_bytes, int32_t device, uint32_t allocator = GPUHEAP_DEFAULT_ALLOCATOR) {
  gpuheap_options options{};
  options.bytes = 16 << 20;
  options.allocator = allocator;
  options.at_most_bytes = at_most_bytes;
  options.device = device;
  faults::fail_every_call([options] { return std::make_unique<heap_of_c>(options); }, is_of_the_device);
}
TEST(FaultsOfC, OfAHeapOfAFixedSize) { fail_every_call_of(0, 0); }
TEST(FaultsOfC, OfAHeapThatGrows) { fail_every_call_of(64 << 20, GPUHEAP_CURRENT_DEVICE); }
TEST(FaultsOfC, OfACheckedHeap) { fail_every_call_of(0, 0, GPUHEAP_CHECKED_ALLOCATOR); }
TEST(FaultsOfC, OfAHardenedHeap) { fail_every_call_of(0, 0, GPUHEAP_HARDENED_ALLOCATOR); }
TEST(FaultsOfC, OfAHardenedHeapThatGrows) { fail_every_call_of(64 << 20, 0, GPUHEAP_HARDENED_ALLOCATOR); }
// The caller's device is current again, whatever failed.
TEST(FaultsOfC, OfAHeapOnAnotherDevice) { fail_every_call_of(0, 1); }

}  // namespace
