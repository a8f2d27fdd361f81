// Includes gpuheap::heap<A> and every allocator A. A program that uses the default allocator includes heap.hpp, which compiles faster.
#pragma once

#include <gpuheap/allocators/atomic_malloc.hpp>
#include <gpuheap/allocators/atomic_wrap_malloc.hpp>
#include <gpuheap/allocators/bulkalloc.hpp>
#include <gpuheap/allocators/coalesce.hpp>
#include <gpuheap/allocators/coalesce_dynamic.hpp>
#include <gpuheap/allocators/cuda_malloc.hpp>
#include <gpuheap/allocators/dynasoar.hpp>
#include <gpuheap/allocators/fdgmalloc.hpp>
#include <gpuheap/allocators/gallatin.hpp>
#include <gpuheap/allocators/halloc.hpp>
#include <gpuheap/allocators/kma.hpp>
#include <gpuheap/allocators/ouroboros.hpp>
#include <gpuheap/allocators/regeff.hpp>
#include <gpuheap/allocators/scatteralloc.hpp>
#include <gpuheap/allocators/sharded_spans.hpp>
#include <gpuheap/allocators/xmalloc.hpp>
#include <gpuheap/heap.hpp>
#include <gpuheap/leaks.hpp>
