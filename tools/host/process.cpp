// The library's work when it is loaded, at exit and at fork.

#include <pthread.h>

#include "call_stack.hpp"
#include "driver.hpp"
#include "facts.hpp"
#include "kernels.hpp"
#include "merging.hpp"
#include "pool_service.hpp"
#include "settings.hpp"
#include "trace_file.hpp"

namespace gpuheap::interpose {

namespace {

void in_child() {
  if (!configured().on) return;
  forget_after_fork();
  forget_facts_after_fork();
  forget_stacks_after_fork();
  forget_kernels_after_fork();
  forget_rows_after_fork();
  pool_forget_after_fork();
  merging_after_fork_in_child();
}

// Makes no driver call and opens no file, because the library is also loaded into shells, compilers and wrappers.
__attribute__((constructor)) void loaded() {
  if (configured().on) pthread_atfork(merging_before_fork, merging_after_fork_in_parent, in_child);
}

__attribute__((destructor)) void leaving() {
  if (!configured().on) return;
  merging_ended();
  if (pools_on()) pool_ended();
  mark_ended();
}

}  // namespace

}  // namespace gpuheap::interpose
