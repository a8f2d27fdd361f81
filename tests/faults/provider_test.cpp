// The heap behind an unchanged program's malloc, with each call of the runtime and of the driver failing in turn: make() returns the reason
// and leaves nothing behind, grow() leaves the heap as it was, and the program's launches continue.
#include "launches.hpp"

#include "every_call.hpp"

#include <gpuheap/checked.hpp>
#include <gpuheap/hardened.hpp>

#include <cstdlib>
#include <memory>
#include <vector>

#include "tools/malloc/provider_table.hpp"

namespace {

using namespace gpuheap::device_malloc;

// A failure as a provider reports it.
class told_failure : public std::runtime_error {
 public:
  explicit told_failure(provider_text const& why) : std::runtime_error{std::string{"gpuheap: "} + why.words} {}
};
bool is_told(std::exception const& e) { return dynamic_cast<told_failure const*>(&e) != nullptr && std::string{e.what()}.size() > 20; }

template <class Allocator>
struct served_life {
  provider table = provider_of<Allocator>("one");
  provider_settings settings{};
  void* heap = nullptr;
  std::vector<char> state = std::vector<char>(table.state_bytes);
  provider_text why{};
  provider_report report{};
  provider_live live[8] = {};

  explicit served_life(std::uint64_t malloc_limit) : settings{malloc_limit} {}
  served_life(served_life const&) = delete;
  served_life& operator=(served_life const&) = delete;
  ~served_life() {
    if (heap != nullptr) table.destroy(heap);
  }

  void grow() {
    if (heap == nullptr) return;
    grow_answer const answer = table.grow(heap, &why);
    EXPECT_FALSE(table.refused(heap)) << "every launch would try to grow the heap";
    if (answer == grow_answer::failed) throw told_failure(why);
  }
  faults::life all{{[this] {
                      heap = table.make(&settings, state.data(), &why);
                      if (heap == nullptr) throw told_failure(why);
                    },
                    [this] { grow(); }, [this] { grow(); },
                    [this] {
                      if (heap != nullptr && table.report(heap, &report, live, 8, &why) < 0) throw told_failure(why);
                    },
                    [this] {
                      if (heap == nullptr || table.findings == nullptr) return;
                      if (table.findings(
                              heap, nullptr, [](void*, char const*) {}, nullptr, &why) < 0)
                        throw told_failure(why);
                    }},
                   [this] {
                     // Not how large it is: what has grown before a call failed stays.
                     long const lines = table.report(heap, &report, live, 8, &why);
                     return std::to_string(lines) + " " + std::to_string(report.failed_requests);
                   }};
};
template <class Allocator>
void fail_every_call_of(std::uint64_t malloc_limit) {
  faults::fail_every_call([malloc_limit] { return std::make_unique<served_life<Allocator>>(malloc_limit); }, is_told);
}

using default_allocator = gpuheap::heap<>::allocator_type;
TEST(FaultsOfMalloc, OfAHeapThatGrows) { fail_every_call_of<default_allocator>(0); }
TEST(FaultsOfMalloc, OfAHeapOfTheSizeThatTheProgramSet) { fail_every_call_of<default_allocator>(16 << 20); }
TEST(FaultsOfMalloc, OfAHardenedHeapThatGrows) { fail_every_call_of<gpuheap::hardened<default_allocator>>(0); }
TEST(FaultsOfMalloc, OfAHardenedHeap) { fail_every_call_of<gpuheap::hardened<default_allocator>>(16 << 20); }
TEST(FaultsOfMalloc, OfACheckedHeap) { fail_every_call_of<gpuheap::checked<default_allocator>>(16 << 20); }

// A heap of the device with `free_bytes` free, of the size that the program has set, or 0, and that GPUHEAP_BYTES names, or nullptr.
struct sized {
  static constexpr provider table = provider_of<default_allocator>("one");
  provider_text why{};
  std::vector<char> state = std::vector<char>(table.state_bytes);
  void* heap;

  sized(std::uint64_t free_bytes, std::uint64_t malloc_limit, char const* variable = nullptr) {
    if (variable != nullptr) setenv("GPUHEAP_BYTES", variable, 1);
    faults::tell_free(free_bytes);
    provider_settings const settings{malloc_limit};
    heap = table.make(&settings, state.data(), &why);
    unsetenv("GPUHEAP_BYTES");
  }
  sized(sized const&) = delete;
  sized& operator=(sized const&) = delete;
  ~sized() {
    if (heap != nullptr) table.destroy(heap);
    faults::tell_free(256 << 20);
  }
  // In MiB, rounded down.
  [[nodiscard]] std::uint64_t size() {
    provider_report report{};
    provider_live live[1] = {};
    EXPECT_GE(table.report(heap, &report, live, 1, &why), 0) << why.words;
    return report.heap_bytes >> 20;
  }
  [[nodiscard]] grow_answer grow(std::uint64_t free_bytes) {
    faults::tell_free(free_bytes);
    return table.grow(heap, &why);
  }
};

// A heap that grows has its metadata apart, in pieces of 2 MiB.
constexpr std::uint64_t apart = 4;

TEST(SizeOfMalloc, IsAnEighthOfTheFreeMemoryWhereNothingIsSet) {
  EXPECT_EQ(sized(160 << 20, 0).size(), 20 + apart);
  EXPECT_EQ(sized(256 << 20, 0).size(), 32 + apart);
}

TEST(SizeOfMalloc, GrowsAsLongAsAnEighthOfTheDeviceStaysFree) {
  sized heap(160 << 20, 0);
  EXPECT_EQ(heap.grow(140 << 20), grow_answer::grown);
  EXPECT_EQ(heap.size(), 40 + apart) << "it doubles";
  EXPECT_EQ(heap.grow(40 << 20), grow_answer::grown);
  EXPECT_EQ(heap.size(), 48 + apart) << "8 MiB are free beyond an eighth of 256 MiB";
  EXPECT_EQ(heap.grow(32 << 20), grow_answer::at_most);
  EXPECT_EQ(heap.size(), 48 + apart);
}

TEST(SizeOfMalloc, IsTheProgramsLimitWithRoomForMetadata) {
  sized roomy(256 << 20, 64 << 20), narrow(72 << 20, 64 << 20);
  EXPECT_EQ(roomy.size(), 112u) << "half of the limit and 16 MiB more";
  EXPECT_EQ(narrow.size(), 68u) << "half of what is free beyond the limit";
  EXPECT_EQ(roomy.grow(256 << 20), grow_answer::at_most);
}

TEST(SizeOfMalloc, IsThatOfTheVariableBeforeAllElse) {
  EXPECT_EQ(sized(200 << 20, 64 << 20, "48MiB").size(), 48u);
  EXPECT_EQ(sized(200 << 20, 0, "40%").size(), 80u);
  sized wrong(200 << 20, 0, "nonsense");
  EXPECT_EQ(wrong.heap, nullptr);
  EXPECT_NE(std::string(wrong.why.words).find("nonsense"), std::string::npos) << wrong.why.words;
}

}  // namespace
