#include "tools/malloc/service.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tools/malloc/report_text.hpp"

namespace gpuheap::device_malloc {

namespace {

// The context of this thread's last launch. Neither a service's number nor a context's id is used twice, so this record is never stale.
struct last_context {
  unsigned service = 0;
  std::uint64_t id = 0;
  served_context* served = nullptr;
};
thread_local last_context last;

// The number of the program's open captures. All accesses are relaxed, because the program itself orders the begin of a capture before a
// launch that must not disturb it, on one thread or by synchronisation between its threads.
std::atomic<int> captures{0};

std::string line_head(CUdevice device, std::string const& name) { return "gpuheap: device " + std::to_string(device) + " (" + name + ")"; }

bool wants_stats() {
  char const* const text = std::getenv("GPUHEAP_STATS");
  return text != nullptr && *text != '\0' && std::string_view{text} != "0";
}

}  // namespace

void capture_begins() { captures.fetch_add(1, std::memory_order_relaxed); }
void capture_ends() { captures.fetch_sub(1, std::memory_order_relaxed); }

service::service(provider const& table, driver_calls const& driver)
    : table_{table},
      driver_{driver},
      stats_{wants_stats()},
      stats_json_{stats_ && std::string_view{std::getenv("GPUHEAP_STATS")} == "json"},
      watched_{watch_settings::from_environment()},
      number_{[] {
        static std::atomic<unsigned> made{0};
        return made.fetch_add(1, std::memory_order_relaxed) + 1;
      }()} {}

served_context* service::find(std::uint64_t id) {
  auto const found = std::find_if(contexts_.begin(), contexts_.end(), [id](served_context const& s) { return s.id == id; });
  return found == contexts_.end() ? nullptr : &*found;
}

served_context const* service::before_launch(CUstream stream) {
  CUcontext context = nullptr;
  unsigned long long id = 0;
  if (driver_.context_current(&context) != CUDA_SUCCESS || context == nullptr) return nullptr;
  if (driver_.context_id(context, &id) != CUDA_SUCCESS) return nullptr;
  if (last.service == number_ && last.id == id) {
    served_context const& served = *last.served;
    if (served.heap == nullptr || !table_.refused(served.heap)) return &served;
  }
  std::lock_guard const lock{mutex_};
  served_context* served = find(id);
  if (served == nullptr) served = make(context, id);
  last = {number_, id, served};
  if (served->heap != nullptr && table_.refused(served->heap)) {
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    // The driver refuses the query if `stream` is the legacy stream and another stream is being captured. Then no call that waits may be
    // made.
    bool const idle = captures.load(std::memory_order_relaxed) == 0 && driver_.is_capturing(stream, &capture) == CUDA_SUCCESS &&
                      capture == CU_STREAM_CAPTURE_STATUS_NONE;
    if (idle) grow(*served);
  }
  return served;
}

served_context* service::make(CUcontext context, std::uint64_t id) {
  served_context& served = contexts_.emplace_back(known(driver_, context, id));
  served.state.resize(table_.state_bytes);
  provider_settings settings{};
  constexpr std::size_t drivers_default = std::size_t{8} << 20;
  if (std::size_t limit = 0; driver_.context_limit(&limit, CU_LIMIT_MALLOC_HEAP_SIZE) == CUDA_SUCCESS && limit != drivers_default)
    settings.malloc_limit = limit;
  provider_text why{};
  served.heap = table_.make(&settings, served.state.data(), &why);
  if (served.heap == nullptr) {
    std::fill(served.state.begin(), served.state.end(), std::byte{0});
    if (!std::exchange(failure_told_, true))
      std::fprintf(stderr, "gpuheap: the program's device malloc answers nullptr, since its heap cannot be made: %s\n", why.words);
    return &served;
  }
  if (watched_.seconds != 0 && watch_ == nullptr) {
    began_ = std::chrono::steady_clock::now();
    try {
      lines_ = std::make_unique<watch_lines>(watched_.file);
      watch_ = std::make_unique<watch>(watched_.seconds, driver_.thread_begins, [this] { look_at_all(); });
    } catch (std::exception const&) {
      std::fputs("gpuheap: the heap is not watched, since no thread can be made\n", stderr);
    }
  }
  return &served;
}

// Runs on the watch's thread. A launch that grows a heap may wait for a look, but no longer than it would wait for the device anyway.
void service::look_at_all() {
  std::vector<served_context*> all;
  {
    std::lock_guard const lock{mutex_};
    for (served_context& served : contexts_) all.push_back(&served);
  }
  for (served_context* const served : all) look_at(*served);
}
void service::look_at(served_context& served) {
  if (captures.load(std::memory_order_relaxed) != 0) return;  // during a capture, only the program launches kernels
  std::unique_lock const lock{served.in_use, std::try_to_lock};
  if (!lock.owns_lock() || served.heap == nullptr) return;
  entered_context const here{driver_, served};
  if (here.there()) print_sample(served);
}

void service::print_sample(served_context const& served) const {
  provider_report report{};
  provider_text why{};
  if (!table_.sample(served.heap, &report, &why)) {
    lines_->write(lines_->are_json() ? no_answer_json("no sample", served.device, why.words)
                                     : "gpuheap: device " + std::to_string(served.device) + ": the heap cannot be asked: " + why.words);
    return;
  }
  double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  if (lines_->are_json()) {
    lines_->write(report_json("sample", seconds, served.device, name_of(served.device).c_str(), table_.allocator, report, nullptr));
  } else {
    lines_->write("gpuheap: device " + std::to_string(served.device) + ": " + sample_text(seconds, report));
  }
}

void service::grow(served_context& served) {
  std::lock_guard const lock{served.in_use};
  provider_text why{};
  if (table_.grow(served.heap, &why) == grow_answer::failed && !std::exchange(failure_told_, true))
    std::fprintf(stderr, "gpuheap: the heap of the program's device malloc does not grow: %s\n", why.words);
}

void service::context_ends() {
  CUcontext context = nullptr;
  if (driver_.context_current(&context) != CUDA_SUCCESS || context == nullptr) return;
  std::lock_guard const lock{mutex_};
  // Contexts of which some have ended unseen may have the same handle. The newest one is the last.
  for (auto served = contexts_.rbegin(); served != contexts_.rend(); ++served) {
    if (served->context != context || served->heap == nullptr) continue;
    entered_context const here{driver_, *served};
    if (!here.there()) continue;
    std::lock_guard const in_use{served->in_use};
    print_report(*served);
    table_.forget(served->heap);
    served->heap = nullptr;
    return;
  }
}

void service::process_ends() {
  if (!stats_ && table_.findings == nullptr && watch_ == nullptr) return;
  // A look that waits for a kernel which never ends must not keep the process from ending.
  constexpr std::chrono::milliseconds longest_look{2000};
  if (watch_ != nullptr && !watch_->stop(longest_look)) return;
  std::unique_lock const lock{mutex_, std::try_to_lock};  // exit() may be called where the lock is held, as by a handler of Ctrl-C
  if (!lock.owns_lock()) return;
  std::map<CUdevice, std::size_t> unknown;  // by device: the number of heaps that cannot be asked
  for (served_context& served : contexts_) {
    std::unique_lock const in_use{served.in_use, std::try_to_lock};
    if (!in_use.owns_lock() || served.heap == nullptr) continue;
    entered_context const here{driver_, served};
    if (!here.there()) {
      ++unknown[served.device];
      continue;
    }
    if (watch_ != nullptr) print_sample(served);
    print_report(served);
  }
  for (auto const& [device, num_heaps] : unknown) print_unknown(device, num_heaps);
}

void service::print_unknown(CUdevice device, std::size_t num_heaps) const {
  if (!stats_ && table_.findings == nullptr) return;
  std::string const why =
      std::to_string(num_heaps) +
      (num_heaps == 1 ? " heap cannot be asked, since its context" : " heaps cannot be asked, since their contexts") +
      " ended unseen, as by cudaDeviceReset, or cannot be entered at the program's end; GPUHEAP_WATCH=1 (--watch) asks while"
      " the program runs, and a program relinked with gpuheap::malloc reports before each cudaDeviceReset";
  std::fprintf(
      stderr, "%s\n",
      stats_json_ ? no_answer_json("no heap", device, why.c_str()).c_str() : (line_head(device, name_of(device)) + ": " + why).c_str());
}

std::string service::name_of(CUdevice device) const {
  char name[128] = "";
  (void)driver_.device_name(name, sizeof name, device);
  return name;
}

void service::print_findings(served_context const& served, std::string const& head) const {
  provider_text why{};
  auto const say = [](void* to, char const* line) { std::fprintf(stderr, "%s: %s\n", static_cast<std::string const*>(to)->c_str(), line); };
  std::string begin = head;
  long const found = table_.findings(served.heap, driver_.text_of_place, say, &begin, &why);
  if (found < 0) {
    std::fprintf(stderr, "%s: the heap cannot be asked what was misused: %s\n", head.c_str(), why.words);
  } else {
    std::fprintf(stderr, "%s: %ld %s of the heap's blocks found\n", head.c_str(), found, found == 1 ? "misuse" : "misuses");
  }
}

void service::print_report(served_context const& served) const {
  if (!stats_ && table_.findings == nullptr) return;
  std::string const name = name_of(served.device);
  std::string const head = line_head(served.device, name);
  if (table_.findings != nullptr) print_findings(served, head);
  if (!stats_) return;
  provider_report report{};
  provider_text why{};
  std::vector<provider_live> live(256);
  long const lines = table_.report(served.heap, &report, live.data(), live.size(), &why);
  if (lines < 0) {
    std::fprintf(stderr, "%s\n",
                 stats_json_ ? no_answer_json("no heap", served.device, why.words).c_str()
                             : (head + ": the heap cannot be asked: " + why.words).c_str());
    return;
  }
  live.resize(std::min(live.size(), static_cast<std::size_t>(lines)));
  if (stats_json_) {
    std::fputs((report_json("heap", -1, served.device, name.c_str(), table_.allocator, report, &live) + "\n").c_str(), stderr);
    return;
  }
  std::fputs(report_text(head, table_.allocator, report, live).c_str(), stderr);
}

}  // namespace gpuheap::device_malloc
