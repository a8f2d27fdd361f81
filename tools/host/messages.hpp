// The messages of the tool: E01..E13 and W01..W03 of docs/host.md. They go to standard error and into the trace, never to standard output.
#pragma once

#include <string>
#include <string_view>

namespace gpuheap::interpose {

// Records the message in the trace, and prints it. Only the first three messages of each code are printed, and then one line that says that
// more are in the trace.
void say(std::string_view code, std::string const& words);

// Only prints, for errors that stop the trace itself.
void complain(std::string const& words);

}  // namespace gpuheap::interpose
