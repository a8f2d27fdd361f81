// A C program of MPI as a CUDA program, in the form that `gpuheap coalesce --mpi` writes: the names of MPI, the variables of each rank, and
// run_main(), which runs the program's main function as ranks. docs/coalesce.md describes the rewriter.
//
//   GPUHEAP_FN int rank_main(int argc, gpuheap::mpi::arguments argv) { MPI_Init(nullptr, nullptr); ... MPI_Finalize(); return 0; }
//   struct rank_program {
//     GPUHEAP_FN int operator()(int argc, gpuheap::mpi::arguments argv) const { return rank_main(argc, argv); }
//   };
//   int main(int argc, char** argv) {
//     return gpuheap::mpi::run_main(argc, argv, rank_program{}, [] { gpuheap::coalesced::init(); });
//   }
//
// Environment variables:
//   GPUHEAP_RANKS             the number of ranks, as of `mpirun -n`; default 32
//   GPUHEAP_RANKS_PER_BLOCK   the number of ranks that are threads of one block, and so can allocate together; default 256, or all ranks if
//                             there are fewer
//   GPUHEAP_BYTES             the heap's size (memory/size.hpp)
//   GPUHEAP_APART=1           lets the heap serve each request by itself and ignore the calls' promises (coalesced.hpp), for comparison
#pragma once

#include <gpuheap/mpi/c_library.hpp>
#include <gpuheap/mpi/further_names.hpp>
#include <gpuheap/mpi/names.hpp>
#include <gpuheap/mpi/variables.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

// The program's arguments: argv in device memory, which all ranks share.
using arguments = char const* const* __restrict__;

// The input that the host must read before the ranks begin; by default none.
struct reads {
  bool input = false;  // the standard input, to its end
  bool files = false;  // the files that are arguments of the program
  bool environment = false;
  std::vector<std::string> named;  // files that the program names by literals
};

namespace detail {
// The functor of each rank's thread. If Main takes char** and not `arguments`, each rank gets its own copy of the words, and may write to
// that copy.
template <class Main>
struct with_arguments {
  Main main;
  int argc;
  char* const* argv;
  simt::size_t bytes;  // the size of the words and their pointers together
  GPUHEAP_FN void operator()() const {
    c::start();
    // As under mpirun, a rank that ends with a code other than 0 ends all ranks.
    if (int const code = called(); code != 0) here().abort(code);
  }

 private:
  GPUHEAP_FN int called() const {
    if constexpr (requires { main(argc, static_cast<char const* const*>(argv)); }) {
      return main(argc, argv);
    } else {
      auto* const own = static_cast<char*>(coalesced::malloc(bytes));
      if (own == nullptr) here().end_for_memory();
      copy_bytes(own, argv, bytes);
      auto* const words = reinterpret_cast<char**>(own);
      for (int i = 0; i < argc; ++i) words[i] = own + (words[i] - reinterpret_cast<char const*>(argv));
      int const code = main(argc, words);
      coalesced::free(own);
      return code;
    }
  }
};

// A copy of argv in device memory: the pointers, a null pointer, and then the words.
class arguments_memory {
 public:
  arguments_memory(int argc, char const* const* argv) : memory_{memory::device, bytes_of(argc, argv)} {
    std::vector<char> image(memory_.bytes(), '\0');
    auto* const base = static_cast<char*>(memory_.base());
    simt::size_t at = (static_cast<simt::size_t>(argc) + 1) * sizeof(char*);
    for (int i = 0; i < argc; ++i) {
      char const* const there = base + at;
      std::memcpy(image.data() + static_cast<simt::size_t>(i) * sizeof(char*), &there, sizeof there);
      std::strcpy(image.data() + at, argv[i]);
      at += std::strlen(argv[i]) + 1;
    }
    simt::copy(base, image.data(), image.size(), {});
    simt::synchronize({});
  }
  [[nodiscard]] char* const* argv() const { return static_cast<char* const*>(memory_.base()); }
  [[nodiscard]] simt::size_t bytes() const { return memory_.bytes(); }

 private:
  static simt::size_t bytes_of(int argc, char const* const* argv) {
    simt::size_t bytes = (static_cast<simt::size_t>(argc) + 1) * sizeof(char*);
    for (int i = 0; i < argc; ++i) bytes += std::strlen(argv[i]) + 1;
    return bytes;
  }

  memory::allocation memory_;
};

// Holds the facts that the host gives to the ranks, and the files that the ranks read, in device memory while a program runs.
class facts_memory {
 public:
  facts_memory(unsigned num_ranks, int argc, char const* const* argv, reads const& wanted)
      : states_{memory::device, num_ranks * sizeof(c::state)} {
    std::vector<std::pair<std::string, std::string>> files;  // the names and the contents
    files.emplace_back("", wanted.input ? text_of_input() : "");
    for (auto const& name : wanted.named) add_file(files, name);
    for (int i = 1; wanted.files && i < argc; ++i) add_file(files, argv[i]);
    simt::size_t bytes = files.size() * sizeof(c::file_text);
    for (auto const& [name, text] : files) bytes += name.size() + text.size() + 2;
    std::string environment;
    for (char** entry = environ; wanted.environment && entry != nullptr && *entry != nullptr; ++entry) {
      environment += *entry;
      environment += '\0';
    }
    simt::size_t const environment_at = bytes;
    bytes += environment.size() + 1;
    texts_.emplace_back(memory::device, bytes);
    std::vector<char> image(bytes, '\0');
    auto* const base = static_cast<char*>(texts_.front().base());
    simt::size_t at = files.size() * sizeof(c::file_text);
    auto const take = [&](std::string const& text) {
      std::memcpy(image.data() + at, text.data(), text.size());
      at += text.size() + 1;
      return base + at - text.size() - 1;
    };
    for (simt::size_t i = 0; i < files.size(); ++i) {
      c::file_text const one{take(files[i].first), take(files[i].second), files[i].second.size()};
      std::memcpy(image.data() + i * sizeof one, &one, sizeof one);
    }
    std::memcpy(image.data() + environment_at, environment.data(), environment.size());
    simt::copy(base, image.data(), image.size(), {});
    simt::synchronize({});
    c::process_facts facts;
    facts.environment = base + environment_at;
    if (gethostname(facts.host_name, sizeof facts.host_name - 1) != 0) std::strcpy(facts.host_name, "localhost");
    facts.files = reinterpret_cast<c::file_text const*>(base);
    facts.num_files = static_cast<unsigned>(files.size());
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    facts.started_at_ns = static_cast<simt::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
    simt::program_values<c::process_facts>::set(facts);
    simt::program_values<variables_place<c::state>>::set({static_cast<c::state*>(states_.base())});
  }
  facts_memory(facts_memory const&) = delete;
  facts_memory& operator=(facts_memory const&) = delete;
  ~facts_memory() {
    try {
      simt::program_values<c::process_facts>::set({});
      simt::program_values<variables_place<c::state>>::set({});
    } catch (...) {  // the device has failed, which was already reported
    }
  }

 private:
  static std::string text_of_input() {
    if (isatty(STDIN_FILENO) != 0)
      std::fprintf(stderr,
                   "gpuheap: the program reads its whole input before its ranks start: type the input and end it with Ctrl-D on a line of "
                   "its own\n");
    std::string text;
    char part[4096];
    // Ends: at the end of the input.
    for (simt::size_t got = 1; got != 0; text.append(part, got)) got = std::fread(part, 1, sizeof part, stdin);
    return text;
  }
  static void add_file(std::vector<std::pair<std::string, std::string>>& files, std::string const& name) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(name, ignored)) return;
    std::ifstream in{name, std::ios::binary};
    if (in) files.emplace_back(name, std::string{std::istreambuf_iterator<char>{in}, {}});
  }

  memory::allocation states_;
  std::vector<memory::allocation> texts_;
};

// Reads a number of at least 1 from an environment variable; `otherwise` if it is not set. Throws gpuheap::error for another text.
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

// Destroys the program's heap at the end of run_main(), also after an exception.
struct heap_end {
  heap_end() = default;
  heap_end(heap_end const&) = delete;
  heap_end& operator=(heap_end const&) = delete;
  ~heap_end() {
    try {
      coalesced::clean();
    } catch (...) {  // the device has failed, which was already reported
    }
  }
};

// Returns the exit code of the process for the outcome of a run. If it is not 0, prints a line on standard error.
inline int report_end(result const& ended) {
  if (!ended.aborted) return 0;
  if (ended.error == err_no_mem) {
    std::fprintf(stderr, "gpuheap: rank %d: out of memory: raise GPUHEAP_BYTES, the size of the heap\n", ended.rank);
    return 1;
  }
  if (ended.error != success) {
    // A program that does not test malloc's result may pass a null pointer to MPI.
    char const* const advice = ended.error == err_buffer
                                   ? "correct the call, or raise GPUHEAP_BYTES, the size of the heap, if malloc gave that pointer"
                                   : "correct the call, or let calls return their errors with MPI_Comm_set_errhandler";
    std::fprintf(stderr, "gpuheap: rank %d: a call of MPI failed with error class %d, %s, and ended all ranks: %s\n", ended.rank,
                 ended.error, words_of(ended.error), advice);
    return 1;
  }
  std::fprintf(stderr, "gpuheap: rank %d ended the program with the code %d\n", ended.rank, ended.code);
  return (ended.code & 0xff) == 0 ? 1 : ended.code & 0xff;
}
}  // namespace detail

// @brief Runs main(argc, argv) as the number of ranks that the environment sets, and destroys the program's heap at the end. Host; waits
// for the ranks.
// @param argc the number of the program's arguments
// @param argv the arguments, which the ranks get as a copy in device memory
// @param main a trivially copyable functor. Its call operator is a GPUHEAP_FN that takes (int, arguments) or (int, char**) and returns int
// @param make_heap a function that makes the program's heap by coalesced::init() or coalesced::init_dynamic()
// @param wanted the input that the host must read before the ranks begin
// @return the exit code for the process: 0 if no rank aborts, calls exit() with another code than 0 or returns another code than 0. After
// an error of MPI, of the device or of an environment variable it is 1, else the first such code modulo 256, or 1 if that is 0
// @note The function catches each std::exception and prints its text on standard error. It also prints there why ranks ended early.
template <class Main, class MakeHeap>
[[nodiscard]] int run_main(int argc, char** argv, Main main, MakeHeap make_heap, reads const& wanted = {}) {
  try {
    unsigned const num_ranks = detail::count_from_environment("GPUHEAP_RANKS", 32);
    unsigned const block_threads = detail::count_from_environment("GPUHEAP_RANKS_PER_BLOCK", std::min(num_ranks, 256u));
    if (block_threads > 1024)
      throw plain_error("gpuheap: GPUHEAP_RANKS_PER_BLOCK is " + std::to_string(block_threads) + ", and a block has at most 1024 threads");
    detail::require_resident<detail::run_named<detail::with_arguments<Main>>>(num_ranks, block_threads);
    detail::heap_end const ends;
    make_heap();
    char const* const apart = std::getenv("GPUHEAP_APART");
    if (apart != nullptr && std::strcmp(apart, "1") == 0) coalesced::serve_apart();
    int code = 0;
    {
      detail::arguments_memory const words{argc, argv};
      detail::facts_memory const facts{num_ranks, argc, argv, wanted};
      detail::variables_memory const variables{num_ranks};
      launch_config config;
      config.block_threads = block_threads;
      detail::with_arguments<Main> const with{main, argc, words.argv(), words.bytes()};
      code = detail::report_end(run_program(num_ranks, with, config));
    }
    coalesced::clean();
    return code;
  } catch (std::exception const& failed) {
    std::fprintf(stderr, "%s\n", failed.what());
    return 1;
  }
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi

// Stores the host's name and its length. Device code of a program that run_main() runs.
GPUHEAP_COLD inline int MPI_Get_processor_name(char* name, int* length) {
  gpuheap::mpi::c::gethostname(name, MPI_MAX_PROCESSOR_NAME);
  *length = static_cast<int>(gpuheap::mpi::c::strlen(name));
  return MPI_SUCCESS;
}
