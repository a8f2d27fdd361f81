#include <gpuheap_simulator/atomic.hpp>
namespace gpuheap::simulator::weak {
std::uint64_t load(lane*, void const*, unsigned, std::uint64_t latest, order, bool) { return latest; }
void store(lane*, void const*, unsigned, std::uint64_t, std::uint64_t, order) {}
void read_modify_write(lane*, void const*, unsigned, std::uint64_t, std::uint64_t, order) {}
void observe(lane*, void const*, unsigned, std::uint64_t, order) {}
void fence(lane*, order) {}
void plain_read(lane*, void const*, std::size_t) {}
void plain_write(lane*, void const*, std::size_t) {}
}  // namespace gpuheap::simulator::weak
