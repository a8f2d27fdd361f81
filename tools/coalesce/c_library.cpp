#include "c_library.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace coalesce {

namespace {

// Functions of <math.h>. Each exists also with the suffix f.
constexpr std::array<std::string_view, 59> of_numbers{
    "acos",   "acosh",  "asin",  "asinh", "atan",      "atan2",     "atanh",   "cbrt",      "ceil",   "copysign", "cos",   "cosh",
    "erf",    "erfc",   "exp",   "exp2",  "expm1",     "fabs",      "fdim",    "floor",     "fma",    "fmax",     "fmin",  "fmod",
    "frexp",  "hypot",  "ilogb", "ldexp", "lgamma",    "llrint",    "llround", "log",       "log10",  "log1p",    "log2",  "logb",
    "lrint",  "lround", "modf",  "nan",   "nearbyint", "nextafter", "pow",     "remainder", "remquo", "rint",     "round", "scalbln",
    "scalbn", "sin",    "sinh",  "sqrt",  "tan",       "tanh",      "tgamma",  "trunc",     "j0",     "j1",       "y0",
};
// Other functions that device code can call.
constexpr std::array<std::string_view, 17> others{"abs",      "labs",      "llabs",    "memcpy",        "memset",   "printf",
                                                  "malloc",   "calloc",    "free",     "__assert_fail", "__isnan",  "__isinf",
                                                  "__finite", "__signbit", "__isnanf", "__isinff",      "__finitef"};
// Functions of gpuheap/mpi/c_library.hpp, by their names in C.
constexpr std::string_view renamed[]{
    // strings
    "strlen",
    "strnlen",
    "strcmp",
    "strncmp",
    "strcasecmp",
    "strncasecmp",
    "memcmp",
    "memmove",
    "bzero",
    "strcpy",
    "strncpy",
    "strcat",
    "strncat",
    "strdup",
    "memchr",
    "strchr",
    "strrchr",
    "strstr",
    "strspn",
    "strcspn",
    "strpbrk",
    "strtok",
    "strtok_r",
    "strerror",
    "isdigit",
    "isupper",
    "islower",
    "isalpha",
    "isalnum",
    "isspace",
    "isblank",
    "isprint",
    "isgraph",
    "ispunct",
    "iscntrl",
    "isxdigit",
    "toupper",
    "tolower",
    // numbers
    "atoi",
    "atol",
    "atoll",
    "atof",
    "strtol",
    "strtoul",
    "strtoll",
    "strtoull",
    "strtod",
    "strtof",
    "qsort",
    "bsearch",
    "rand",
    "srand",
    "rand_r",
    "random",
    "srandom",
    "drand48",
    "lrand48",
    "mrand48",
    "srand48",
    // the process
    "exit",
    "abort",
    "time",
    "difftime",
    "clock",
    "gettimeofday",
    "clock_gettime",
    "sleep",
    "usleep",
    "nanosleep",
    "gethostname",
    "getpid",
    "getenv",
    "getopt",
    // streams
    "puts",
    "putchar",
    "putc",
    "fputc",
    "fputs",
    "fprintf",
    "perror",
    "sprintf",
    "snprintf",
    "fopen",
    "fclose",
    "feof",
    "ferror",
    "fflush",
    "setvbuf",
    "setbuf",
    "rewind",
    "ftell",
    "fseek",
    "fgetc",
    "getc",
    "getchar",
    "ungetc",
    "fgets",
    "fread",
    "scanf",
    "fscanf",
    "sscanf",
};

using spelling = std::pair<std::string_view, std::string_view>;
constexpr spelling variables[]{
    {"stdin", "standard_input()"}, {"stdout", "standard_output()"}, {"stderr", "standard_error()"}, {"optarg", "option_value()"},
    {"optind", "option_index()"},  {"opterr", "option_error()"},    {"optopt", "option_unknown()"},
};

using advice = std::pair<std::string_view, std::string_view>;
constexpr std::string_view for_files =
    "the host reads files before the ranks begin, and ranks write none: open files for reading only, and print results with printf";
constexpr std::string_view for_text = "call printf, sprintf or snprintf with a fixed list of values";
constexpr std::string_view for_environment = "the environment is the host's: take values from the program's arguments";
constexpr std::string_view for_dates = "print the seconds that `time` gives";
constexpr std::string_view for_end = "end a rank by `return` from main or by `exit`, and all ranks by MPI_Abort(MPI_COMM_WORLD, code)";
constexpr std::string_view for_blocks = "use malloc, memcpy and free";
constexpr std::string_view for_processes = "ranks on a GPU are not processes and have no threads: write the program without it";

constexpr advice advices[]{
    {"fwrite", for_files},
    {"open", for_files},
    {"close", for_files},
    {"read", for_files},
    {"write", for_files},
    {"remove", for_files},
    {"mkdir", for_files},
    {"getline", for_files},
    {"vfprintf", for_text},
    {"vprintf", for_text},
    {"vsprintf", for_text},
    {"vsnprintf", for_text},
    {"setenv", for_environment},
    {"environ", for_environment},
    {"getopt_long", "use getopt, whose options have one letter"},
    {"localtime", for_dates},
    {"gmtime", for_dates},
    {"ctime", for_dates},
    {"asctime", for_dates},
    {"strftime", for_dates},
    {"mktime", for_dates},
    {"_exit", for_end},
    {"atexit", for_end},
    {"realloc", for_blocks},
    {"aligned_alloc", for_blocks},
    {"posix_memalign", for_blocks},
    {"memalign", for_blocks},
    {"reallocarray", for_blocks},
    {"alloca", for_blocks},
    {"fork", for_processes},
    {"signal", for_processes},
    {"system", for_processes},
    {"setjmp", for_processes},
    {"longjmp", for_processes},
};

template <class List>
bool has(List const& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

}  // namespace

availability availability_of(std::string_view function) {
  if (has(renamed, function)) return availability::renamed;
  if (has(others, function) || has(of_numbers, function)) return availability::there;
  if (function.starts_with("__builtin_") && function != "__builtin_alloca") return availability::there;
  if (function.starts_with("MPI_")) return availability::there;
  if (function.ends_with('f') && has(of_numbers, function.substr(0, function.size() - 1))) return availability::there;
  return availability::missing;
}

std::string instead_of(std::string_view name) {
  if (name.starts_with("__builtin_")) name.remove_prefix(10);
  if (name.starts_with("pthread_") || name.starts_with("omp_")) return std::string{for_processes};
  for (auto const& [what, words] : advices) {
    if (what == name) return std::string{words};
  }
  return "write a function of your own for it, in one of the files given";
}

std::string variable_of_library(std::string_view name) {
  for (auto const& [c, ours] : variables) {
    if (c == name) return "gpuheap::mpi::c::" + std::string{ours};
  }
  return "";
}

}  // namespace coalesce
