// Literals for byte counts: 64_KiB, 8_GiB.
#pragma once

#include <gpuheap/simt/types.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

// A program writes `using namespace gpuheap::literals;` to use them. A count of 2^64 bytes or more wraps around.
inline namespace literals {

[[nodiscard]] GPUHEAP_HD constexpr simt::size_t operator""_KiB(unsigned long long n) { return static_cast<simt::size_t>(n) << 10; }
[[nodiscard]] GPUHEAP_HD constexpr simt::size_t operator""_MiB(unsigned long long n) { return static_cast<simt::size_t>(n) << 20; }
[[nodiscard]] GPUHEAP_HD constexpr simt::size_t operator""_GiB(unsigned long long n) { return static_cast<simt::size_t>(n) << 30; }

static_assert(1_KiB == 1024 && 1_MiB == 1024_KiB && 1_GiB == 1024_MiB && 0_GiB == 0);

}  // namespace literals

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
