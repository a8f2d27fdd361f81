// A kernel that stops in the middle of malloc, beside others that ask: a row of the table of docs/misuse.md. Each test needs a process of
// its own: on a GPU nothing runs after a trap.
#include "fixtures.hpp"

#include <gpuheap/checked.hpp>
#include <gpuheap/hardened.hpp>

#include <optional>

namespace {

using namespace test;

// Thread 40 asks for what no heap has; the other threads ask again and again.
template <class Ref>
struct ask_too_much {
  Ref heap;
  GPUHEAP_FN void operator()(unsigned i) const {
    GPUHEAP_NO_UNROLL
    for (unsigned round = 0; round < 8; ++round) {
      void* const p = heap.malloc(i == 40 && round == 3 ? 512_MiB : 100);
      heap.free(p);
    }
  }
};

template <class Allocator>
class Misuse : public ::testing::Test {};
using kinds = ::testing::Types<gpuheap::sharded_spans, gpuheap::hardened<>, gpuheap::checked<>>;
TYPED_TEST_SUITE(Misuse, kinds);

TYPED_TEST(Misuse, TrapInTheMiddleOfMalloc) {
  using heap_type = gpuheap::heap<TypeParam>;
  std::optional<heap_type> heap{8_MiB};
  heap->set_policy(gpuheap::exhaustion_policy::trap);
  std::string text;
  try {
    gpuheap::launch(200, ask_too_much<typename heap_type::ref_type>{heap->ref()});
    heap->check();
  } catch (gpuheap::out_of_memory const& e) {
    text = e.what();  // the check waited for the kernel
  } catch (gpuheap::error const&) {
    text = text_of_error([&] { heap->check(); });  // the launch did
  }
  EXPECT_TRUE(says(text, std::string{"gpuheap: a kernel was stopped because a heap of '"} + TypeParam::traits.name +
                             "' had no room for 536870912 bytes"));
  EXPECT_TRUE(says(text, "(block 0, thread 40)"));
  EXPECT_NO_THROW(heap.reset()) << "its end needs no context";
}

}  // namespace
