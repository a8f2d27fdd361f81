// Tests of the ways to state a heap's size: bytes, a fraction, the environment.
#include "fixtures.hpp"

#include <cmath>
#include <cstdlib>

namespace {

using namespace test;
using gpuheap::heap_size;

struct of_64_mib {
  void* allocate(std::size_t) const { throw gpuheap::out_of_memory("not meant to be used"); }
  void deallocate(void*, std::size_t) const noexcept {}
  std::optional<gpuheap::memory::capacity> query() const { return gpuheap::memory::capacity{100_MiB, 64_MiB}; }
  std::string name() const { return "64 MiB"; }
};

// Sets GPUHEAP_BYTES for a scope.
class environment {
 public:
  explicit environment(char const* value) {
    if (char const* const old = std::getenv("GPUHEAP_BYTES")) before_ = old;
    if (value != nullptr) {
      setenv("GPUHEAP_BYTES", value, 1);
    } else {
      unsetenv("GPUHEAP_BYTES");
    }
  }
  ~environment() {
    if (before_.empty()) {
      unsetenv("GPUHEAP_BYTES");
    } else {
      setenv("GPUHEAP_BYTES", before_.c_str(), 1);
    }
  }
  environment(environment const&) = delete;
  environment& operator=(environment const&) = delete;

 private:
  std::string before_;
};

std::size_t from_environment(char const* value) {
  environment const set{value};
  return heap_size::from_environment().resolve(of_64_mib{});
}

TEST(Size, IsAPlainNumberOfBytes) {
  EXPECT_EQ(heap_size{3_GiB}.resolve(of_64_mib{}), 3_GiB);
  EXPECT_EQ(heap_size{100}.resolve(of_64_mib{}), 100u);
}

TEST(Size, IsAFractionOfWhatIsFree) {
  EXPECT_EQ(gpuheap::fraction_of_free(0.25).resolve(of_64_mib{}), 16_MiB);
  EXPECT_EQ(gpuheap::fraction_of_free(1).resolve(of_64_mib{}), 64_MiB);
  for (double bad : {0.0, -1.0, 1.01, std::nan("")}) EXPECT_THROW((void)gpuheap::fraction_of_free(bad), gpuheap::error) << bad;
}

TEST(Size, ComesFromTheEnvironment) {
  EXPECT_EQ(from_environment("1048576"), 1_MiB);
  EXPECT_EQ(from_environment("1048576B"), 1_MiB);
  EXPECT_EQ(from_environment("8GiB"), 8_GiB);
  EXPECT_EQ(from_environment("1.5 GiB"), 1536_MiB);
  EXPECT_EQ(from_environment("512M"), 512_MiB);
  EXPECT_EQ(from_environment("64K"), 64_KiB);
  EXPECT_EQ(from_environment("64KiB"), 64_KiB);
  EXPECT_EQ(from_environment("2T"), 2048_GiB);
  for (char const* spelt : {"3g", "3gb", "3GB", "3 gib", "3 Gi"}) EXPECT_EQ(from_environment(spelt), 3_GiB) << spelt;
  EXPECT_EQ(from_environment("25%"), 16_MiB);
}

TEST(Size, WithoutTheEnvironmentIsTheDefaultOrHalfOfWhatIsFree) {
  EXPECT_EQ(from_environment(nullptr), 32_MiB);
  EXPECT_EQ(from_environment(""), 32_MiB);
  environment const unset{nullptr};
  gpuheap::heap<gpuheap::atomic_malloc> const heap{};
  EXPECT_LE(heap.bytes(), heap_size::default_bytes);
  EXPECT_GT(heap.bytes(), 1_MiB);
}

TEST(Size, OfAHeapFollowsTheEnvironment) {
  environment const set{"3MiB"};
  gpuheap::heap<gpuheap::atomic_malloc> const heap{};
  EXPECT_EQ(heap.bytes(), 3_MiB);
}

TEST(Size, RefusesOtherTextsAndQuotesThem) {
  for (char const* bad :
       {"much", "12 parsecs", "-5", "0", "1e400", "110%", "0%", "GiB", "5 GiBi", "5 BG", "nan", "inf", "99999999999999999999", "8GB "}) {
    environment const set{bad};
    std::string const text = text_of_error([] { (void)heap_size::from_environment(); });
    EXPECT_TRUE(says(text, std::string("GPUHEAP_BYTES is \"") + bad + "\"")) << bad;
  }
}

TEST(Size, InWords) {
  EXPECT_EQ(gpuheap::memory::format_bytes(0), "0 B");
  EXPECT_EQ(gpuheap::memory::format_bytes(1023), "1023 B");
  EXPECT_EQ(gpuheap::memory::format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(gpuheap::memory::format_bytes(1536_MiB), "1.5 GiB");
  EXPECT_EQ(gpuheap::memory::format_bytes(200_GiB), "200.0 GiB");
  EXPECT_EQ(gpuheap::memory::format_bytes(~std::size_t{0}), "16.0 EiB");
}

}  // namespace
