# Decides whether the CUDA backend is built, and enables the language. Sets GPUHEAP_HAS_CUDA.
# Included at file scope: enable_language() must not be called from a function.

set(GPUHEAP_HAS_CUDA FALSE)
if(NOT GPUHEAP_ENABLE_CUDA STREQUAL "OFF")
  if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(GPUHEAP_NVCC nvcc PATHS /usr/local/cuda/bin DOC "The CUDA compiler")
    if(GPUHEAP_NVCC)
      set(CMAKE_CUDA_COMPILER ${GPUHEAP_NVCC})
    endif()
  endif()
  # A project that adds this one has its own default: by nvcc's, programs run on every GPU that is supported.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND PROJECT_IS_TOP_LEVEL)
    include(${CMAKE_CURRENT_LIST_DIR}/architectures_here.cmake)
    gpuheap_architectures_here(here)
    set(CMAKE_CUDA_ARCHITECTURES ${here} CACHE STRING "GPU architectures to compile for, as CMake spells them: 75 or newer")
  endif()
  if(DEFINED CMAKE_CUDA_COMPILER OR DEFINED ENV{CUDACXX})
    get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
    enable_language(CUDA)
    # CMake's own message for this mistake names only internal variables, such as _CMAKE_CUDA_WHOLE_FLAG.
    if(NOT PROJECT_IS_TOP_LEVEL AND NOT "CUDA" IN_LIST languages)
      message(STATUS "gpuheap: the project ${CMAKE_PROJECT_NAME} has not enabled CUDA: if it has .cu files, write project(${CMAKE_PROJECT_NAME} LANGUAGES CXX CUDA)")
    endif()
    if(NOT "cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
      message(FATAL_ERROR "gpuheap: CMake ${CMAKE_VERSION} does not know CUDA C++20 with nvcc ${CMAKE_CUDA_COMPILER_VERSION}: use CMake 3.28 or newer "
                          "(pip install cmake), or configure with -DGPUHEAP_ENABLE_CUDA=OFF")
    endif()
    find_package(CUDAToolkit REQUIRED)
    set(GPUHEAP_HAS_CUDA TRUE)
  elseif(GPUHEAP_ENABLE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "gpuheap: no CUDA compiler found: put nvcc on PATH, set CUDACXX, or configure with -DGPUHEAP_ENABLE_CUDA=OFF")
  endif()
endif()
