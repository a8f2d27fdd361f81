#include "c_tokens.hpp"

#include <clang/Basic/LangOptions.h>
#include <clang/Lex/Lexer.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace coalesce {

namespace {

// Keywords of C++ that C does not have.
constexpr std::array<std::string_view, 66> kept_by_cpp{
    "and",
    "and_eq",
    "asm",
    "bitand",
    "bitor",
    "bool",
    "catch",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "decltype",
    "delete",
    "dynamic_cast",
    "explicit",
    "export",
    "false",
    "friend",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "reinterpret_cast",
    "requires",
    "static_cast",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typeid",
    "typename",
    "using",
    "virtual",
    "xor",
    "xor_eq",
    "gridDim",
    "blockDim",
    "blockIdx",
    "threadIdx",
    "warpSize",
    "wchar_t",
    "final",
    "override",
    "import",
    "module",
    "gpuheap",
};
// The keywords among these that a C program can have with the meaning of C++: from <stdbool.h>, <iso646.h> or <uchar.h>, or as an
// extension.
constexpr std::array<std::string_view, 18> macros_of_c{"and",   "and_eq", "bitand",  "bitor",    "bool",     "compl",
                                                       "false", "not",    "not_eq",  "or",       "or_eq",    "true",
                                                       "xor",   "xor_eq", "wchar_t", "char16_t", "char32_t", "asm"};
// Words of C with another spelling in C++.
constexpr std::array fits{std::pair{std::string_view{"_Bool"}, std::string_view{"bool"}},
                          std::pair{std::string_view{"_Static_assert"}, std::string_view{"static_assert"}},
                          std::pair{std::string_view{"_Alignas"}, std::string_view{"alignas"}},
                          std::pair{std::string_view{"_Alignof"}, std::string_view{"alignof"}},
                          std::pair{std::string_view{"_Noreturn"}, std::string_view{"[[noreturn]]"}},
                          std::pair{std::string_view{"restrict"}, std::string_view{"__restrict__"}},
                          std::pair{std::string_view{"typeof"}, std::string_view{"__typeof__"}},
                          std::pair{std::string_view{"register"}, std::string_view{""}}};
constexpr std::array<std::string_view, 9> of_cuda{"min", "max", "norm", "rsqrt", "rcbrt", "exp10", "sinpi", "cospi", "umin"};

template <class List>
bool has_word(List const& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

std::vector<c_token> tokens_of(std::string const& text) {
  clang::LangOptions language;
  language.C99 = language.C11 = language.C17 = language.GNUMode = language.LineComment = true;
  clang::Lexer lexer{clang::SourceLocation{}, language, text.c_str(), text.c_str(), text.c_str() + text.size()};
  std::vector<c_token> tokens;
  clang::Token token;
  for (bool last = false; !last;) {
    last = lexer.LexFromRawLexer(token);
    if (token.is(clang::tok::eof)) break;
    auto const end = static_cast<unsigned>(lexer.getBufferLocation() - text.c_str());
    tokens.push_back({end - token.getLength(), text.substr(end - token.getLength(), token.getLength())});
  }
  return tokens;
}

std::string word_in_cpp(std::string const& word, std::set<std::string> const& used, std::set<std::string> const& there) {
  for (auto const& [c, cpp] : fits) {
    if (c == word) return std::string{cpp};
  }
  bool const taken = has_word(kept_by_cpp, word) || there.count(word) != 0;
  if (!taken || (has_word(macros_of_c, word) && there.count(word) == 0)) return word;
  std::string renamed = word + "_";
  while (used.count(renamed) != 0) renamed += '_';
  return renamed;
}

bool is_of_cuda(std::string const& function) { return has_word(of_cuda, function); }

std::vector<found_include> includes_of_mpi(std::string const& text) {
  std::vector<found_include> found;
  auto const tokens = tokens_of(text);
  for (std::size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (tokens[i].text != "#" || tokens[i + 1].text != "include") continue;
    unsigned const at = tokens[i + 2].offset;
    for (std::string const name : {"<mpi.h>", "\"mpi.h\""}) {
      if (text.compare(at, name.size(), name) == 0) found.push_back({at, static_cast<unsigned>(name.size())});
    }
  }
  return found;
}

}  // namespace coalesce
