// What belongs to an address: a map from distinct 64-bit keys to 32-bit values, without locks, for keys that have one owner at a time.
//
//   keys      num_buckets buckets of 16 keys, a line of 128 bytes each; 0 = free
//   values    the value of each place
//
// A key may be in either of two buckets, which its hash says. Whoever puts a key in looks at its first bucket, then at the second, and
// takes a free place by a compare-exchange; whoever looks for one looks at both, to their ends. So places need no marks of what once was
// there, nothing is ever rebuilt, and no look is longer than 32 places. Where each begins in a bucket is hashed too.
//
// "Full" is said of two buckets, not of the map. With a half of the places in use it does not happen; what to do then is the caller's
// affair.
//
// Who finds a key has it from whoever put it in, by some release and acquire of the program's own, or is that thread. That is what makes
// the relaxed loads here find it: nobody else removes it.
//
// Progress:  wait-free, all of it.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// Device, any thread. A view of the two arrays, all zero at the start.
struct address_map {
  using key = simt::uint64_t;    // not 0
  using value = simt::uint32_t;  // any
  static constexpr unsigned bucket_places = 16;
  static constexpr simt::size_t bucket_bytes = bucket_places * (sizeof(key) + sizeof(value));
  static constexpr unsigned none = ~0u;

  key* keys = nullptr;
  value* values = nullptr;
  unsigned num_buckets = 0;  // below 2^28

  // The places of a key: `turn` 0 and 1. Plain arithmetic.
  [[nodiscard]] GPUHEAP_HD static constexpr simt::uint64_t hash(key k) {
    simt::uint64_t const x = (k ^ (k >> 29)) * 0xbf58476d1ce4e5b9ull;
    return (x ^ (x >> 32)) * 0x9e3779b97f4a7c15ull;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned bucket_of(simt::uint64_t hashed, unsigned turn, unsigned buckets) {
    simt::uint64_t const bits = turn == 0 ? hashed >> 32 : hashed & 0xffffffff;
    return static_cast<unsigned>(bits * buckets >> 32);
  }

  // Puts k in, which is not there. False: there is no room for it.
  GPUHEAP_FN bool insert(key k, value v) const {
    simt::uint64_t const hashed = hash(k);
    // Ends: two passes.
    GPUHEAP_NO_UNROLL
    for (unsigned turn = 0; turn < 2; ++turn) {
      unsigned const first = bucket_of(hashed, turn, num_buckets) * bucket_places;
      // Ends: a pass for each place.
      GPUHEAP_NO_UNROLL
      for (unsigned i = 0; i < bucket_places; ++i) {
        unsigned const at = first + (start_of(hashed) + i) % bucket_places;
        simt::global_ref<key> const place{keys[at]};
        key expected = 0;
        // relaxed: only a guess at what the exchange will find. acquire: pairs with remove(); whoever had the place has read its value.
        if (place.load(simt::relaxed) != 0 || !place.compare_exchange(expected, k, simt::acquire, simt::relaxed)) continue;
        // relaxed: for those who get k from this thread.
        simt::global_ref<value>{values[at]}.store(v, simt::relaxed);
        return true;
      }
    }
    return false;
  }

  // Where k is, or `none`.
  [[nodiscard]] GPUHEAP_FN unsigned find(key k) const {
    simt::uint64_t const hashed = hash(k);
    // Ends: two passes.
    GPUHEAP_NO_UNROLL
    for (unsigned turn = 0; turn < 2; ++turn) {
      unsigned const first = bucket_of(hashed, turn, num_buckets) * bucket_places;
      // Ends: a pass for each place.
      GPUHEAP_NO_UNROLL
      for (unsigned i = 0; i < bucket_places; ++i) {
        unsigned const at = first + (start_of(hashed) + i) % bucket_places;
        // relaxed: the caller knows of k after it was put in.
        if (simt::global_ref<key>{keys[at]}.load(simt::relaxed) == k) return at;
      }
    }
    return none;
  }
  // Of the key that find() found there. relaxed: as there.
  [[nodiscard]] GPUHEAP_FN value value_at(unsigned at) const { return simt::global_ref<value>{values[at]}.load(simt::relaxed); }
  // Takes out k, which find() found there. False: somebody else did meanwhile.
  GPUHEAP_FN bool remove(unsigned at, key k) const {
    // release: the value has been read before the place gets another one. Pairs with insert().
    return simt::global_ref<key>{keys[at]}.compare_exchange(k, 0, simt::release, simt::relaxed);
  }

 private:
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned start_of(simt::uint64_t hashed) {
    return static_cast<unsigned>(hashed >> 28) % bucket_places;
  }
};
static_assert(address_map::bucket_of(~simt::uint64_t{0}, 0, 7) == 6 && address_map::bucket_of(~simt::uint64_t{0}, 1, 1) == 0 &&
              address_map::bucket_of(0, 1, 7) == 0);

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures
