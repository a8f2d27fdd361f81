// registers: the registers and the stack that the compiler gave to kernels that call malloc, free, both, or churn. Nothing is run.
#pragma once

#include <gpuheap/simt/launch.hpp>

#include <string>
#include <utility>
#include <vector>

#include "cases/alloc_single.hpp"
#include "cases/churn.hpp"

namespace gpuheap::bench {

// One of each, and nothing more: the block's address is written to it.
template <class Ref>
struct malloc_and_free {
  Ref heap;
  simt::uint64_t bytes;
  GPUHEAP_FN void operator()(unsigned) const {
    void* const block = heap.malloc(bytes);
    if (block != nullptr) *static_cast<void**>(block) = block;
    free_or_release(heap, block);
  }
};

struct registers {
  static constexpr parameter parameters[] = {choice_parameter("which", "malloc", "malloc|free|pair|churn")};
  static constexpr case_description description{
      .name = "registers",
      .brief = "registers and stack of kernels with malloc alone, free alone, one of each, and churn",
      .section = "Code",
      .parameters = parameters,
  };

  template <class A>
  static outcome run(session const& s, point const& p) {
    using ref = typename heap_under_test<A>::ref_type;
    std::string const& which = p.text("which");
    if (which == "churn") {
      if (std::string reason = why_no_single_frees<A>(); !reason.empty()) return unsupported(std::move(reason));
    }
    auto const [metric, found] = which == "malloc" ? facts<malloc_and_store<ref, equal_requests>>("registers_malloc")
                                 : which == "free" ? facts<load_and_free<ref, equal_requests>>("registers_free")
                                 : which == "pair" ? facts<malloc_and_free<ref>>("registers_pair")
                                                   : facts<churn_blocks<ref>>("registers_churn");
    if (!found) return unsupported("simulated kernels have no registers");
    // Every run would be told the same.
    auto const as_runs = [&](double value) { return std::vector<double>(s.runs, value); };
    return {outcome_status::ok, "", {{metric, "count", as_runs(found->registers)}, {"stack_bytes", "bytes", as_runs(found->local_bytes)}}};
  }

 private:
  struct named_facts {
    char const* metric;
    std::optional<simt::kernel_attributes> found;
  };
  template <class Functor>
  static named_facts facts(char const* metric) {
    return {metric, simt::attributes_of_kernel<Functor>()};
  }
};

}  // namespace gpuheap::bench
