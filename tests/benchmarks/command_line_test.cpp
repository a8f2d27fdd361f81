#include <gtest/gtest.h>

#include "harness/bytes.hpp"
#include "harness/case.hpp"
#include "harness/error.hpp"
#include "harness/near_names.hpp"
#include "harness/options.hpp"
#include "harness/point.hpp"

using namespace gpuheap::bench;

namespace {

constexpr parameter parameters[] = {threads_parameter, bytes_parameter, state_parameter, text_parameter("graph", ""), heap_parameter};

std::string why_refused(auto&& action) {
  try {
    action();
  } catch (usage_error const& e) {
    return e.what();
  }
  return "it was accepted";
}

}  // namespace

TEST(Point, ValuesAreRead) {
  point const p("threads=1000000,bytes=64,state=cold", parameters);
  EXPECT_EQ(p.threads(), 1'000'000u);
  EXPECT_EQ(p.number("bytes"), 64u);
  EXPECT_EQ(p.text("state"), "cold");
}

TEST(Point, WhatIsNotNamedHasItsFallback) {
  point const p("", parameters);
  EXPECT_EQ(p.threads(), 100'000u);
  EXPECT_EQ(p.text("state"), "warm");
}

TEST(Point, SizesAreReadAsPeopleWriteThem) {
  EXPECT_EQ(point("heap=24GiB", parameters).bytes_of("heap"), std::uint64_t{24} << 30);
  EXPECT_EQ(point("", parameters).bytes_of("heap"), std::nullopt);
  EXPECT_EQ(point("", parameters).bytes_of("no such parameter"), std::nullopt);
  EXPECT_EQ(why_refused([] { point("heap=24GB", parameters); }), "heap: expected a size such as 65536, 64MiB or 8GiB, got '24GB'");
  EXPECT_EQ(why_refused([] { point("heap=0", parameters); }), "heap=0: expected more than 0");
}

TEST(Point, ItsHeapStandsInForTheSessions) {
  session const s{.heap_bytes = 5, .runs = 1, .seed = 1, .graph_file = ""};
  EXPECT_EQ(at_point(s, point("", parameters)).heap_bytes, 5u);
  EXPECT_EQ(at_point(s, point("heap=1MiB", parameters)).heap_bytes, 1u << 20);
}

TEST(Point, UnknownKeyNamesTheNearOne) {
  EXPECT_EQ(why_refused([] { point("thread=1", parameters); }), "--point: the case has no parameter 'thread' (did you mean threads?)");
}

TEST(Point, RefusesWhatAParameterDoesNotTake) {
  EXPECT_EQ(why_refused([] { point("threads=0", parameters); }), "threads=0: expected a whole number from 1 to 16777216");
  EXPECT_EQ(why_refused([] { point("threads=12x", parameters); }), "threads=12x: expected a whole number from 1 to 16777216");
  EXPECT_EQ(why_refused([] { point("threads=", parameters); }), "threads=: expected a whole number from 1 to 16777216");
  EXPECT_EQ(why_refused([] { point("state=hot", parameters); }), "state=hot: expected one of warm|cold");
  EXPECT_EQ(why_refused([] { point("threads", parameters); }), "--point: expected key=value, got 'threads'");
  EXPECT_EQ(why_refused([] { point("bytes=1,bytes=2", parameters); }), "--point: 'bytes' is given twice");
}

TEST(Options, AreRead) {
  auto const o = parse_options({"--case", "churn",  "--allocator", "sharded_spans", "--heap-bytes", "8GiB",    "--runs",
                                "3",      "--seed", "7",           "--point",       "threads=1",    "--point", "threads=2",
                                "--skip", "1",      "--enough-s",  "0.5",           "--timeout-s",  "60"});
  EXPECT_EQ(o.case_name, "churn");
  EXPECT_EQ(o.allocator, "sharded_spans");
  EXPECT_EQ(o.heap_bytes, std::uint64_t{8} << 30);
  EXPECT_EQ(o.runs, 3u);
  EXPECT_EQ(o.seed, 7u);
  EXPECT_EQ(o.points, (std::vector<std::string>{"threads=1", "threads=2"}));
  EXPECT_EQ(o.skip, 1u);
  EXPECT_EQ(o.enough_s, 0.5);
  EXPECT_EQ(o.timeout_s, 60);
  EXPECT_FALSE(o.first_run);
  EXPECT_TRUE(parse_options({"--first-run", "--runs", "1", "--point", "threads=1"}).first_run);
}

TEST(Options, MistakesAreNamed) {
  EXPECT_EQ(why_refused([] { (void)parse_options({"--runs", "0"}); }), "--runs: expected a whole number from 1 to 100000, got '0'");
  EXPECT_EQ(why_refused([] {
              (void)parse_options({"--timeout-s", "soon"});
            }),
            "--timeout-s: expected seconds, from 0 to 1000000, got 'soon'");
  EXPECT_EQ(why_refused([] { (void)parse_options({"--case"}); }), "--case: a value is missing");
  EXPECT_EQ(why_refused([] {
              (void)parse_options({"--first-run", "--point", "threads=1"});
            }),
            "--first-run: a process makes its first run once: expected one --point and --runs 1");
  EXPECT_EQ(why_refused([] { (void)parse_options({"--heap-byte", "1"}); }), "unknown option '--heap-byte' (did you mean --heap-bytes?)");
}

TEST(Bytes, UnitsArePowersOf1024) {
  EXPECT_EQ(parse_bytes("x", "4096"), 4096u);
  EXPECT_EQ(parse_bytes("x", "64KiB"), 65536u);
  EXPECT_EQ(parse_bytes("x", "64 K"), 65536u);
  EXPECT_EQ(parse_bytes("x", "3MiB"), 3u << 20);
  EXPECT_EQ(parse_bytes("x", "1TiB"), std::uint64_t{1} << 40);
}

TEST(Bytes, RefusesWhatIsNoSize) {
  for (char const* text : {"", "GiB", "-1", "1.5GiB", "8GB", "8 GiBs", "99999999999999999999", "99999999999TiB"}) {
    EXPECT_EQ(why_refused([&] { (void)parse_bytes("--heap-bytes", text); }),
              std::string("--heap-bytes: expected a size such as 65536, 64MiB or 8GiB, got '") + text + "'");
  }
}

TEST(NearNames, DistanceCountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("churn", "churn"), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(NearNames, NothingNearListsWhatThereIs) { EXPECT_EQ(suggestion("zzzzzz", {"churn", "graph"}), " (known: churn, graph)"); }
