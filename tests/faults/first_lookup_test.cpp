// Look-ups that a process makes once, with each of their calls failing. The test is a program of its own, since a second test would find
// them made.
#include "launches.hpp"

#include <gpuheap/memory/address_range.hpp>

#include <gtest/gtest.h>

#include <string>

namespace {

TEST(FaultsOfTheStart, ADriverThatCouldNotBeAskedIsAskedAgain) {
  unsigned failures = 0;
  // Ends: the constructor makes a bounded number of calls.
  for (std::uint64_t nth = 0;; ++nth) {
    faults::arm({nth});
    try {
      gpuheap::memory::address_range const range{std::size_t{1} << 30};
      faults::disarm();
      EXPECT_EQ(faults::held().reservations, 1);
      break;
    } catch (gpuheap::device_error const& e) {
      ++failures;
      EXPECT_NE(std::string{e.what()}.find("gpuheap: cannot reserve 1.0 GiB of addresses: "), std::string::npos) << e.what();
      EXPECT_EQ(faults::held(), faults::resources{}) << faults::text_of(faults::held());
    }
  }
  // The context, ten functions, and the first call once they are there.
  EXPECT_EQ(failures, 12u);
  EXPECT_EQ(faults::held(), faults::resources{});
}

}  // namespace
