# Run by a target of each build: writes a header with the identity of the measured code, the hash of its sources, flags and compilers. Builds of equal
# identity measure the same, wherever they were made.
#   ROOT: the checkout. FOLDERS: of sources, relative to that, separated by blanks. BUILT_WITH: flags and compilers. OUT: the header.

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
# Left alone if it is the same, so that nothing is compiled again.
configure_file(${ROOT}/benchmarks/harness/build_identity.hpp.in ${OUT} @ONLY)
