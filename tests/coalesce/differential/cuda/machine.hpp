// What the generated kernels ask of the machine, as the rewriter sees it: its own declarations have all of it.
#pragma once
