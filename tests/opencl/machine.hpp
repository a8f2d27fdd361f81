// An OpenCL device for tests: buffers, programs that begin with kma.cl, launches.
#pragma once

#include <gpuheap_opencl/kma_heap.hpp>

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace opencl_test {

inline void check(cl_int code, char const* doing) {
  if (code != CL_SUCCESS) throw gpuheap::opencl::error(std::string(doing) + " failed with code " + std::to_string(code), code);
}

// The first device that there is, with a queue. One for the whole program.
class machine {
 public:
  static machine& get() {
    static machine the;
    return the;
  }

  [[nodiscard]] cl_context context() const { return context_; }
  [[nodiscard]] cl_device_id device() const { return device_; }
  [[nodiscard]] cl_command_queue queue() const { return queue_; }
  // The largest size of a buffer.
  [[nodiscard]] std::uint64_t largest_buffer() const { return info<cl_ulong>(CL_DEVICE_MAX_MEM_ALLOC_SIZE); }

  // A kernel of kernels.cl, built for heaps of this configuration and language.
  [[nodiscard]] cl_kernel kernel(std::string const& options, char const* name) {
    cl_kernel& found = kernels_[{options, name}];
    if (found != nullptr) return found;
    cl_program& program = programs_[options];
    if (program == nullptr) program = build(options);
    cl_int code = CL_SUCCESS;
    found = clCreateKernel(program, name, &code);
    check(code, name);
    return found;
  }

 private:
  machine() {
    cl_platform_id platforms[8];
    cl_uint count = 0;
    check(clGetPlatformIDs(8, platforms, &count), "looking for an OpenCL platform");
    for (cl_uint p = 0; p < count && p < 8 && device_ == nullptr; ++p)
      (void)clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 1, &device_, nullptr);
    if (device_ == nullptr) throw gpuheap::opencl::error("no OpenCL device", CL_DEVICE_NOT_FOUND);
    cl_int code = CL_SUCCESS;
    context_ = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &code);
    check(code, "making a context");
    queue_ = clCreateCommandQueue(context_, device_, 0, &code);
    check(code, "making a queue");
  }
  template <class T>
  [[nodiscard]] T info(cl_device_info what) const {
    T value{};
    check(clGetDeviceInfo(device_, what, sizeof value, &value, nullptr), "asking a device");
    return value;
  }
  [[nodiscard]] cl_program build(std::string const& options) const;

  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::map<std::string, cl_program> programs_;
  std::map<std::pair<std::string, std::string>, cl_kernel> kernels_;
};

// In the file that CMake makes of kernels.cl.
[[nodiscard]] char const* kernels_source();

inline cl_program machine::build(std::string const& options) const {
  char const* texts[] = {gpuheap::opencl::kma_source(), gpuheap::opencl::kma_containers_source(), kernels_source()};
  cl_int code = CL_SUCCESS;
  cl_program const program = clCreateProgramWithSource(context_, 3, texts, nullptr, &code);
  check(code, "making a program");
  if (clBuildProgram(program, 1, &device_, (options + " -Werror").c_str(), nullptr, nullptr) != CL_SUCCESS) {
    std::string log(1 << 16, '\0');
    (void)clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, log.size(), log.data(), nullptr);
    throw gpuheap::opencl::error("building the kernels: " + log, CL_BUILD_PROGRAM_FAILURE);
  }
  return program;
}

// Values on the device.
template <class T>
class array {
 public:
  explicit array(std::vector<T> const& values) : size_{values.size()} {
    cl_int code = CL_SUCCESS;
    buffer_ = clCreateBuffer(machine::get().context(), CL_MEM_READ_WRITE, bytes(), nullptr, &code);
    check(code, "making a buffer");
    write(values);
  }
  explicit array(std::size_t size) : array(std::vector<T>(size)) {}
  ~array() { clReleaseMemObject(buffer_); }
  array(array const&) = delete;
  array& operator=(array const&) = delete;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] cl_mem buffer() const { return buffer_; }
  void write(std::vector<T> const& values) {
    if (!values.empty()) {
      check(
          clEnqueueWriteBuffer(machine::get().queue(), buffer_, CL_TRUE, 0, values.size() * sizeof(T), values.data(), 0, nullptr, nullptr),
          "writing a buffer");
    }
  }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(size_);
    if (size_ != 0) {
      check(clEnqueueReadBuffer(machine::get().queue(), buffer_, CL_TRUE, 0, size_ * sizeof(T), values.data(), 0, nullptr, nullptr),
            "reading a buffer");
    }
    return values;
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return size_ == 0 ? sizeof(T) : size_ * sizeof(T); }
  std::size_t size_;
  cl_mem buffer_ = nullptr;
};

template <class T>
void set_argument(cl_kernel kernel, cl_uint index, T const& value) {
  check(clSetKernelArg(kernel, index, sizeof value, &value), "setting an argument");
}
template <class T>
void set_argument(cl_kernel kernel, cl_uint index, array<T> const& value) {
  cl_mem const buffer = value.buffer();
  check(clSetKernelArg(kernel, index, sizeof buffer, &buffer), "setting an argument");
}
inline void set_argument(cl_kernel kernel, cl_uint index, gpuheap::opencl::kma_heap const& heap) {
  cl_mem const buffer = heap.buffer();
  check(clSetKernelArg(kernel, index, sizeof buffer, &buffer), "setting an argument");
}

// Runs a kernel on `items` work-items, and waits.
template <class... Arguments>
void run(std::string const& options, char const* name, std::size_t items, Arguments const&... arguments) {
  if (items == 0) return;
  cl_kernel const kernel = machine::get().kernel(options, name);
  cl_uint index = 0;
  (set_argument(kernel, index++, arguments), ...);
  // Groups of 16 where they fit: many groups, which run at the same time.
  std::size_t const group = items % 16 == 0 ? 16 : 1;
  check(clEnqueueNDRangeKernel(machine::get().queue(), kernel, 1, nullptr, &items, &group, 0, nullptr, nullptr), name);
  check(clFinish(machine::get().queue()), name);
}

}  // namespace opencl_test
