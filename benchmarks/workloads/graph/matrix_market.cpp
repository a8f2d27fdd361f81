#include "workloads/graph/matrix_market.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <istream>
#include <limits>
#include <string_view>
#include <vector>

#include "harness/error.hpp"
#include "harness/line_reader.hpp"

namespace gpuheap::bench::graph {

namespace {

std::string lower_case(std::string_view word) {
  std::string lower{word};
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// A value out of the range of double is a number all the same.
bool is_number(std::string_view word) {
  double value = 0;
  if (word.starts_with('+')) word.remove_prefix(1);
  auto const [end, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
  return (failure == std::errc{} || failure == std::errc::result_out_of_range) && end == word.data() + word.size();
}

struct header {
  std::size_t num_values = 0;  // written behind the two indices of an entry
  bool symmetric = false;      // or skew-symmetric or hermitian: one triangle is written
};

header read_header(line_reader& lines) {
  struct field {
    char const* name;
    std::size_t num_values;
  };
  constexpr std::array<field, 5> fields{{{"pattern", 0}, {"real", 1}, {"double", 1}, {"integer", 1}, {"complex", 2}}};
  constexpr char const* expected =
      "'%%MatrixMarket matrix coordinate <pattern|real|integer|complex> <general|symmetric|skew-symmetric|hermitian>'";

  if (!lines.next()) lines.refuse(expected);
  auto const& words = lines.words();
  if (words.size() != 5 || lower_case(words[0]) != "%%matrixmarket" || lower_case(words[1]) != "matrix" ||
      lower_case(words[2]) != "coordinate") {
    lines.refuse(expected);
  }
  auto const kind = std::find_if(fields.begin(), fields.end(), [&](field const& f) { return f.name == lower_case(words[3]); });
  if (kind == fields.end()) lines.refuse(expected);
  auto const symmetry = lower_case(words[4]);
  bool const general = symmetry == "general";
  if (!general && symmetry != "symmetric" && symmetry != "skew-symmetric" && symmetry != "hermitian") lines.refuse(expected);
  return {kind->num_values, !general};
}

struct matrix_size {
  std::uint32_t vertices = 0;
  std::uint64_t entries = 0;
};

matrix_size read_size(line_reader& lines) {
  std::uint64_t rows = 0, columns = 0, entries = 0;
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  if (!lines.next_data()) lines.refuse("the size line 'rows columns entries'");
  auto const& words = lines.words();
  if (words.size() != 3 || !read_whole(words[0], rows) || !read_whole(words[1], columns) || !read_whole(words[2], entries)) {
    lines.refuse("the size line 'rows columns entries'");
  }
  if (rows != columns) lines.refuse("a square matrix: as many columns as rows");
  if (rows == 0 || rows > most) lines.refuse("1 to " + std::to_string(most) + " rows");
  return {static_cast<std::uint32_t>(rows), entries};
}

}  // namespace

edge_list read_matrix_market(std::istream& in, std::string const& name) {
  line_reader lines(in, name);
  header const head = read_header(lines);
  matrix_size const size = read_size(lines);
  std::string const shape = head.num_values == 0   ? "'row column'"
                            : head.num_values == 1 ? "'row column value'"
                                                   : "'row column real imaginary'";

  edge_list list{size.vertices, {}};
  // The number of entries is the file's word: no more is reserved for it than an honest small file needs.
  list.edges.reserve(std::min<std::uint64_t>(size.entries, 1u << 20));
  for (std::uint64_t entry = 0; entry < size.entries; ++entry) {
    if (!lines.next_data()) {
      lines.refuse(std::to_string(size.entries) + " entries, of which " + std::to_string(entry) + " are there");
    }
    auto const& words = lines.words();
    std::uint64_t row = 0, column = 0;
    if (words.size() != 2 + head.num_values || !read_whole(words[0], row) || !read_whole(words[1], column) ||
        !std::all_of(words.begin() + 2, words.end(), is_number)) {
      lines.refuse("an entry " + shape);
    }
    if (row < 1 || row > size.vertices || column < 1 || column > size.vertices) {
      lines.refuse("row and column from 1 to " + std::to_string(size.vertices));
    }
    auto const from = static_cast<std::uint32_t>(row - 1), to = static_cast<std::uint32_t>(column - 1);
    list.edges.push_back({from, to});
    if (head.symmetric && from != to) list.edges.push_back({to, from});
  }
  if (lines.next_data()) lines.refuse("the end of the file after " + std::to_string(size.entries) + " entries");
  return list;
}

edge_list read_matrix_market(std::string const& path) {
  errno = 0;
  std::ifstream in(path);
  if (!in) throw usage_error(path + ": cannot be opened: " + std::strerror(errno));
  return read_matrix_market(in, path);
}

}  // namespace gpuheap::bench::graph
