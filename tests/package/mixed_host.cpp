// One half of a program that mixes backends: it must not link.
#define GPUHEAP_BACKEND_HOST
#include <gpuheap/heap_ref.hpp>

bool is_empty(gpuheap::heap_ref<> const& heap);

int main() { return is_empty({}) ? 0 : 1; }
