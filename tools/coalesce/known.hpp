// Functions that the analysis knows by name, because it cannot see their definitions or cannot conclude enough from them.
#pragma once

#include "facts.hpp"

#include <optional>
#include <string_view>

namespace coalesce {

// The effect of a call on values.
enum class effect {
  pure,                  // the result follows from the arguments
  uniform_in_block,      // votes of a block: the same in all its threads
  uniform_in_warp,       // votes and broadcasts of a warp
  barrier,               // a barrier of the block
  differs,               // the result differs between threads whatever the arguments
  rank_of,               // MPI: writes the rank through its last argument
  size_of,               // MPI: writes a number that follows from the communicator through its last argument
  same_in_communicator,  // MPI: one value, written to all ranks of a communicator, which is the last argument
  allocates,             // an allocation that is not rewritten
  ends,                  // it ends the thread or the grid
};
[[nodiscard]] std::optional<effect> effect_of(std::string_view function);

// The largest group of threads in which a special variable (threadIdx, ...) has one value.
[[nodiscard]] std::optional<scope> scope_of_variable(std::string_view name);

// Calls of MPI in which a rank may wait for something that another rank does later, and calls in which all ranks of a communicator meet.
[[nodiscard]] bool is_waiting_of_ranks(std::string_view function);
[[nodiscard]] bool is_meeting_of_ranks(std::string_view function);

// Whether a function of gpuheap/mpi/c_library.hpp, by its qualified name, returns a value that depends on nothing but its arguments, which
// are strings and numbers.
[[nodiscard]] bool follows_from_texts(std::string_view function);

}  // namespace coalesce
