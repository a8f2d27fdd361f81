// The state that the ranks of a world share, and the state of each rank: plain data in device memory, which world.hpp sets up.
//
//   world_state -> rank_state[num_ranks]      inbox: a stack of messages. Any rank pushes to it, and the owner takes all at once
//               -> group_state                the members of a communicator, and their barrier. world_state contains that of all ranks
//
// A message is a header and its bytes. Either it is one block of the heap, which the sender makes and the receiver frees. Or it is part of
// a bundle: one block with all messages of a rank in an all-to-all, which the last of its receivers frees.
//
// No rank takes a lock. Of the sends, only ssend() waits for the receiver.
#pragma once

#include <gpuheap/mpi/types.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/bits.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

// The header of a block of several messages, which follow.
struct alignas(16) bundle {
  simt::uint32_t left;  // the number of messages that are not freed
};

// The header of a message; its bytes follow.
struct alignas(16) message {
  message* next;
  bundle* within;  // the message's bundle; nullptr: the message is a block of its own
  simt::uint64_t bytes;
  simt::uint32_t context;  // twice the number of the communicator's group, plus 1 for collective calls
  int source;              // the sender's rank in the communicator
  int tag;
  simt::uint32_t* received;  // a word that becomes 1 when the message has been received; nullptr: no thread waits for that

  [[nodiscard]] GPUHEAP_FN char* data() { return reinterpret_cast<char*>(this + 1); }
  // The bytes of a message with its header: a multiple of 16.
  [[nodiscard]] GPUHEAP_HD static constexpr simt::size_t block_bytes(simt::size_t bytes) {
    return sizeof(message) + static_cast<simt::size_t>(simt::round_up_pow2(bytes, 16));
  }
};
static_assert(sizeof(message) == 48);

// The properties of a message that a receive asks for.
struct envelope {
  simt::uint32_t context;
  int source;  // or any_source
  int tag;     // or any_tag

  [[nodiscard]] GPUHEAP_FN bool fits(message const& m) const {
    return m.context == context && (source == any_source || m.source == source) && (tag == any_tag || m.tag == tag);
  }
};

// A receive that waits for its message, or has it. Only its own rank accesses it.
struct request {
  request* next;
  envelope wanted;
  void* buffer;
  datatype type;
  simt::size_t capacity;  // the bytes of data that fit into the buffer
  status result;
  error_handler errors;
  bool done;
};

// The members of a communicator.
struct group_state {
  simt::uint32_t size;
  simt::uint32_t number;   // a number that no other group of the world has; 0 for the group of all ranks
  int const* world_ranks;  // the members' ranks in the world; nullptr: all ranks of the world
  simt::uint32_t arrived;  // the number of members that have arrived at the barrier
  simt::uint32_t barriers_done;
  simt::uint32_t members_left;  // the number of members that have not freed the communicator

  [[nodiscard]] GPUHEAP_FN int world_rank(int rank) const { return world_ranks == nullptr ? rank : world_ranks[rank]; }
};

// An ordered list of ranks of the world. MPI_Group is a pointer to one. Only its own rank accesses it.
struct rank_list {
  int size;
  int mine;  // the place of the rank that made the list; `undefined` if the list lacks it

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

// One rank's handle of a communicator. MPI_Comm is a pointer to one. Only its own rank accesses it.
struct communicator {
  group_state* group;
  int rank;
  simt::uint32_t num_collectives;  // the number of tags that this rank's collective calls have used: the next tag
  error_handler errors;
  grid_state* grid;  // nullptr: the communicator has no grid
};

// The state of one rank. Other ranks access only the inbox.
struct alignas(128) rank_state {
  message* inbox;                       // the newest message first
  message *early_first, *early_last;    // messages that were taken from the inbox and match no posted receive, the oldest first
  request *posted_first, *posted_last;  // receives that wait for a message, the oldest first
  communicator world;
  request sent;    // the request that every isend() returns: done from the start
  void* attached;  // the buffer that the program has attached; nullptr: none
  int attached_bytes;
  bool initialised, finalised;
};

// The first abort of a world. The host reads it after the kernel.
struct abort_record {
  simt::uint32_t claimed;  // 1: a rank has aborted, and the other members are that rank's
  simt::uint32_t raised;   // 1: the other ranks must end
  int rank;                // the rank in the world
  int code;
  int error;  // the error class of a fatal error; `success` if the program called abort()
};

// The world of one kernel.
struct world_state {
  rank_state* ranks;
  simt::uint32_t num_ranks;
  simt::uint32_t num_groups;  // the number of groups that were ever made
  abort_record abort;
  group_state everyone;
};

namespace detail {
// Pushes a message to a rank's inbox. The rank sees it after all messages that this thread has pushed there before.
GPUHEAP_FN inline void push(rank_state& to, message* m) {
  simt::atomic_ref<message*> const inbox{to.inbox};
  // relaxed: the compare-exchange below decides, and this thread does not access the message at `before`.
  message* before = inbox.load(simt::relaxed);
  // Ends: a pass that fails lost to another sender's push or to the owner's taking. Lock-free.
  GPUHEAP_NO_UNROLL
  do {
    m->next = before;
    // release: publishes the message to the exchange in take_inbox(). That exchange also acquires the messages below, since the pushes are
    // one chain of read-modify-writes. relaxed on failure: the next pass decides. ABA does no harm: if `before` is the head again after
    // other pushes and takes, it is still the right next message.
  } while (!inbox.compare_exchange(before, m, simt::release, simt::relaxed));
}

// Takes all messages of the rank's own inbox. Returns them as a list, the oldest first; nullptr if there are none.
[[nodiscard]] GPUHEAP_FN inline message* take_inbox(rank_state& mine) {
  simt::atomic_ref<message*> const inbox{mine.inbox};
  // relaxed: a check that saves the exchange.
  if (inbox.load(simt::relaxed) == nullptr) return nullptr;
  // acquire: pairs with the releases in push(), so the headers and bytes of all messages are seen.
  message* newest = inbox.exchange(nullptr, simt::acquire);
  message* oldest = nullptr;
  // Ends: one pass for each message taken.
  while (newest != nullptr) {
    message* const below = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = below;
  }
  return oldest;
}

// copy_bytes() copies between a program's buffer and a message: by words of 8 or 4 bytes if both addresses and the size are multiples of
// that.
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
