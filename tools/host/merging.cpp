#include "merging.hpp"

#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "call_stack.hpp"
#include "host_blocks.hpp"
#include "messages.hpp"
#include "plan_file.hpp"
#include "pool_backing.hpp"
#include "pool_service.hpp"
#include "settings.hpp"
#include "tools/interposer/inside.hpp"
#include "trace_file.hpp"

namespace gpuheap::interpose {

namespace {

// A period of a validation run (rehearsal): from a download on, the host buffer could stay merged.
struct period {
  std::uint64_t host;
  std::uint64_t device;
  std::uint64_t bytes;
  std::uint64_t host_site;
  std::uint64_t device_site;
  std::uint64_t hash;  // the hash of both buffers at the begin of the period
};

struct service {
  std::shared_mutex order;  // shared: by calls that may let device memory change; exclusive: by a thread that merges or begins a period
  std::atomic<std::uint64_t> work{0};  // the number of such calls that have returned
  std::atomic<bool> elsewhere{
      false};  // work was seen that waiting for the default stream does not cover; written under `order`, shared or exclusive
  std::atomic<CUcontext> context{nullptr};  // the first context in which the program worked
  std::mutex lock;                          // guards all below
  std::vector<proven_pair> pairs;           // for elide: the pairs of the plan that have not been refuted since
  std::set<std::uint64_t> host_sites;       // for elide: the host sites of all pairs of the plan
  bool planned = false;
  std::vector<period> open;
  std::atomic<bool> any_open{false};
};

service& all() {
  static service* const only = new service;  // never destroyed: calls come after static destruction too
  return *only;
}

host_blocks& blocks() {
  static host_blocks* const only = new host_blocks;
  return *only;
}

bool eliding() { return configured().merge == merge_use::elide; }
bool rehearsing() { return configured().merge == merge_use::rehearse; }

// Reads the plan's pairs, under s.lock. A damaged plan has none, and pool_service.cpp reports it.
void load_pairs(service& s) {
  if (s.planned) return;
  s.planned = true;
  std::string why;
  s.pairs = read_plan(configured().plan, &why).pairs;
  for (proven_pair const& each : s.pairs) s.host_sites.insert(each.host_site);
}

std::uint64_t hash_of(void const* bytes, std::size_t num) {
  std::uint64_t hash = num;
  auto const* at = static_cast<unsigned char const*>(bytes);
  for (std::size_t left = num; left > 0;) {
    std::size_t const part = std::min<std::size_t>(left, sizeof(std::uint64_t));
    std::uint64_t word = 0;
    std::memcpy(&word, at, part);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 29;
    at += part;
    left -= part;
  }
  return hash;
}

void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// Whether a library is loaded that passes pages of host memory to other devices. Such a device keeps using the pages, whatever is mapped at
// their addresses later.
bool pages_are_handed_on() {
  auto const look = [](dl_phdr_info* info, std::size_t, void* found) {
    char const* const name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    for (char const* const each : {"/libibverbs.", "/liburing.", "/libaio."}) {
      if (std::strstr(name, each) != nullptr) *static_cast<bool*>(found) = true;
    }
    return 0;
  };
  bool found = false;
  dl_iterate_phdr(look, &found);
  return found;
}

void record(period const& of, period_end how) {
  event line{};
  line.kind = static_cast<std::uint16_t>(kind::merge);
  line.begin_ns = now_ns();
  line.address = of.host_site;
  line.other = of.device_site;
  line.bytes = of.bytes;
  line.detail = static_cast<std::uint16_t>(how);
  line.device = no_device;
  append(line);
}

// Ends a period, under s.lock. `device_works`: it ends because device memory may change from now on.
void end(period const& of, bool device_works) {
  period_end how = device_works ? period_end::separated : period_end::kept;
  if (device_works && hash_of(at(of.host), of.bytes) != of.hash) how = period_end::written;
  if (hash_of(at(of.device), of.bytes) != of.hash) how = period_end::changed;
  record(of, how);
}

template <class Which>
void end_where(service& s, bool device_works, Which which) {
  std::erase_if(s.open, [&](period const& each) {
    if (!which(each)) return false;
    end(each, device_works);
    return true;
  });
  s.any_open.store(!s.open.empty());
}

// Gives the merged host buffers pages of their own. Later downloads of their pairs are copied.
void separate(service& s) {
  std::lock_guard const held{s.lock};
  end_where(s, true, [](period const&) { return true; });
  for (host_blocks::block const& each : blocks().separate_all()) {
    count(counter::separated);
    count(counter::separated_bytes, each.bytes);
    std::erase_if(s.pairs, [&](proven_pair const& pair) { return pair.host_site == each.site && pair.device_site == each.twin; });
    say("E09", "the device goes on while the program keeps the host buffer of a download of " + std::to_string(each.bytes) +
                   " bytes, unlike in the validation run: this download and all later ones of the pair are copied");
  }
}

// The reason why a download of `bytes` from `device` to `host` does not cover a pair's whole buffers; empty if it does.
std::string mismatch(host_blocks::block const& host, shared_block const& device, std::uint64_t from, std::uint64_t bytes) {
  if (from != device.address || bytes != device.bytes) return "it covers only a part of the device buffer";
  if (host.bytes == 0) return "its host address is not the begin of a block of the heap";
  if (host.bytes != bytes) return "the host buffer has another size";
  if (host.fixed) return "the program registered the host buffer, or changed its mapping itself";
  if (device.offset % host_blocks::page_bytes != 0) return "the device buffer does not begin a page";
  return {};
}

bool kept_apart(std::string const& why) {
  count(counter::not_elided);
  say("E09", "a download of a pair is copied: " + why + ", which was not so in the validation run");
  return false;
}

}  // namespace

bool merging_on() { return configured().merge != merge_use::none; }

device_work::device_work(device_use what) : what_{what} {
  if (what == device_use::none || !merging_on()) return;
  service& s = all();
  held_ = std::shared_lock{s.order};
  CUcontext const now = current_context();
  CUcontext first = nullptr;
  if (!s.context.compare_exchange_strong(first, now) && first != now) s.elsewhere.store(true);
  if (what == device_use::anywhere) s.elsewhere.store(true);
  // No download is merged, and no period begins, while `order` is held shared.
  if (blocks().any_merged() || s.any_open.load()) separate(s);
}

device_work::~device_work() {
  if (!held_) return;
  // Counted after the call has passed its work to the device, and before any thread can merge again.
  all().work.fetch_add(1);
}

void device_work::was_in(std::uint64_t stream, bool of_thread) {
  if (held_ && (of_thread || stream > reinterpret_cast<std::uint64_t>(CU_STREAM_LEGACY))) all().elsewhere.store(true);
}

bool download_merged(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  if (!eliding()) return false;
  service& s = all();
  shared_block const device = pool_shared_block(from);
  if (device.bytes == 0) return false;
  host_blocks::block const host = blocks().begins_at(at(to));
  {
    std::lock_guard const held{s.lock};
    load_pairs(s);
    auto const of_device = [&](proven_pair const& each) { return each.device_site == device.site; };
    if (std::none_of(s.pairs.begin(), s.pairs.end(), of_device)) return false;
    std::string const why = mismatch(host, device, from, bytes);
    if (!why.empty()) return kept_apart(why);
    auto const same = [&](proven_pair const& each) { return of_device(each) && each.host_site == host.site; };
    if (std::none_of(s.pairs.begin(), s.pairs.end(), same)) return kept_apart("its host buffer belongs to another pair");
  }
  if (pool_captures()) return kept_apart("a graph is being captured");
  if (pages_are_handed_on()) return kept_apart("a library is loaded that hands pages to other devices (libibverbs, liburing or libaio)");
  std::uint64_t const before = s.work.load();
  // Waits for what the copy would wait for. The copy itself reports its errors.
  if (real<row::cuStreamSynchronize>()(nullptr) != CUDA_SUCCESS) return false;
  std::unique_lock const alone{s.order};
  if (s.elsewhere.load()) return kept_apart("the process works in several streams, contexts or graphs");
  if (s.work.load() != before || pool_shared_block(from).address != device.address) {
    count(counter::not_elided);  // another thread's call came in between, which does not refute the pair
    return false;
  }
  if (!blocks().merge(at(to), device.file, device.offset, at(from), device.site)) return kept_apart("its pages cannot be mapped");
  count(counter::elided);
  count(counter::elided_bytes, bytes);
  return true;
}

void download_made(std::uint64_t to, std::uint64_t from, std::uint64_t bytes, bool of_thread) {
  if (!rehearsing()) return;
  service& s = all();
  shared_block const device = pool_shared_block(from);
  if (device.bytes == 0) return;
  host_blocks::block const host = blocks().begins_at(at(to));
  std::unique_lock const alone{s.order};
  std::lock_guard const held{s.lock};
  end_where(s, false, [&](period const& each) { return each.host == to; });
  if (!mismatch(host, device, from, bytes).empty()) return;
  period const begun{to, from, bytes, host.site, device.site, hash_of(at(from), bytes)};
  if (std::memcmp(at(to), at(from), bytes) != 0) return record(begun, period_end::differed);
  if (of_thread || s.elsewhere.load() || pool_captures() || pages_are_handed_on()) return record(begun, period_end::elsewhere);
  s.open.push_back(begun);
  s.any_open.store(true);
}

void merging_registered(void const* address, std::size_t bytes) {
  if (merging_on()) host_fix(address, bytes);
}

void merging_pool_gone(std::uint64_t base, std::uint64_t bytes) {
  service& s = all();
  std::lock_guard const held{s.lock};
  end_where(s, false, [&](period const& each) { return each.device >= base && each.device - base < bytes; });
}

void merging_ended() {
  if (!rehearsing()) return;
  service& s = all();
  std::lock_guard const held{s.lock};
  end_where(s, false, [](period const&) { return true; });
}

void merging_before_fork() {
  if (!merging_on()) return;
  for (host_blocks::block const& each : blocks().separate_all()) {
    count(counter::separated);
    count(counter::separated_bytes, each.bytes);
  }
  blocks().before_fork();
}
void merging_after_fork_in_parent() {
  if (merging_on()) blocks().after_fork_in_parent();
}
void merging_after_fork_in_child() {
  if (!merging_on()) return;
  blocks().after_fork_in_child();
  new (&all()) service;  // its locks may have been held by threads that this process lacks
}

bool host_serves(std::size_t bytes) { return bytes >= host_blocks::least_bytes && depth == 0; }

void* host_request(std::size_t bytes, std::size_t alignment) {
  if (!host_serves(bytes)) return nullptr;
  inside const here;
  if (!configured().on || !merging_on()) return nullptr;
  service& s = all();
  if (eliding()) {
    std::lock_guard const held{s.lock};
    load_pairs(s);
    if (s.host_sites.empty()) return nullptr;
  }
  call_site const from = where_from();
  if (eliding()) {
    std::lock_guard const held{s.lock};
    if (!s.host_sites.contains(from.site)) return nullptr;
  }
  return blocks().allocate(bytes, alignment, from.site);
}

bool host_free(void const* address) {
  auto const number = reinterpret_cast<std::uint64_t>(address);
  if (number % host_blocks::page_bytes != 0) return false;
  inside const here;
  if (!configured().on || !merging_on() || !blocks().any() || blocks().begins_at(address).bytes == 0) return false;
  service& s = all();
  if (s.any_open.load()) {
    std::lock_guard const held{s.lock};
    end_where(s, false, [&](period const& each) { return each.host == number; });
  }
  return blocks().release(address);
}

std::size_t host_bytes(void const* address) {
  if (reinterpret_cast<std::uint64_t>(address) % host_blocks::page_bytes != 0) return 0;
  inside const here;
  return configured().on && merging_on() && blocks().any() ? blocks().begins_at(address).bytes : 0;
}

void host_fix(void const* address, std::size_t bytes) {
  inside const here;
  if (!configured().on || !merging_on() || !blocks().any()) return;
  service& s = all();
  if (s.any_open.load()) {
    // From now on a rehearsal may be unable to read the host buffer.
    auto const first = reinterpret_cast<std::uint64_t>(address);
    auto const meets = [&](period const& each) { return each.host < first + bytes && first < each.host + each.bytes; };
    std::lock_guard const held{s.lock};
    for (period const& each : s.open) {
      if (meets(each)) record(each, period_end::fixed);
    }
    std::erase_if(s.open, meets);
    s.any_open.store(!s.open.empty());
  }
  blocks().fix(address, bytes);
}

}  // namespace gpuheap::interpose
