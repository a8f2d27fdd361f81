// Operations that exchange values between the lanes of a warp, and the block's barrier. Each call is a scheduling point and a rendezvous:
// it returns when every lane of the mask has made the same call with the same mask.
//
// Misuse ends the kernel (launch() throws): a mask without the caller, one that names a lane that has exited or never existed, lanes of one
// mask that call different operations or give different masks.
#pragma once

#include <gpuheap_simulator/lane.hpp>

namespace gpuheap::simulator {

// The mask of the lanes that execute this line together now: the caller, and those of its warp that reach the line before the scheduler
// releases them. All of them get the same mask. run_through and round_robin wait until no other lane of the warp can run (or a bounded
// time); random and pct also release early, by seed, so that code which takes the whole warp for granted is caught.
[[nodiscard]] std::uint32_t active_mask(site where);

// Also orders memory: accesses before it happen before those after it, among the lanes of the mask. The other warp operations order
// nothing.
void sync_warp(std::uint32_t mask, site where);

// `what`: ballot, all_of, any_of (value 0 or 1), match_any, reduce_* (32 bits), shuffle* (argument: source lane, distance or lane mask). A
// shuffle reads up to 64 bits; from a lane outside the mask it is misuse, except that shuffle_up, _down and _xor give a poison pattern, as
// the hardware gives an undefined value that the caller may ignore.
[[nodiscard]] std::uint64_t exchange_in_warp(operation what, std::uint32_t mask, std::uint64_t value, std::uint32_t argument, site where);

// The block's barrier. All threads of the block must reach the same one: a thread that has exited, or waits at another line, is misuse.
// `of_living`: it waits only for threads that have not exited, and opens when the last of the others exits.
void sync_block(site where, bool of_living = false);

}  // namespace gpuheap::simulator
