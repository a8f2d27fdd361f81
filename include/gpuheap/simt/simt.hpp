// The machine: everything that device code and its host side may ask of the hardware, and the only folder that knows which backend it is.
#pragma once

#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>
#include <gpuheap/simt/launch.hpp>
#include <gpuheap/simt/runtime.hpp>
#include <gpuheap/simt/types.hpp>
#include <gpuheap/simt/warp.hpp>
