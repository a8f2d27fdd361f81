#include "fat_binary.hpp"

#include <algorithm>
#include <cstring>

#include "decompress.hpp"

namespace gpuheap::unchanged {

namespace {

// The header of an entry, as nvcc of CUDA 9 to 13 writes it. `head_bytes` is its length. The options follow these fields.
struct entry_head {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t head_bytes;
  std::uint64_t payload_bytes;
  std::uint32_t packed_bytes;  // bytes of the payload without padding; 0 if it is not compressed
  std::uint32_t options_at;    // from the head's begin; 0: there are none
  std::uint16_t minor;
  std::uint16_t major;
  std::uint32_t architecture;
  std::uint32_t name_at;
  std::uint32_t name_bytes;
  std::uint64_t flags;
  std::uint64_t unused;
  std::uint64_t unpacked_bytes;
};
static_assert(sizeof(entry_head) == 64);

struct fat_binary_head {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t head_bytes;
  std::uint64_t entries_bytes;
};
static_assert(sizeof(fat_binary_head) == 16);

constexpr std::uint64_t packed_by_lz4 = 0x2000;
constexpr std::uint64_t packed_by_zstandard = 0x8000;

template <class Head>
Head read(bytes_view from) {
  Head head;
  std::memcpy(&head, from.data(), sizeof head);
  return head;
}

std::string options_of(entry_head const& head, bytes_view entry) {
  if (head.options_at == 0 || head.options_at > head.head_bytes || head.head_bytes - head.options_at < 8) return {};
  std::uint32_t place[2];  // the offset and the length of the text
  std::memcpy(place, entry.data() + head.options_at, sizeof place);
  if (place[0] > head.head_bytes || place[1] > head.head_bytes - place[0]) return {};
  std::string text{reinterpret_cast<char const*>(entry.data()) + place[0], place[1]};
  return text.substr(0, text.find('\0'));
}

fat_entry entry_of(entry_head const& head, bytes_view entry) {
  fat_entry made;
  made.kind = head.kind == 1 ? entry_kind::ptx : head.kind == 2 ? entry_kind::machine_code : entry_kind::other;
  made.architecture = head.architecture;
  made.payload = entry.subspan(head.head_bytes, head.payload_bytes);
  if ((head.flags & packed_by_lz4) != 0) made.packed = compression::lz4;
  if ((head.flags & packed_by_zstandard) != 0) made.packed = compression::zstandard;
  if (made.packed != compression::none) {
    made.unpacked_bytes = head.unpacked_bytes;
    // The padding after the compressed frame is cut off. If `packed_bytes` is 0, all bytes of the payload count.
    if (head.packed_bytes != 0) made.payload = made.payload.first(head.packed_bytes);
  }
  made.options = options_of(head, entry);
  return made;
}

}  // namespace

std::uint64_t fat_binary_bytes(bytes_view head) {
  if (head.size() < sizeof(fat_binary_head)) return 0;
  auto const found = read<fat_binary_head>(head);
  if (found.magic != fat_binary_magic || found.head_bytes < sizeof found) return 0;
  std::uint64_t const all = found.entries_bytes + found.head_bytes;
  return all < found.entries_bytes ? 0 : all;
}

std::optional<std::vector<fat_entry>> entries_of(bytes_view all, std::string* why) {
  std::uint64_t const told = fat_binary_bytes(all);
  if (told == 0) {
    *why = "it does not begin as a fat binary";
    return std::nullopt;
  }
  if (told > all.size()) {
    *why = "it says that it has " + std::to_string(told) + " bytes, and has " + std::to_string(all.size());
    return std::nullopt;
  }
  std::vector<fat_entry> found;
  bytes_view rest = all.first(told).subspan(read<fat_binary_head>(all).head_bytes);
  while (!rest.empty()) {
    auto const damaged = [&](char const* what) {
      *why = "its entry " + std::to_string(found.size() + 1) + " " + what;
      return std::nullopt;
    };
    if (rest.size() < sizeof(entry_head)) return damaged("is cut off");
    auto const head = read<entry_head>(rest);
    if (head.head_bytes < sizeof head || head.head_bytes > rest.size()) return damaged("has a header of an impossible length");
    if (head.payload_bytes > rest.size() - head.head_bytes) return damaged("is longer than the whole");
    if (head.packed_bytes > head.payload_bytes) return damaged("is packed in more bytes than it has");
    found.push_back(entry_of(head, rest));
    rest = rest.subspan(head.head_bytes + head.payload_bytes);
  }
  return found;
}

std::optional<std::vector<std::byte>> unpacked(fat_entry const& entry, std::string* why) {
  if (entry.packed == compression::none) return std::vector<std::byte>{entry.payload.begin(), entry.payload.end()};
  std::uint64_t const most = std::min(most_unpacked_bytes, most_unpacked_ratio * entry.payload.size());
  if (entry.unpacked_bytes == 0 || entry.unpacked_bytes > most) {
    *why = "an entry says that it unpacks to " + std::to_string(entry.unpacked_bytes) + " bytes";
    return std::nullopt;
  }
  std::vector<std::byte> out(entry.unpacked_bytes);
  if (!decompress(entry.packed, entry.payload, out, why)) return std::nullopt;
  return out;
}

}  // namespace gpuheap::unchanged
