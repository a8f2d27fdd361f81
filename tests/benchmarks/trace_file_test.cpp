#include "workloads/trace/trace_file.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "harness/error.hpp"

using namespace gpuheap::bench;
using trace::read_trace;

namespace {

trace::program read(std::string const& text) {
  std::istringstream in(text);
  return read_trace(in, "p.trace");
}
std::string why_refused(std::string const& text) {
  try {
    (void)read(text);
  } catch (usage_error const& e) {
    return e.what();
  }
  return "it was accepted";
}
std::string head(int threads, int events) {
  return "gpuheap-trace 1\nthreads " + std::to_string(threads) + "\nevents " + std::to_string(events) + "\ndropped 0\n";
}

}  // namespace

TEST(TraceFile, OperationsAreSortedByKernelAndThread) {
  auto const p = read(head(3, 6) + "m 2 64\nm 0 8\nm 2 16\nk\nf 0 2\nf 1 0\n");
  EXPECT_EQ(p.threads, 3u);
  EXPECT_EQ(p.num_events, 5u);
  EXPECT_EQ(p.sizes, (std::vector<std::uint32_t>{64, 8, 16}));
  EXPECT_EQ(p.freed, (std::vector<bool>{true, false, true}));
  ASSERT_EQ(p.kernels.size(), 2u);
  EXPECT_EQ(p.kernels[0].begins, (std::vector<std::uint32_t>{0, 1, 1, 3}));
  EXPECT_EQ(p.kernels[0].operations[0].allocation, 1u);
  EXPECT_EQ(p.kernels[0].operations[1].bytes, 64u);
  EXPECT_EQ(p.kernels[0].operations[2].bytes, 16u);
  EXPECT_EQ(p.kernels[1].begins, (std::vector<std::uint32_t>{0, 1, 2, 2}));
  EXPECT_EQ(p.kernels[1].operations[0].bytes, 0u);
  auto const left = trace::leftovers(p);
  ASSERT_EQ(left.operations.size(), 1u);
  EXPECT_EQ(left.operations[0].allocation, 1u);
  EXPECT_EQ(left.begins, (std::vector<std::uint32_t>{0, 0, 1, 1}));
}

TEST(TraceFile, MistakesAreNamedWithTheirLine) {
  EXPECT_EQ(why_refused("trace\n"), "p.trace:1: expected 'gpuheap-trace 1', the first line of a recording, found 'trace'");
  EXPECT_EQ(why_refused("gpuheap-trace 1\nthreads x\n").substr(0, 46), "p.trace:2: expected 'threads <number>', at mos");
  EXPECT_EQ(why_refused(head(1, 2) + "m 0 8\n"), "p.trace:6: expected 2 events, of which 1 are there, found the end of the file");
  EXPECT_EQ(why_refused(head(1, 1) + "m 0 8\nm 0 8\n"), "p.trace:6: expected the end of the file after 1 events, found 'm 0 8'");
  EXPECT_EQ(why_refused(head(1, 1) + "x 0 8\n"),
            "p.trace:5: expected 'm <thread> <bytes>', 'f <thread> <allocation>' or 'k', found 'x 0 8'");
  EXPECT_EQ(why_refused(head(1, 1) + "m 0 8.5\n").substr(0, 19), "p.trace:5: expected");
  EXPECT_EQ(why_refused(head(2, 1) + "m 2 8\n"), "p.trace:5: expected a thread below 2, found 'm 2 8'");
  EXPECT_EQ(why_refused(head(1, 1) + "m 0 0\n"), "p.trace:5: expected 1 to 4294967295 bytes, found 'm 0 0'");
  EXPECT_EQ(why_refused(head(1, 1) + "f 0 0\n"), "p.trace:5: expected the number of an allocation above: there are 0, found 'f 0 0'");
  EXPECT_EQ(why_refused(head(1, 3) + "m 0 8\nf 0 0\nf 0 0\n"), "p.trace:7: expected an allocation that is not freed yet, found 'f 0 0'");
  EXPECT_EQ(why_refused(head(1, 1) + "k\n"), "p.trace: expected at least one request, found a recording without any");
  EXPECT_THROW((void)read_trace("nowhere.trace"), usage_error);
}

TEST(TraceFile, AShortFileTakesLittleMemory) {
  std::string text = head(1 << 24, 40) + "m 0 8\n";
  for (int i = 0; i < 39; ++i) text += "k\n";
  EXPECT_EQ(why_refused(text), "p.trace:22: expected at most 268435456 threads in all launches together, found 'k'");
}

TEST(TraceFile, BytesThatAreNoTextAreNotPrinted) {
  auto const expected = "p.trace:1: expected 'gpuheap-trace 1', the first line of a recording, found bytes that are no text";
  EXPECT_EQ(why_refused("\x1f\x8b\x08\n"), expected);
  EXPECT_EQ(why_refused("\x1b[2Jcleared\n"), expected);
  EXPECT_EQ(why_refused(std::string("\0\0\0\0", 4)), expected);
  EXPECT_TRUE(why_refused("\tgpuheap\xc3\xbc\n").ends_with(", found '\tgpuheap\xc3\xbc'")) << "letters beyond ASCII are text";
}
