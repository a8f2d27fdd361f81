# Helpers for the folders' CMakeLists.txt: one for each kind of target.

include(GoogleTest)

# gpuheap_warnings(target): turns warnings on, and makes them errors, for a target that only this project compiles. nvcc's warning 20012,
# about defaulted members with __device__, stays off.
function(gpuheap_warnings target)
  set(warnings -Wall -Wextra)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND warnings -Wno-restrict)  # GCC bug 105651: "text" + std::string
  endif()
  if(GPUHEAP_SANITIZE)
    list(APPEND warnings -Wno-maybe-uninitialized)  # false positives in instrumented code: see GCC's manual on -fsanitize
  endif()
  string(REPLACE ";" "," nvcc_warnings "${warnings}")
  target_compile_options(
    ${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${warnings};-Werror>"
                      "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${nvcc_warnings};-Werror=all-warnings;-diag-suppress=20012>")
endfunction()

# gpuheap_only_if_linked(target): a project that adds this one as a subdirectory builds the library only if it links the library.
function(gpuheap_only_if_linked target)
  if(NOT PROJECT_IS_TOP_LEVEL AND NOT GPUHEAP_INSTALL)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# gpuheap_backend_target(out host|cuda): the library that a program of that backend links.
function(gpuheap_backend_target out backend)
  if(backend STREQUAL "host")
    set(${out} gpuheap::simulated PARENT_SCOPE)
  elseif(backend STREQUAL "cuda")
    set(${out} gpuheap::gpuheap PARENT_SCOPE)
  else()
    message(FATAL_ERROR "gpuheap: unknown backend '${backend}': host or cuda")
  endif()
endfunction()

# gpuheap_backend_sources(out host|cuda files...): the files to compile for that backend. For CUDA, each .cpp of the current folder is
# replaced by a .cu in the current binary folder that includes it, so that both backends can be built in one tree.
function(gpuheap_backend_sources out backend)
  set(sources "")
  foreach(file IN LISTS ARGN)
    if(backend STREQUAL "cuda" AND file MATCHES "\\.cpp$")
      cmake_path(REPLACE_EXTENSION file LAST_ONLY cu OUTPUT_VARIABLE source)
      set(source ${CMAKE_CURRENT_BINARY_DIR}/${source})
      file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${file}\"\n")
    else()
      set(source ${file})
    endif()
    list(APPEND sources ${source})
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# gpuheap_allocator(NAME name TYPE class HEADER header): one line for each allocator in allocators.cmake. An allocator that GPUHEAP_ONLY
# leaves out is not built, but its header remains.
macro(gpuheap_allocator)
  cmake_parse_arguments(allocator "" "NAME;TYPE;HEADER" "" ${ARGN})
  if(NOT GPUHEAP_ONLY OR "${allocator_NAME}" IN_LIST GPUHEAP_ONLY)
    list(APPEND GPUHEAP_ALLOCATORS ${allocator_NAME})
  endif()
  set(GPUHEAP_ALLOCATOR_${allocator_NAME}_TYPE ${allocator_TYPE})
  set(GPUHEAP_ALLOCATOR_${allocator_NAME}_HEADER ${allocator_HEADER})
endmacro()

# gpuheap_per_allocator_sources(out TEMPLATE file.in BACKEND host|cuda): configures the template once for each allocator, with @NAME@,
# @TYPE@ and @HEADER@ replaced, into a .cpp (host) or a .cu (cuda) of the current binary folder. Sets `out` to the list of files.
function(gpuheap_per_allocator_sources out)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TEMPLATE;BACKEND" "")
  string(REGEX REPLACE "^.*/|(\\.(cpp|cu))?\\.in$" "" stem ${arg_TEMPLATE})
  set(sources "")
  foreach(NAME IN LISTS GPUHEAP_ALLOCATORS)
    set(TYPE ${GPUHEAP_ALLOCATOR_${NAME}_TYPE})
    set(HEADER ${GPUHEAP_ALLOCATOR_${NAME}_HEADER})
    set(extension cpp)
    if(arg_BACKEND STREQUAL "cuda")
      set(extension cu)
    endif()
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${stem}_${NAME}.${extension})
    configure_file(${arg_TEMPLATE} ${source} @ONLY)
    list(APPEND sources ${source})
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# gpuheap_compile_briefly(target [level]): compiles the target with the level, -O1 by default, in release builds. For programs with
# simulated kernels: with -O3 the compiler takes twice as long as with -O1, and the programs run no faster, because nearly all of their time
# is spent in the simulator, which is compiled as usual. With -Og the compiler takes two thirds of the time of -O1, and the programs a sixth
# longer, allocators that walk lists twice as long. GCC's -Og does not follow conditions, and so warns of values that no path reads
# uninitialised: with it, this warning is off.
function(gpuheap_compile_briefly target)
  set(level -O1)
  if(ARGC GREATER 1)
    set(level ${ARGV1})
  endif()
  if(level STREQUAL "-Og" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND level -Wno-maybe-uninitialized)
  endif()
  target_compile_options(${target} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${level}>")
endfunction()

# gpuheap_ptx_if_nothing_runs(): with GPUHEAP_AS_PTX, the folder's CUDA code is compiled only to PTX, with little optimisation, which takes
# nvcc and g++ a sixth to two thirds of the time. A target that must be assembled to machine code sets CUDA_ARCHITECTURES to
# "${GPUHEAP_REAL_ARCHITECTURES}". Such a target is optimised, because ptxas takes minutes for code that is not.
macro(gpuheap_ptx_if_nothing_runs)
  set(GPUHEAP_REAL_ARCHITECTURES ${CMAKE_CUDA_ARCHITECTURES})
  if(GPUHEAP_AS_PTX)
    list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^([0-9]+[a-z]?).*" "\\1-virtual")
    list(REMOVE_DUPLICATES CMAKE_CUDA_ARCHITECTURES)
    string(REGEX REPLACE "-O[0-9]" "-O0" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
    list(GET CMAKE_CUDA_ARCHITECTURES 0 first_as_ptx)
    add_compile_options("$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<IN_LIST:${first_as_ptx},$<TARGET_PROPERTY:CUDA_ARCHITECTURES>>>:--Ofast-compile=max>")
  endif()
endmacro()

# gpuheap_add_program(target backend sources...): a program that needs a GPU if the backend is cuda. With GPUHEAP_KERNELS_ALONE, where the folder's CUDA code
# becomes PTX, it is the PTX of its sources and no program: nvcc parses all of their code, but neither cudafe++ nor g++ compiles what runs on the host, which
# takes two thirds of the time. Where an assembler must see the code, it stays a program.
function(gpuheap_add_program target backend)
  list(LENGTH CMAKE_CUDA_ARCHITECTURES num_architectures)
  if(backend STREQUAL "cuda" AND GPUHEAP_KERNELS_ALONE AND num_architectures EQUAL 1 AND CMAKE_CUDA_ARCHITECTURES MATCHES "-virtual$")
    add_library(${target} OBJECT ${ARGN})
    set_target_properties(${target} PROPERTIES CUDA_PTX_COMPILATION ON)
  else()
    add_executable(${target} ${ARGN})
  endif()
endfunction()

# gpuheap_is_program(out target): whether gpuheap_add_program has made a program, which a test can name.
function(gpuheap_is_program out target)
  get_target_property(type ${target} TYPE)
  string(COMPARE EQUAL "${type}" "EXECUTABLE" is)
  set(${out} ${is} PARENT_SCOPE)
endfunction()

# gpuheap_compile_together(target number [EXCEPT regex]): compiles the target's sources in groups of `number`, each group as one file that
# includes them. Sources that match the regex are compiled alone. This is for sources that are short compared with their headers, for which
# g++ takes 3 s, and nvcc, which reads everything three times, 10 s. Measured code is never compiled so, because the code that a compiler
# makes for one kernel may depend on the other kernels in its file.
function(gpuheap_compile_together target number)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "EXCEPT" "")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${number})
  if(arg_EXCEPT)
    get_target_property(alone ${target} SOURCES)
    list(FILTER alone INCLUDE REGEX "${arg_EXCEPT}")
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# gpuheap_add_test(NAME name BACKEND host|cuda SOURCES files... [LIBRARIES targets...] [LABELS labels...] [TIMEOUT seconds] [ONE_PROCESS] [DEFAULT_ALLOCATOR]
#                  [WITHOUT_PRELUDE] [SLOW] [RUNS_LONG] [ALONE filter])
# A GoogleTest program of one backend, named <backend>_<name>. Each of its tests is a ctest test <backend>.<name>.<Suite>.<Case>; with
# ONE_PROCESS, the whole program is one ctest test. CUDA tests carry the label `gpu`: they need a device to run, but not to compile.
# TIMEOUT (default 120): the limit for one ctest test.
# ALONE: a GoogleTest filter of the tests that take most of a GPU's memory. On a GPU, no other test runs beside one of them.
# DEFAULT_ALLOCATOR: for sources that make heaps without naming an allocator. All other sources compile without the default allocator, and
# so are not compiled again when it changes.
# WITHOUT_PRELUDE: for sources that define something before they include the heap. All other simulated tests use the headers that
# tests/CMakeLists.txt precompiles.
# SLOW: for tests that take long to build. The target fast_tests, for ./test --fast, builds all other simulated tests.
# RUNS_LONG: for simulated tests that run for longer than they compile, which are compiled with -O1; all others with -Og.
function(gpuheap_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "ONE_PROCESS;DEFAULT_ALLOCATOR;WITHOUT_PRELUDE;SLOW;RUNS_LONG" "NAME;BACKEND;TIMEOUT;ALONE" "SOURCES;LIBRARIES;LABELS")
  set(target ${arg_BACKEND}_${arg_NAME})
  gpuheap_backend_target(backend_library ${arg_BACKEND})
  gpuheap_backend_sources(sources ${arg_BACKEND} ${arg_SOURCES})
  gpuheap_add_program(${target} ${arg_BACKEND} ${sources})
  target_link_libraries(${target} PRIVATE ${backend_library} ${arg_LIBRARIES} GTest::gtest GTest::gtest_main)
  gpuheap_warnings(${target})
  set(prelude host_test_prelude)
  if(arg_DEFAULT_ALLOCATOR)
    string(APPEND prelude _of_default)
  else()
    target_compile_definitions(${target} PRIVATE GPUHEAP_NO_DEFAULT_ALLOCATOR)
  endif()
  if(arg_BACKEND STREQUAL "host")
    if(arg_RUNS_LONG)
      gpuheap_compile_briefly(${target})
    else()
      gpuheap_compile_briefly(${target} -Og)
    endif()
    if(NOT arg_WITHOUT_PRELUDE)
      target_precompile_headers(${target} REUSE_FROM ${prelude})
      if(arg_DEFAULT_ALLOCATOR)
        target_link_libraries(${target} PRIVATE host_test_default_instances)
      endif()
    endif()
    if(NOT arg_SLOW)
      add_dependencies(fast_tests ${target})
    endif()
  endif()
  gpuheap_is_program(can_run ${target})
  if(NOT can_run)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  list(APPEND arg_LABELS ${arg_BACKEND})
  if(arg_BACKEND STREQUAL "cuda")
    list(APPEND arg_LABELS gpu)
  endif()
  if(arg_ONE_PROCESS)
    add_test(NAME ${arg_BACKEND}.${arg_NAME} COMMAND ${target})
    set_tests_properties(${arg_BACKEND}.${arg_NAME} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
  else()
    set(prefix ${arg_BACKEND}.${arg_NAME}.)
    set(others "")
    if(arg_ALONE AND arg_BACKEND STREQUAL "cuda")
      set(others TEST_FILTER "-${arg_ALONE}")
      gtest_discover_tests(
        ${target} TEST_PREFIX ${prefix} TEST_FILTER "${arg_ALONE}" TEST_LIST ${target}_ALONE DISCOVERY_MODE PRE_TEST
        PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" RUN_SERIAL ON)
    endif()
    gtest_discover_tests(${target} TEST_PREFIX ${prefix} ${others} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
  endif()
endfunction()
