#include <gpuheap_opencl/kma_heap.hpp>

#include <initializer_list>

namespace gpuheap::opencl {

// In the file that CMake makes of kma_init.cl.
[[nodiscard]] char const* kma_init_source();

namespace {

void check(cl_int code, char const* doing) {
  if (code != CL_SUCCESS) throw error("gpuheap: OpenCL: " + std::string(doing) + " failed with code " + std::to_string(code), code);
}

}  // namespace

kma_heap::kma_heap(cl_context context, cl_device_id device, cl_command_queue queue, std::uint64_t bytes, kma_config config)
    : queue_{queue}, config_{config}, head_{plan(config, bytes)} {
  if (head_.num_superblocks == 0) {
    throw error(
        "gpuheap: a heap of " + std::to_string(bytes) + " bytes is too small: give it at least " + std::to_string(bytes_for(config, 1)),
        CL_INVALID_BUFFER_SIZE);
  }
  try {
    cl_int code = CL_SUCCESS;
    buffer_ = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes_for(config, head_.num_superblocks), nullptr, &code);
    check(code, "making the heap's buffer");
    char const* text = kma_init_source();
    program_ = clCreateProgramWithSource(context, 1, &text, nullptr, &code);
    check(code, "making a program");
    check(clBuildProgram(program_, 1, &device, nullptr, nullptr, nullptr), "building kma_init.cl");
    init_ = clCreateKernel(program_, "kma_init", &code);
    check(code, "making a kernel");
    initialise();
  } catch (...) {
    release();
    throw;
  }
}

void kma_heap::release() noexcept {
  if (init_ != nullptr) clReleaseKernel(init_);
  if (program_ != nullptr) clReleaseProgram(program_);
  if (buffer_ != nullptr) clReleaseMemObject(buffer_);
}

void kma_heap::initialise() {
  // The head first: the kernel writes what lies behind it.
  check(clEnqueueWriteBuffer(queue_, buffer_, CL_TRUE, 0, sizeof head_, &head_, 0, nullptr, nullptr), "writing the heap's head");
  cl_ulong const behind_head = sizeof head_ / 4, behind_heads = behind_head + config_.num_classes() * config_.heads_per_class;
  cl_ulong const free_set = head_.sets_at / 4, end = head_.superblocks_at / 4;
  cl_uint const num_superblocks = head_.num_superblocks, num_leaves = head_.num_leaves;
  struct argument {
    std::size_t bytes;
    void const* at;
  };
  cl_uint index = 0;
  for (auto const& [size, at] : std::initializer_list<argument>{{sizeof buffer_, &buffer_},
                                                                {sizeof behind_head, &behind_head},
                                                                {sizeof behind_heads, &behind_heads},
                                                                {sizeof free_set, &free_set},
                                                                {sizeof end, &end},
                                                                {sizeof num_superblocks, &num_superblocks},
                                                                {sizeof num_leaves, &num_leaves}}) {
    check(clSetKernelArg(init_, index++, size, at), "setting an argument");
  }
  std::size_t const group = 64, all = end < 65536 ? (end + group - 1) / group * group : 65536;
  check(clEnqueueNDRangeKernel(queue_, init_, 1, nullptr, &all, nullptr, 0, nullptr, nullptr), "initialising the heap");
}

void kma_heap::reset() { initialise(); }

kma_report kma_heap::verify() const {
  std::vector<std::uint32_t> words(head_.superblocks_at / 4);
  check(clEnqueueReadBuffer(queue_, buffer_, CL_TRUE, 0, words.size() * 4, words.data(), 0, nullptr, nullptr), "reading the heap's words");
  return examine(config_, words);
}

}  // namespace gpuheap::opencl
