// A trace's facts about its process: command line, folder, names of the entry points, and the name and memory of each device that the
// process uses.
#pragma once

namespace gpuheap::interpose {

// Called before the first call of the process is recorded. Later calls cost one load.
void record_facts_once();

void forget_facts_after_fork();

}  // namespace gpuheap::interpose
