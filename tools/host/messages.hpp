// The messages of the tool: E01..E13 and W01..W03 of docs/host.md, to standard error and into the trace; never to standard output.
#pragma once

#include <string>
#include <string_view>

namespace gpuheap::interpose {

// Records the message; prints it too for the first three of its code, then one line that says more follow in the trace.
void say(std::string_view code, std::string const& words);

// Only prints, for errors that stop the trace itself.
void complain(std::string const& words);

}  // namespace gpuheap::interpose
