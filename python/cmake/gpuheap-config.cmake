# The wheel's headers as gpuheap::gpuheap, for CUDA sources; find_package(gpuheap) with CMAKE_PREFIX_PATH from `python -c "import gpuheap; print(gpuheap.cmake_path())"`.
include(CMakeFindDependencyMacro)
find_dependency(CUDAToolkit)
if(NOT TARGET gpuheap::gpuheap)
  add_library(gpuheap::gpuheap INTERFACE IMPORTED)
  target_include_directories(gpuheap::gpuheap INTERFACE "${CMAKE_CURRENT_LIST_DIR}/../include")
  target_compile_definitions(gpuheap::gpuheap INTERFACE GPUHEAP_BACKEND_CUDA)
  target_compile_features(gpuheap::gpuheap INTERFACE cxx_std_20)
  target_link_libraries(gpuheap::gpuheap INTERFACE CUDA::cudart_static)
  # The C interface's host library.
  add_library(gpuheap::capi SHARED IMPORTED)
  set_target_properties(gpuheap::capi PROPERTIES IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/../lib/libgpuheap.so"
                                                 INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/../include")
endif()
