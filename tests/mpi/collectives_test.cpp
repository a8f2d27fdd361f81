// Collective calls of device ranks, and communicators.
#include "ranks.hpp"

namespace {

using namespace test;
using mpi::in_place;

struct broadcasts {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    int const roots[] = {0, size - 1, size / 2};
    for (int const root : roots) {
      double values[5];
      for (int i = 0; i < 5; ++i) values[i] = rank == root ? root + i : -1;
      check(me.bcast(values, 5, datatype::float64, root, me.world()) == mpi::success);
      for (int i = 0; i < 5; ++i) check(values[i] == root + i);
    }
  }
};
TEST(MpiCollectives, Broadcast) { expect_right(broadcasts{}); }

struct reductions {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    int const root = size - 1;
    int const own[2] = {rank, 1};
    int sum[2] = {-1, -1};
    check(me.reduce(own, sum, 2, datatype::int32, operation::sum, root, me.world()) == mpi::success);
    if (rank == root) {
      check(sum[0] == size * (size - 1) / 2 && sum[1] == size);
    } else {
      check(sum[0] == -1 && sum[1] == -1);
    }
    check(me.reduce(rank == root ? in_place() : &rank, rank == root ? &rank : nullptr, 1, datatype::int32, operation::max, root,
                    me.world()) == mpi::success);
    check(rank == root ? rank == size - 1 : true);
    double most = rank == 0 ? 3.5 : 1.5;
    check(me.allreduce(in_place(), &most, 1, datatype::float64, operation::max, me.world()) == mpi::success && most == 3.5);
    unsigned bits = 1u << (rank % 8), all = 0;
    check(me.allreduce(&bits, &all, 1, datatype::uint32, operation::bor, me.world()) == mpi::success);
    check(all == (size >= 8 ? 255u : (1u << size) - 1));
    mpi::located<double> const mine{rank == size / 2 ? -2.0 : 1.0 * rank, rank};
    mpi::located<double> least{};
    check(me.allreduce(&mine, &least, 1, datatype::double_int, operation::min_loc, me.world()) == mpi::success);
    check(least.value == -2.0 && least.index == size / 2);
    short const twos = rank < 4 ? 2 : 1;
    short product = 0;
    check(me.allreduce(&twos, &product, 1, datatype::int16, operation::prod, me.world()) == mpi::success);
    check(product == (size >= 4 ? 16 : 1 << size));
    int const odd = rank == 1;
    int any = -1, every = -1, parity = -1;
    check(me.allreduce(&odd, &any, 1, datatype::int32, operation::lor, me.world()) == mpi::success && any == (size > 1));
    check(me.allreduce(&odd, &every, 1, datatype::int32, operation::land, me.world()) == mpi::success && every == 0);
    check(me.allreduce(&odd, &parity, 1, datatype::int32, operation::lxor, me.world()) == mpi::success && parity == (size > 1));
  }
};
TEST(MpiCollectives, Reduce) { expect_right(reductions{}); }

struct scans {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int, judge check) const {
    long long const own[2] = {rank, 1};
    long long upto[2] = {};
    check(me.scan(own, upto, 2, datatype::int64, operation::sum, me.world()) == mpi::success);
    check(upto[0] == static_cast<long long>(rank) * (rank + 1) / 2 && upto[1] == rank + 1);
    int least = 100 - rank;
    check(me.scan(in_place(), &least, 1, datatype::int32, operation::min, me.world()) == mpi::success && least == 100 - rank);
  }
};
TEST(MpiCollectives, Scan) { expect_right(scans{}); }

struct gathers {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    int all[40 * 3];
    int counts[40], places[40];
    int const root = size / 3;
    int own[2] = {rank, -rank};
    for (int round = 0; round < 2; ++round) {  // one right after the other: their messages must not mix
      own[0] = rank + 1000 * round;
      check(me.gather(own, 2, datatype::int32, all, 2, datatype::int32, root, me.world()) == mpi::success);
      for (int i = 0; i < size && rank == root; ++i) check(all[2 * i] == i + 1000 * round && all[2 * i + 1] == -i);
    }
    int filled = 0;
    for (int i = 0; i < size; ++i) {
      counts[i] = i % 3;
      places[i] = filled;
      filled += counts[i] + (i % 2);
    }
    check(me.gatherv(own, rank % 3, datatype::int32, all, counts, places, datatype::int32, root, me.world()) == mpi::success);
    for (int i = 0; i < size && rank == root; ++i) {
      if (counts[i] > 0) check(all[places[i]] == i + 1000);
      if (counts[i] > 1) check(all[places[i] + 1] == -i);
    }
    check(me.allgather(&rank, 1, datatype::int32, all, 1, datatype::int32, me.world()) == mpi::success);
    for (int i = 0; i < size; ++i) check(all[i] == i);
    for (int i = 0; i < size; ++i) all[i] = i == rank ? 7 * rank : -1;
    check(me.allgather(in_place(), 0, datatype::null, all, 1, datatype::int32, me.world()) == mpi::success);
    for (int i = 0; i < size; ++i) check(all[i] == 7 * i);
  }
};
TEST(MpiCollectives, Gather) { expect_right(gathers{}); }

struct scatters {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    int all[40 * 3];
    int counts[40], places[40];
    int const root = size - 1;
    for (int i = 0; i < 2 * size; ++i) all[i] = rank == root ? 5 * i : -1;
    for (int i = 0; i < size; ++i) {
      counts[i] = i % 2;
      places[i] = 2 * (size - 1 - i);
    }
    int got[2] = {-1, -1};
    check(me.scatter(all, 2, datatype::int32, got, 2, datatype::int32, root, me.world()) == mpi::success);
    check(got[0] == 10 * rank && got[1] == 10 * rank + 5);
    got[0] = -1;
    check(me.scatterv(all, counts, places, datatype::int32, got, 1, datatype::int32, root, me.world()) == mpi::success);
    check(got[0] == (rank % 2 == 1 ? 10 * (size - 1 - rank) : -1));
  }
};
TEST(MpiCollectives, Scatter) { expect_right(scatters{}); }

struct exchanges {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    int to[40 * 2], from[40 * 2];
    int sent_counts[40], sent_places[40], counts[40], places[40];
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < size; ++i) to[i] = 1000 * rank + i + round;
      check(me.alltoall(to, 1, datatype::int32, from, 1, datatype::int32, me.world()) == mpi::success);
      for (int i = 0; i < size; ++i) check(from[i] == 1000 * i + rank + round);
    }
    check(me.alltoall(in_place(), 0, datatype::null, to, 1, datatype::int32, me.world()) == mpi::success);
    for (int i = 0; i < size; ++i) check(to[i] == 1000 * i + rank + 1);
    // (own + other) mod 3 elements, so that both sides know.
    for (int i = 0; i < size; ++i) {
      counts[i] = sent_counts[i] = (rank + i) % 3;
      places[i] = sent_places[i] = 2 * i;
      to[2 * i] = rank;
      to[2 * i + 1] = i;
      from[2 * i] = from[2 * i + 1] = -1;
    }
    check(me.alltoallv(to, sent_counts, sent_places, datatype::int32, from, counts, places, datatype::int32, me.world()) == mpi::success);
    for (int i = 0; i < size; ++i) {
      check(from[2 * i] == (counts[i] > 0 ? i : -1));
      check(from[2 * i + 1] == (counts[i] > 1 ? rank : -1));
    }
  }
};
TEST(MpiCollectives, AllToAll) { expect_right(exchanges{}); }

// Rows of three: communicators within communicators, ranks in the reverse order, and ranks that are in none.
struct splits {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    mpi::communicator* row = nullptr;
    check(me.comm_split(me.world(), rank / 3, -rank, &row) == mpi::success && row != nullptr);
    int const first = rank / 3 * 3, members = size - first < 3 ? size - first : 3;
    int mine = -1, count = -1;
    check(me.comm_rank(row, &mine) == mpi::success && mine == first + members - 1 - rank);
    check(me.comm_size(row, &count) == mpi::success && count == members);
    int sum = 0;
    check(me.allreduce(&rank, &sum, 1, datatype::int32, operation::sum, row) == mpi::success);
    check(sum == members * first + members * (members - 1) / 2);
    // The same envelope on two communicators: each receive has its own.
    int const in_row = rank + 500, in_world = rank;
    check(me.send(&in_row, 1, datatype::int32, (mine + 1) % members, 1, row) == mpi::success);
    check(me.send(&in_world, 1, datatype::int32, (rank + 1) % size, 1, me.world()) == mpi::success);
    int got = -1;
    check(me.recv(&got, 1, datatype::int32, mpi::any_source, mpi::any_tag, me.world(), nullptr) == mpi::success);
    check(got == (rank + size - 1) % size);
    mpi::status seen{};
    check(me.recv(&got, 1, datatype::int32, mpi::any_source, mpi::any_tag, row, &seen) == mpi::success);
    check(got >= 500 && seen.MPI_SOURCE == (mine + members - 1) % members);
    mpi::communicator *ends = nullptr, *same = nullptr;
    bool const is_end = mine == 0;
    check(me.comm_split(row, is_end ? 0 : mpi::undefined, 0, &ends) == mpi::success && (ends != nullptr) == is_end);
    check(me.comm_dup(row, &same) == mpi::success && same != row);
    check(me.barrier(same) == mpi::success);
    int copy = -1;
    check(me.comm_rank(same, &copy) == mpi::success && copy == mine);
    if (ends != nullptr) check(me.comm_free(&ends) == mpi::success && ends == nullptr);
    check(me.comm_free(&same) == mpi::success);
    check(me.comm_free(&row) == mpi::success && row == nullptr);
  }
};
TEST(MpiCollectives, Split) { expect_right(splits{}); }

}  // namespace
