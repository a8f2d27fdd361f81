// An allocator's library for the driver double: its image is a file that the tests compile, its heaps are numbers that the state shows.
//
//   PROVIDER_IMAGE=FILE  the fat binary of the device code
//   PROVIDER_REFUSAL=TEXT, PROVIDER_NO_HEAP=TEXT  why it cannot serve; why it makes no heap
//   PROVIDER_REFUSES=N  the N-th look at a heap finds a refused request
//   PROVIDER_NO_SAMPLE=1  a sample of a heap fails
//   PROVIDER_PLACES=N,M  it takes places, and finds a misuse at each of these
//   PROVIDER_LOG=FILE  gets a line for each call

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "tools/malloc/provider.hpp"

namespace {

using namespace gpuheap::device_malloc;

__attribute__((format(printf, 1, 2))) void log(char const* format, ...) {
  char const* const path = std::getenv("PROVIDER_LOG");
  std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "a");
  if (file == nullptr) return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(file, format, arguments);
  va_end(arguments);
  std::fputc('\n', file);
  std::fclose(file);
}

int looks = 0;
bool is_refusing = false;

provider make_table() {
  static std::vector<char> image;
  if (char const* const path = std::getenv("PROVIDER_IMAGE"); path != nullptr) {
    std::ifstream file{path, std::ios::binary};
    image.assign(std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{});
  }
  provider made{};
  made.version = provider_version;
  made.state_bytes = 8;
  made.allocator = "double";
  made.refusal = std::getenv("PROVIDER_REFUSAL");
  made.alignment = 16;
  made.image = image.data();
  made.image_bytes = image.size();
  if (std::getenv("PROVIDER_PLACES") != nullptr) {
    made.takes_places = 1;
    made.findings = [](void*, provider_place_text* text_of, void (*say)(void*, char const*), void* to, provider_text*) {
      long count = 0;
      // Ends: each pass skips a number, or a character that is none.
      for (char* at = std::getenv("PROVIDER_PLACES"); *at != '\0'; ++count) {
        char const* const text = text_of(std::strtoull(at, &at, 10));
        say(to, text == nullptr ? "no such place" : text);
        if (*at != '\0') ++at;
      }
      return count;
    };
  }
  made.make = [](provider_settings const* settings, void* state, provider_text* why) -> void* {
    static unsigned long long number = 0;
    if (char const* const refusal = std::getenv("PROVIDER_NO_HEAP"); refusal != nullptr) {
      std::snprintf(why->words, sizeof why->words, "%s", refusal);
      return nullptr;
    }
    ++number;
    log("make %llu, limit %llu", number, static_cast<unsigned long long>(settings->malloc_limit));
    std::memcpy(state, &number, sizeof number);
    return new unsigned long long{number};
  };
  made.refused = [](void const*) {
    char const* const at = std::getenv("PROVIDER_REFUSES");
    if (at != nullptr && ++looks == std::atoi(at)) is_refusing = true;
    return is_refusing;
  };
  made.grow = [](void*, provider_text*) {
    log("grow");
    is_refusing = false;
    return grow_answer::grown;
  };
  made.report = [](void* heap, provider_report* out, provider_live* live, std::size_t room, provider_text*) {
    log("report %llu", *static_cast<unsigned long long*>(heap));
    *out = {};
    out->heap_bytes = 1 << 20;
    out->live_blocks = 3;
    out->live_bytes = 48;
    if (room > 0) live[0] = {16, 3};
    return 1L;
  };
  made.sample = [](void* heap, provider_report* out, provider_text* why) {
    static std::atomic<unsigned long long> samples{0};
    if (std::getenv("PROVIDER_NO_SAMPLE") != nullptr) {
      std::snprintf(why->words, sizeof why->words, "the device is lost");
      return false;
    }
    unsigned long long const number = ++samples;
    log("sample %llu", *static_cast<unsigned long long*>(heap));
    *out = {};
    out->heap_bytes = 1 << 20;
    out->held_bytes = 1024 * number;
    out->metadata_bytes = out->double_frees = provider_report::untold;
    out->live_blocks = 10 + number;
    out->live_bytes = 16 * out->live_blocks;
    out->failed_requests = number - 1;
    return true;
  };
  made.destroy = [](void*) { log("destroy"); };
  made.forget = [](void* heap) { log("forget %llu", *static_cast<unsigned long long*>(heap)); };
  return made;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) provider const* gpuheap_malloc_provider() {
  static provider const table = make_table();
  return &table;
}
