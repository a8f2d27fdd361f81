#include "tools/malloc/watch.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace gpuheap::device_malloc {

watch_settings watch_settings::from_environment() {
  watch_settings found;
  char const* const text = std::getenv("GPUHEAP_WATCH");
  if (text == nullptr || *text == '\0' || std::strcmp(text, "0") == 0) return found;
  char* end = nullptr;
  double const seconds = std::strtod(text, &end);
  constexpr double least = 0.001, most = 86400;
  if (end == text || *end != '\0' || !(seconds >= least && seconds <= most)) {
    std::fprintf(stderr, "gpuheap: GPUHEAP_WATCH is '%s': nothing is watched: give the seconds between two samples, from 0.001 to 86400\n",
                 text);
    return found;
  }
  found.seconds = seconds;
  if (char const* const file = std::getenv("GPUHEAP_WATCH_FILE"); file != nullptr) found.file = file;
  return found;
}

watch_lines::watch_lines(std::string const& file) : descriptor_{STDERR_FILENO}, is_file_{false} {
  if (file.empty()) return;
  int const opened = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (opened < 0) {
    std::fprintf(stderr, "gpuheap: samples of the heap go to the standard error, since '%s' cannot be written: %s\n", file.c_str(),
                 std::strerror(errno));
    return;
  }
  descriptor_ = opened;
  is_file_ = true;
}
watch_lines::~watch_lines() {
  if (is_file_) close(descriptor_);
}
void watch_lines::write(std::string line) const {
  line += '\n';
  [[maybe_unused]] ssize_t const written = ::write(descriptor_, line.data(), line.size());
}

watch::watch(double seconds, void (*begins)(), std::function<void()> look) : begins_{begins}, look_{std::move(look)} {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread{[this, seconds] { run(std::chrono::duration<double>{seconds}); }};
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

watch::~watch() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard const lock{mutex_};
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

namespace {

// The time after `pause` by the wall clock. glibc can wait by the steady clock only from 2.30 on, and the Python wheel supports older
// versions. If the wall clock is set during a pause, that pause is longer or shorter.
template <class Duration>
std::chrono::system_clock::time_point after(Duration pause) {
  return std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(pause);
}

}  // namespace

bool watch::stop(std::chrono::milliseconds most) {
  std::unique_lock lock{mutex_};
  stopping_ = true;
  changed_.notify_all();
  return changed_.wait_until(lock, after(most), [this] { return ended_; });
}

void watch::run(std::chrono::duration<double> pause) {
  if (begins_ != nullptr) begins_();
  auto next = std::chrono::steady_clock::now();
  std::unique_lock lock{mutex_};
  // Ends: when stop() or the destructor says so.
  for (;;) {
    next += std::chrono::duration_cast<std::chrono::steady_clock::duration>(pause);
    auto const now = std::chrono::steady_clock::now();
    if (next < now) next = now;  // the last look took longer than the pause
    if (changed_.wait_until(lock, after(next - now), [this] { return stopping_; })) break;
    lock.unlock();
    look_();
    lock.lock();
  }
  ended_ = true;
  changed_.notify_all();
}

}  // namespace gpuheap::device_malloc
