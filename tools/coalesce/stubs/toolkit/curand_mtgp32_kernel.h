// Empty: Clang includes this header, which a toolkit without curand lacks.
