// Nothing more than cuda_stub.hpp has.
