#include "facts.hpp"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>

#include "driver.hpp"
#include "messages.hpp"
#include "settings.hpp"
#include "trace_file.hpp"

namespace gpuheap::interpose {

namespace {

constinit std::atomic<bool> recorded{false};
constinit std::atomic<bool> is_child{false};

void record() {
  std::string entries;
  for (std::size_t i = 0; i < num_rows; ++i) entries += (i == 0 ? "" : ",") + std::string{symbol_of(static_cast<row>(i))};
  append_fact("entries", entries);
  std::ifstream file{"/proc/self/cmdline", std::ios::binary};
  std::string command{std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{}};
  append_fact("command", command);  // words end in NUL
  char folder[4096];
  if (getcwd(folder, sizeof folder) != nullptr) append_fact("folder", folder);
  append_fact("pool", configured().mode_words);
  append_fact("events", configured().events ? "1" : "0");
  if (is_child.load(std::memory_order_relaxed)) {
    append_fact("forked", "1");
    // CUDA does not work in a child process whose parent has used CUDA, so the user must know.
    say("W02", "a child process made by fork uses the driver: it has a trace of its own, and cannot use its parent's device memory");
  }
}

}  // namespace

void record_facts_once() {
  // relaxed: the facts are records like others; the reader needs no order between them and the calls.
  if (recorded.load(std::memory_order_relaxed)) return;
  if (!recorded.exchange(true, std::memory_order_relaxed)) record();
}

void forget_facts_after_fork() {
  recorded.store(false, std::memory_order_relaxed);
  is_child.store(true, std::memory_order_relaxed);
}

}  // namespace gpuheap::interpose
