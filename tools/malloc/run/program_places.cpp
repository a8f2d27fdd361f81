#include "program_places.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "ptx_reader.hpp"
#include "ptx_text.hpp"
#include "sha256.hpp"

namespace gpuheap::unchanged {

namespace {

constexpr std::size_t longest_function = 160;  // characters of a function's name that a text shows

// A function's name as the source has it. Long names of templates are cut. nvcc puts __nv_static_ and the file's name before the name of a
// static function of relocatable code.
std::string readable(std::string name) {
  if (std::size_t const own = name.starts_with("__nv_static_") ? name.find("_Z") : name.npos; own != name.npos) name.erase(0, own);
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> const found{
      name.starts_with("_Z") ? abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status) : nullptr, &std::free};
  std::string made = found ? found.get() : name;
  if (made.size() > longest_function) made = made.substr(0, longest_function) + "...";
  return made;
}

std::uint64_t number_of(std::string const& text) {
  sha256 hash;
  hash.add_text(text);
  std::uint64_t number = 0;
  auto const digest = hash.digest();
  for (std::size_t i = 0; i < sizeof number; ++i) number = number << 8 | std::to_integer<std::uint64_t>(digest[i]);
  return (number >> 2) + 1;
}

// The names of the files that the text's .file directives number, without their folders. The directives may stand behind the functions.
std::map<std::string, std::string, std::less<>> files_of(std::string_view ptx) {
  std::map<std::string, std::string, std::less<>> found;
  ptx_reader from{ptx};
  for (token each = from.next(); each.kind != token_kind::end; each = from.next()) {
    if (each.kind != token_kind::directive || each.text != "file") continue;
    token const number = from.next();
    if (number.kind != token_kind::number) continue;
    std::size_t const begin = ptx.find('"', from.position_of(number)), end = begin == ptx.npos ? begin : ptx.find('"', begin + 1);
    if (end == ptx.npos) continue;
    std::string_view const path = ptx.substr(begin + 1, end - begin - 1);
    found[std::string{number.text}] = path.substr(path.rfind('/') + 1);
  }
  return found;
}

// A function of the inserted text, with the name `name`, which calls another one with the place's number as its last argument.
std::string passing_on(std::string const& name, served_name const& served, std::uint64_t place) {
  std::string const result = served.has_result ? "(.param .b64 result) " : "";
  std::string parameters, loads, stores, arguments;
  for (unsigned i = 0; i <= served.parameters; ++i) {
    std::string const n = std::to_string(i);
    bool const last = i == served.parameters;
    parameters += last ? "" : (i == 0 ? "" : ", ") + (".param .b64 p" + n);
    loads += last ? "mov.b64 %rd" + n + ", " + std::to_string(place) + ";\n" : "ld.param.b64 %rd" + n + ", [p" + n + "];\n";
    stores += ".param .b64 a" + n + ";\nst.param.b64 [a" + n + "], %rd" + n + ";\n";
    arguments += (i == 0 ? "a" : ", a") + n;
  }
  std::string const at{served.at};
  return ".func " + result + name + "(" + parameters + ")\n{\n.reg .b64 %rd<" + std::to_string(served.parameters + 2) + ">;\n" + loads +
         "{\n" + stores +
         (served.has_result
              ? ".param .b64 r;\ncall.uni (r), " + at + ", (" + arguments + ");\nld.param.b64 %rd0, [r];\n}\nst.param.b64 [result], %rd0;\n"
              : "call.uni " + at + ", (" + arguments + ");\n}\n") +
         "ret;\n}\n";
}
std::string declaration(served_name const& served) {
  std::string text = std::string{".extern .func "} + (served.has_result ? "(.param .b64 result) " : "") + std::string{served.at} + " (";
  for (unsigned i = 0; i <= served.parameters; ++i) text += (i == 0 ? ".param .b64 p" : ", .param .b64 p") + std::to_string(i);
  return text + ");\n";
}

// Writes the text with other names in place of malloc and free, and collects what must stand before the first function.
class placing {
 public:
  explicit placing(std::string_view ptx) : ptx_{ptx}, files_{files_of(ptx)} {}

  [[nodiscard]] placed_ptx run() {
    ptx_reader from{ptx_};
    std::string body;
    std::size_t copied = 0, head_end = 0;
    for (token each = from.next(); each.kind != token_kind::end; each = from.next()) {
      if (each.kind == token_kind::directive) {
        if (each.text == "func" || each.text == "entry") {
          each = name_of_function(from);
          if (depth_ == 0) pending_ = each.text;
        } else if (each.text == "loc") {
          read_line(from);
          continue;
        } else if (each.text == "address_size") {
          each = from.next();
          head_end = from.position_of(each) + each.text.size();
          continue;
        }
      } else if (each.kind == token_kind::mark) {
        follow(each.text);
      }
      served_name const* const name = each.kind == token_kind::word ? served(each.text) : nullptr;
      if (name == nullptr) continue;
      std::size_t const at = from.position_of(each);
      body += ptx_.substr(copied, at - copied);
      body += function_.empty() ? std::string{name->to} : name_at(*name);
      copied = at + each.text.size();
    }
    body += ptx_.substr(copied);
    if (!inserted_.empty()) body.insert(head_end, "\n" + declarations() + inserted_);
    return {std::move(body), std::move(places_)};
  }

 private:
  // .loc FILE LINE COLUMN. Line 0 stands for code of no line.
  void read_line(ptx_reader& from) {
    token const file = from.next(), line = from.next();
    if (line.kind != token_kind::number || line.text == "0") return;
    auto const known = files_.find(file.text);
    line_ = known == files_.end() ? std::string{} : "at " + known->second + ":" + std::string{line.text} + " ";
  }
  void follow(std::string_view mark) {
    if (mark == "{") {
      if (depth_++ == 0) {
        function_ = pending_.empty() ? std::string{} : readable(std::string{pending_});
        line_.clear();
      }
    } else if (mark == "}") {
      if (depth_ > 0 && --depth_ == 0) function_.clear();
    } else if (mark != ";") {
      return;
    }
    if (depth_ == 0 || mark == "{") pending_ = {};
  }
  // The name of the function that passes the present place on.
  std::string name_at(served_name const& name) {
    program_place place{0, line_ + "in " + function_};
    place.number = number_of(place.text);
    std::string made = std::string{name.at} + "_" + std::to_string(place.number);
    if (names_.emplace(made, &name).second) {
      inserted_ += passing_on(made, name, place.number);
      places_.push_back(std::move(place));
    }
    return made;
  }
  [[nodiscard]] std::string declarations() const {
    std::string text;
    for (served_name const& each : served_names) {
      for (auto const& [made, of] : names_) {
        if (of != &each) continue;
        text += declaration(each);
        break;
      }
    }
    return text;
  }

  std::string_view ptx_;
  std::map<std::string, std::string, std::less<>> files_;
  unsigned depth_ = 0;        // of braces
  std::string_view pending_;  // the name of the function whose body may come next
  std::string function_;      // the function whose body is read; empty outside of functions
  std::string line_;          // "at tree.cu:45 "; empty if no line is known
  std::map<std::string, served_name const*> names_;
  std::string inserted_;
  std::vector<program_place> places_;
};

struct noted {
  std::mutex lock;
  std::map<std::uint64_t, std::string> texts;
};
noted& all() {
  static noted* const only = new noted;  // never destroyed: reports are printed after static destruction too
  return *only;
}

}  // namespace

placed_ptx placed(std::string_view ptx) { return placing{ptx}.run(); }

void note_places(std::vector<program_place> const& places) {
  std::lock_guard const held{all().lock};
  for (program_place const& place : places) all().texts.emplace(place.number, place.text);
}

char const* text_of_place(std::uint64_t number) {
  std::lock_guard const held{all().lock};
  auto const found = all().texts.find(number);
  return found == all().texts.end() ? nullptr : found->second.c_str();
}

}  // namespace gpuheap::unchanged
