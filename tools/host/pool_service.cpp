#include "pool_service.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "heap_library.hpp"
#include "merging.hpp"
#include "messages.hpp"
#include "plan_file.hpp"
#include "pool_backing.hpp"
#include "settings.hpp"
#include "slots.hpp"
#include "trace_file.hpp"

namespace gpuheap::interpose {

namespace {

struct pool {
  memory what;
  int device;
  CUcontext context;
  backing memory_of;
  std::uint64_t bytes;
  bool primary;  // its context is the device's primary one
  bool is_heap;  // an allocator's heap serves its blocks
  std::unique_ptr<block_source> blocks;

  [[nodiscard]] std::uint64_t base() const { return memory_of.base; }
  [[nodiscard]] bool holds(std::uint64_t address) const { return address >= base() && address - base() < bytes; }
};

struct service {
  std::shared_mutex lock;  // guards the list: written when contexts come and go, read by requests
  std::vector<std::shared_ptr<pool>> pools;
  std::vector<CUcontext> settled;  // contexts whose pools have been made, or cannot be made
  std::vector<CUcontext> made;     // contexts that the program created, which are not primary ones
  std::vector<int> compared;       // devices that were compared with the profile's
  plan wanted;
  bool planned = false;
  std::atomic<int> captures{0};
  std::atomic<bool> prefetches{true};
};

service& all() {
  static service* const only = new service;  // never destroyed: calls come after static destruction too
  return *only;
}

char const* words_for(memory what) {
  switch (what) {
    case memory::device:
      return "device";
    case memory::managed:
      return "managed";
    case memory::pinned:
      return "pinned host";
    case memory::stream_ordered:
      return "stream-ordered";
    default:
      return "other";
  }
}

bool heap_mode() { return configured().mode == pool_mode::heap; }

char const* consequence() { return configured().strict ? "it fails with out of memory (--strict)" : "the driver serves it"; }

struct described {
  std::string name;
  std::uint64_t total_bytes = 0;
};

described describe(int device) {
  static auto const name_of = helper<PFN_cuDeviceGetName_v2000>("cuDeviceGetName");
  static auto const total_of = helper<PFN_cuDeviceTotalMem_v3020>("cuDeviceTotalMem_v2");
  char name[256] = "";
  std::size_t total = 0;
  if (name_of == nullptr || total_of == nullptr) return {};
  if (name_of(name, sizeof name, device) != CUDA_SUCCESS || total_of(&total, device) != CUDA_SUCCESS) return {};
  return {name, total};
}

constinit std::atomic<std::uint64_t> recorded_devices{0};

// Records each device that the process uses in the trace, once.
void record_device(int device) {
  if (device < 0 || device >= 64) return;
  std::uint64_t const bit = std::uint64_t{1} << device;
  // relaxed: the bit only decides which thread writes the fact. The load comes first, because nearly every call finds the bit set.
  if ((recorded_devices.load(std::memory_order_relaxed) & bit) != 0) return;
  if ((recorded_devices.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  check_rows();
  described const found = describe(device);
  append_fact("device", std::to_string(device) + " " + std::to_string(found.total_bytes) + " " + found.name);
}

void compare_device(service& s, int device) {
  if (std::find(s.compared.begin(), s.compared.end(), device) != s.compared.end()) return;
  s.compared.push_back(device);
  plan const& made = s.wanted;
  static auto const version_of = helper<PFN_cuDriverGetVersion_v2020>("cuDriverGetVersion");
  described const found = describe(device);
  int version = 0;
  for (planned_device const& profiled : made.devices) {
    if (profiled.ordinal != device || (profiled.name == found.name && profiled.total_bytes == found.total_bytes)) continue;
    say("E03", "the profile is of " + profiled.name + " with " + std::to_string(profiled.total_bytes) + " bytes; device " +
                   std::to_string(device) + " is " + found.name + " with " + std::to_string(found.total_bytes) +
                   ": the plan is used as it is; profile on this device to have it fit");
  }
  if (version_of != nullptr && version_of(&version) == CUDA_SUCCESS && made.driver != 0 && made.driver != version) {
    say("E03", "the profile was taken with driver " + std::to_string(made.driver) + ", this is " + std::to_string(version) +
                   ": the plan is used as it is");
  }
}

void load_plan(service& s) {
  if (s.planned) return;
  s.planned = true;
  std::string why;
  s.wanted = read_plan(configured().plan, &why);
  if (why.empty()) return;
  say("E01", "the plan " + configured().plan + " " + why + ": there are no pools, and every request " +
                 (configured().strict ? "fails" : "goes to the driver"));
}

// The pools that a device should have: those of the plan. Under heap:<name>, the heap replaces the pool of device memory.
std::vector<planned_pool> wanted_on(service const& s, int device) {
  std::vector<planned_pool> found;
  for (planned_pool const& each : s.wanted.pools) {
    if (each.device == device && !(heap_mode() && each.what == memory::device)) found.push_back(each);
  }
  if (heap_mode()) found.push_back({memory::device, device, configured().heap_bytes, {}});
  return found;
}

// Returns false, and reports E02, if the device's free memory does not suffice. If the driver does not tell the free memory, the
// reservations will show it.
bool fits(std::vector<planned_pool> const& wanted, int device, CUresult asked, std::uint64_t free, std::uint64_t total) {
  std::uint64_t needed = 0;
  for (planned_pool const& each : wanted) {
    if (each.what != memory::pinned && configured().mode != pool_mode::zero_copy) needed += each.bytes;
  }
  if (asked != CUDA_SUCCESS || needed <= free) return true;
  say("E02", "the pools of device " + std::to_string(device) + " need " + std::to_string(needed) + " bytes, " + std::to_string(free) +
                 " of " + std::to_string(total) + " are free: there are no pools there; free memory, or " +
                 (heap_mode() ? "ask for less with --heap-bytes" : "profile a smaller run"));
  return false;
}

// Makes the object that serves from a pool's memory. If the allocator cannot make a heap in it, the function frees the memory and returns
// nullptr.
std::unique_ptr<block_source> blocks_in(backing const& place, planned_pool const& of) {
  if (!heap_mode() || of.what != memory::device) return std::make_unique<slot_table>(of.slots);
  std::string why;
  std::unique_ptr<block_source> made;
  {
    apart_from_captures const now;
    made = make_heap(place.base, of.bytes, &why);
  }
  if (made != nullptr) return made;
  real<row::cuMemFree_v2>()(place.base);
  say("E08", "no heap of " + std::to_string(of.bytes) + " bytes on device " + std::to_string(of.device) + " (" + why +
                 "): device memory has no pool there");
  return nullptr;
}

// Makes the pools of the current context's device, if some are wanted and no other context of the device has them. Returns false if the
// driver gives no memory at this moment. The next request then tries again.
bool reserve_all(service& s, CUcontext context) {
  int const device = current_device();
  if (device < 0) return false;
  load_plan(s);
  bool const served_already = std::any_of(s.pools.begin(), s.pools.end(), [&](auto const& each) { return each->device == device; });
  std::vector<planned_pool> const wanted = wanted_on(s, device);
  if (served_already || wanted.empty()) return true;
  bool const capturing = s.captures.load() > 0;
  if (capturing && heap_mode()) return false;  // kernels make the heap, and they cannot run during a capture
  std::size_t free = 0;
  std::size_t total = 0;
  CUresult const asked = real<row::cuMemGetInfo_v2>()(&free, &total);
  if (untimely(asked)) return false;
  std::string const reason = unsupported(device);
  if (!reason.empty()) {
    say("E08", reason + " on device " + std::to_string(device) + ": there are no pools there");
    return true;
  }
  compare_device(s, device);
  if (!fits(wanted, device, asked, free, total)) return true;
  bool const primary = std::find(s.made.begin(), s.made.end(), context) == s.made.end();
  bool first = true;
  for (planned_pool const& each : wanted) {
    backing place;
    CUresult const result = reserve(each, device, capturing, &place);
    if (first && untimely(result)) return false;
    first = false;
    if (result != CUDA_SUCCESS) {
      say("E02", "the driver does not give " + std::to_string(each.bytes) + " bytes for the pool of " + words_for(each.what) +
                     " memory of device " + std::to_string(device) + " (error " + std::to_string(static_cast<int>(result)) +
                     "): there is no such pool, and its requests are not served from one");
      continue;
    }
    std::unique_ptr<block_source> blocks = blocks_in(place, each);
    if (blocks == nullptr) continue;
    count(counter::pool_bytes, each.bytes);
    if (capturing) blocks->pin(true);
    bool const is_heap = heap_mode() && each.what == memory::device;
    s.pools.push_back(std::make_shared<pool>(pool{each.what, device, context, place, each.bytes, primary, is_heap, std::move(blocks)}));
  }
  return true;
}

// Whether the current context's pools are settled: made, or known to be impossible. The first request in a context makes them, because the
// driver could allocate memory in the context at that moment, too.
bool settled(CUcontext context) {
  service& s = all();
  {
    std::shared_lock const held{s.lock};
    if (std::find(s.settled.begin(), s.settled.end(), context) != s.settled.end()) return true;
  }
  std::unique_lock const held{s.lock};
  if (std::find(s.settled.begin(), s.settled.end(), context) != s.settled.end()) return true;
  if (!reserve_all(s, context)) return false;
  s.settled.push_back(context);
  return true;
}

std::shared_ptr<pool> pool_holding(std::uint64_t address) {
  service& s = all();
  std::shared_lock const held{s.lock};
  for (auto const& each : s.pools) {
    if (each->holds(address)) return each;
  }
  return nullptr;
}

std::shared_ptr<pool> pool_for(memory what, CUcontext context) {
  service& s = all();
  std::shared_lock const held{s.lock};
  for (auto const& each : s.pools) {
    if (each->what == what && each->context == context) return each;
  }
  return nullptr;
}

void forget(bool (*dies)(pool const&, CUcontext, int), CUcontext context, int device) {
  service& s = all();
  std::unique_lock const held{s.lock};
  std::erase_if(s.pools, [&](auto const& each) {
    if (!dies(*each, context, device)) return false;
    if (each->memory_of.file >= 0) {
      merging_pool_gone(each->base(), each->bytes);
      unmap(each->memory_of, each->bytes);
    }
    return true;
  });
  s.settled.clear();
}

// Waits for all work of the pool's context, as the driver's free does.
CUresult wait_for(pool const& of) {
  in_context const here{of.context};
  // If the driver has ended, so has its work.
  if (here.entered() != CUDA_SUCCESS) return here.entered() == CUDA_ERROR_DEINITIALIZED ? CUDA_SUCCESS : here.entered();
  return real<row::cuCtxSynchronize>()();
}

bool release_in(pool const& of, std::uint64_t offset) {
  if (!of.is_heap) return of.blocks->release(offset);
  in_context const here{of.context};
  apart_from_captures const now;
  return of.blocks->release(offset);
}

block_source::grant allocate_in(pool const& of, std::uint64_t site, std::uint64_t bytes) {
  if (!of.is_heap) return of.blocks->allocate(site, bytes);
  apart_from_captures const now;
  return of.blocks->allocate(site, bytes);
}

// The reason for a refused grant, in words that follow "a request for N bytes of device memory".
std::string refusal_words(block_source::grant const& got, pool const& of) {
  switch (got.how) {
    case block_source::outcome::unprofiled:
      return " comes from a place that the profile does not have";
    case block_source::outcome::too_large:
      return " is larger than the " + std::to_string(got.bytes) + " bytes of the " +
             (of.is_heap ? "heap (--heap-bytes)" : "largest slot of its place");
    case block_source::outcome::busy:
      if (of.is_heap) {
        return " finds no room in the heap, where " + std::to_string(of.blocks->live_bytes()) + " of " + std::to_string(of.bytes) +
               " bytes are live";
      }
      return " finds every slot of its place in use (" + std::to_string(got.bytes) +
             " bytes and more): more are live than in the profile, or in another order";
    default:
      return " failed";
  }
}

void fill(pool const& of, std::uint64_t address, std::uint64_t bytes) {
  auto const byte = static_cast<unsigned char>(configured().poison);
  if (of.what == memory::pinned) {
    std::fill_n(reinterpret_cast<unsigned char*>(address), bytes, byte);
    return;
  }
  device_work const work{device_use::in_stream};
  CUresult const result = real<row::cuMemsetD8_v2>()(address, byte, bytes);
  if (result != CUDA_SUCCESS) complain("--poison: the driver refused to fill a block: error " + std::to_string(static_cast<int>(result)));
}

verdict miss(char const* code, counter which, std::string const& words, call_site const& from) {
  count(which);
  count(configured().strict ? counter::refused : counter::driver_allocations);
  say(code, words + " (stack " + std::to_string(from.stack) + " of the trace): " + consequence());
  return configured().strict ? verdict::refused : verdict::driver;
}

}  // namespace

bool pools_on() { return configured().mode != pool_mode::none; }

int context_used() {
  int const device = current_device();
  record_device(device);
  return device;
}

void pool_context_made(CUcontext context) {
  service& s = all();
  std::unique_lock const held{s.lock};
  s.made.push_back(context);
}

verdict pool_allocate(memory what, call_site const& from, std::uint64_t bytes, bool poolable, std::uint64_t* address) {
  if (bytes == 0) return verdict::driver;  // the driver refuses it
  auto const request = [&] { return "a request for " + std::to_string(bytes) + " bytes of " + words_for(what) + " memory"; };
  std::shared_ptr<pool> of;
  if (poolable) {
    CUcontext const context = current_context();
    of = pool_for(what, context);
    if (of == nullptr) {
      if (context == nullptr || !settled(context)) return verdict::untimely;
      of = pool_for(what, context);
    }
  }
  if (of == nullptr) return miss("E04", counter::unprofiled, request() + " has no pool", from);
  // A heap serves a request by a kernel and a wait, which are not possible during a capture.
  if (of->is_heap && all().captures.load() > 0) return verdict::untimely;
  block_source::grant const got = allocate_in(*of, from.site, bytes);
  switch (got.how) {
    case block_source::outcome::unprofiled:
      return miss("E04", counter::unprofiled, request() + refusal_words(got, *of), from);
    case block_source::outcome::too_large:
      return miss("E06", counter::too_large, request() + refusal_words(got, *of), from);
    case block_source::outcome::busy:
      return miss("E05", counter::slot_busy, request() + refusal_words(got, *of), from);
    case block_source::outcome::failed:
      // The request goes to the driver, also in strict mode, so that the driver reports the error of the device.
      count(counter::slot_busy);
      count(counter::driver_allocations);
      return verdict::driver;
    case block_source::outcome::served:
      break;
  }
  *address = of->base() + got.offset;
  count(counter::served);
  count(counter::served_bytes, bytes);
  // A capture would record the fill in its graph.
  if (configured().poison >= 0 && all().captures.load() == 0) fill(*of, *address, bytes);
  return verdict::served;
}

void pool_passed_by(memory what, call_site const& from, std::uint64_t bytes) {
  count(counter::unprofiled);
  count(counter::driver_allocations);
  say("E04", "a request for " + std::to_string(bytes) + " bytes of " + words_for(what) + " memory (stack " + std::to_string(from.stack) +
                 " of the trace) was answered by the driver at a moment when no pool could serve it (no context yet, or a capture)");
}

bool pool_release(memory what, std::uint64_t address, CUstream const* stream, CUresult* result) {
  std::shared_ptr<pool> const of = address == 0 ? nullptr : pool_holding(address);
  if (of == nullptr) return false;
  bool const right_call = (what == memory::pinned) == (of->what == memory::pinned);
  std::uint64_t const offset = address - of->base();
  *result = CUDA_SUCCESS;
  if (right_call && of->blocks->begins_live(offset)) {
    bool const capturing = all().captures.load() > 0;
    if (!capturing && stream != nullptr) {
      *result = real<row::cuStreamSynchronize>()(*stream);
    } else if (!capturing && configured().synchronise) {
      *result = wait_for(*of);
    }
    if (release_in(*of, offset)) return true;
  }
  count(counter::foreign_frees);
  say("E07", std::string{"a free of an address "} +
                 (right_call ? "where no live block begins (freed twice, or inside a block)" : "with the call for another kind of memory") +
                 ": the program gets invalid value, as from the driver");
  *result = CUDA_ERROR_INVALID_VALUE;
  return true;
}

std::uint64_t pool_free_bytes(std::uint64_t driver_free_bytes) {
  int const device = current_device();
  service& s = all();
  std::shared_lock const held{s.lock};
  for (auto const& each : s.pools) {
    if (each->what != memory::device || each->device != device) continue;
    std::uint64_t const live = each->blocks->live_bytes();
    if (each->memory_of.on_device) driver_free_bytes += each->bytes - std::min(live, each->bytes);
    if (!each->memory_of.on_device) driver_free_bytes -= std::min(live, driver_free_bytes);
  }
  return driver_free_bytes;
}

pool_block pool_block_of(std::uint64_t address) {
  std::shared_ptr<pool> const of = pool_holding(address);
  if (of == nullptr) return {};
  block_source::block const block = of->blocks->live_at(address - of->base());
  return {of->base() + block.offset, block.bytes};
}

shared_block pool_shared_block(std::uint64_t address) {
  std::shared_ptr<pool> const of = pool_holding(address);
  if (of == nullptr || of->memory_of.file < 0 || of->context != current_context()) return {};
  block_source::block const block = of->blocks->live_at(address - of->base());
  return {of->base() + block.offset, block.bytes, block.site, of->memory_of.file, block.offset};
}

bool pool_refuses_export(std::uint64_t address) {
  if (pool_holding(address) == nullptr) return false;
  say("E10",
      "memory of a pool is to be shared with another process, which would see all of the pool: the call fails with not supported; leave "
      "this program unpooled");
  return true;
}

void pool_copied(std::uint64_t to, std::uint64_t bytes, CUstream stream) {
  service& s = all();
  if (configured().mode != pool_mode::unified || bytes == 0 || s.captures.load() > 0 || !s.prefetches.load()) return;
  std::shared_ptr<pool> const of = pool_holding(to);
  if (of == nullptr || of->what != memory::device) return;
  CUmemLocation const there{CU_MEM_LOCATION_TYPE_DEVICE, {of->device}};
  auto const prefetch = real<row::cuMemPrefetchAsync_v2>();
  if (prefetch == nullptr || prefetch(to, bytes, there, 0, stream) != CUDA_SUCCESS) {
    s.prefetches.store(false);
    say("E08", "the driver does not prefetch managed memory here: the pages of the pool move when they are touched");
  }
}

void pool_capture_begins() {
  service& s = all();
  if (s.captures.fetch_add(1) > 0) return;
  std::shared_lock const held{s.lock};
  for (auto const& each : s.pools) each->blocks->pin(true);
}

void pool_capture_ends() {
  service& s = all();
  int const before = s.captures.load();
  if (before == 0 || s.captures.fetch_sub(1) > 1) return;
  std::shared_lock const held{s.lock};
  for (auto const& each : s.pools) each->blocks->pin(false);
}

bool pool_captures() { return all().captures.load() > 0; }

void pool_context_gone(CUcontext context) {
  forget([](pool const& each, CUcontext gone, int) { return each.context == gone; }, context, 0);
  service& s = all();
  std::unique_lock const held{s.lock};
  std::erase(s.made, context);  // a later context may have the same handle
}

void pool_primary_released(CUdevice device) {
  if (!primary_exists(device)) pool_device_reset(device);
}

void pool_device_reset(CUdevice device) {
  forget([](pool const& each, CUcontext, int gone) { return each.primary && each.device == gone; }, nullptr, device);
}

void pool_ended() {
  service& s = all();
  std::shared_lock const held{s.lock};
  std::size_t blocks = 0;
  std::uint64_t bytes = 0;
  for (auto const& each : s.pools) {
    blocks += each->blocks->num_live();
    bytes += each->blocks->live_bytes();
  }
  if (blocks > 0) say("W01", std::to_string(blocks) + " blocks of pools, " + std::to_string(bytes) + " bytes, were never freed");
}

void pool_forget_after_fork() {
  service& s = all();
  recorded_devices.store(0);
  new (&s) service;  // its lock may have been held by a thread that this process lacks
}

}  // namespace gpuheap::interpose
