// The look-up of the driver's functions, in a process that loads the driver after the first look-up. The test is a program of its own,
// since a second test would find the driver loaded.
#include "tools/interposer/entry_points.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace gpuheap::interpose {

// Only cuGetProcAddress finds these rows: the driver exports no function of their symbols.
interposed_library const& this_library() {
  static constexpr entry_point rows[] = {{"cuInit_unexported", "cuInit", 2000, false},
                                         {"cuDeviceGet_unexported", "cuDeviceGet", 2000, false}};
  static constexpr void* wrappers[std::size(rows)] = {};
  static constexpr interposed_library all{rows, wrappers, [] { return false; }, [](std::size_t) {}};
  return all;
}

}  // namespace gpuheap::interpose

namespace {

using gpuheap::interpose::real_address;

TEST(EntryPoints, AreFoundOnceTheDriverIsLoaded) {
  EXPECT_EQ(real_address(0), nullptr);
  void* const driver = dlopen(DRIVER_DOUBLE, RTLD_NOW);
  ASSERT_NE(driver, nullptr) << dlerror();
  EXPECT_NE(real_address(0), nullptr);
  EXPECT_EQ(real_address(0), dlsym(driver, "cuInit"));
  EXPECT_EQ(real_address(1), dlsym(driver, "cuDeviceGet"));
}

}  // namespace
