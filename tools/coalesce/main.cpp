// gpuheap-coalesce: reads CUDA files, decides which allocations all threads make together, and rewrites them. With --mpi, it first
// translates a C program with MPI to CUDA.
#include "mpi_program.hpp"
#include "pipeline.hpp"
#include "report.hpp"

#include <cstdio>
#include <filesystem>

namespace {

using namespace coalesce;

// The rewritten files, each with the path that it is written to.
std::vector<rewritten_file> outputs(options const& asked, program const& p, edits const& changes, output_places const& places) {
  std::vector<rewritten_file> files;
  for (auto const& path : p.editable) {
    auto const& before = p.texts.at(path);
    auto const after = changes.apply(path, before);
    if (asked.in_place && after == before) continue;
    files.push_back({asked.in_place ? path : places.of.at(path), before, after});
  }
  return files;
}

int run(options const& asked) {
  program p;
  int code = done;
  auto const sources = sources_of(asked, p, code);
  if (code != done) return code;
  if (!asked.database.empty() && !std::filesystem::is_regular_file(asked.database + "/compile_commands.json"))
    return complain("-p: there is no " + asked.database + "/compile_commands.json");
  if (asked.mpi) return run_mpi(asked, p, sources);
  output_places places;
  if (!asked.output.empty()) places = places_under(asked.output, p.editable, p.editable);
  if (!places.problem.empty()) return complain(places.problem);

  auto const [decided, changes] = coalesce_program(asked, p, sources, {}, language::cuda);
  if (has_error_of(p, "E1")) return refuse(asked, p, cannot_parse);
  if (has_error_of(p, "E6")) return refuse(asked, p, "errors: nothing is written");
  show(asked, p, decided);
  if (has_errors(p)) return complain("errors: nothing is written");
  if (changes.empty() && asked.output.empty()) {
    std::fputs("nothing to rewrite\n", stderr);
    return nothing_to_do;
  }
  if (!asked.dry && (asked.in_place || !asked.output.empty())) {
    if (write_files(outputs(asked, p, changes, places), asked.in_place) != done) return failed;
  } else if (!asked.json) {
    for (auto const& file : changes.files()) std::fputs(changes.diff(file, p.texts.at(file), shown(file)).c_str(), stdout);
  }
  return changes.empty() ? nothing_to_do : done;
}

}  // namespace

int main(int count, char** words) {
  int code = done;
  auto const asked = parse_options(count, words, code);
  return asked ? run(*asked) : code;
}
