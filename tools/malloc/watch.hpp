// A thread that does something again and again while a program runs, and where its lines go: what GPUHEAP_WATCH asks for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace gpuheap::device_malloc {

/// GPUHEAP_WATCH, the seconds between two samples of a heap, and GPUHEAP_WATCH_FILE.
struct watch_settings {
  double seconds = 0;  // 0: nothing is watched
  std::string file;    // gets JSON lines at its end; "": lines for a reader go to the standard error

  /// Tells of a number that is none, on the standard error, and watches nothing then.
  [[nodiscard]] static watch_settings from_environment();
};

/// Where lines go. Each is one write, so that lines of several processes stay whole.
class watch_lines {
 public:
  /// @param file "": the standard error. Of a file that cannot be opened one line is told, and all goes to the standard error.
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

/// The thread. It takes no signals, which are the program's.
class watch {
 public:
  /// @param begins called first, on the thread; may be null
  /// @param look called every `seconds`, the first time after that
  watch(double seconds, void (*begins)(), std::function<void()> look);
  /// Waits for the thread without a bound.
  ~watch();
  watch(watch const&) = delete;
  watch& operator=(watch const&) = delete;

  /// @return whether the thread has ended within `most`. If not it is in a look that waits for the device, and is left there.
  bool stop(std::chrono::milliseconds most);

 private:
  void run(std::chrono::duration<double> pause);

  void (*begins_)();
  std::function<void()> look_;
  std::mutex mutex_;  // of both flags
  std::condition_variable changed_;
  bool stopping_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace gpuheap::device_malloc
