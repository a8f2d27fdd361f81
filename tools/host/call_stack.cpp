#include "call_stack.hpp"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "trace_file.hpp"

namespace gpuheap::interpose {

namespace {

constexpr std::size_t max_frames = 20;
constexpr std::size_t cached_stacks = 256;  // for each thread: 88 KiB, mapped when the thread's first call comes
constexpr std::size_t ways = 4;

struct walked {
  std::array<std::uintptr_t, max_frames> return_address{};
  std::array<std::uintptr_t, max_frames> kept_at{};  // the address of the stack slot that holds each; 0: not known
  std::size_t num = 0;
};

// A call stack seen before, with the stack slots to compare. If the stack pointer and the words in these slots are the same, so are the
// frames.
struct cached {
  std::uintptr_t frame = 0;
  std::uint32_t generation = 0;
  std::uint32_t num = 0;
  call_site site;
  std::array<std::uintptr_t, max_frames> return_address{};
  std::array<std::uintptr_t, max_frames> kept_at{};
};

struct module_place {
  std::uintptr_t base = 0;
  std::uintptr_t end = 0;
  std::uint64_t identity = 0;  // hash of the build id, or of the path where there is none
  bool own = false;
};

constinit thread_local cached* mine __attribute__((tls_model("initial-exec"))) = nullptr;
constinit std::atomic<std::uint32_t> generation{1};

struct registry {
  std::mutex lock;
  std::unordered_map<std::uint64_t, std::uint32_t> stack_of_addresses;
  std::unordered_set<std::uintptr_t> modules;  // the bases of the modules that have been recorded
  std::uint32_t num_stacks = 0;
};

registry& known() {
  static registry* const only = new registry;  // never destroyed: calls come after static destruction too
  return *only;
}

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29);
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0x6a09e667f3bcc908U;
  for (char const c : text) hash = mix(hash, static_cast<unsigned char>(c));
  return hash;
}

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* into) {
  auto& stack = *static_cast<walked*>(into);
  if (stack.num == max_frames) return _URC_END_OF_STACK;
  std::uintptr_t const address = _Unwind_GetIP(context);
  if (address == 0) return _URC_END_OF_STACK;
#if defined(__x86_64__)
  // _Unwind_GetCFA() returns the stack pointer that the frame has after its callee has returned. The call pushed the return address right
  // below that place.
  std::uintptr_t const slot = _Unwind_GetCFA(context) - sizeof(void*);
  bool const certain = stack.num > 0 && *reinterpret_cast<std::uintptr_t const*>(slot) == address;
#else
  std::uintptr_t const slot = 0;
  bool const certain = false;
#endif
  stack.return_address[stack.num] = address;
  stack.kept_at[stack.num] = certain ? slot : 0;
  ++stack.num;
  return _URC_NO_REASON;
}

std::string build_id_of(dl_phdr_info const& info) {
  std::string hex;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    auto const& header = info.dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    auto const* at = reinterpret_cast<std::byte const*>(info.dlpi_addr + header.p_vaddr);
    auto const* const end = at + header.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      auto const* const note = reinterpret_cast<ElfW(Nhdr) const*>(at);
      auto const* const name = reinterpret_cast<char const*>(note + 1);
      auto const* const data = reinterpret_cast<unsigned char const*>(name + (note->n_namesz + 3) / 4 * 4);
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        for (unsigned b = 0; b < note->n_descsz; ++b) {
          constexpr char digits[] = "0123456789abcdef";
          hex += digits[data[b] >> 4];
          hex += digits[data[b] & 15];
        }
        return hex;
      }
      at = reinterpret_cast<std::byte const*>(data) + (note->n_descsz + 3) / 4 * 4;
    }
  }
  return hex;
}

struct looked_up {
  std::uintptr_t address;
  module_place place;
  std::string path;
  std::string build_id;
};

int look_in_module(dl_phdr_info* info, std::size_t, void* into) {
  auto& wanted = *static_cast<looked_up*>(into);
  static char const anchor = 0;
  auto const own = reinterpret_cast<std::uintptr_t>(&anchor);
  bool found = false;
  bool holds_us = false;
  std::uintptr_t end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    auto const& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    std::uintptr_t const from = info->dlpi_addr + header.p_vaddr;
    std::uintptr_t const to = from + header.p_memsz;
    found = found || (wanted.address >= from && wanted.address < to);
    holds_us = holds_us || (own >= from && own < to);
    end = to > end ? to : end;
  }
  if (!found) return 0;
  wanted.path = info->dlpi_name != nullptr && info->dlpi_name[0] != '\0' ? info->dlpi_name : "/proc/self/exe";
  wanted.build_id = build_id_of(*info);
  wanted.place = {info->dlpi_addr, end, 0, holds_us};
  if (wanted.place.base == 0) wanted.place.base = 1;  // a program that is not position independent; base 0 means no module
  return 1;
}

module_place module_of(std::uintptr_t address, registry& all) {
  looked_up wanted{address, {}, {}, {}};
  if (dl_iterate_phdr(look_in_module, &wanted) == 0) return {};
  if (wanted.path == "/proc/self/exe") {
    char path[4096];
    ssize_t const length = readlink("/proc/self/exe", path, sizeof path);
    if (length > 0) wanted.path.assign(path, static_cast<std::size_t>(length));
  }
  wanted.place.identity = hash_of(wanted.build_id.empty() ? wanted.path : wanted.build_id);
  if (all.modules.insert(wanted.place.base).second) {
    event record{};
    record.kind = static_cast<std::uint16_t>(kind::module);
    record.begin_ns = now_ns();
    record.address = wanted.place.base;
    record.other = wanted.place.end - wanted.place.base;
    append_text(record, wanted.build_id + "\t" + wanted.path);
  }
  return wanted.place;
}

// Finds the module and the offset of each frame, leaves out this library's frames, and records the stack if it is new.
call_site recorded(walked const& stack) {
  registry& all = known();
  std::lock_guard const held{all.lock};
  std::array<frame, max_frames> frames{};
  std::size_t num = 0;
  std::uint64_t site = 0x243f6a8885a308d3U;
  std::uint64_t addresses = 0;
  for (std::size_t i = 0; i < stack.num; ++i) {
    std::uintptr_t const address = stack.return_address[i];
    module_place const place = module_of(address, all);
    if (place.own) continue;
    std::uint64_t const base = place.base == 1 ? 0 : place.base;
    frames[num++] = {place.base, address - base};
    site = mix(mix(site, place.identity), address - base);
    addresses = mix(addresses, address);
  }
  if (num == 0) return {};
  auto const [entry, fresh] = all.stack_of_addresses.try_emplace(addresses, all.num_stacks + 1);
  if (fresh) {
    ++all.num_stacks;
    event record{};
    record.kind = static_cast<std::uint16_t>(kind::stack);
    record.begin_ns = now_ns();
    record.stack = entry->second;
    record.address = site;
    append_text(record, {reinterpret_cast<char const*>(frames.data()), num * sizeof(frame)});
  }
  return {entry->second, site};
}

bool same(cached const& entry) {
  for (std::uint32_t i = 0; i < entry.num; ++i) {
    if (*reinterpret_cast<std::uintptr_t const*>(entry.kept_at[i]) != entry.return_address[i]) return false;
  }
  return true;
}

}  // namespace

__attribute__((noinline)) call_site where_from() {
  auto const frame_now = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  auto const returns_to = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  if (mine == nullptr) {
    void* const room = mmap(nullptr, cached_stacks * sizeof(cached), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return {};
    mine = static_cast<cached*>(room);
  }
  // relaxed: the generation changes only in a child of fork, which has one thread.
  std::uint32_t const now = generation.load(std::memory_order_relaxed);
  cached* const set = mine + mix(frame_now, returns_to) % (cached_stacks / ways) * ways;
  for (std::size_t way = 0; way < ways; ++way) {
    if (set[way].frame == frame_now && set[way].generation == now && same(set[way])) return set[way].site;
  }
  walked stack;
  _Unwind_Backtrace(take_frame, &stack);
  call_site const site = recorded(stack);
  // The new entry replaces the oldest entry of the set.
  for (std::size_t way = ways - 1; way > 0; --way) set[way] = set[way - 1];
  cached& entry = set[0];
  entry.frame = 0;
  entry.num = 0;
  bool certain = site.stack != 0;
  // The first frame is this function itself.
  for (std::size_t i = 1; i < stack.num; ++i) {
    if (stack.kept_at[i] == 0) {
      certain = false;
      break;
    }
    entry.return_address[entry.num] = stack.return_address[i];
    entry.kept_at[entry.num] = stack.kept_at[i];
    ++entry.num;
  }
  if (certain) {
    entry.site = site;
    entry.generation = now;
    entry.frame = frame_now;
  }
  return site;
}

void forget_stacks_after_fork() {
  registry& all = known();
  new (&all) registry;  // its lock may have been held by a thread that this process lacks
  generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace gpuheap::interpose
