// ordered_bits: a bitmap tree, half full at random, whose threads ask for the first set bit from a random place on, or take it.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/structures/bitmap_tree.hpp>

#include <string>
#include <vector>

#include "harness/random.hpp"
#include "harness/structure_rounds.hpp"

namespace gpuheap::bench {

// Thread i's answer goes to found[i]. A thread that looks and finds nothing up to the end goes on at the start; a thread that takes a bit
// takes the next of its leaf, or another where it comes too late.
struct ask_for_bits {
  structures::bitmap_tree tree;
  unsigned* found;
  random_sequence starts;
  bool take;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned const start = starts.below(i, tree.num_leaves * structures::bitmap_tree::bits_per_leaf);
    unsigned bit = take ? tree.claim_any(start) : tree.successor(start);
    if (!take && bit == structures::bitmap_tree::none) bit = tree.successor(0);
    simt::plain_write(found[i], bit);
  }
};

struct ordered_bits {
  static constexpr parameter parameters[] = {
      structure_threads_parameter,
      number_parameter("bits", "8192", 64, 1u << 24),  // the universe
      choice_parameter("which", "successor", "successor|claim"),
      block_threads_parameter,
  };
  static constexpr case_description description{
      .name = "ordered_bits",
      .brief = "threads look for the next set bit of a half-full bitmap tree from random places on, or take it",
      .section = "Structures",
      .parameters = parameters,
      .without_allocator = true,
  };

  template <class>
  static outcome run(session const& s, point const& p) {
    using structures::bitmap_tree;
    unsigned const num_leaves = bitmap_tree::leaves_for(p.number("bits")), threads = p.threads();
    bool const take = p.text("which") == "claim";
    std::vector<bitmap_tree::word> before(bitmap_tree::words_for(num_leaves, 1));
    auto const set_bits = half_full(s.seed, num_leaves, before);
    if (take && set_bits < threads) {
      return unsupported("of " + std::to_string(p.number("bits")) + " bits " + std::to_string(set_bits) + " are set: too few for " +
                         std::to_string(threads) + " threads to take one each");
    }
    owned_stream stream;
    device_array<bitmap_tree::word> words(before.size());
    device_array<unsigned> found(threads);
    random_sequence const starts{s.seed, 1};
    auto const tree = bitmap_tree::over(words.data(), num_leaves, 1);
    auto const reset = [&](stream_ref on) { words.upload(before, on); };
    auto const fault = [&](stream_ref on) {
      auto const bits = found.download(on);
      return take ? fault_of_claims(before, num_leaves, bits, words.download(on)) : fault_of_answers(before, num_leaves, starts, bits);
    };
    return run_structure_rounds(s, p, stream, threads, reset, ask_for_bits{tree, found.data(), starts, take}, fault);
  }

 private:
  using word = structures::bitmap_tree::word;

  // Fills the words of a tree: leaves at random, and their summaries. Returns how many bits are set.
  static simt::uint64_t half_full(simt::uint64_t seed, unsigned num_leaves, std::vector<word>& words) {
    random_sequence const random{seed};
    auto const tree = structures::bitmap_tree::over(words.data(), num_leaves, 1);
    simt::uint64_t count = 0;
    for (unsigned i = 0; i < num_leaves; ++i) {
      tree.leaves[i] = random.bits(i);
      count += simt::popcount(tree.leaves[i]);
      if (tree.leaves[i] == 0) continue;
      tree.mids[i / 64] |= word{1} << (i % 64);
      if (tree.num_tops() != 0) tree.tops[i / 4096] |= word{1} << (i / 64 % 64);
    }
    return count;
  }
  static bool is_set(std::vector<word> const& leaves, unsigned bit) { return (leaves[bit / 64] >> (bit % 64) & 1) != 0; }

  // Every thread has a bit that was set, no two the same, and those bits and no others are gone.
  static std::string fault_of_claims(std::vector<word> left, unsigned num_leaves, std::vector<unsigned> const& bits,
                                     std::vector<word> const& after) {
    for (unsigned const bit : bits) {
      if (bit == structures::bitmap_tree::none) return "a thread got no bit although there were enough";
      if (!is_set(left, bit)) return "bit " + std::to_string(bit) + " was taken twice, or was not there";
      left[bit / 64] &= ~(word{1} << (bit % 64));
    }
    for (unsigned i = 0; i < num_leaves; ++i) {
      if (left[i] != after[i]) return "leaf " + std::to_string(i) + " lacks bits that no thread took";
    }
    return "";
  }
  // Every answer is what the host finds.
  static std::string fault_of_answers(std::vector<word> const& leaves, unsigned num_leaves, random_sequence const& starts,
                                      std::vector<unsigned> const& bits) {
    unsigned const end = num_leaves * structures::bitmap_tree::bits_per_leaf;
    for (unsigned i = 0; i < bits.size(); ++i) {
      unsigned expected = starts.below(i, end);
      while (!is_set(leaves, expected)) expected = expected + 1 == end ? 0 : expected + 1;
      if (bits[i] != expected) {
        return "thread " + std::to_string(i) + " found bit " + std::to_string(bits[i]) + ", the first from its place on is " +
               std::to_string(expected);
      }
    }
    return "";
  }
};

}  // namespace gpuheap::bench
