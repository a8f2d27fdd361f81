// Tests of refused calls, and of ranks that are told to end.
#include "ranks.hpp"

namespace {

using namespace test;

// With errors returned, each call says its error class, and the rank goes on.
struct mistakes {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int size, judge check) const {
    auto* const world = me.world();
    check(me.comm_set_errhandler(world, mpi::error_handler::return_) == mpi::success);
    int values[2] = {11, 22};
    check(me.send(values, 1, datatype::int32, size, 0, world) == mpi::err_rank);
    check(me.send(values, 1, datatype::int32, -7, 0, world) == mpi::err_rank);
    check(me.send(values, 1, datatype::int32, rank, -1, world) == mpi::err_tag);
    check(me.send(values, -1, datatype::int32, rank, 0, world) == mpi::err_count);
    check(me.send(values, 1, datatype::null, rank, 0, world) == mpi::err_type);
    check(me.send(nullptr, 1, datatype::int32, rank, 0, world) == mpi::err_buffer);
    check(me.recv(values, 1, datatype::int32, size, 0, world, nullptr) == mpi::err_rank);
    check(me.recv(values, 1, datatype::int32, rank, -3, world, nullptr) == mpi::err_tag);
    check(me.bcast(values, 1, datatype::int32, size, world) == mpi::err_root);
    check(me.reduce(values, values + 1, 1, datatype::int32, operation::null, 0, world) == mpi::err_op);
    check(me.reduce(values, values + 1, 1, datatype::float32, operation::band, 0, world) == mpi::err_op);
    check(me.comm_split(world, -4, 0, nullptr) == mpi::err_arg);
    // A message longer than its buffer: what fits is received.
    check(me.send(values, 2, datatype::int32, rank, 0, world) == mpi::success);
    int short_buffer[2] = {-1, -1};
    mpi::status seen{};
    check(me.recv(short_buffer, 1, datatype::int32, rank, 0, world, &seen) == mpi::err_truncate);
    check(short_buffer[0] == 11 && short_buffer[1] == -1 && mpi::get_count(seen, datatype::int32) == 1);
    check(mpi::get_count(seen, datatype::float64) == mpi::undefined);
    // Of several requests the one that failed is known by its status.
    mpi::request* requests[2] = {};
    mpi::status ends[2];
    check(me.irecv(values, 2, datatype::int32, rank, 1, world, &requests[0]) == mpi::success);
    check(me.irecv(short_buffer, 0, datatype::int32, rank, 2, world, &requests[1]) == mpi::success);
    check(me.send(values, 1, datatype::int32, rank, 2, world) == mpi::success);
    check(me.send(values + 1, 1, datatype::int32, rank, 1, world) == mpi::success);
    check(me.waitall(2, requests, ends) == mpi::err_in_status);
    check(ends[0].MPI_ERROR == mpi::success && ends[1].MPI_ERROR == mpi::err_truncate && values[0] == 22);
    // The root scatters two bytes to each, and the others have room for one.
    char all[2 * 33] = {};
    char part[2] = {};
    int const room = rank == 0 ? 2 : 1;
    check(me.scatter(all, 2, datatype::byte, part, room, datatype::byte, 0, world) == (rank == 0 ? mpi::success : mpi::err_truncate));
    check(me.barrier(world) == mpi::success);
  }
};
TEST(MpiMisuse, IsAnsweredByErrorClasses) {
  for (unsigned const ranks : {1u, 2u, 33u}) EXPECT_NO_THROW(require_right(ranks, 32, mistakes{}));
}

// A send that the heap has no room for.
struct too_long {
  char* bytes;
  int count;
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me, int rank, int, judge check) const {
    check(me.comm_set_errhandler(me.world(), mpi::error_handler::return_) == mpi::success);
    check(me.send(bytes, count, datatype::byte, rank, 0, me.world()) == mpi::err_no_mem);
    check(me.send(bytes, 16, datatype::byte, rank, 0, me.world()) == mpi::success);
    check(me.recv(bytes, 16, datatype::byte, rank, 0, me.world(), nullptr) == mpi::success);
  }
};
TEST(MpiMisuse, HeapWithoutRoomIsAnError) {
  device_array<char> bytes(5 << 20);
  EXPECT_NO_THROW(require_right(1, 32, too_long{bytes.data(), 5 << 20}));
}

// Rank 2 stops everybody while the others wait for what never comes.
template <int Where>
struct stops {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me) const {
    me.init();
    int rank = -1, value = 0;
    me.comm_rank(me.world(), &rank);
    if (rank == 2) {
      if constexpr (Where == 0) me.abort(42);
      me.send(&value, 1, datatype::int32, -9, 0, me.world());  // errors are fatal at first
    }
    switch (rank % 4) {
      case 0:
        me.recv(&value, 1, datatype::int32, mpi::any_source, 0, me.world(), nullptr);
        break;
      case 1:
        me.barrier(me.world());
        break;
      case 2:
        me.bcast(&value, 1, datatype::int32, 1, me.world());
        break;
      default:
        me.probe(0, 5, me.world(), nullptr);
    }
    me.finalize();
  }
};
template <int Where>
mpi::result stopped() {
  mpi::result last{};
  auto const explored = simt::explore(num_seeds(12), [&] {
    test_heap heap{4_MiB};
    last = mpi::run(heap.ref(), 40, stops<Where>{}, {.block_threads = 32});
    return last.aborted && last.rank == 2;
  });
  EXPECT_TRUE(explored) << explored.what;
  return last;
}
TEST(MpiMisuse, AbortEndsAllRanks) {
  auto const ended = stopped<0>();
  EXPECT_EQ(ended.code, 42);
  EXPECT_EQ(ended.error, mpi::success);
}
TEST(MpiMisuse, ErrorsAreFatalAtFirst) { EXPECT_EQ(stopped<1>().error, mpi::err_rank); }

struct nothing {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const&) const {}
};
TEST(MpiMisuse, MoreRanksThanAreResidentAreRefused) {
  test_heap heap{4_MiB};
  unsigned const most = mpi::most_ranks<test_heap::ref_type, nothing>(64);
  EXPECT_GE(most, 64u);
  EXPECT_FALSE(mpi::run(heap.ref(), most, nothing{}, {.block_threads = 64}).aborted);
  std::string said;
  try {
    (void)mpi::run(heap.ref(), most + 1, nothing{}, {.block_threads = 64});
  } catch (gpuheap::error const& e) {
    said = e.what();
  }
  EXPECT_NE(said.find(std::to_string(most + 1) + " MPI ranks"), std::string::npos) << said;
  EXPECT_NE(said.find("at most " + std::to_string(most)), std::string::npos) << said;
  EXPECT_THROW((void)mpi::run(heap.ref(), 0, nothing{}), gpuheap::error);
}

// Calls before init are refused like other errors: they end the ranks.
struct too_early {
  template <class Rank>
  GPUHEAP_FN void operator()(Rank const& me) const {
    me.barrier(me.world());
  }
};
TEST(MpiMisuse, CallsBeforeInitEndTheRanks) {
  test_heap heap{4_MiB};
  EXPECT_EQ(mpi::run(heap.ref(), 3, too_early{}).error, mpi::err_other);
}

}  // namespace
