// The results of the analysis of a program, in plain data: values and the groups of threads in which they are the same, allocations, calls,
// functions. The header does not use Clang, so that decisions, edits and reports compile without it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace coalesce {

// The largest group of threads in which something is the same; `thread` if it may differ between any two threads.
enum class scope : std::uint8_t { grid, block, warp, thread };
[[nodiscard]] inline char const* name_of(scope s) {
  static constexpr char const* names[] = {"grid", "block", "warp", "thread"};
  return names[static_cast<int>(s)];
}

// Bits of value::parameters. Bits 0 to 61 stand for the parameters of the analysed function, this_object for the object of a method, and
// no_parameter for a parameter that is not followed.
inline constexpr unsigned this_object = 62;
inline constexpr unsigned no_parameter = 63;

// The knowledge about a value or a condition. The value is the same in all threads of each group `same_in`, if each parameter whose bit is
// set in `parameters` is the same in them.
struct value {
  scope same_in = scope::grid;
  std::uint64_t parameters = 0;
  int cause = -1;  // why `same_in` is not grid: index into program::causes; -1: none

  [[nodiscard]] bool same_as(value const& other) const { return same_in == other.same_in && parameters == other.parameters; }
};
// The knowledge about a value that depends on both `a` and `b`.
[[nodiscard]] inline value join(value const& a, value const& b) {
  bool const first = a.same_in >= b.same_in;
  int const cause = first ? (a.cause >= 0 || a.same_in > b.same_in ? a.cause : b.cause) : b.cause;
  return {first ? a.same_in : b.same_in, a.parameters | b.parameters, cause};
}
[[nodiscard]] inline value of_parameter(unsigned i) { return {scope::grid, std::uint64_t{1} << (i <= this_object ? i : no_parameter), -1}; }

// A place in the text of a file. Lines and columns count from 1.
struct place {
  std::string file;
  unsigned offset = 0, line = 0, column = 0;
};

// The reason why something differs between threads. `from` is the index of the cause behind this one, or -1.
enum class cause_kind : std::uint8_t { source, condition, loop, early_exit, data };
struct cause {
  place at;
  std::string text;
  int from = -1;
  cause_kind kind = cause_kind::source;
};

// A stretch of a file's text that no macro produces. `editable`: the file may be changed. If `file` is empty, there is no such stretch.
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
  bool flagged = false;  // already has a further argument
  stretch name;          // the callee's name, or the word `new`
  stretch close;         // the closing parenthesis, length 0
  std::string macro;     // the macro whose body has the call; empty: none
  place macro_at;
  std::string refused;    // why the call cannot be rewritten; empty: it can
  std::string type_text;  // of `new`: the type, as it is written
  int arm_of = -1;        // the file offset of the innermost `if` around the call, or -1
  bool arm_else = false;  // whether the call is in the else arm of that `if`
};

// A call of a function whose definition is in the files given.
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
  stretch whole;    // `delete p`, or the name `free` of a call
  stretch operand;  // the p of `delete p`
  std::string macro, refused;
};

// A declaration of a function, where a parameter can be added.
struct declaration {
  place at;
  stretch close;      // the place before the closing parenthesis; length 0
  stretch only_void;  // the word in `(void)`, if it is there
  bool has_parameters = false;
  unsigned unit = 0;  // the translation unit that saw it
};

// The facts about a device function with a body, or about one instantiation of a template, in terms of its parameters.
struct function_facts {
  std::string key;  // the same for all instantiations and declarations
  std::vector<site> sites;
  std::vector<call> calls;
  std::vector<release> releases;
  value result;
  std::map<unsigned, value> written;  // what is written through a parameter
  std::uint64_t leaked = 0;           // bits of the parameters whose address or pointer value may be kept somewhere
  bool writes_memory = false;
  value memory;        // what is written to unknown memory
  value waits;         // if not the same in the grid: ranks may have waited for messages (flow.hpp)
  bool sends = false;  // it sends messages
};

// All instantiations of one function, and its declarations.
struct function_unit {
  std::string key, name, parameter_name = "coalesce";
  place at;
  bool root = false;  // a kernel, or a function of --root: every thread calls it
  std::string fixed;  // why no parameter can be added; empty: one can
  place fixed_at;
  std::vector<declaration> declarations;
  std::vector<function_facts> instances;
};

// A message to the user.
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

// The places in the host's main for the initialisation and the clean-up of the heap.
struct main_return {
  stretch whole;       // `return e`, without the semicolon
  std::string result;  // the text of e
  bool constant = false, braced = false, conditional = false;
  place at;
};
struct main_function {
  place at;
  stretch after_brace, before_end;
  bool has_init = false, falls_off_end = false;
  place object;  // a variable whose destructor may use the heap after a clean-up; no file: none
  std::vector<main_return> returns;
};

// An objection to one call: the check of the rewritten program (verify.hpp) could not prove the rule `rule` there.
struct objection {
  std::string rule, text;
  diagnostic::hint cause;  // none if its text is empty
};

// The files given, and all that is known about them.
struct program {
  std::vector<cause> causes;
  std::map<std::string, function_unit> functions;  // by key
  std::vector<main_function> mains;
  std::vector<diagnostic> diagnostics;
  std::map<std::string, std::string> texts;                          // of each file of the user that was read, by path
  std::set<std::string> editable;                                    // paths of the files given
  std::map<std::string, stretch> after_includes;                     // by path of a parsed file: where a further #include goes
  std::set<std::string> has_include;                                 // files that already include the heap's header
  std::map<std::pair<std::string, unsigned>, objection> objections;  // by file and offset
};

}  // namespace coalesce
