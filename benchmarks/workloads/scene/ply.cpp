#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <istream>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

#include "harness/error.hpp"
#include "harness/line_reader.hpp"
#include "workloads/scene/mesh_files.hpp"

namespace gpuheap::bench::scene {

namespace {

enum class number_type { i8, u8, i16, u16, i32, u32, f32, f64 };

std::optional<number_type> type_named(std::string_view name) {
  static std::map<std::string_view, number_type> const types{
      {"char", number_type::i8},   {"int8", number_type::i8},     {"uchar", number_type::u8},   {"uint8", number_type::u8},
      {"short", number_type::i16}, {"int16", number_type::i16},   {"ushort", number_type::u16}, {"uint16", number_type::u16},
      {"int", number_type::i32},   {"int32", number_type::i32},   {"uint", number_type::u32},   {"uint32", number_type::u32},
      {"float", number_type::f32}, {"float32", number_type::f32}, {"double", number_type::f64}, {"float64", number_type::f64},
  };
  auto const found = types.find(name);
  return found == types.end() ? std::nullopt : std::optional{found->second};
}

struct property {
  std::string name;
  number_type type;
  std::optional<number_type> count_type;  // of a list
};
struct element {
  std::string name;
  std::uint64_t count = 0;
  std::vector<property> properties;
};
enum class encoding { text, little, big };
struct header {
  encoding how = encoding::text;
  std::vector<element> elements;
};

property read_property(line_reader& lines, std::vector<std::string_view> const& words) {
  bool const is_list = words.size() == 5 && words[1] == "list";
  auto const type = words.size() < 3 ? std::nullopt : type_named(words[is_list ? 3 : 1]);
  auto const count_type = is_list ? type_named(words[2]) : std::nullopt;
  bool const whole_count = !is_list || (count_type && *count_type < number_type::f32);
  if ((words.size() != 3 && !is_list) || !type || !whole_count) {
    lines.refuse("'property <type> <name>' or 'property list <whole type> <type> <name>'");
  }
  return {std::string(words.back()), *type, count_type};
}

header read_header(line_reader& lines) {
  header head;
  if (!lines.next() || lines.words() != std::vector<std::string_view>{"ply"}) lines.refuse("'ply', the first line of a PLY file");
  bool has_format = false;
  while (true) {
    if (!lines.next()) lines.refuse("'end_header'");
    auto const& words = lines.words();
    if (words.empty() || words[0] == "comment" || words[0] == "obj_info") continue;
    if (words[0] == "end_header") break;
    if (words[0] == "format") {
      bool const known = words.size() == 3 && words[2] == "1.0" &&
                         (words[1] == "ascii" || words[1] == "binary_little_endian" || words[1] == "binary_big_endian");
      if (!known) lines.refuse("'format <ascii|binary_little_endian|binary_big_endian> 1.0'");
      head.how = words[1] == "ascii" ? encoding::text : words[1] == "binary_big_endian" ? encoding::big : encoding::little;
      has_format = true;
    } else if (words[0] == "element") {
      element e;
      if (words.size() != 3 || !read_whole(words[2], e.count)) lines.refuse("'element <name> <count>'");
      e.name = words[1];
      head.elements.push_back(std::move(e));
    } else if (words[0] == "property" && !head.elements.empty()) {
      head.elements.back().properties.push_back(read_property(lines, words));
    } else {
      lines.refuse("'format', 'element', 'property', 'comment' or 'end_header'");
    }
  }
  if (!has_format) lines.refuse("a 'format' line before the end of the header");
  return head;
}

// The numbers of the elements, one after another, whatever they are written as.
class body_reader {
 public:
  body_reader(std::istream& in, line_reader& lines, std::string const& name, encoding how)
      : in_{in}, lines_{lines}, name_{name}, how_{how} {}

  void begin(element const& e, std::uint64_t index) {
    where_ = e.name + " " + std::to_string(index) + " of " + std::to_string(e.count);
    if (how_ != encoding::text) return;
    if (!lines_.next_data()) lines_.refuse(where_);
    words_ = lines_.words();
    at_ = 0;
  }
  void end() {
    if (how_ == encoding::text && at_ != words_.size()) lines_.refuse("no more numbers in " + where_);
  }
  double number(number_type type) {
    if (how_ != encoding::text) return binary(type);
    double value = 0;
    if (at_ == words_.size() || !read_whole(words_[at_++], value)) lines_.refuse("the numbers of " + where_);
    return value;
  }
  [[noreturn]] void refuse(std::string const& expected) {
    if (how_ == encoding::text) lines_.refuse(expected + " in " + where_);
    throw usage_error(name_ + ": " + where_ + ": expected " + expected);
  }

 private:
  template <class T>
  T bytes() {
    std::array<char, sizeof(T)> raw;
    if (!in_.read(raw.data(), raw.size())) {
      throw usage_error(name_ + ": expected " + where_ + ", found the end of the file");
    }
    if ((how_ == encoding::big) != (std::endian::native == std::endian::big)) std::reverse(raw.begin(), raw.end());
    T value;
    std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  double binary(number_type type) {
    switch (type) {
      case number_type::i8:
        return bytes<std::int8_t>();
      case number_type::u8:
        return bytes<std::uint8_t>();
      case number_type::i16:
        return bytes<std::int16_t>();
      case number_type::u16:
        return bytes<std::uint16_t>();
      case number_type::i32:
        return bytes<std::int32_t>();
      case number_type::u32:
        return bytes<std::uint32_t>();
      case number_type::f32:
        return static_cast<double>(bytes<float>());
      case number_type::f64:
        return bytes<double>();
    }
    return 0;
  }

  std::istream& in_;
  line_reader& lines_;
  std::string const& name_;
  encoding how_;
  std::string where_;
  std::vector<std::string_view> words_;
  std::size_t at_ = 0;
};

constexpr std::uint64_t most_in_a_list = 1u << 16;

// Reads one list, whose corners are a face's. `corners`: how many there are.
void read_face(body_reader& body, property const& p, std::uint64_t corners, indexed_mesh& mesh) {
  double const count = body.number(*p.count_type);
  if (!(count >= 3 && count <= most_in_a_list) || count != std::floor(count)) body.refuse("a face of 3 to 65536 corners");
  std::array<std::uint32_t, 3> fan{};
  for (int k = 0; k < static_cast<int>(count); ++k) {
    double const index = body.number(p.type);
    if (!(index >= 0 && index < static_cast<double>(corners)) || index != std::floor(index)) {
      body.refuse("corner numbers from 0 to " + std::to_string(corners - 1));
    }
    if (k == 0) fan[0] = static_cast<std::uint32_t>(index);
    fan[1] = fan[2];
    fan[2] = static_cast<std::uint32_t>(index);
    if (k >= 2) mesh.faces.push_back(fan);
  }
}

void read_element(body_reader& body, element const& e, std::uint64_t index, std::uint64_t corners, indexed_mesh& mesh) {
  body.begin(e, index);
  vec3 corner{};
  for (auto const& p : e.properties) {
    bool const is_face = e.name == "face" && (p.name == "vertex_indices" || p.name == "vertex_index") && p.count_type;
    if (is_face) {
      read_face(body, p, corners, mesh);
      continue;
    }
    double const count = p.count_type ? body.number(*p.count_type) : 1;
    if (!(count >= 0 && count <= most_in_a_list)) body.refuse("a list of 0 to 65536 numbers");
    double value = 0;
    for (int k = 0; k < static_cast<int>(count); ++k) value = body.number(p.type);
    if (e.name != "vertex" || p.name.size() != 1 || p.name[0] < 'x' || p.name[0] > 'z') continue;
    // As a float too, which a double may be too large for.
    if (!(std::abs(value) <= std::numeric_limits<float>::max())) body.refuse("finite coordinates");
    corner.v[p.name[0] - 'x'] = static_cast<float>(value);
  }
  body.end();
  if (e.name == "vertex") mesh.corners.push_back(corner);
}

bool has_property(element const& e, std::string_view name) {
  return std::any_of(e.properties.begin(), e.properties.end(), [&](property const& p) { return p.name == name; });
}

}  // namespace

triangle_list read_ply(std::istream& in, std::string const& name) {
  line_reader lines(in, name, '\0');
  header const head = read_header(lines);
  auto const named = [&](std::string_view what) {
    return std::find_if(head.elements.begin(), head.elements.end(), [&](element const& e) { return e.name == what; });
  };
  auto const vertices = named("vertex"), faces = named("face");
  if (vertices == head.elements.end() || !has_property(*vertices, "x") || !has_property(*vertices, "y") || !has_property(*vertices, "z")) {
    throw usage_error(name + ": expected an element 'vertex' with properties x, y and z in the header");
  }
  if (faces == head.elements.end() || (!has_property(*faces, "vertex_indices") && !has_property(*faces, "vertex_index"))) {
    throw usage_error(name + ": expected an element 'face' with a list 'vertex_indices' in the header");
  }
  if (vertices > faces) throw usage_error(name + ": expected the element 'vertex' before 'face'");

  indexed_mesh mesh;
  body_reader body(in, lines, name, head.how);
  for (auto const& e : head.elements) {
    // Nothing is written of them, however many the header says there are.
    if (e.properties.empty() && head.how != encoding::text) continue;
    for (std::uint64_t index = 0; index < e.count; ++index) read_element(body, e, index, vertices->count, mesh);
  }
  bool const more = head.how == encoding::text ? lines.next_data() : in.peek() != std::istream::traits_type::eof();
  if (more && head.how == encoding::text) lines.refuse("the end of the file after the last element");
  if (more) throw usage_error(name + ": expected the end of the file after the last element");
  return triangles_of(mesh);
}

}  // namespace gpuheap::bench::scene
