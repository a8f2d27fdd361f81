// A lock-free hash map from distinct 64-bit keys, such as addresses, to 32-bit values. Each key has one owner at a time.
//
//   keys      num_buckets buckets of 16 keys, a line of 128 bytes each; 0 = free
//   values    the value of each place
//
// A key's hash names two buckets, and the key is in one of them. An insertion looks at the first bucket, then at the second, and takes a
// free place by a compare-exchange. A search looks at both buckets, to their ends. The map therefore needs no tombstones and no rebuilding,
// and a search looks at no more than 32 places. The place at which a thread begins in a bucket also depends on the hash.
//
// An insertion fails when both buckets of its key are full, even if the map has other free places. In a map that is half full this is very
// unlikely. The caller handles the failure.
//
// A thread that searches for a key inserted it, or learned of it from the inserting thread through a release and an acquire of the program.
// No thread but the key's owner removes it. The relaxed loads here therefore find the key.
//
// Progress:  all operations are wait-free.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::structures {

// Device, any thread. A view of the two arrays, which are all zero at the start.
struct address_map {
  using key = simt::uint64_t;    // not 0
  using value = simt::uint32_t;  // any
  static constexpr unsigned bucket_places = 16;
  static constexpr simt::size_t bucket_bytes = bucket_places * (sizeof(key) + sizeof(value));
  static constexpr unsigned none = ~0u;

  key* keys = nullptr;
  value* values = nullptr;
  unsigned num_buckets = 0;  // below 2^28

  // A key's hash, and the buckets that it names: the first for `turn` 0, the second for `turn` 1.
  [[nodiscard]] GPUHEAP_HD static constexpr simt::uint64_t hash(key k) {
    simt::uint64_t const x = (k ^ (k >> 29)) * 0xbf58476d1ce4e5b9ull;
    return (x ^ (x >> 32)) * 0x9e3779b97f4a7c15ull;
  }
  [[nodiscard]] GPUHEAP_HD static constexpr unsigned bucket_of(simt::uint64_t hashed, unsigned turn, unsigned buckets) {
    simt::uint64_t const bits = turn == 0 ? hashed >> 32 : hashed & 0xffffffff;
    return static_cast<unsigned>(bits * buckets >> 32);
  }

  // Inserts k, which is not in the map. False: both of its buckets are full.
  GPUHEAP_FN bool insert(key k, value v) const {
    simt::uint64_t const hashed = hash(k);
    GPUHEAP_NO_UNROLL
    for (unsigned turn = 0; turn < 2; ++turn) {
      unsigned const first = bucket_of(hashed, turn, num_buckets) * bucket_places;
      GPUHEAP_NO_UNROLL
      for (unsigned i = 0; i < bucket_places; ++i) {
        unsigned const at = first + (start_of(hashed) + i) % bucket_places;
        simt::global_ref<key> const place{keys[at]};
        key expected = 0;
        // relaxed: a check that saves a compare-exchange. acquire: pairs with remove(), so the last owner's read of the value happens
        // before this thread's store of a new one.
        if (place.load(simt::relaxed) != 0 || !place.compare_exchange(expected, k, simt::acquire, simt::relaxed)) continue;
        // relaxed: other threads learn of k from this one, after the store.
        simt::global_ref<value>{values[at]}.store(v, simt::relaxed);
        return true;
      }
    }
    return false;
  }

  // The place of k, or `none`.
  [[nodiscard]] GPUHEAP_FN unsigned find(key k) const {
    simt::uint64_t const hashed = hash(k);
    GPUHEAP_NO_UNROLL
    for (unsigned turn = 0; turn < 2; ++turn) {
      unsigned const first = bucket_of(hashed, turn, num_buckets) * bucket_places;
      GPUHEAP_NO_UNROLL
      for (unsigned i = 0; i < bucket_places; ++i) {
        unsigned const at = first + (start_of(hashed) + i) % bucket_places;
        // relaxed: the insertion of k happens before this call.
        if (simt::global_ref<key>{keys[at]}.load(simt::relaxed) == k) return at;
      }
    }
    return none;
  }
  // The value of the key that find() found at this place. relaxed: as in find().
  [[nodiscard]] GPUHEAP_FN value value_at(unsigned at) const { return simt::global_ref<value>{values[at]}.load(simt::relaxed); }
  // Removes k from the place that find() returned. False: k is no longer there.
  GPUHEAP_FN bool remove(unsigned at, key k) const {
    // release: this thread's read of the value happens before the next insert() stores a new one. Pairs with insert().
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
