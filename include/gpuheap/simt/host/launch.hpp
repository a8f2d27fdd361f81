// The host backend of launch.hpp: forwards to the simulator.
#pragma once

#include <gpuheap/simt/host/runtime.hpp>
#include <gpuheap/simt/host/warp.hpp>

#include <algorithm>
#include <optional>
#include <string>

#include <gpuheap_simulator/launch.hpp>
#include <gpuheap_simulator/settings.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE {

namespace simt {

// Thrown when a simulated kernel failed: deadlock, livelock, misuse of a warp operation, data race, trap. what() says where each lane was,
// and how to replay the run.
class kernel_failure : public device_error {
 public:
  explicit kernel_failure(::gpuheap::simulator::failure const& f) : device_error(f.what()), kind_{f.kind()} {}
  [[nodiscard]] ::gpuheap::simulator::failure_kind kind() const { return kind_; }

 private:
  ::gpuheap::simulator::failure_kind kind_;
};

// The most threads that a cooperative launch of a Functor can have, in blocks of `block_threads`.
template <class Functor>
[[nodiscard]] unsigned most_resident_threads(unsigned block_threads) {
  ::gpuheap::simulator::settings const& machine = ::gpuheap::simulator::current_settings();
  unsigned const blocks = ::std::clamp(machine.threads_per_sm / ::std::max(1u, block_threads), 1u, ::std::max(1u, machine.blocks_per_sm));
  return blocks * machine.num_sms * block_threads;
}

// Runs f(i) for every i < num_threads as simulated threads, and returns when all have ended. The last warp may be partial. num_threads == 0
// does nothing. Host. Throws plain_error or device_error if the launch is refused, and kernel_failure if the kernel fails: the threads that
// have not ended then stop where they are.
template <class Functor>
void launch(unsigned num_threads, Functor f, launch_config config = {}) {
  static_assert(is_trivially_copyable_v<Functor>, "kernels get their functor by value, byte by byte");
  if (unsigned const most = most_resident_threads<Functor>(config.block_threads); config.cooperative && num_threads > most) {
    throw plain_error("gpuheap: a cooperative launch of " + ::std::to_string(num_threads) + " threads in blocks of " +
                      ::std::to_string(config.block_threads) + ": at most " + ::std::to_string(most) +
                      " are resident at once on this machine");
  }
  if (num_threads != 0) detail::may_fail("launching a kernel");
  ::gpuheap::simulator::kernel k;
  k.body = [](void const* functor, unsigned index) {
    try {
      (*static_cast<Functor const*>(functor))(index);
    } catch (detail::thread_ended const&) {
    }
  };
  k.functor = &f;
  k.num_threads = num_threads;
  k.block_threads = config.block_threads;
  try {
    ::gpuheap::simulator::launch(k);
  } catch (::gpuheap::simulator::failure const& failed) {
    throw kernel_failure(failed);
  } catch (::std::invalid_argument const& refused) {
    throw plain_error(refused.what());
  }
}

// The resources of a Functor's kernel. Always empty, since a simulated thread has no registers.
template <class Functor>
[[nodiscard]] ::std::optional<kernel_attributes> attributes_of_kernel() {
  return ::std::nullopt;
}

}  // namespace simt

using simt::launch;

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE
