// The places of a program from which its device code asks for memory and frees it: a function, and a line of the source where the PTX tells
// lines (nvcc -lineinfo). Each call passes the number of its place to the heap, so that the heap's reports can name the place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuheap::unchanged {

struct program_place {
  std::uint64_t number = 0;  // 1 to 2^62; follows from the text, so that code of an earlier process has the same numbers
  std::string text;          // "in build(node*)", "at tree.cu:45 in build(node*)"
};

struct placed_ptx {
  std::string text;
  std::vector<program_place> places;
};

/// @return The text as renamed() makes it, but each call goes to device_malloc::malloc_at_name or its like, and its last argument is the
/// number of its place. Where a name is not called, as in initial values of variables, it is the plain one of renamed(). All names of a
/// function are plain if the text declares it with arguments other than those of served_names.
[[nodiscard]] placed_ptx placed(std::string_view ptx);

/// Keeps the texts of places until the process ends. Any thread.
void note_places(std::vector<program_place> const& places);
/// @return The text of a noted place, which stays valid; null for another number. Any thread.
[[nodiscard]] char const* text_of_place(std::uint64_t number);

}  // namespace gpuheap::unchanged
