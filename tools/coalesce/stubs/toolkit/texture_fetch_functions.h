// Empty: Clang 19 includes this header, which CUDA 13 no longer has.
