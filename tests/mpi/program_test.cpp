// Tests of the parts that a translated C program uses: its host main, the variables of its ranks, and the functions of the C library that
// it calls.
#include <gpuheap/mpi/program.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace {

namespace mpi = gpuheap::mpi;
using namespace gpuheap::literals;

struct counters {
  int steps = 5;
  double table[3] = {1, 2};
};
struct pointers {
  int* to = &mpi::own<counters>().steps;
};
using all_variables = mpi::variables<counters, pointers>;
[[maybe_unused]] bool const variables_known = all_variables::known();

// Each call as the C library has it: the number of those that are not.
GPUHEAP_FN int wrong_of_c_library() {
  char text[6] = {'a', 'b', 'c', 'd', 'e', '\0'};
  int wrong = 0;
  wrong += mpi::c::atoi(" \t-12x") != -12;
  wrong += mpi::c::atoi("+7") != 7 || mpi::c::atoi("x") != 0 || mpi::c::atoi("") != 0;
  wrong += mpi::c::atol("-9223372036854775808") != -9223372036854775807L - 1;
  wrong += mpi::c::strlen("") != 0 || mpi::c::strlen(text) != 5;
  wrong += mpi::c::strcmp("ab", "ab") != 0 || mpi::c::strcmp("a", "ab") >= 0 || mpi::c::strcmp("\xff", "a") <= 0;
  wrong += mpi::c::strncmp("abc", "abd", 2) != 0 || mpi::c::strncmp("abc", "abd", 3) >= 0 || mpi::c::strncmp("a", "b", 0) != 0;
  wrong += mpi::c::memcmp("a\0b", "a\0c", 3) >= 0 || mpi::c::memcmp("x", "y", 0) != 0;
  mpi::c::memmove(text + 1, text, 4);
  wrong += mpi::c::strcmp(text, "aabcd") != 0;
  mpi::c::memmove(text, text + 1, 4);
  return wrong + (mpi::c::strcmp(text, "abcdd") != 0);
}

// Ends with the code 0 if all is as it should be.
struct program {
  GPUHEAP_FN int operator()(int argc, mpi::arguments argv) const {
    all_variables::start();
    int rank = -1, size = 0;
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 5 || argc != 3 || argv[3] != nullptr || mpi::c::strcmp(argv[1], "17") != 0) return 2;
    // Each rank's own, with its first values.
    auto& mine = mpi::own<counters>();
    if (mine.steps != 5 || mine.table[1] != 2 || mine.table[2] != 0) return 3;
    *mpi::own<pointers>().to += rank;
    MPI_Barrier(MPI_COMM_WORLD);
    if (mine.steps != 5 + rank) return 4;
    if (wrong_of_c_library() != 0) return 5;
    int sum = 0;
    MPI_Allreduce(&mine.steps, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    void* const together = gpuheap::coalesced::malloc(40, true);
    if (sum != 35 || together == nullptr) return 6;
    gpuheap::coalesced::free(together);
    if (rank == 1 && argv[2][0] == 'e') return mpi::c::atoi(argv[2] + 1);
    if (rank == 1 && argv[2][0] == 't') MPI_Send(nullptr, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
  }
};

// The process's exit code, and what it says on standard error, under the environment that the ranks read.
struct ended {
  int code;
  std::string said;
};
ended run(char const* end, char const* ranks = "5", char const* per_block = "2", char const* apart = "") {
  ::setenv("GPUHEAP_RANKS", ranks, 1);
  ::setenv("GPUHEAP_RANKS_PER_BLOCK", per_block, 1);
  ::setenv("GPUHEAP_APART", apart, 1);
  std::string words[] = {"prog", "17", end};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  testing::internal::CaptureStderr();
  int const code = mpi::run_main(3, argv, program{}, [] { gpuheap::coalesced::init(64_MiB); });
  return {code, testing::internal::GetCapturedStderr()};
}

TEST(MpiProgram, EndsWellAndSaysNothing) {
  for (char const* const apart : {"0", "1"}) {
    ended const of = run("-", "5", "2", apart);
    EXPECT_EQ(of.code, 0) << of.said;
    EXPECT_EQ(of.said, "");
    EXPECT_EQ(gpuheap::coalesced::program_heap(), nullptr);
  }
}

TEST(MpiProgram, HandsOnARanksCode) {
  ended const of = run("e9");
  EXPECT_EQ(of.code, 9);
  EXPECT_NE(of.said.find("rank 1 ended the program with the code 9"), std::string::npos) << of.said;
  EXPECT_EQ(run("e256").code, 1);
}

TEST(MpiProgram, TellsAFailedCall) {
  ended const of = run("t");
  EXPECT_EQ(of.code, 1);
  EXPECT_NE(of.said.find("rank 1: a call of MPI failed with error class " + std::to_string(mpi::err_buffer) +
                         ", MPI_ERR_BUFFER: invalid buffer pointer"),
            std::string::npos)
      << of.said;
  EXPECT_NE(of.said.find("raise GPUHEAP_BYTES, the size of the heap, if malloc gave that pointer"), std::string::npos) << of.said;
}

TEST(MpiProgram, RefusesWrongEnvironments) {
  for (char const* const ranks : {"0", "x", "4x", "-1", "99999999999"}) {
    ended const of = run("-", ranks);
    EXPECT_EQ(of.code, 1);
    EXPECT_NE(of.said.find(std::string{"GPUHEAP_RANKS is \""} + ranks + "\": a number of at least 1 is expected"), std::string::npos)
        << of.said;
  }
  EXPECT_NE(run("-", "5", "2000").said.find("a block has at most 1024 threads"), std::string::npos);
  EXPECT_NE(run("-", "100000000", "1024").said.find("start at most"), std::string::npos);
}

}  // namespace
