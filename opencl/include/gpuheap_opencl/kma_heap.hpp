// KMA for OpenCL: a heap in a buffer, for kernels to allocate from.
//
//   gpuheap::opencl::kma_heap heap{context, device, queue, bytes};
//   char const* texts[] = {gpuheap::opencl::kma_source(), own_kernels};
//   cl_program program = clCreateProgramWithSource(context, 2, texts, nullptr, &error);
//   clBuildProgram(program, 1, &device, heap.build_options().c_str(), nullptr, nullptr);
//   cl_mem buffer = heap.buffer();
//   clSetKernelArg(kernel, 0, sizeof buffer, &buffer);       // __kernel void own(__global kma_heap* heap, ...) { ... kma_malloc(heap, 64)
//   ... }
//
// The head of kma.cl lists the functions that kernels may call. Blocks stay from kernel to kernel, as offsets from the heap's start.
#pragma once

#include <gpuheap_opencl/layout.hpp>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace gpuheap::opencl {

// An error of OpenCL with its code, or a size that no heap has.
class error : public std::runtime_error {
 public:
  error(std::string const& what, cl_int code) : std::runtime_error(what), code_{code} {}
  [[nodiscard]] cl_int code() const { return code_; }

 private:
  cl_int code_;
};

// kma.cl's text.
[[nodiscard]] char const* kma_source();
// kma_containers.cl's text, to stand behind it: a list and a queue in pages of the heap.
[[nodiscard]] char const* kma_containers_source();

// Owns the heap's buffer. One thread of the host at a time may use it.
class kma_heap {
 public:
  // A heap of at most `bytes`, ready for kernels that are put into `queue` from now on. Throws error.
  kma_heap(cl_context context, cl_device_id device, cl_command_queue queue, std::uint64_t bytes, kma_config config = {});
  ~kma_heap() { release(); }
  kma_heap(kma_heap const&) = delete;
  kma_heap& operator=(kma_heap const&) = delete;

  [[nodiscard]] cl_mem buffer() const { return buffer_; }
  [[nodiscard]] kma_head const& geometry() const { return head_; }
  // For programs that begin with kma_source().
  [[nodiscard]] std::string build_options() const { return config_.build_options(); }

  // Forgets all blocks, after the kernels that are in the queue.
  void reset();
  // Looks at the whole heap. Waits for the queue.
  [[nodiscard]] kma_report verify() const;

 private:
  void initialise();
  void release() noexcept;

  cl_command_queue queue_;
  kma_config config_;
  kma_head head_;
  cl_program program_ = nullptr;
  cl_kernel init_ = nullptr;
  cl_mem buffer_ = nullptr;
};

}  // namespace gpuheap::opencl
