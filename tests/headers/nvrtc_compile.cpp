// Compiles one source file with NVRTC, as a program that loads device code at run time would: for compute_75 and compute_90, C++20.
//
//   nvrtc_compile SOURCE DEPFILE TARGET INCLUDE_FOLDER...
//
// DEPFILE receives, in make's form, TARGET and every file of the first include folder: NVRTC does not tell which it read. Exits 1 with
// NVRTC's log if the source does not compile.
#include <nvrtc.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

bool compiles(std::string const& text, char const* name, std::string const& arch, int num_includes, char** includes) {
  // No -default-device: host functions must be hidden by the headers, not turned into device functions.
  std::vector<std::string> options{"-std=c++20", "-arch=" + arch, "-DGPUHEAP_BACKEND_CUDA"};
  for (int i = 0; i < num_includes; ++i) options.push_back(std::string("-I") + includes[i]);
  std::vector<char const*> raw;
  for (auto const& option : options) raw.push_back(option.c_str());

  nvrtcProgram program{};
  if (nvrtcCreateProgram(&program, text.c_str(), name, 0, nullptr, nullptr) != NVRTC_SUCCESS) {
    std::fprintf(stderr, "nvrtc_compile: cannot make a program\n");
    return false;
  }
  nvrtcResult const result = nvrtcCompileProgram(program, static_cast<int>(raw.size()), raw.data());
  if (result != NVRTC_SUCCESS) {
    std::size_t log_bytes = 0;
    nvrtcGetProgramLogSize(program, &log_bytes);
    std::string log(log_bytes, '\0');
    nvrtcGetProgramLog(program, log.data());
    std::fprintf(stderr, "%s, %s: %s\n%s\n", name, arch.c_str(), nvrtcGetErrorString(result), log.c_str());
  }
  nvrtcDestroyProgram(&program);
  return result == NVRTC_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: nvrtc_compile SOURCE DEPFILE TARGET INCLUDE_FOLDER...\n");
    return 2;
  }
  std::ifstream file(argv[1]);
  std::stringstream text;
  text << file.rdbuf();
  for (std::string const arch : {"compute_75", "compute_90"}) {
    if (!compiles(text.str(), argv[1], arch, argc - 4, argv + 4)) return 1;
  }
  std::ofstream depfile(argv[2]);
  depfile << argv[3] << ":";
  for (auto const& entry : std::filesystem::recursive_directory_iterator(argv[4])) {
    if (entry.is_regular_file()) depfile << " \\\n  " << entry.path().string();
  }
  depfile << "\n";
  return 0;
}
