# Builds tests/package/consumer against this build of the library, and runs what can run. Variables: HOW, BACKEND, SOURCE, BUILD, GENERATOR, WORK, OPTIONS.

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY COMMAND_ECHO STDOUT)
endfunction()

file(REMOVE_RECURSE ${WORK})
if(HOW STREQUAL "installed")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
  list(APPEND OPTIONS -DCMAKE_PREFIX_PATH=${WORK}/prefix)
else()
  list(APPEND OPTIONS -DGPUHEAP_SOURCE=${SOURCE})
endif()
run(${CMAKE_COMMAND} -S ${SOURCE}/tests/package/consumer -B ${WORK}/build -G ${GENERATOR} -DBACKEND=${BACKEND} ${OPTIONS})
run(${CMAKE_COMMAND} --build ${WORK}/build)
if(BACKEND STREQUAL "host")
  run(${WORK}/build/consumer)
endif()
