// Empty: cuda_stub.hpp has the declarations.
