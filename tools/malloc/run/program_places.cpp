#include "program_places.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "ptx_reader.hpp"
#include "ptx_text.hpp"
#include "sha256.hpp"

namespace gpuheap::unchanged {

namespace {

constexpr std::size_t longest_function = 160;  // characters of a function's name that a text shows

// The name of a static kernel of relocatable code, without what nvcc puts before it: __nv_static_LENGTH_UNIT_, where the unit has LENGTH
// characters, and may itself have "_Z" in it. Other names stay as they are.
std::string_view without_unit(std::string_view name) {
  constexpr std::string_view begin = "__nv_static_";
  if (!name.starts_with(begin)) return name;
  std::size_t length = 0;
  char const* const end = name.data() + name.size();
  auto const [rest, error] = std::from_chars(name.data() + begin.size(), end, length);
  auto const left = static_cast<std::size_t>(end - rest);
  // The length may be any number of 64 bits, so nothing is added to it before it is compared.
  if (error != std::errc{} || left <= 2 || length >= left - 2 || rest[0] != '_' || rest[1 + length] != '_') return name;
  return {rest + length + 2, end};
}

// A function's name as the source has it. Long names of templates are cut. nvcc puts static functions into a namespace _INTERNAL_UNIT.
std::string readable(std::string_view mangled) {
  std::string const name{without_unit(mangled)};
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> const found{
      name.starts_with("_Z") ? abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status) : nullptr, &std::free};
  std::string made = found ? found.get() : name;
  // Ends: a pass erases a part of the text, or goes past it.
  for (std::size_t at = 0; found && (at = made.find("_INTERNAL_", at)) != made.npos;) {
    std::size_t end = at;
    while (end < made.size() && in_identifier(made[end])) ++end;
    if (made.compare(end, 2, "::") == 0) {
      made.erase(at, end + 2 - at);
    } else {
      at = end;
    }
  }
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

// Facts that a text may state behind the functions that need them, so that a first pass reads them.
struct text_facts {
  std::map<std::string, std::string, std::less<>> files;  // by number: the names of the files of .file directives, without their folders
  bool fits[std::size(served_names)];                     // whether each declaration of the name takes the arguments of served_names
};

// Called after `(`. Reads a list of parameters up to `)`.
// @return the number of parameters; nothing if one of them is no .param of 64 bits
std::optional<unsigned> parameters_of(ptx_reader& from) {
  unsigned count = 0;
  bool fit = true;
  for (token each = from.next(); each.kind != token_kind::end && each.text != ")"; each = from.next()) {
    if (each.text == "[") fit = false;
    if (each.kind != token_kind::directive) continue;
    if (each.text == "param") ++count;
    fit = fit && (each.text == "param" || each.text == "b64" || each.text == "u64" || each.text == "s64" || each.text == "align");
  }
  return fit ? std::optional{count} : std::nullopt;
}

// Called after `.func`, for a declaration such as `.func (.param .b64 out) malloc (.param .b64 bytes)`.
void read_declaration(ptx_reader& from, text_facts& into) {
  ptx_reader in_result = from;
  bool const has_result = in_result.next().text == "(";
  std::optional<unsigned> const results = has_result ? parameters_of(in_result) : 0;
  served_name const* const name = served(name_of_function(from).text);
  if (name == nullptr) return;
  std::optional<unsigned> const parameters = from.next().text == "(" ? parameters_of(from) : 0;
  if (results != (name->has_result ? 1U : 0U) || parameters != name->parameters) into.fits[name - served_names] = false;
}

void read_file(ptx_reader& from, std::string_view ptx, text_facts& into) {
  token const number = from.next();
  if (number.kind != token_kind::number) return;
  std::size_t const begin = ptx.find('"', from.position_of(number)), end = begin == ptx.npos ? begin : ptx.find('"', begin + 1);
  if (end == ptx.npos) return;
  std::string_view const path = ptx.substr(begin + 1, end - begin - 1);
  into.files[std::string{number.text}] = path.substr(path.rfind('/') + 1);
}

text_facts facts_for_places(std::string_view ptx) {
  text_facts found;
  std::fill(std::begin(found.fits), std::end(found.fits), true);
  ptx_reader from{ptx};
  for (token each = from.next(); each.kind != token_kind::end; each = from.next()) {
    if (each.kind != token_kind::directive) continue;
    if (each.text == "func") read_declaration(from, found);
    if (each.text == "file") read_file(from, ptx, found);
  }
  return found;
}

std::string declaration(served_name const& served) {
  std::string text = std::string{".extern .func "} + (served.has_result ? "(.param .b64 result) " : "") + std::string{served.at} + " (";
  for (unsigned i = 0; i <= served.parameters; ++i) text += (i == 0 ? ".param .b64 p" : ", .param .b64 p") + std::to_string(i);
  return text + ");\n";
}

// Whether the next tokens are the arguments of a call, without parentheses of their own: `, (a, b)`.
bool has_arguments(ptx_reader from) {
  if (from.next().text != "," || from.next().text != "(") return false;
  token const first = from.next();
  token each = first;
  while (each.kind != token_kind::end && each.text != ")" && each.text != "(" && each.text != ";") each = from.next();
  return each.text == ")" && first.text != ")";
}

// Writes the text with other names in place of malloc and free, and with one more argument in each call: the number of the place.
class placing {
 public:
  explicit placing(std::string_view ptx) : ptx_{ptx}, facts_{facts_for_places(ptx)} {}

  [[nodiscard]] placed_ptx run() {
    ptx_reader from{ptx_};
    for (token each = from.next(); each.kind != token_kind::end; each = from.next()) {
      bool is_called = false;
      if (each.kind == token_kind::directive) {
        read_directive(each.text, from);
      } else if (each.kind == token_kind::mark) {
        follow(each.text);
        follow_call(each.text, from.position_of(each));
      } else if (each.text == "call" && number_ == 0) {
        call_ = 1;
      } else if (call_ == 1) {
        is_called = true;
        call_ = 0;
      }
      served_name const* const name = each.kind == token_kind::word ? served(each.text) : nullptr;
      if (name == nullptr) continue;
      std::size_t const at = from.position_of(each);
      copy_to(at);
      copied_ = at + each.text.size();
      // A name that is not called is that of a declaration, a label, a register or a parameter, or stands for the function's address.
      bool const has_place = is_called && !function_.empty() && head_end_ != 0 && facts_.fits[name - served_names] && has_arguments(from);
      body_ += has_place ? name->at : name->to;
      if (!has_place) continue;
      uses_[name - served_names] = true;
      number_ = number_here();
    }
    copy_to(ptx_.size());
    std::string declarations;
    for (std::size_t i = 0; i < std::size(served_names); ++i) declarations += uses_[i] ? declaration(served_names[i]) : "";
    if (!declarations.empty()) body_.insert(head_end_, "\n" + declarations);
    return {std::move(body_), std::move(places_)};
  }

 private:
  // `from` is a copy, because the words behind a directive may be names that this text renames.
  void read_directive(std::string_view directive, ptx_reader from) {
    if (directive == "loc") {
      read_line(from);
    } else if (directive == "address_size" && head_end_ == 0) {
      token const bits = from.next();
      if (bits.kind == token_kind::number) head_end_ = body_.size() + from.position_of(bits) + bits.text.size() - copied_;
    } else if ((directive == "func" || directive == "entry") && depth_ == 0) {
      pending_ = name_of_function(from).text;
    }
  }
  // .loc FILE LINE COLUMN. Line 0 stands for code of no line.
  void read_line(ptx_reader& from) {
    token const file = from.next(), line = from.next();
    if (line.kind != token_kind::number || line.text == "0") return;
    auto const known = facts_.files.find(file.text);
    line_ = known == facts_.files.end() ? std::string{} : "at " + known->second + ":" + std::string{line.text} + " ";
  }
  void follow(std::string_view mark) {
    if (mark == "{") {
      if (depth_++ == 0) {
        function_ = pending_;
        function_text_.clear();
        line_.clear();
      }
    } else if (mark == "}") {
      if (depth_ > 0 && --depth_ == 0) function_ = {};
    } else if (mark != ";") {
      return;
    }
    if (depth_ == 0 || mark == "{") pending_ = {};
  }
  // Between `call` and the name of the called function, the results stand in parentheses: call.uni (r), malloc, (a). The number of the
  // place goes before the parenthesis that ends the arguments.
  void follow_call(std::string_view mark, std::size_t at) {
    if (call_ != 0) {
      if (mark == "(") ++call_;
      if (mark == ")" && call_ > 1) --call_;
      if (mark == ";") call_ = 0;
    } else if (number_ != 0 && mark == ")") {
      copy_to(at);
      body_ += ", " + std::to_string(std::exchange(number_, 0));
    }
  }
  // The number of the present place, which is noted.
  std::uint64_t number_here() {
    if (function_text_.empty()) function_text_ = readable(function_);
    program_place place{0, line_ + "in " + function_text_};
    std::uint64_t const number = place.number = number_of(place.text);
    if (numbers_.insert(number).second) places_.push_back(std::move(place));
    return number;
  }
  void copy_to(std::size_t at) {
    body_ += ptx_.substr(copied_, at - copied_);
    copied_ = at;
  }

  std::string_view ptx_;
  text_facts facts_;
  std::size_t head_end_ = 0;                 // where the inserted declarations stand in the new text; 0: not known yet
  unsigned depth_ = 0;                       // of braces
  unsigned call_ = 0;                        // 1: the name of a called function is next; above 1: the call's results are read; 0: neither
  std::string_view pending_;                 // the name of the function whose body may come next
  std::string_view function_;                // the function whose body is read; empty outside of functions
  std::string function_text_;                // its readable name; empty until it is needed
  std::string line_;                         // "at tree.cu:45 "; empty if no line is known
  std::uint64_t number_ = 0;                 // the number of the call whose arguments are read; 0: no such call
  bool uses_[std::size(served_names)] = {};  // whether a call of the name has got a place
  std::set<std::uint64_t> numbers_;          // of places_
  std::vector<program_place> places_;
  std::string body_;  // the new text, up to `copied_` in the old one
  std::size_t copied_ = 0;
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
  // exit() may be called where this thread holds the lock, as by a handler of Ctrl-C. The place then has no text.
  std::unique_lock const held{all().lock, std::try_to_lock};
  if (!held.owns_lock()) return nullptr;
  auto const found = all().texts.find(number);
  return found == all().texts.end() ? nullptr : found->second.c_str();
}

}  // namespace gpuheap::unchanged
