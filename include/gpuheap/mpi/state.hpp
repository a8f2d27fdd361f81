// The state that the ranks of a world share, and the state of each of them: plain data in device memory, laid out by world.hpp.
//
//   world_state -> rank_state[num_ranks]      inbox: a stack of messages that any rank pushes to and the owner takes whole
//               -> group_state                the members of a communicator, and their barrier; that of the world is part of it
//
// A message is one block of the heap, a header and its bytes, which the sender makes and the receiver frees. Or it is one of a bundle: a
// block in which a rank has all its messages of an all-to-all, which the receiver of the last one frees.
//
// No lock is taken and no message waits for its receiver: a send ends whatever the other ranks do.
#pragma once

#include <gpuheap/mpi/types.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

// The block of several messages.
struct alignas(16) bundle {
  simt::uint32_t left;  // messages not yet taken
};

// The header of a message; its bytes follow.
struct alignas(16) message {
  message* next;
  bundle* within;  // nullptr: the message is a block of its own
  simt::uint64_t bytes;
  simt::uint32_t context;  // of the communicator: twice its number, and one more for collective calls
  int source;              // rank in the communicator
  int tag;
  simt::uint32_t* received;  // set to 1 when the message is; nullptr: no thread waits for that

  [[nodiscard]] GPUHEAP_FN char* data() { return reinterpret_cast<char*>(this + 1); }
  // The bytes that a message takes in the heap: a multiple of 16.
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t block_bytes(simt::size_t bytes) {
    return sizeof(message) + static_cast<simt::size_t>(simt::round_up_pow2(bytes, 16));
  }
};
static_assert(sizeof(message) == 48);

// The keys by which messages are searched for.
struct envelope {
  simt::uint32_t context;
  int source;  // or any_source
  int tag;     // or any_tag

  [[nodiscard]] GPUHEAP_FN bool fits(message const& m) const {
    return m.context == context && (source == any_source || m.source == source) && (tag == any_tag || m.tag == tag);
  }
};

// A receive that waits for its message, or has it. Touched by its own rank alone.
struct request {
  request* next;
  envelope wanted;
  void* buffer;
  datatype type;
  simt::size_t capacity;  // bytes of data
  status result;
  error_handler errors;
  bool done;
};

// The members of a communicator.
struct group_state {
  simt::uint32_t size;
  simt::uint32_t number;   // in the world, from 0
  int const* world_ranks;  // of the members; nullptr: all ranks of the world
  simt::uint32_t arrived;  // at the barrier
  simt::uint32_t barriers_done;
  simt::uint32_t members_left;  // that have not freed the communicator

  [[nodiscard]] GPUHEAP_FN int world_rank(int rank) const { return world_ranks == nullptr ? rank : world_ranks[rank]; }
};

// An ordered list of ranks of the world: what MPI_Group points to. Touched by its own rank alone.
struct rank_list {
  int size;
  int mine;  // the rank's own place; undefined: none

  [[nodiscard]] GPUHEAP_FN int* world_ranks() { return reinterpret_cast<int*>(this + 1); }
  [[nodiscard]] GPUHEAP_FN int const* world_ranks() const { return reinterpret_cast<int const*>(this + 1); }
};

// The grid in which the members of a communicator are arranged.
struct grid_state {
  static constexpr int most_dimensions = 8;
  int dimensions;
  int sizes[most_dimensions];
  int periodic[most_dimensions];
};

// One rank's handle of a communicator: what MPI_Comm points to. Touched by its own rank alone.
struct communicator {
  group_state* group;
  int rank;
  simt::uint32_t num_collectives;  // that this rank has begun: the tag of their messages, the same in all members
  error_handler errors;
  grid_state* grid;  // nullptr: none
};

// One rank's own. All but the inbox is touched by the rank alone.
struct alignas(128) rank_state {
  message* inbox;                       // newest first
  message *early_first, *early_last;    // taken from the inbox, with no receive that wants them, in order
  request *posted_first, *posted_last;  // receives without a message, in order
  communicator world;
  request sent;    // the request that isend returns: done from the start
  void* attached;  // a buffer of the program, to be given back
  int attached_bytes;
  bool initialised, finalised;
};

// How the ranks ended. The host reads it after the kernel.
struct abort_record {
  simt::uint32_t claimed;  // by the first that aborts
  simt::uint32_t raised;   // set: the other ranks must end
  int rank;                // of the world
  int code;
  int error;  // the error class, if an error of a call was fatal; else `success`
};

// The world of one kernel.
struct world_state {
  rank_state* ranks;
  simt::uint32_t num_ranks;
  simt::uint32_t num_groups;  // ever made
  abort_record abort;
  group_state everyone;
};

namespace detail {
// Puts a message into a rank's inbox, after all that this thread has put there before.
GPUHEAP_FN inline void push(rank_state& to, message* m) {
  simt::atomic_ref<message*> const inbox{to.inbox};
  // relaxed: the compare-exchange below decides, and nothing is read through it.
  message* before = inbox.load(simt::relaxed);
  // Ends: a pass that fails lost to another sender's push or to the owner's taking. Lock-free.
  GPUHEAP_NO_UNROLL
  do {
    m->next = before;
    // release: publishes the message to the exchange in take_inbox(), which also sees those below it: each push is a read-modify-write of
    // the one before. relaxed on failure: the next pass decides. The owner takes all at once, so no pointer comes back meanwhile (no ABA).
  } while (!inbox.compare_exchange(before, m, simt::release, simt::relaxed));
}

// All messages of the own inbox, oldest first, or nullptr.
[[nodiscard]] GPUHEAP_FN inline message* take_inbox(rank_state& mine) {
  simt::atomic_ref<message*> const inbox{mine.inbox};
  // relaxed: a hint that avoids the exchange.
  if (inbox.load(simt::relaxed) == nullptr) return nullptr;
  // acquire: pairs with the releases in push(); headers and bytes of all messages are seen.
  message* newest = inbox.exchange(nullptr, simt::acquire);
  message* oldest = nullptr;
  // Ends: once for each message taken.
  while (newest != nullptr) {
    message* const below = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = below;
  }
  return oldest;
}

// Copies bytes between a user's buffer and a message, by words where both are aligned for them.
template <class Word>
GPUHEAP_FN inline void copy_words(void* to, void const* from, simt::size_t bytes) {
  auto* const t = static_cast<Word*>(to);
  auto const* const f = static_cast<Word const*>(from);
  for (simt::size_t i = 0; i < bytes / sizeof(Word); ++i) simt::plain_write(t[i], simt::plain_read(f[i]));
}
GPUHEAP_COLD inline void copy_bytes(void* to, void const* from, simt::size_t bytes) {
  if (bytes == 0 || to == from) return;
  auto const places = reinterpret_cast<simt::uintptr_t>(to) | reinterpret_cast<simt::uintptr_t>(from) | bytes;
  if (places % 8 == 0) {
    copy_words<simt::uint64_t>(to, from, bytes);
  } else if (places % 4 == 0) {
    copy_words<simt::uint32_t>(to, from, bytes);
  } else {
    copy_words<unsigned char>(to, from, bytes);
  }
}
}  // namespace detail

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi
