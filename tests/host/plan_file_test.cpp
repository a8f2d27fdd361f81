// Plans as the library reads them: a good one whole, a bad one not at all and with its reason.

#include "tools/host/plan_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

using namespace gpuheap::interpose;

namespace {

std::string with_checksum(std::string const& body) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (char const c : body) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  char line[64];
  std::snprintf(line, sizeof line, "checksum %016llx\n", static_cast<unsigned long long>(hash));
  return body + line;
}

// Why a plan of this text is refused; empty if it is not.
std::string refusal(std::string const& text, plan* found = nullptr) {
  std::string const path = testing::TempDir() + "gpuheap_plan_" + std::to_string(getpid());
  std::ofstream{path} << text;
  std::string why;
  plan const got = read_plan(path, &why);
  std::remove(path.c_str());
  if (found != nullptr) *found = got;
  if (!why.empty()) {
    EXPECT_TRUE(got.pools.empty());
  }
  return why;
}

std::string const good =
    "gpuheap-host-plan 1\ndriver 13000\ndevice 0 1024 A device with a name\npool 0 device 0 2048\nslot 0 0 512 ab\nslot 0 512 1536 "
    "ffffffffffffffff\npool 1 pinned 0 512\n";

}  // namespace

TEST(Plan, IsReadWhole) {
  plan found;
  ASSERT_EQ(refusal(with_checksum(good), &found), "");
  EXPECT_EQ(found.driver, 13000);
  ASSERT_EQ(found.devices.size(), 1U);
  EXPECT_EQ(found.devices[0].name, "A device with a name");
  ASSERT_EQ(found.pools.size(), 2U);
  EXPECT_EQ(found.pools[0].what, memory::device);
  ASSERT_EQ(found.pools[0].slots.size(), 2U);
  EXPECT_EQ(found.pools[0].slots[1].site, ~std::uint64_t{0});
}

TEST(Plan, ThatWasCutOrChangedIsRefused) {
  std::string const whole = with_checksum(good);
  EXPECT_NE(refusal(whole.substr(0, whole.size() - 30)), "");
  std::string changed = whole;
  changed[changed.find("name")] = 'N';
  EXPECT_NE(refusal(changed).find("checksum"), std::string::npos);
  EXPECT_NE(refusal(""), "");
}

TEST(Plan, OfAnotherVersionIsRefused) { EXPECT_NE(refusal(with_checksum("gpuheap-host-plan 2\n")).find("version"), std::string::npos); }

TEST(Plan, WithASlotOutsideItsPoolIsRefused) {
  for (char const* const slot :
       {"slot 0 2048 1 1", "slot 0 1024 1025 1", "slot 0 0 0 1", "slot 9 0 512 1", "slot 0 18446744073709551104 1024 1", "slot 0 x"}) {
    EXPECT_NE(refusal(with_checksum(good + slot + "\n")).find("not understood"), std::string::npos) << slot;
  }
}

TEST(Plan, ThatIsNotThereIsRefused) {
  std::string why;
  EXPECT_TRUE(read_plan("/nonexistent/plan", &why).pools.empty());
  EXPECT_EQ(why, "cannot be read");
}
