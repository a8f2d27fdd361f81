// The state that a rank has in place of a process: clocks, the host's name, exit, random numbers, and the state of C library functions that
// remember something between calls. Device code, and the facts that the host passes to it.
#pragma once

#include <gpuheap/mpi/names.hpp>
#include <gpuheap/mpi/variables.hpp>

#include <cerrno>
#include <ctime>

#include <sys/time.h>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c {

// A file that the host has read for the ranks.
struct file_text {
  char const* name;
  char const* text;
  simt::size_t bytes;
};

// Facts that the host knows before the ranks begin. run_main() sets them. Without it they are all zeros.
struct process_facts {
  char host_name[64] = {};
  simt::uint64_t started_at_ns = 0;  // the time of the start, in nanoseconds since 1970
  file_text const* files = nullptr;  // the first one is standard input
  unsigned num_files = 0;
  char const* environment = nullptr;  // zero-terminated strings NAME=value, one after another, and an empty one at the end
};

// An open file of one rank.
struct open_file {
  file_text source;
  simt::size_t at;
  bool used, ended, standard;
};

// The state of one rank.
struct state {
  static constexpr int num_files = 8;

  simt::uint64_t began_ns = 0;
  int error_number = 0;
  // The state of random() and rand(): the last 31 numbers. Each new one is the sum of two of them.
  int numbers[31] = {};
  unsigned next_number = 0;
  bool numbers_seeded = false;
  simt::uint64_t drand48 = 0;
  char* token_rest = nullptr;
  // the state of getopt()
  char* option_value = nullptr;
  int option_index = 1, option_error = 1, option_unknown = '?', option_letter = 0;
  open_file files[num_files] = {};
};

namespace detail {
[[nodiscard]] GPUHEAP_FN inline process_facts const& facts() { return simt::program_value<process_facts>(); }
[[nodiscard]] GPUHEAP_FN inline state& mine() { return own<state>(); }
[[maybe_unused]] static bool const state_known_here =
    simt::has_program_value<process_facts>() && simt::has_program_value<mpi::detail::variables_place<state>>();
}  // namespace detail

// Sets the rank's state to that at the begin of main. Each rank calls this once.
GPUHEAP_FN inline void start() { (::new (static_cast<void*>(&detail::mine())) state{})->began_ns = simt::clock_ns(); }

// The rank's errno.
[[nodiscard]] GPUHEAP_FN inline int& error_number() { return detail::mine().error_number; }

// Ends this rank. As under mpirun, all ranks end if the code is not 0, or if the rank is between MPI_Init and MPI_Finalize.
[[noreturn]] GPUHEAP_FN inline void exit(int code) {
  auto const me = here();
  if (code != 0 || (me.is_initialized() && !me.is_finalized())) me.abort(code);
  simt::end_thread();
}
// Ends all ranks with the code 134, that of a process which the signal SIGABRT has ended.
[[noreturn]] GPUHEAP_FN inline void abort() { here().abort(134); }

// ---- time

namespace detail {
[[nodiscard]] GPUHEAP_FN inline simt::uint64_t run_ns() { return simt::clock_ns() - mine().began_ns; }
[[nodiscard]] GPUHEAP_FN inline simt::uint64_t now_ns() { return facts().started_at_ns + run_ns(); }
}  // namespace detail

// The seconds since 1970. Stores them at `to` as well, if that is not nullptr.
GPUHEAP_FN inline time_t time(time_t* to) {
  auto const now = static_cast<time_t>(detail::now_ns() / 1000000000u);
  if (to != nullptr) *to = now;
  return now;
}
[[nodiscard]] GPUHEAP_FN inline double difftime(time_t later, time_t earlier) { return static_cast<double>(later - earlier); }
// The time since the rank began, in units of 1 / CLOCKS_PER_SEC seconds.
[[nodiscard]] GPUHEAP_FN inline clock_t clock() {
  return static_cast<clock_t>(detail::run_ns() / (1000000000u / static_cast<unsigned>(CLOCKS_PER_SEC)));
}
GPUHEAP_FN inline int gettimeofday(timeval* to, void*) {
  auto const now = detail::now_ns();
  to->tv_sec = static_cast<time_t>(now / 1000000000u);
  to->tv_usec = static_cast<suseconds_t>(now % 1000000000u / 1000);
  return 0;
}
// All clocks are the same one: the time since 1970, whatever the id.
GPUHEAP_FN inline int clock_gettime(clockid_t, timespec* to) {
  auto const now = detail::now_ns();
  to->tv_sec = static_cast<time_t>(now / 1000000000u);
  to->tv_nsec = static_cast<long>(now % 1000000000u);
  return 0;
}

namespace detail {
GPUHEAP_FN inline void sleep_ns(simt::uint64_t ns) {
  auto const begin = simt::clock_ns();
  simt::back_off pause;
  // Ends: when the time has passed.
  GPUHEAP_NO_UNROLL
  while (simt::clock_ns() - begin < ns) pause.wait();
}
}  // namespace detail
// Waits for `seconds` seconds. Returns 0.
GPUHEAP_COLD inline unsigned sleep(unsigned seconds) {
  detail::sleep_ns(seconds * simt::uint64_t{1000000000});
  return 0;
}
GPUHEAP_COLD inline int usleep(unsigned microseconds) {
  detail::sleep_ns(microseconds * simt::uint64_t{1000});
  return 0;
}
GPUHEAP_COLD inline int nanosleep(timespec const* asked, timespec*) {
  detail::sleep_ns(static_cast<simt::uint64_t>(asked->tv_sec) * 1000000000u + static_cast<simt::uint64_t>(asked->tv_nsec));
  return 0;
}

// ---- names

// Stores the host's name, or its first `most` characters. Returns -1 if it does not fit.
GPUHEAP_FN inline int gethostname(char* to, simt::size_t most) {
  char const* const name = detail::facts().host_name;
  for (simt::size_t i = 0; i < most; ++i) {
    to[i] = name[i];
    if (name[i] == '\0') return 0;
  }
  return -1;
}
// The value of an environment variable; nullptr if there is none. All ranks share the text, which must not be written to.
[[nodiscard]] GPUHEAP_COLD inline char* getenv(char const* name) {
  char const* at = detail::facts().environment;
  // Ends: at the empty string after the last entry.
  while (at != nullptr && *at != '\0') {
    simt::size_t same = 0;
    // Ends: at the end of the name.
    while (name[same] != '\0' && at[same] == name[same]) ++same;
    if (name[same] == '\0' && at[same] == '=') return const_cast<char*>(at + same + 1);
    // Ends: at the end of the entry.
    while (*at != '\0') ++at;
    ++at;
  }
  return nullptr;
}
// A number that no other rank has.
[[nodiscard]] GPUHEAP_FN inline int getpid() {
  return 1 + static_cast<int>(simt::block_id() * simt::threads_per_block() + simt::thread_in_block());
}

// ---- numbers

// The generators of the GNU C library, so that a program gets the same numbers as in a process. Each rank has its own.
GPUHEAP_COLD inline void srandom(unsigned seed) {
  state& s = detail::mine();
  auto number = static_cast<int>(seed == 0 ? 1 : seed);
  for (int& n : s.numbers) {
    n = number;
    // The generator of Park and Miller, computed without overflow.
    number = 16807 * (number % 127773) - 2836 * (number / 127773);
    if (number < 0) number += 2147483647;
  }
  s.next_number = 0;
  s.numbers_seeded = true;
  for (int i = 0; i < 310; ++i) {
    int& n = s.numbers[(s.next_number + 3) % 31];
    n = static_cast<int>(static_cast<unsigned>(n) + static_cast<unsigned>(s.numbers[s.next_number]));
    s.next_number = (s.next_number + 1) % 31;
  }
}
GPUHEAP_COLD inline long random() {
  state& s = detail::mine();
  if (!s.numbers_seeded) srandom(1);
  int& n = s.numbers[(s.next_number + 3) % 31];
  n = static_cast<int>(static_cast<unsigned>(n) + static_cast<unsigned>(s.numbers[s.next_number]));
  s.next_number = (s.next_number + 1) % 31;
  return static_cast<long>(static_cast<unsigned>(n) >> 1);
}
GPUHEAP_FN inline void srand(unsigned seed) { srandom(seed); }
[[nodiscard]] GPUHEAP_FN inline int rand() { return static_cast<int>(random()); }
// The generator with its state in the caller's variable.
GPUHEAP_FN inline int rand_r(unsigned* seed) {
  unsigned result = 0;
  constexpr unsigned bits[3] = {11, 10, 10};
  for (unsigned const take : bits) {
    *seed = *seed * 1103515245u + 12345u;
    result = (result << take) ^ ((*seed / 65536u) % (1u << take));
  }
  return static_cast<int>(result);
}
// The 48-bit generator.
GPUHEAP_FN inline void srand48(long seed) {
  detail::mine().drand48 = (static_cast<simt::uint64_t>(static_cast<unsigned>(seed)) << 16) | 0x330eu;
}
namespace detail {
GPUHEAP_FN inline simt::uint64_t next48() {
  state& s = mine();
  s.drand48 = (s.drand48 * 0x5deece66du + 0xbu) & ((simt::uint64_t{1} << 48) - 1);
  return s.drand48;
}
}  // namespace detail
GPUHEAP_FN inline double drand48() { return static_cast<double>(detail::next48()) / 281474976710656.0; }
GPUHEAP_FN inline long lrand48() { return static_cast<long>(detail::next48() >> 17); }
GPUHEAP_FN inline long mrand48() { return static_cast<long>(static_cast<int>(detail::next48() >> 16)); }

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c
