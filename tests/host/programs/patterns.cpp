// One program with many ways to use memory: patterns WAY PATTERN [NUMBER]. WAY is how it finds the driver (driver_api.hpp); `linked` where
// it is built so. Two more ways find the driver by look-ups, and its primary contexts as the CUDA runtime may: `early` makes one current
// before it is retained, `private` makes it current by a function that has no name. It prints results that depend on what kernels computed,
// and nothing that differs from run to run.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "driver_api.hpp"
#include "tests/host/double/private_table.hpp"

namespace {

driver_api driver;
std::string way;
CUfunction add_one;
CUfunction scale;

void check(CUresult result, char const* what) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s: error %d\n", what, static_cast<int>(result));
  std::fflush(stdout);
  std::_Exit(3);
}

driver_double::private_table const& unnamed() {
  void const* table = nullptr;
  check(driver.export_table(&table, &driver_double::private_table_id), "export table");
  return *static_cast<driver_double::private_table const*>(table);
}

void use_device(int ordinal) {
  CUcontext context = nullptr;
  if (way == "early") {
    check(unnamed().primary(&context, ordinal), "primary");
    check(driver.set_current(context), "set current");
    check(driver.retain(&context, ordinal), "retain");
    return;
  }
  if (way == "private") {
    check(driver.retain(&context, ordinal), "retain");
    check(unnamed().set_current(context), "set current, unnamed");
    return;
  }
  check(driver.retain(&context, ordinal), "retain");
  check(driver.set_current(context), "set current");
}

void start() {
  check(driver.init(0), "init");
  use_device(0);
  CUmodule module = nullptr;
  check(driver.load(&module, "kernels of the double"), "load");
  check(driver.function(&add_one, module, "add_one"), "function");
  check(driver.function(&scale, module, "scale"), "function");
}

CUdeviceptr allocate(std::size_t bytes) {
  CUdeviceptr out = 0;
  check(driver.allocate(&out, bytes), "allocate");
  return out;
}

void launch(CUfunction kernel, CUdeviceptr to, CUdeviceptr from, unsigned num) {
  void* parameters[] = {&to, &from, &num};
  check(driver.launch(kernel, (num + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr), "launch");
}

unsigned sum(std::vector<unsigned> const& values) {
  unsigned all = 0;
  for (unsigned const value : values) all = all * 31 + value;
  return all;
}

// 2 allocations, 2 copies, 2 kernels, 2 frees.
__attribute__((noinline)) unsigned one_round(unsigned num, unsigned seed) {
  std::vector<unsigned> values(num, seed);
  CUdeviceptr const first = allocate(num * 4);
  CUdeviceptr const second = allocate(num * 4);
  check(driver.to_device(first, values.data(), num * 4), "to device");
  launch(add_one, second, first, num);
  launch(scale, first, second, num);
  check(driver.to_host(values.data(), first, num * 4), "to host");
  check(driver.free(second), "free");
  check(driver.free(first), "free");
  return sum(values);
}

void rounds(int num) {
  for (int i = 0; i < num; ++i)
    std::printf("round %d: %u\n", i, one_round(static_cast<unsigned>(1000 + 100 * (i % 4)), static_cast<unsigned>(i)));
}

// Sizes and lifetimes that overlap in part, so that packing has something to do: like phases of a program, each with its own temporaries.
void phases(int num) {
  std::vector<unsigned> result(256, 1);
  CUdeviceptr const kept = allocate(1024);
  check(driver.to_device(kept, result.data(), 1024), "to device");
  for (int phase = 0; phase < num; ++phase) {
    std::vector<CUdeviceptr> temporaries;
    for (int i = 0; i <= phase; ++i) temporaries.push_back(allocate(static_cast<std::size_t>(1024 << i)));
    CUdeviceptr from = kept;
    for (CUdeviceptr const to : temporaries) {
      launch(add_one, to, from, 256);
      from = to;
    }
    launch(scale, kept, from, 256);
    for (CUdeviceptr const each : temporaries) check(driver.free(each), "free");
  }
  check(driver.to_host(result.data(), kept, 1024), "to host");
  check(driver.free(kept), "free");
  std::printf("phases: %u\n", sum(result));
}

void kinds(int) {
  CUdeviceptr managed = 0;
  check(driver.allocate_managed(&managed, 4096, CU_MEM_ATTACH_GLOBAL), "managed");
  void* pinned = nullptr;
  check(driver.allocate_pinned(&pinned, 8192, 0), "pinned");
  CUdeviceptr pitched = 0;
  std::size_t pitch = 0;
  check(driver.allocate_pitched(&pitched, &pitch, 100, 16, 4), "pitched");
  CUstream stream = nullptr;
  check(driver.make_stream(&stream, 0), "stream");
  CUdeviceptr ordered = 0;
  check(driver.allocate_ordered(&ordered, 2048, stream), "ordered");
  std::vector<char> host(1 << 16, 7);
  check(driver.register_host(host.data(), host.size(), 0), "register");
  std::memset(pinned, 5, 8192);
  check(driver.to_device_async(managed, pinned, 4096, stream), "to device async");
  check(driver.to_device(pitched, host.data(), 100), "to device");
  check(driver.copy(ordered, managed, 2048), "copy");
  check(driver.on_device(managed, ordered, 1024), "on device");
  check(driver.set(managed, 1, 512), "set");
  CUDA_MEMCPY2D rectangle{};
  rectangle.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  rectangle.srcDevice = pitched;
  rectangle.srcPitch = pitch;
  rectangle.dstMemoryType = CU_MEMORYTYPE_HOST;
  rectangle.dstHost = host.data();
  rectangle.dstPitch = 100;
  rectangle.WidthInBytes = 100;
  rectangle.Height = 2;
  check(driver.copy_rectangle(&rectangle), "rectangle");
  CUdeviceptr to[2] = {managed, managed + 64};
  CUdeviceptr from[2] = {ordered, ordered + 128};
  std::size_t bytes[2] = {32, 48};
  CUmemcpyAttributes attributes{};
  std::size_t index = 0;
  check(driver.copy_batch(to, from, bytes, 2, &attributes, &index, 1, stream), "batch");
  check(driver.synchronise_stream(stream), "synchronise");
  std::printf("kinds: %d %d\n", host[0], static_cast<int>(pitch % 512));
  check(driver.unregister_host(host.data()), "unregister");
  check(driver.free_ordered(ordered, stream), "free ordered");
  check(driver.free(pitched), "free");
  check(driver.free_pinned(pinned), "free pinned");
  check(driver.free(managed), "free");
}

// Has no frame of its own.
[[gnu::always_inline]] inline void allocate_for_good(std::size_t bytes) { allocate(bytes); }

void leak(int num) {
  for (int i = 0; i < num; ++i) allocate_for_good(static_cast<std::size_t>(1000 * (i + 1)));
  std::printf("leak: %d\n", num);
}

void threads(int num) {
  std::vector<std::thread> all;
  std::vector<unsigned> sums(static_cast<std::size_t>(num));
  for (int t = 0; t < num; ++t) {
    all.emplace_back([t, &sums] {
      use_device(0);
      for (int i = 0; i < 50; ++i) sums[static_cast<std::size_t>(t)] += one_round(static_cast<unsigned>(100 + t), static_cast<unsigned>(i));
    });
  }
  for (std::thread& each : all) each.join();
  std::printf("threads: %u\n", sum(sums));
}

// Each device gets its own block; both live at once.
void devices(int num) {
  std::vector<CUdeviceptr> blocks;
  for (int d = 0; d < num; ++d) {
    use_device(d);
    blocks.push_back(allocate(4096));
    check(driver.set(blocks.back(), static_cast<unsigned char>(d), 4096), "set");
  }
  for (CUdeviceptr const each : blocks) check(driver.free(each), "free");
  std::printf("devices: %d\n", num);
}

void forks(int) {
  one_round(100, 1);
  pid_t const child = fork();
  if (child == 0) {
    driver = find_driver("dlsym");
    start();
    std::printf("child: %u\n", one_round(200, 2));
    std::fflush(stdout);
    std::_Exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("parent: %u, child ended with %d\n", one_round(300, 3), WEXITSTATUS(status));
}

// Frees that a correct program does not make.
void frees_twice(int) {
  CUdeviceptr const block = allocate(4096);
  std::printf("inside: %d\n", static_cast<int>(driver.free(block + 512)));
  check(driver.free(block), "free");
  std::printf("twice: %d\n", static_cast<int>(driver.free(block)));
  std::printf("null: %d\n", static_cast<int>(driver.free(0)));
  std::printf("as pinned: %d\n", static_cast<int>(driver.free_pinned(reinterpret_cast<void*>(block))));
}

// Grows with its argument: profiled with a small one, run with a large one.
void grows(int num) {
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < num; ++i) {
    CUdeviceptr block = 0;
    CUresult const result = driver.allocate(&block, static_cast<std::size_t>(num) * 1000);
    if (result != CUDA_SUCCESS) std::printf("allocation %d: error %d\n", i, static_cast<int>(result));
    if (result == CUDA_SUCCESS) blocks.push_back(block);
  }
  for (CUdeviceptr const each : blocks) check(driver.free(each), "free");
  std::printf("grows: %zu\n", blocks.size());
}

// With 0 it shares its block with nobody.
void asks(int num) {
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  check(driver.free_memory(&before, &total), "free memory");
  CUdeviceptr const block = allocate(1 << 20);
  check(driver.free_memory(&after, &total), "free memory");
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  check(driver.range(&base, &bytes, block + 100), "range");
  CUipcMemHandle handle{};
  std::printf("asks: %zu %zu %d, shared: %d\n", before - after, bytes, base == block ? 1 : 0,
              num > 0 ? static_cast<int>(driver.share(&handle, block)) : 0);
  check(driver.free(block), "free");
}

void captures(int) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  check(driver.make_stream(&stream, 0), "stream");
  for (int round = 0; round < 2; ++round) {
    CUdeviceptr const block = allocate(4096);
    if (round == 0) check(driver.begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    if (round == 0) check(driver.end_capture(stream, &graph), "end");
    check(driver.free(block), "free");
  }
  std::printf("captures\n");
}

// Blocks that come and go while a graph is captured that may name them: none is where another was.
void captures_again(int num) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  std::set<CUdeviceptr> places;
  check(driver.make_stream(&stream, 0), "stream");
  for (int i = 0; i < num; ++i) {
    CUdeviceptr const block = allocate(4096);
    check(driver.begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    check(driver.end_capture(stream, &graph), "end");
    check(driver.set(block, 1, 4096), "set");
    places.insert(block);
    check(driver.free(block), "free");
  }
  std::printf("captures again: %zu places\n", places.size());
}

void resets(int num) {
  for (int i = 0; i < num; ++i) {
    std::printf("before reset: %u\n", one_round(100, static_cast<unsigned>(i)));
    check(driver.reset(0), "reset");
    use_device(0);
  }
}

// As the CUDA runtime resets a device.
void unnamed_resets(int num) {
  for (int i = 0; i < num; ++i) {
    std::printf("before reset: %u\n", one_round(100, static_cast<unsigned>(i)));
    (void)allocate(4096);  // dies with the context
    check(unnamed().reset(0), "reset");
    use_device(0);
  }
}

// A context of its own beside the primary one: what lives in it survives the other's reset.
void own_context(int num) {
  CUcontext context = nullptr;
  check(driver.create_context(&context, nullptr, 0, 0), "create context");
  for (int i = 0; i < num; ++i) {
    CUdeviceptr const block = allocate(4096);
    check(driver.set(block, 1, 4096), "set");
    check(driver.reset(0), "reset");
    check(driver.set(block, 2, 4096), "set after the reset");
    check(driver.free(block), "free");
  }
  std::printf("own context: %d\n", num);
}

// Two contexts of a device side by side, each with blocks of its own, which are freed while the other is current.
void two_contexts(int num) {
  CUcontext own = nullptr;
  CUcontext primary = nullptr;
  check(driver.retain(&primary, 0), "retain");
  CUdeviceptr kept = 0;
  for (int i = 0; i < num; ++i) {
    check(driver.set_current(primary), "set current");
    CUdeviceptr const block = allocate(4096);
    check(driver.set(block, 1, 4096), "set");
    if (own == nullptr) check(driver.create_context(&own, nullptr, 0, 0), "create context");
    check(driver.set_current(own), "set current");
    check(driver.free(block), "free the primary context's");
    if (kept != 0) check(driver.free(kept), "free");
    kept = allocate(4096);
    check(driver.set(kept, 2, 4096), "set");
  }
  check(driver.free(kept), "free");
  std::printf("two contexts: %d\n", 2 * num);
}

// While one device's stream is captured another device is used for the first time. With 1 and more the capture lets the program have
// memory, and that many blocks come and go meanwhile; with -1 it does not, and the program asks nevertheless; with 0 it waits.
void captures_elsewhere(int num) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  check(driver.make_stream(&stream, 0), "stream");
  check(driver.begin_capture(stream, num > 0 ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
  use_device(1);
  for (int i = 0; i < num; ++i) check(driver.free(allocate(4096)), "free");
  CUdeviceptr refused = 0;
  if (num < 0) std::printf("during the capture: %d\n", static_cast<int>(driver.allocate(&refused, 4096)));
  check(driver.end_capture(stream, &graph), "end");
  std::printf("captures elsewhere: %u\n", one_round(100, 1));
}

// Requests and questions of a thread that has no context yet.
void without_context(int) {
  std::thread{[] {
    CUdeviceptr block = 0;
    std::size_t free = 0;
    std::size_t total = 0;
    std::printf("without a context: %d", static_cast<int>(driver.allocate(&block, 4096)));
    std::printf(" %d\n", static_cast<int>(driver.free_memory(&free, &total)));
    use_device(0);
    std::printf("with it: %u\n", one_round(100, 1));
  }}.join();
}

// The primary context ends with its last release, and comes again; then a second holder keeps it through releases.
void releases(int num) {
  for (int i = 0; i < 2 * num; ++i) {
    std::printf("before release: %u\n", one_round(100, static_cast<unsigned>(i)));
    if (i == num) use_device(0);
    check(driver.release(0), "release");
    use_device(0);
  }
}

// Frees when the process is ending, after all that was loaded since its start has ended.
CUdeviceptr kept_to_the_end = 0;
__attribute__((destructor)) void free_at_the_end() {
  if (kept_to_the_end == 0) return;
  std::printf("at the end: %d\n", static_cast<int>(driver.free(kept_to_the_end)));
  std::fflush(stdout);
}
void frees_late(int) { kept_to_the_end = allocate(4096); }

void dies(int) {
  one_round(100, 1);
  allocate(12345);
  std::raise(SIGKILL);
}

void leaves(int) {
  one_round(100, 1);
  std::printf("leaves\n");
  std::fflush(stdout);
  _exit(4);
}

// Many calls, for the time that the library adds to each.
void many(int num) {
  CUdeviceptr const first = allocate(4096);
  CUdeviceptr const second = allocate(4096);
  auto const from = std::chrono::steady_clock::now();
  for (int i = 0; i < num; ++i) launch(add_one, second, first, 1);
  std::printf("%.0f ns a call\n", std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - from).count() / num);
  check(driver.free(second), "free");
  check(driver.free(first), "free");
}

void many_requests(int num) {
  auto const from = std::chrono::steady_clock::now();
  for (int i = 0; i < num; ++i) check(driver.free(allocate(4096)), "free");
  std::printf("%.0f ns a pair\n", std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - from).count() / num);
}

}  // namespace

int main(int count, char** arguments) {
  std::map<std::string, std::function<void(int)>> const patterns{
      {"rounds", rounds},
      {"phases", phases},
      {"kinds", kinds},
      {"leak", leak},
      {"threads", threads},
      {"devices", devices},
      {"forks", forks},
      {"twice", frees_twice},
      {"grows", grows},
      {"asks", asks},
      {"captures", captures},
      {"captures_again", captures_again},
      {"resets", resets},
      {"unnamed_resets", unnamed_resets},
      {"dies", dies},
      {"leaves", leaves},
      {"frees_late", frees_late},
      {"many", many},
      {"requests", many_requests},
      {"own_context", own_context},
      {"two_contexts", two_contexts},
      {"releases", releases},
      {"captures_elsewhere", captures_elsewhere},
      {"without_context", without_context},
  };
  if (count < 3 || !patterns.contains(arguments[2])) {
    std::fprintf(stderr, "patterns WAY PATTERN [NUMBER]\n");
    return 2;
  }
#ifdef PROGRAM_IS_LINKED
#define USE(member, base, symbol, version) driver.member = &symbol;
  DRIVER_API(USE)
#undef USE
#else
  way = arguments[1];
  driver = find_driver(arguments[1]);
#endif
  start();
  patterns.at(arguments[2])(count > 3 ? std::atoi(arguments[3]) : 3);
  return 0;
}
