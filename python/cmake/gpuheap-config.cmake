# The targets of the wheel: gpuheap::gpuheap (the headers, for CUDA sources) and gpuheap::capi (the C interface). For find_package(gpuheap) to find this file,
# set CMAKE_PREFIX_PATH to the output of `python -c "import gpuheap; print(gpuheap.cmake_path())"`.
include(CMakeFindDependencyMacro)
find_dependency(CUDAToolkit)
if(NOT TARGET gpuheap::gpuheap)
  add_library(gpuheap::gpuheap INTERFACE IMPORTED)
  target_include_directories(gpuheap::gpuheap INTERFACE "${CMAKE_CURRENT_LIST_DIR}/../include")
  target_compile_definitions(gpuheap::gpuheap INTERFACE GPUHEAP_BACKEND_CUDA)
  target_compile_features(gpuheap::gpuheap INTERFACE cxx_std_20)
  target_link_libraries(gpuheap::gpuheap INTERFACE CUDA::cudart_static)
  # The shared library of the C interface, for host code.
  add_library(gpuheap::capi SHARED IMPORTED)
  set_target_properties(gpuheap::capi PROPERTIES IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/../lib/libgpuheap.so"
                                                 INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/../include")
endif()
