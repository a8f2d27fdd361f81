// Tests of the protocol that gpuheap-bench promises to its caller. Each runs the executable.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "../support/seeds.hpp"
#include "json_reader.hpp"

using gpuheap::test::json;
using gpuheap::test::json_reader;

namespace {

struct finished {
  int exit_code;
  std::vector<std::string> out;  // lines
  std::string err;
};

std::string contents(std::string const& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A file name of this test alone: tests of one suite may run side by side.
std::string scratch(std::string const& name) {
  std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  std::replace(test.begin(), test.end(), '/', '_');  // of tests with a parameter
  return testing::TempDir() + "gpuheap_bench_" + test + "_" + std::to_string(getpid()) + "_" + name;
}

finished run(std::vector<std::string> const& arguments, std::string const& input = "/dev/null") {
  std::string const out = scratch("out"), err = scratch("err");
  std::string command = "'" GPUHEAP_BENCH_EXECUTABLE "'";
  for (auto const& argument : arguments) command += " '" + argument + "'";
  int const status = std::system((command + " <'" + input + "' >'" + out + "' 2>'" + err + "'").c_str());
  finished result{WIFEXITED(status) ? WEXITSTATUS(status) : -1, {}, contents(err)};
  std::istringstream lines(contents(out));
  for (std::string line; std::getline(lines, line);) result.out.push_back(line);
  std::remove(out.c_str());
  std::remove(err.c_str());
  return result;
}

// Small enough for the simulator; a debug or instrumented build is tested too.
finished run_case(std::string const& which, std::string const& allocator, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"--case", which, "--allocator", allocator, "--heap-bytes", "64MiB", "--runs", "2", "--allow-debug"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(arguments);
}

std::string refused(finished const& f) {
  return f.exit_code == 2 && f.out.empty() ? f.err : "exit code " + std::to_string(f.exit_code) + ": " + f.err;
}

}  // namespace

TEST(Describe, IsOneObjectWithEverythingInIt) {
  auto const f = run({"--describe"});
  ASSERT_EQ(f.exit_code, 0) << f.err;
  ASSERT_EQ(f.out.size(), 1u);
  json const d = json_reader::read(f.out[0]);
  EXPECT_TRUE(d["backend"].text == "simulator" || d["backend"].text == "cuda");
  EXPECT_TRUE(d["device"].type == json::kind::object || d.has("device_error"));
  for (char const* key :
       {"name", "title", "paper", "year", "variant", "reuse", "min_alignment", "smallest_bytes", "largest_bytes", "free", "warp_level",
        "process_wide", "overwrites", "reuses_singly", "full_reuse", "detects_double_free", "detects_foreign_free", "supported"}) {
    for (auto const& allocator : d["allocators"].items) EXPECT_TRUE(allocator.has(key)) << key;
  }
  for (auto const& allocator : d["allocators"].items) EXPECT_TRUE(allocator["supported"].yes || allocator.has("why_not"));
  ASSERT_GE(d["baselines"].items.size(), 4u);  // a build with GPUHEAP_BENCH_KINDS has more
  EXPECT_EQ(d["baselines"].items[0].text, "store_only");
  EXPECT_EQ(d["baselines"].items[1].text, "bump_sharded");
  std::set<std::string> cases;
  for (auto const& what : d["cases"].items) {
    EXPECT_TRUE(cases.insert(what["name"].text).second) << what["name"].text << " comes twice";
    EXPECT_FALSE(what["brief"].text.empty()) << what["name"].text;
    EXPECT_FALSE(what["section"].text.empty()) << what["name"].text;
    EXPECT_FALSE(what["parameters"].items.empty()) << what["name"].text;
  }
  for (auto const* name : {"init", "alloc_single", "graph_update", "counted_supply"}) EXPECT_TRUE(cases.contains(name)) << name;
  EXPECT_FALSE(d["version"].text.empty());
  EXPECT_FALSE(d["build"]["compiler"].text.empty());
}

TEST(Points, EachIsAnnouncedAndThenReported) {
  auto const f = run_case("alloc_single", "store_only", {"--point", "threads=100,bytes=16", "--point", "threads=33,bytes=64,state=cold"});
  ASSERT_EQ(f.exit_code, 0) << f.err;
  ASSERT_EQ(f.out.size(), 4u);
  for (unsigned k = 0; k < 2; ++k) {
    json const begin = json_reader::read(f.out[2 * k]), result = json_reader::read(f.out[2 * k + 1]);
    EXPECT_EQ(begin["begin"].number, k);
    EXPECT_EQ(result["point"].number, k);
    EXPECT_EQ(result["status"].text, "ok") << result["reason"].text;
    ASSERT_EQ(result["rows"].items.size(), 3u);
    json const& malloc_us = result["rows"].items[0];
    EXPECT_EQ(malloc_us["metric"].text, "malloc_us");
    EXPECT_EQ(malloc_us["unit"].text, "us");
    EXPECT_EQ(malloc_us["samples"].items.size(), 2u);
  }
}

TEST(Points, SkipStartsAtALaterOne) {
  auto const f = run_case("alloc_single", "store_only", {"--point", "threads=1", "--point", "threads=2", "--skip", "1"});
  ASSERT_EQ(f.exit_code, 0) << f.err;
  ASSERT_EQ(f.out.size(), 2u);
  EXPECT_EQ(json_reader::read(f.out[0])["begin"].number, 1);
}

TEST(Points, SummaryGoesToTheOtherStream) {
  auto const f = run_case("alloc_single", "store_only", {"--point", "threads=64", "--summary"});
  EXPECT_EQ(f.out.size(), 2u);
  EXPECT_NE(f.err.find("alloc_single store_only threads=64: malloc_us median "), std::string::npos) << f.err;
}

// The words of a request to a process that serves: their number and each of them, with zero bytes.
std::string request(std::vector<std::string> const& words) {
  std::string text = std::to_string(words.size()) + '\0';
  for (auto const& word : words) text += word + '\0';
  return text;
}
finished serve(std::string const& input) {
  std::string const in = scratch("in");
  std::ofstream(in) << input;
  auto f = run({"--serve"}, in);
  std::remove(in.c_str());
  return f;
}

TEST(Serving, RequestsAreDoneOneAfterTheOther) {
  std::vector<std::string> const words{"--case", "alloc_single",  "--allocator", "store_only", "--runs",
                                       "2",      "--allow-debug", "--point",     "threads=100"};
  auto const f = serve(request(words) + request(words));
  ASSERT_EQ(f.exit_code, 0) << f.err;
  ASSERT_EQ(f.out.size(), 7u);
  EXPECT_EQ(f.out[0], "{\"serves\":true}");
  for (unsigned k : {1u, 4u}) {
    EXPECT_EQ(json_reader::read(f.out[k])["begin"].number, 0);
    EXPECT_EQ(json_reader::read(f.out[k + 1])["status"].text, "ok");
    EXPECT_EQ(f.out[k + 2], "{\"done\":true}");
  }
}

// An empty point, as of a case without axes, is a word like others.
TEST(Serving, WordsMayBeEmpty) {
  std::string const asked =
      request({"--case", "init", "--allocator", "atomic_malloc", "--heap-bytes", "16MiB", "--runs", "1", "--allow-debug", "--point", ""});
  auto const f = serve(asked);
  EXPECT_EQ(f.exit_code, 0) << f.err;
  EXPECT_EQ(f.out.size(), 4u);
}

TEST(Serving, WrongRequestsEndIt) {
  std::string const whole =
      request({"--case", "alloc_single", "--allocator", "store_only", "--runs", "1", "--allow-debug", "--point", "threads=1"});
  for (auto const& [input, complaint] : std::vector<std::pair<std::string, std::string>>{
           {"two" + std::string(1, '\0'), "expected the number of a request's arguments, got 'two'"},
           {whole.substr(0, whole.size() - 12), "standard input ended within a request"},
           {request({"--describe"}), "a request names a case"},
           {request({"--case", "nothing", "--allocator", "store_only"}), "unknown case 'nothing'"},
           {whole + request({"--case", "alloc_single", "--allocator", "store_only", "--runs", "1", "--allow-debug", "--first-run"}),
            "this process has made runs already"},
       }) {
    auto const f = serve(input);
    EXPECT_EQ(f.exit_code, 2) << complaint;
    EXPECT_NE(f.err.find(complaint), std::string::npos) << f.err;
  }
  EXPECT_NE(run({"--serve", "--summary"}).err.find("--serve: expected no other option"), std::string::npos);
}

// On a GPU tests always run in full.
bool in_full(json const& description) { return description["backend"].text != "simulator" || test::in_full(); }

// A case with points of a size for tests.
struct small_case {
  std::string which;
  std::vector<std::string> points;
  // The points in place of those, unless tests run in full: allocators that walk lists take long in the simulator.
  std::vector<std::string> briefly = {};
};
void PrintTo(small_case const& c, std::ostream* out) { *out << c.which; }

class SmallCase : public testing::TestWithParam<small_case> {};

// On every allocator that this executable has the results are right, or the reason why there are none is given. Each case is a test of its
// own, as all of them on all allocators take minutes.
TEST_P(SmallCase, RunsOnEveryAllocator) {
  auto const& [which, all_points, briefly] = GetParam();
  json const d = json_reader::read(run({"--describe"}).out.at(0));
  auto const& points = in_full(d) || briefly.empty() ? all_points : briefly;
  std::vector<std::string> names;
  for (auto const& baseline : d["baselines"].items) names.push_back(baseline.text);
  for (auto const& allocator : d["allocators"].items) names.push_back(allocator["name"].text);
  ASSERT_GE(names.size(), 5u);
  std::vector<std::string> arguments;
  for (auto const& p : points) arguments.insert(arguments.end(), {"--point", p});
  for (auto const& name : names) {
    auto const f = run_case(which, name, arguments);
    ASSERT_EQ(f.exit_code, 0) << name << ": " << f.err;
    ASSERT_EQ(f.out.size(), 2 * points.size()) << name;
    for (std::size_t k = 0; k < points.size(); ++k) {
      json const result = json_reader::read(f.out[2 * k + 1]);
      auto const& status = result["status"].text;
      EXPECT_TRUE(status == "ok" || status == "unsupported") << name << " " << points[k] << ": " << status << ": " << result["reason"].text;
      EXPECT_EQ(result["reason"].text.empty(), status == "ok");
      EXPECT_EQ(result["rows"].items.empty(), status != "ok");
    }
  }
}

std::vector<small_case> const small_cases{
    {"init", {"heap=1MiB", ""}},
    {"registers", {"which=malloc", "which=free", "which=pair", "which=churn"}},
    {"alloc_bounded", {"threads=500,bytes=24", "threads=500,bytes=24,registers=none", "threads=97,bytes=100,registers=64,state=cold"}},
    {"alloc_single", {"threads=500,bytes=24", "threads=97,bytes=4096,state=cold"}},
    {"alloc_warp", {"threads=500,bytes=24", "threads=1000,bytes=200,state=cold"}},
    {"alloc_mixed", {"threads=500,bytes=2000", "threads=500,bytes=1024,dist=pow2,state=cold"}},
    {"alloc_scaling", {"threads=1", "threads=1024"}},
    {"alloc_large", {"threads=3,bytes=1048576", "threads=1,bytes=60000000"}},
    {"alloc_repeated", {"threads=32,bytes=16", "threads=100,bytes=300,allocations=20,state=cold", "threads=1,bytes=5000,allocations=3"}},
    {"random_sizes", {"threads=500,bytes=777,block_threads=64", "threads=300,bytes=5001,block_threads=1024"}},
    {"fragmentation", {"threads=500,bytes=100", "threads=500,bytes=16,round=3", "threads=200,bytes=32768,dist=uniform"}},
    {"utilisation",
     {"threads=1000,bytes=100,heap=1MiB", "threads=1000,bytes=4096,dist=uniform,heap=1MiB"},
     {"threads=1000,bytes=100,heap=256KiB", "threads=1000,bytes=4096,dist=uniform,heap=1MiB"}},
    {"exhausted", {"threads=300,bytes=256,heap=1MiB"}, {"threads=300,bytes=1024,heap=1MiB"}},
    {"memory_access", {"threads=500,bytes=64", "threads=99,bytes=24", "threads=300,bytes=128,dist=uniform,access=write"}},
    {"work_generation", {"threads=500,bytes=64", "threads=33,bytes=4096"}},
    {"churn", {"threads=200", "threads=100,bytes=64,rounds=5,heap=16MiB"}},
    {"churn_long_lived", {"threads=200,rounds=20", "threads=33,rounds=7,bytes=100,long_lived=50"}},
    {"pressure",
     {"threads=64,bytes=1000,refills=2,heap=1MiB", "threads=64,bytes=100,refills=1,fill=50,heap=1MiB"},
     {"threads=64,bytes=1000,refills=2,heap=1MiB", "threads=64,bytes=200,refills=1,fill=50,heap=1MiB"}},
    {"graph_update",
     {"phase=init,scale=8", "phase=insert,scale=8,threads=500,batches=2", "phase=delete,scale=8,threads=500,batches=2",
      "phase=update,scale=8,threads=500,batches=2"}},
    {"graph_init", {"scale=6"}},
    {"graph_update_focused", {"phase=insert,scale=6,threads=500,batches=2,range=7", "phase=delete,scale=6,threads=500,batches=2,range=7"}},
    {"graph_expansion", {"scale=6,threads=500,batches=3"}},
    {"graph_skewed", {"scale=6,hub=5000", "scale=6,hub=5000,batches=3,phase=insert"}},
    {"alloc_dealloc", {"threads=500,bytes=4", "threads=64,bytes=40000,state=cold"}},
    {"alloc_cycle_dealloc", {"threads=500,bytes=100", "threads=320,bytes=4,iterations=30,page=8192", "threads=320,bytes=4096,heap=256KiB"}},
    {"presplit", {"threads=320,bytes=100", "threads=320,bytes=100,presplit=none", "threads=320,bytes=100,presplit=equal"}},
    {"probability", {"threads=1000,bytes=24,chance=25"}},
    {"kdtree", {"threads=256,scene=hall,triangles=100,times_root=50000", "threads=64,scene=soup,triangles=100,heap=64KiB"}},
    {"kdtree_queue",
     {"threads=256,scene=hall,triangles=100,times_root=50000", "threads=64,scene=soup,triangles=100,heap=64KiB",
      "threads=256,scene=forest,triangles=100,times_root=50000,presplit=equal"}},
    {"larson", {"threads=128,block_threads=32,slots=3,rounds=4,bytes=500"}},
    {"producer_consumer", {"threads=128,block_threads=64,slots=3,bytes=500"}},
    {"leak_growth", {"threads=128,block_threads=64,slots=1,rounds=8,heap=4MiB", "threads=100,block_threads=64"}},
    {"burst", {"threads=128,block_threads=64,slots=3,then=2000"}},
    {"phase_change", {"threads=64,block_threads=32,slots=1,rounds=2,bytes=4096"}},
    {"replay", {"trace=graph_update"}},
    {"counted_supply", {"threads=500,which=bulk", "threads=500,which=counting,batch=7"}},
    {"field_access", {"threads=500,objects=1000,layout=arrays", "threads=77,objects=300,layout=structs,fields=4"}},
    {"collective_locking", {"threads=500,which=collective", "threads=77,which=each"}},
    {"deferred_reclamation", {"threads=500,which=delegated", "threads=200,which=waiting,writers=4"}},
};
INSTANTIATE_TEST_SUITE_P(Cases, SmallCase, testing::ValuesIn(small_cases), [](auto const& test) { return test.param.which; });

// A heap holds at least what lives in it.
TEST(Cases, BlocksThatChangeHandsHaveAFootprint) {
  std::vector<std::string> names;  // by day the benchmark is built without gallatin
  json const d = json_reader::read(run({"--describe"}).out.at(0));
  for (auto const& allocator : d["allocators"].items) {
    auto const& name = allocator["name"].text;
    if (name == "sharded_spans" || name == "scatteralloc" || name == "gallatin") names.push_back(name);
  }
  ASSERT_GE(names.size(), 2u);
  for (std::string const which : {"larson", "producer_consumer", "leak_growth", "burst", "phase_change"}) {
    for (auto const& allocator : names) {
      auto const f = run_case(which, allocator, {"--point", "threads=128,block_threads=64,slots=2,bytes=4096"});
      ASSERT_EQ(f.exit_code, 0) << f.err;
      json const result = json_reader::read(f.out.at(1));
      ASSERT_EQ(result["status"].text, "ok") << which << " " << allocator << ": " << result["reason"].text;
      auto const& last = result["rows"].items.back();
      ASSERT_EQ(last["metric"].text, "footprint_ratio") << which << " " << allocator;
      ASSERT_FALSE(last["samples"].items.empty());
      for (auto const& sample : last["samples"].items) EXPECT_GE(sample.number, 1) << which << " " << allocator;
    }
  }
}

TEST(Cases, AHeapThatCannotHoldTheRequestsIsUnsupported) {
  auto const f = run_case("alloc_single", "store_only", {"--point", "threads=100000,bytes=8192"});
  ASSERT_EQ(f.exit_code, 0) << f.err;
  json const result = json_reader::read(f.out.at(1));
  EXPECT_EQ(result["status"].text, "unsupported");
  EXPECT_EQ(result["reason"].text, "the requests add up to 781.2 MiB, more than the heap of 64.0 MiB");
}

TEST(Cases, AnInputFileThatIsBadIsRefusedBeforeAnythingRuns) {
  auto const file = scratch("scene.obj");
  std::ofstream(file) << "v 0 0 0\nv 1 0 0\nv 0 1\n";
  EXPECT_NE(refused(run_case("kdtree", "sharded_spans", {"--scene", file})).find(file + ":3: expected a corner"), std::string::npos);
  EXPECT_NE(refused(run_case("kdtree", "sharded_spans", {"--point", "scene=haal"})).find("did you mean hall?"), std::string::npos);
  EXPECT_NE(refused(run_case("replay", "sharded_spans", {"--trace", file})).find(file + ":1: expected 'gpuheap-trace 1'"),
            std::string::npos);
  EXPECT_NE(refused(run_case("replay", "sharded_spans", {"--point", "trace=kdtre"})).find("did you mean kdtree?"), std::string::npos);
  std::remove(file.c_str());
}

TEST(Cases, ATreeIsTheSameWhateverItsAllocator) {
  std::vector<double> first;
  unsigned compared = 0;
  json const d = json_reader::read(run({"--describe"}).out.at(0));
  for (auto const& allocator : d["allocators"].items) {
    // 3000 triangles: the first nodes are large ones. As few as one warp and as many as a warp for each piece build the same.
    std::vector<std::pair<char const*, char const*>> builds{{"kdtree", "256"}, {"kdtree_queue", "256"}};
    if (first.empty()) builds.insert(builds.end(), {{"kdtree_queue", "32"}, {"kdtree_queue", "1024"}});
    for (auto const& [name, threads] : builds) {
      std::string const how = std::string{"threads="} + threads;
      auto const f = run_case(name, allocator["name"].text,
                              {"--point", how + ",scene=forest,triangles=3000,times_root=2000", "--runs", in_full(d) ? "2" : "1"});
      ASSERT_EQ(f.exit_code, 0) << f.err;
      json const result = json_reader::read(f.out.at(1));
      std::vector<double> facts;
      for (auto const& row : result["rows"].items) {
        if (row["metric"].text != "build_ms") facts.push_back(row["samples"].items.at(0).number);
      }
      if (result["status"].text != "ok") continue;
      ASSERT_EQ(facts.size(), 4u);
      EXPECT_GT(facts[0], 3000);
      if (first.empty()) first = facts;
      EXPECT_EQ(facts, first) << allocator["name"].text << " " << name << " " << how;
      ++compared;
    }
  }
  EXPECT_GT(compared, 4u);
}

TEST(Cases, OfStructuresRunWithoutAnAllocator) {
  auto const f = run_case("counted_supply", "sharded_spans", {"--point", "threads=32"});
  ASSERT_EQ(f.exit_code, 0) << f.err;
  EXPECT_EQ(json_reader::read(f.out.at(1))["reason"].text, "the case compares structures, and no allocators: run it on store_only");
  for (std::string const which : {"counted_supply", "collective_locking", "deferred_reclamation"}) {
    auto const ran = run_case(which, "store_only", {"--point", "threads=300"});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    json const result = json_reader::read(ran.out.at(1));
    ASSERT_EQ(result["status"].text, "ok") << which << ": " << result["reason"].text;
    EXPECT_EQ(result["rows"].items.at(0)["metric"].text, "kernel_us");
    EXPECT_EQ(result["rows"].items.at(1)["metric"].text, "throughput");
  }
}

TEST(Cases, APointThatWouldTakeTooLongSaysSo) {
  auto const f = run_case("alloc_single", "atomic_malloc", {"--timeout-s", "0.0001", "--point", "threads=1000,bytes=64"});
  ASSERT_EQ(f.exit_code, 0) << f.err;
  json const result = json_reader::read(f.out.at(1));
  EXPECT_EQ(result["status"].text, "timeout");
  EXPECT_NE(result["reason"].text.find("longer than the 0.0001 s that a point has"), std::string::npos) << result["reason"].text;
}

TEST(Heap, APointMayHaveItsOwn) {
  auto const f = run_case("alloc_single", "bump_sharded",
                          {"--point", "threads=100000,bytes=512,heap=32MiB", "--point", "threads=100000,bytes=512,heap=60MiB"});
  ASSERT_EQ(f.exit_code, 0) << f.err;
  EXPECT_EQ(json_reader::read(f.out.at(1))["reason"].text, "the requests add up to 48.8 MiB, more than the heap of 32.0 MiB");
  EXPECT_EQ(json_reader::read(f.out.at(3))["status"].text, "ok");
}

TEST(Heap, OneThatTheDeviceDoesNotHaveIsUnsupported) {
  auto const f = run_case("alloc_single", "sharded_spans", {"--point", "threads=1,heap=900TiB"});
  ASSERT_EQ(f.exit_code, 0) << f.err;
  json const result = json_reader::read(f.out.at(1));
  EXPECT_EQ(result["status"].text, "unsupported");
  EXPECT_EQ(result["reason"].text.find("a heap of 900.0 TiB is more than the device has: "), 0u) << result["reason"].text;
}

TEST(Mistakes, AreExitCode2AndOneLineBeforeAnyOutput) {
  EXPECT_EQ(refused(run_case("alloc_singel", "store_only")),
            "gpuheap-bench: --case: unknown case 'alloc_singel' (did you mean alloc_single?)\n");
  EXPECT_EQ(refused(run_case("alloc_single", "store_onyl")),
            "gpuheap-bench: --allocator: unknown allocator 'store_onyl' (did you mean store_only?)\n");
  EXPECT_EQ(refused(run_case("alloc_single", "store_only", {"--point", "threads=1", "--point", "bytes=many"})),
            "gpuheap-bench: bytes=many: expected a whole number from 1 to 1099511627776\n");
  EXPECT_EQ(refused(run_case("alloc_single", "store_only", {"--point", "heap=big"})),
            "gpuheap-bench: heap: expected a size such as 65536, 64MiB or 8GiB, got 'big'\n");
  EXPECT_EQ(refused(run_case("graph_init", "atomic_malloc", {"--point", "graph=like_emial"})),
            "gpuheap-bench: graph=like_emial: expected a file, *.mtx, or the name of a generated graph (did you mean like_email?)\n");
  EXPECT_EQ(refused(run_case("alloc_mixed", "atomic_malloc", {"--point", "bytes=8,dist=pow2"})),
            "gpuheap-bench: bytes=8: with dist=pow2 sizes begin at 16\n");
  EXPECT_EQ(refused(run({"--allocator", "store_only"})), "gpuheap-bench: --case is missing: --describe lists the cases\n");
}

TEST(Mistakes, ABadMatrixMarketFileIsNamedWithItsLine) {
  std::string const path = scratch("bad.mtx");
  std::ofstream(path) << "%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n4 1\n";
  auto const good_then_bad = run_case("graph_update", "atomic_malloc", {"--point", "scale=4,threads=10", "--point", "graph=" + path});
  EXPECT_EQ(refused(good_then_bad), "gpuheap-bench: " + path + ":4: expected row and column from 1 to 3, found '4 1'\n");
  EXPECT_EQ(refused(run_case("graph_update", "atomic_malloc", {"--graph", path})),
            "gpuheap-bench: " + path + ":4: expected row and column from 1 to 3, found '4 1'\n");
  std::remove(path.c_str());
}

TEST(GraphUpdate, TakesAMatrixMarketFile) {
  std::string const path = scratch("good.mtx");
  std::ofstream(path) << "%%MatrixMarket matrix coordinate pattern symmetric\n6 6 5\n2 1\n3 1\n4 2\n6 5\n5 1\n";
  auto const f = run_case("graph_update", "atomic_malloc", {"--graph", path, "--point", "threads=8,batches=3"});
  ASSERT_EQ(f.exit_code, 0) << f.err;
  json const result = json_reader::read(f.out.at(1));
  EXPECT_EQ(result["status"].text, "ok") << result["reason"].text;
  EXPECT_EQ(result["rows"].items.at(0)["metric"].text, "kernel_us");
  EXPECT_EQ(result["rows"].items.at(0)["samples"].items.size(), 2u * 3);
  std::remove(path.c_str());
}
