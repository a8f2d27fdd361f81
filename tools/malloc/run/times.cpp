#include "times.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "allocator.hpp"
#include "link.hpp"
#include "settings.hpp"
#include "tools/interposer/inside.hpp"
#include "tools/malloc/contexts.hpp"

namespace gpuheap::unchanged {

namespace {

constexpr std::size_t pending_before_look = 32;  // if more launches are pending, the times of ended ones are added up

struct launch {
  CUevent begin;
  CUevent end;
};

using device_malloc::entered_context;
using device_malloc::known_context;
using device_malloc::own_contexts;

struct context_events {
  known_context of;
  std::vector<launch> free;
  std::deque<launch> pending;
};

struct everything {
  std::mutex lock;
  std::map<std::uint64_t, context_events> contexts;
  std::uint64_t launches = 0;
  std::uint64_t untimed = 0;  // launches for which the driver gave no events, or no time between them
  double milliseconds = 0;
};

everything& all() {
  static everything* const only = new everything;  // never destroyed: calls come after static destruction too
  return *only;
}

void take(context_events& of) {
  launch const first = of.pending.front();
  of.pending.pop_front();
  float between = 0;
  if (driver().event_elapsed(&between, first.begin, first.end) == CUDA_SUCCESS) {
    all().milliseconds += static_cast<double>(between);
  } else {
    ++all().untimed;
  }
  of.free.push_back(first);
}

void take_ended(context_events& of) {
  while (!of.pending.empty() && driver().event_query(of.pending.front().end) == CUDA_SUCCESS) take(of);
}

// Runs at exit, before the driver's own handler. Launches of a context that is gone have no time.
void write_all() {
  interpose::inside const here;
  std::unique_lock const held{all().lock, std::try_to_lock};  // exit() may be called where the lock is held
  if (!held.owns_lock()) return;
  for (auto& each : all().contexts) {
    context_events& context = each.second;
    // take_times_of() was called before each context of cuCtxCreate was destroyed.
    entered_context const here{calls_for_heaps(), context.of, own_contexts::exist};
    if (!here.there()) {
      all().untimed += context.pending.size();
      continue;
    }
    while (!context.pending.empty()) {
      driver().event_wait(context.pending.front().end);
      take(context);
    }
  }
  link_counts const links = counts_of_links();
  std::FILE* const file = std::fopen((configured().times + "/" + std::to_string(getpid()) + ".json").c_str(), "w");
  if (file == nullptr) return;
  std::fprintf(file, "{\"launches\": %llu, \"untimed\": %llu, \"kernel_ms\": %.6f, \"linked\": %llu, \"cached\": %llu, \"link_s\": %.3f}\n",
               static_cast<unsigned long long>(all().launches), static_cast<unsigned long long>(all().untimed), all().milliseconds,
               static_cast<unsigned long long>(links.linked), static_cast<unsigned long long>(links.found), links.seconds);
  std::fclose(file);
}

}  // namespace

timed_launch::timed_launch(CUstream stream) : stream_{stream} {
  if (configured().times.empty()) return;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver().stream_captures(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE) return;
  context_ = current_context();
  if (context_ == 0) return;
  relaxed_capture const relaxed;  // for take_ended(), which queries events
  std::lock_guard const held{all().lock};
  static bool const registered = std::atexit(write_all) == 0;
  static_cast<void>(registered);
  ++all().launches;
  context_events& context = all().contexts[context_];
  if (context.of.id == 0) {
    CUcontext current = nullptr;
    driver().context_current(&current);
    context.of = device_malloc::known(calls_for_heaps(), current, context_);
  }
  if (context.pending.size() > pending_before_look) take_ended(context);
  if (context.free.empty()) {
    launch made{};
    if (driver().event_create(&made.begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
        driver().event_create(&made.end, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
      ++all().untimed;
      context_ = 0;
      return;
    }
    context.free.push_back(made);
  }
  begin_ = context.free.back().begin;
  end_ = context.free.back().end;
  context.free.pop_back();
  driver().event_record(begin_, stream_);
}

void timed_launch::done(bool launched) {
  if (context_ == 0) return;
  if (launched) driver().event_record(end_, stream_);
  std::lock_guard const held{all().lock};
  context_events& context = all().contexts[context_];
  if (launched) {
    context.pending.push_back({begin_, end_});
  } else {
    --all().launches;
    context.free.push_back({begin_, end_});
  }
}

void collect_times() {
  if (configured().times.empty()) return;
  CUcontext current = nullptr;
  if (driver().context_current(&current) != CUDA_SUCCESS || current == nullptr) return;
  relaxed_capture const relaxed;
  std::lock_guard const held{all().lock};
  // Contexts of which all but the newest have ended may have the same handle. The newest one has the highest id.
  for (auto known = all().contexts.rbegin(); known != all().contexts.rend(); ++known) {
    if (known->second.of.context != current) continue;
    entered_context const here{calls_for_heaps(), known->second.of, own_contexts::exist};
    if (here.there()) take_ended(known->second);
    return;
  }
}

void take_times_of(CUcontext context) {
  unsigned long long id = 0;
  if (configured().times.empty() || driver().context_id(context, &id) != CUDA_SUCCESS) return;
  CUcontext popped = nullptr;
  if (driver().context_push(context) != CUDA_SUCCESS) return;
  {
    std::lock_guard const held{all().lock};
    if (auto const known = all().contexts.find(id); known != all().contexts.end()) {
      // Ends: one pass for each launch.
      while (!known->second.pending.empty()) {
        driver().event_wait(known->second.pending.front().end);
        take(known->second);
      }
      all().contexts.erase(known);
    }
  }
  driver().context_pop(&popped);
}

void forget_times_after_fork() { new (&all()) everything; }

}  // namespace gpuheap::unchanged
