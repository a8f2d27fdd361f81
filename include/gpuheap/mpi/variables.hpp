// The variables of a C program with static storage duration. In C each process has its own. Here they are members of structs, and each rank
// has one object of each struct.
//
//   struct steps_of_heat { int steps = 5; };                 // int steps = 5;
//   gpuheap::mpi::own<steps_of_heat>().steps                 // steps, in device code
//   using variables_of_heat = gpuheap::mpi::variables<steps_of_heat, ...>;
//   static bool const known = variables_of_heat::known();    // once, in the file of the variables: run_main() then allocates their memory
//   variables_of_heat::start();                              // in each rank, before main: sets the initial values
#pragma once

#include <gpuheap/memory/allocation.hpp>
#include <gpuheap/simt/program.hpp>
#include <gpuheap/simt/simt.hpp>

#include <new>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

namespace detail {
// The address of an array of one kind of struct, with an element for each rank. Device code reads it.
template <class Variables>
struct variables_place {
  Variables* first = nullptr;
};

// An entry for each kind of struct, from which variables_memory allocates the array.
struct variables_entry {
  simt::size_t bytes;
  void (*set)(void* first);  // sets the array's address in all translation units; nullptr: no array
};
inline std::vector<variables_entry>& variables_entries() {
  static std::vector<variables_entry> all;
  return all;
}

// Owns the arrays of all structs while a program runs. Host.
class variables_memory {
 public:
  explicit variables_memory(unsigned num_ranks) {
    for (auto const& one : variables_entries()) {
      memory_.emplace_back(memory::device, num_ranks * one.bytes);
      one.set(memory_.back().base());
    }
  }
  variables_memory(variables_memory const&) = delete;
  variables_memory& operator=(variables_memory const&) = delete;
  ~variables_memory() {
    for (auto const& one : variables_entries()) {
      try {
        one.set(nullptr);
      } catch (...) {  // a device that has failed: the thread that waited for it has reported the failure
      }
    }
  }

 private:
  std::vector<memory::allocation> memory_;
};
}  // namespace detail

// The calling rank's object of a struct. Device code of a program that run_main() runs.
template <class Variables>
[[nodiscard]] GPUHEAP_FN inline Variables& own() {
  unsigned const rank = simt::block_id() * simt::threads_per_block() + simt::thread_in_block();
  return simt::program_value<detail::variables_place<Variables>>().first[rank];
}

// The kinds of struct of one translation unit.
template <class... Each>
struct variables {
  // Registers the structs. Host, before main.
  static bool known() {
    (add<Each>(), ...);
    return true;
  }
  // Sets the calling rank's variables to their initial values. Device; each rank calls.
  GPUHEAP_FN static void start() { (start_one<Each>(), ...); }

 private:
  template <class One>
  static void add() {
    static_assert(alignof(One) <= 256, "gpuheap: a rank's variables are aligned to 256 bytes at most");
    (void)simt::has_program_value<detail::variables_place<One>>();
    detail::variables_entries().push_back(
        {sizeof(One), [](void* first) { simt::program_values<detail::variables_place<One>>::set({static_cast<One*>(first)}); }});
  }
  template <class One>
  GPUHEAP_FN static void start_one() {
    (void)::new (static_cast<void*>(&own<One>())) One{};
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi
