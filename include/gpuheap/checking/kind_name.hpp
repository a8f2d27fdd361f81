// The name of an allocator inside checked<> or hardened<>: "checked sharded_spans", "hardened sharded_spans". Compiles under NVRTC.
#pragma once

#include <gpuheap/allocator.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::checking {

// `all` is `Kind::word`, a space, and the allocator's name.
template <class Kind, device_allocator Allocator>
struct kind_name {
  GPUHEAP_HD static constexpr unsigned length_of(char const* word) {
    unsigned n = 0;
    // Ends: at the word's end.
    while (word[n] != '\0') ++n;
    return n;
  }
  struct text {
    char words[length_of(Kind::word) + length_of(Allocator::traits.name) + 2] = {};
  };
  GPUHEAP_HD static constexpr text make() {
    text made;
    unsigned at = 0;
    for (unsigned i = 0; i < length_of(Kind::word); ++i) made.words[at++] = Kind::word[i];
    made.words[at++] = ' ';
    for (unsigned i = 0; i < length_of(Allocator::traits.name); ++i) made.words[at++] = Allocator::traits.name[i];
    return made;
  }
  static constexpr text all = make();
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::checking
