// The functions of gpuheap_device.h for languages in which a program is a thread block, with integers in place of pointers, as such
// languages declare functions. They become bitcode, together with those of device.cu.
#include "capi/view.hpp"

using namespace gpuheap::c_interface;
using slot_word = gpuheap::simt::atomic_ref<word, gpuheap::simt::scope::block>;
using gpuheap::simt::relaxed;

namespace {

// Out of line: each program has them once, however often it calls.
__device__ __noinline__ word take(word heap, word bytes) {
  return with_heap(reinterpret_cast<gpuheap_handle>(heap), [=](auto const& all) { return word_of(all.malloc(bytes)); });
}
__device__ __noinline__ word give(word heap, word p) {
  return with_heap(reinterpret_cast<gpuheap_handle>(heap),
                   [=](auto const& all) { return static_cast<word>(all.free_when_called(reinterpret_cast<void*>(p))); });
}
// A request or a free of the first thread; `of` is a number of bytes or an address.
__device__ __noinline__ word once(word heap, word of, bool takes) {
  return from_first_thread([=] { return takes ? take(heap, of) : give(heap, of); });
}
__device__ __forceinline__ bool is_whole_block(unsigned threads) { return blockDim.x * blockDim.y * blockDim.z == threads; }

constexpr word taken = 1;                    // no address of a block: those are multiples of 16
constexpr unsigned num_shared_slots = 1024;  // more are a block of the heap

// Aligned as shared_word is, and for its reason.
struct alignas(1024) shared_slots {
  word values[num_shared_slots];
};
__device__ __forceinline__ word* slots_in_shared_memory() {
  __shared__ shared_slots slots;
  return slots.values;
}

// relaxed: a barrier of the program stands between all accesses of one kind and those of the next.
__device__ __forceinline__ slot_word at(word slot) { return slot_word{*reinterpret_cast<word*>(slot)}; }
// True for one of the threads that ask.
__device__ __forceinline__ bool take_up(word slot) {
  word found = 0;
  return at(slot).compare_exchange(found, taken, relaxed, relaxed);
}

}  // namespace

GPUHEAP_DEFINE word gpuheap_v1_malloc_program(word heap, word bytes, unsigned threads) {
  return is_whole_block(threads) ? once(heap, bytes, true) : 0;
}
GPUHEAP_DEFINE int gpuheap_v1_free_program(word heap, word p, unsigned threads) {
  return is_whole_block(threads) ? static_cast<int>(once(heap, p, false)) : GPUHEAP_FREED_NULL;
}

// A slot holds 0 before any thread has taken its request up, `taken` from then on, and the block's address once there is one.
GPUHEAP_DEFINE word gpuheap_v1_open_slots(word heap, word count, unsigned threads) {
  if (!is_whole_block(threads)) return 0;
  word* slots = slots_in_shared_memory();
  if (count > num_shared_slots) {
    slots = reinterpret_cast<word*>(once(heap, count * sizeof(word), true));
    if (slots == nullptr) return 0;
  } else {
    __syncthreads();  // every thread has read what the slots held before
  }
  unsigned const thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  for (word i = thread; i < count; i += threads) slots[i] = 0;
  __syncthreads();
  return reinterpret_cast<word>(slots);
}
GPUHEAP_DEFINE int gpuheap_v1_close_slots(word heap, word slots, unsigned threads) {
  bool const in_heap = slots != 0 && slots != reinterpret_cast<word>(slots_in_shared_memory());
  return in_heap && is_whole_block(threads) ? static_cast<int>(once(heap, slots, false)) : GPUHEAP_FREED_NULL;
}
GPUHEAP_DEFINE int gpuheap_v1_malloc_slot(word heap, word slot, word bytes) {
  if (slot == 0 || !take_up(slot)) return 0;
  word const block = take(heap, bytes);
  if (block != 0) at(slot).store(block, relaxed);
  return 1;
}
GPUHEAP_DEFINE int gpuheap_v1_free_slot(word heap, word slot, word p) {
  if (slot == 0 || !take_up(slot)) return 0;
  (void)give(heap, p);
  return 1;
}
GPUHEAP_DEFINE word gpuheap_v1_read_slot(word slot) { return slot == 0 ? 0 : at(slot).load(relaxed) & ~taken; }
