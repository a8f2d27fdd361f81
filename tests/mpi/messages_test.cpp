// Point-to-point messages between device ranks, the barrier, the clock.
#include "ranks.hpp"

#include <gpuheap/allocators/sharded_spans.hpp>

namespace {

using namespace test;

// Each rank's number goes once around all of them, every rank adding its own.
struct ring {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    int token = 0;
    mpi::status seen{};
    if (rank == 0) {
      check(me.send(&token, 1, datatype::int32, 1 % size, 3, me.world()) == mpi::success);
      check(me.recv(&token, 1, datatype::int32, size - 1, 3, me.world(), &seen) == mpi::success);
      check(token == size * (size - 1) / 2);
    } else {
      check(me.recv(&token, 1, datatype::int32, rank - 1, 3, me.world(), &seen) == mpi::success);
      token += rank;
      check(me.send(&token, 1, datatype::int32, (rank + 1) % size, 3, me.world()) == mpi::success);
    }
    check(seen.MPI_SOURCE == (rank + size - 1) % size && seen.MPI_TAG == 3 && mpi::get_count(seen, datatype::int32) == 1);
  }
};
TEST(MpiMessages, GoRoundARing) { expect_right(ring{}); }
TEST(MpiMessages, GoRoundARingOnTheDefaultHeap) {
  EXPECT_NO_THROW(require_right(64, 32, ring{}, gpuheap::heap<gpuheap::sharded_spans>{32_MiB}));
}

// Messages of one rank to another come in the order of their sends, for the receives that want them.
struct in_order {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    constexpr int rounds = 4;
    int const to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int i = 0; i < rounds; ++i) {
      int const value = 100 * rank + i;
      check(me.send(&value, 1, datatype::int32, to, i % 2, me.world()) == mpi::success);
    }
    // Those of the odd tag first: each tag keeps its order.
    for (int i = 1; i < rounds; i += 2) {
      int value = -1;
      check(me.recv(&value, 1, datatype::int32, from, 1, me.world(), nullptr) == mpi::success);
      check(value == 100 * from + i);
    }
    for (int i = 0; i < rounds; i += 2) {
      int value = -1;
      mpi::status seen{};
      check(me.recv(&value, 1, datatype::int32, mpi::any_source, mpi::any_tag, me.world(), &seen) == mpi::success);
      check(value == 100 * from + i && seen.MPI_SOURCE == from && seen.MPI_TAG == 0);
    }
  }
};
TEST(MpiMessages, KeepTheirOrder) { expect_right(in_order{}); }

// Receives that are posted before their messages get them in the order of posting; wildcards among them.
struct posted {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    int const to = (rank + 1) % size, from = (rank + size - 1) % size;
    int got[3] = {-1, -1, -1};
    mpi::request* requests[4] = {};
    check(me.irecv(&got[0], 1, datatype::int32, from, 7, me.world(), &requests[0]) == mpi::success);
    check(me.irecv(&got[1], 1, datatype::int32, from, mpi::any_tag, me.world(), &requests[1]) == mpi::success);
    check(me.irecv(&got[2], 1, datatype::int32, mpi::any_source, 7, me.world(), &requests[2]) == mpi::success);
    me.barrier(me.world());
    for (int i = 0; i < 3; ++i) {
      int const value = 10 * rank + i;
      check(me.isend(&value, 1, datatype::int32, to, 7, me.world(), &requests[3]) == mpi::success);
      check(me.wait(&requests[3], nullptr) == mpi::success && requests[3] == nullptr);
    }
    mpi::status seen[4];
    check(me.waitall(4, requests, seen) == mpi::success);
    for (int i = 0; i < 3; ++i) {
      check(got[i] == 10 * from + i && requests[i] == nullptr);
      check(seen[i].MPI_SOURCE == from && seen[i].MPI_TAG == 7 && seen[i].MPI_ERROR == mpi::success);
    }
  }
};
TEST(MpiMessages, FillPostedReceivesInOrder) { expect_right(posted{}); }

// All send to one, which takes what comes; probing says what it is before.
struct to_one {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    double values[4] = {};
    if (rank != 0) {
      int const count = rank % 4 + 1;
      for (int i = 0; i < count; ++i) values[i] = rank + 0.25 * i;
      check(me.send(values, count, datatype::float64, 0, rank, me.world()) == mpi::success);
      return;
    }
    int sum = 0;
    for (int i = 1; i < size; ++i) {
      mpi::status seen{};
      check(me.probe(mpi::any_source, mpi::any_tag, me.world(), &seen) == mpi::success);
      int const from = seen.MPI_SOURCE, count = mpi::get_count(seen, datatype::float64);
      check(seen.MPI_TAG == from && count == from % 4 + 1);
      check(me.recv(values, count, datatype::float64, from, from, me.world(), &seen) == mpi::success);
      for (int k = 0; k < count; ++k) check(values[k] == from + 0.25 * k);
      sum += from;
    }
    check(sum == size * (size - 1) / 2);
    int found = 1;
    check(me.iprobe(mpi::any_source, mpi::any_tag, me.world(), &found, nullptr) == mpi::success && found == 0);
  }
};
TEST(MpiMessages, AreProbed) { expect_right(to_one{}); }

// A halo exchange: the ends talk to nobody.
struct halo {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    int const left = rank == 0 ? mpi::proc_null : rank - 1, right = rank == size - 1 ? mpi::proc_null : rank + 1;
    int got = -5;
    mpi::status seen{};
    check(me.sendrecv(&rank, 1, datatype::int32, right, 1, &got, 1, datatype::int32, left, 1, me.world(), &seen) == mpi::success);
    check(got == (rank == 0 ? -5 : rank - 1) && seen.MPI_SOURCE == left);
    check(mpi::get_count(seen, datatype::int32) == (rank == 0 ? 0 : 1));
    int done = 0;
    mpi::request* r = nullptr;
    check(me.irecv(&got, 1, datatype::int32, rank, 2, me.world(), &r) == mpi::success);
    check(me.test(&r, &done, nullptr) == mpi::success && done == 0 && r != nullptr);
    check(me.send(&rank, 1, datatype::int32, rank, 2, me.world()) == mpi::success);  // to itself
    check(me.test(&r, &done, nullptr) == mpi::success && done == 1 && r == nullptr && got == rank);
  }
};
TEST(MpiMessages, AreExchanged) { expect_right(halo{}); }

// Nobody leaves a barrier before all have come; each barrier is one of its own.
struct barriers {
  unsigned* arrived;
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    double const began = me.wtime();
    for (unsigned round = 1; round <= 3; ++round) {
      simt::atomic_ref<unsigned>{arrived[rank]}.store(round, simt::relaxed);  // relaxed: the barrier orders it
      check(me.barrier(me.world()) == mpi::success);
      check(simt::atomic_ref<unsigned>{arrived[(rank + 1) % size]}.load(simt::relaxed) >= round);
    }
    check(me.wtime() >= began);
  }
};
TEST(MpiMessages, BarrierWaitsForAll) {
  device_array<unsigned> arrived(40);
  auto const explored = simt::explore(num_seeds(40), [&] {
    arrived.write(std::vector<unsigned>(40));
    require_right(40, 16, barriers{arrived.data()});
    return true;
  });
  EXPECT_TRUE(explored) << explored.what;
}

}  // namespace
