// A PyTorch extension that builds a ragged tensor in one kernel: row i is a block of the heap with counts[i] elements. The heap lies in the
// memory of a tensor, and is used in the order of torch's current stream.
//
//   import gpuheap, torch, torch.utils.cpp_extension as cpp
//
//   ragged = cpp.load("ragged", ["ragged_tensor_torch.cu"], extra_include_paths=[str(gpuheap.include_path())],
//                     extra_cuda_cflags=["-std=c++20"])
//   heap = ragged.Heap(1 << 30)
//   rows = heap.build(torch.randint(0, 100, (1000,), dtype=torch.int32, device="cuda"))  # a list of tensors, which keep the heap alive
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>
#include <gpuheap/heap.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace {

__global__ void build_rows(gpuheap::heap_ref<> heap, int const* counts, float** rows, int n) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  auto* const row = static_cast<float*>(heap.malloc(sizeof(float) * static_cast<size_t>(counts[i])));
  rows[i] = row;
  if (row == nullptr) return;  // 0 elements, or no memory: then check() throws
  for (int j = 0; j < counts[i]; ++j) row[j] = static_cast<float>(j);
}

gpuheap::stream_ref current_stream() { return {c10::cuda::getCurrentCUDAStream().stream()}; }

// The memory comes from torch, so torch's memory pool accounts for it.
struct storage {
  torch::Tensor memory;
  gpuheap::heap<> heap;

  explicit storage(std::int64_t bytes)
      : memory{torch::empty({bytes}, torch::dtype(torch::kUInt8).device(torch::kCUDA))},
        heap{gpuheap::memory::region{memory.data_ptr(), static_cast<std::size_t>(bytes)}, current_stream()} {}
};

class torch_heap {
 public:
  explicit torch_heap(std::int64_t bytes) : held_{std::make_shared<storage>(bytes)} {}

  // `counts`: the length of each row, int32 on the GPU. Waits for the stream, because the host needs the addresses of the rows.
  [[nodiscard]] std::vector<torch::Tensor> build(torch::Tensor const& counts) const {
    TORCH_CHECK(counts.is_cuda() && counts.scalar_type() == torch::kInt32 && counts.is_contiguous(),
                "counts: a contiguous int32 tensor on the GPU");
    auto const n = static_cast<int>(counts.numel());
    auto const rows = torch::empty({n}, torch::dtype(torch::kInt64).device(torch::kCUDA));
    auto const stream = c10::cuda::getCurrentCUDAStream();
    if (n != 0)
      build_rows<<<(n + 255) / 256, 256, 0, stream>>>(held_->heap.ref(), counts.data_ptr<int>(), static_cast<float**>(rows.data_ptr()), n);
    held_->heap.check(current_stream());  // throws gpuheap::out_of_memory, which Python gets as MemoryError
    auto const addresses = rows.cpu(), lengths = counts.cpu();
    std::vector<torch::Tensor> tensors;
    for (int i = 0; i < n; ++i) {
      int const length = lengths.data_ptr<int>()[i];
      auto* const row = reinterpret_cast<void*>(addresses.data_ptr<std::int64_t>()[i]);
      auto const keep = [held = held_](void*) {};
      auto const options = torch::dtype(torch::kFloat32).device(torch::kCUDA);
      tensors.push_back(length == 0 ? torch::empty({0}, options) : torch::from_blob(row, {length}, keep, options));
    }
    return tensors;
  }
  [[nodiscard]] std::int64_t live() const { return static_cast<std::int64_t>(held_->heap.stats(current_stream()).live_allocations); }

 private:
  std::shared_ptr<storage> held_;
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  pybind11::class_<torch_heap>(module, "Heap")
      .def(pybind11::init<std::int64_t>())
      .def("build", &torch_heap::build)
      .def("live", &torch_heap::live);
}
