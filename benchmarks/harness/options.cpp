#include "harness/options.hpp"

#include <charconv>
#include <functional>
#include <limits>
#include <map>

#include "harness/bytes.hpp"
#include "harness/error.hpp"
#include "harness/near_names.hpp"

namespace gpuheap::bench {

namespace {

std::uint64_t parse_number(std::string const& option, std::string const& text, std::uint64_t smallest, std::uint64_t largest) {
  std::uint64_t number = 0;
  auto const [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size() || number < smallest || number > largest) {
    throw usage_error(option + ": expected a whole number from " + std::to_string(smallest) + " to " + std::to_string(largest) + ", got '" +
                      text + "'");
  }
  return number;
}

double parse_seconds(std::string const& option, std::string const& text) {
  double seconds = 0;
  auto const [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (failure != std::errc{} || end != text.data() + text.size() || !(seconds >= 0 && seconds <= 1e6)) {
    throw usage_error(option + ": expected seconds, from 0 to 1000000, got '" + text + "'");
  }
  return seconds;
}

}  // namespace

options parse_options(std::vector<std::string> const& arguments) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  options o;
  std::map<std::string, std::function<void()>> const flags{
      {"--help", [&] { o.help = true; }},           {"--describe", [&] { o.describe = true; }},
      {"--summary", [&] { o.summary = true; }},     {"--allow-debug", [&] { o.allow_debug = true; }},
      {"--first-run", [&] { o.first_run = true; }}, {"--serve", [&] { o.serve = true; }},
  };
  std::map<std::string, std::function<void(std::string const&)>> const settings{
      {"--case", [&](auto const& v) { o.case_name = v; }},
      {"--allocator", [&](auto const& v) { o.allocator = v; }},
      {"--heap-bytes", [&](auto const& v) { o.heap_bytes = parse_bytes("--heap-bytes", v); }},
      {"--runs", [&](auto const& v) { o.runs = static_cast<unsigned>(parse_number("--runs", v, 1, 100'000)); }},
      {"--seed", [&](auto const& v) { o.seed = parse_number("--seed", v, 0, most); }},
      {"--graph", [&](auto const& v) { o.graph_file = v; }},
      {"--scene", [&](auto const& v) { o.scene_file = v; }},
      {"--trace", [&](auto const& v) { o.trace_file = v; }},
      {"--enough-s", [&](auto const& v) { o.enough_s = parse_seconds("--enough-s", v); }},
      {"--timeout-s", [&](auto const& v) { o.timeout_s = parse_seconds("--timeout-s", v); }},
      {"--point", [&](auto const& v) { o.points.push_back(v); }},
      {"--skip", [&](auto const& v) { o.skip = parse_number("--skip", v, 0, most); }},
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto const& name = arguments[i];
    if (auto const flag = flags.find(name); flag != flags.end()) {
      flag->second();
    } else if (auto const setting = settings.find(name); setting != settings.end()) {
      if (i + 1 == arguments.size()) throw usage_error(name + ": a value is missing");
      setting->second(arguments[++i]);
    } else {
      std::vector<std::string> known;
      for (auto const& [option, action] : flags) known.push_back(option);
      for (auto const& [option, action] : settings) known.push_back(option);
      throw usage_error("unknown option '" + name + "'" + suggestion(name, known));
    }
  }
  if (o.first_run && (o.runs != 1 || o.points.size() > 1)) {
    throw usage_error("--first-run: a process makes its first run once: expected one --point and --runs 1");
  }
  if (o.serve && arguments.size() != 1) throw usage_error("--serve: expected no other option, as requests have their own");
  if (o.heap_bytes == std::uint64_t{0}) throw usage_error("--heap-bytes: expected more than 0");
  return o;
}

char const* usage_text() {
  return "usage: gpuheap-bench --describe\n"
         "       gpuheap-bench --case NAME --allocator NAME [--point key=value,...]... [options]\n"
         "       gpuheap-bench --serve\n"
         "\n"
         "Runs one benchmark case on one allocator, and prints for each point {\"begin\":k}, then its result as one line of JSON.\n"
         "\n"
         "  --describe         print as JSON what this executable holds and the device it would use\n"
         "  --point LIST       values of the case's parameters; what is not named gets its default; may be repeated\n"
         "  --skip K           begin with point K, counted from 0\n"
         "  --heap-bytes SIZE  of the heap: 65536, 64MiB, 8GiB; default 8GiB, 64MiB in the simulator\n"
         "  --runs R           timed runs of each point (10)\n"
         "  --enough-s T       a point that took so long needs no more than five of its runs; 0 for all (0)\n"
         "  --timeout-s T      say at once if five runs of a point will take longer; 0 for never (0)\n"
         "  --seed S           of everything random (1)\n"
         "  --graph FILE       Matrix Market file for the graph cases, instead of a generated graph\n"
         "  --scene FILE       OBJ or PLY file for kdtree, instead of a generated scene\n"
         "  --trace FILE       recording of a program for replay, instead of those that the points name\n"
         "  --serve            do what standard input asks for, request after request: the number of its options and their values, then\n"
         "                     each of them, with a zero byte after each; prints {\"serves\":true} once the device is ready, "
         "{\"done\":true} after each "
         "request\n"
         "  --first-run        with --runs 1: time the first run that the process makes of its heap\n"
         "  --summary          also print the median and the range of each metric to stderr\n"
         "  --allow-debug      time a debug or instrumented build\n"
         "\n"
         "Exit code: 0 all points attempted, 2 wrong usage or input, 3 the device failed.\n";
}

}  // namespace gpuheap::bench
