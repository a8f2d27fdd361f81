#include <gpuheap_opencl/layout.hpp>

#include <bit>
#include <cstring>

namespace gpuheap::opencl {

namespace {

// As in kma.cl.
constexpr unsigned fill_bits = 12, run_head = 1000, run_tail = 1001;
constexpr std::uint64_t part_alignment = 256;

std::uint64_t after(std::uint64_t& next, std::uint64_t bytes) {
  std::uint64_t const here = next;
  next = (here + bytes + part_alignment - 1) / part_alignment * part_alignment;
  return here;
}

// The layout for so many superblocks; `end`: where it ends.
kma_head layout_of(kma_config config, std::uint64_t superblocks, std::uint64_t& end) {
  kma_head head;
  head.num_superblocks = static_cast<std::uint32_t>(superblocks);
  head.num_leaves = static_cast<std::uint32_t>((superblocks + 31) / 32);
  head.num_mids = (head.num_leaves + 31) / 32;
  std::uint64_t const heads = superblocks / (std::uint64_t{4} * config.num_classes());
  head.num_heads = heads == 0 ? 1 : heads < config.heads_per_class ? static_cast<std::uint32_t>(heads) : config.heads_per_class;
  head.run_hint = head.num_superblocks;
  end = 0;
  after(end, sizeof head + std::uint64_t{4} * config.num_classes() * config.heads_per_class);
  head.words_at = after(end, superblocks * 4);
  head.bits_at = after(end, superblocks * config.words_per_superblock() * 4);
  head.sets_at = after(end, std::uint64_t{4} * config.num_classes() * (head.num_leaves + head.num_mids));
  head.superblocks_at = after(end, superblocks << config.superblock_log2);
  return head;
}

}  // namespace

std::string kma_config::build_options() const {
  return "-DKMA_SUPERBLOCK_LOG2=" + std::to_string(superblock_log2) + " -DKMA_SMALLEST_LOG2=" + std::to_string(smallest_log2) +
         " -DKMA_HEADS=" + std::to_string(heads_per_class);
}

std::uint64_t bytes_for(kma_config config, std::uint64_t superblocks) {
  std::uint64_t end = 0;
  (void)layout_of(config, superblocks, end);
  return end;
}

kma_head plan(kma_config config, std::uint64_t bytes) {
  std::uint64_t fits = 0, too_many = (bytes >> config.superblock_log2) + 1;
  constexpr std::uint64_t most = no_superblock / 2;
  if (too_many > most) too_many = most;
  while (too_many - fits > 1) {
    std::uint64_t const middle = fits + (too_many - fits) / 2;
    (bytes_for(config, middle) <= bytes ? fits : too_many) = middle;
  }
  std::uint64_t end = 0;
  return layout_of(config, fits, end);
}

std::vector<std::uint32_t> initial_words(kma_config config, kma_head const& head) {
  std::vector<std::uint32_t> words(head.superblocks_at / 4);
  std::memcpy(words.data(), &head, sizeof head);
  for (unsigned i = 0; i < config.num_classes() * config.heads_per_class; ++i) words[sizeof head / 4 + i] = no_superblock;
  // Set 0: all superblocks are free.
  auto* const leaves = words.data() + head.sets_at / 4;
  auto* const mids = leaves + head.num_leaves;
  for (std::uint32_t s = 0; s < head.num_superblocks; ++s) leaves[s / 32] |= 1u << s % 32;
  for (std::uint32_t leaf = 0; leaf < head.num_leaves; ++leaf) mids[leaf / 32] |= 1u << leaf % 32;
  return words;
}

kma_report examine(kma_config config, std::vector<std::uint32_t> const& words) {
  kma_report report;
  kma_head head;
  if (words.size() * 4 < sizeof head) return {.problem = "there is no heap"};
  std::memcpy(static_cast<void*>(&head), words.data(), sizeof head);
  if (words.size() * 4 < head.superblocks_at) return {.problem = "the heap's head is destroyed"};
  auto const* const heads = words.data() + sizeof head / 4;
  auto const* const states = words.data() + head.words_at / 4;
  auto const* const bits = words.data() + head.bits_at / 4;
  auto const* const sets = words.data() + head.sets_at / 4;
  auto const wrong = [&](std::uint32_t s, char const* what) {
    if (report.problem.empty()) report.problem = "superblock " + std::to_string(s) + " " + what;
  };
  auto const is_in_set = [&](unsigned set, std::uint32_t s) {
    auto const* const leaves = sets + std::size_t{set} * (head.num_leaves + head.num_mids);
    auto const* const mids = leaves + head.num_leaves;
    return (leaves[s / 32] >> s % 32 & 1) != 0 && (mids[s / 1024] >> s / 32 % 32 & 1) != 0;
  };
  auto const is_head = [&](unsigned c, std::uint32_t s) {
    for (unsigned h = 0; h < head.num_heads; ++h) {
      if (heads[std::size_t{c} * config.heads_per_class + h] == s) return true;
    }
    return false;
  };
  std::uint32_t run_left = 0;  // superblocks of a run that follow
  for (std::uint32_t s = 0; s < head.num_superblocks; ++s) {
    std::uint32_t const state = states[s], fill = state & ((1u << fill_bits) - 1), kind = state >> fill_bits;
    auto const* const own = bits + std::size_t{s} * config.words_per_superblock();
    unsigned taken = 0;
    for (unsigned w = 0; w < config.words_per_superblock(); ++w) taken += static_cast<unsigned>(std::popcount(own[w]));
    if (fill != 0) ++report.held_superblocks;
    bool const is_tail = fill != 0 && kind == run_tail;
    if (is_tail != (run_left != 0)) wrong(s, is_tail ? "is marked as part of a run, and of none" : "is not marked as part of its run");
    if (run_left != 0) --run_left;
    if (fill == 0) {
      if (taken != 0) wrong(s, "is free, and has blocks in use");
      if (!is_in_set(0, s)) wrong(s, "is free, and not in the set of free ones");
    } else if (kind == run_head) {
      run_left = own[0] - 1;
      ++report.live_runs;
      report.live_bytes += std::uint64_t{own[0]} << config.superblock_log2;
    } else if (!is_tail) {
      if (kind == 0 || kind > config.num_classes()) {
        wrong(s, "is of no class");
        continue;
      }
      unsigned const c = kind - 1, capacity = 1u << (config.num_classes() - 1 - c);
      if (fill > capacity || taken != fill) wrong(s, "has other blocks in use than its word says");
      if (fill < capacity && !is_in_set(kind, s) && !is_head(c, s)) wrong(s, "has blocks left, and cannot be found");
      report.live_blocks += fill;
      report.live_bytes += std::uint64_t{fill} << (c + config.smallest_log2);
    }
  }
  if (run_left != 0) report.problem = "a run ends behind the last superblock";
  if (head.moves_begun != head.moves_ended) report.problem = "a superblock is being moved, and no kernel runs";
  return report;
}

}  // namespace gpuheap::opencl
