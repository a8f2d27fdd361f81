// The CUDA backend of address_space.hpp: the driver's virtual memory management. The CUDA runtime looks up the driver's functions by name,
// so that programs need not link the driver's library.
#pragma once

#include <gpuheap/simt/cuda/runtime.hpp>

#if GPUHEAP_HAS_HOST
#include <cuda.h>

#include <string>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt {

// A range of reserved addresses of one device. The struct owns nothing: the caller of reserve_addresses() calls release_addresses().
struct address_space {
  void* base = nullptr;
  size_t bytes = 0;
  size_t granularity = 0;  // bytes, a power of two; reservations and mappings are multiples of it
  int device = 0;
};

namespace detail {

// The functions of the driver that this file uses.
struct driver {
  decltype(&cuGetErrorName) error_name{};
  decltype(&cuDeviceGetAttribute) device_attribute{};
  decltype(&cuMemGetAllocationGranularity) granularity{};
  decltype(&cuMemAddressReserve) reserve{};
  decltype(&cuMemAddressFree) release_addresses{};
  decltype(&cuMemCreate) create{};
  decltype(&cuMemRelease) release{};
  decltype(&cuMemMap) map{};
  decltype(&cuMemUnmap) unmap{};
  decltype(&cuMemSetAccess) set_access{};

  // The functions, looked up at the first call in the process.
  [[nodiscard]] static driver const& calls() {
    static driver const found{find()};
    return found;
  }

 private:
  static void* find(char const* name) {
    constexpr unsigned since = 10020;  // CUDA 10.2, the first version with all of them
    void* address = nullptr;
    cudaDriverEntryPointQueryResult answer{};
    check(cudaGetDriverEntryPointByVersion(name, &address, since, cudaEnableDefault, &answer), "asking the driver for a function");
    if (answer != cudaDriverEntryPointSuccess || address == nullptr) {
      throw plain_error(text_of(
          "gpuheap: growing memory needs the driver's function %s, and this driver does not have it: install a newer driver, or use memory "
          "of a fixed size",
          name));
    }
    return address;
  }
  [[nodiscard]] static driver find() {
    driver d;
    // cuGetErrorName and cuDeviceGetAttribute are older than CUDA 10.2. A request for that version finds them too.
    d.error_name = reinterpret_cast<decltype(d.error_name)>(find("cuGetErrorName"));
    d.device_attribute = reinterpret_cast<decltype(d.device_attribute)>(find("cuDeviceGetAttribute"));
    d.granularity = reinterpret_cast<decltype(d.granularity)>(find("cuMemGetAllocationGranularity"));
    d.reserve = reinterpret_cast<decltype(d.reserve)>(find("cuMemAddressReserve"));
    d.release_addresses = reinterpret_cast<decltype(d.release_addresses)>(find("cuMemAddressFree"));
    d.create = reinterpret_cast<decltype(d.create)>(find("cuMemCreate"));
    d.release = reinterpret_cast<decltype(d.release)>(find("cuMemRelease"));
    d.map = reinterpret_cast<decltype(d.map)>(find("cuMemMap"));
    d.unmap = reinterpret_cast<decltype(d.unmap)>(find("cuMemUnmap"));
    d.set_access = reinterpret_cast<decltype(d.set_access)>(find("cuMemSetAccess"));
    return d;
  }
};

inline void check(CUresult code, char const* doing) {
  if (code == CUDA_SUCCESS) return;
  char const* name = nullptr;
  if (driver::calls().error_name(code, &name) != CUDA_SUCCESS || name == nullptr) name = "an unknown error of the driver";
  std::string const text = text_of("gpuheap: %s failed: %s", doing, name);
  if (code == CUDA_ERROR_OUT_OF_MEMORY) throw out_of_memory(text);
  throw device_error(text);
}

[[nodiscard]] inline CUmemAllocationProp memory_of(int device) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = device;
  return p;
}

[[nodiscard]] inline CUdeviceptr address_of(void* p) { return reinterpret_cast<CUdeviceptr>(p); }

// A handle to new physical memory. The destructor releases the handle; the driver frees the memory once it is also unmapped.
class physical_memory {
 public:
  physical_memory(int device, size_t bytes) {
    CUmemAllocationProp const what = memory_of(device);
    check(driver::calls().create(&handle_, bytes, &what, 0), "allocating device memory to map");
  }
  physical_memory(physical_memory const&) = delete;
  physical_memory& operator=(physical_memory const&) = delete;
  ~physical_memory() { (void)driver::calls().release(handle_); }

  [[nodiscard]] CUmemGenericAllocationHandle handle() const { return handle_; }

 private:
  CUmemGenericAllocationHandle handle_{};
};

}  // namespace detail

// Reserves at least `bytes` (> 0) of addresses on the current device. No memory is mapped there yet, so no thread may read or write there.
// Throws a plain_error if the GPU or the driver cannot map memory, or if `bytes`, rounded up, are more than 2^64 - 1. If the driver refuses
// the addresses, throws out_of_memory or device_error.
[[nodiscard]] inline address_space reserve_addresses(size_t bytes) {
  detail::check(cudaFree(nullptr), "starting the GPU's context");
  auto const& driver = detail::driver::calls();
  address_space space;
  space.device = current_device();
  int can = 0;
  detail::check(driver.device_attribute(&can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, space.device),
                "asking whether the GPU maps memory");
  if (can == 0) throw plain_error("gpuheap: this GPU does not map memory into reserved addresses: use memory of a fixed size");
  CUmemAllocationProp const what = detail::memory_of(space.device);
  detail::check(driver.granularity(&space.granularity, &what, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                "asking in what units the GPU maps memory");
  space.bytes = (bytes + space.granularity - 1) / space.granularity * space.granularity;
  if (space.bytes < bytes)
    throw plain_error(text_of("gpuheap: reserving addresses failed: %zu bytes are more than an address can count", bytes));
  CUdeviceptr base = 0;
  detail::check(driver.reserve(&base, space.bytes, 0, 0, 0), "reserving addresses");
  space.base = reinterpret_cast<void*>(base);
  return space;
}
// Releases the addresses. The caller has unmapped all memory of the space.
inline void release_addresses(address_space const& space) noexcept {
  (void)detail::driver::calls().release_addresses(detail::address_of(space.base), space.bytes);
}

// Maps new memory at `at`, where none is mapped. Both `at` and `bytes` are multiples of the granularity, inside the space. Kernels of the
// space's device may use the memory when the call returns. The memory's contents are undefined. Throws out_of_memory or device_error, and
// then changes nothing.
inline void map_memory(address_space const& space, void* at, size_t bytes) {
  auto const& driver = detail::driver::calls();
  detail::physical_memory const memory{space.device, bytes};
  detail::check(driver.map(detail::address_of(at), bytes, 0, memory.handle(), 0), "mapping device memory");
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = space.device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUresult const allowed = driver.set_access(detail::address_of(at), bytes, &access, 1);
  if (allowed != CUDA_SUCCESS) (void)driver.unmap(detail::address_of(at), bytes);
  detail::check(allowed, "making mapped memory accessible");
}
// Unmaps and frees the memory that one map_memory() with the same arguments mapped. No kernel may use that memory any more: see
// wait_for_device().
inline void unmap_memory(address_space const&, void* at, size_t bytes) noexcept {
  (void)detail::driver::calls().unmap(detail::address_of(at), bytes);
}

// Waits until the space's device has done all its work. This call reports no failure of a kernel: a later call of the runtime does.
inline void wait_for_device(address_space const& space) noexcept {
  int current = 0;
  (void)cudaGetDevice(&current);
  if (current != space.device) (void)cudaSetDevice(space.device);
  (void)cudaDeviceSynchronize();
  if (current != space.device) (void)cudaSetDevice(current);
}

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt
#endif
