// The same allocator with another choice made at compile time: pages of another size, the parameter `page`; another split of its memory at
// the start, the parameter `presplit`.
#pragma once

#include <gpuheap/allocators/regeff.hpp>
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

// Reg-Eff's chunks at the start. tree: as the allocator is published; other allocators have nothing to split.
inline constexpr parameter presplit_parameter = choice_parameter("presplit", "tree", "tree|none|equal");

template <class A>
struct presplit_choice {
  static constexpr bool exists = false;
};
template <regeff_config Config, class Headers>
struct presplit_choice<basic_regeff<Config, Headers>> {
  static constexpr bool exists = true;
  template <regeff_split Split>
  [[nodiscard]] static consteval regeff_config with_split() {
    regeff_config config = Config;
    config.split = Split;
    return config;
  }
  template <regeff_split Split>
  using with = basic_regeff<with_split<Split>(), Headers>;
};

// The result of `run.template operator()<B>()`. B is A with the split that the point names.
template <class A, class Run>
[[nodiscard]] outcome with_presplit(point const& p, Run&& run) {
  auto const split = p.text("presplit");
  if constexpr (presplit_choice<A>::exists) {
    using choice = presplit_choice<A>;
    if (split == "none") return run.template operator()<typename choice::template with<regeff_split::none>>();
    if (split == "equal") return run.template operator()<typename choice::template with<regeff_split::equal>>();
  } else {
    if (split != "tree") return unsupported("this allocator has no chunks to split at the start: presplit=" + split + " is for regeff_*");
  }
  return run.template operator()<A>();
}

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
