// The common part of the programs of this folder: their inputs by name, calls of the runtime with their errors reported, results that are
// printed and checked, and the GPU's time in kernels.
//
// A program prints the same bytes in every run. Exit codes: 2, it was called wrongly; 3, the CUDA runtime failed; 4, the result is not what
// the CPU computes.
//
//   GPUHEAP_PROGRAM_TIMES=FILE             gets the time in kernels when the program ends: {"kernel_us":12.5,"kernels":4}
//   GPUHEAP_PROGRAM_MEMORY=pinned|managed  the program is one that is written for memory that host and device share: no copy goes between
//   them
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace programs {

inline void check(cudaError_t result, char const* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  std::exit(3);
}

// Where arrays lie that both sides use: in two memories, between which copies go; or in one that both reach, pinned or managed.
enum class sharing { none, pinned, managed };

inline sharing memory() {
  static sharing const found = [] {
    char const* const name = std::getenv("GPUHEAP_PROGRAM_MEMORY");
    if (name == nullptr || *name == '\0') return sharing::none;
    if (std::strcmp(name, "pinned") == 0) return sharing::pinned;
    if (std::strcmp(name, "managed") == 0) return sharing::managed;
    std::fprintf(stderr, "GPUHEAP_PROGRAM_MEMORY: '%s' is neither pinned nor managed\n", name);
    std::exit(2);
  }();
  return found;
}

inline void* allocate_shared(std::size_t bytes) {
  void* out = nullptr;
  if (memory() == sharing::pinned) {
    check(cudaHostAlloc(&out, bytes, cudaHostAllocMapped), "cudaHostAlloc");
  } else {
    check(cudaMallocManaged(&out, bytes), "cudaMallocManaged");
  }
  return out;
}

inline void release_shared(void* block) {
  if (memory() == sharing::pinned) {
    check(cudaFreeHost(block), "cudaFreeHost");
  } else {
    check(cudaFree(block), "cudaFree");
  }
}

// The allocator of arrays: the host's, unless memory is shared.
template <class T>
struct array_allocator {
  using value_type = T;

  array_allocator() = default;
  template <class U>
  array_allocator(array_allocator<U> const&) {}

  T* allocate(std::size_t num) {
    return static_cast<T*>(memory() == sharing::none ? ::operator new(num * sizeof(T)) : allocate_shared(num * sizeof(T)));
  }
  void deallocate(T* block, std::size_t) {
    if (memory() == sharing::none) {
      ::operator delete(block);
    } else {
      release_shared(block);
    }
  }
  friend bool operator==(array_allocator const&, array_allocator const&) { return true; }
};

// An array of the host with a block of the device, which is the same block where memory is shared.
template <class T>
using array = std::vector<T, array_allocator<T>>;

// A block for `num` objects that the device alone uses, or that the host reads and writes in parts: one cudaMalloc.
template <class T>
T* allocate(std::size_t num) {
  if (memory() != sharing::none) return static_cast<T*>(allocate_shared(num * sizeof(T)));
  T* out = nullptr;
  check(cudaMalloc(&out, num * sizeof(T)), "cudaMalloc");
  return out;
}

// The device's block of an array: one cudaMalloc, unless memory is shared. Its release() leaves a shared one to the array.
template <class T>
T* allocate_for(array<T>& host) {
  return memory() == sharing::none ? allocate<T>(host.size()) : host.data();
}

inline void release(void* block) {
  if (memory() != sharing::none) {
    if (block != nullptr) release_shared(block);
    return;
  }
  check(cudaFree(block), "cudaFree");
}
template <class T>
void release(void* block, array<T> const& host) {
  if (block != host.data()) release(block);
}

// Where memory is shared, the host reads and writes it once the device is done, and does nothing for an array.
template <class T>
void upload(T* to, T const* from, std::size_t num) {
  if (memory() == sharing::none) {
    check(cudaMemcpy(to, from, num * sizeof(T), cudaMemcpyHostToDevice), "copy to the device");
  } else if (to != from) {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::copy(from, from + num, to);
  }
}
template <class T, class Allocator>
void upload(T* to, std::vector<T, Allocator> const& from) {
  upload(to, from.data(), from.size());
}

template <class T>
void download(T* to, T const* from, std::size_t num) {
  if (memory() == sharing::none) {
    check(cudaMemcpy(to, from, num * sizeof(T), cudaMemcpyDeviceToHost), "copy from the device");
    return;
  }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  if (to != from) std::copy(from, from + num, to);
}
template <class T, class Allocator>
void download(std::vector<T, Allocator>& to, T const* from) {
  download(to.data(), from, to.size());
}

inline unsigned blocks_for(std::size_t num, unsigned threads) { return static_cast<unsigned>((num + threads - 1) / threads); }

// The GPU's time in kernels, from events around each launch. Without GPUHEAP_PROGRAM_TIMES there are no events.
class kernel_clock {
 public:
  static kernel_clock& get() {
    static kernel_clock clock;
    return clock;
  }

  template <class Launch>
  void time(Launch const& launch) {
    if (file_ == nullptr) {
      launch();
      return;
    }
    cudaEvent_t const begin = record();
    launch();
    spans_.emplace_back(begin, record());
  }

  // Called once, before the program ends.
  void write() const {
    if (file_ == nullptr) return;
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    double all_us = 0;
    for (auto const& [begin, end] : spans_) {
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
      all_us += 1e3 * static_cast<double>(ms);
    }
    std::FILE* const out = std::fopen(file_, "w");
    if (out == nullptr || std::fprintf(out, "{\"kernel_us\":%.3f,\"kernels\":%zu}\n", all_us, spans_.size()) < 0 || std::fclose(out) != 0) {
      std::fprintf(stderr, "GPUHEAP_PROGRAM_TIMES: %s cannot be written\n", file_);
      std::exit(2);
    }
  }

 private:
  static cudaEvent_t record() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "cudaEventCreate");
    check(cudaEventRecord(event), "cudaEventRecord");
    return event;
  }

  char const* const file_ = std::getenv("GPUHEAP_PROGRAM_TIMES");
  std::vector<std::pair<cudaEvent_t, cudaEvent_t>> spans_;
};

// Makes one launch: timed("name", [&] { kernel<<<blocks, threads>>>(...); }).
template <class Launch>
void timed(char const* what, Launch const& launch) {
  kernel_clock::get().time(launch);
  check(cudaGetLastError(), what);
}

// Ends the program if the CPU's computation says otherwise.
inline void expect(bool right, char const* what) {
  if (right) return;
  std::printf("wrong: %s\n", what);
  std::exit(4);
}

// Whether `found` is as near to `wanted` as single precision and another order of additions allow.
inline bool near(double found, double wanted, double tolerance) {
  return std::abs(found - wanted) <= tolerance * std::max(1.0, std::abs(wanted));
}

// FNV-1a over the bytes of a result: the same for the same bytes alone.
template <class T, class Allocator>
void print_fingerprint(char const* what, std::vector<T, Allocator> const& values) {
  std::uint64_t hash = 0xcbf29ce484222325;
  auto const* const bytes = reinterpret_cast<unsigned char const*>(values.data());
  for (std::size_t i = 0; i < values.size() * sizeof(T); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  std::printf("%s %016llx\n", what, static_cast<unsigned long long>(hash));
}

// The same numbers on every machine.
class random_numbers {
 public:
  // Neighbouring seeds give sequences that have nothing to do with each other.
  explicit random_numbers(std::uint64_t seed) : state_(seed + 0x9e3779b97f4a7c15) {
    state_ = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9;
    state_ = (state_ ^ (state_ >> 27)) * 0x94d049bb133111eb;
  }

  std::uint32_t next() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    auto const high = static_cast<std::uint32_t>(state_ >> 33);
    return high ^ (high >> 15);
  }
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>((std::uint64_t{next()} << 1) * bound >> 32); }
  float between(float low, float high) { return low + (high - low) * static_cast<float>(next() >> 7) * 0x1p-24F; }

 private:
  std::uint64_t state_;
};

// --describe: the machine and the build, in the form in which gpuheap-bench tells them.
inline int describe() {
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  std::printf("{\"backend\":\"%s\",\"version\":\"%s\",\"allocators\":[],\"cases\":[],", PROGRAM_BACKEND, PROGRAM_VERSION);
  std::printf("\"build\":{\"compiler\":\"%s\",\"flags\":\"%s\",\"type\":\"%s\"},", PROGRAM_COMPILER, PROGRAM_FLAGS, PROGRAM_BUILD_TYPE);
  cudaDeviceProp device{};
  if (cudaError_t const result = cudaGetDeviceProperties(&device, 0); result != cudaSuccess) {
    std::printf("\"device\":null,\"device_error\":\"%s\"}\n", cudaGetErrorString(result));
    return 0;
  }
  std::printf("\"device\":{\"name\":\"%s\",\"driver_version\":%d,\"runtime_version\":%d,", device.name, driver, runtime);
  std::printf("\"compute_major\":%d,\"compute_minor\":%d,\"num_sms\":%d,\"total_bytes\":%zu}}\n", device.major, device.minor,
              device.multiProcessorCount, device.totalGlobalMem);
  return 0;
}

inline bool asks_for_description(int count, char** arguments) { return count == 2 && std::strcmp(arguments[1], "--describe") == 0; }

inline int finish() {
  kernel_clock::get().write();
  std::printf("right\n");
  return 0;
}

// An input that a program has by name.
struct input {
  char const* name;
  unsigned size;
};

// The whole of a program that is called with the name of one of its inputs.
template <class Body>
int run(int count, char** arguments, std::vector<input> const& inputs, Body const& body) {
  if (asks_for_description(count, arguments)) return describe();
  for (input const& each : inputs) {
    if (count != 2 || std::strcmp(arguments[1], each.name) != 0) continue;
    body(each.size);
    return finish();
  }
  std::string names;
  for (input const& each : inputs) names += std::string(names.empty() ? "" : ", ") + each.name;
  std::fprintf(stderr, "%s: name one input: %s; or --describe\n", arguments[0], names.c_str());
  return 2;
}

// A number that a program of rules/ is given as name=value.
struct parameter {
  char const* name;
  unsigned value;  // unless it is given
  unsigned most;
};

// The whole of a program that is called with parameters: body gets their values in order.
template <class Body>
int run_with(int count, char** arguments, std::vector<parameter> parameters, Body const& body) {
  if (asks_for_description(count, arguments)) return describe();
  for (int i = 1; i < count; ++i) {
    bool known = false;
    for (parameter& each : parameters) {
      std::size_t const length = std::strlen(each.name);
      if (std::strncmp(arguments[i], each.name, length) != 0 || arguments[i][length] != '=') continue;
      char* end = nullptr;
      unsigned long const value = std::strtoul(arguments[i] + length + 1, &end, 10);
      if (*end != '\0' || value < 1 || value > each.most) {
        std::fprintf(stderr, "%s: %s: expected a number from 1 to %u\n", arguments[0], arguments[i], each.most);
        return 2;
      }
      each.value = static_cast<unsigned>(value);
      known = true;
    }
    if (known) continue;
    std::string names;
    for (parameter const& each : parameters) names += std::string(names.empty() ? "" : ", ") + each.name + "=NUMBER";
    std::fprintf(stderr, "%s: '%s' is none of %s, --describe\n", arguments[0], arguments[i], names.c_str());
    return 2;
  }
  std::vector<unsigned> values;
  for (parameter const& each : parameters) values.push_back(each.value);
  body(values);
  return finish();
}

}  // namespace programs
