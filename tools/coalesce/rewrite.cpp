#include "rewrite.hpp"

#include <cctype>
#include <set>

namespace coalesce {

namespace {

bool ends_in_backslash(std::string const& line) {
  auto const last = line.find_last_not_of(" \t\r\n");
  return last != std::string::npos && line[last] == '\\';
}

}  // namespace

unsigned offset_for_include(std::string const& text) {
  // The search begins behind a byte order mark.
  unsigned after = text.rfind("\xef\xbb\xbf", 0) == 0 ? 3 : 0, at = after, depth = 0, guard = 0;
  bool in_comment = false, code_seen = false, continues = false;  // continues: the line belongs to the directive before it
  std::string guard_name;
  while (at < text.size()) {
    std::size_t const end = std::min(text.find('\n', at), text.size() - 1);
    std::string line = text.substr(at, end + 1 - at);
    at = static_cast<unsigned>(end + 1);
    auto const first = line.find_first_not_of(" \t\r\n");
    line = first == std::string::npos ? "" : line.substr(first);
    if (in_comment) {
      in_comment = line.find("*/") == std::string::npos;
      continue;
    }
    if (line.rfind("/*", 0) == 0) {
      in_comment = line.find("*/") == std::string::npos;
      continue;
    }
    if (line.empty() || line.rfind("//", 0) == 0) continue;
    if (line[0] != '#') {
      code_seen = code_seen || !continues;
      continues = continues && ends_in_backslash(line);
      continue;
    }
    continues = ends_in_backslash(line);
    std::string directive = line.substr(1);
    directive.erase(0, directive.find_first_not_of(" \t"));
    if (directive.rfind("ifndef", 0) == 0 && after == 0 && !code_seen && depth == 0) {
      guard_name = directive.substr(6);
      ++depth;
    } else if (directive.rfind("if", 0) == 0) {
      ++depth;
    } else if (directive.rfind("endif", 0) == 0 && depth > 0) {
      --depth;
    } else if (directive.rfind("define", 0) == 0 && !guard_name.empty() && guard == 0 &&
               directive.find(guard_name.substr(1, guard_name.size() - 2)) != std::string::npos) {
      guard = 1;
      after = at;
    } else if (directive.rfind("pragma once", 0) == 0) {
      after = at;
    } else if (directive.rfind("include", 0) == 0 && depth == guard && !code_seen) {
      after = at;
    }
  }
  if (after != 0) return after;
  // The include is placed behind the comment at the file's head.
  at = 0;
  while (text.substr(at, 2) == "//") at = static_cast<unsigned>(std::min(text.find('\n', at), text.size() - 1) + 1);
  return at;
}

namespace {

class rewriter {
 public:
  rewriter(options const& asked, program& p, decisions const& decided)
      : asked_{asked},
        p_{p},
        decided_{decided},
        library_{asked.level == scope::warp ? "gpuheap::coalesced::by_warp::" : "gpuheap::coalesced::"} {}

  edits run() {
    edits_.keep_line_ends(p_.texts);
    for (auto const& d : decided_.sites) rewrite_site(d);
    for (auto const& r : decided_.releases) rewrite_release(r);
    for (auto const& d : decided_.calls) {
      if (d.is == verdict::collective || d.is == verdict::inherit) append(d.what.close, d.what.has_arguments, flag_of(d.is, d.parameter));
    }
    for (auto const* unit : decided_.with_parameter) add_parameter(*unit);
    bool const anything = !edits_.empty();
    if (asked_.init && anything) {
      for (auto const& main : p_.mains) rewrite_main(main);
      if (p_.mains.empty())
        tell(severity::note, "I2", {*p_.editable.begin(), 0, 0, 0},
             std::string{"no main in the files given: call gpuheap::coalesced::init"} + (asked_.dynamic ? "_dynamic" : "") +
                 "() before the first kernel, and clean() after the last");
    }
    for (auto const& file : library_users_) add_include(file);
    for (auto const& where : edits_.conflicts())
      tell(severity::error, "E2", where, "two changes meet here: write the line in a simpler way");
    return std::move(edits_);
  }

 private:
  void tell(severity level, char const* id, place const& at, std::string const& text) {
    p_.diagnostics.push_back({level, id, text, at, {}});
  }

  static std::string flag_of(verdict v, std::string const& parameter) {
    return v == verdict::collective ? "true" : v == verdict::inherit ? parameter : "";
  }

  void append(stretch const& close, bool has_arguments, std::string const& text) {
    if (!text.empty()) edits_.insert(close, (has_arguments ? ", " : "") + text);
  }

  // Whether the text at `where` can be changed. If not, reports an error, since memory of one heap could be freed into the other.
  bool can_change(stretch const& where, place const& at, char const* what) {
    if (where.editable) return true;
    if (where.file.empty()) {
      tell(severity::error, "E5", at, std::string{"this "} + what + " is put together by a macro and cannot be rewritten: write it out");
    } else {
      tell(severity::error, "E3", at,
           std::string{"this "} + what + " in device code stands in " + where.file +
               ", which is not among the files given, and other files may include it: name it too, with all files that include it");
    }
    return false;
  }

  void rewrite_site(site_decision const& d) {
    if (d.is == verdict::untouched) return;
    auto const& s = d.what;
    std::string const flag = flag_of(d.is, d.parameter);
    if (s.kind == site_kind::registered) return append(s.close, true, flag);
    if (!can_change(s.name, s.at, "allocation")) return;
    library_users_.insert(s.name.file);
    if (s.kind == site_kind::create || s.kind == site_kind::create_array) {
      std::string const memory = d.of_both_heaps ? "memory_of<" + s.type_text + ">{}" : "memory{" + flag + "}";
      edits_.replace(s.name, "new (" + library_ + memory + ")");
      return;
    }
    edits_.replace(s.name, library_ + (s.kind == site_kind::calloc ? "calloc" : "malloc"));
    append(s.close, true, flag);
  }

  void rewrite_release(release const& r) {
    if (!can_change(r.whole, r.at, "release")) return;
    library_users_.insert(r.whole.file);
    if (r.kind == release_kind::free) {
      edits_.replace(r.whole, library_ + "free");
      return;
    }
    if (r.operand.file.empty() || !r.macro.empty()) {
      tell(severity::error, "E5", r.at, "this release is put together by a macro and cannot be rewritten: write it out");
      return;
    }
    stretch head = r.whole;
    head.length = r.operand.offset - r.whole.offset;
    stretch end = r.operand;
    end.offset += r.operand.length;
    edits_.replace(head, library_ + (r.kind == release_kind::destroy ? "destroy(" : "destroy_array("));
    edits_.insert(end, ")");
  }

  void add_parameter(function_unit const& unit) {
    std::set<unsigned> declared_in;  // translation units that declare it
    std::map<std::pair<std::string, unsigned>, bool> first_at;
    for (auto const& d : unit.declarations) {
      bool const first = declared_in.insert(d.unit).second;
      auto const [entry, is_new] = first_at.emplace(std::pair{d.close.file, d.close.offset}, first);
      if (!is_new) continue;  // a header that several units include
      std::string const text = "bool " + unit.parameter_name + (first ? " = false" : "");
      if (d.only_void.length > 0) {
        edits_.replace(d.only_void, text);
      } else {
        append(d.close, d.has_parameters, text);
      }
    }
  }

  [[nodiscard]] std::string indent_at(stretch const& where) const {
    auto const& text = p_.texts.at(where.file);
    std::size_t begin = where.offset == 0 ? 0 : text.rfind('\n', where.offset - 1);
    begin = begin == std::string::npos || where.offset == 0 ? 0 : begin + 1;
    std::size_t const end = text.find_first_not_of(" \t", begin);
    return text.substr(begin, end - begin);
  }

  void rewrite_main(main_function const& main) {
    if (main.has_init) return;
    if (!main.after_brace.editable) {
      tell(severity::error, "E3", main.at, "main stands in a file that is not among those given: name it too, or use --no-init");
      return;
    }
    std::string const clean = library_ + "clean();";
    edits_.insert(main.after_brace, "\n  " + library_ + (asked_.dynamic ? "init_dynamic(" : "init(") + asked_.heap_bytes + ");");
    library_users_.insert(main.after_brace.file);
    if (!main.object.file.empty()) {
      tell(severity::note, "I3", main.object,
           "no clean() is added to main, as this object is destroyed after it and may use the heap: the heap lasts until the process ends");
      return;
    }
    for (auto const& one : main.returns) {
      if (!one.whole.editable) {
        tell(severity::error, "E5", one.at, "a macro has this return, and clean-up belongs before it: write it out, or use --no-init");
        continue;
      }
      if (one.conditional)
        tell(severity::warning, "W7", one.at,
             "clean-up here waits for all kernels and ends the heap of the whole process, and this return is taken under a condition: if "
             "threads of the host go on, "
             "use --no-init and call init() and clean() where no other host thread goes on");
      std::string const indent = indent_at(one.whole);
      if (one.constant || one.result.empty()) {
        if (one.braced) {
          edits_.insert(one.whole, clean + "\n" + indent);
        } else {
          edits_.replace(one.whole, "{ " + clean + " return" + (one.result.empty() ? "" : " " + one.result) + "; }");
          drop_semicolon(one.whole);
        }
      } else {
        // The result is computed before the clean-up, as it may use the heap.
        edits_.replace(one.whole, "{ int const gpuheap_result = " + one.result + "; " + clean + " return gpuheap_result; }");
        drop_semicolon(one.whole);
      }
    }
    if (main.falls_off_end) edits_.insert(main.before_end, "  " + clean + "\n");
  }
  void drop_semicolon(stretch after) {
    auto const& text = p_.texts.at(after.file);
    std::size_t at = after.offset + after.length;
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
    if (at < text.size() && text[at] == ';') edits_.replace({after.file, static_cast<unsigned>(at), 1, true}, "");
  }

  void add_include(std::string const& file) {
    auto const& text = p_.texts.at(file);
    for (auto const* header : {"<gpuheap/coalesced.hpp>", "<gpuheap/mpi/program.hpp>"}) {
      if (text.find(header) != std::string::npos) return;
    }
    edits_.insert({file, offset_for_include(text), 0, true}, "#include <gpuheap/coalesced.hpp>\n");
  }

  options const& asked_;
  program& p_;
  decisions const& decided_;
  std::string library_;  // the namespace of the collective heap's calls for the level
  edits edits_;
  std::set<std::string> library_users_;
};

}  // namespace

edits rewrite(options const& asked, program& p, decisions const& decided) { return rewriter{asked, p, decided}.run(); }

}  // namespace coalesce
