// Operations that exchange values between the lanes of a warp, and the block's barrier. Each call is a scheduling point. A call with a mask
// is a rendezvous: it returns when every lane of the mask has made the same call with the same mask.
//
// Misuse ends the kernel (launch() throws): a mask without the caller, a mask that names a lane that has exited or never existed, or lanes
// of one mask that call different operations or give different masks.
#pragma once

#include <gpuheap_simulator/lane.hpp>

namespace gpuheap::simulator {

// The mask of the lanes that execute this line together now: the caller, and those of its warp that reach the line before the scheduler
// releases them. All of them get the same mask. Under run_through and round_robin, the scheduler releases them when no other lane of the
// warp can run, or after a bounded time. Under random and pct, it may also release them earlier, as the seed decides, so that a test finds
// code that relies on getting the whole warp.
[[nodiscard]] std::uint32_t active_mask(site where);

// A rendezvous that also orders memory: the accesses of the mask's lanes before the call happen before their accesses after it. The other
// warp operations order no memory.
void sync_warp(std::uint32_t mask, site where);

// Performs `what`: ballot, all_of or any_of (`value` is 0 or 1), match_any, reduce_* (32 bits), or shuffle* (`argument` is the source lane,
// the distance or the lane mask). Returns the caller's result. A shuffle reads up to 64 bits. A `shuffle` from a lane outside the mask is
// misuse. From such a lane, shuffle_up, shuffle_down and shuffle_xor return a poison pattern, because the hardware returns an undefined
// value that the caller may ignore.
[[nodiscard]] std::uint64_t exchange_in_warp(operation what, std::uint32_t mask, std::uint64_t value, std::uint32_t argument, site where);

// The block's barrier. All threads of the block must reach the same call: it is misuse if a thread has exited, or waits at another line.
// With `of_living`, the barrier waits only for threads that have not exited, and also opens when the last thread that it waits for exits.
void sync_block(site where, bool of_living = false);

}  // namespace gpuheap::simulator
