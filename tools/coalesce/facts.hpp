// The results of the analysis of a program, in plain data: values and how far they are the same, allocations, calls, functions. No Clang
// here, so that decisions, edits and reports compile without it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace coalesce {

// The largest group of threads in which something is the same; `thread` when it may differ between any two.
enum class scope : std::uint8_t { grid, block, warp, thread };
[[nodiscard]] inline char const* name_of(scope s) {
  static constexpr char const* names[] = {"grid", "block", "warp", "thread"};
  return names[static_cast<int>(s)];
}

// Bits of value::parameters beside those of the parameters 0..61 of the function at hand.
inline constexpr unsigned this_object = 62;
inline constexpr unsigned no_parameter = 63;

// How far a value, or a condition, is the same: in each group of `same_in`, if the parameters named are.
struct value {
  scope same_in = scope::grid;
  std::uint64_t parameters = 0;
  int cause = -1;  // of `same_in`: index into program::causes

  [[nodiscard]] bool same_as(value const& other) const { return same_in == other.same_in && parameters == other.parameters; }
};
[[nodiscard]] inline value join(value const& a, value const& b) {
  bool const first = a.same_in >= b.same_in;
  int const cause = first ? (a.cause >= 0 || a.same_in > b.same_in ? a.cause : b.cause) : b.cause;
  return {first ? a.same_in : b.same_in, a.parameters | b.parameters, cause};
}
[[nodiscard]] inline value of_parameter(unsigned i) { return {scope::grid, std::uint64_t{1} << (i <= this_object ? i : no_parameter), -1}; }

// A place in a file as it is on disk.
struct place {
  std::string file;
  unsigned offset = 0, line = 0, column = 0;
};

// Why something differs between threads; `from` is the cause of the cause.
enum class cause_kind : std::uint8_t { source, condition, loop, early_exit, data };
struct cause {
  place at;
  std::string text;
  int from = -1;
  cause_kind kind = cause_kind::source;
};

// A stretch of text that can be replaced: written out in a file, not made by a macro.
struct stretch {
  std::string file;
  unsigned offset = 0, length = 0;
  bool editable = false;
};

enum class site_kind : std::uint8_t { malloc, calloc, create, create_array, registered, other };

// A call that allocates.
struct site {
  site_kind kind = site_kind::malloc;
  place at;
  std::string callee, size_text;
  value size, control;
  bool flagged = false;  // has a further argument already
  stretch name;          // the callee's name, or the word `new`
  stretch close;         // the closing parenthesis, length 0
  std::string macro;     // whose body has the call; empty: none
  place macro_at;
  std::string refused;  // why this kind cannot be rewritten; empty: it can
  int arm_of = -1;      // the branch whose arm it stands in, by number, and which arm
  bool arm_else = false;
};

// A call of a function whose definition is in the files given, or that was registered.
struct call {
  place at;
  std::string callee_key, callee;
  std::map<unsigned, value> arguments;  // by parameter; this_object: the object
  value control;
  stretch close;
  bool has_arguments = false;
  bool all_written = true;  // no default argument is left to the compiler
  std::string macro;
};

// A call that frees.
enum class release_kind : std::uint8_t { free, destroy, destroy_array };
struct release {
  release_kind kind = release_kind::free;
  place at;
  stretch whole;    // of `delete p`: all of it, as `before` + the operand + `)`
  stretch operand;  // of `delete p`
  std::string macro, refused;
};

// A declaration of a function, where a parameter can be added.
struct declaration {
  place at;
  stretch close;      // before the closing parenthesis; length 0
  stretch only_void;  // `(void)`: that word
  bool has_parameters = false;
  unsigned unit = 0;  // the translation unit that saw it
};

// A device function with a body, or an instantiation of one: what it does, in terms of its parameters.
struct function_facts {
  std::string key;  // the same for all instantiations and declarations
  std::vector<site> sites;
  std::vector<call> calls;
  std::vector<release> releases;
  value result;
  std::map<unsigned, value> written;  // what is written through a parameter
  std::uint64_t leaked = 0;           // parameters whose address is kept somewhere
  bool writes_memory = false;
  value memory;        // what is written where no name says
  value waits;         // not grid: ranks may have waited for messages (flow.hpp)
  bool sends = false;  // messages
};

// All instantiations of one function, and its declarations.
struct function_unit {
  std::string key, name, parameter_name = "coalesce";
  place at;
  bool root = false;
  std::string fixed;  // why no parameter can be added; empty: one can
  place fixed_at;
  std::vector<declaration> declarations;
  std::vector<function_facts> instances;
};

// Something to tell the user.
enum class severity : std::uint8_t { remark, note, warning, error };
struct diagnostic {
  severity level = severity::remark;
  std::string id, text;
  place at;
  struct hint {
    place at;
    std::string text;
  };
  std::vector<hint> hints;
};

// Where heap initialisation and clean-up belong in a host main.
struct main_return {
  stretch whole;       // `return e;`, without its semicolon's line end
  std::string result;  // the text of e
  bool constant = false, braced = false, conditional = false;
  place at;
};
struct main_function {
  place at;
  stretch after_brace, before_end;
  bool has_init = false, falls_off_end = false;
  std::vector<main_return> returns;
};

// A promise that was not proven of the program that came out, at the call that would have made it.
struct objection {
  std::string rule, text;
  diagnostic::hint cause;  // no text: none
};

// The files given, and all that is known of them.
struct program {
  std::vector<cause> causes;
  std::map<std::string, function_unit> functions;  // by key
  std::vector<main_function> mains;
  std::vector<diagnostic> diagnostics;
  std::map<std::string, std::string> texts;                          // of each user's file that was read, by path
  std::set<std::string> editable;                                    // paths of the files given
  std::map<std::string, stretch> after_includes;                     // where a further #include goes, in files that were parsed
  std::set<std::string> has_include;                                 // files that have it already
  std::map<std::pair<std::string, unsigned>, objection> objections;  // by file and offset
};

}  // namespace coalesce
