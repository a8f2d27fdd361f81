// Addresses that get memory later: the mapped pages, the pages that are given back, and that nothing moves.
#include "fixtures.hpp"

#include "../support/pattern.hpp"

#include <gpuheap/memory/address_range.hpp>

#include <cstdint>
#include <type_traits>

namespace {

using namespace test;
using gpuheap::memory::address_range;

static_assert(!std::is_copy_constructible_v<address_range> && !std::is_copy_assignable_v<address_range>);
static_assert(std::is_nothrow_move_constructible_v<address_range> && std::is_nothrow_move_assignable_v<address_range>);

struct write_words {
  simt::uint64_t* words;
  simt::uint64_t key;
  GPUHEAP_FN void operator()(unsigned i) const { simt::plain_write(words[i], mix(key + i)); }
};
struct count_wrong_words {
  simt::uint64_t const* words;
  simt::uint64_t key;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    if (simt::plain_read(words[i]) != mix(key + i)) simt::atomic_ref<unsigned>{*wrong}.fetch_add(1, simt::relaxed);  // relaxed: a count
  }
};

constexpr unsigned num_words = 4096 / 8;

// The first page of what lies at `offset` can be written by a kernel; the key says by which test.
void write_at(address_range const& range, simt::size_t offset, simt::uint64_t key) {
  gpuheap::launch(num_words, write_words{reinterpret_cast<simt::uint64_t*>(static_cast<char*>(range.base()) + offset), key});
}
unsigned wrong_at(address_range const& range, simt::size_t offset, simt::uint64_t key) {
  device_array<unsigned> wrong(1);
  gpuheap::launch(num_words,
                  count_wrong_words{reinterpret_cast<simt::uint64_t const*>(static_cast<char*>(range.base()) + offset), key, wrong.data()});
  return wrong.first();
}

TEST(AddressRange, TakesNoMemoryAtFirst) {
  address_range const empty;
  EXPECT_EQ(empty.base(), nullptr);
  EXPECT_EQ(empty.bytes() + empty.mapped_bytes(), 0u);

  address_range const range{100_GiB + 1};
  EXPECT_NE(range.base(), nullptr);
  EXPECT_GT(range.bytes(), 100_GiB);
  EXPECT_EQ(range.bytes() % range.granularity(), 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(range.base()) % 256, 0u);
  EXPECT_EQ(range.mapped_bytes(), 0u);
  EXPECT_FALSE(range.is_mapped(0, 1));
}

TEST(AddressRange, MapsSeparatePartsRoundedOutwards) {
  address_range range{1_GiB};
  simt::size_t const unit = range.granularity();
  range.map(0, 1);
  EXPECT_EQ(range.mapped_bytes(), unit);
  range.map(512_MiB + 1, unit);  // touches two units
  EXPECT_EQ(range.mapped_bytes(), 3 * unit);
  range.map(range.bytes() - 1, 1);
  EXPECT_EQ(range.mapped_bytes(), 4 * unit);
  range.map(7, 0);
  EXPECT_EQ(range.mapped_bytes(), 4 * unit);
  EXPECT_TRUE(range.is_mapped(0, unit) && range.is_mapped(512_MiB, 2 * unit) && range.is_mapped(range.bytes() - unit, unit));
  EXPECT_FALSE(range.is_mapped(0, unit + 1));
  EXPECT_FALSE(range.is_mapped(512_MiB - 1, 2));
  EXPECT_FALSE(range.is_mapped(range.bytes() - 1, 2));
  for (simt::size_t const offset : {simt::size_t{0}, simt::size_t{512_MiB}, range.bytes() - unit}) write_at(range, offset, offset);
  for (simt::size_t const offset : {simt::size_t{0}, simt::size_t{512_MiB}, range.bytes() - unit})
    EXPECT_EQ(wrong_at(range, offset, offset), 0u);
}

TEST(AddressRange, WhatIsThereStaysAsItIs) {
  address_range range{1_GiB};
  simt::size_t const unit = range.granularity();
  void* const base = range.base();
  range.map(2 * unit, unit);
  range.map(6 * unit, 2 * unit);
  write_at(range, 2 * unit, 1);
  write_at(range, 7 * unit, 2);
  range.map(0, 100 * unit);  // over holes and parts
  EXPECT_EQ(range.mapped_bytes(), 100 * unit);
  range.map(3 * unit, 50 * unit);  // all there
  EXPECT_EQ(range.mapped_bytes(), 100 * unit);
  EXPECT_TRUE(range.is_mapped(0, 100 * unit));
  EXPECT_EQ(range.base(), base);
  EXPECT_EQ(wrong_at(range, 2 * unit, 1) + wrong_at(range, 7 * unit, 2), 0u);
  write_at(range, 99 * unit, 3);
  EXPECT_EQ(wrong_at(range, 99 * unit, 3), 0u);
}

TEST(AddressRange, GivesBackWholePieces) {
  address_range range{1_GiB};
  constexpr simt::size_t piece = address_range::largest_piece_bytes;
  range.map(0, 4 * piece);
  EXPECT_EQ(range.mapped_bytes(), 4 * piece);
  write_at(range, 0, 5);
  EXPECT_EQ(range.unmap(4 * piece, 100), 0u);
  EXPECT_EQ(range.unmap(piece + 1, 3 * piece - 1), 2 * piece) << "the piece that the part begins in stays";
  EXPECT_TRUE(range.is_mapped(0, 2 * piece));
  EXPECT_FALSE(range.is_mapped(2 * piece, 1));
  EXPECT_EQ(range.mapped_bytes(), 2 * piece);
  EXPECT_EQ(wrong_at(range, 0, 5), 0u);
  range.map(3 * piece, piece);  // and again, with a hole before it
  write_at(range, 3 * piece, 6);
  EXPECT_EQ(wrong_at(range, 3 * piece, 6), 0u);
  EXPECT_EQ(range.unmap(0, range.bytes()), 3 * piece);
  EXPECT_EQ(range.mapped_bytes(), 0u);
}

TEST(AddressRange, GivesTheDeviceItsMemoryBack) {
  // More in all than a machine has at once.
  simt::size_t const total = gpuheap::memory::device.query()->total_bytes;
  simt::size_t const part = total / 4;
  address_range range{total};
  for (unsigned round = 0; round < 6; ++round) {
    range.map(0, part);
    range.unmap(0, range.bytes());
  }
  for (unsigned round = 0; round < 6; ++round) {
    address_range other{part};
    other.map(0, part);
  }
}

TEST(AddressRange, MovesWithItsMemory) {
  address_range a{64_MiB};
  a.map(0, 100);
  write_at(a, 0, 9);
  void* const base = a.base();
  simt::size_t const mapped = a.mapped_bytes();
  address_range b{std::move(a)};
  EXPECT_EQ(b.base(), base);
  EXPECT_EQ(b.mapped_bytes(), mapped);
  EXPECT_EQ(wrong_at(b, 0, 9), 0u);
  b.map(32_MiB, 100);
  address_range c{1_MiB};
  c.map(0, 1);
  c = std::move(b);
  EXPECT_EQ(c.base(), base);
  EXPECT_EQ(c.mapped_bytes(), 2 * mapped);
  EXPECT_EQ(wrong_at(c, 0, 9), 0u);
  address_range& self = c;
  c = std::move(self);
  EXPECT_EQ(c.mapped_bytes(), 2 * mapped);
}

TEST(AddressRange, RefusesWhatIsNotInside) {
  address_range range{1_MiB};
  simt::size_t const bytes = range.bytes();
  EXPECT_TRUE(says(text_of_error([&] { range.map(bytes - 1, 2); }), "do not lie in an address range"));
  EXPECT_THROW(range.map(bytes + 1, 0), gpuheap::error);
  EXPECT_THROW(range.map(1, ~simt::size_t{0}), gpuheap::error);
  EXPECT_THROW(range.unmap(0, bytes + 1), gpuheap::error);
  EXPECT_EQ(range.mapped_bytes(), 0u);
}

TEST(AddressRange, MoreThanTheDeviceHasIsRefusedAndChangesNothing) {
  simt::size_t const total = gpuheap::memory::device.query()->total_bytes;
  address_range range{2 * total};
  range.map(total / 2, 1);
  write_at(range, total / 2 / range.granularity() * range.granularity(), 4);
  simt::size_t const mapped = range.mapped_bytes();
  EXPECT_THROW(range.map(0, 2 * total), gpuheap::out_of_memory);
  EXPECT_EQ(range.mapped_bytes(), mapped);
  EXPECT_EQ(wrong_at(range, total / 2 / range.granularity() * range.granularity(), 4), 0u);
  std::string const text = text_of_error([&] { range.map(0, 2 * total); });
  EXPECT_TRUE(says(text, "cannot map " + gpuheap::memory::format_bytes(2 * total)));
  EXPECT_TRUE(says(text, "of device memory"));
  range.map(0, 1_MiB);
}

TEST(AddressRange, MoreAddressesThanThereAreIsRefused) {
  EXPECT_TRUE(says(text_of_error([] { address_range range{simt::size_t{1} << 62}; }), "cannot reserve 4.0 EiB of addresses"));
  EXPECT_THROW(address_range{~simt::size_t{0}}, gpuheap::error);
}

}  // namespace
