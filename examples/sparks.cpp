// A simulation of sparks that fly, split and go out. It runs once with objects of a gpuheap::object_heap, whose fields lie in memory as a
// structure of arrays, and once with structs in a gpuheap::heap and a list of pointers to them. Both runs must have the same result.
#include <gpuheap/heap.hpp>
#include <gpuheap/memory/allocation.hpp>
#include <gpuheap/object_heap.hpp>

#include <cstdio>
#include <utility>

namespace simt = gpuheap::simt;

struct spark {
  int x, y, vx, vy;
  unsigned life;  // the number of steps until the spark goes out
  unsigned seed;
  unsigned heat;
  using fields = gpuheap::fields<&spark::x, &spark::y, &spark::vx, &spark::vy, &spark::life, &spark::seed, &spark::heat>;
};

GPUHEAP_HD unsigned mix(unsigned x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}
GPUHEAP_HD spark spark_of(unsigned seed, int x, int y) {
  unsigned const r = mix(seed);
  return {x, y, static_cast<int>(r % 64) - 32, static_cast<int>(r / 64 % 64), 2 + r / 4096 % 12, r, 1u << 20};
}
GPUHEAP_HD bool splits(unsigned seed, unsigned step) { return mix(seed + step) % 8 == 0; }

// A result that does not depend on the order of the sparks: their number, and a sum of hashes of their fields.
struct result {
  unsigned long long count = 0, sum = 0;
  GPUHEAP_FN void add(int x, int y, unsigned life, unsigned heat) {
    unsigned const i = mix(static_cast<unsigned>(x)) ^ mix(static_cast<unsigned>(y) + 1) ^ mix(life + 2) ^ mix(heat + 3);
    simt::atomic_ref<unsigned long long>{count}.fetch_add(1, simt::relaxed);
    simt::atomic_ref<unsigned long long>{sum}.fetch_add(i, simt::relaxed);
  }
};

// ---- with an object_heap

using sparks = gpuheap::object_heap<spark>;
using spark_ptr = gpuheap::object_ptr<spark>;

struct light_objects {
  sparks::ref_type heap;
  GPUHEAP_FN void operator()(unsigned i) const { (void)heap.create<spark>(spark_of(i, 0, 0)); }
};
struct fly {
  sparks::ref_type heap;
  unsigned step;
  GPUHEAP_FN void operator()(spark_ptr s) const {
    s[&spark::x] += s[&spark::vx];
    s[&spark::y] += s[&spark::vy]--;
    if (--s[&spark::life] == 0) {
      heap.destroy(s);
    } else if (splits(s[&spark::seed], step)) {
      (void)heap.create<spark>(spark_of(s[&spark::seed] + step, s[&spark::x], s[&spark::y]));
    }
  }
};
struct cool {
  GPUHEAP_FN void operator()(spark_ptr s) const { s[&spark::heat] -= s[&spark::heat] / 16; }
};
struct add_up {
  result* all;
  GPUHEAP_FN void operator()(spark_ptr s) const { all->add(s[&spark::x], s[&spark::y], s[&spark::life], s[&spark::heat]); }
};

// ---- with a heap and pointers

using pointer_heap = gpuheap::heap<>;

// A list of the live sparks, for the next kernel.
struct spark_list {
  spark** sparks;
  unsigned* count;
  GPUHEAP_FN void add(spark* s) const {
    if (s != nullptr) sparks[simt::atomic_ref<unsigned>{*count}.fetch_add(1, simt::relaxed)] = s;
  }
};
struct light_structs {
  pointer_heap::ref_type heap;
  spark_list out;
  GPUHEAP_FN void operator()(unsigned i) const { out.add(heap.create<spark>(spark_of(i, 0, 0))); }
};
struct fly_by_pointer {
  pointer_heap::ref_type heap;
  unsigned step;
  spark_list in, out;
  GPUHEAP_FN void operator()(unsigned i) const {
    spark* const s = in.sparks[i];
    s->x += s->vx;
    s->y += s->vy--;
    if (--s->life == 0) {
      heap.destroy(s);
      return;
    }
    out.add(s);
    if (splits(s->seed, step)) out.add(heap.create<spark>(spark_of(s->seed + step, s->x, s->y)));
  }
};
struct cool_by_pointer {
  spark_list in;
  GPUHEAP_FN void operator()(unsigned i) const { in.sparks[i]->heat -= in.sparks[i]->heat / 16; }
};
struct add_up_by_pointer {
  spark_list in;
  result* all;
  GPUHEAP_FN void operator()(unsigned i) const {
    spark const& s = *in.sparks[i];
    all->add(s.x, s.y, s.life, s.heat);
  }
};

// ---- the comparison

template <class T>
T read(T const* on_device) {
  T value;
  simt::copy(&value, on_device, sizeof value);
  simt::synchronize({});
  return value;
}
// The time in microseconds that the launches of f() take on the device.
template <class F>
double microseconds(F f) {
  simt::stopwatch watch;
  watch.start();
  f();
  watch.stop();
  return watch.elapsed_us();
}
void print(char const* what, double light, double fly, double cool) {
  std::printf("%s: %.0f us to make them, %.0f us for all steps, %.0f us to pass over one field\n", what, light, fly, cool);
}

int main() {
  using namespace gpuheap::literals;
  bool const simulated = simt::query_device().backend == "simulator";
  unsigned const first_sparks = simulated ? 3000 : 1'000'000, steps = 8;
  gpuheap::memory::allocation const results{gpuheap::memory::device, 2 * sizeof(result)};
  auto* const found = static_cast<result*>(results.base());
  simt::fill(found, 0, results.bytes());
  if (simulated) std::printf("In the simulator, where times mean nothing:\n");
  {
    sparks heap{simulated ? 2_MiB : 256_MiB};
    heap.for_each<spark>(cool{});  // not measured: the first pass allocates memory for its list
    double const light = microseconds([&] { simt::launch(first_sparks, light_objects{heap.ref()}); });
    double const flying = microseconds([&] {
      for (unsigned step = 0; step < steps; ++step) heap.for_each<spark>(fly{heap.ref(), step});
    });
    double const cooling = microseconds([&] { heap.for_each<spark>(cool{}); });
    heap.for_each<spark>(add_up{found});
    heap.check();  // throws if a spark found no room
    print("objects ", light, flying, cooling);
    std::printf("          %.0f%% of the slots of their blocks free\n", 100 * heap.count<spark>().fragmentation());
  }
  {
    pointer_heap heap{simulated ? 16_MiB : 512_MiB};
    unsigned const most = 4 * first_sparks;
    gpuheap::memory::allocation const memory{gpuheap::memory::device, 2 * (most * sizeof(spark*) + 256)};
    auto* const base = static_cast<char*>(memory.base());
    simt::fill(base, 0, memory.bytes());
    spark_list now{reinterpret_cast<spark**>(base + 512), reinterpret_cast<unsigned*>(base)};
    spark_list next{now.sparks + most, now.count + 64};
    double const light = microseconds([&] { simt::launch(first_sparks, light_structs{heap.ref(), now}); });
    double const flying = microseconds([&] {
      for (unsigned step = 0; step < steps; ++step) {
        simt::fill(next.count, 0, sizeof(unsigned));
        simt::launch(read(now.count), fly_by_pointer{heap.ref(), step, now, next});
        std::swap(now, next);
      }
    });
    unsigned const live = read(now.count);
    double const cooling = microseconds([&] { simt::launch(live, cool_by_pointer{now}); });
    simt::launch(live, add_up_by_pointer{now, found + 1});
    heap.check();
    print("pointers", light, flying, cooling);
  }
  result const objects = read(found), pointers = read(found + 1);
  bool const same = objects.count == pointers.count && objects.sum == pointers.sum;
  std::printf("%llu and %llu sparks live: %s\n", objects.count, pointers.count, same ? "the same" : "not the same");
  return same ? 0 : 1;
}
