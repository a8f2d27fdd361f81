// The GPU's atomic instructions in PTX: loads, stores and read-modify-writes with a memory order and a scope.
//
// They are written out here because libcu++'s <cuda/atomic> takes more compile time than the rest of a heap. When a call is inlined, its
// order is a constant, so the compiler keeps one instruction of each choice by order. The file defines nothing where a compiler makes no
// device code.
#pragma once

#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt::detail {

#if defined(__CUDA_ARCH__)

#define GPUHEAP_LD_(order, where, type, con, result, address) \
  asm volatile("ld." #order "." where "." type " %0, [%1];" : "=" con(result) : "l"(address) : "memory")
#define GPUHEAP_ST_(order, where, type, con, address, value) \
  asm volatile("st." #order "." where "." type " [%0], %1;" ::"l"(address), con(value) : "memory")
#define GPUHEAP_ATOM_(order, where, op, con, result, address, a) \
  asm volatile("atom." #order "." where "." op " %0, [%1], %2;" : "=" con(result) : "l"(address), con(a) : "memory")
#define GPUHEAP_CAS_(order, where, type, con, result, address, expected, desired) \
  asm volatile("atom." #order "." where ".cas." type " %0, [%1], %2, %3;"         \
               : "=" con(result)                                                  \
               : "l"(address), con(expected), con(desired)                        \
               : "memory")
#define GPUHEAP_BY_ORDER_(order, INSTRUCTION, ...) \
  if ((order) == relaxed) {                        \
    INSTRUCTION(relaxed, __VA_ARGS__);             \
  } else if ((order) == acquire) {                 \
    INSTRUCTION(acquire, __VA_ARGS__);             \
  } else if ((order) == release) {                 \
    INSTRUCTION(release, __VA_ARGS__);             \
  } else {                                         \
    INSTRUCTION(acq_rel, __VA_ARGS__);             \
  }

// The instructions for words of one type. `con`: the constraint of a register, "r" for 4 bytes, "l" for 8. `where`: the scope, and the
// address space if it is known.
#define GPUHEAP_RMW_(name, where, con, word, op)                                       \
  static __device__ word name(memory_order order, size_t address, word operand) {      \
    word before;                                                                       \
    GPUHEAP_BY_ORDER_(order, GPUHEAP_ATOM_, where, op, con, before, address, operand); \
    return before;                                                                     \
  }
#define GPUHEAP_WORD_INSTRUCTIONS_(where, con, word, bits)                                                   \
  static __device__ word load(memory_order order, size_t address, word) {                                    \
    word value;                                                                                              \
    if (order == relaxed) {                                                                                  \
      GPUHEAP_LD_(relaxed, where, "b" bits, con, value, address);                                            \
    } else {                                                                                                 \
      GPUHEAP_LD_(acquire, where, "b" bits, con, value, address);                                            \
    }                                                                                                        \
    return value;                                                                                            \
  }                                                                                                          \
  static __device__ void store(memory_order order, size_t address, word value) {                             \
    if (order == relaxed) {                                                                                  \
      GPUHEAP_ST_(relaxed, where, "b" bits, con, address, value);                                            \
    } else {                                                                                                 \
      GPUHEAP_ST_(release, where, "b" bits, con, address, value);                                            \
    }                                                                                                        \
  }                                                                                                          \
  static __device__ word compare_exchange(memory_order order, size_t address, word expected, word desired) { \
    word before;                                                                                             \
    GPUHEAP_BY_ORDER_(order, GPUHEAP_CAS_, where, "b" bits, con, before, address, expected, desired);        \
    return before;                                                                                           \
  }                                                                                                          \
  GPUHEAP_RMW_(exchange, where, con, word, "exch.b" bits)                                                    \
  GPUHEAP_RMW_(fetch_add, where, con, word, "add.u" bits)                                                    \
  GPUHEAP_RMW_(fetch_and, where, con, word, "and.b" bits)                                                    \
  GPUHEAP_RMW_(fetch_or, where, con, word, "or.b" bits)                                                      \
  GPUHEAP_RMW_(fetch_xor, where, con, word, "xor.b" bits)                                                    \
  GPUHEAP_RMW_(fetch_min, where, con, word, "min.u" bits)                                                    \
  GPUHEAP_RMW_(fetch_max, where, con, word, "max.u" bits)                                                    \
  GPUHEAP_RMW_(fetch_min_signed, where, con, word, "min.s" bits)                                             \
  GPUHEAP_RMW_(fetch_max_signed, where, con, word, "max.s" bits)
// Words of 1 and 2 bytes get only loads and stores. Both sizes use a register of 2 bytes.
#define GPUHEAP_NARROW_INSTRUCTIONS_(where, bits)                                                 \
  static __device__ unsigned short load_##bits(memory_order order, size_t address) {              \
    unsigned short value;                                                                         \
    if (order == relaxed) {                                                                       \
      GPUHEAP_LD_(relaxed, where, "b" #bits, "h", value, address);                                \
    } else {                                                                                      \
      GPUHEAP_LD_(acquire, where, "b" #bits, "h", value, address);                                \
    }                                                                                             \
    return value;                                                                                 \
  }                                                                                               \
  static __device__ void store_##bits(memory_order order, size_t address, unsigned short value) { \
    if (order == relaxed) {                                                                       \
      GPUHEAP_ST_(relaxed, where, "b" #bits, "h", address, value);                                \
    } else {                                                                                      \
      GPUHEAP_ST_(release, where, "b" #bits, "h", address, value);                                \
    }                                                                                             \
  }
// The struct is a template, so that the compiler makes no code for functions without a caller.
#define GPUHEAP_INSTRUCTIONS_(name, where, scope)                                                     \
  template <class Word>                                                                               \
  struct name {                                                                                       \
    GPUHEAP_WORD_INSTRUCTIONS_(where, "r", unsigned, "32")                                            \
    GPUHEAP_WORD_INSTRUCTIONS_(where, "l", unsigned long long, "64")                                  \
    GPUHEAP_NARROW_INSTRUCTIONS_(where, 8)                                                            \
    GPUHEAP_NARROW_INSTRUCTIONS_(where, 16)                                                           \
    static __device__ void fence_acq_rel() { asm volatile("fence.acq_rel." scope ";" ::: "memory"); } \
    static __device__ void fence_seq_cst() { asm volatile("fence.sc." scope ";" ::: "memory"); }      \
  };
GPUHEAP_INSTRUCTIONS_(block_instructions, "cta", "cta")
GPUHEAP_INSTRUCTIONS_(device_instructions, "gpu", "gpu")
GPUHEAP_INSTRUCTIONS_(system_instructions, "sys", "sys")
GPUHEAP_INSTRUCTIONS_(global_instructions, "gpu.global", "gpu")

#undef GPUHEAP_LD_
#undef GPUHEAP_ST_
#undef GPUHEAP_ATOM_
#undef GPUHEAP_CAS_
#undef GPUHEAP_BY_ORDER_
#undef GPUHEAP_RMW_
#undef GPUHEAP_WORD_INSTRUCTIONS_
#undef GPUHEAP_NARROW_INSTRUCTIONS_
#undef GPUHEAP_INSTRUCTIONS_

template <class Word, scope S>
using instructions = conditional_t<S == scope::block, block_instructions<Word>,
                                   conditional_t<S == scope::device, device_instructions<Word>, system_instructions<Word>>>;

#endif

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::simt::detail
