# The CMake package `gpuheap`: headers, the static libraries of the backends built here, and the files that find their dependencies.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/gpuheap)

set(targets gpuheap_headers)
if(GPUHEAP_HAS_HOST_BACKEND)
  list(APPEND targets gpuheap_simulated gpuheap_simulator)
  install(DIRECTORY simulator/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
if(GPUHEAP_HAS_CUDA)
  list(APPEND targets gpuheap_gpuheap ${GPUHEAP_KERNELS})
endif()
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS ${targets} EXPORT gpuheap-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT gpuheap-targets NAMESPACE gpuheap:: DESTINATION ${package_folder})

configure_package_config_file(cmake/gpuheap-config.cmake.in gpuheap-config.cmake INSTALL_DESTINATION ${package_folder})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(gpuheap-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gpuheap-config.cmake ${PROJECT_BINARY_DIR}/gpuheap-config-version.cmake cmake/cccl.cmake DESTINATION ${package_folder})
