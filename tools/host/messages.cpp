#include "messages.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "trace_file.hpp"

namespace gpuheap::interpose {

namespace {

constexpr int printed_of_each = 3;

void print(std::string const& line) {
  // One write, so that lines of several processes stay whole. If standard error does not take all of it, the trace still has what say()
  // printed.
  [[maybe_unused]] ssize_t const written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void say(std::string_view code, std::string const& words) {
  static std::array<std::atomic<int>, 32> said{};
  event record{};
  record.kind = static_cast<std::uint16_t>(kind::message);
  record.begin_ns = now_ns();
  append_text(record, std::string{code} + "\t" + words);
  std::size_t const number = static_cast<std::size_t>((code[1] - '0') * 10 + (code[2] - '0')) % 16 + (code[0] == 'W' ? 16U : 0U);
  // relaxed: the count only decides about printing.
  int const before = said[number].fetch_add(1, std::memory_order_relaxed);
  if (before < printed_of_each) print("gpuheap: " + std::string{code} + ": " + words + "\n");
  if (before == printed_of_each) print("gpuheap: " + std::string{code} + ": more of these; all are in the trace\n");
}

void complain(std::string const& words) { print("gpuheap: " + words + "\n"); }

}  // namespace gpuheap::interpose
