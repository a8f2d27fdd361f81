// The functions of the machine that the generated kernels call, for the rewriter, whose own declarations have all of them.
#pragma once
