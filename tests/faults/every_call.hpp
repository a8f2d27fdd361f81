// Runs steps again and again, each time with another call of the runtime or of the driver failing, until none is left to fail.
#pragma once

#include "cuda_double.hpp"

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace faults {

// A program: steps in order, over state that make() creates and the destruction of its result takes down. summary() describes the state at
// the end; a step that failed and was made again must not change it.
struct life {
  using step = std::function<void()>;
  std::vector<step> steps;
  std::function<std::string()> summary;
};

// The result of one run.
struct outcome {
  unsigned failed_steps = 0;
  std::string last_text;  // of the last failure
  std::string summary;
};

// `is_ours`: whether an exception is one that the library documents. `again`: a step that failed is made a second time.
template <class Make>
outcome run(Make make, bool again, bool (*is_ours)(std::exception const&)) {
  outcome what;
  {
    auto const held_state = make();
    for (auto const& step : held_state->all.steps) {
      bool const last_chance = !again;
      for (int tries = 0; tries < 2; ++tries) {
        try {
          step();
          break;
        } catch (std::exception const& e) {
          ++what.failed_steps;
          what.last_text = e.what();
          EXPECT_TRUE(is_ours(e)) << e.what();
          EXPECT_EQ(what.last_text.rfind("gpuheap: ", 0), 0u) << what.last_text;
          EXPECT_EQ(tries, 0) << "the step failed twice, though one call failed: " << e.what();
        }
        if (last_chance) break;
      }
    }
    // The destruction of the state may still fail; what looks at it here must not.
    pause();
    if (again) what.summary = held_state->all.summary();
    resume();
  }
  return what;
}

// Every call fails once, in a run of its own: with an error, for lack of memory, and so that all later calls fail too.
template <class Make>
void fail_every_call(Make make, bool (*is_ours)(std::exception const&)) {
  resources const before = held();
  // The first run, without a failure, also does what a process does once.
  (void)run(make, true, is_ours);
  arm({});
  outcome const sound = run(make, true, is_ours);
  std::uint64_t const num_calls = calls();  // those of the destruction among them
  ASSERT_EQ(sound.failed_steps, 0u) << sound.last_text;
  ASSERT_EQ(held(), before) << "without any failure this was not given back:" << text_of(held());
  ASSERT_GT(num_calls, 4u) << "the steps call nothing that could fail";
  unsigned told = 0;
  for (std::uint64_t nth = 0; nth < num_calls; ++nth) {
    for (int way = 0; way < 3; ++way) {
      bool const ever_after = way == 2;
      arm({nth, ever_after, way == 1});
      outcome const what = run(make, !ever_after, is_ours);
      std::string const call = failed_call();
      disarm();
      // A device that cannot be made current again is the runtime's failure, of which nobody can be told.
      if (ever_after || call == "cudaSetDevice") restore_device();
      std::string const where = "call " + std::to_string(nth) + ", " + call + (ever_after ? ", and all after it" : "");
      ASSERT_NE(call, "") << "call " << nth << " was not made";
      ASSERT_EQ(held(), before) << where << " failed, and this was not given back:" << text_of(held());
      if (!ever_after) {
        ASSERT_EQ(what.summary, sound.summary) << where << " failed, and the step was made again: " << what.last_text;
      }
      told += what.failed_steps;
      if (testing::Test::HasFailure()) FAIL() << where << " failed";
    }
  }
  EXPECT_GT(told, num_calls) << "few failures are told of";
}

}  // namespace faults
