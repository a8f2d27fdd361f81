// gpuheap-bench: runs one benchmark case on one allocator at the points it is given, or such cases one after the other as standard input
// asks for them. `gpuheap-bench --help` says how; the program `gpuheap bench` drives it.
#include <gpuheap/memory/size.hpp>
#include <gpuheap/simt/error.hpp>
#include <gpuheap/simt/runtime.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "harness/describe.hpp"
#include "harness/error.hpp"
#include "harness/heap_memory.hpp"
#include "harness/json.hpp"
#include "harness/near_names.hpp"
#include "harness/options.hpp"
#include "harness/registry.hpp"
#include "harness/statistics.hpp"
#include "workloads/graph/device_plan.hpp"
#include "workloads/graph/graph_source.hpp"

namespace gpuheap::bench {
namespace {

constexpr int exit_usage = 2;
constexpr int exit_device = 3;

case_description const& find_case(std::string const& name) {
  std::vector<std::string> known;
  for (auto const* what : case_descriptions()) {
    if (what->name == name) return *what;
    known.emplace_back(what->name);
  }
  throw usage_error("--case: unknown case '" + name + "'" + suggestion(name, known));
}

allocator_entry const& find_allocator(std::string const& name) {
  std::vector<std::string> known;
  for (auto const& entry : all_allocators()) {
    if (entry.traits.name == name) return entry;
    known.emplace_back(entry.traits.name);
  }
  throw usage_error("--allocator: unknown allocator '" + name + "'" + suggestion(name, known));
}

// The session's fixed part. Throws usage_error for a heap that the device cannot hold.
session make_session(options const& o) {
  auto const device = simt::query_device();
  std::uint64_t const fallback = device.backend == "cuda" ? std::uint64_t{8} << 30 : std::uint64_t{64} << 20;
  session const s{
      o.heap_bytes.value_or(fallback), o.runs, o.seed, o.graph_file, o.scene_file, o.trace_file, o.enough_s, o.timeout_s, o.first_run};
  if (s.heap_bytes > device.total_bytes) {
    throw usage_error("--heap-bytes: " + memory::format_bytes(s.heap_bytes) + " is more than " + device.name +
                      " has: " + memory::format_bytes(device.total_bytes));
  }
  return s;
}

void print_line(json_writer const& json) {
  std::printf("%s\n", json.text().c_str());
  std::fflush(stdout);
}

char const* name_of(outcome_status status) {
  switch (status) {
    case outcome_status::ok:
      return "ok";
    case outcome_status::unsupported:
      return "unsupported";
    case outcome_status::timeout:
      return "timeout";
    case outcome_status::wrong:
      return "wrong";
  }
  return "";
}

void print_outcome(std::size_t index, outcome const& result) {
  json_writer json;
  json.begin_object()
      .member("point", index)
      .member("status", name_of(result.status))
      .member("reason", result.reason)
      .key("rows")
      .begin_array();
  for (auto const& r : result.rows) {
    json.begin_object().member("metric", r.metric).member("unit", r.unit).key("samples").begin_array();
    for (double const sample : r.samples) json.value(sample);
    json.end_array().end_object();
  }
  json.end_array().end_object();
  print_line(json);
}

void print_summary(std::string const& point_text, outcome const& result) {
  if (result.status != outcome_status::ok)
    std::fprintf(stderr, "%s: %s: %s\n", point_text.c_str(), name_of(result.status), result.reason.c_str());
  for (auto const& r : result.rows) {
    auto const summary = summarise(r.samples);
    std::fprintf(stderr, "%s: %s median %.2f %s, p5 %.2f, p95 %.2f, %zu samples\n", point_text.c_str(), r.metric, summary.median, r.unit,
                 summary.p5, summary.p95, r.samples.size());
  }
}

outcome run_point(allocator_entry const& allocator, case_description const& what, session const& s, point const& p) {
  if (!allocator.why_not.empty()) return unsupported(allocator.why_not);
  auto const runner = std::find_if(allocator.runners.begin(), allocator.runners.end(), [&](auto const& r) { return r.which == &what; });
  if (runner == allocator.runners.end()) {
    return unsupported(what.without_allocator ? "the case compares structures, and no allocators: run it on store_only"
                                              : std::string(allocator.traits.name) + " is a baseline, and the case needs an allocator");
  }
  try {
    return runner->run(at_point(s, p), p);
  } catch (out_of_memory const& refused) {
    return unsupported(refused.what());
  }
}

// Everything that can be wrong with the request is found before the first line is printed.
int run_case(options const& o) {
  if (o.case_name.empty()) throw usage_error("--case is missing: --describe lists the cases");
  if (o.allocator.empty()) throw usage_error("--allocator is missing: --describe lists the allocators");
  auto const& what = find_case(o.case_name);
  auto const& allocator = find_allocator(o.allocator);
  if (auto const reason = why_not_timed(); !reason.empty() && !o.allow_debug) {
    throw usage_error("this executable is not for timing: " + reason + "; build with CMAKE_BUILD_TYPE=Release, or pass --allow-debug");
  }
  auto const texts = o.points.empty() ? std::vector<std::string>{""} : o.points;
  std::vector<point> points;
  for (auto const& text : texts) points.emplace_back(text, what.parameters);
  session const s = make_session(o);
  for (auto const& p : points) {
    if (what.check != nullptr) what.check(s, p);
  }

  for (std::size_t k = o.skip; k < points.size(); ++k) {
    print_line(json_writer{}.begin_object().member("begin", k).end_object());
    auto const result = [&] {
      try {
        return run_point(allocator, what, s, points[k]);
      } catch (error const& failure) {
        throw plain_error("point " + std::to_string(k) + " (" + texts[k] + "): " + failure.what());
      }
    }();
    print_outcome(k, result);
    if (o.summary) print_summary(o.case_name + " " + o.allocator + " " + texts[k], result);
  }
  return 0;
}

// Reads the arguments of the next request: their number, then each, all with a zero byte at the end. False at the end of input.
bool read_request(std::istream& in, std::vector<std::string>& arguments) {
  std::string word;
  if (!std::getline(in, word, '\0')) return false;
  std::size_t count = 0;
  auto const [end, failure] = std::from_chars(word.data(), word.data() + word.size(), count);
  if (failure != std::errc{} || end != word.data() + word.size()) {
    throw usage_error("--serve: expected the number of a request's arguments, got '" + word + "'");
  }
  arguments.clear();
  while (arguments.size() < count) {
    if (!std::getline(in, word, '\0')) throw usage_error("--serve: standard input ended within a request");
    arguments.push_back(word);
  }
  return true;
}

// A start of CUDA takes longer than most points: sweeps after the first go without. Between them the process holds no memory of the device.
int serve() {
  (void)simt::query_device();  // which starts CUDA
  print_line(json_writer{}.begin_object().member("serves", true).end_object());
  std::vector<std::string> arguments;
  for (bool first = true; read_request(std::cin, arguments); first = false) {
    auto const o = parse_options(arguments);
    if (o.help || o.describe || o.serve) throw usage_error("--serve: a request names a case");
    if (o.first_run && !first) throw usage_error("--first-run: this process has made runs already");
    run_case(o);
    heap_memory::forget();
    graph::forget_graph();
    graph::forget_plan();
    print_line(json_writer{}.begin_object().member("done", true).end_object());
  }
  return 0;
}

int run(std::vector<std::string> const& arguments) {
  auto const o = parse_options(arguments);
  if (o.serve) return serve();
  if (o.help) {
    std::fputs(usage_text(), stdout);
    return 0;
  }
  if (o.describe) {
    std::printf("%s\n", describe().c_str());
    return 0;
  }
  return run_case(o);
}

}  // namespace
}  // namespace gpuheap::bench

int main(int argc, char** argv) {
  try {
    return gpuheap::bench::run({argv + 1, argv + argc});
  } catch (gpuheap::bench::usage_error const& failure) {
    std::fprintf(stderr, "gpuheap-bench: %s\n", failure.what());
    return gpuheap::bench::exit_usage;
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "gpuheap-bench: %s\n", failure.what());
    return gpuheap::bench::exit_device;
  }
}
