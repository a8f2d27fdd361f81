#include "decide.hpp"

#include "undone.hpp"

#include <algorithm>
#include <tuple>

namespace coalesce {

char const* name_of(verdict v) {
  static constexpr char const* names[] = {"collective", "inherit", "dynamic", "untouched"};
  return names[static_cast<int>(v)];
}

namespace {

using spot = std::pair<std::string, unsigned>;
spot spot_of(place const& at) { return {at.file, at.offset}; }

std::string in_quotes(std::string const& text) { return "`" + text + "`"; }

class decider {
 public:
  decider(options const& asked, program& p) : asked_{asked}, p_{p} {}

  decisions run() {
    for (auto& [key, unit] : p_.functions) find_recursion(unit);
    for (auto& [key, unit] : p_.functions) (void)need_of(unit);
    for (auto& [key, unit] : p_.functions) decide_sites(unit);
    for (auto& [key, unit] : p_.functions) decide_calls(unit);
    for (auto& [key, unit] : p_.functions) collect_releases(unit);
    for (auto& [key, unit] : p_.functions) announce(unit);
    note_hoistable();
    return std::move(result_);
  }

 private:
  // Whether a function can use a flag from its callers, and the set of its parameters that must then be uniform.
  struct need {
    bool any = false;
    std::uint64_t parameters = 0;
  };

  [[nodiscard]] bool fits(value const& v) const {
    return undone("flow") || (v.same_in <= asked_.level && (v.parameters >> no_parameter & 1) == 0);
  }

  // ---- recursion

  void find_recursion(function_unit const& unit) {
    if (undone("recursion")) return;
    std::set<std::string> seen;
    std::vector<std::string> open{unit.key};
    while (!open.empty()) {
      auto const found = p_.functions.find(open.back());
      open.pop_back();
      if (found == p_.functions.end()) continue;
      for (auto const& instance : found->second.instances) {
        for (auto const& c : instance.calls) {
          if (c.callee_key == unit.key) recursive_.insert(unit.key);
          if (seen.insert(c.callee_key).second) open.push_back(c.callee_key);
        }
      }
    }
  }

  // ---- the calls that can get the flag

  // One allocation, joined over all instances of its function, because a decision must be right for each instance.
  struct joined_site {
    site what;
    value size, control;
    bool mixed = false;  // refused in some instances only
  };
  std::map<spot, joined_site> sites_of(function_unit const& unit) const {
    std::map<spot, joined_site> sites;
    for (auto const& instance : unit.instances) {
      for (auto const& s : instance.sites) {
        auto const [entry, is_new] = sites.try_emplace(spot_of(s.at), joined_site{s, s.size, s.control});
        if (!is_new) {
          entry->second.size = join(entry->second.size, s.size);
          entry->second.control = join(entry->second.control, s.control);
          entry->second.mixed = entry->second.mixed || entry->second.what.refused.empty() != s.refused.empty();
          if (entry->second.what.refused.empty()) entry->second.what.refused = s.refused;
        }
      }
    }
    return sites;
  }
  std::map<spot, std::vector<call>> calls_of(function_unit const& unit) const {
    std::map<spot, std::vector<call>> calls;
    for (auto const& instance : unit.instances) {
      for (auto const& c : instance.calls) calls[spot_of(c.at)].push_back(c);
    }
    return calls;
  }

  [[nodiscard]] bool handles(site const& s) const {
    return !asked_.pattern || (s.kind != site_kind::create && s.kind != site_kind::create_array);
  }
  [[nodiscard]] bool can_flag(joined_site const& s) const {
    value const size = s.what.kind == site_kind::registered ? value{} : s.size;
    return p_.objections.count(spot_of(s.what.at)) == 0 && !s.what.flagged && s.what.refused.empty() && s.what.macro.empty() &&
           s.what.close.editable && handles(s.what) && fits(join(size, s.control));
  }
  [[nodiscard]] bool can_take_parameter(function_unit const& unit) const { return why_fixed(unit).empty(); }
  [[nodiscard]] std::string why_fixed(function_unit const& unit) const {
    if (!unit.fixed.empty()) return unit.fixed;
    for (auto const& d : unit.declarations) {
      if (!d.close.editable) return "it is declared in " + d.at.file + ", which is not among the files given";
    }
    return unit.declarations.empty() ? "its declaration is not visible" : "";
  }
  // Whether this call can pass the flag on. `rests_on`, if not null, gains the caller's parameters that must be uniform for this.
  [[nodiscard]] bool can_forward(call const& c, std::uint64_t* rests_on) {
    auto const callee = p_.functions.find(c.callee_key);
    if (callee == p_.functions.end() || callee->second.root) return false;
    need const wanted = need_of(callee->second);
    if (!wanted.any || !can_take_parameter(callee->second) || recursive_.count(c.callee_key) != 0) return false;
    if (p_.objections.count(spot_of(c.at)) != 0) return false;
    if (!fits(c.control) || !c.macro.empty() || !c.close.editable || !c.all_written) return false;
    std::uint64_t mask = c.control.parameters;
    for (unsigned i = 0; i <= this_object; ++i) {
      if ((wanted.parameters >> i & 1) == 0) continue;
      auto const argument = c.arguments.find(i);
      if (argument == c.arguments.end()) continue;
      if (!fits(argument->second)) return false;
      mask |= argument->second.parameters;
    }
    if (rests_on != nullptr) *rests_on |= mask;
    return true;
  }
  need need_of(function_unit const& unit) {
    if (auto const known = needs_.find(unit.key); known != needs_.end()) return known->second;
    needs_[unit.key] = {};  // the answer for a call that leads back here
    if (recursive_.count(unit.key) != 0) return {};
    need n;
    for (auto const& [at, s] : sites_of(unit)) {
      if (!can_flag(s)) continue;
      n.any = true;
      n.parameters |= s.control.parameters | (s.what.kind == site_kind::registered ? 0 : s.size.parameters);
    }
    for (auto const& [at, calls] : calls_of(unit)) {
      std::uint64_t mask = 0;
      if (std::all_of(calls.begin(), calls.end(), [&](call const& c) { return can_forward(c, &mask); })) {
        n.any = true;
        n.parameters |= mask;
      }
    }
    return needs_[unit.key] = n;
  }

  // ---- diagnostics

  diagnostic& tell(severity level, char const* id, place const& at, std::string const& text) {
    p_.diagnostics.push_back({level, id, text, at, {}});
    return p_.diagnostics.back();
  }
  void explain(diagnostic& d, int cause) const {
    constexpr int most = 6;  // the largest number of hints
    for (int i = 0; cause >= 0 && i < most; ++i) {
      auto const& c = p_.causes[static_cast<std::size_t>(cause)];
      d.hints.push_back({c.at, c.text});
      cause = c.from;
    }
  }
  [[nodiscard]] char const* rule_of(value const& control) const {
    if (control.cause < 0) return "W1";
    auto const kind = p_.causes[static_cast<std::size_t>(control.cause)].kind;
    return kind == cause_kind::loop || kind == cause_kind::early_exit ? "W6" : "W1";
  }
  [[nodiscard]] std::string group() const { return std::string{"threads of a "} + name_of(asked_.level); }

  // Reports the objection to this place, if the check of the rewritten program has one. Returns nullptr if it has none.
  diagnostic* object(place const& at, std::string const& what, char const* end) {
    auto const found = p_.objections.find(spot_of(at));
    if (found == p_.objections.end()) return nullptr;
    auto const& [rule, text, cause] = found->second;
    auto& said = tell(severity::warning, rule.c_str(), at, what + "seen from the rewritten program, " + text + end);
    if (!cause.text.empty()) said.hints.push_back(cause);
    return &said;
  }

  // ---- decisions

  void decide_sites(function_unit const& unit) {
    for (auto const& [at, s] : sites_of(unit)) {
      site_decision d{s.what, verdict::dynamic, "", unit.name, unit.parameter_name, false};
      d.what.size = s.size;
      d.what.control = s.control;
      judge(unit, s, d);
      result_.sites.push_back(d);
    }
  }
  void judge(function_unit const& unit, joined_site const& s, site_decision& d) {
    auto const& at = s.what.at;
    auto const say = [&](severity level, char const* id, std::string const& text) -> diagnostic& {
      d.rule = id;
      return tell(level, id, at, text);
    };
    if (s.what.flagged) {
      d.is = verdict::untouched;
      say(severity::note, "I1", "this call already has a further argument: left unchanged");
    } else if (s.mixed && handles(s.what)) {
      d.of_both_heaps = true;
      say(severity::warning, "W8", "not coalesced, and left to the toolkit's heap in some instances of the template: " + s.what.refused);
    } else if (!s.what.refused.empty()) {
      d.is = verdict::untouched;
      say(severity::warning, "W8", "left to the toolkit's heap: " + s.what.refused);
    } else if (!handles(s.what)) {
      d.is = verdict::untouched;
      say(severity::warning, "W8", "patterns do not match `new`: left to the toolkit's heap; --analysis flow handles it");
    } else if (!s.what.macro.empty()) {
      auto& said = say(severity::warning, "W5",
                       "the macro " + s.what.macro +
                           " contains this call, and all its uses share one text: not coalesced. Write the call out, or use a function");
      said.hints.push_back({s.what.macro_at, "in the body of " + s.what.macro});
    } else if (recursive_.count(unit.key) != 0) {
      say(severity::warning, "W10",
          in_quotes(unit.name) +
              " calls itself, and its depth may differ between threads: not coalesced. Allocate before the recursion, or make it a loop");
    } else if (!fits(s.control)) {
      auto& said = say(severity::warning, rule_of(s.control), "not all " + group() + " reach this call together: not coalesced");
      explain(said, s.control.cause);
    } else if (auto const* said = object(at, "", ": not coalesced")) {
      d.rule = said->id;
    } else if (s.what.kind != site_kind::registered && !fits(s.size)) {
      auto& said =
          say(severity::warning, "W4", "the size " + in_quotes(s.what.size_text) + " differs between " + group() + ": not coalesced");
      explain(said, s.size.cause);
    } else if (!s.what.close.editable && !s.what.close.file.empty()) {
      d.rule = "E3";  // reported by the rewriter
    } else if (!s.what.close.editable) {
      say(severity::warning, "W5", "a macro closes this call: not coalesced. Write the call out");
    } else if (unit.root) {
      d.is = verdict::collective;
      std::string const size = s.what.kind == site_kind::registered ? "" : ", with the size " + in_quotes(s.what.size_text);
      say(severity::remark, "R1",
          std::string{"coalesced: all live threads of each "} + name_of(asked_.level) + " reach this call together" + size);
    } else if (auto const fixed = why_fixed(unit); !fixed.empty()) {
      auto& said = say(severity::warning, "W3",
                       in_quotes(unit.name) + " gets no parameter, as " + fixed +
                           ": this call is not coalesced. Where all threads arrive, call a second function that can get one");
      if (!unit.fixed_at.file.empty()) said.hints.push_back({unit.fixed_at, "here"});
    } else {
      d.is = verdict::inherit;
      say(severity::remark, "R3", "coalesced where the caller passes true");
    }
  }

  void decide_calls(function_unit const& unit) {
    for (auto const& [at, calls] : calls_of(unit)) {
      call_decision d{calls.front(), verdict::dynamic, unit.parameter_name};
      auto const callee = p_.functions.find(d.what.callee_key);
      if (callee == p_.functions.end() || callee->second.root || !need_of(callee->second).any || recursive_.count(callee->first) != 0)
        continue;
      if (!can_take_parameter(callee->second)) continue;  // reported at its allocations
      bool const forwards = std::all_of(calls.begin(), calls.end(), [&](call const& c) { return can_forward(c, nullptr); });
      bool const own = recursive_.count(unit.key) == 0 && (unit.root || can_take_parameter(unit));
      if (forwards && own) {
        d.is = unit.root ? verdict::collective : verdict::inherit;
        tell(severity::remark, "R3", d.what.at,
             "this call of " + in_quotes(d.what.callee) + (unit.root ? " is collective: it passes true" : " passes the flag on"));
      } else {
        tell_why_not(unit, calls);
      }
      result_.calls.push_back(d);
    }
  }
  void tell_why_not(function_unit const& unit, std::vector<call> const& calls) {
    call const& c = calls.front();
    std::string const what = "this call of " + in_quotes(c.callee) + " passes no flag: ";
    value control;
    for (auto const& other : calls) control = join(control, other.control);
    if (recursive_.count(unit.key) != 0) {
      tell(severity::warning, "W10", c.at, what + in_quotes(unit.name) + " calls itself");
    } else if (!fits(control)) {
      explain(tell(severity::warning, rule_of(control), c.at, what + "not all " + group() + " reach it together"), control.cause);
    } else if (object(c.at, what, "") != nullptr) {
      // object() has reported it.
    } else if (!c.all_written) {
      tell(severity::warning, "W3", c.at, what + "it relies on default arguments. Write them out");
    } else if (c.macro.empty() && !c.close.editable && !c.close.file.empty()) {
      tell(severity::warning, "W3", c.at, what + "it stands in a file that is not among those given");
    } else if (!c.macro.empty() || !c.close.editable) {
      tell(severity::warning, "W5", c.at, what + "a macro contains it. Write the call out");
    } else if (!unit.root && !can_take_parameter(unit)) {
      tell(severity::warning, "W3", c.at, what + in_quotes(unit.name) + " gets no parameter, as " + why_fixed(unit));
    } else if (auto const* other = without_flag(calls)) {
      tell(severity::warning, "W3", c.at,
           what + "in another instance of the template it calls " + in_quotes(other->callee) + ", which takes no flag");
    } else {
      value differing;
      std::uint64_t const wanted = need_of(p_.functions.at(c.callee_key)).parameters;
      for (auto const& other : calls) {
        for (auto const& [i, argument] : other.arguments) {
          if ((wanted >> i & 1) != 0 && !fits(argument)) differing = join(differing, argument);
        }
      }
      explain(tell(severity::warning, "W4", c.at, what + "an argument that its allocations depend on differs between " + group()),
              differing.cause);
    }
  }

  // One of `calls`, which are those of all instances of one call, whose callee takes no flag. Null if all callees take it.
  call const* without_flag(std::vector<call> const& calls) {
    for (auto const& c : calls) {
      auto const callee = p_.functions.find(c.callee_key);
      if (callee == p_.functions.end() || !need_of(callee->second).any || !can_take_parameter(callee->second)) return &c;
    }
    return nullptr;
  }

  void collect_releases(function_unit const& unit) {
    // One release of all instances. It is left only if it is refused in each instance, as destroy() chooses the heap by the type.
    std::map<spot, release> joined;
    for (auto const& instance : unit.instances) {
      for (auto const& r : instance.releases) {
        auto& entry = joined.try_emplace(spot_of(r.at), r).first->second;
        if (r.refused.empty()) entry.refused.clear();
      }
    }
    for (auto const& [at, r] : joined) {
      if (r.kind != release_kind::free && asked_.pattern) continue;
      if (r.refused.empty()) {
        result_.releases.push_back(r);
      } else {
        tell(severity::warning, "W8", r.at, "left to the toolkit's heap: " + r.refused);
      }
    }
  }

  // Reports a function that gets a parameter.
  void announce(function_unit const& unit) {
    if (unit.root || !need_of(unit).any || !can_take_parameter(unit) || recursive_.count(unit.key) != 0) return;
    result_.with_parameter.push_back(&unit);
    tell(severity::remark, "R2", unit.at, in_quotes(unit.name) + " gets the parameter `bool " + unit.parameter_name + " = false`");
  }

  // Adds a note for each pair of allocations of one size in the two arms of a branch, which one allocation before the branch could replace.
  void note_hoistable() {
    for (auto const& a : result_.sites) {
      if (a.is != verdict::dynamic || a.what.arm_of < 0 || a.what.arm_else || fits(a.what.control)) continue;
      for (auto const& b : result_.sites) {
        bool const pair = b.what.arm_else && b.what.arm_of == a.what.arm_of && b.what.at.file == a.what.at.file &&
                          b.what.kind == a.what.kind && b.what.size_text == a.what.size_text && fits(a.what.size) && fits(b.what.size);
        if (!pair) continue;
        auto& said =
            tell(severity::note, "N1", a.what.at,
                 "both arms of the branch allocate " + in_quotes(a.what.size_text) + ": one call before the branch can be coalesced");
        said.hints.push_back({b.what.at, "the other call"});
        break;
      }
    }
  }

  options const& asked_;
  program& p_;
  decisions result_;
  std::set<std::string> recursive_;
  std::map<std::string, need> needs_;
};

}  // namespace

decisions decide(options const& asked, program& p) { return decider{asked, p}.run(); }

}  // namespace coalesce
