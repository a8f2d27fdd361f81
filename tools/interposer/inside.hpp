// Whether this thread is at work for the library: calls of the driver, and requests for host memory, that it makes meanwhile are not the
// program's.
#pragma once

namespace gpuheap::interpose {

inline constinit thread_local int depth __attribute__((tls_model("initial-exec"))) = 0;

struct inside {
  inside() { ++depth; }
  ~inside() { --depth; }
  inside(inside const&) = delete;
  inside& operator=(inside const&) = delete;
};

}  // namespace gpuheap::interpose
