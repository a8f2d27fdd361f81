// Programs of host and device buffers that copy to each other: pairs PATTERN [NUMBER]. Of some, PAIRS_STRAY=NAME makes a run do what other
// runs do not; PAIRS_WAY is how it finds the driver (driver_api.hpp). It prints results that depend on every byte that the host may read,
// and nothing that differs from run to run.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "driver_api.hpp"

namespace {

// Not a multiple of a page, nor of what the driver aligns to.
constexpr unsigned num = 70'001;
constexpr std::size_t bytes = num * sizeof(unsigned);

driver_api driver;
CUfunction add_one;
CUfunction scale;
std::string stray;

void check(CUresult result, char const* what) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s: error %d\n", what, static_cast<int>(result));
  std::fflush(stdout);
  std::_Exit(3);
}

CUdeviceptr allocate(std::size_t wanted) {
  CUdeviceptr out = 0;
  check(driver.allocate(&out, wanted), "allocate");
  return out;
}

void launch(CUfunction kernel, CUdeviceptr to, CUdeviceptr from, unsigned count = num, CUstream stream = nullptr) {
  void* parameters[] = {&to, &from, &count};
  check(driver.launch(kernel, 1, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr), "launch");
}

void up(CUdeviceptr to, void const* from, std::size_t wanted = bytes) { check(driver.to_device(to, from, wanted), "to device"); }
void down(void* to, CUdeviceptr from, std::size_t wanted = bytes) { check(driver.to_host(to, from, wanted), "to host"); }
void release(CUdeviceptr block) { check(driver.free(block), "free"); }

unsigned sum(unsigned const* values, std::size_t count = num) {
  unsigned all = 0;
  for (std::size_t i = 0; i < count; ++i) all = all * 31 + values[i];
  return all;
}

void fill(unsigned* values, unsigned seed, std::size_t count = num) {
  for (std::size_t i = 0; i < count; ++i) values[i] = seed + static_cast<unsigned>(i) * 7;
}

unsigned* host() { return static_cast<unsigned*>(std::malloc(bytes)); }

// Three buffers up, kernels, the same three down: their host sides from malloc, calloc, and new.
void model(int rounds) {
  unsigned* const first = host();
  auto* const second = static_cast<unsigned*>(std::calloc(num, sizeof(unsigned)));
  std::vector<unsigned> third(num, 5);
  fill(first, 1);
  CUdeviceptr const blocks[] = {allocate(bytes), allocate(bytes), allocate(bytes)};
  up(blocks[0], first);
  up(blocks[1], second);
  up(blocks[2], third.data());
  for (int i = 0; i < rounds; ++i) {
    launch(add_one, blocks[0], blocks[1]);
    launch(scale, blocks[1], blocks[2]);
    launch(add_one, blocks[2], blocks[0]);
  }
  down(first, blocks[0]);
  down(second, blocks[1]);
  down(third.data(), blocks[2]);
  for (CUdeviceptr const block : blocks) release(block);
  // Written after the last use of the device: the program's own business.
  first[0] += 1;
  third[num - 1] += 1;
  std::printf("model: %u %u %u\n", sum(first), sum(second), sum(third.data()));
  std::free(first);
  std::free(second);
}

__attribute__((noinline)) unsigned one_round(unsigned seed) {
  unsigned* const values = host();
  fill(values, seed);
  CUdeviceptr const block = allocate(bytes);
  up(block, values);
  launch(scale, block, block);
  down(values, block);
  unsigned const found = sum(values);
  release(block);
  std::free(values);
  return found;
}

// Buffers that come and go: each host buffer ends before the device goes on.
void rounds(int count) {
  for (int i = 0; i < count; ++i) std::printf("round %d: %u\n", i, one_round(static_cast<unsigned>(i)));
}

// The actions that a second run may take after its download was merged.
void strays(unsigned* values, CUdeviceptr block) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  if (stray == "launch") launch(add_one, block, block);
  if (stray == "write and launch") {
    values[5] = 5;
    launch(add_one, block, block);
    std::vector<unsigned> now(num);
    down(now.data(), block);
    std::printf("now: %u\n", sum(now.data()));
  }
  if (stray == "set") check(driver.set(block, 7, bytes), "set");
  if (stray == "upload") up(block, std::vector<unsigned>(num, 3).data());
  if (stray == "on device") check(driver.on_device(block, block + 4096, 4096), "on device");
  if (stray == "by address") check(driver.copy(block, reinterpret_cast<CUdeviceptr>(std::vector<char>(bytes, 4).data()), bytes), "copy");
  if (stray == "free and reuse") {
    release(block);
    CUdeviceptr const other = allocate(bytes);
    check(driver.set(other, 9, bytes), "set");
    release(other);
  }
  if (stray == "stream") {
    check(driver.make_stream(&stream, 1), "stream");
    launch(add_one, block, block, num, stream);
    down(values, block);
  }
  if (stray == "capture") {
    check(driver.make_stream(&stream, 1), "stream");
    check(driver.begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    down(values, block);
    check(driver.end_capture(stream, &graph), "end");
  }
  if (stray == "reset") {
    CUcontext context = nullptr;
    check(driver.reset(0), "reset");
    check(driver.retain(&context, 0), "retain");
    check(driver.set_current(context), "set current");
    CUdeviceptr const other = allocate(bytes);
    check(driver.set(other, 9, bytes), "set");
  }
  if (stray == "protect") {
    check(static_cast<CUresult>(mprotect(values, bytes, PROT_NONE)), "protect");
    launch(add_one, block, block);
    check(static_cast<CUresult>(mprotect(values, bytes, PROT_READ | PROT_WRITE)), "protect");
  }
  if (stray == "discard") {
    check(static_cast<CUresult>(madvise(values, 8192, MADV_DONTNEED)), "advise");
    std::printf("discarded: %u\n", values[0] + values[2047]);
    std::fill_n(values, 2048, 1U);
    launch(add_one, block, block);
  }
  if (stray == "register") {
    check(driver.register_host(values, bytes, 0), "register");
    launch(add_one, block, block);
    down(values, block);
    check(driver.unregister_host(values), "unregister");
  }
  if (stray == "part") down(values, block, 8192);
  if (stray == "offset") down(values, block + 4096, bytes - 4096);
  if (stray == "die") {
    std::printf("dies: %u\n", sum(values));
    std::fflush(stdout);
    std::raise(SIGKILL);
  }
  if (stray == "abort") std::abort();
  if (stray == "fork") {
    int ready[2];
    check(static_cast<CUresult>(pipe(ready)), "pipe");
    if (fork() == 0) {
      char go = 0;
      if (read(ready[0], &go, 1) != 1) std::_Exit(1);
      std::printf("child: %u\n", sum(values));
      std::fflush(stdout);
      std::_Exit(0);
    }
    launch(add_one, block, block);
    if (write(ready[1], "g", 1) != 1) std::_Exit(1);
    int status = 0;
    wait(&status);
  }
}

void straying(int) {
  void* room = nullptr;
  if (posix_memalign(&room, 4096, bytes) != 0) return;  // from a page on, as some calls on mappings need it
  auto* values = static_cast<unsigned*>(room);
  fill(values, 3);
  CUdeviceptr const block = allocate(bytes);
  up(block, values);
  CUstream stream = nullptr;
  if (stray == "stream before") check(driver.make_stream(&stream, 1), "stream");
  launch(scale, block, block, num, stream);
  if (stream != nullptr) check(driver.synchronise_stream(stream), "synchronise");
  down(values, block);
  strays(values, block);
  if (stray == "grow") {
    values = static_cast<unsigned*>(std::realloc(values, 2 * bytes));
    launch(add_one, block, block);
  }
  if (stray == "shrink") {
    values = static_cast<unsigned*>(std::realloc(values, 4096));
    launch(add_one, block, block);
    std::printf("straying: %u\n", sum(values, 1024));
  } else {
    std::printf("straying: %u\n", sum(values));
  }
  std::free(values);
}

// --- what a validation run must refuse

// The host reads after the device went on.
void reads_on(int count) {
  std::vector<unsigned> values(num, 1);
  CUdeviceptr const block = allocate(bytes);
  up(block, values.data());
  for (int i = 0; i < count; ++i) {
    launch(scale, block, block);
    down(values.data(), block);
    launch(add_one, block, block);
    std::printf("reads on: %u\n", sum(values.data()));
  }
}

// The host writes between copies, and the device reads its own buffer later.
void writes_between(int count) {
  unsigned* const values = host();
  fill(values, 2);
  CUdeviceptr const block = allocate(bytes);
  up(block, values);
  for (int i = 0; i < count; ++i) {
    launch(add_one, block, block);
    down(values, block);
    values[static_cast<std::size_t>(i)] = 0;
  }
  std::printf("writes between: %u\n", sum(values));
}

void parts(int) {
  unsigned* const values = host();
  fill(values, 2);
  CUdeviceptr const block = allocate(bytes);
  up(block, values);
  launch(add_one, block, block);
  down(values, block, bytes / 2);
  down(values + num / 2, block + num / 2 * 4, bytes - num / 2 * 4);
  std::printf("parts: %u\n", sum(values));
}

void offsets(int) {
  unsigned* const values = host();
  CUdeviceptr const block = allocate(2 * bytes);
  check(driver.set(block, 1, 2 * bytes), "set");
  down(values, block + 4096);
  std::printf("offsets: %u\n", sum(values));
}

void several_hosts(int) {
  unsigned* const first = host();
  unsigned* const second = host();
  fill(first, 2);
  CUdeviceptr const block = allocate(bytes);
  up(block, first);
  down(second, block);
  std::printf("several hosts: %u %u\n", sum(first), sum(second));
}

void several_devices(int) {
  unsigned* const values = host();
  fill(values, 2);
  CUdeviceptr const first = allocate(bytes);
  CUdeviceptr const second = allocate(bytes);
  up(first, values);
  up(second, values);
  launch(add_one, first, second);
  down(values, first);
  std::printf("several devices: %u\n", sum(values));
}

void asynchronous(int) {
  unsigned* const values = host();
  fill(values, 2);
  CUdeviceptr const block = allocate(bytes);
  check(driver.to_device_async(block, values, bytes, nullptr), "to device async");
  check(driver.synchronise(), "synchronise");
  down(values, block);
  std::printf("asynchronous: %u\n", sum(values));
}

unsigned static_values[num];
void not_of_the_heap(int) {
  unsigned own[num];
  fill(own, 1);
  fill(static_values, 2);
  CUdeviceptr const first = allocate(bytes);
  CUdeviceptr const second = allocate(bytes);
  up(first, own);
  up(second, static_values);
  launch(add_one, first, second);
  down(own, first);
  down(static_values, second);
  std::printf("not of the heap: %u %u\n", sum(own), sum(static_values));
}

// A thread that reads and writes its part of a merged buffer while another one separates it, again and again.
void contended(int count) {
  unsigned* const values = host();
  unsigned long long wrong = 0;
  CUdeviceptr const block = allocate(bytes);
  for (int i = 0; i < count; ++i) {
    check(driver.set(block, static_cast<unsigned char>(i), bytes), "set");
    down(values, block);
    std::atomic<bool> done{false};
    unsigned const expected = static_cast<unsigned char>(i) * 0x01010101U;
    std::thread other{[&] {
      unsigned rounds = 0;
      do {
        for (std::size_t k = 0; k < num; k += 64) {
          wrong += values[k] != expected;
          ++values[k + 1];
        }
        ++rounds;
      } while (!done.load());
      for (std::size_t k = 0; k < num; k += 64) wrong += values[k + 1] != expected + rounds;
    }};
    launch(add_one, block, block);
    done.store(true);
    other.join();
  }
  std::printf("contended: %llu wrong\n", wrong);
}

// --- programs by lot: allocations, writes, copies and kernels in any order, on blocks from many places

struct buffer {
  unsigned* values = nullptr;  // of the host; null: of the device
  CUdeviceptr block = 0;
  unsigned count = 0;
};

// Each depth is a place of its own.
__attribute__((noinline)) unsigned* host_at(int depth, std::size_t wanted) {
  unsigned* const found = depth > 0 ? host_at(depth - 1, wanted) : static_cast<unsigned*>(std::malloc(wanted));
  asm volatile("" ::: "memory");
  return found;
}
__attribute__((noinline)) CUdeviceptr device_at(int depth, std::size_t wanted) {
  CUdeviceptr const found = depth > 0 ? device_at(depth - 1, wanted) : allocate(wanted);
  asm volatile("" ::: "memory");
  return found;
}

void by_lot(int seed) {
  std::mt19937 lot{static_cast<unsigned>(seed)};
  auto const draw = [&](unsigned below) { return static_cast<unsigned>(lot() % below); };
  constexpr unsigned sizes[] = {16'384, 20'000, 33'333};
  std::vector<buffer> hosts;
  std::vector<buffer> devices;
  auto const any = [&](std::vector<buffer>& of) -> buffer& { return of[draw(static_cast<unsigned>(of.size()))]; };
  for (int step = 0; step < 120; ++step) {
    unsigned const what = draw(20);
    if (hosts.size() < 2 || (what == 0 && hosts.size() < 8)) {
      unsigned const count = sizes[draw(3)];
      hosts.push_back({host_at(static_cast<int>(draw(8)), count * 4), 0, count});
      fill(hosts.back().values, draw(1000), count);
    } else if (devices.size() < 2 || (what == 1 && devices.size() < 8)) {
      unsigned const count = sizes[draw(3)];
      devices.push_back({nullptr, device_at(static_cast<int>(draw(8)), count * 4), count});
      check(driver.set(devices.back().block, static_cast<unsigned char>(step), count * 4), "set");
    } else if (what == 2) {
      std::swap(any(hosts), hosts.back());
      std::free(hosts.back().values);
      hosts.pop_back();
    } else if (what == 3) {
      std::swap(any(devices), devices.back());
      release(devices.back().block);
      devices.pop_back();
    } else if (what < 6) {
      buffer& to = any(hosts);
      unsigned const from = draw(to.count);
      fill(to.values + from, draw(1000), 1 + draw(to.count - from));
    } else if (what < 8) {
      buffer& to = any(devices);
      buffer const& from = any(devices);
      launch(draw(2) == 0 ? add_one : scale, to.block, from.block, std::min(to.count, from.count));
    } else if (what == 8) {
      buffer& grown = any(hosts);
      unsigned const before = grown.count;
      grown.count = sizes[draw(3)];
      grown.values = static_cast<unsigned*>(std::realloc(grown.values, grown.count * 4));
      if (grown.count > before) fill(grown.values + before, 1, grown.count - before);
    } else if (what < 11) {
      buffer& to = any(devices);
      buffer const& from = any(hosts);
      up(to.block, from.values, (draw(3) == 0 ? 1 + draw(1000) : std::min(to.count, from.count)) * 4);
    } else if (what == 11) {
      buffer& to = any(hosts);
      buffer const& from = any(devices);
      unsigned const count = 1 + draw(1000);
      unsigned const at = draw(std::min(to.count, from.count) - count);
      down(to.values + at, from.block + at * 4, count * 4);
    } else if (what < 18) {
      buffer const& from = any(devices);
      for (buffer& to : hosts) {
        if (to.count == from.count && draw(2) == 0) down(to.values, from.block, from.count * 4);
      }
    } else {
      buffer const& read = any(hosts);
      std::printf("%d: %u\n", step, sum(read.values, read.count));
    }
  }
  for (buffer const& each : hosts) std::printf("%u\n", sum(each.values, each.count));
  for (buffer const& each : devices) {
    std::vector<unsigned> values(each.count);
    down(values.data(), each.block, each.count * 4);
    std::printf("%u\n", sum(values.data(), each.count));
  }
}

// Eight places, each of them with a way of its own with its buffers: those that are even are pairs.
void mixed(int seed) {
  std::mt19937 lot{static_cast<unsigned>(seed)};
  int ways[8];
  for (int& way : ways) way = static_cast<int>(lot() % 6);
  for (int i = 0; i < 24; ++i) {
    int const place = i % 8;
    int const way = ways[place];
    unsigned* const values = host_at(place, bytes);
    CUdeviceptr const block = device_at(place, bytes);
    fill(values, static_cast<unsigned>(lot()));
    up(block, values);
    launch(scale, block, block);
    down(values, block);
    if (way == 1) launch(add_one, block, block);
    if (way == 2) down(values, block);
    if (way == 3) {
      values[i] = 1;
      launch(add_one, block, block);
      down(values, block);
    }
    if (way == 4) values[i] = 1;
    if (way == 5) down(values, block, 4);
    std::printf("%d: %u\n", i, sum(values));
    if (i % 3 != 0) release(block);
    std::free(values);
    if (i % 3 == 0) release(block);
  }
  int pairs = 0;
  for (int const way : ways) pairs += way % 2 == 0 ? 1 : 0;
  std::printf("%d pairs\n", pairs);
}

}  // namespace

int main(int count, char** arguments) {
  std::map<std::string, std::function<void(int)>> const patterns{
      {"model", model},
      {"rounds", rounds},
      {"straying", straying},
      {"reads_on", reads_on},
      {"writes_between", writes_between},
      {"parts", parts},
      {"offsets", offsets},
      {"several_hosts", several_hosts},
      {"several_devices", several_devices},
      {"asynchronous", asynchronous},
      {"not_of_the_heap", not_of_the_heap},
      {"contended", contended},
      {"by_lot", by_lot},
      {"mixed", mixed},
  };
  if (count < 2 || !patterns.contains(arguments[1])) {
    std::fprintf(stderr, "pairs PATTERN [NUMBER]\n");
    return 2;
  }
  char const* const name = std::getenv("PAIRS_STRAY");
  stray = name == nullptr ? "" : name;
  char const* const way = std::getenv("PAIRS_WAY");
  driver = find_driver(way == nullptr ? "lookup" : way);
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  check(driver.init(0), "init");
  check(driver.retain(&context, 0), "retain");
  check(driver.set_current(context), "set current");
  check(driver.load(&module, "kernels of the double"), "load");
  check(driver.function(&add_one, module, "add_one"), "function");
  check(driver.function(&scale, module, "scale"), "function");
  patterns.at(arguments[1])(count > 2 ? std::atoi(arguments[2]) : 3);
  return 0;
}
