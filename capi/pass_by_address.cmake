# Triton's LLVM, which gives local memory addresses of 32 bits, has no code for structs that are passed by value. Here they are passed by address: in what clang
# makes before any optimisation each such argument is a copy of its own already, so this changes no meaning.
#   cmake -DIN=in.ll -DOUT=out.ll -P pass_by_address.cmake
file(READ ${IN} text)
string(REGEX REPLACE " byval\\((%\"[^\"]*\"|%[^)\"]*)\\)" "" text "${text}")
if(text MATCHES " byval\\(")
  message(FATAL_ERROR "pass_by_address: ${IN} has a byval of a kind that this does not know: ${CMAKE_MATCH_0}")
endif()
file(WRITE ${OUT} "${text}")
