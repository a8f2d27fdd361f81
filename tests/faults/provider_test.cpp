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
                              heap, [](void*, char const*) {}, nullptr, &why) < 0)
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

}  // namespace
