// The list of cases. A new one is a file here and a line below.
#pragma once

#include "cases/alloc_cycle_dealloc.hpp"
#include "cases/alloc_dealloc.hpp"
#include "cases/alloc_large.hpp"
#include "cases/alloc_mixed.hpp"
#include "cases/alloc_repeated.hpp"
#include "cases/alloc_scaling.hpp"
#include "cases/alloc_single.hpp"
#include "cases/alloc_warp.hpp"
#include "cases/burst.hpp"
#include "cases/churn.hpp"
#include "cases/churn_long_lived.hpp"
#include "cases/collective_locking.hpp"
#include "cases/counted_supply.hpp"
#include "cases/deferred_reclamation.hpp"
#include "cases/exhausted.hpp"
#include "cases/fragmentation.hpp"
#include "cases/gather.hpp"
#include "cases/graph_expansion.hpp"
#include "cases/graph_init.hpp"
#include "cases/graph_skewed.hpp"
#include "cases/graph_update.hpp"
#include "cases/graph_update_focused.hpp"
#include "cases/init.hpp"
#include "cases/kdtree.hpp"
#include "cases/larson.hpp"
#include "cases/leak_growth.hpp"
#include "cases/linear.hpp"
#include "cases/memory_access.hpp"
#include "cases/mpi_alltoall.hpp"
#include "cases/mpi_broadcast.hpp"
#include "cases/mpi_reduce.hpp"
#include "cases/neighbour.hpp"
#include "cases/ordered_bits.hpp"
#include "cases/phase_change.hpp"
#include "cases/pressure.hpp"
#include "cases/probability.hpp"
#include "cases/producer_consumer.hpp"
#include "cases/quadratic.hpp"
#include "cases/random_sizes.hpp"
#include "cases/registers.hpp"
#include "cases/replay.hpp"
#include "cases/scan.hpp"
#include "cases/utilisation.hpp"
#include "cases/work_generation.hpp"

namespace gpuheap::bench {

using all_cases = case_list<  //
    init,                     //
    registers,                //
    alloc_single,             //
    alloc_warp,               //
    alloc_mixed,              //
    alloc_scaling,            //
    alloc_large,              //
    alloc_repeated,           //
    random_sizes,             //
    fragmentation,            //
    utilisation,              //
    exhausted,                //
    memory_access,            //
    work_generation,          //
    churn,                    //
    churn_long_lived,         //
    pressure,                 //
    graph_init,               //
    graph_update,             //
    graph_update_focused,     //
    graph_expansion,          //
    graph_skewed,             //
    linear,                   //
    quadratic,                //
    scan,                     //
    gather,                   //
    neighbour,                //
    mpi_reduce,               //
    mpi_broadcast,            //
    mpi_alltoall,             //
    alloc_dealloc,            //
    alloc_cycle_dealloc,      //
    probability,              //
    kdtree_build,             //
    larson,                   //
    producer_consumer,        //
    leak_growth,              //
    burst,                    //
    phase_change,             //
    replay,                   //
    counted_supply,           //
    collective_locking,       //
    deferred_reclamation,     //
    ordered_bits>;

}  // namespace gpuheap::bench
