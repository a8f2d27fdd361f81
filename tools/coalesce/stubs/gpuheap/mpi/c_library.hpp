// gpuheap/mpi/c_library.hpp as the rewriter sees it: declarations without the library's definitions.
#pragma once

#include <gpuheap/coalesced.hpp>

#define GPUHEAP_STUB __attribute__((device))

namespace gpuheap::mpi::c {

// process
GPUHEAP_STUB int& error_number();
[[noreturn]] GPUHEAP_STUB void exit(int code);
[[noreturn]] GPUHEAP_STUB void abort();
GPUHEAP_STUB time_t time(time_t* to);
GPUHEAP_STUB double difftime(time_t later, time_t earlier);
GPUHEAP_STUB clock_t clock();
GPUHEAP_STUB int gettimeofday(struct timeval* to, void*);
GPUHEAP_STUB int clock_gettime(clockid_t, timespec* to);
GPUHEAP_STUB unsigned sleep(unsigned seconds);
GPUHEAP_STUB int usleep(unsigned microseconds);
GPUHEAP_STUB int nanosleep(timespec const* asked, timespec*);
GPUHEAP_STUB int gethostname(char* to, size_t most);
GPUHEAP_STUB int getpid();
GPUHEAP_STUB char* getenv(char const* name);
GPUHEAP_STUB void srandom(unsigned seed);
GPUHEAP_STUB long random();
GPUHEAP_STUB void srand(unsigned seed);
GPUHEAP_STUB int rand();
GPUHEAP_STUB int rand_r(unsigned* seed);
GPUHEAP_STUB void srand48(long seed);
GPUHEAP_STUB double drand48();
GPUHEAP_STUB long lrand48();
GPUHEAP_STUB long mrand48();

// characters and strings
GPUHEAP_STUB int isdigit(int c);
GPUHEAP_STUB int isupper(int c);
GPUHEAP_STUB int islower(int c);
GPUHEAP_STUB int isalpha(int c);
GPUHEAP_STUB int isalnum(int c);
GPUHEAP_STUB int isspace(int c);
GPUHEAP_STUB int isblank(int c);
GPUHEAP_STUB int isprint(int c);
GPUHEAP_STUB int isgraph(int c);
GPUHEAP_STUB int ispunct(int c);
GPUHEAP_STUB int iscntrl(int c);
GPUHEAP_STUB int isxdigit(int c);
GPUHEAP_STUB int toupper(int c);
GPUHEAP_STUB int tolower(int c);
GPUHEAP_STUB size_t strlen(char const* text);
GPUHEAP_STUB size_t strnlen(char const* text, size_t most);
GPUHEAP_STUB int strncmp(char const* a, char const* b, size_t most);
GPUHEAP_STUB int strcmp(char const* a, char const* b);
GPUHEAP_STUB int strncasecmp(char const* a, char const* b, size_t most);
GPUHEAP_STUB int strcasecmp(char const* a, char const* b);
GPUHEAP_STUB int memcmp(void const* a, void const* b, size_t bytes);
GPUHEAP_STUB void* memmove(void* to, void const* from, size_t bytes);
GPUHEAP_STUB void bzero(void* to, size_t bytes);
GPUHEAP_STUB char* strcpy(char* to, char const* from);
GPUHEAP_STUB char* strncpy(char* to, char const* from, size_t most);
GPUHEAP_STUB char* strcat(char* to, char const* from);
GPUHEAP_STUB char* strncat(char* to, char const* from, size_t most);
GPUHEAP_STUB char* strdup(char const* text);
GPUHEAP_STUB void* memchr(void const* in, int wanted, size_t bytes);
GPUHEAP_STUB char* strchr(char const* text, int wanted);
GPUHEAP_STUB char* strrchr(char const* text, int wanted);
GPUHEAP_STUB char* strstr(char const* text, char const* wanted);
GPUHEAP_STUB size_t strspn(char const* text, char const* letters);
GPUHEAP_STUB size_t strcspn(char const* text, char const* letters);
GPUHEAP_STUB char* strpbrk(char const* text, char const* letters);
GPUHEAP_STUB char* strtok_r(char* text, char const* letters, char** rest);
GPUHEAP_STUB char* strtok(char* text, char const* letters);
GPUHEAP_STUB char const* strerror(int number);

// numbers
GPUHEAP_STUB long long strtoll(char const* text, char** end, int base);
GPUHEAP_STUB unsigned long long strtoull(char const* text, char** end, int base);
GPUHEAP_STUB long strtol(char const* text, char** end, int base);
GPUHEAP_STUB unsigned long strtoul(char const* text, char** end, int base);
GPUHEAP_STUB double strtod(char const* text, char** end);
GPUHEAP_STUB float strtof(char const* text, char** end);
GPUHEAP_STUB int atoi(char const* text);
GPUHEAP_STUB long atol(char const* text);
GPUHEAP_STUB long long atoll(char const* text);
GPUHEAP_STUB double atof(char const* text);
GPUHEAP_STUB void qsort(void* first, size_t count, size_t bytes, int (*compare)(void const*, void const*));
GPUHEAP_STUB void* bsearch(void const* wanted, void const* first, size_t count, size_t bytes, int (*compare)(void const*, void const*));

// streams
GPUHEAP_STUB FILE* standard_input();
GPUHEAP_STUB FILE* standard_output();
GPUHEAP_STUB FILE* standard_error();
GPUHEAP_STUB FILE* fopen(char const* name, char const* how);
GPUHEAP_STUB int fclose(FILE* stream);
GPUHEAP_STUB int feof(FILE* stream);
GPUHEAP_STUB int ferror(FILE* stream);
GPUHEAP_STUB int fflush(FILE* stream);
GPUHEAP_STUB int setvbuf(FILE* stream, char*, int, size_t);
GPUHEAP_STUB void setbuf(FILE* stream, char*);
GPUHEAP_STUB void rewind(FILE* stream);
GPUHEAP_STUB long ftell(FILE* stream);
GPUHEAP_STUB int fseek(FILE* stream, long offset, int from);
GPUHEAP_STUB int fgetc(FILE* stream);
GPUHEAP_STUB int getc(FILE* stream);
GPUHEAP_STUB int getchar();
GPUHEAP_STUB int ungetc(int letter, FILE* stream);
GPUHEAP_STUB char* fgets(char* to, int room, FILE* stream);
GPUHEAP_STUB size_t fread(void* to, size_t bytes, size_t count, FILE* stream);
template <class... To>
GPUHEAP_STUB int fscanf(FILE* stream, char const* format, To*... to);
template <class... To>
GPUHEAP_STUB int scanf(char const* format, To*... to);
template <class... To>
GPUHEAP_STUB int sscanf(char const* text, char const* format, To*... to);
template <class... Values>
GPUHEAP_STUB int fprintf(FILE* stream, char const* format, Values... values);
template <class... Values>
GPUHEAP_STUB int snprintf(char* to, size_t room, char const* format, Values... values);
template <class... Values>
GPUHEAP_STUB int sprintf(char* to, char const* format, Values... values);
GPUHEAP_STUB int puts(char const* text);
GPUHEAP_STUB int fputs(char const* text, FILE* stream);
GPUHEAP_STUB int putchar(int letter);
GPUHEAP_STUB int fputc(int letter, FILE* stream);
GPUHEAP_STUB int putc(int letter, FILE* stream);
GPUHEAP_STUB void perror(char const* text);

// options
GPUHEAP_STUB char*& option_value();
GPUHEAP_STUB int& option_index();
GPUHEAP_STUB int& option_error();
GPUHEAP_STUB int& option_unknown();
GPUHEAP_STUB int getopt(int count, char* const* words, char const* known);

// arrays of variable length
template <class T, class... Lengths>
GPUHEAP_STUB constexpr size_t local_bytes(Lengths... lengths) {
  return sizeof(T) * (static_cast<size_t>(lengths) * ... * 1);
}
class local_array {
 public:
  GPUHEAP_STUB explicit local_array(void* elements) : elements_{elements} {}
  local_array(local_array const&) = delete;
  local_array& operator=(local_array const&) = delete;
  GPUHEAP_STUB ~local_array() { coalesced::free(elements_); }

 private:
  void* elements_;
};
template <class T>
class local_rows {
 public:
  template <class Length>
  GPUHEAP_STUB local_rows(T* first, Length row_length) : first_{first}, row_length_{static_cast<size_t>(row_length)} {}
  template <class Index>
  GPUHEAP_STUB T* operator[](Index i) const {
    return first_ + static_cast<long long>(i) * static_cast<long long>(row_length_);
  }
  GPUHEAP_STUB operator T*() const { return first_; }
  GPUHEAP_STUB T* operator*() const { return first_; }

 private:
  T* first_;
  size_t row_length_;
};

}  // namespace gpuheap::mpi::c

#undef GPUHEAP_STUB
