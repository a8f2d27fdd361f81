// The same allocator with pages of another size, where the size of its pages is a choice made at compile time: the parameter `page`.
#pragma once

#include <gpuheap/allocators/scatteralloc.hpp>

#include <string>
#include <utility>

#include "harness/case.hpp"

namespace gpuheap::bench {

// Bytes; 0: as the allocator is published.
inline constexpr parameter page_parameter = choice_parameter("page", "0", "0|4096|8192|16384|65536");

template <class A>
struct page_choice {
  static constexpr bool exists = false;
};
template <scatteralloc_config Config, class Parts>
struct page_choice<basic_scatteralloc<Config, Parts>> {
  static constexpr bool exists = true;
  static constexpr simt::size_t published_bytes = Config.page_bytes;

  template <simt::size_t Bytes>
  [[nodiscard]] static consteval scatteralloc_config with_pages_of() {
    scatteralloc_config config = Config;
    config.page_bytes = Bytes;
    return config;
  }
  template <simt::size_t Bytes>
  using with = basic_scatteralloc<with_pages_of<Bytes>(), Parts>;
};

// The result of `run.template operator()<B>()`. B is A with the pages that the point names.
template <class A, class Run>
[[nodiscard]] outcome with_page_size(point const& p, Run&& run) {
  auto const page = p.text("page");
  if constexpr (page_choice<A>::exists) {
    using choice = page_choice<A>;
    if (page == "8192") return run.template operator()<typename choice::template with<8192>>();
    if (page == "16384") return run.template operator()<typename choice::template with<16384>>();
    if (page == "65536") return run.template operator()<typename choice::template with<65536>>();
    static_assert(choice::published_bytes == 4096, "0 and 4096 are the same pages");
    return run.template operator()<A>();
  } else {
    if (page != "0") return unsupported("this allocator's page size is fixed: page=" + page + " is for scatteralloc");
    return run.template operator()<A>();
  }
}

}  // namespace gpuheap::bench
