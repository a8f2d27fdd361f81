// A pool of OS threads that wait for jobs.
#include "parallel.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace gpuheap::simulator {

namespace {

class crew {
 public:
  ~crew() {
    {
      std::lock_guard const lock(mutex_);
      ending_ = true;
    }
    called_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  void run(unsigned num_jobs, std::function<void(unsigned)> const& job) {
    std::lock_guard const one_caller(callers_);
    {
      std::lock_guard const lock(mutex_);
      for (auto i = static_cast<unsigned>(threads_.size()) + 1; i < num_jobs; ++i)
        threads_.emplace_back([this, i, seen = round_] { work(i, seen); });
      job_ = &job;
      num_jobs_ = num_jobs;
      num_at_work_ = num_jobs - 1;
      ++round_;
    }
    called_.notify_all();
    job(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return num_at_work_ == 0; });
  }

 private:
  void work(unsigned index, std::uint64_t seen) {
    std::unique_lock lock(mutex_);
    // Ends: when the crew is destroyed, at the end of the process.
    for (;;) {
      called_.wait(lock, [&] { return ending_ || round_ != seen; });
      if (ending_) return;
      seen = round_;
      if (index >= num_jobs_) continue;
      auto const& job = *job_;
      lock.unlock();
      job(index);
      lock.lock();
      if (--num_at_work_ == 0) done_.notify_one();
    }
  }

  std::mutex callers_;
  std::mutex mutex_;
  std::condition_variable called_, done_;
  std::vector<std::thread> threads_;
  std::function<void(unsigned)> const* job_ = nullptr;
  unsigned num_jobs_ = 0, num_at_work_ = 0;
  std::uint64_t round_ = 0;
  bool ending_ = false;
};

}  // namespace

void run_in_parallel(unsigned num_jobs, std::function<void(unsigned)> const& job) {
  static crew all;
  all.run(num_jobs, job);
}

}  // namespace gpuheap::simulator
