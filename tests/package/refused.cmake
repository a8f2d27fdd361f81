# Passes if COMPILE fails with one error, which says TEXT. Variables: COMPILE (a list), TEXT.
execute_process(COMMAND ${COMPILE} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(result EQUAL 0)
  message(FATAL_ERROR "this compiles: ${COMPILE}")
endif()
string(REGEX MATCHALL "[^\n]*error: [^\n]*" errors "${said}")
# Where a compiler goes on after #error, this ends it.
list(FILTER errors EXCLUDE REGEX "see_the_error_above")
list(LENGTH errors count)
if(NOT count EQUAL 1 OR NOT errors MATCHES "${TEXT}")
  message(FATAL_ERROR "expected one error that says '${TEXT}':\n${said}")
endif()
