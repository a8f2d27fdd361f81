// gpuheap-host-probe: requests series of equal blocks from the driver's allocators, and prints their addresses and times. `gpuheap host
// probe` chooses the series.
//
// Standard input: a line for each series, ALLOCATOR BYTES COUNT, where ALLOCATOR is device, managed, host, async or kernel (malloc in a
// kernel). Standard output: a line of JSON about the machine, then one for each series, as it ends. `gpuheap-host-probe ptx` prints the
// kernels, and `gpuheap-host-probe --describe` the machine and the build as gpuheap-bench prints them.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>

#include "in_kernel.hpp"
#include "kernels.hpp"
#include "requests.hpp"

namespace gpuheap::probe {
namespace {

constexpr char const* of_driver[] = {"device", "managed", "host", "async"};

std::string quoted(std::string const& text) {
  std::string out = "\"";
  for (char const each : text) {
    if (each == '"' || each == '\\') out += '\\';
    out += static_cast<unsigned char>(each) < ' ' ? ' ' : each;
  }
  return out + '"';
}

std::string list(char const* name, std::vector<std::uint64_t> const& values) {
  std::string out = ", \"" + std::string{name} + "\": [";
  for (std::size_t i = 0; i < values.size(); ++i) out += (i == 0 ? "" : ",") + std::to_string(values[i]);
  return out + "]";
}

void print(series const& found) {
  std::cout << ", \"error\": " << found.error << ", \"free_bytes_before\": " << found.free_bytes_before
            << ", \"free_bytes_released\": " << found.free_bytes_released << list("addresses", found.addresses)
            << list("request_ns", found.request_ns) << list("kernel_ns", found.kernel_ns) << list("again_ns", found.again_ns)
            << list("free_bytes", found.free_bytes) << list("release_ns", found.release_ns) << "}" << std::endl;
}

void print(kernel_series const& found) {
  std::cout << list("addresses", found.addresses) << list("request_cycles", found.request_cycles)
            << list("release_cycles", found.release_cycles) << "}" << std::endl;
}

// The device of --describe as JSON. Throws if there is none.
std::string described_device() {
  driver_api const driver = open_driver();
  check(driver.init(0), "cuInit");
  CUdevice device = 0;
  check(driver.device(&device, 0), "cuDeviceGet");
  char name[256] = {};
  check(driver.name(name, sizeof name - 1, device), "cuDeviceGetName");
  int version = 0, major = 0, minor = 0, processors = 0;
  check(driver.version(&version), "cuDriverGetVersion");
  check(driver.attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device), "cuDeviceGetAttribute");
  check(driver.attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device), "cuDeviceGetAttribute");
  check(driver.attribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device), "cuDeviceGetAttribute");
  std::size_t total = 0;
  check(driver.total(&total, device), "cuDeviceTotalMem");
  std::ostringstream out;
  // The probe uses no runtime: its version is the driver's.
  out << "{\"name\":" << quoted(name) << ",\"driver_version\":" << version << ",\"runtime_version\":" << version
      << ",\"compute_major\":" << major << ",\"compute_minor\":" << minor << ",\"num_sms\":" << processors << ",\"total_bytes\":" << total
      << "}";
  return out.str();
}

int describe() {
  std::string device = "null", error;
  try {
    device = described_device();
  } catch (failure const& failed) {
    error = failed.what + " failed with CUDA error " + std::to_string(failed.code);
  } catch (std::exception const& missing) {
    error = missing.what();
  }
  std::cout << R"({"backend":")" PROGRAM_BACKEND R"(","version":")" PROGRAM_VERSION R"(","allocators":[],"cases":[],)"
            << R"("build":{"compiler":")" PROGRAM_COMPILER R"(","flags":")" PROGRAM_FLAGS R"(","type":")" PROGRAM_BUILD_TYPE R"("},)"
            << "\"device\":" << device << ",\"device_error\":" << quoted(error) << "}\n";
  return 0;
}

// Answers the requests, line by line. Returns the exit code.
int serve(driver_api const& driver) {
  check(driver.init(0), "cuInit");
  CUdevice device = 0;
  check(driver.device(&device, 0), "cuDeviceGet");
  char name[256] = {};
  check(driver.name(name, sizeof name - 1, device), "cuDeviceGetName");
  int version = 0;
  check(driver.version(&version), "cuDriverGetVersion");
  std::size_t total = 0;
  check(driver.total(&total, device), "cuDeviceTotalMem");
  CUcontext context = nullptr;
  check(driver.retain(&context, device), "cuDevicePrimaryCtxRetain");
  check(driver.use(context), "cuCtxSetCurrent");
  std::string const heap_refused = in_kernel::set_heap(driver);
  CUmodule module = nullptr;
  check(driver.load(&module, kernels), "cuModuleLoadData");
  CUfunction touch = nullptr;
  check(driver.function(&touch, module, "add_one"), "cuModuleGetFunction");
  in_kernel const heap{driver, module, heap_refused};
  requests asked{driver, touch};
  std::cout << "{\"probe\": 1, \"device\": " << quoted(name) << ", \"driver\": " << version << ", \"memory_bytes\": " << total
            << ", \"heap_bytes\": " << in_kernel::heap_bytes << ", \"lacks\": {\"kernel\": " << quoted(heap.lacks());
  for (char const* const each : of_driver) std::cout << ", \"" << each << "\": " << quoted(asked.lacks(each));
  std::cout << "}}" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words{line};
    std::string allocator;
    std::size_t bytes = 0;
    unsigned count = 0;
    if (!(words >> allocator >> bytes >> count) || bytes < 4 || count == 0) {
      std::cerr << "a line is ALLOCATOR BYTES COUNT, with at least 4 bytes and one request: '" << line << "'\n";
      return 2;
    }
    bool const known = allocator == "kernel" || std::find(std::begin(of_driver), std::end(of_driver), allocator) != std::end(of_driver);
    std::string const lacks = !known                  ? "it is none of device, managed, host, async and kernel"
                              : allocator == "kernel" ? heap.lacks()
                                                      : asked.lacks(allocator);
    if (!lacks.empty()) {
      std::cerr << "allocator " << allocator << ": " << lacks << "\n";
      return 2;
    }
    std::ostringstream head;
    head << "{\"allocator\": " << quoted(allocator) << ", \"bytes\": " << bytes;
    if (allocator == "kernel") {
      kernel_series const found = heap.run(bytes, count);
      std::cout << head.str();
      print(found);
    } else {
      series const found = asked.run(allocator, bytes, count);
      std::cout << head.str();
      print(found);
    }
  }
  return 0;
}

}  // namespace
}  // namespace gpuheap::probe

int main(int count, char** arguments) {
  if (count == 2 && std::string{arguments[1]} == "ptx") {
    std::fputs(gpuheap::probe::kernels, stdout);
    return 0;
  }
  if (count == 2 && std::string{arguments[1]} == "--describe") return gpuheap::probe::describe();
  try {
    return gpuheap::probe::serve(gpuheap::probe::open_driver());
  } catch (gpuheap::probe::failure const& failed) {
    std::cerr << failed.what << " failed with CUDA error " << failed.code << "\n";
  } catch (std::exception const& error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}
