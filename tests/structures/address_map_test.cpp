// The map from addresses to what belongs to them: alone, contended, and where it is full.
#include "address_map_checks.hpp"

namespace structures_test {

// Kernel, one thread: fills the map, and empties it.
struct fill_address_map {
  plain_address_map map;
  unsigned* out;
  GPUHEAP_FN void operator()(unsigned) const {
    unsigned const places = map.num_buckets * address_map::bucket_places;
    unsigned taken = 0, lost = 0, first_refusal = 0;
    for (unsigned n = 1; n <= 40 * places; ++n) {
      if (map.insert(n * 48, n)) {
        ++taken;
      } else if (first_refusal == 0) {
        first_refusal = taken;
      }
    }
    for (unsigned n = 1; n <= 40 * places; ++n) {
      unsigned const at = map.find(n * 48);
      if (at == address_map::none) continue;
      lost += map.value_at(at) != n || !map.remove(at, n * 48) || map.remove(at, n * 48);
      --taken;
    }
    out[0] = first_refusal;
    out[1] = taken;
    out[2] = lost;
  }
};

namespace {

TEST(AddressMap, ServesTwoThirdsOfItsPlacesAndIsEmptyAgain) {
  for (unsigned const num_buckets : {1u, 7u, 100u}) {
    address_memory memory{num_buckets};
    test::device_array<unsigned> out(3);
    gpuheap::launch(1, fill_address_map{memory.map<plain_address_map>(), out.data()});
    auto const said = out.read();
    EXPECT_GE(said[0], num_buckets * address_map::bucket_places * 2 / 3) << "keys before the first was refused, of " << num_buckets;
    EXPECT_EQ(said[1], 0u) << "keys that were put in, and not found";
    EXPECT_EQ(said[2], 0u);
    EXPECT_EQ(memory.in_use(), 0u);
  }
}
TEST(AddressMap, KeysComeAndGo) {
  EXPECT_EQ(keys_come_and_go<plain_address_map>(many_threads, many_threads, 5, 8, true), "");
  EXPECT_EQ(keys_come_and_go<plain_address_map>(3, 512, 10, 4, false), "");
}
TEST(AddressMap, KeysComeAndGoUnderManySchedules) {
  expect_passes(600, [] { return keys_come_and_go<plain_address_map>(2, explored_threads, 3, 2, false); });
  expect_passes(600, [] { return keys_come_and_go<plain_address_map>(1, 6, 8, 3, false); });
}

}  // namespace
}  // namespace structures_test
