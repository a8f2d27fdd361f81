// The settings of the calling host thread, from the environment and from scopes.
#include <gpuheap_simulator/settings.hpp>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "settings_state.hpp"

namespace gpuheap::simulator {

namespace {

constexpr scheduler_kind all_schedulers[] = {scheduler_kind::run_through, scheduler_kind::round_robin, scheduler_kind::random,
                                             scheduler_kind::pct};

[[noreturn]] void refuse(char const* variable, std::string_view text, char const* takes) {
  throw std::invalid_argument(std::string(variable) + "=" + std::string(text) + ": expected " + takes);
}

template <class T>
void read_number(char const* variable, T& value, T lowest, T highest) {
  char const* const text = std::getenv(variable);
  if (text == nullptr || *text == 0) return;
  std::string_view const view = text;
  T read{};
  auto const [end, error] = std::from_chars(view.data(), view.data() + view.size(), read);
  if (error != std::errc{} || end != view.data() + view.size() || read < lowest || read > highest) {
    std::string const takes = "a number from " + std::to_string(lowest) + " to " + std::to_string(highest);
    refuse(variable, view, takes.c_str());
  }
  value = read;
}

void read_scheduler(char const* variable, scheduler_kind& value) {
  char const* const text = std::getenv(variable);
  if (text == nullptr || *text == 0) return;
  for (scheduler_kind kind : all_schedulers) {
    if (std::string_view(text) == name_of(kind)) {
      value = kind;
      return;
    }
  }
  refuse(variable, text, "run_through, round_robin, random or pct");
}

// Reads warp:point:length, where length is a number or "ever".
void read_stall(char const* variable, stall& value) {
  char const* const text = std::getenv(variable);
  if (text == nullptr || *text == 0) return;
  stall read;
  char const* at = text;
  char const* const end = text + std::strlen(text);
  auto const number = [&](auto& into) {
    auto const [stop, error] = std::from_chars(at, end, into);
    bool const good = error == std::errc{} && stop != at;
    at = stop;
    return good;
  };
  auto const colon = [&] { return at != end && *at++ == ':'; };
  bool good = number(read.warp) && colon() && number(read.at) && colon();
  if (good && std::string_view(at) == "ever") {
    read.points = stall::ever_after;
  } else {
    good = good && number(read.points) && at == end;
  }
  if (!good) refuse(variable, text, "warp:point:length, such as 3:40:10000 or 3:40:ever");
  value = read;
}

}  // namespace

char const* name_of(scheduler_kind kind) {
  switch (kind) {
    case scheduler_kind::run_through:
      return "run_through";
    case scheduler_kind::round_robin:
      return "round_robin";
    case scheduler_kind::random:
      return "random";
    case scheduler_kind::pct:
      return "pct";
  }
  return "?";
}

settings settings_from_environment() {
  settings s;
  read_scheduler("GPUHEAP_SIMULATOR_SCHEDULER", s.scheduler);
  read_number<std::uint64_t>("GPUHEAP_SIMULATOR_SEED", s.seed, 0, ~std::uint64_t{0});
  read_number("GPUHEAP_SIMULATOR_DEPTH", s.depth, 1u, 1000u);
  unsigned weak = s.weak ? 1 : 0;
  read_number("GPUHEAP_SIMULATOR_WEAK", weak, 0u, 1u);
  s.weak = weak != 0;
  read_number("GPUHEAP_SIMULATOR_THREADS", s.threads, 0u, 1024u);
  read_number("GPUHEAP_SIMULATOR_SMS", s.num_sms, 1u, 1024u);
  read_number<std::uint64_t>("GPUHEAP_SIMULATOR_BUDGET", s.step_budget, 1, ~std::uint64_t{0} >> 1);
  read_stall("GPUHEAP_SIMULATOR_STALL", s.stopped);
  std::size_t stack_kib = s.stack_bytes / 1024;
  read_number<std::size_t>("GPUHEAP_SIMULATOR_STACK_KIB", stack_kib, 16, 65536);
  s.stack_bytes = stack_kib * 1024;
  return s;
}

std::string as_environment(settings const& s) {
  settings const usual;
  std::string text =
      std::string("GPUHEAP_SIMULATOR_SCHEDULER=") + name_of(s.scheduler) + " GPUHEAP_SIMULATOR_SEED=" + std::to_string(s.seed);
  if (s.scheduler == scheduler_kind::pct) text += " GPUHEAP_SIMULATOR_DEPTH=" + std::to_string(s.depth);
  text += std::string(" GPUHEAP_SIMULATOR_WEAK=") + (s.weak ? "1" : "0");
  if (s.threads != usual.threads) text += " GPUHEAP_SIMULATOR_THREADS=" + std::to_string(s.threads);
  if (s.num_sms != usual.num_sms) text += " GPUHEAP_SIMULATOR_SMS=" + std::to_string(s.num_sms);
  if (s.step_budget != usual.step_budget) text += " GPUHEAP_SIMULATOR_BUDGET=" + std::to_string(s.step_budget);
  if (stall const& it = s.stopped; it.points != 0) {
    text += " GPUHEAP_SIMULATOR_STALL=" + std::to_string(it.warp) + ":" + std::to_string(it.at) + ":" +
            (it.points == stall::ever_after ? "ever" : std::to_string(it.points));
  }
  return text;
}

settings_state& thread_settings() {
  static settings const initial = settings_from_environment();
  thread_local settings_state state{initial, 0};
  return state;
}

settings const& current_settings() { return thread_settings().now; }

scoped_settings::scoped_settings(settings const& s) : before_{thread_settings().now}, launches_before_{thread_settings().launches} {
  thread_settings() = {s, 0};
}
scoped_settings::~scoped_settings() { thread_settings() = {before_, launches_before_}; }

}  // namespace gpuheap::simulator
