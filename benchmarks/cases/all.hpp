// The list of cases. A new one is a file here and a line below.
#pragma once

#include "cases/alloc_mixed.hpp"
#include "cases/alloc_scaling.hpp"
#include "cases/alloc_single.hpp"
#include "cases/alloc_warp.hpp"
#include "cases/churn.hpp"
#include "cases/graph_update.hpp"

namespace gpuheap::bench {

using all_cases = case_list<  //
    alloc_single,             //
    alloc_warp,               //
    alloc_mixed,              //
    alloc_scaling,            //
    churn,                    //
    graph_update>;

}  // namespace gpuheap::bench
