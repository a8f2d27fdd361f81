# gpuheap_program_definitions(target backend language compiler): what the program's --describe says about its build.
function(gpuheap_program_definitions target backend language compiler)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  string(STRIP "${CMAKE_${language}_FLAGS} ${CMAKE_${language}_FLAGS_${type}}" flags)
  target_compile_definitions(
    ${target} PRIVATE PROGRAM_BACKEND="${backend}" PROGRAM_VERSION="${PROJECT_VERSION}" PROGRAM_COMPILER="${compiler}" PROGRAM_FLAGS="${flags}"
                      PROGRAM_BUILD_TYPE="${CMAKE_BUILD_TYPE}")
endfunction()
