#include "link.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "code_cache.hpp"
#include "driver.hpp"
#include "machine_code.hpp"
#include "ptxas_options.hpp"
#include "settings.hpp"
#include "sha256.hpp"

namespace gpuheap::unchanged {

namespace {

struct made_before {
  std::mutex lock;
  std::map<std::string, linked_code> code;     // by name_of()
  std::map<std::string, std::string> reasons;  // why there is no code, where another link would end in the same way
  link_counts counts;
};

made_before& before() {
  static made_before* const only = new made_before;  // never destroyed: the driver may read the code until the process is gone
  return *only;
}

// The options with which the driver compiles one input: those of `text` that the driver has too, and `register_bound`, unless that is 0.
// `text` has the options that nvcc recorded and those that the program gives. The least of all bounds on registers counts.
class input_options {
 public:
  input_options(std::string const& text, std::uint32_t register_bound) {
    ptxas_options const found = ptxas_options_in(text);
    std::uint32_t most = found.most_registers;
    if (register_bound > 0) most = most == 0 ? register_bound : std::min(most, register_bound);
    if (most > 0) add(CU_JIT_MAX_REGISTERS, most);
    if (found.level) add(CU_JIT_OPTIMIZATION_LEVEL, *found.level);
    if (found.debug) add(CU_JIT_GENERATE_DEBUG_INFO, 1);
    // ptxas ignores -lineinfo beside -g, with a warning.
    if (found.line_info && !found.debug) add(CU_JIT_GENERATE_LINE_INFO, 1);
  }
  [[nodiscard]] unsigned count() const { return count_; }
  [[nodiscard]] CUjit_option* names() { return names_.data(); }
  [[nodiscard]] void** values() { return values_.data(); }

 private:
  void add(CUjit_option name, std::uintptr_t value) {
    names_[count_] = name;
    values_[count_++] = reinterpret_cast<void*>(value);
  }
  std::array<CUjit_option, 4> names_{};
  std::array<void*, 4> values_{};
  unsigned count_ = 0;
};

// The first line of the linker's log that is not empty.
std::string first_line(std::string_view log) {
  while (!log.empty() && (log[0] == '\n' || log[0] == ' ')) log.remove_prefix(1);
  return std::string{log.substr(0, std::min(log.find('\n'), log.find('\0')))};
}

class driver_link {
 public:
  driver_link() { result_ = driver().link_create(static_cast<unsigned>(names_.size()), names_.data(), values_.data(), &state_); }
  ~driver_link() {
    if (state_ != nullptr) driver().link_destroy(state_);
  }
  driver_link(driver_link const&) = delete;
  driver_link& operator=(driver_link const&) = delete;

  void add(CUjitInputType type, bytes_view bytes, char const* name, std::string const& noted, std::uint32_t register_bound) {
    if (result_ != CUDA_SUCCESS) return;
    input_options options{noted, register_bound};
    result_ = driver().link_add(state_, type, const_cast<std::byte*>(bytes.data()), bytes.size(), name, options.count(), options.names(),
                                options.values());
  }

  // `lasts`: whether a failure comes from the code or from the driver's compiler, so that another link would fail too.
  [[nodiscard]] std::optional<std::vector<std::byte>> complete(std::string* why, bool* lasts) {
    void* code = nullptr;
    std::size_t bytes = 0;
    if (result_ == CUDA_SUCCESS) result_ = driver().link_complete(state_, &code, &bytes);
    if (result_ != CUDA_SUCCESS) {
      *lasts = std::ranges::find(lasting_errors, result_) != std::end(lasting_errors);
      std::string const said = first_line({log_.data(), log_.size()});
      *why = "the driver does not link its PTX (error " + std::to_string(result_) + (said.empty() ? ")" : "): " + said);
      return std::nullopt;
    }
    auto const* const first = static_cast<std::byte const*>(code);
    return std::vector<std::byte>{first, first + bytes};
  }

 private:
  static constexpr CUresult lasting_errors[] = {
      CUDA_ERROR_INVALID_IMAGE,           CUDA_ERROR_NO_BINARY_FOR_GPU,        CUDA_ERROR_INVALID_PTX,    CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
      CUDA_ERROR_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_JIT_COMPILATION_DISABLED, CUDA_ERROR_INVALID_SOURCE,
  };
  // The driver writes to these buffers until the link is destroyed.
  std::array<char, 4096> log_{};
  std::array<CUjit_option, 2> names_{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values_{log_.data(), reinterpret_cast<void*>(log_.size())};
  CUlinkState state_ = nullptr;
  CUresult result_ = CUDA_SUCCESS;
};

std::optional<std::vector<std::byte>> link(decision const& wanted, serving_code const& serving, std::uint32_t register_bound,
                                           std::string* why, bool* lasts) {
  some_context const context;
  if (!context.there()) {
    *why = "there is no CUDA context to link in, and none can be made";
    return std::nullopt;
  }
  relaxed_capture const relaxed;
  driver_link made;
  for (link_input const& input : wanted.inputs) {
    made.add(input.is_ptx ? CU_JIT_INPUT_PTX : CU_JIT_INPUT_CUBIN, input.bytes, "the program's code", input.options,
             input.is_ptx ? register_bound : 0);
  }
  made.add(CU_JIT_INPUT_FATBINARY, serving.image, "gpuheap", {}, 0);
  return made.complete(why, lasts);
}

// The name of the code for a decision. It depends on all that the link and refusal() read.
std::string name_of(decision const& wanted, serving_code const& serving, std::uint32_t architecture) {
  int version = 0;
  driver().driver_version(&version);
  sha256 hash;
  hash.add(std::uint64_t{architecture});
  hash.add(static_cast<std::uint64_t>(version));
  hash.add(std::uint64_t{serving.image.size()});
  hash.add(serving.image);
  for (link_input const& input : wanted.inputs) {
    hash.add(std::uint64_t{input.is_ptx});
    hash.add_text(input.options);
    hash.add(std::uint64_t{input.bytes.size()});
    hash.add(input.bytes);
  }
  // Images of equal PTX may have other machine code, whose kernels need another bound on registers.
  hash.add(std::uint64_t{wanted.before.has_value()});
  machine_code const before = wanted.before.value_or(machine_code{});
  hash.add(std::uint64_t{before.kernels.size()});
  for (std::string const& kernel : before.kernels) {
    auto const registers = before.registers.find(kernel);
    hash.add_text(kernel);
    hash.add(std::uint64_t{registers == before.registers.end() ? 0 : registers->second});
  }
  for (auto const& [variable, bytes] : before.variables) {
    hash.add_text(variable);
    hash.add(bytes);
  }
  return hexadecimal(hash.digest());
}

// The reason why linked code cannot replace the program's own code; "" if it can.
std::string refusal(bytes_view code, decision const& wanted, serving_code const& serving) {
  auto const linked = read_machine_code(code);
  if (!linked) return "the linked code has no symbol table";
  if (!linked->variables.contains(serving.state_variable)) return "the linked code lacks " + serving.state_variable;
  machine_code const before = wanted.before.value_or(machine_code{});
  if (register_bound(*linked, before) != 0) return "its kernels would need more registers than their largest blocks leave to a thread";
  return lack(*linked, before);
}

std::uint32_t bound_for(bytes_view code, decision const& wanted) {
  auto const linked = read_machine_code(code);
  return linked && wanted.before ? register_bound(*linked, *wanted.before) : 0;
}

}  // namespace

linked_code code_for(decision const& wanted, serving_code const& serving, std::uint32_t architecture, std::string* why) {
  std::string const name = name_of(wanted, serving, architecture);
  made_before& made = before();
  // The lock is held during the link, so that code which several threads load at once is linked once.
  std::lock_guard const held{made.lock};
  if (auto const known = made.code.find(name); known != made.code.end()) return known->second;
  if (auto const known = made.reasons.find(name); known != made.reasons.end()) {
    *why = known->second;
    return nullptr;
  }
  code_cache const cache{configured().cache, configured().cache_bytes};
  auto code = cache.find(name);
  if (code && refusal(*code, wanted, serving).empty()) {
    ++made.counts.found;
  } else {
    auto const begin = std::chrono::steady_clock::now();
    bool lasts = false;
    code = link(wanted, serving, 0, why, &lasts);
    // Relocatable code of ptxas may take more registers than the program's own code. The program's largest blocks would then not start.
    if (std::uint32_t const bound = code ? bound_for(*code, wanted) : 0; bound != 0) code = link(wanted, serving, bound, why, &lasts);
    made.counts.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (code) {
      *why = refusal(*code, wanted, serving);
      lasts = true;
    }
    if (!why->empty()) {
      if (lasts) made.reasons.emplace(name, *why);
      return nullptr;
    }
    ++made.counts.linked;
    cache.keep(name, *code);
  }
  auto kept = std::make_shared<std::vector<std::byte> const>(std::move(*code));
  made.code.emplace(name, kept);
  return kept;
}

link_counts counts_of_links() {
  std::unique_lock const held{before().lock, std::try_to_lock};  // called at exit, possibly while another thread holds the lock
  return held.owns_lock() ? before().counts : link_counts{};
}

}  // namespace gpuheap::unchanged
