// Checks that device malloc and free preserve the values that a caller keeps across them: values in many registers, predicates, uniform
// registers and convergence barriers, in whole and in divergent warps. Knows nothing of gpuheap; ends with 0 if every value is preserved.
#include <cstdio>
#include <cstdlib>

namespace {

constexpr unsigned blocks = 24, threads = 128, total = blocks * threads;

struct alignas(64) wide {
  unsigned values[16];
};

enum class call { malloc_free, new_delete, new_array, new_wide, free_only, malloc_only };

template <call Which>
__device__ __forceinline__ unsigned ask(unsigned bytes, void* given) {
  if constexpr (Which == call::malloc_free) {
    void* const p = malloc(bytes);
    free(p);
    return p != nullptr;
  } else if constexpr (Which == call::new_delete) {
    unsigned* const p = new unsigned;
    delete p;
    return p != nullptr;
  } else if constexpr (Which == call::new_array) {
    char* const p = new char[bytes];
    delete[] p;
    return p != nullptr;
  } else if constexpr (Which == call::new_wide) {
    wide* const p = new wide;
    bool const aligned = reinterpret_cast<size_t>(p) % 64 == 0;
    delete p;
    return p != nullptr && aligned;
  } else if constexpr (Which == call::free_only) {
    free(given);
    return 1;
  } else {
    void** const slot = static_cast<void**>(given);
    *slot = malloc(bytes);
    return *slot != nullptr;
  }
}

// Whether a lane asks in a round: all lanes, a few, or one.
__device__ __forceinline__ bool asks(unsigned i, unsigned round) {
  switch (round % 4) {
    case 0:
      return true;
    case 1:
      return (i * 2654435761u >> 13 & 3) == 0;
    case 2:
      return i % 32 == round * 7 % 32;
    default:
      return i % 2 == 0;
  }
}

// N values in registers. out[i * total + thread] = in * 3 + 1 + rounds in which the thread asked.
template <int N, call Which>
__global__ void hold_values(unsigned const* in, unsigned* out, unsigned rounds, void** given, unsigned* failed) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned v[N];
#pragma unroll
  for (int k = 0; k < N; ++k) v[k] = in[k * total + i] * 3 + 1;
  for (unsigned r = 0; r < rounds; ++r) {
    if (asks(i, r)) {
      void* const mine = Which == call::malloc_only ? static_cast<void*>(given + r * total + i) : given[r * total + i];
      unsigned const good = ask<Which>(16 + (i * 37 + r * 91) % 3000, mine);
      if (good == 0) atomicAdd(failed, 1);
#pragma unroll
      for (int k = 0; k < N; ++k) v[k] += good;
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k) out[k * total + i] = v[k];
}

// Six predicates and what depends on them, evaluated before the call and used behind it.
template <call Which>
__global__ void hold_predicates(unsigned const* in, unsigned* out, void** given, unsigned* failed) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  bool bits[12];
#pragma unroll
  for (int k = 0; k < 12; ++k) bits[k] = in[k * total + i] > in[(k + 1) * total + i];
  unsigned const good = asks(i, i / 32) ? ask<Which>(100 + i % 64, given[i]) : 1;
  if (good == 0) atomicAdd(failed, 1);
  unsigned word = 0;
#pragma unroll
  for (int k = 0; k < 12; ++k) {
    if (bits[k]) word |= 1u << k;
  }
  out[i] = word;
}

// Values that are the same in all threads, which the compiler keeps in uniform registers where it has them.
template <call Which>
__global__ void hold_uniform(unsigned* out, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned rounds,
                             void** given, unsigned* failed) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned s = a * b, t = b * c, u = c * d, v = d * e, w = e * f, x = f * a, y = a ^ d, z = b ^ e, sum = 0;
  for (unsigned r = 0; r < rounds; ++r) {
    if (ask<Which>(32 + r % 100, given[r * total + i]) == 0) atomicAdd(failed, 1);
    s = s * a + t, t = t * b + u, u = u * c + v, v = v * d + w, w = w * e + x, x = x * f + y, y = y ^ s, z += x;
    sum += s ^ t ^ u ^ v ^ w ^ x ^ y ^ z;
  }
  out[i] = sum + i;
}

// Branches in branches, at whose ends the lanes meet again: one convergence barrier each.
template <call Which>
__global__ void hold_convergence(unsigned const* in, unsigned* out, void** given, unsigned* failed) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x, mask = in[i];
  unsigned result = 0;
  auto const met = [&](unsigned level) { result = result * 5 + __popc(__activemask()) / 33 + level; };
  if (mask & 1) {
    if (mask & 2) {
      if (mask & 4) {
        for (unsigned k = 0; k < (mask >> 8 & 3); ++k) {
          if (mask & 8) {
            if (mask & 16) {
              if (mask & 32) {
                for (unsigned j = 0; j < (mask >> 10 & 1); ++j) {
                  if (ask<Which>(64 + i % 17, given[i]) == 0) atomicAdd(failed, 1);
                  result += 3;
                }
                met(1);
              } else {
                result ^= 5;
              }
              __syncwarp(__activemask());
            }
            met(2);
          } else {
            result += 11;
          }
          met(3);
        }
      } else {
        result ^= 21;
      }
      met(4);
    }
    met(5);
  } else {
    result += 77;
  }
  met(6);
  __syncwarp();
  out[i] = result + __shfl_xor_sync(~0u, mask, 5);
}

unsigned host_convergence(unsigned mask, unsigned other) {
  unsigned result = 0;
  auto const met = [&](unsigned level) { result = result * 5 + level; };
  if (mask & 1) {
    if (mask & 2) {
      if (mask & 4) {
        for (unsigned k = 0; k < (mask >> 8 & 3); ++k) {
          if (mask & 8) {
            if (mask & 16) {
              if (mask & 32) {
                for (unsigned j = 0; j < (mask >> 10 & 1); ++j) result += 3;
                met(1);
              } else {
                result ^= 5;
              }
            }
            met(2);
          } else {
            result += 11;
          }
          met(3);
        }
      } else {
        result ^= 21;
      }
      met(4);
    }
    met(5);
  } else {
    result += 77;
  }
  met(6);
  return result + other;
}

bool host_asks(unsigned i, unsigned round) {
  switch (round % 4) {
    case 0:
      return true;
    case 1:
      return (i * 2654435761u >> 13 & 3) == 0;
    case 2:
      return i % 32 == round * 7 % 32;
    default:
      return i % 2 == 0;
  }
}

constexpr unsigned most = 224, rounds = 8;
unsigned *in, *out, *failed;
void** given;
unsigned long long wrong = 0;

void check(char const* what, int n, unsigned long long bad) {
  cudaError_t const error = cudaDeviceSynchronize();
  if (bad != 0 || error != cudaSuccess || *failed != 0)
    std::printf("%s, %d values: %llu wrong, %u requests failed, %s\n", what, n, bad, *failed, cudaGetErrorString(error));
  wrong += bad + *failed + (error != cudaSuccess);
  *failed = 0;
}

// Blocks for the kernels that free alone, one for each thread and round.
__global__ void provide(void** to) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned r = 0; r < rounds; ++r) to[r * total + i] = malloc(16 + (i + r) % 500);
}
__global__ void take_back(void** from) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned r = 0; r < rounds; ++r) {
    free(from[r * total + i]);
    from[r * total + i] = nullptr;
  }
}

template <int N, call Which>
void values(char const* what) {
  if (Which == call::free_only) provide<<<blocks, threads>>>(given);
  hold_values<N, Which><<<blocks, threads>>>(in, out, rounds, given, failed);
  if (Which == call::free_only) (void)cudaMemset(given, 0, rounds * total * sizeof(void*));
  if (Which == call::malloc_only) take_back<<<blocks, threads>>>(given);
  (void)cudaDeviceSynchronize();
  unsigned long long bad = 0;
  for (unsigned i = 0; i < total; ++i) {
    unsigned asked = 0;
    for (unsigned r = 0; r < rounds; ++r) asked += host_asks(i, r);
    for (unsigned k = 0; k < N; ++k) bad += out[k * total + i] != in[k * total + i] * 3 + 1 + asked;
  }
  check(what, N, bad);
}

template <call Which>
void all(char const* what) {
  values<8, Which>(what);
  values<16, Which>(what);
  values<24, Which>(what);
  values<40, Which>(what);
  values<72, Which>(what);
  values<104, Which>(what);
  values<152, Which>(what);
  values<200, Which>(what);
  values<224, Which>(what);
  if (Which == call::malloc_only) return;

  if (Which == call::free_only) provide<<<blocks, threads>>>(given);
  hold_predicates<Which><<<blocks, threads>>>(in, out, given, failed);
  if (Which == call::free_only) (void)cudaMemset(given, 0, rounds * total * sizeof(void*));
  (void)cudaDeviceSynchronize();
  unsigned long long bad = 0;
  for (unsigned i = 0; i < total; ++i) {
    unsigned word = 0;
    for (unsigned k = 0; k < 12; ++k) word |= (in[k * total + i] > in[(k + 1) * total + i]) << k;
    bad += out[i] != word;
  }
  check(what, -1, bad);

  if (Which == call::free_only) provide<<<blocks, threads>>>(given);
  unsigned const a = 3, b = 7, c = 11, d = 19, e = 23, f = 31;
  hold_uniform<Which><<<blocks, threads>>>(out, a, b, c, d, e, f, rounds, given, failed);
  if (Which == call::free_only) (void)cudaMemset(given, 0, rounds * total * sizeof(void*));
  (void)cudaDeviceSynchronize();
  unsigned s = a * b, t = b * c, u = c * d, v = d * e, w = e * f, x = f * a, y = a ^ d, z = b ^ e, sum = 0;
  for (unsigned r = 0; r < rounds; ++r) {
    s = s * a + t, t = t * b + u, u = u * c + v, v = v * d + w, w = w * e + x, x = x * f + y, y = y ^ s, z += x;
    sum += s ^ t ^ u ^ v ^ w ^ x ^ y ^ z;
  }
  bad = 0;
  for (unsigned i = 0; i < total; ++i) bad += out[i] != sum + i;
  check(what, -2, bad);

  if (Which == call::free_only) return;
  hold_convergence<Which><<<blocks, threads>>>(in, out, given, failed);
  (void)cudaDeviceSynchronize();
  bad = 0;
  for (unsigned i = 0; i < total; ++i) bad += out[i] != host_convergence(in[i], in[i ^ 5]);
  check(what, -3, bad);
}

}  // namespace

int main() {
  if (cudaMallocManaged(&in, most * total * sizeof(unsigned)) != cudaSuccess ||
      cudaMallocManaged(&out, most * total * sizeof(unsigned)) != cudaSuccess ||
      cudaMallocManaged(&given, rounds * total * sizeof(void*)) != cudaSuccess ||
      cudaMallocManaged(&failed, sizeof *failed) != cudaSuccess) {
    std::printf("no managed memory: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 2;
  }
  *failed = 0;
  unsigned long long state = 88172645463325252ull;
  for (unsigned i = 0; i < most * total; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    in[i] = static_cast<unsigned>(state >> 20);
  }
  (void)cudaMemset(given, 0, rounds * total * sizeof(void*));
  for (int repeat = 0; repeat < 3; ++repeat) {
    all<call::malloc_free>("malloc and free");
    all<call::new_delete>("new and delete");
    all<call::new_array>("new[] and delete[]");
    all<call::new_wide>("new and delete of an over-aligned type");
    all<call::malloc_only>("malloc");
    all<call::free_only>("free");
  }
  std::printf("%s: %llu values lost\n", wrong == 0 ? "passed" : "FAILED", wrong);
  return wrong == 0 ? 0 : 1;
}
