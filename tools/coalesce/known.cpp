#include "known.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace coalesce {

namespace {

using entry = std::pair<std::string_view, effect>;

constexpr std::array named{
    entry{"__syncthreads", effect::barrier},
    entry{"__syncthreads_and", effect::uniform_in_block},
    entry{"__syncthreads_or", effect::uniform_in_block},
    entry{"__syncthreads_count", effect::uniform_in_block},
    entry{"__any_sync", effect::uniform_in_warp},
    entry{"__all_sync", effect::uniform_in_warp},
    entry{"__ballot_sync", effect::uniform_in_warp},
    entry{"__reduce_add_sync", effect::uniform_in_warp},
    entry{"__reduce_min_sync", effect::uniform_in_warp},
    entry{"__reduce_max_sync", effect::uniform_in_warp},
    entry{"__reduce_and_sync", effect::uniform_in_warp},
    entry{"__reduce_or_sync", effect::uniform_in_warp},
    entry{"__reduce_xor_sync", effect::uniform_in_warp},
    entry{"__ldg", effect::pure},
    entry{"clock", effect::differs},
    entry{"clock64", effect::differs},
    entry{"__activemask", effect::differs},
    entry{"MPI_Comm_rank", effect::rank_of},
    entry{"MPI_Comm_size", effect::size_of},
    entry{"MPI_Comm_dup", effect::size_of},
    entry{"MPI_Bcast", effect::same_in_communicator},
    entry{"MPI_Allreduce", effect::same_in_communicator},
    entry{"MPI_Init", effect::pure},
    entry{"MPI_Wtime", effect::differs},
    entry{"realloc", effect::allocates},
    entry{"strdup", effect::allocates},
    entry{"aligned_alloc", effect::allocates},
    entry{"__nv_aligned_device_malloc", effect::allocates},
    entry{"__trap", effect::ends},
    entry{"__assertfail", effect::ends},
    entry{"__assert_fail", effect::ends},
    entry{"abort", effect::ends},
    entry{"gpuheap::mpi::c::exit", effect::ends},
    entry{"gpuheap::mpi::c::abort", effect::ends},
    // Instructions and registers, as Clang's headers name them.
    entry{"__nvvm_barrier0", effect::barrier},
    entry{"__nvvm_barrier0_and", effect::uniform_in_block},
    entry{"__nvvm_barrier0_or", effect::uniform_in_block},
    entry{"__nvvm_barrier0_popc", effect::uniform_in_block},
    entry{"__nvvm_vote_all_sync", effect::uniform_in_warp},
    entry{"__nvvm_vote_any_sync", effect::uniform_in_warp},
    entry{"__nvvm_vote_ballot_sync", effect::uniform_in_warp},
    entry{"__nvvm_read_ptx_sreg_ctaid_x", effect::uniform_in_block},
    entry{"__nvvm_read_ptx_sreg_ctaid_y", effect::uniform_in_block},
    entry{"__nvvm_read_ptx_sreg_ctaid_z", effect::uniform_in_block},
};

// Arithmetic functions whose definitions are in the toolkit's libraries. Each name also stands for the name with a final f.
constexpr std::array<std::string_view, 40> arithmetic{
    "min",     "max",    "abs",      "labs", "llabs", "fabs",   "fmin",     "fmax",   "sqrt",    "rsqrt",
    "cbrt",    "exp",    "exp2",     "log",  "log2",  "log10",  "pow",      "floor",  "ceil",    "round",
    "trunc",   "fmod",   "sin",      "cos",  "tan",   "__popc", "__popcll", "__clz",  "__clzll", "__ffs",
    "__ffsll", "__brev", "__brevll", "umin", "umax",  "llmin",  "llmax",    "ullmin", "ullmax",  "fma",
};

}  // namespace

std::optional<effect> effect_of(std::string_view function) {
  for (auto const& [name, what] : named) {
    if (name == function) return what;
  }
  if (function.starts_with("__nv_")) return effect::pure;  // libdevice
  if (function.starts_with("__nvvm_read_ptx_sreg_n") || function == "__nvvm_read_ptx_sreg_warpsize") return effect::pure;
  if (function.starts_with("__nvvm_")) return effect::differs;  // registers of the thread or the lane, and exchanges between lanes
  auto const is = [&](std::string_view name) { return name == function; };
  if (std::any_of(arithmetic.begin(), arithmetic.end(), is)) return effect::pure;
  if (function.ends_with('f')) {
    function.remove_suffix(1);
    if (std::any_of(arithmetic.begin(), arithmetic.end(), is)) return effect::pure;
  }
  return std::nullopt;
}

namespace {

template <class List>
bool is_one_of(List const& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

constexpr std::string_view waiting[]{"MPI_Recv", "MPI_Probe", "MPI_Ssend"};
constexpr std::string_view meeting[]{"MPI_Barrier",  "MPI_Allreduce", "MPI_Allgather",      "MPI_Allgatherv",
                                     "MPI_Alltoall", "MPI_Alltoallv", "MPI_Reduce_scatter", "MPI_Reduce_scatter_block",
                                     "MPI_Alltoallw"};
constexpr std::string_view of_texts[]{"atoi",    "atol",    "atoll",   "strlen",  "strcmp",  "strncmp", "strcasecmp", "memcmp", "isdigit",
                                      "isalpha", "isalnum", "isspace", "isupper", "islower", "isprint", "toupper",    "tolower"};

}  // namespace

bool is_waiting_of_ranks(std::string_view function) { return is_one_of(waiting, function); }

bool is_meeting_of_ranks(std::string_view function) { return is_one_of(meeting, function); }

bool follows_from_texts(std::string_view function) {
  constexpr std::string_view begin = "gpuheap::mpi::c::";
  return function.starts_with(begin) && is_one_of(of_texts, function.substr(begin.size()));
}

std::optional<scope> scope_of_variable(std::string_view name) {
  if (name == "threadIdx") return scope::thread;
  if (name == "blockIdx") return scope::block;
  if (name == "blockDim" || name == "gridDim" || name == "warpSize") return scope::grid;
  return std::nullopt;
}

}  // namespace coalesce
