// Settings from the environment and from scopes.
#include <cstdlib>
#include <stdexcept>

#include "../support/seeds.hpp"
#include "kernels.hpp"

namespace test {
namespace {

using simulator::scheduler_kind;

class variable {
 public:
  variable(char const* name, char const* value) : name_{name} { setenv(name, value, 1); }
  ~variable() { unsetenv(name_); }
  variable(variable const&) = delete;

 private:
  char const* name_;
};

TEST(Settings, ComeFromTheEnvironment) {
  variable const scheduler("GPUHEAP_SIMULATOR_SCHEDULER", "pct"), seed("GPUHEAP_SIMULATOR_SEED", "18446744073709551615");
  variable const depth("GPUHEAP_SIMULATOR_DEPTH", "5"), weak("GPUHEAP_SIMULATOR_WEAK", "1"), threads("GPUHEAP_SIMULATOR_THREADS", "0");
  variable const sms("GPUHEAP_SIMULATOR_SMS", "132"), budget("GPUHEAP_SIMULATOR_BUDGET", "1000"),
      stack("GPUHEAP_SIMULATOR_STACK_KIB", "128");
  simulator::settings const s = simulator::settings_from_environment();
  EXPECT_EQ(s.scheduler, scheduler_kind::pct);
  EXPECT_EQ(s.seed, ~std::uint64_t{0});
  EXPECT_EQ(s.depth, 5u);
  EXPECT_TRUE(s.weak);
  EXPECT_EQ(s.threads, 0u);
  EXPECT_EQ(s.num_sms, 132u);
  EXPECT_EQ(s.step_budget, 1000u);
  EXPECT_EQ(s.stack_bytes, 128u * 1024);
}

TEST(Settings, LargeExplorationsRunAPartOfTheirSchedules) {
  unsetenv("GPUHEAP_SEEDS_PERCENT");
  EXPECT_EQ(num_seeds(2000), 2000u);
  EXPECT_TRUE(in_full());
  variable const percent("GPUHEAP_SEEDS_PERCENT", "25");
  EXPECT_EQ(num_seeds(2000), 500u);
  EXPECT_EQ(num_seeds(60), 15u);
  EXPECT_EQ(num_seeds(12), 10u);
  EXPECT_EQ(num_seeds(3), 3u);
  EXPECT_FALSE(in_full());
  {
    variable const fast("GPUHEAP_SEEDS_PERCENT", "10");
    EXPECT_EQ(num_seeds(2000), 200u);
    EXPECT_EQ(num_seeds(12), 4u);
    EXPECT_EQ(num_seeds(3), 3u);
  }
  variable const number("GPUHEAP_SEEDS", "7");
  EXPECT_EQ(num_seeds(40), 7u);
  variable const all("GPUHEAP_SEEDS_PERCENT", "100");
  EXPECT_TRUE(in_full());
}

TEST(Settings, RefuseWhatTheyDoNotKnow) {
  auto const text_of = [](char const* name, char const* value) -> std::string {
    variable const v(name, value);
    try {
      (void)simulator::settings_from_environment();
    } catch (std::invalid_argument const& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(text_of("GPUHEAP_SIMULATOR_SCHEDULER", "fair"),
            "GPUHEAP_SIMULATOR_SCHEDULER=fair: expected run_through, round_robin, random or pct");
  EXPECT_EQ(text_of("GPUHEAP_SIMULATOR_SMS", "0"), "GPUHEAP_SIMULATOR_SMS=0: expected a number from 1 to 1024");
  EXPECT_EQ(text_of("GPUHEAP_SIMULATOR_WEAK", "yes"), "GPUHEAP_SIMULATOR_WEAK=yes: expected a number from 0 to 1");
  EXPECT_EQ(text_of("GPUHEAP_SIMULATOR_DEPTH", "3x"), "GPUHEAP_SIMULATOR_DEPTH=3x: expected a number from 1 to 1000");
}

TEST(Settings, AreWrittenAsTheEnvironmentReadsThem) {
  simulator::settings s = with(scheduler_kind::pct, 17, true);
  EXPECT_EQ(simulator::as_environment(s),
            "GPUHEAP_SIMULATOR_SCHEDULER=pct GPUHEAP_SIMULATOR_SEED=17 GPUHEAP_SIMULATOR_DEPTH=3 GPUHEAP_SIMULATOR_WEAK=1 "
            "GPUHEAP_SIMULATOR_BUDGET=10000000");
}

TEST(Settings, AScopeEnds) {
  simulator::settings const before = simulator::current_settings();
  {
    simulator::scoped_settings const outer(with(scheduler_kind::random, 9));
    {
      simulator::scoped_settings const inner(with(scheduler_kind::pct, 10));
      EXPECT_EQ(simulator::current_settings().seed, 10u);
    }
    EXPECT_EQ(simulator::current_settings().seed, 9u);
  }
  EXPECT_EQ(simulator::current_settings(), before);
}

TEST(Settings, NameTheMachine) {
  simulator::settings s;
  s.num_sms = 3;
  simulator::scoped_settings const scope(s);
  EXPECT_EQ(simt::query_device().num_sms, 3u);
}

}  // namespace
}  // namespace test
