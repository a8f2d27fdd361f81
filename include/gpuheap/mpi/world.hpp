// Runs a functor as the ranks of an MPI world. Host code.
//
//   heap h{1_GiB};
//   mpi::result const r = mpi::run(h.ref(), 4096, my_main{}, {.block_threads = 256});
//
//   struct my_main {
//     template <class Rank>
//     GPUHEAP_FN void operator()(Rank const& me) const { me.init(); ... me.finalize(); }
//   };
#pragma once

#include <gpuheap/allocator.hpp>
#include <gpuheap/memory/allocation.hpp>
#include <gpuheap/mpi/rank.hpp>
#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/launch.hpp>

#include <string>
#include <vector>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

// @brief The outcome of a run.
struct result {
  bool aborted = false;  // a rank called abort(), or an error of a call was fatal
  int rank = 0;          // the first rank that aborted, in the world
  int code = 0;          // the code that it passed to abort(), or the error class
  int error = 0;         // the error class of a fatal error; `success` if the program called abort()
};

namespace detail {
template <class Heap, class Main>
struct run_rank {
  static constexpr unsigned largest_block = 1024;  // for launch(): limits the registers, so that blocks of this size can run
  world_state* world;
  Heap heap;
  Main main;
  GPUHEAP_FN void operator()(unsigned i) const { main(rank<Heap>{world, i, heap}); }
};

// Owns the state of a world and of its ranks in device memory. Host.
class world_memory {
 public:
  world_memory(unsigned num_ranks, stream_ref stream) : memory_{memory::device, first_rank + num_ranks * sizeof(rank_state)} {
    std::vector<unsigned char> image(memory_.bytes(), 0);
    auto* const here = static_cast<char*>(memory_.base());
    auto& world = *reinterpret_cast<world_state*>(image.data());
    auto* const ranks = reinterpret_cast<rank_state*>(image.data() + first_rank);
    world.ranks = reinterpret_cast<rank_state*>(here + first_rank);
    world.num_ranks = num_ranks;
    world.num_groups = 1;
    world.everyone = {num_ranks, 0, nullptr, 0, 0, num_ranks};
    for (unsigned i = 0; i < num_ranks; ++i) {
      ranks[i].world = {&state()->everyone, static_cast<int>(i), 0, error_handler::fatal, nullptr};
      ranks[i].sent.done = true;
    }
    simt::copy(here, image.data(), image.size(), stream);
    simt::synchronize(stream);
  }

  [[nodiscard]] world_state* state() const { return static_cast<world_state*>(memory_.base()); }
  // Reads the outcome. Waits for the stream.
  [[nodiscard]] result read(stream_ref stream) const {
    world_state copy{};
    simt::copy(&copy, state(), sizeof copy, stream);
    simt::synchronize(stream);
    return {copy.abort.claimed != 0, copy.abort.rank, copy.abort.code, copy.abort.error};
  }

 private:
  static constexpr simt::size_t first_rank = simt::round_up_pow2(sizeof(world_state), alignof(rank_state));

  memory::allocation memory_;
};

template <class Functor>
void require_resident(unsigned num_ranks, unsigned block_threads) {
  if (num_ranks == 0) throw plain_error("gpuheap: a world has at least 1 MPI rank, not 0");
  unsigned const most = simt::most_resident_threads<Functor>(block_threads);
  if (num_ranks <= most) return;
  throw plain_error("gpuheap: " + std::to_string(num_ranks) + " MPI ranks in blocks of " + std::to_string(block_threads) +
                    " cannot all be resident on the device, as ranks that wait for each other must be: start at most " +
                    std::to_string(most) + " ranks of this program, or choose another block size");
}
}  // namespace detail

// @brief Computes how many ranks a world can have on the current device. Host; does not wait.
// @tparam Heap the type of the heap_ref that run() gets
// @tparam Main the functor that run() gets
// @param block_threads the number of ranks in a thread block, 1 to 1024
// @return the largest number of ranks that can be resident at once
// @throws device_error if a call of the CUDA runtime fails
template <class Heap, class Main>
[[nodiscard]] unsigned most_ranks(unsigned block_threads) {
  return simt::most_resident_threads<detail::run_rank<Heap, Main>>(block_threads);
}

// @brief Runs main(rank<Heap>) as the ranks of one world, one rank in each thread of one cooperative kernel. Host; waits for the kernel.
// @param heap the heap that messages are allocated from
// @param num_ranks the number of ranks: 1 to most_ranks<Heap, Main>(config.block_threads)
// @param main a trivially copyable functor. Its call operator is a GPUHEAP_FN that takes a rank<Heap>
// @param config the number of threads of a block, and the stream. The launch is cooperative, whatever config.cooperative says
// @return the outcome: whether a rank aborted, and the number and the code of the first one that did
// @throws gpuheap::error before the launch if `num_ranks` is 0 or more than can be resident
// @throws out_of_memory if the device does not have the memory for the state of the ranks
// @throws device_error if the kernel fails
template <class Heap, class Main>
[[nodiscard]] result run(Heap const& heap, unsigned num_ranks, Main main, launch_config config = {}) {
  static_assert(Heap::allocator_type::traits.free == frees::individually && !Heap::allocator_type::traits.overwrites,
                "gpuheap: MPI's messages are freed one by one by their receivers: this Allocator cannot do that");
  using functor = detail::run_rank<Heap, Main>;
  detail::require_resident<functor>(num_ranks, config.block_threads);
  detail::world_memory const world{num_ranks, config.stream};
  config.cooperative = true;
  launch(num_ranks, functor{world.state(), heap, main}, config);
  return world.read(config.stream);
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi
