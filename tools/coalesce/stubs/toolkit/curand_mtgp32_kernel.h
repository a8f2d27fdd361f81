// Empty: Clang includes this header, which a toolkit without cuRAND does not have.
