#include "workloads/trace/trace_file.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string_view>

#include "harness/error.hpp"
#include "harness/line_reader.hpp"
#include "harness/near_names.hpp"

namespace gpuheap::bench::trace {

namespace {

// A line 'key number'.
std::uint64_t read_field(line_reader& lines, std::string_view key, std::uint64_t most) {
  std::uint64_t number = 0;
  bool const there = lines.next();
  auto const& words = lines.words();
  if (!there || words.size() != 2 || words[0] != key || !read_whole(words[1], number) || number > most) {
    lines.refuse("'" + std::string(key) + " <number>', at most " + std::to_string(most));
  }
  return number;
}

// The operations of a kernel's threads, in the order of the file.
struct pending_kernel {
  std::vector<std::uint32_t> threads;
  std::vector<operation> operations;
};

kernel sorted_by_thread(pending_kernel const& from, std::uint32_t threads) {
  kernel made{std::vector<std::uint32_t>(std::size_t{threads} + 1), std::vector<operation>(from.operations.size())};
  for (auto const t : from.threads) ++made.begins[t + std::size_t{1}];
  for (std::size_t t = 0; t < threads; ++t) made.begins[t + 1] += made.begins[t];
  std::vector<std::uint32_t> next(made.begins.begin(), made.begins.end() - 1);
  for (std::size_t i = 0; i < from.operations.size(); ++i) made.operations[next[from.threads[i]]++] = from.operations[i];
  return made;
}

}  // namespace

program read_trace(std::istream& in, std::string const& name) {
  constexpr std::uint64_t most_threads = std::uint64_t{1} << 24, most_events = std::uint64_t{1} << 28, most_bytes = 0xffffffffu;
  line_reader lines(in, name, '#');
  if (!lines.next() || lines.words() != std::vector<std::string_view>{"gpuheap-trace", "1"}) {
    lines.refuse("'gpuheap-trace 1', the first line of a recording");
  }
  program made;
  made.threads = static_cast<std::uint32_t>(read_field(lines, "threads", most_threads));
  std::uint64_t const num_events = read_field(lines, "events", most_events);
  (void)read_field(lines, "dropped", std::numeric_limits<std::uint64_t>::max());

  pending_kernel now;
  for (std::uint64_t event = 0; event < num_events; ++event) {
    if (!lines.next()) lines.refuse(std::to_string(num_events) + " events, of which " + std::to_string(event) + " are there");
    auto const& words = lines.words();
    if (words.size() == 1 && words[0] == "k") {
      // A launch takes memory for each thread, a line of the file none.
      if ((made.kernels.size() + 1) * made.threads > most_events) {
        lines.refuse("at most " + std::to_string(most_events) + " threads in all launches together");
      }
      made.kernels.push_back(sorted_by_thread(now, made.threads));
      now = {};
      continue;
    }
    std::uint64_t thread = 0, number = 0;
    bool const asks = words.size() == 3 && words[0] == "m", frees = words.size() == 3 && words[0] == "f";
    if ((!asks && !frees) || !read_whole(words[1], thread) || !read_whole(words[2], number)) {
      lines.refuse("'m <thread> <bytes>', 'f <thread> <allocation>' or 'k'");
    }
    if (thread >= made.threads) lines.refuse("a thread below " + std::to_string(made.threads));
    if (asks && (number == 0 || number > most_bytes)) lines.refuse("1 to " + std::to_string(most_bytes) + " bytes");
    if (frees && number >= made.sizes.size())
      lines.refuse("the number of an allocation above: there are " + std::to_string(made.sizes.size()));
    if (frees && made.freed[number]) lines.refuse("an allocation that is not freed yet");
    if (asks) {
      now.operations.push_back({static_cast<std::uint32_t>(made.sizes.size()), static_cast<std::uint32_t>(number)});
      made.sizes.push_back(static_cast<std::uint32_t>(number));
      made.freed.push_back(false);
    } else {
      now.operations.push_back({static_cast<std::uint32_t>(number), 0});
      made.freed[number] = true;
    }
    now.threads.push_back(static_cast<std::uint32_t>(thread));
    ++made.num_events;
  }
  if (lines.next_data()) lines.refuse("the end of the file after " + std::to_string(num_events) + " events");
  if (!now.operations.empty()) made.kernels.push_back(sorted_by_thread(now, made.threads));
  if (made.sizes.empty()) throw usage_error(name + ": expected at least one request, found a recording without any");
  return made;
}

program read_trace(std::string const& path) {
  errno = 0;
  std::ifstream in(path);
  if (!in) throw usage_error(path + ": cannot be opened: " + std::strerror(errno));
  return read_trace(in, path);
}

kernel leftovers(program const& p) {
  pending_kernel frees;
  for (std::uint32_t a = 0; a < p.sizes.size(); ++a) {
    if (p.freed[a]) continue;
    frees.operations.push_back({a, 0});
    frees.threads.push_back(a % p.threads);
  }
  return sorted_by_thread(frees, p.threads);
}

std::shared_ptr<program const> load_trace(session const& s, point const& p) {
  static std::string last_file;
  static std::shared_ptr<program const> last;
  auto const& named = p.text("trace");
  bool const comes_with_us = named.find_first_of("./") == std::string::npos;
  auto const file = !s.trace_file.empty() ? s.trace_file : comes_with_us ? GPUHEAP_BENCH_TRACES "/" + named + ".trace" : named;
  if (s.trace_file.empty() && comes_with_us && !std::filesystem::exists(file)) {
    std::vector<std::string> known;
    for (auto const& entry : std::filesystem::directory_iterator(GPUHEAP_BENCH_TRACES)) {
      if (entry.path().extension() == ".trace") known.push_back(entry.path().stem());
    }
    throw usage_error("trace=" + named + ": expected a file, or a recording of " GPUHEAP_BENCH_TRACES + suggestion(named, known));
  }
  if (last == nullptr || file != last_file) {
    last = std::make_shared<program const>(read_trace(file));
    last_file = file;
  }
  return last;
}

void check_trace(session const& s, point const& p) { (void)load_trace(s, p); }

}  // namespace gpuheap::bench::trace
