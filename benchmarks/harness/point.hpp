// One point of a sweep: a value for each parameter of a case.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "harness/parameter.hpp"

namespace gpuheap::bench {

class point {
 public:
  // Reads "threads=1000000,bytes=16,state=warm". A parameter that the text does not name gets its fallback. Throws usage_error for an
  // unknown or repeated key and for a value that the parameter does not take.
  point(std::string_view text, std::span<parameter const> parameters);

  // The value of a parameter of the case. Another name is a mistake of the case and throws std::logic_error.
  [[nodiscard]] std::uint64_t number(std::string_view name) const;
  [[nodiscard]] std::string const& text(std::string_view name) const;
  // The value of a size; nothing if the point leaves it empty, and for a parameter that the case does not have.
  [[nodiscard]] std::optional<std::uint64_t> bytes_of(std::string_view name) const;
  [[nodiscard]] unsigned threads() const { return static_cast<unsigned>(number("threads")); }
  [[nodiscard]] unsigned block_threads() const { return static_cast<unsigned>(number("block_threads")); }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace gpuheap::bench
