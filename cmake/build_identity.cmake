# A script that a target of each build runs. It writes a header with the identity of the measured code, which is the hash of its sources,
# flags and compilers. Builds of the same identity measure the same code, wherever they were made.
#   ROOT: the checkout. FOLDERS: the folders with the measured code, relative to ROOT, separated by blanks.
#   BUILT_WITH: flags and compilers. OUT: the header.

separate_arguments(folders UNIX_COMMAND "${FOLDERS}")
set(said "${BUILT_WITH}\n")
foreach(folder IN LISTS folders)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${folder}/*.hpp ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.cu ${ROOT}/${folder}/*.in)
  list(SORT files)
  foreach(file IN LISTS files)
    file(SHA256 ${ROOT}/${file} digest)
    string(APPEND said "${file} ${digest}\n")
  endforeach()
endforeach()
string(SHA256 digest "${said}")
string(SUBSTRING ${digest} 0 16 identity)
# configure_file() does not write the header if its text would stay the same, so nothing is compiled again.
configure_file(${ROOT}/benchmarks/harness/build_identity.hpp.in ${OUT} @ONLY)
