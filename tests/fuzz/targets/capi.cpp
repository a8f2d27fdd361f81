// The C interface, called in any order with any arguments, on a runtime whose calls fail now and then: it answers with a status, and gives
// everything back.
#include "tests/faults/launches.hpp"

#include "capi/library.cu"

#include <fuzzer/FuzzedDataProvider.h>

#include <vector>

#include "reads.hpp"

namespace {

bool answers(gpuheap_status status) {
  fuzz::require(status >= GPUHEAP_SUCCESS && status <= GPUHEAP_MISUSED);
  fuzz::require(status == GPUHEAP_SUCCESS || *gpuheap_last_error() != '\0');
  fuzz::require(std::string{gpuheap_status_text(status)} != "no status of this library");
  return status == GPUHEAP_SUCCESS;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  FuzzedDataProvider in{data, size};
  static bool const begun = [] {
    gpuheap_options options{};
    options.struct_bytes = sizeof options;
    options.bytes = gpuheap_min_bytes();
    gpuheap_heap* heap = nullptr;
    fuzz::require(answers(gpuheap_create(&heap, &options)));
    gpuheap_destroy(heap);
    return true;
  }();
  (void)begun;
  std::uint64_t const nth = in.ConsumeBool() ? in.ConsumeIntegralInRange<std::uint64_t>(0, 200) : faults::plan::none;
  faults::arm({nth, in.ConsumeBool(), in.ConsumeBool()});
  gpuheap_heap* heaps[2] = {};
  static std::vector<char> host(4096);
  void* pointers[8] = {};
  // Ends: each pass takes a byte of the input.
  while (in.remaining_bytes() != 0) {
    gpuheap_heap*& heap = heaps[in.ConsumeBool() ? 1 : 0];
    switch (in.ConsumeIntegralInRange<int>(0, 9)) {
      case 0: {
        if (heap != nullptr) break;
        gpuheap_options options{};
        options.struct_bytes = in.ConsumeBool() ? sizeof options : in.ConsumeIntegral<std::uint64_t>();
        // Of a size that is quick to make, or of any.
        options.bytes = in.ConsumeBool() ? gpuheap_min_bytes() + in.ConsumeIntegralInRange<std::uint64_t>(0, 1 << 20)
                                         : in.ConsumeIntegral<std::uint64_t>();
        options.at_most_bytes = in.ConsumeBool() ? 0 : in.ConsumeIntegralInRange<std::uint64_t>(0, std::uint64_t{1} << 28);
        options.device = in.ConsumeIntegralInRange<std::int32_t>(-2, 2);
        options.memory = in.ConsumeIntegralInRange<std::uint32_t>(0, 3);
        options.allocator = in.ConsumeIntegralInRange<std::uint32_t>(0, 3);
        if (in.ConsumeBool()) options.buffer = reinterpret_cast<void*>(in.ConsumeIntegralInRange<std::uintptr_t>(0, 300));
        if (options.buffer != nullptr && options.at_most_bytes == 0 && options.bytes >= gpuheap_min_bytes()) break;  // a wild buffer
        fuzz::require(answers(gpuheap_create(&heap, &options)) == (heap != nullptr));
        break;
      }
      case 1:
        gpuheap_destroy(heap);
        heap = nullptr;
        break;
      case 2:
        if (heap != nullptr) (void)answers(gpuheap_reset(heap, nullptr));
        break;
      case 3:
        if (heap != nullptr) (void)answers(gpuheap_check(heap, nullptr));
        break;
      case 4: {
        gpuheap_stats stats{};
        stats.struct_bytes = in.ConsumeBool() ? sizeof stats : in.ConsumeIntegral<std::uint64_t>();
        if (heap != nullptr) (void)answers(gpuheap_get_stats(heap, in.ConsumeBool() ? &stats : nullptr, nullptr));
        break;
      }
      case 5:
        if (heap != nullptr)
          (void)answers(gpuheap_grow(heap, in.ConsumeIntegralInRange<std::uint64_t>(0, std::uint64_t{1} << 26), nullptr));
        break;
      case 6:
        if (heap != nullptr)
          (void)answers(gpuheap_free_blocks(heap, in.ConsumeBool() ? pointers : nullptr, in.ConsumeIntegralInRange(0, 8), nullptr));
        break;
      case 7:
        // A copy outside of the heap is refused; one inside is made.
        if (heap != nullptr) {
          auto const from = reinterpret_cast<void const*>(in.ConsumeIntegral<std::uintptr_t>());
          (void)answers(gpuheap_copy_to_host(heap, host.data(), from, in.ConsumeIntegralInRange<std::uint64_t>(0, host.size()), nullptr));
        }
        break;
      case 8:
        if (heap != nullptr) (void)answers(gpuheap_free_blocks_on_device(heap, pointers, in.ConsumeIntegralInRange(0, 8), nullptr));
        break;
      case 9:
        fuzz::require(!answers(gpuheap_create(heap == nullptr ? &heap : nullptr, nullptr)));
        break;
    }
  }
  for (gpuheap_heap* heap : heaps) gpuheap_destroy(heap);
  faults::disarm();
  faults::restore_device();
  if (faults::held() != faults::resources{}) {
    std::fprintf(stderr, "not given back:%s\n", faults::text_of(faults::held()).c_str());
    std::abort();
  }
  return 0;
}
