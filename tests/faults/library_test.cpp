// The host's side of heaps and of their memory, as it is compiled for CUDA, with each call of the runtime and of the driver failing in
// turn: the heap's function throws, all resources are given back, and the heap continues from its earlier state.
#include "launches.hpp"

#include "every_call.hpp"

#include <gpuheap/checked.hpp>
#include <gpuheap/hardened.hpp>
#include <gpuheap/heap.hpp>
#include <gpuheap/memory/address_range.hpp>

#include <memory>
#include <optional>
#include <string>

namespace {

using namespace gpuheap::literals;
using faults::life;
using gpuheap::simt::size_t;

bool is_an_error(std::exception const& e) { return dynamic_cast<gpuheap::error const*>(&e) != nullptr; }

std::string number(size_t n) { return std::to_string(n) + " "; }

TEST(Faults, OfTheMachineSayWhatToDo) {
  auto const text_of = [](cudaError_t code) -> std::string {
    try {
      gpuheap::simt::detail::check(code, "a call");
    } catch (gpuheap::device_error const& e) {
      return e.what();
    }
    return "";
  };
  std::string const begin = "gpuheap: a call failed: an injected error: the double was told to fail";
  EXPECT_EQ(text_of(cudaErrorNoDevice), begin + ": nvidia-smi lists the GPUs, and CUDA_VISIBLE_DEVICES may hide them");
  EXPECT_NE(text_of(cudaErrorInsufficientDriver).find(begin + ": there is no NVIDIA driver, or it is too old"), std::string::npos);
  EXPECT_NE(text_of(cudaErrorNoKernelImageForDevice).find("compile with -arch=native"), std::string::npos);
  EXPECT_EQ(text_of(cudaErrorLaunchFailure), begin);
}

// ---- memory

struct owned_memory {
  std::optional<gpuheap::memory::allocation> device, managed, pinned, host;
  life all{{[this] { device.emplace(gpuheap::memory::device, 1_MiB); }, [this] { managed.emplace(gpuheap::memory::managed, 1_MiB); },
            [this] { pinned.emplace(gpuheap::memory::pinned, 1_MiB); }, [this] { host.emplace(gpuheap::memory::host, 1_MiB); },
            [this] { pinned.reset(); }, [this] { (void)gpuheap::memory::device.query(); },
            [] {
              void* const p = gpuheap::simt::allocate_async(4096, {});
              gpuheap::simt::deallocate_async(p, {});
            }},
           [this] { return number(device->bytes()) + number(managed->bytes()) + number(pinned.has_value()); }};
};
TEST(Faults, OfMemoryThatIsTaken) {
  faults::fail_every_call([] { return std::make_unique<owned_memory>(); }, is_an_error);
}

struct mapped_range {
  std::optional<gpuheap::memory::address_range> range;
  life all{
      {[this] { range.emplace(1_GiB); }, [this] { range->map(0, 3_MiB); }, [this] { range->map(1_MiB, 100_MiB); },
       [this] { range->map(500_MiB, 4_MiB); }, [this] { (void)range->unmap(64_MiB, 512_MiB); },
       [this] {
         gpuheap::memory::address_range other{std::move(*range)};
         *range = std::move(other);
       },
       [this] { range->map(200_MiB, 40_MiB); }},
      [this] { return number(range->mapped_bytes()) + number(range->is_mapped(0, 64_MiB)) + number(range->is_mapped(200_MiB, 40_MiB)); }};
};
TEST(Faults, OfAnAddressRange) {
  faults::fail_every_call([] { return std::make_unique<mapped_range>(); }, is_an_error);
}

struct timed_stream {
  std::optional<gpuheap::simt::stopwatch> watch;
  life all{{[this] { watch.emplace(); }, [this] { watch->start(); }, [this] { watch->stop(); }, [this] { (void)watch->elapsed_us(); },
            [] { gpuheap::simt::destroy_stream(gpuheap::simt::make_stream()); }, [] { (void)gpuheap::simt::query_device(); },
            [] { gpuheap::simt::set_builtin_heap_limit(gpuheap::simt::builtin_heap_limit()); }},
           [] { return std::string{}; }};
};
TEST(Faults, OfStreamsAndStopwatches) {
  faults::fail_every_call([] { return std::make_unique<timed_stream>(); }, is_an_error);
}

// ---- heaps

template <class Heap>
std::string facts_of(Heap& heap) {
  gpuheap::statistics const s = heap.stats();
  return number(heap.bytes()) + number(heap.capacity()) + number(heap.at_most()) + number(s.usable_bytes) + number(s.failed_requests) +
         number(s.live_allocations);
}

// Memory of one of the machine's kinds, whose place the test knows.
struct known_place {
  gpuheap::memory::machine_memory kind;
  void** where;
  [[nodiscard]] void* allocate(size_t bytes) const { return *where = kind.allocate(bytes); }
  void deallocate(void* p, size_t bytes) const noexcept { kind.deallocate(p, bytes); }
  [[nodiscard]] std::optional<gpuheap::memory::capacity> query() const { return kind.query(); }
  [[nodiscard]] std::string name() const { return kind.name(); }
};

template <class Heap>
struct fixed_heap {
  gpuheap::memory::machine_memory kind;
  void* where = nullptr;
  std::optional<Heap> heap{};
  std::vector<char> bytes = std::vector<char>(4096);
  life all{
      {[this] {
         heap.emplace(16_MiB, known_place{kind, &where});
       },
       [this] { (void)heap->stats(); }, [this] { (void)heap->check(); }, [this] { heap->set_policy(gpuheap::exhaustion_policy::trap); },
       [this] { heap->reset(); }, [this] { heap->set_policy(gpuheap::exhaustion_policy::null); },
       [this] {
         heap->free(std::vector<void*>{nullptr, nullptr});
       },
       [this] { heap->copy_to_host(bytes.data(), where, bytes.size()); },
       [this] { heap->copy_from_host(where, bytes.data(), bytes.size()); }, [this] { (void)heap->check(); },
       [this] {
         auto moved = std::move(*heap);
         *heap = std::move(moved);
       },
       [this] { (void)heap->stats(); }},
      [this] { return facts_of(*heap); }};
};
using default_allocator = gpuheap::heap<>::allocator_type;
template <class Heap>
void fail_every_call_of(gpuheap::memory::machine_memory kind) {
  faults::fail_every_call([kind] { return std::unique_ptr<fixed_heap<Heap>>{new fixed_heap<Heap>{kind}}; }, is_an_error);
}

TEST(Faults, OfAHeapOfAFixedSize) { fail_every_call_of<gpuheap::heap<>>(gpuheap::memory::device); }
TEST(Faults, OfAHeapThatDoesNotCount) { fail_every_call_of<gpuheap::heap<default_allocator, gpuheap::uncounted>>(gpuheap::memory::device); }
TEST(Faults, OfAHeapInManagedMemory) { fail_every_call_of<gpuheap::heap<>>(gpuheap::memory::managed); }
TEST(Faults, OfAHeapInPinnedMemory) { fail_every_call_of<gpuheap::heap<>>(gpuheap::memory::pinned); }

template <class Heap>
struct growing_heap {
  std::optional<Heap> heap;
  life all{{[this] { heap.emplace(gpuheap::growth{.initial = 16_MiB, .at_most = 192_MiB}); }, [this] { heap->grow(32_MiB); },
            [this] { heap->grow_when_exhausted({.bytes = 32_MiB}); }, [this] { (void)heap->check(); }, [this] { heap->grow(100_MiB); },
            [this] { heap->reset(); }, [this] { (void)heap->trim(); }, [this] { (void)heap->stats(); }, [this] { heap->grow(1_MiB); }},
           [this] { return facts_of(*heap); }};
};
TEST(Faults, OfAHeapThatGrows) {
  faults::fail_every_call([] { return std::make_unique<growing_heap<gpuheap::heap<>>>(); }, is_an_error);
}
TEST(Faults, OfAHardenedHeapThatGrows) {
  faults::fail_every_call([] { return std::make_unique<growing_heap<gpuheap::heap<gpuheap::hardened<>>>>(); }, is_an_error);
}

// A heap that finds misuse.
template <class Allocator>
struct watchful_heap {
  std::optional<gpuheap::heap<Allocator>> heap;
  life all{{[this] { heap.emplace(16_MiB); }, [this] { (void)heap->check(); },
            [this] { heap->set_misuse_policy(gpuheap::when_misused::trap); }, [this] { heap->reset(); }, [this] { (void)heap->check(); },
            [this] { (void)heap->blocks(); }, [this] { (void)heap->report_leaks(); }, [this] { (void)heap->stats(); }},
           [this] { return facts_of(*heap) + number(heap->blocks().size()); }};
};
TEST(Faults, OfACheckedHeap) {
  faults::fail_every_call([] { return std::make_unique<watchful_heap<gpuheap::checked<>>>(); }, is_an_error);
}
TEST(Faults, OfAHardenedHeap) {
  faults::fail_every_call([] { return std::make_unique<watchful_heap<gpuheap::hardened<>>>(); }, is_an_error);
}

// Members of a heap leave the current device as it was, whichever call fails in them.
TEST(Faults, OfAHeapWhoseDeviceIsNotCurrent) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  gpuheap::heap<> heap{16_MiB};
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(heap.device(), 1);
  std::string failed = "first";
  unsigned rounds = 0;
  // Ends: a plan whose call comes after all calls fails none.
  for (; !failed.empty(); ++rounds) {
    faults::arm({.nth = rounds});
    try {
      (void)heap.stats();
      (void)heap.check();
      heap.set_policy(gpuheap::exhaustion_policy::null);
      heap.reset();
    } catch (gpuheap::error const&) {
    }
    failed = faults::failed_call();
    faults::disarm();
    int current = -1;
    ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
    // A call of cudaSetDevice that fails as a member ends leaves the heap's device current.
    EXPECT_TRUE(current == 0 || failed == "cudaSetDevice") << failed << ", call " << rounds;
    faults::restore_device();
  }
  EXPECT_GT(rounds, 10u);
}

// In a context that was lost all calls fail. check() tells what became of the kernels, not that the device cannot be asked for.
TEST(Faults, OfACheckInALostContext) {
  gpuheap::heap<> heap{16_MiB};
  faults::arm({.nth = 0, .ever_after = true});
  std::string said;
  try {
    (void)heap.check();
  } catch (gpuheap::error const& lost) {
    said = lost.what();
  }
  faults::disarm();
  EXPECT_NE(said.find("running kernels failed"), std::string::npos) << said;
}

}  // namespace
