// Does not compile: leaks.hpp is not included.
#include <gpuheap/heap.hpp>

bool leaks(gpuheap::heap<> const& heap) { return !heap.report_leaks().empty(); }
