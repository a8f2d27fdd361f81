// A C program of MPI as a CUDA program, as `gpuheap coalesce --mpi` writes it: the names of MPI, what ranks have of their own, and a host
// main that runs the program's as ranks. docs/coalesce.md.
//
//   GPUHEAP_FN int rank_main(int argc, gpuheap::mpi::arguments argv) { MPI_Init(nullptr, nullptr); ... MPI_Finalize(); return 0; }
//   struct rank_program {
//     GPUHEAP_FN int operator()(int argc, gpuheap::mpi::arguments argv) const { return rank_main(argc, argv); }
//   };
//   int main(int argc, char** argv) {
//     return gpuheap::mpi::run_main(argc, argv, rank_program{}, [] { gpuheap::coalesced::init(); });
//   }
//
// The environment says how it runs:
//   GPUHEAP_RANKS             how many ranks, as `mpirun -n` says; default 32
//   GPUHEAP_RANKS_PER_BLOCK   ranks that are threads of one block, which allocate together; default 256, or all if there are fewer
//   GPUHEAP_BYTES             the heap's size (memory/size.hpp)
//   GPUHEAP_APART=1           each request by itself, whatever it promises: to compare with
#pragma once

#include <gpuheap/mpi/c_library.hpp>
#include <gpuheap/mpi/names.hpp>
#include <gpuheap/mpi/variables.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

// The program's arguments, in device memory that all ranks read.
using arguments = char const* const* __restrict__;

namespace detail {
template <class Main>
struct with_arguments {
  Main main;
  int argc;
  char const* const* argv;
  GPUHEAP_FN void operator()() const {
    // As mpirun: a process that ends with another code than 0 ends the program.
    if (int const code = main(argc, argv); code != 0) here().abort(code);
  }
};

// A copy of argv in device memory: the pointers, with a null pointer behind them, and then the words.
class arguments_memory {
 public:
  arguments_memory(int argc, char const* const* argv) : memory_{memory::device, bytes_of(argc, argv)} {
    std::vector<char> image(memory_.bytes(), '\0');
    auto* const base = static_cast<char*>(memory_.base());
    simt::size_t at = (static_cast<simt::size_t>(argc) + 1) * sizeof(char*);
    // Ends: once for each argument.
    for (int i = 0; i < argc; ++i) {
      char const* const there = base + at;
      std::memcpy(image.data() + static_cast<simt::size_t>(i) * sizeof(char*), &there, sizeof there);
      std::strcpy(image.data() + at, argv[i]);
      at += std::strlen(argv[i]) + 1;
    }
    simt::copy(base, image.data(), image.size(), {});
    simt::synchronize({});
  }
  [[nodiscard]] char const* const* argv() const { return static_cast<char const* const*>(memory_.base()); }

 private:
  static simt::size_t bytes_of(int argc, char const* const* argv) {
    simt::size_t bytes = (static_cast<simt::size_t>(argc) + 1) * sizeof(char*);
    // Ends: once for each argument.
    for (int i = 0; i < argc; ++i) bytes += std::strlen(argv[i]) + 1;
    return bytes;
  }

  memory::allocation memory_;
};

// A number of at least 1 from the environment. Throws gpuheap::error for another text.
inline unsigned count_from_environment(char const* name, unsigned otherwise) {
  char const* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  unsigned value = 0;
  char const* const end = text + std::strlen(text);
  auto const [rest, code] = std::from_chars(text, end, value);
  if (code != std::errc{} || rest != end || value == 0)
    throw plain_error("gpuheap: " + std::string{name} + " is \"" + text + "\": a number of at least 1 is expected");
  return value;
}

// Ends the program's heap, however run_main() ends.
struct heap_end {
  heap_end() = default;
  heap_end(heap_end const&) = delete;
  heap_end& operator=(heap_end const&) = delete;
  ~heap_end() {
    try {
      coalesced::clean();
    } catch (...) {  // a device that has failed, as was said
    }
  }
};

// What the ranks' end means for the process: its exit code, after a line on standard error if it is not 0.
inline int report_end(result const& ended) {
  if (!ended.aborted) return 0;
  if (ended.error != success) {
    std::fprintf(stderr, "gpuheap: rank %d: a call of MPI failed with error class %d (gpuheap/mpi/types.hpp), which ended all ranks\n",
                 ended.rank, ended.error);
    return 1;
  }
  std::fprintf(stderr, "gpuheap: rank %d ended the program with the code %d\n", ended.rank, ended.code);
  return (ended.code & 0xff) == 0 ? 1 : ended.code & 0xff;
}
}  // namespace detail

// Runs main(argc, argv) as the ranks that the environment asks for, with the heap that make_heap() makes by coalesced::init. The exit code
// for the process: 0 if all ranks returned 0; errors are told on standard error. Host.
template <class Main, class MakeHeap>
[[nodiscard]] int run_main(int argc, char** argv, Main main, MakeHeap make_heap) {
  try {
    unsigned const num_ranks = detail::count_from_environment("GPUHEAP_RANKS", 32);
    unsigned const block_threads = detail::count_from_environment("GPUHEAP_RANKS_PER_BLOCK", std::min(num_ranks, 256u));
    if (block_threads > 1024)
      throw plain_error("gpuheap: GPUHEAP_RANKS_PER_BLOCK is " + std::to_string(block_threads) + ", and a block has at most 1024 threads");
    detail::heap_end const ends;
    make_heap();
    char const* const apart = std::getenv("GPUHEAP_APART");
    if (apart != nullptr && std::strcmp(apart, "1") == 0) coalesced::serve_apart();
    int code = 0;
    {
      detail::arguments_memory const words{argc, argv};
      detail::variables_memory const variables{num_ranks};
      launch_config config;
      config.block_threads = block_threads;
      code = detail::report_end(run_program(num_ranks, detail::with_arguments<Main>{main, argc, words.argv()}, config));
    }
    coalesced::clean();
    return code;
  } catch (std::exception const& failed) {
    std::fprintf(stderr, "%s\n", failed.what());
    return 1;
  }
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi
