// For an allocator that this machine cannot have: making a heap of it says so.
#pragma once

#include "suite.hpp"

namespace conformance {

template <class A>
struct says_why_it_is_not_here {
  static constexpr char const* name = "SaysWhyItIsNotHere";
  static constexpr bool applies = true;
  static void run() {
    try {
      gpuheap::heap<A> heap{1_MiB};
      FAIL() << "a heap of " << A::traits.name << " was made";
    } catch (gpuheap::error const& why) {
      EXPECT_NE(std::string(why.what()).find(A::traits.name), std::string::npos) << why.what();
    }
  }
};

template <class A>
void register_unsupported(char const* allocator) {
  register_cases<A, says_why_it_is_not_here>(allocator);
}

}  // namespace conformance
