// Arrays of variable length. C keeps their elements on the stack; here a block of the program's heap holds them while the array is in
// scope. Device code. The rewriter replaces the declaration on the left by the code on the right:
//
//   double row[n];      double* row = (double*)malloc(gpuheap::mpi::c::local_bytes<double>(n)); gpuheap::mpi::c::local_array row_ends{row};
//   double box[n][m];   double* box_all = (double*)malloc(gpuheap::mpi::c::local_bytes<double>(n, m)); ...
//                       gpuheap::mpi::c::local_rows<double> box{box_all, m};
#pragma once

#include <gpuheap/mpi/c/process.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c {

// The bytes of an array with these lengths. An array without elements counts as one with one element.
template <class T, class... Lengths>
[[nodiscard]] GPUHEAP_FN constexpr simt::size_t local_bytes(Lengths... lengths) {
  simt::size_t const elements = (static_cast<simt::size_t>(lengths) * ... * 1);
  return sizeof(T) * (elements == 0 ? 1 : elements);
}

// Frees the elements at the end of the scope. If malloc returned nullptr for them, all ranks end.
class local_array {
 public:
  GPUHEAP_FN explicit local_array(void* elements) : elements_{elements} {
    if (elements == nullptr) here().end_for_memory();
  }
  local_array(local_array const&) = delete;
  local_array& operator=(local_array const&) = delete;
  GPUHEAP_FN ~local_array() { coalesced::free(elements_); }

 private:
  void* elements_;
};

// An array whose row length is known only at run time: box[i] is row i, and box converts to the address of the first element.
template <class T>
class local_rows {
 public:
  template <class Length>
  GPUHEAP_FN local_rows(T* first, Length row_length) : first_{first}, row_length_{static_cast<simt::size_t>(row_length)} {}
  template <class Index>
  [[nodiscard]] GPUHEAP_FN T* operator[](Index i) const {
    return first_ + static_cast<long long>(i) * static_cast<long long>(row_length_);
  }
  [[nodiscard]] GPUHEAP_FN operator T*() const { return first_; }
  [[nodiscard]] GPUHEAP_FN T* operator*() const { return first_; }

 private:
  T* first_;
  simt::size_t row_length_;
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi::c
