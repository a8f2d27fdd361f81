// The common part of mpi_reduce, mpi_broadcast and mpi_alltoall: ranks that are threads of one kernel allocate their buffers from the heap,
// make one collective call, check what they received, and free.
//   N. Blach, M. Erhart, F. Memedi, A. Schaefer, "Coalescing memory allocations for GPU MPI", section 4.2 and listing 4. A time is that of
//   the call (for the all-to-all: with the arrays that it needs) in a rank, on the clock of MPI_Wtime; a sample is the median over the
//   ranks.
//
// In their all-to-all each rank allocates four arrays of counts and displacements, two of requests, and the messages. This case does the
// same, by alltoallv or by irecv and isend (`requests`), whose receives are blocks too. Beside it runs a kernel without malloc, in which
// every rank reads its part from the place where the others have put it.
#pragma once

#include <gpuheap/allocators/sharded_spans.hpp>
#include <gpuheap/collective.hpp>
#include <gpuheap/mpi/world.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "harness/baseline.hpp"
#include "harness/case.hpp"
#include "harness/device_array.hpp"
#include "harness/heap_under_test.hpp"
#include "harness/pace.hpp"

namespace gpuheap::bench {

enum class mpi_call { reduce, broadcast, alltoall };

// The times of one rank, in nanoseconds.
struct mpi_times {
  double call_ns, malloc_ns, free_ns, without_malloc_ns;
};

// Blocks that a rank asks for together with the others of its block: `together`, by the call that the allocator is best at, or `plain`.
template <class Ref>
struct mpi_memory {
  Ref heap;
  block_scratch* scratch;  // one a block
  bool together;

  [[nodiscard]] GPUHEAP_COLD void* take(simt::size_t bytes) const {
    if constexpr (has_malloc_by_block<typename Ref::allocator_type, live_block_threads>) {
      return together ? heap.malloc_coalesced(live_block(scratch[simt::block_id()]), bytes) : heap.malloc(bytes);
    } else {
      return together ? heap.malloc_coalesced(this_warp(), bytes) : heap.malloc(bytes);
    }
  }
  GPUHEAP_COLD void give(void* p) const { heap.free(p); }
};

// The timed kernel: main of a rank. All ranks of a block make each request with one size.
template <class Ref>
struct mpi_rank_main {
  mpi_memory<Ref> memory;
  mpi_call call;
  int count;              // doubles, in the all-to-all for each pair of ranks
  bool warm_up;           // one call before the timed one
  bool requests;          // the all-to-all by irecv and isend
  double* shared;         // of the all-to-all without malloc: ranks * ranks * count
  double* shared_result;  // likewise
  mpi_times* times;
  simt::uint32_t* faults;  // {failed_requests, wrong values}

  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me) const {
    me.init();
    auto* const world = me.world();
    int rank = 0, size = 0;
    me.comm_rank(world, &rank);
    me.comm_size(world, &size);
    mpi_times mine{};
    bool const pairs = call == mpi_call::alltoall;
    int const values = pairs ? count * size : count;
    simt::size_t const bytes = static_cast<simt::size_t>(values) * sizeof(double);
    double const asked = me.wtime();
    auto* const a = static_cast<double*>(memory.take(bytes));
    auto* const b = static_cast<double*>(memory.take(bytes));
    mine.malloc_ns = 1e9 * (me.wtime() - asked);
    // Ranks without memory say so, and all leave together: the others would wait for them.
    int failed_requests = a == nullptr || b == nullptr, all_failed = 0;
    me.allreduce(&failed_requests, &all_failed, 1, mpi::datatype::int32, mpi::operation::sum, world);
    if (all_failed == 0) {
      if (warm_up) {
        fill(a, rank, values);
        run_call(me, rank, size, a, b);
      }
      fill(a, rank, values);
      me.barrier(world);
      double const began = me.wtime();
      run_call(me, rank, size, a, b);
      mine.call_ns = 1e9 * (me.wtime() - began);
      count_wrong(rank, size, call == mpi_call::broadcast ? a : b);
      if (pairs) mine.without_malloc_ns = exchange_without_malloc(me, rank, size, a);
    }
    if (failed_requests != 0) simt::atomic_ref<simt::uint32_t>{faults[0]}.fetch_add(1, simt::relaxed);  // relaxed: a count
    me.barrier(world);
    double const freed = me.wtime();
    memory.give(a);
    memory.give(b);
    mine.free_ns = 1e9 * (me.wtime() - freed);
    times[rank] = mine;
    me.finalize();
  }

 private:
  [[nodiscard]] GPUHEAP_FN static double value_of(int rank, int i) { return rank + 1024.0 * i; }

  GPUHEAP_FN static void fill(double* a, int rank, int values) {
    for (int i = 0; i < values; ++i) a[i] = value_of(rank, i);
  }

  template <class Rank>
  GPUHEAP_FN void run_call(Rank const& me, int rank, int size, double* a, double* b) const {
    switch (call) {
      case mpi_call::reduce:
        me.reduce(a, b, count, mpi::datatype::float64, mpi::operation::sum, 0, me.world());
        break;
      case mpi_call::broadcast:
        me.bcast(a, count, mpi::datatype::float64, 0, me.world());
        break;
      case mpi_call::alltoall:
        exchange(me, rank, size, a, b);
        break;
    }
  }

  template <class Rank>
  GPUHEAP_FN void exchange(Rank const& me, int rank, int size, double const* a, double* b) const {
    simt::size_t const ints = static_cast<simt::size_t>(size) * sizeof(int), handles = static_cast<simt::size_t>(size) * sizeof(void*);
    int* arrays[4];
    mpi::request** lists[2];
    int missing = 0;
    for (int*& array : arrays) missing += (array = static_cast<int*>(memory.take(ints))) == nullptr;
    for (mpi::request**& list : lists) missing += (list = static_cast<mpi::request**>(memory.take(handles))) == nullptr;
    if (missing != 0) me.abort(mpi::err_no_mem);
    for (int i = 0; i < size; ++i) {
      arrays[0][i] = arrays[1][i] = count;
      arrays[2][i] = arrays[3][i] = count * i;
    }
    if (requests) {
      for (int i = 0; i < size; ++i) {
        int const from = (rank + i) % size;
        me.irecv(b + arrays[3][from], arrays[1][from], mpi::datatype::float64, from, 0, me.world(), &lists[0][from]);
      }
      for (int i = 0; i < size; ++i) {
        int const to = (rank + i) % size;
        me.isend(a + arrays[2][to], arrays[0][to], mpi::datatype::float64, to, 0, me.world(), &lists[1][to]);
      }
      me.waitall(size, lists[1], nullptr);
      me.waitall(size, lists[0], nullptr);
    } else {
      me.alltoallv(a, arrays[0], arrays[2], mpi::datatype::float64, b, arrays[1], arrays[3], mpi::datatype::float64, me.world());
    }
    for (mpi::request** list : lists) memory.give(list);
    for (int* array : arrays) memory.give(array);
  }

  // Nanoseconds. The values lie in memory that the host has made: a rank's own row is written, the column of the rank is read.
  template <class Rank>
  GPUHEAP_FN double exchange_without_malloc(Rank const& me, int rank, int size, double const* a) const {
    simt::size_t const row = static_cast<simt::size_t>(size) * static_cast<simt::size_t>(count);
    double* const mine = shared + row * static_cast<simt::size_t>(rank);
    double* const result = shared_result + row * static_cast<simt::size_t>(rank);
    me.barrier(me.world());
    double const began = me.wtime();
    for (simt::size_t i = 0; i < row; ++i) simt::plain_write(mine[i], a[i]);
    me.barrier(me.world());
    for (int from = 0; from < size; ++from) {
      double const* const theirs = shared + row * static_cast<simt::size_t>(from) + static_cast<simt::size_t>(count * rank);
      for (int i = 0; i < count; ++i) result[from * count + i] = simt::plain_read(theirs[i]);
    }
    me.barrier(me.world());
    double const ended = me.wtime();
    count_wrong(rank, size, result);
    return 1e9 * (ended - began);
  }

  // Sums of ranks are exact: at most 2^14 ranks.
  GPUHEAP_FN void count_wrong(int rank, int size, double const* got) const {
    bool wrong = false;
    // Ends: once for each value.
    switch (call) {
      case mpi_call::reduce:
        for (int i = 0; i < count && rank == 0; ++i) wrong |= got[i] != size * (size - 1.0) / 2 + size * 1024.0 * i;
        break;
      case mpi_call::broadcast:
        for (int i = 0; i < count; ++i) wrong |= got[i] != value_of(0, i);
        break;
      case mpi_call::alltoall:
        for (int i = 0; i < count * size; ++i) wrong |= got[i] != value_of(i / count, count * rank + i % count);
        break;
    }
    if (wrong) simt::atomic_ref<simt::uint32_t>{faults[1]}.fetch_add(1, simt::relaxed);  // relaxed: a count
  }
};

inline constexpr parameter mpi_parameters[] = {
    number_parameter("threads", "15360", 1, 1u << 14),         // ranks
    number_parameter("doubles", "16", 1, 1024),                // of each rank, in the all-to-all for each pair
    choice_parameter("upstream", "own", "own|sharded_spans"),  // where an allocator that coalesces takes its superblocks from
    choice_parameter("call", "together", "together|plain"),
    choice_parameter("exchange", "alltoallv", "alltoallv|requests"),
    heap_parameter,
    number_parameter("block_threads", "512", 1, 1024),
};

template <class A>
[[nodiscard]] outcome run_mpi_on(session const& s, point const& p, mpi_call call) {
  if (auto reason = why_no_heap<A>(s); !reason.empty()) return unsupported(std::move(reason));
  if constexpr (A::traits.free != frees::individually || A::traits.overwrites || A::traits.warp_level) {
    return unsupported("MPI's messages are freed one by one by their receivers, which this allocator cannot do");
  } else if (!hands_out_memory<A>()) {
    return unsupported("this baseline allocates no memory for messages");
  } else {
    using ref = typename heap_under_test<A>::ref_type;
    using main = mpi_rank_main<ref>;
    unsigned const ranks = p.threads();
    bool const pairs = call == mpi_call::alltoall;
    if (unsigned const most = mpi::most_ranks<ref, main>(p.block_threads()); ranks > most) {
      return unsupported(std::to_string(ranks) + " ranks are more than the " + std::to_string(most) + " that can be resident at once");
    }
    owned_stream stream;
    heap_under_test<A> heap(s.heap_bytes, stream);
    auto const doubles = p.number("doubles");
    std::size_t const exchanged = pairs ? std::size_t{ranks} * ranks * doubles : 1;
    device_array<block_scratch> scratch(simt::ceil_div(ranks, p.block_threads()));
    device_array<double> shared(exchanged), shared_result(exchanged);
    device_array<mpi_times> times(ranks);
    device_array<simt::uint32_t> faults(2);
    main const program{{heap.ref(), scratch.data(), p.text("call") == "together"},
                       call,
                       static_cast<int>(doubles),
                       !pairs,
                       p.text("exchange") == "requests",
                       shared.data(),
                       shared_result.data(),
                       times.data(),
                       faults.data()};
    row call_ms{"call_ms", "ms", {}}, malloc_ms{"malloc_ms", "ms", {}}, free_ms{"free_ms", "ms", {}},
        without_malloc_ms{"without_malloc_ms", "ms", {}};
    pace const timing(s);
    for (std::size_t done = 0; !timing.enough(done); ++done) {
      if (auto slow = timing.too_slow(static_cast<double>(done), static_cast<double>(timing.lacking(done))); !slow.empty()) {
        return timed_out(std::move(slow));
      }
      faults.zero(stream);
      mpi::result const ended = mpi::run(heap.ref(), ranks, program, {.block_threads = p.block_threads(), .stream = stream});
      if (ended.aborted && ended.code == mpi::err_no_mem) return unsupported("the heap has no room for the arrays and messages");
      if (ended.aborted) return wrong("rank " + std::to_string(ended.rank) + " aborted with error class " + std::to_string(ended.error));
      auto const found = faults.download(stream);
      if (found[0] != 0) return unsupported("the heap has no room for the ranks' buffers");
      if (found[1] != 0) return wrong(std::to_string(found[1]) + " of " + std::to_string(ranks) + " ranks have a wrong result");
      auto const all = times.download(stream);
      auto const median_ms = [&](double mpi_times::*which) {
        std::vector<double> values;
        for (mpi_times const& t : all) values.push_back(t.*which);
        std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
        return 1e-6 * values[values.size() / 2];
      };
      call_ms.samples.push_back(median_ms(&mpi_times::call_ns));
      malloc_ms.samples.push_back(median_ms(&mpi_times::malloc_ns));
      free_ms.samples.push_back(median_ms(&mpi_times::free_ns));
      without_malloc_ms.samples.push_back(median_ms(&mpi_times::without_malloc_ns));
    }
    if (auto fault = heap.refused_frees(); !fault.empty()) return wrong(std::move(fault));
    outcome answer{outcome_status::ok, "", {std::move(call_ms), std::move(malloc_ms), std::move(free_ms)}};
    if (pairs) answer.rows.push_back(std::move(without_malloc_ms));
    return answer;
  }
}

// Runs the point on A, or on A over the default allocator.
template <class A>
[[nodiscard]] outcome run_mpi(session const& s, point const& p, mpi_call call) {
  if (p.text("upstream") == "own") return run_mpi_on<A>(s, p, call);
  if constexpr (requires { typename A::template over<sharded_spans>; }) {
    return run_mpi_on<typename A::template over<sharded_spans>>(s, p, call);
  } else {
    return unsupported("this allocator takes its memory from no other one");
  }
}

}  // namespace gpuheap::bench
