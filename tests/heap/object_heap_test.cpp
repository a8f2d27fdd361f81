// Heaps of objects: fields that lie apart and keep their values, passes that visit the objects that lived at their start, exhaustion, and
// all of it under many schedules.
#include "../support/device_array.hpp"
#include "../support/rng.hpp"
#include "../support/seeds.hpp"

#include <gpuheap/object_heap.hpp>
#include <gpuheap/simt/explore.hpp>

#include <gtest/gtest.h>

#include <cstdlib>

namespace object_heaps {

namespace simt = gpuheap::simt;
using namespace gpuheap::literals;
using gpuheap::free_status;
using gpuheap::object_heap;
using gpuheap::object_ptr;

// Sizes apart: 3, 4 and 64 bytes and more; a class that leads to another; one that does not list its fields.
struct leaf {
  unsigned char red, green, blue;
  using fields = gpuheap::fields<&leaf::red, &leaf::green, &leaf::blue>;
};
struct branch {
  double length;
  object_ptr<branch> parent;
  object_ptr<leaf> end;
  unsigned key;
  char kind;
  using fields = gpuheap::fields<&branch::length, &branch::parent, &branch::end, &branch::key, &branch::kind>;
};
struct record {
  unsigned words[20];
  unsigned visits;
};
using tree_heap = object_heap<leaf, branch, record>;
using ref = tree_heap::ref_type;

struct results {
  unsigned wrong, seen, failed_requests;
};
GPUHEAP_FN void count(unsigned& n, unsigned by = 1) { simt::atomic_ref<unsigned>{n}.fetch_add(by, simt::relaxed); }

GPUHEAP_FN branch branch_of(unsigned key) { return {key * 0.5, object_ptr<branch>::of_bits(key), nullptr, key, static_cast<char>(key)}; }
GPUHEAP_FN bool is_branch_of(object_ptr<branch> b, unsigned key) {
  return b[&branch::length] == key * 0.5 && b[&branch::parent].bits() == key && !b[&branch::end] && b[&branch::key] == key &&
         b[&branch::kind] == static_cast<char>(key);
}

// Kernel: thread i makes an object of each class and writes it down.
struct grow {
  ref heap;
  object_ptr<leaf>* leaves;
  object_ptr<branch>* branches;
  object_ptr<record>* records;
  results* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    leaves[i] = heap.create<leaf>({.red = static_cast<unsigned char>(i), .green = 7, .blue = static_cast<unsigned char>(i / 256)});
    branches[i] = heap.create<branch>(branch_of(i));
    records[i] = heap.create<record>();
    count(out->failed_requests, !leaves[i] + !branches[i] + !records[i]);
    if (!records[i]) return;
    for (unsigned w = 0; w < 20; ++w) records[i][&record::words][w] = i * 20 + w;
    records[i][&record::visits] = 0;
  }
};
// Kernel: all of thread i's objects are as it made them.
struct look_at_all {
  object_ptr<leaf> const* leaves;
  object_ptr<branch> const* branches;
  object_ptr<record> const* records;
  results* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    leaf const l = leaves[i].load();
    unsigned bad = l.red != static_cast<unsigned char>(i) || l.green != 7 || l.blue != static_cast<unsigned char>(i / 256);
    bad += !is_branch_of(branches[i], i);
    branch const b = branches[i].load();
    bad += b.key != i || b.length != i * 0.5 || b.parent.bits() != i;
    for (unsigned w = 0; w < 20; ++w) bad += records[i][&record::words][w] != i * 20 + w;
    if (bad != 0) count(out->wrong, bad);
  }
};
// Kernel: thread i destroys its own, and learns the second time that they are gone.
struct fell {
  ref heap;
  object_ptr<leaf> const* leaves;
  object_ptr<branch> const* branches;
  object_ptr<record> const* records;
  results* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned bad = heap.destroy(leaves[i]) != free_status::done;
    bad += heap.destroy(branches[i]) != free_status::done;
    bad += heap.destroy(records[i]) != free_status::done;
    bad += heap.destroy(object_ptr<leaf>{}) != free_status::null;
    if (bad != 0) count(out->wrong, bad);
  }
};

// For each object.
struct visit_leaf {
  results* out;
  GPUHEAP_FN void operator()(object_ptr<leaf> l) const { count(l[&leaf::green] == 7 ? out->seen : out->wrong); }
};
struct visit_record {
  GPUHEAP_FN void operator()(object_ptr<record> r) const { ++r[&record::visits]; }
};
struct expect_visits {
  unsigned visits;
  results* out;
  GPUHEAP_FN void operator()(object_ptr<record> r) const { count(r[&record::visits] == visits ? out->seen : out->wrong); }
};

// The same kernels on both machines, on fewer threads in the simulator.
constexpr bool on_gpu = simt::has_builtin_heap;
class ObjectHeap : public testing::Test {
 protected:
  explicit ObjectHeap(unsigned n = on_gpu ? 30000 : 1000) : leaves(n), branches(n), records(n) {}
  [[nodiscard]] unsigned size() const { return static_cast<unsigned>(leaves.size()); }
  void make() { gpuheap::launch(size(), grow{heap.ref(), leaves.data(), branches.data(), records.data(), out.data()}); }
  void expect_intact() { gpuheap::launch(size(), look_at_all{leaves.data(), branches.data(), records.data(), out.data()}); }
  void destroy_all() { gpuheap::launch(size(), fell{heap.ref(), leaves.data(), branches.data(), records.data(), out.data()}); }
  template <class T>
  void expect_count(unsigned live) {
    auto const there = heap.count<T>();
    EXPECT_EQ(there.live, live);
    EXPECT_GE(there.slots, there.live);
    EXPECT_EQ(heap.verify().problem, "");
  }

  tree_heap heap{on_gpu ? 64_MiB : 1_MiB};
  test::device_array<object_ptr<leaf>> leaves;
  test::device_array<object_ptr<branch>> branches;
  test::device_array<object_ptr<record>> records;
  test::device_array<results> out{1};
};

TEST_F(ObjectHeap, FieldsKeepWhatIsWrittenIntoThem) {
  for (unsigned round = 0; round < 3; ++round) {
    make();
    expect_intact();
    EXPECT_EQ(out.first().failed_requests, 0u);
    EXPECT_EQ(out.first().wrong, 0u);
    expect_count<leaf>(size());
    expect_count<branch>(size());
    expect_count<record>(size());
    destroy_all();
    EXPECT_EQ(out.first().wrong, 0u);
    expect_count<leaf>(0);
    EXPECT_EQ(heap.count<branch>().blocks, 0u);
    heap.check();
  }
}

// Kernel: where two fields of neighbours lie.
struct measure {
  object_ptr<branch> const* branches;
  long* distances;  // of keys, of lengths
  GPUHEAP_FN void operator()(unsigned) const {
    // Of a warp that was served at once, in one block.
    auto const at = [](auto& field) { return reinterpret_cast<char*>(&field); };
    distances[0] = at(branches[1][&branch::key]) - at(branches[0][&branch::key]);
    distances[1] = at(branches[1][&branch::length]) - at(branches[0][&branch::length]);
    distances[2] = branches[0].data() == branches[1].data() ? 1 : 0;
  }
};
TEST_F(ObjectHeap, FieldsOfNeighboursAreNeighbours) {
  make();
  test::device_array<long> distances(3);
  gpuheap::launch(1, measure{branches.data(), distances.data()});
  auto const d = distances.read();
  ASSERT_EQ(d[2], 1);
  EXPECT_EQ(d[0], static_cast<long>(sizeof(unsigned)));
  EXPECT_EQ(d[1], static_cast<long>(sizeof(double)));
}

TEST_F(ObjectHeap, APassVisitsEachObjectOnce) {
  heap.for_each<leaf>(visit_leaf{out.data()});
  EXPECT_EQ(out.first().seen, 0u) << "of none";
  make();
  heap.for_each<leaf>(visit_leaf{out.data()});
  EXPECT_EQ(out.first().seen, size());
  // On streams of their own, one pass after the other and all on one.
  simt::stream_ref const stream = simt::make_stream();
  simt::synchronize({});
  for (unsigned round = 0; round < 3; ++round) heap.for_each<record>(visit_record{}, stream);
  heap.for_each<record>(expect_visits{3, out.data()}, stream);
  heap.for_each<leaf>(visit_leaf{out.data()});
  simt::synchronize(stream);
  EXPECT_EQ(out.first().seen, 3 * size());
  EXPECT_EQ(out.first().wrong, 0u);
  expect_intact();
  EXPECT_EQ(out.first().wrong, 0u);
  simt::destroy_stream(stream);
}

// For each branch: half of them go, the others make one, and every one makes a leaf.
struct renew {
  ref heap;
  results* out;
  GPUHEAP_FN void operator()(object_ptr<branch> b) const {
    unsigned const key = b[&branch::key];
    count(is_branch_of(b, key) ? out->seen : out->wrong);
    object_ptr<leaf> const l = heap.create<leaf>({.red = 0, .green = 7, .blue = 0});
    if (key % 2 == 0) {
      heap.destroy(b);
    } else if (object_ptr<branch> const made = heap.create<branch>(branch_of(key * 2 + 1)); !made) {
      count(out->failed_requests);
    }
    if (!l) count(out->failed_requests);
  }
};
TEST_F(ObjectHeap, APassMayMakeAndDestroyObjects) {
  make();
  unsigned live = size(), leaves_live = size(), seen = 0;
  for (unsigned round = 0; round < 4; ++round) {
    heap.for_each<branch>(renew{heap.ref(), out.data()});
    seen += live;
    leaves_live += live;
    // The odd ones are now two each; what is made is odd.
    live = round == 0 ? live / 2 * 2 : live * 2;
    EXPECT_EQ(out.first().seen, seen) << "round " << round;
    EXPECT_EQ(out.first().wrong, 0u);
    EXPECT_EQ(out.first().failed_requests, 0u);
    expect_count<branch>(live);
    expect_count<leaf>(leaves_live);
  }
}

// Kernel: each thread adds up what it sees of all branches.
struct add_keys {
  ref heap;
  unsigned* sums;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned sum = 0;
    heap.for_each<branch>([&](object_ptr<branch> b) { sum += b[&branch::key] + 1; });
    sums[i] = sum;
  }
};
TEST_F(ObjectHeap, OneThreadWalksAllObjects) {
  make();
  test::device_array<unsigned> sums(40);
  gpuheap::launch(40, add_keys{heap.ref(), sums.data()});
  for (unsigned sum : sums.read()) EXPECT_EQ(sum, size() * (size() + 1) / 2);
}

// ---- classes that inherit

struct shape {  // abstract: no class of the heap
  unsigned id;
  object_ptr<shape> next;
  using fields = gpuheap::fields<&shape::id, &shape::next>;
};
struct circle : shape {
  double radius;
  using fields = gpuheap::inherited_fields<shape, &circle::radius>;
};
struct square : shape {
  unsigned char side[3];
  using fields = gpuheap::inherited_fields<shape, &square::side>;
};
struct cube : square {
  float depth;
  using fields = gpuheap::inherited_fields<square, &cube::depth>;
};
struct stone {
  unsigned weight;
  using fields = gpuheap::fields<&stone::weight>;
};
using shape_heap = gpuheap::object_heap<circle, cube, stone, square>;

[[nodiscard]] GPUHEAP_FN cube cube_of(unsigned i) {
  cube c{};
  c.id = i;
  c.side[1] = static_cast<unsigned char>(i);
  c.depth = static_cast<float>(i) / 2;
  return c;
}
// Kernel: thread i makes an object of one class, linked to nothing, and keeps it as a shape.
struct draw_shapes {
  shape_heap::ref_type heap;
  object_ptr<shape>* shapes;
  results* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    circle round{};
    round.id = i;
    round.radius = i * 0.25;
    square flat{};
    flat.id = i;
    flat.side[2] = 9;
    if (i % 3 == 0) shapes[i] = heap.create<circle>(round);
    if (i % 3 == 1) shapes[i] = heap.create<square>(flat);
    if (i % 3 == 2) shapes[i] = heap.create<cube>(cube_of(i));
    if (!shapes[i] || !heap.create<stone>({.weight = i})) count(out->failed_requests);
  }
};
// Kernel: what was written as fields of the class is read as those of the base, and the other way round.
struct look_at_shapes {
  object_ptr<shape> const* shapes;
  results* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    object_ptr<shape> const p = shapes[i];
    unsigned bad = p[&shape::id] != i || static_cast<bool>(p[&shape::next]);
    if (i % 3 == 2) {
      cube const c = object_ptr<cube>::of_bits(p.bits()).load();
      bad += c.id != i || c.side[1] != static_cast<unsigned char>(i) || c.side[0] != 0 || c.depth != static_cast<float>(i) / 2;
    }
    if (bad != 0) count(out->wrong, bad);
  }
};
// For each shape: its id, and the class tells how often it is seen.
struct visit_shape {
  unsigned* visits;
  GPUHEAP_FN void operator()(object_ptr<shape> p) const { count(visits[p[&shape::id]]); }
};
struct visit_square {
  unsigned* visits;
  GPUHEAP_FN void operator()(object_ptr<square> p) const { count(visits[p[&square::id]]); }
};
// Kernel: the objects go by pointers to their base, which a wrong class does not accept, and are gone the second time.
struct erase_shapes {
  shape_heap::ref_type heap;
  object_ptr<shape> const* shapes;
  results* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    unsigned bad = heap.destroy(object_ptr<stone>::of_bits(shapes[i].bits())) == free_status::done;
    bad += heap.destroy(shapes[i]) != free_status::done;
    if (bad != 0) count(out->wrong, bad);
  }
};
TEST(ObjectsThatInherit, AreObjectsOfTheirBase) {
  unsigned const n = on_gpu ? 30000 : 900;
  shape_heap heap{on_gpu ? 64_MiB : 1_MiB};
  test::device_array<object_ptr<shape>> shapes(n);
  test::device_array<results> out(1);
  test::device_array<unsigned> as_shapes(n), as_squares(n);
  gpuheap::launch(n, draw_shapes{heap.ref(), shapes.data(), out.data()});
  gpuheap::launch(n, look_at_shapes{shapes.data(), out.data()});
  EXPECT_EQ(out.first().failed_requests, 0u);
  EXPECT_EQ(out.first().wrong, 0u);
  heap.for_each<shape>(visit_shape{as_shapes.data()});
  heap.for_each<square>(visit_square{as_squares.data()});
  auto const seen = as_shapes.read(), squares = as_squares.read();
  for (unsigned i = 0; i < n; ++i) {
    EXPECT_EQ(seen[i], 1u) << i;
    EXPECT_EQ(squares[i], i % 3 == 0 ? 0u : 1u) << i;
  }
  EXPECT_EQ(heap.count<square>().live, (n + 1) / 3) << "of its own, without cubes";
  gpuheap::launch(n, erase_shapes{heap.ref(), shapes.data(), out.data()});
  EXPECT_EQ(out.first().wrong, 0u);
  EXPECT_EQ(heap.count<circle>().live + heap.count<square>().live + heap.count<cube>().live, 0u);
  EXPECT_EQ(heap.count<stone>().live, n);
  EXPECT_EQ(heap.verify().problem, "");
}

TEST_F(ObjectHeap, ForgetsEverythingOnReset) {
  auto const view = heap.ref();
  for (unsigned round = 0; round < 3; ++round) {
    make();
    expect_count<record>(size());
    heap.reset();
    expect_count<record>(0);
  }
  tree_heap moved{std::move(heap)};
  gpuheap::launch(size(), grow{view, leaves.data(), branches.data(), records.data(), out.data()});
  EXPECT_EQ(moved.count<leaf>().live, size());
  heap = std::move(moved);
}

TEST(ObjectHeapRoom, RunsOutAndComesBack) {
  tree_heap heap{tree_heap::min_bytes() + 4_KiB};
  constexpr unsigned n = 400;
  test::device_array<object_ptr<leaf>> leaves(n);
  test::device_array<object_ptr<branch>> branches(n);
  test::device_array<object_ptr<record>> records(n);
  test::device_array<results> out(1);
  for (unsigned round = 0; round < 3; ++round) {
    gpuheap::launch(n, grow{heap.ref(), leaves.data(), branches.data(), records.data(), out.data()});
    EXPECT_GT(out.first().failed_requests, n);
    EXPECT_LT(out.first().failed_requests, 3 * n);
    EXPECT_EQ(heap.count<leaf>().live + heap.count<branch>().live + heap.count<record>().live, 3 * n - out.first().failed_requests);
    try {
      heap.check();
      FAIL() << "nothing is said of objects that found no room";
    } catch (gpuheap::out_of_memory const& e) {
      EXPECT_NE(std::string(e.what()).find(std::to_string(out.first().failed_requests) + " requests"), std::string::npos) << e.what();
    }
    heap.check();  // said once
    heap.reset();
    out.write({results{}});
  }
  EXPECT_THROW((tree_heap{100}), gpuheap::error);
}

// Kernel: destroys what is gone.
struct destroy_again {
  ref heap;
  object_ptr<leaf> const* leaves;
  free_status* answers;
  GPUHEAP_FN void operator()(unsigned i) const {
    heap.destroy(leaves[i]);
    answers[i] = heap.destroy(leaves[i]);
  }
};
TEST_F(ObjectHeap, TellsThatAnObjectIsGone) {
  make();
  test::device_array<free_status> answers(1);
  gpuheap::launch(1, destroy_again{heap.ref(), leaves.data(), answers.data()});
  EXPECT_EQ(answers.first(), free_status::double_free);
  EXPECT_THROW(heap.check(), gpuheap::error);
  expect_count<leaf>(size() - 1);
}

// Fields that are arrays, of one and of two dimensions.
struct cell {
  float corners[4];
  short of_sides[2][3];
  int id;
  using fields = gpuheap::fields<&cell::corners, &cell::of_sides, &cell::id>;
};
struct make_cells {
  object_heap<cell>::ref_type heap;
  unsigned* wrong;
  GPUHEAP_FN void operator()(unsigned i) const {
    auto const f = static_cast<float>(i);
    auto const s = static_cast<short>(i);
    cell const made{{f, f + 1, f + 2, f + 3}, {{s, 1, 2}, {3, 4, s}}, static_cast<int>(i)};
    auto const p = heap.create<cell>(made);
    if (!p) return count(*wrong);
    p[&cell::corners][2] = -f;
    cell const found = p.load();
    bool const right = found.corners[0] == f && found.corners[2] == -f && found.corners[3] == f + 3 && found.of_sides[0][0] == s &&
                       found.of_sides[1][2] == s && found.of_sides[1][0] == 3 && found.id == static_cast<int>(i);
    count(*wrong, right ? 0 : 1);
  }
};
TEST(ObjectHeapFields, MayBeArrays) {
  object_heap<cell> heap{8_MiB};
  test::device_array<unsigned> wrong(1);
  gpuheap::launch(1000, make_cells{heap.ref(), wrong.data()});
  EXPECT_EQ(wrong.first(), 0u);
  EXPECT_EQ(heap.count<cell>().live, 1000u);
}

TEST(ObjectPtr, HoldsPlaceAndShape) {
  char* const data = reinterpret_cast<char*>(std::uintptr_t{0x1ff'ffff'ffff'ffc0});
  for (unsigned capacity : {1u, 2u, 63u, 64u}) {
    for (unsigned slot : {0u, capacity - 1}) {
      object_ptr<leaf> const p{data, slot, capacity};
      EXPECT_EQ(p.data(), data);
      EXPECT_EQ(p.slot(), slot);
      EXPECT_EQ(p.capacity(), capacity);
      EXPECT_TRUE(p && p == object_ptr<leaf>::of_bits(p.bits()) && p != object_ptr<leaf>{});
    }
  }
  EXPECT_FALSE(object_ptr<leaf>{nullptr});
  static_assert(sizeof(object_ptr<leaf>) == 8 && std::is_trivially_copyable_v<object_ptr<leaf>>);
  using list = gpuheap::soa::class_list<leaf, branch, record>;
  static_assert(list::block_bytes() == 64 * 3 + 64 && list::capacity<leaf>() == 64 && list::capacity<branch>() == 8);
  static_assert(gpuheap::soa::class_list<branch>::capacity<branch>() == 64);
}

// Kernel: objects of three classes come and go in few blocks; a thread that finds a field of its own changed counts it.
struct live_together {
  ref heap;
  unsigned rounds;
  results* out;
  GPUHEAP_FN void operator()(unsigned i) const {
    test::rng random{i};
    object_ptr<branch> b;
    object_ptr<leaf> l;
    object_ptr<record> r;
    for (unsigned round = 0; round < rounds; ++round) {
      unsigned const key = i * 16 + round, kind = random.below(3);
      if (kind == 0) {
        if (b && !is_branch_of(b, b[&branch::key])) count(out->wrong);
        heap.destroy(b);
        b = heap.create<branch>(branch_of(key));
      } else if (kind == 1) {
        if (l && l[&leaf::red] != static_cast<unsigned char>(i)) count(out->wrong);
        heap.destroy(l);
        l = heap.create<leaf>({.red = static_cast<unsigned char>(i), .green = 7, .blue = 9});
      } else {
        if (r && (r[&record::visits] != i || r[&record::words][19] != i)) count(out->wrong);
        heap.destroy(r);
        r = heap.create<record>();
        if (r) r[&record::visits] = r[&record::words][19] = i;
      }
    }
    heap.destroy(b);
    heap.destroy(l);
    heap.destroy(r);
  }
};
TEST(ObjectHeapContention, ClassesLiveTogetherUnderManySchedules) {
  auto const e = simt::explore(test::num_seeds(1000), [] {
    tree_heap heap{tree_heap::min_bytes() + 768};
    test::device_array<results> out(1);
    gpuheap::launch(48, live_together{heap.ref(), 8, out.data()}, {.block_threads = 24});
    auto const a = heap.verify();
    return out.first().wrong == 0 && a.problem.empty() && a.found.live == 0 && a.found.allocated == 0;
  });
  EXPECT_TRUE(e) << e.what << ", seed " << e.seed;
}

}  // namespace object_heaps
