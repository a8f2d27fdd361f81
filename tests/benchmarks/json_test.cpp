#include "harness/json.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "json_reader.hpp"

using gpuheap::bench::json_writer;
using gpuheap::test::json;
using gpuheap::test::json_reader;

TEST(JsonWriter, WhatIsWrittenReadsBack) {
  json_writer writer;
  writer.begin_object()
      .member("name", "a \"quoted\" \\ name\n")
      .member("count", 18446744073709551615u)
      .member("time", 17.25)
      .member("good", true);
  writer.key("list")
      .begin_array()
      .value(1)
      .value(2.5)
      .value("three")
      .begin_object()
      .end_object()
      .end_array()
      .key("none")
      .null()
      .end_object();
  json const read = json_reader::read(writer.text());
  EXPECT_EQ(read["name"].text, "a \"quoted\" \\ name\n");
  EXPECT_EQ(read["count"].number, 18446744073709551615.0);
  EXPECT_EQ(read["time"].number, 17.25);
  EXPECT_TRUE(read["good"].yes);
  ASSERT_EQ(read["list"].items.size(), 4u);
  EXPECT_EQ(read["list"].items[2].text, "three");
  EXPECT_EQ(read["none"].type, json::kind::null);
}

TEST(JsonWriter, IsOneLine) {
  json_writer writer;
  writer.value("two\nlines");
  EXPECT_EQ(writer.text(), "\"two\\u000alines\"");
}

TEST(JsonWriter, NumbersKeepEveryBit) {
  double const third = 1.0 / 3;
  EXPECT_EQ(json_reader::read(json_writer{}.value(third).text()).number, third);
}

TEST(JsonWriter, InfinityIsNull) { EXPECT_EQ(json_writer{}.value(std::numeric_limits<double>::infinity()).text(), "null"); }
