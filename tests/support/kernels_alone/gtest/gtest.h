// GoogleTest's declarations without its definitions: nvcc reads them in a quarter of the time, where it compiles the kernels of tests alone
// and nothing runs (GPUHEAP_KERNELS_ALONE). Each test's body is compiled, for each type of its suite, so that its kernels are made.
// Expressions are compiled, but compared with nothing: the simulator's build compiles the same tests with GoogleTest itself.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace testing {

struct ignored {
  template <class T>
  ignored const& operator<<(T const&) const {
    return *this;
  }
  ignored const& operator<<(std::ostream& (*)(std::ostream&)) const { return *this; }
};
template <class... T>
ignored evaluated(T const&...) {
  return {};
}

struct AssertionResult {
  bool passed;
  explicit operator bool() const { return passed; }
  template <class T>
  AssertionResult const& operator<<(T const&) const {
    return *this;
  }
};
inline AssertionResult AssertionSuccess() { return {true}; }
inline AssertionResult AssertionFailure() { return {false}; }
inline std::string TempDir() { return {}; }

class Test {
 public:
  virtual ~Test() = default;
  virtual void TestBody() = 0;
  static bool HasFailure() { return false; }
  template <class T>
  static void RecordProperty(std::string const&, T const&) {}

 protected:
  virtual void SetUp() {}
  virtual void TearDown() {}
};

template <class... T>
struct Types {};

// Makes a test, or one for each type of its suite, so that the compiler sees a use of its body.
template <class T>
int make() {
  T{}.TestBody();
  return 0;
}
template <template <class> class T, class... Type>
int make_each(Types<Type...>) {
  return (0 + ... + make<T<Type>>());
}

template <class Factory>
int RegisterTest(char const*, char const*, char const*, char const*, char const*, int, Factory factory) {
  std::unique_ptr<Test> { factory() } -> TestBody();
  return 0;
}

template <class T>
class TestWithParam : public Test {
 protected:
  static T const& GetParam();
};
template <class T>
struct TestParamInfo {
  T param;
};
template <class T>
T const& ValuesIn(T const& values) {
  return values;
}

struct TestInfo {
  [[nodiscard]] char const* name() const { return ""; }
};
struct UnitTest {
  static UnitTest* GetInstance();
  [[nodiscard]] TestInfo const* current_test_info() const;
};

namespace internal {
inline void CaptureStderr() {}
inline std::string GetCapturedStderr() { return {}; }
}  // namespace internal

}  // namespace testing

#define GTEST_CLASS_(suite, name) suite##_##name##_Test
#define GTEST_TEST_(suite, name, base)                                                             \
  class GTEST_CLASS_(suite, name) : public base {                                                  \
   public:                                                                                         \
    void TestBody() override;                                                                      \
  };                                                                                               \
  [[maybe_unused]] int const suite##_##name##_made = ::testing::make<GTEST_CLASS_(suite, name)>(); \
  void GTEST_CLASS_(suite, name)::TestBody()
#define TEST(suite, name) GTEST_TEST_(suite, name, ::testing::Test)
#define TEST_F(suite, name) GTEST_TEST_(suite, name, suite)
#define TEST_P(suite, name) GTEST_TEST_(suite, name, suite)
#define INSTANTIATE_TEST_SUITE_P(prefix, suite, values, ...) [[maybe_unused]] auto const& prefix##_##suite = values
#define TYPED_TEST_SUITE(suite, ...) using gtest_types_of_##suite = __VA_ARGS__
#define TYPED_TEST(suite, name)                                                                                                 \
  template <class Type>                                                                                                         \
  class GTEST_CLASS_(suite, name) : public suite<Type> {                                                                        \
   public:                                                                                                                      \
    using TestFixture = suite<Type>;                                                                                            \
    using TypeParam = Type;                                                                                                     \
    void TestBody() override;                                                                                                   \
  };                                                                                                                            \
  [[maybe_unused]] int const suite##_##name##_made = ::testing::make_each<GTEST_CLASS_(suite, name)>(gtest_types_of_##suite{}); \
  template <class Type>                                                                                                         \
  void GTEST_CLASS_(suite, name)<Type>::TestBody()

#define GTEST_EVALUATED_(...) ::testing::evaluated(__VA_ARGS__)
#define EXPECT_EQ GTEST_EVALUATED_
#define EXPECT_NE GTEST_EVALUATED_
#define EXPECT_LT GTEST_EVALUATED_
#define EXPECT_LE GTEST_EVALUATED_
#define EXPECT_GT GTEST_EVALUATED_
#define EXPECT_GE GTEST_EVALUATED_
#define EXPECT_TRUE GTEST_EVALUATED_
#define EXPECT_FALSE GTEST_EVALUATED_
#define EXPECT_NEAR GTEST_EVALUATED_
#define EXPECT_DOUBLE_EQ GTEST_EVALUATED_
#define EXPECT_STREQ GTEST_EVALUATED_
#define EXPECT_STRNE GTEST_EVALUATED_
#define ASSERT_EQ GTEST_EVALUATED_
#define ASSERT_NE GTEST_EVALUATED_
#define ASSERT_LT GTEST_EVALUATED_
#define ASSERT_LE GTEST_EVALUATED_
#define ASSERT_GT GTEST_EVALUATED_
#define ASSERT_GE GTEST_EVALUATED_
#define ASSERT_TRUE GTEST_EVALUATED_
#define ASSERT_FALSE GTEST_EVALUATED_
#define SCOPED_TRACE GTEST_EVALUATED_
#define ADD_FAILURE GTEST_EVALUATED_
#define FAIL GTEST_EVALUATED_
#define GTEST_SKIP GTEST_EVALUATED_
#define EXPECT_THROW(statement, ...) \
  ::testing::evaluated([&] {         \
    try {                            \
      statement;                     \
    } catch (__VA_ARGS__ const&) {   \
    }                                \
  })
#define EXPECT_NO_THROW(statement) ::testing::evaluated([&] { statement; })
