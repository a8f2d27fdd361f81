#include "c_library.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace coalesce {

namespace {

// Those of <math.h> have names that also end in f.
constexpr std::array<std::string_view, 59> arithmetic{
    "acos",   "acosh",  "asin",  "asinh", "atan",      "atan2",     "atanh",   "cbrt",      "ceil",   "copysign", "cos",   "cosh",
    "erf",    "erfc",   "exp",   "exp2",  "expm1",     "fabs",      "fdim",    "floor",     "fma",    "fmax",     "fmin",  "fmod",
    "frexp",  "hypot",  "ilogb", "ldexp", "lgamma",    "llrint",    "llround", "log",       "log10",  "log1p",    "log2",  "logb",
    "lrint",  "lround", "modf",  "nan",   "nearbyint", "nextafter", "pow",     "remainder", "remquo", "rint",     "round", "scalbln",
    "scalbn", "sin",    "sinh",  "sqrt",  "tan",       "tanh",      "tgamma",  "trunc",     "j0",     "j1",       "y0",
};
constexpr std::array<std::string_view, 17> others{"abs",      "labs",      "llabs",    "memcpy",        "memset",   "printf",
                                                  "malloc",   "calloc",    "free",     "__assert_fail", "__isnan",  "__isinf",
                                                  "__finite", "__signbit", "__isnanf", "__isinff",      "__finitef"};
constexpr std::array<std::string_view, 9> renamed{"atoi", "atol", "strlen", "strcmp", "strncmp", "memcmp", "memmove", "puts", "putchar"};

using advice = std::pair<std::string_view, std::string_view>;
constexpr std::string_view for_files =
    "ranks on a GPU have no files: read input on the host, or make it by computation, and print results with printf";
constexpr std::string_view for_text = "ranks on a GPU make no text but by printf: print the values themselves";
constexpr std::string_view for_numbers =
    "the C library's generator has one state for the whole process: write one whose state is a variable, as x = 6364136223846793005ull * x "
    "+ 1";
constexpr std::string_view for_time = "ask MPI_Wtime for the time";
constexpr std::string_view for_end = "end a rank by `return` from main, and all ranks by MPI_Abort(MPI_COMM_WORLD, code)";
constexpr std::string_view for_input = "ranks on a GPU have no input: take values from the program's arguments";
constexpr std::string_view for_blocks = "use malloc, memcpy and free";
constexpr std::string_view for_processes = "ranks on a GPU are no processes: write the program without it";

constexpr std::array advices{
    advice{"fopen", for_files},
    advice{"fclose", for_files},
    advice{"fread", for_files},
    advice{"fwrite", for_files},
    advice{"fprintf", for_files},
    advice{"fputs", for_files},
    advice{"fputc", for_files},
    advice{"fflush", for_files},
    advice{"fseek", for_files},
    advice{"ftell", for_files},
    advice{"rewind", for_files},
    advice{"perror", for_files},
    advice{"stdout", for_files},
    advice{"stderr", for_files},
    advice{"vfprintf", for_files},
    advice{"open", for_files},
    advice{"close", for_files},
    advice{"read", for_files},
    advice{"write", for_files},
    advice{"stdin", for_input},
    advice{"scanf", for_input},
    advice{"__isoc99_scanf", for_input},
    advice{"__isoc23_scanf", for_input},
    advice{"fscanf", for_files},
    advice{"__isoc99_fscanf", for_files},
    advice{"__isoc23_fscanf", for_files},
    advice{"fgets", for_files},
    advice{"getchar", for_input},
    advice{"getenv", for_input},
    advice{"sprintf", for_text},
    advice{"snprintf", for_text},
    advice{"vprintf", for_text},
    advice{"rand", for_numbers},
    advice{"srand", for_numbers},
    advice{"random", for_numbers},
    advice{"srandom", for_numbers},
    advice{"drand48", for_numbers},
    advice{"srand48", for_numbers},
    advice{"rand_r", for_numbers},
    advice{"time", for_time},
    advice{"clock", for_time},
    advice{"gettimeofday", for_time},
    advice{"clock_gettime", for_time},
    advice{"exit", for_end},
    advice{"_exit", for_end},
    advice{"abort", for_end},
    advice{"atexit", for_end},
    advice{"realloc", for_blocks},
    advice{"strdup", for_blocks},
    advice{"aligned_alloc", for_blocks},
    advice{"posix_memalign", for_blocks},
    advice{"memalign", for_blocks},
    advice{"reallocarray", for_blocks},
    advice{"alloca", for_blocks},
    advice{"fork", for_processes},
    advice{"getpid", for_processes},
    advice{"sleep", for_processes},
    advice{"usleep", for_processes},
    advice{"signal", for_processes},
    advice{"gethostname", for_processes},
    advice{"system", for_processes},
    advice{"setjmp", for_processes},
    advice{"longjmp", for_processes},
    advice{"pthread_create", for_processes},
};

template <class List>
bool has(List const& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

availability availability_of(std::string_view function) {
  if (has(renamed, function)) return availability::renamed;
  if (has(others, function) || has(arithmetic, function)) return availability::there;
  if (function.starts_with("__builtin_") && function != "__builtin_alloca") return availability::there;
  if (function.starts_with("MPI_")) return availability::there;
  if (function.ends_with('f') && has(arithmetic, function.substr(0, function.size() - 1))) return availability::there;
  return availability::missing;
}

std::string instead_of(std::string_view name) {
  if (name.starts_with("__builtin_")) name.remove_prefix(10);
  for (auto const& [what, words] : advices) {
    if (what == name) return std::string{words};
  }
  return "write a function of your own for it, in one of the files given";
}

}  // namespace coalesce
