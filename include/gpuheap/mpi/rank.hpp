// One rank of a world: MPI's calls as members, by the names of the standard without their prefix. Device code.
//
// Collective calls are made of messages in the collective context of the communicator, with the number of the call as tag, so that they
// meet no message of the program and no other collective call. Broadcasts and reductions go along binomial trees. A reduction combines the
// ranks' values in an order that depends on their number only. Every rank of the communicator makes the same collective calls in the same
// order.
//
// A heap without room in a collective call ends all ranks whatever the error handler, as the others wait for this one.
#pragma once

#include <gpuheap/mpi/messenger.hpp>
#include <gpuheap/mpi/operations.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

// In place of a buffer of a collective call: the values are in the other one.
[[nodiscard]] GPUHEAP_HD inline void* in_place() { return reinterpret_cast<void*>(simt::uintptr_t{1}); }

// What main functors are given.
template <class Heap>
class rank : public messenger<Heap> {
  using base = messenger<Heap>;

 public:
  using messenger<Heap>::messenger;
  using base::world;

  // ---- the world

  // Before any other call, once.
  GPUHEAP_FN int init() const {
    if (this->mine().initialised) return this->answer(nullptr, err_other);
    this->mine().initialised = true;
    return success;
  }
  // After the last call. Waits for all ranks, and frees messages that this one never received.
  GPUHEAP_FN int finalize() const {
    if (int const bad = barrier(world()); bad != success) return bad;
    this->free_early_messages();
    this->mine().finalised = true;
    return success;
  }
  [[nodiscard]] GPUHEAP_FN bool is_initialized() const { return this->mine().initialised; }
  [[nodiscard]] GPUHEAP_FN bool is_finalized() const { return this->mine().finalised; }

  // Seconds on a clock that all ranks share.
  [[nodiscard]] GPUHEAP_FN double wtime() const { return 1e-9 * static_cast<double>(simt::clock_ns()); }

  // ---- communicators

  GPUHEAP_FN int comm_rank(communicator* comm, int* mine) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    *mine = comm->rank;
    return success;
  }
  GPUHEAP_FN int comm_size(communicator* comm, int* size) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    *size = this->size_of(comm);
    return success;
  }

  // A communicator for each color, in which ranks stand by their keys, and by their ranks in `comm` where keys are equal. `undefined` as
  // color: none, and `made` is nullptr.
  GPUHEAP_FN int comm_split(communicator* comm, int color, int key, communicator** made) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    if (made == nullptr || (color < 0 && color != undefined)) return this->answer(comm, err_arg);
    int const size = this->size_of(comm), tag = next_tag(comm);
    wish const own{color, key, comm->rank};
    membership mine{};
    if (comm->rank != 0) {
      put(comm, 0, tag, &own, sizeof own);
      (void)get(comm, 0, tag, &mine, sizeof mine);
    } else {
      auto* const wishes = static_cast<wish*>(allocate(static_cast<simt::size_t>(size) * sizeof(wish)));
      wishes[0] = own;
      // Ends: once for each other member.
      for (int i = 1; i < size; ++i) {
        message* const m = this->await_message({this->collective_context_of(comm), any_source, tag});
        detail::copy_bytes(wishes + m->source, m->data(), sizeof(wish));
        this->free_message(m);
      }
      mine = found_groups(comm, wishes, size, tag);
      this->give_back(wishes);
    }
    *made = nullptr;
    if (mine.group == nullptr) return success;
    *made = static_cast<communicator*>(allocate(sizeof(communicator)));
    **made = {mine.group, mine.rank, 0, comm->errors};
    return success;
  }
  // The same members in a context of their own.
  GPUHEAP_FN int comm_dup(communicator* comm, communicator** made) const { return comm_split(comm, 0, 0, made); }
  // Ends this rank's handle and makes it null. Messages on it have been received, its collective calls have ended.
  GPUHEAP_FN int comm_free(communicator** comm) const {
    if (comm == nullptr || *comm == nullptr || *comm == world()) return this->answer(nullptr, err_comm);
    group_state* const group = (*comm)->group;
    // acq_rel: the last member frees what the others have used before.
    if (simt::global_ref<simt::uint32_t>{group->members_left}.fetch_sub(1, simt::acq_rel) == 1) this->give_back(group);
    this->give_back(*comm);
    *comm = nullptr;
    return success;
  }

  // ---- collective calls

  // Waits until all members have called. What they did before happens before what any of them does after.
  GPUHEAP_FN int barrier(communicator* comm) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    group_state& group = *comm->group;
    simt::global_ref<simt::uint32_t> const arrived{group.arrived}, done{group.barriers_done};
    // relaxed: this rank has seen the last barrier's end, and this one's needs its own arrival.
    simt::uint32_t const before = done.load(simt::relaxed);
    // acq_rel: a chain over all members, so that the last one has seen what all did before.
    if (arrived.fetch_add(1, simt::acq_rel) == group.size - 1) {
      // relaxed: nobody arrives again before the release below.
      arrived.store(0, simt::relaxed);
      // release: pairs with the acquire of those who wait.
      done.store(before + 1, simt::release);
      return success;
    }
    simt::back_off pause;
    // Ends: when the last member has come, which is the program's promise; or when another rank aborts. acquire: pairs with the release
    // above. Blocking.
    GPUHEAP_NO_UNROLL
    while (done.load(simt::acquire) == before) {
      this->end_if_aborted();
      pause.wait();
    }
    return success;
  }

  GPUHEAP_FN int bcast(void* buffer, int count, datatype type, int root, communicator* comm) const {
    if (int const bad = check_rooted(buffer, count, type, root, comm); bad != success) return this->answer(comm, bad);
    return this->answer(comm, spread(buffer, static_cast<simt::size_t>(count) * bytes_of(type), root, comm));
  }

  GPUHEAP_FN int reduce(void const* values, void* result, int count, datatype type, operation op, int root, communicator* comm) const {
    if (int const bad = check_reduction(values, count, type, op, root, comm); bad != success) return this->answer(comm, bad);
    if (comm->rank == root && result == nullptr && count != 0) return this->answer(comm, err_buffer);
    return this->answer(comm, collect_sum(values, result, count, type, op, root, comm));
  }
  GPUHEAP_FN int allreduce(void const* values, void* result, int count, datatype type, operation op, communicator* comm) const {
    if (int const bad = check_reduction(values, count, type, op, 0, comm); bad != success) return this->answer(comm, bad);
    if (result == nullptr && count != 0) return this->answer(comm, err_buffer);
    int const bad = collect_sum(values == in_place() ? result : values, result, count, type, op, 0, comm);
    int const worse = spread(result, static_cast<simt::size_t>(count) * bytes_of(type), 0, comm);
    return this->answer(comm, bad != success ? bad : worse);
  }

  // In rank r: the combination of the values of ranks 0 to r.
  GPUHEAP_FN int scan(void const* values, void* result, int count, datatype type, operation op, communicator* comm) const {
    if (int const bad = check_reduction(values, count, type, op, 0, comm); bad != success) return this->answer(comm, bad);
    if (result == nullptr && count != 0) return this->answer(comm, err_buffer);
    simt::size_t const bytes = static_cast<simt::size_t>(count) * bytes_of(type);
    if (values != in_place()) detail::copy_bytes(result, values, bytes);
    int const size = this->size_of(comm), tag = next_tag(comm);
    int error = success;
    // Ends: log2 size passes. Before the pass of `distance` the result is that of the `distance` ranks up to this one.
    for (int distance = 1; distance < size; distance *= 2) {
      if (comm->rank + distance < size) put(comm, comm->rank + distance, tag, result, bytes);
      if (comm->rank >= distance) {
        if (int const bad = get_combined(comm, comm->rank - distance, tag, result, count, type, op); bad != success) error = bad;
      }
    }
    return this->answer(comm, error);
  }

  // `num_sent` elements of each rank, one after the other in the order of the ranks. The receiver's arguments count in the root only.
  GPUHEAP_FN int gather(void const* sent, int num_sent, datatype sent_type, void* received, int num_received, datatype received_type,
                        int root, communicator* comm) const {
    return gather_parts(sent, num_sent, sent_type, received, received_type, root, comm, even_parts{num_received});
  }
  // Rank r's up to counts[r] elements at place displacements[r], both in elements.
  GPUHEAP_FN int gatherv(void const* sent, int num_sent, datatype sent_type, void* received, int const* counts, int const* displacements,
                         datatype received_type, int root, communicator* comm) const {
    return gather_parts(sent, num_sent, sent_type, received, received_type, root, comm, listed_parts{counts, displacements});
  }
  GPUHEAP_FN int scatter(void const* sent, int num_sent, datatype sent_type, void* received, int num_received, datatype received_type,
                         int root, communicator* comm) const {
    return scatter_parts(sent, sent_type, received, num_received, received_type, root, comm, even_parts{num_sent});
  }
  GPUHEAP_FN int scatterv(void const* sent, int const* counts, int const* displacements, datatype sent_type, void* received,
                          int num_received, datatype received_type, int root, communicator* comm) const {
    return scatter_parts(sent, sent_type, received, num_received, received_type, root, comm, listed_parts{counts, displacements});
  }
  GPUHEAP_FN int allgather(void const* sent, int num_sent, datatype sent_type, void* received, int num_received, datatype received_type,
                           communicator* comm) const {
    if (int const bad = this->check(received, num_received, received_type, comm); bad != success) return this->answer(comm, bad);
    simt::size_t const part = static_cast<simt::size_t>(num_received) * bytes_of(received_type);
    // In place, this rank's part is where it shall be in the result; the root of the gathering has it there already.
    bool const stays = sent == in_place();
    void const* const own = !stays            ? sent
                            : comm->rank == 0 ? in_place()
                                              : static_cast<char*>(received) + part * static_cast<unsigned>(comm->rank);
    int const bad =
        gather(own, stays ? num_received : num_sent, stays ? received_type : sent_type, received, num_received, received_type, 0, comm);
    if (bad != success) return bad;
    return this->answer(comm, spread(received, part * comm->group->size, 0, comm));
  }

  // `num_sent` elements to each rank, from each `num_received`, in the order of the ranks.
  GPUHEAP_FN int alltoall(void const* sent, int num_sent, datatype sent_type, void* received, int num_received, datatype received_type,
                          communicator* comm) const {
    return exchange_parts(sent, sent_type, received, received_type, comm, even_parts{num_sent}, even_parts{num_received});
  }
  GPUHEAP_FN int alltoallv(void const* sent, int const* sent_counts, int const* sent_displacements, datatype sent_type, void* received,
                           int const* received_counts, int const* received_displacements, datatype received_type,
                           communicator* comm) const {
    return exchange_parts(sent, sent_type, received, received_type, comm, listed_parts{sent_counts, sent_displacements},
                          listed_parts{received_counts, received_displacements});
  }

 private:
  // Where the ranks' parts of a buffer lie, in elements.
  struct even_parts {
    int each;
    [[nodiscard]] GPUHEAP_FN bool valid(int) const { return each >= 0; }
    [[nodiscard]] GPUHEAP_FN simt::size_t count(int) const { return static_cast<simt::size_t>(each); }
    [[nodiscard]] GPUHEAP_FN long long place(int rank) const { return static_cast<long long>(each) * rank; }
  };
  struct listed_parts {
    int const* counts;
    int const* displacements;
    [[nodiscard]] GPUHEAP_FN bool valid(int size) const {
      if (counts == nullptr || displacements == nullptr) return false;
      // Ends: once for each rank.
      for (int i = 0; i < size; ++i) {
        if (counts[i] < 0) return false;
      }
      return true;
    }
    [[nodiscard]] GPUHEAP_FN simt::size_t count(int rank) const { return static_cast<simt::size_t>(counts[rank]); }
    [[nodiscard]] GPUHEAP_FN long long place(int rank) const { return displacements[rank]; }
  };

  // What a rank asks of comm_split, and what it gets.
  struct wish {
    int color, key, rank;
    [[nodiscard]] GPUHEAP_FN bool before(wish const& other) const {
      if (color != other.color) return color < other.color;
      return key != other.key ? key < other.key : rank < other.rank;
    }
  };
  struct membership {
    group_state* group;
    int rank;
  };

  [[nodiscard]] GPUHEAP_FN int check_comm(communicator const* comm) const {
    if (!this->mine().initialised || this->mine().finalised) return err_other;
    return comm == nullptr ? err_comm : success;
  }
  [[nodiscard]] GPUHEAP_FN int check_rooted(void const* buffer, int count, datatype type, int root, communicator const* comm) const {
    int const bad = this->check(buffer, count, type, comm);
    return bad != success ? bad : this->is_member(comm, root) ? success : err_root;
  }
  [[nodiscard]] GPUHEAP_FN int check_reduction(void const* buffer, int count, datatype type, operation op, int root,
                                               communicator const* comm) const {
    int const bad = check_rooted(buffer, count, type, root, comm);
    return bad != success ? bad : is_defined(op, type) ? success : err_op;
  }

  // The tag of this rank's next collective call on `comm`: the same in all members.
  [[nodiscard]] GPUHEAP_FN static int next_tag(communicator* comm) { return static_cast<int>(comm->num_collectives++ & 0x7fffffffu); }

  [[nodiscard]] GPUHEAP_FN void* allocate(simt::size_t bytes) const {
    void* const p = this->obtain(bytes);
    if (p == nullptr) this->end_for_memory();
    return p;
  }
  [[nodiscard]] GPUHEAP_FN message* make(communicator const* comm, int tag, simt::size_t bytes) const {
    message* const m = this->make_message(comm, this->collective_context_of(comm), tag, bytes);
    if (m == nullptr) this->end_for_memory();
    return m;
  }
  GPUHEAP_FN void put(communicator const* comm, int to, int tag, void const* from, simt::size_t bytes) const {
    message* const m = make(comm, tag, bytes);
    detail::copy_bytes(m->data(), from, bytes);
    detail::push(this->rank_at(comm, to), m);
  }
  // Takes a message's bytes and frees it.
  GPUHEAP_FN int take(message* m, void* to, simt::size_t capacity) const {
    bool const fits = m->bytes <= capacity;
    detail::copy_bytes(to, m->data(), fits ? static_cast<simt::size_t>(m->bytes) : capacity);
    this->free_message(m);
    return fits ? success : err_truncate;
  }
  GPUHEAP_FN int get(communicator const* comm, int from, int tag, void* to, simt::size_t capacity) const {
    return take(this->await_message({this->collective_context_of(comm), from, tag}), to, capacity);
  }
  GPUHEAP_FN int get_combined(communicator const* comm, int from, int tag, void* into, int count, datatype type, operation op) const {
    message* const m = this->await_message({this->collective_context_of(comm), from, tag});
    bool const fits = m->bytes == static_cast<simt::size_t>(count) * bytes_of(type);
    if (fits) combine(op, type, into, m->data(), static_cast<simt::size_t>(count));
    this->free_message(m);
    return fits ? success : err_truncate;
  }

  // The root's bytes to all, along a binomial tree: rank r, counted from the root, has them from r without its lowest bit.
  GPUHEAP_FN int spread(void* buffer, simt::size_t bytes, int root, communicator* comm) const {
    int const size = this->size_of(comm), tag = next_tag(comm);
    int const from_root = (comm->rank - root + size) % size;
    int error = success;
    int bit = 1;
    // Ends: at the lowest bit of from_root, or after log2 size passes.
    while (bit < size && (from_root & bit) == 0) bit *= 2;
    if (from_root != 0) error = get(comm, (from_root - bit + root) % size, tag, buffer, bytes);
    // Ends: after log2 bit passes.
    for (bit /= 2; bit > 0; bit /= 2) {
      if (from_root + bit < size) put(comm, (from_root + bit + root) % size, tag, buffer, bytes);
    }
    return error;
  }

  // The same tree from the leaves to the root. The sum grows in the message that will carry it.
  GPUHEAP_FN int collect_sum(void const* values, void* result, int count, datatype type, operation op, int root, communicator* comm) const {
    int const size = this->size_of(comm), tag = next_tag(comm);
    int const from_root = (comm->rank - root + size) % size;
    simt::size_t const bytes = static_cast<simt::size_t>(count) * bytes_of(type);
    message* const up = from_root == 0 ? nullptr : make(comm, tag, bytes);
    void* const sum = up == nullptr ? result : static_cast<void*>(up->data());
    if (values != in_place()) detail::copy_bytes(sum, values, bytes);
    int error = success;
    int bit = 1;
    // Ends: at the lowest bit of from_root, or after log2 size passes.
    for (; bit < size && (from_root & bit) == 0; bit *= 2) {
      if (from_root + bit >= size) continue;
      int const bad = get_combined(comm, (from_root + bit + root) % size, tag, sum, count, type, op);
      if (bad != success) error = bad;
    }
    if (up != nullptr) detail::push(this->rank_at(comm, (from_root - bit + root) % size), up);
    return error;
  }

  // Messages come in any order; each says whose it is.
  template <class Parts>
  GPUHEAP_FN int gather_parts(void const* sent, int num_sent, datatype sent_type, void* received, datatype received_type, int root,
                              communicator* comm, Parts parts) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    if (!this->is_member(comm, root)) return this->answer(comm, err_root);
    bool const stays = sent == in_place();
    if (stays && comm->rank != root) return this->answer(comm, err_buffer);
    if (int const bad = stays ? success : check_rooted(sent, num_sent, sent_type, root, comm); bad != success) {
      return this->answer(comm, bad);
    }
    simt::size_t const bytes = stays ? 0 : static_cast<simt::size_t>(num_sent) * bytes_of(sent_type);
    if (comm->rank != root) {
      put(comm, root, next_tag(comm), sent, bytes);
      return success;
    }
    int const size = this->size_of(comm);
    if (!parts.valid(size)) return this->answer(comm, err_count);
    simt::size_t const each = bytes_of(received_type);
    if (each == 0) return this->answer(comm, err_type);
    int const tag = next_tag(comm);
    auto* const all = static_cast<char*>(received);
    int error = success;
    if (!stays) {
      simt::size_t const room = parts.count(root) * each;
      if (bytes > room) error = err_truncate;
      detail::copy_bytes(all + parts.place(root) * static_cast<long long>(each), sent, bytes < room ? bytes : room);
    }
    // Ends: once for each other member.
    for (int i = 1; i < size; ++i) {
      message* const m = this->await_message({this->collective_context_of(comm), any_source, tag});
      int const from = m->source;
      int const bad = take(m, all + parts.place(from) * static_cast<long long>(each), parts.count(from) * each);
      if (bad != success) error = bad;
    }
    return this->answer(comm, error);
  }

  template <class Parts>
  GPUHEAP_FN int scatter_parts(void const* sent, datatype sent_type, void* received, int num_received, datatype received_type, int root,
                               communicator* comm, Parts parts) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    if (!this->is_member(comm, root)) return this->answer(comm, err_root);
    bool const stays = received == in_place();
    if (stays && comm->rank != root) return this->answer(comm, err_buffer);
    if (int const bad = stays ? success : check_rooted(received, num_received, received_type, root, comm); bad != success) {
      return this->answer(comm, bad);
    }
    simt::size_t const room = stays ? 0 : static_cast<simt::size_t>(num_received) * bytes_of(received_type);
    if (comm->rank != root) return this->answer(comm, get(comm, root, next_tag(comm), received, room));
    int const size = this->size_of(comm);
    if (!parts.valid(size)) return this->answer(comm, err_count);
    simt::size_t const each = bytes_of(sent_type);
    if (each == 0) return this->answer(comm, err_type);
    int const tag = next_tag(comm);
    auto const* const all = static_cast<char const*>(sent);
    int error = success;
    // Ends: once for each member.
    for (int to = 0; to < size; ++to) {
      char const* const part = all + parts.place(to) * static_cast<long long>(each);
      simt::size_t const bytes = parts.count(to) * each;
      if (to != root) {
        put(comm, to, tag, part, bytes);
      } else if (!stays) {
        if (bytes > room) error = err_truncate;
        detail::copy_bytes(received, part, bytes < room ? bytes : room);
      }
    }
    return this->answer(comm, error);
  }

  // All messages of a rank are one bundle.
  template <class SentParts, class ReceivedParts>
  GPUHEAP_FN int exchange_parts(void const* sent, datatype sent_type, void* received, datatype received_type, communicator* comm,
                                SentParts sent_parts, ReceivedParts parts) const {
    if (sent == in_place()) {
      if constexpr (simt::same_as<SentParts, ReceivedParts>) sent_parts = parts;
      sent = received;
      sent_type = received_type;
    }
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    simt::size_t const sent_each = bytes_of(sent_type), each = bytes_of(received_type);
    if (sent_each == 0 || each == 0) return this->answer(comm, err_type);
    int const size = this->size_of(comm), own = comm->rank, tag = next_tag(comm);
    if (!sent_parts.valid(size) || !parts.valid(size)) return this->answer(comm, err_count);
    auto const* const from = static_cast<char const*>(sent);
    auto* const to = static_cast<char*>(received);
    if (size > 1) {
      simt::size_t total = sizeof(bundle);
      // Ends: once for each other member.
      for (int i = 1; i < size; ++i) total += message::block_bytes(sent_parts.count((own + i) % size) * sent_each);
      auto* const block = static_cast<char*>(allocate(total));
      reinterpret_cast<bundle*>(block)->left = static_cast<simt::uint32_t>(size - 1);
      simt::size_t at = sizeof(bundle);
      // Ends: once for each other member, each rank beginning with another one.
      for (int i = 1; i < size; ++i) {
        int const receiver = (own + i) % size;
        simt::size_t const bytes = sent_parts.count(receiver) * sent_each;
        auto* const m = reinterpret_cast<message*>(block + at);
        *m = {nullptr, reinterpret_cast<bundle*>(block), bytes, this->collective_context_of(comm), own, tag};
        detail::copy_bytes(m->data(), from + sent_parts.place(receiver) * static_cast<long long>(sent_each), bytes);
        // The bundle lives until the last of its messages is received, so its next message may still be written.
        at += message::block_bytes(bytes);
        detail::push(this->rank_at(comm, receiver), m);
      }
    }
    int error = success;
    simt::size_t const own_bytes = sent_parts.count(own) * sent_each, own_room = parts.count(own) * each;
    if (own_bytes > own_room) error = err_truncate;
    detail::copy_bytes(to + parts.place(own) * static_cast<long long>(each),
                       from + sent_parts.place(own) * static_cast<long long>(sent_each), own_bytes < own_room ? own_bytes : own_room);
    // Ends: once for each other member.
    for (int i = 1; i < size; ++i) {
      message* const m = this->await_message({this->collective_context_of(comm), any_source, tag});
      int const source = m->source;
      int const bad = take(m, to + parts.place(source) * static_cast<long long>(each), parts.count(source) * each);
      if (bad != success) error = bad;
    }
    return this->answer(comm, error);
  }

  // Puts the members into groups and tells each of the others of its own. This rank's own is returned.
  GPUHEAP_FN membership found_groups(communicator const* comm, wish* wishes, int size, int tag) const {
    sort(wishes, size);
    membership own{};
    // Ends: each pass goes on to the first wish of the next color.
    for (int first = 0; first < size;) {
      int const color = wishes[first].color;
      int last = first;
      // Ends: at the last wish at the latest.
      while (last < size && wishes[last].color == color) ++last;
      group_state* group = nullptr;
      if (color != undefined) {
        auto const members = static_cast<simt::uint32_t>(last - first);
        group = static_cast<group_state*>(allocate(sizeof(group_state) + members * sizeof(int)));
        auto* const world_ranks = reinterpret_cast<int*>(group + 1);
        // relaxed: only that each number is given once; it goes to the members by messages.
        simt::uint32_t const number = simt::global_ref<simt::uint32_t>{this->shared().num_groups}.fetch_add(1, simt::relaxed);
        *group = {members, number, world_ranks, 0, 0, members};
        // Ends: once for each member.
        for (int i = first; i < last; ++i) world_ranks[i - first] = comm->group->world_rank(wishes[i].rank);
      }
      // Ends: once for each member.
      for (int i = first; i < last; ++i) {
        membership const theirs{group, i - first};
        if (wishes[i].rank == comm->rank) {
          own = theirs;
        } else {
          put(comm, wishes[i].rank, tag, &theirs, sizeof theirs);
        }
      }
      first = last;
    }
    return own;
  }
  // Shell's method with gaps that shrink by half: one rank sorts, so it takes no memory.
  GPUHEAP_FN static void sort(wish* wishes, int size) {
    // Ends: the gap halves.
    for (int gap = size / 2; gap > 0; gap /= 2) {
      // Ends: once for each wish.
      for (int i = gap; i < size; ++i) {
        wish const moving = wishes[i];
        int at = i;
        // Ends: each pass goes down by the gap.
        for (; at >= gap && moving.before(wishes[at - gap]); at -= gap) wishes[at] = wishes[at - gap];
        wishes[at] = moving;
      }
    }
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi
