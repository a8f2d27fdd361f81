// The functions that libstdc++, libgcc and the headers of a newer glibc use, and that glibc 2.28 lacks. They call only functions that it has.
// scripts/wheel.py links this file into each library of the wheel. The functions are not visible outside of the library.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

// glibc 2.32: libstdc++ leaves out atomic instructions if this is true. Here it is always false.
char __libc_single_threaded = 0;

// glibc 2.36, for std::random_device.
uint32_t arc4random(void) {
  uint32_t number = 0;
  // Ends: the call fails only while the machine starts.
  while (getentropy(&number, sizeof number) != 0) {
  }
  return number;
}

// glibc 2.33: the headers of earlier versions defined these functions as the calls below.
#if defined(__x86_64__)
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif
extern int __xstat(int version, char const* path, struct stat* found);
extern int __lxstat(int version, char const* path, struct stat* found);
extern int __fxstat(int version, int file, struct stat* found);
int stat(char const* path, struct stat* found) { return __xstat(STAT_VERSION, path, found); }
int lstat(char const* path, struct stat* found) { return __lxstat(STAT_VERSION, path, found); }
int fstat(int file, struct stat* found) { return __fxstat(STAT_VERSION, file, found); }
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "files of 64 bits");
int fstat64(int file, struct stat64* found) { return __fxstat(STAT_VERSION, file, (struct stat*)found); }

// glibc 2.35: finds the unwind tables of the code at an address, for exceptions.
struct search {
  uintptr_t address;
  struct dl_find_object* found;
};
static int look(struct dl_phdr_info* object, size_t size, void* given) {
  (void)size;
  struct search const* const search = given;
  int holds = 0;
  void* tables = NULL;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    ElfW(Phdr) const* const part = &object->dlpi_phdr[i];
    uintptr_t const begins = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME) tables = (void*)begins;
    if (part->p_type != PT_LOAD || search->address < begins || search->address >= begins + part->p_memsz) continue;
    holds = 1;
    search->found->dlfo_map_start = (void*)begins;
    search->found->dlfo_map_end = (void*)(begins + part->p_memsz);
  }
  search->found->dlfo_eh_frame = tables;
  return holds && tables != NULL;
}
int _dl_find_object(void* address, struct dl_find_object* found) {
  memset(found, 0, sizeof *found);
  struct search search = {(uintptr_t)address, found};
  return dl_iterate_phdr(look, &search) != 0 ? 0 : -1;
}
