// `depth` is above 0 while this thread works for the library. Its calls of the driver and its requests for host memory then do not count as
// the program's.
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
