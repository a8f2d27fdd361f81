// Speed of the simulator: scheduling points per second on one core. Targets: 20 million with a switch at every point, 2 million in the weak
// mode. The rate is the counter `points`; the argument is the number of live lanes.
#include <gpuheap/simt/simt.hpp>

#include <gpuheap_simulator/launch.hpp>
#include <gpuheap_simulator/settings.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

namespace {

namespace simt = gpuheap::simt;
namespace simulator = gpuheap::simulator;
using simulator::scheduler_kind;
using word = simt::atomic_ref<unsigned>;

constexpr unsigned points_per_launch = 1 << 20;

// Launches `body` with as many threads as the benchmark's argument until the time is over, and counts scheduling points.
template <class Body>
void measure(benchmark::State& state, scheduler_kind scheduler, bool weak, Body body, unsigned threads = 1) {
  simulator::settings s;
  s.scheduler = scheduler;
  s.weak = weak;
  s.threads = threads;
  s.num_sms = 16;
  s.threads_per_sm = 256;
  simulator::scoped_settings const scope(s);
  auto const lanes = static_cast<unsigned>(state.range(0));
  std::uint64_t points = 0;
  for (auto _ : state) {
    gpuheap::launch(lanes, body, {.block_threads = lanes < 256 ? lanes : 256});
    points += simulator::last_run().points;
  }
  state.counters["points"] = benchmark::Counter(static_cast<double>(points), benchmark::Counter::kIsRate);
}

// Each lane adds to the word of its warp: what an aggregated counter costs.
struct add_to_own_word {
  unsigned* words;
  unsigned rounds;
  void operator()(unsigned i) const {
    for (unsigned k = 0; k < rounds; ++k) word(words[i / 32 % 4096 * 16]).fetch_add(1, simt::relaxed);
  }
};

// All lanes on one word, read and changed with the orders of a lock-free list.
struct contend {
  unsigned* words;
  unsigned rounds;
  void operator()(unsigned i) const {
    for (unsigned k = 0; k < rounds; k += 2) {
      unsigned seen = word(words[0]).load(simt::acquire);
      (void)word(words[0]).compare_exchange(seen, seen + i, simt::acq_rel, simt::relaxed);
    }
  }
};

// A mixture as in an allocator: a hot counter, words of many lanes, a warp operation, a flag.
struct mixture {
  unsigned* words;
  unsigned rounds;
  void operator()(unsigned i) const {
    for (unsigned k = 0; k < rounds; k += 5) {
      unsigned const ticket = word(words[0]).fetch_add(1, simt::relaxed);
      word(words[64 + ticket % 512]).fetch_or(1u << i % 32, simt::acq_rel);
      (void)simt::ballot(simt::all_lanes, ticket % 2 != 0);
      word(words[1024 + i]).store(ticket, simt::release);
      (void)word(words[1024 + (i ^ 1)]).load(simt::acquire);
    }
  }
};

struct exchange_in_warp {
  unsigned* words;
  unsigned rounds;
  void operator()(unsigned i) const {
    unsigned value = i;
    for (unsigned k = 0; k < rounds; ++k) value = simt::shuffle_xor(simt::all_lanes, value, 1 + k % 31);
    words[i] = value;
  }
};

template <class Body, scheduler_kind Scheduler, bool Weak>
void schedule(benchmark::State& state) {
  std::vector<unsigned> words(1 << 16);
  measure(state, Scheduler, Weak, Body{words.data(), points_per_launch / static_cast<unsigned>(state.range(0))});
}

// Lanes that live for one point: what a launch costs for each thread.
void start_lanes(benchmark::State& state) {
  std::vector<unsigned> words(1 << 16);
  measure(state, scheduler_kind::round_robin, false, add_to_own_word{words.data(), 1});
}

void on_two_threads(benchmark::State& state) {
  std::vector<unsigned> words(1 << 16);
  measure(state, scheduler_kind::round_robin, false,
          add_to_own_word{words.data(), points_per_launch / static_cast<unsigned>(state.range(0))}, 2);
}

constexpr bool strong = false, weak = true;

BENCHMARK(schedule<add_to_own_word, scheduler_kind::round_robin, strong>)->Name("round_robin/own_word")->Arg(32)->Arg(1024)->Arg(4096);
BENCHMARK(schedule<contend, scheduler_kind::round_robin, strong>)->Name("round_robin/contended")->Arg(1024);
BENCHMARK(schedule<mixture, scheduler_kind::round_robin, strong>)->Name("round_robin/mixture")->Arg(1024);
BENCHMARK(schedule<exchange_in_warp, scheduler_kind::round_robin, strong>)->Name("round_robin/shuffle")->Arg(1024);
BENCHMARK(schedule<add_to_own_word, scheduler_kind::run_through, strong>)->Name("run_through/own_word")->Arg(1024);
BENCHMARK(schedule<add_to_own_word, scheduler_kind::random, strong>)->Name("random/own_word")->Arg(1024);
BENCHMARK(schedule<add_to_own_word, scheduler_kind::pct, strong>)->Name("pct/own_word")->Arg(1024);
BENCHMARK(schedule<add_to_own_word, scheduler_kind::round_robin, weak>)->Name("weak/own_word")->Arg(32)->Arg(512);
BENCHMARK(schedule<contend, scheduler_kind::round_robin, weak>)->Name("weak/contended")->Arg(32)->Arg(512);
BENCHMARK(schedule<mixture, scheduler_kind::round_robin, weak>)->Name("weak/mixture")->Arg(32)->Arg(512);
BENCHMARK(start_lanes)->Name("round_robin/lanes_of_one_point")->Arg(1 << 20);
BENCHMARK(on_two_threads)->Name("round_robin/own_word_on_two_threads")->Arg(4096)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
