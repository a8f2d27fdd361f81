// The machine: everything that device code and its host side may ask of the hardware. No other folder knows for which backend it is
// compiled.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/simt/warp.hpp>
