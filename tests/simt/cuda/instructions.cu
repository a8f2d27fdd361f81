// Every atomic operation in every order: instructions.cmake reads the PTX of it.
#include <gpuheap/simt/atomic.hpp>

namespace simt = gpuheap::simt;

// One of each; results are stored, so that nothing is dropped.
template <class T, simt::scope S, simt::memory_order Order>
__device__ void change(simt::atomic_ref<T, S> const& a, T* seen) {
  seen[0] = a.exchange(T{9}, Order);
  seen[1] = a.fetch_add(T{4}, Order);
  seen[2] = a.fetch_and(T{6}, Order);
  seen[3] = a.fetch_or(T{3}, Order);
  seen[4] = a.fetch_xor(T{1}, Order);
  seen[5] = a.fetch_min(T{2}, Order);
  seen[6] = a.fetch_max(T{8}, Order);
  seen[7] = T{7};
  seen[8] = a.compare_exchange(seen[7], T{1}, Order, simt::relaxed);
}

template <class T, simt::scope S>
__device__ void all(T* object, T* seen) {
  simt::atomic_ref<T, S> const a(*object);
  seen[9] = a.load(simt::relaxed);
  seen[10] = a.load(simt::acquire);
  seen[11] = a.load(simt::seq_cst);
  a.store(T{5}, simt::relaxed);
  a.store(T{6}, simt::release);
  a.store(T{7}, simt::seq_cst);
  change<T, S, simt::relaxed>(a, seen);
  change<T, S, simt::acquire>(a, seen);
  change<T, S, simt::release>(a, seen);
  change<T, S, simt::acq_rel>(a, seen);
  change<T, S, simt::seq_cst>(a, seen);
}

template <class T>
__device__ void in_all_scopes(T* object, T* seen) {
  all<T, simt::scope::block>(object, seen);
  all<T, simt::scope::device>(object, seen);
  all<T, simt::scope::system>(object, seen);
}

__global__ void words_of_4(unsigned* object, unsigned* seen) { in_all_scopes(object, seen); }
__global__ void words_of_8(unsigned long long* object, unsigned long long* seen) { in_all_scopes(object, seen); }
