# Decides whether the simulator is built. Sets GPUHEAP_HAS_HOST_BACKEND.

set(GPUHEAP_HAS_HOST_BACKEND FALSE)
if(NOT GPUHEAP_ENABLE_HOST STREQUAL "OFF")
  find_package(Threads REQUIRED)
  find_package(Boost CONFIG QUIET OPTIONAL_COMPONENTS context)
  if(TARGET Boost::context)
    set(GPUHEAP_HAS_HOST_BACKEND TRUE)
  elseif(GPUHEAP_ENABLE_HOST STREQUAL "ON")
    message(FATAL_ERROR "gpuheap: the simulator needs Boost.Context: apt-get install libboost-context-dev, or configure with -DGPUHEAP_ENABLE_HOST=OFF")
  endif()
endif()
