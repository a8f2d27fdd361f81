# Runs a program as device ranks (DEVICE) and as processes of Open MPI (PROCESSES, by MPIRUN), and fails unless both end well and print the same, which is not
# nothing.
execute_process(COMMAND ${DEVICE} OUTPUT_VARIABLE printed RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR printed STREQUAL "")
  message(FATAL_ERROR "${DEVICE} ended with ${code} and printed: ${printed}")
endif()
execute_process(COMMAND ${MPIRUN} --allow-run-as-root --oversubscribe -n 4 ${PROCESSES} OUTPUT_VARIABLE wanted RESULT_VARIABLE code ERROR_VARIABLE complaint)
if(NOT code EQUAL 0 OR wanted STREQUAL "")
  message(FATAL_ERROR "${PROCESSES} under ${MPIRUN} ended with ${code} and printed: ${wanted}${complaint}")
endif()
if(NOT printed STREQUAL wanted)
  message(FATAL_ERROR "device ranks:\n${printed}Open MPI:\n${wanted}")
endif()
message(STATUS "${printed}")
