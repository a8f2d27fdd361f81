#include "tools/malloc/run/sha256.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using gpuheap::unchanged::hexadecimal;
using gpuheap::unchanged::sha256;

std::string hash_of(std::string const& text, std::size_t piece) {
  sha256 hash;
  for (std::size_t at = 0; at < text.size(); at += piece)
    hash.add(std::as_bytes(std::span{text}.subspan(at, std::min(piece, text.size() - at))));
  return hexadecimal(hash.digest());
}

// The examples of FIPS 180-4, in pieces of every length.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(hash_of("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  std::string const two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  for (std::size_t piece = 1; piece < 70; ++piece) {
    EXPECT_EQ(hash_of("abc", piece), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hash_of(two_blocks, piece), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  }
  EXPECT_EQ(hash_of(std::string(1000000, 'a'), 997), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PadsEveryLength) {
  std::string last;
  for (std::size_t length = 0; length < 200; ++length) {
    std::string const whole = hash_of(std::string(length, 'x'), 1000);
    EXPECT_EQ(whole, hash_of(std::string(length, 'x'), 7)) << length;
    EXPECT_NE(whole, last);
    last = whole;
  }
}

TEST(Sha256, ListsOfTextsDoNotReadAlike) {
  sha256 one, other;
  one.add_text("ab");
  one.add_text("c");
  other.add_text("a");
  other.add_text("bc");
  EXPECT_NE(one.digest(), other.digest());
}

}  // namespace
