// The thread that samples the heaps for GPUHEAP_WATCH while a program runs, and the output of its lines.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace gpuheap::device_malloc {

/// The values of GPUHEAP_WATCH (the seconds between two samples of a heap) and GPUHEAP_WATCH_FILE.
struct watch_settings {
  double seconds = 0;  // 0: nothing is watched
  std::string file;    // the file to which JSON lines are appended; "": lines of text go to standard error

  /// Reads both variables. If GPUHEAP_WATCH is not a valid number, says so on standard error, and nothing is watched.
  [[nodiscard]] static watch_settings from_environment();
};

/// The output of the lines. Each line is one write, so that lines of several processes stay whole.
class watch_lines {
 public:
  /// @param file "": standard error. If the file cannot be opened, one message says so, and all lines go to standard error.
  explicit watch_lines(std::string const& file);
  ~watch_lines();
  watch_lines(watch_lines const&) = delete;
  watch_lines& operator=(watch_lines const&) = delete;

  [[nodiscard]] bool are_json() const { return is_file_; }
  void write(std::string line) const;

 private:
  int descriptor_;
  bool is_file_;
};

/// The thread. It blocks all signals, which are meant for the program's threads.
class watch {
 public:
  /// @param begins called first, on the thread; may be null
  /// @param look called every `seconds`, for the first time after one pause
  watch(double seconds, void (*begins)(), std::function<void()> look);
  /// Waits for the thread, however long that takes.
  ~watch();
  watch(watch const&) = delete;
  watch& operator=(watch const&) = delete;

  /// @return whether the thread has ended within `most`. If it has not, it is in a call of `look` that waits for the device, and keeps
  /// running.
  bool stop(std::chrono::milliseconds most);

 private:
  void run(std::chrono::duration<double> pause);

  void (*begins_)();
  std::function<void()> look_;
  std::mutex mutex_;  // guards both flags
  std::condition_variable changed_;
  bool stopping_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace gpuheap::device_malloc
