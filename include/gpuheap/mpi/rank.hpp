// One rank of a world. MPI's calls are its members, with the standard's names without the prefix MPI_. Device code.
//
// A collective call other than barrier() consists of messages in the collective context of the communicator, with a tag of the call's own.
// So they cannot be mistaken for messages of the program or of another collective call. barrier() counts the ranks in a word that they
// share. Broadcasts and reductions go along binomial trees. A reduction combines the ranks' values in an order that depends only on the
// number of ranks and on the root. Every rank of the communicator must make the same collective calls in the same order.
//
// If the heap has no memory for a message of a collective call, all ranks end, whatever the error handler, because the other ranks wait for
// this one.
#pragma once

#include <gpuheap/mpi/communicators.hpp>
#include <gpuheap/mpi/operations.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

// The value of MPI_IN_PLACE. A program passes it in place of one of the two buffers of a collective call. The call then uses the other
// buffer alone.
[[nodiscard]] GPUHEAP_HD inline void* in_place() { return reinterpret_cast<void*>(simt::uintptr_t{1}); }

// The argument of a main functor. Only the thread of this rank may use it.
template <class Heap>
class rank : public communicators<Heap> {
  using base = communicators<Heap>;

 public:
  using communicators<Heap>::communicators;
  using base::world;

  // ---- the world

  // Each rank calls this once, before any other call.
  GPUHEAP_FN int init() const {
    if (this->mine().initialised) return this->answer(nullptr, err_other);
    this->mine().initialised = true;
    return success;
  }
  // Each rank calls this as its last call. Waits for all ranks, and frees messages for this rank that it has not received.
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

  // ---- collective calls

  // Waits until all members have called. The accesses of every member before its call happen before those of every member after its call.
  GPUHEAP_FN int barrier(communicator* comm) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    group_state& group = *comm->group;
    simt::global_ref<simt::uint32_t> const arrived{group.arrived}, done{group.barriers_done};
    // relaxed: this rank has seen the end of the last barrier, and the present one cannot end before this rank arrives.
    simt::uint32_t const before = done.load(simt::relaxed);
    // acq_rel: the additions are a chain over all members, so the last one has seen what all others did before.
    if (arrived.fetch_add(1, simt::acq_rel) == group.size - 1) {
      // relaxed: no thread arrives again before the release below.
      arrived.store(0, simt::relaxed);
      // release: pairs with the acquire of threads that wait.
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
    return this->answer(comm, spread(buffer, static_cast<simt::size_t>(count), type, root, comm));
  }

  GPUHEAP_FN int reduce(void const* values, void* result, int count, datatype type, operation op, int root, communicator* comm) const {
    if (int const bad = check_reduction(values, count, type, op, root, comm); bad != success) return this->answer(comm, bad);
    if (comm->rank == root && result == nullptr && count != 0) return this->answer(comm, err_buffer);
    if (root == 0 || !is_users(op) || operation_of(op)->commutes)
      return this->answer(comm, collect_sum(values, result, count, type, op, root, comm));
    // An operation that does not commute needs the order of the ranks. So rank 0 combines the values, and sends the result to the root.
    simt::size_t const bytes = static_cast<simt::size_t>(count) * combined_bytes(type);
    void const* const own = values == in_place() ? result : values;
    void* const sum = comm->rank == 0 ? this->allocate(bytes) : result;
    int error = collect_sum(own, sum, count, type, op, 0, comm);
    int const tag = this->next_tag(comm);
    if (comm->rank == 0) {
      this->put(comm, root, tag, sum, bytes);
      this->deallocate(sum);
    }
    if (comm->rank == root) error = this->get(comm, 0, tag, result, bytes);
    return this->answer(comm, error);
  }
  GPUHEAP_FN int allreduce(void const* values, void* result, int count, datatype type, operation op, communicator* comm) const {
    if (int const bad = check_reduction(values, count, type, op, 0, comm); bad != success) return this->answer(comm, bad);
    if (result == nullptr && count != 0) return this->answer(comm, err_buffer);
    int const bad = collect_sum(values == in_place() ? result : values, result, count, type, op, 0, comm);
    int const worse = spread(result, static_cast<simt::size_t>(count) * combined_bytes(type), datatype::byte, 0, comm);
    return this->answer(comm, bad != success ? bad : worse);
  }
  // Combines the values, and gives the ranks consecutive parts of the combined elements: counts[r] elements to rank r, or `each` elements
  // to each rank if `counts` is nullptr.
  GPUHEAP_FN int reduce_scatter(void const* values, void* result, int const* counts, int each, datatype type, operation op,
                                communicator* comm) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    int const size = this->size_of(comm);
    simt::size_t before = 0;
    long long all = 0;
    for (int i = 0; i < size; ++i) {
      if (i == comm->rank) before = static_cast<simt::size_t>(all);
      all += counts == nullptr ? each : counts[i];
    }
    simt::size_t const of_one = combined_bytes(type), own = static_cast<simt::size_t>(counts == nullptr ? each : counts[comm->rank]);
    void* const sum = this->allocate(static_cast<simt::size_t>(all) * of_one + 1);
    int const bad = allreduce(values == in_place() ? result : values, sum, static_cast<int>(all), type, op, comm);
    detail::copy_bytes(result, static_cast<char*>(sum) + before * of_one, own * of_one);
    this->deallocate(sum);
    return bad;
  }

  // Gives rank r the combined values of ranks 0 to r.
  GPUHEAP_FN int scan(void const* values, void* result, int count, datatype type, operation op, communicator* comm) const {
    if (int const bad = check_reduction(values, count, type, op, 0, comm); bad != success) return this->answer(comm, bad);
    if (result == nullptr && count != 0) return this->answer(comm, err_buffer);
    simt::size_t const bytes = static_cast<simt::size_t>(count) * combined_bytes(type);
    if (values != in_place()) detail::copy_bytes(result, values, bytes);
    return this->answer(comm, combine_from(0, result, count, type, op, comm));
  }
  // Gives rank r the combined values of ranks 0 to r - 1. The result of rank 0 does not change.
  GPUHEAP_FN int exscan(void const* values, void* result, int count, datatype type, operation op, communicator* comm) const {
    if (int const bad = check_reduction(values, count, type, op, 0, comm); bad != success) return this->answer(comm, bad);
    simt::size_t const bytes = static_cast<simt::size_t>(count) * combined_bytes(type);
    int const tag = this->next_tag(comm);
    if (comm->rank + 1 < this->size_of(comm)) this->put(comm, comm->rank + 1, tag, values == in_place() ? result : values, bytes);
    if (comm->rank > 0) (void)this->get(comm, comm->rank - 1, tag, result, bytes);
    return this->answer(comm, combine_from(1, result, count, type, op, comm));
  }

  // Gathers `num_sent` elements of each rank at the root, in the order of the ranks. Only the root uses the arguments of the receive.
  GPUHEAP_FN int gather(void const* sent, int num_sent, datatype sent_type, void* received, int num_received, datatype received_type,
                        int root, communicator* comm) const {
    return gather_parts(sent, num_sent, sent_type, received, root, comm, even_parts{num_received, received_type});
  }
  // Gathers up to counts[r] elements of rank r at displacements[r], which also counts elements.
  GPUHEAP_FN int gatherv(void const* sent, int num_sent, datatype sent_type, void* received, int const* counts, int const* displacements,
                         datatype received_type, int root, communicator* comm) const {
    return gather_parts(sent, num_sent, sent_type, received, root, comm, listed_parts{counts, displacements, received_type});
  }
  GPUHEAP_FN int scatter(void const* sent, int num_sent, datatype sent_type, void* received, int num_received, datatype received_type,
                         int root, communicator* comm) const {
    return scatter_parts(sent, received, num_received, received_type, root, comm, even_parts{num_sent, sent_type});
  }
  GPUHEAP_FN int scatterv(void const* sent, int const* counts, int const* displacements, datatype sent_type, void* received,
                          int num_received, datatype received_type, int root, communicator* comm) const {
    return scatter_parts(sent, received, num_received, received_type, root, comm, listed_parts{counts, displacements, sent_type});
  }
  GPUHEAP_FN int allgather(void const* sent, int num_sent, datatype sent_type, void* received, int num_received, datatype received_type,
                           communicator* comm) const {
    if (int const bad = this->check(received, num_received, received_type, comm); bad != success) return this->answer(comm, bad);
    return gather_to_all(sent, num_sent, sent_type, received, comm, even_parts{num_received, received_type});
  }
  GPUHEAP_FN int allgatherv(void const* sent, int num_sent, datatype sent_type, void* received, int const* counts, int const* displacements,
                            datatype received_type, communicator* comm) const {
    return gather_to_all(sent, num_sent, sent_type, received, comm, listed_parts{counts, displacements, received_type});
  }

  // Sends `num_sent` elements to each rank, and receives `num_received` from each, in the order of the ranks.
  GPUHEAP_FN int alltoall(void const* sent, int num_sent, datatype sent_type, void* received, int num_received, datatype received_type,
                          communicator* comm) const {
    return exchange_parts(sent, received, comm, even_parts{num_sent, sent_type}, even_parts{num_received, received_type});
  }
  GPUHEAP_FN int alltoallv(void const* sent, int const* sent_counts, int const* sent_displacements, datatype sent_type, void* received,
                           int const* received_counts, int const* received_displacements, datatype received_type,
                           communicator* comm) const {
    return exchange_parts(sent, received, comm, listed_parts{sent_counts, sent_displacements, sent_type},
                          listed_parts{received_counts, received_displacements, received_type});
  }
  // The same, with a datatype for each rank, and displacements in bytes.
  GPUHEAP_FN int alltoallw(void const* sent, int const* sent_counts, int const* sent_displacements, datatype const* sent_types,
                           void* received, int const* received_counts, int const* received_displacements, datatype const* received_types,
                           communicator* comm) const {
    return exchange_parts(sent, received, comm, typed_parts{sent_counts, sent_displacements, sent_types},
                          typed_parts{received_counts, received_displacements, received_types});
  }

  // ---- buffers that a program attaches for MPI_Bsend. No call uses them, since every send copies into the heap; detaching returns the
  // attached buffer

  GPUHEAP_FN int buffer_attach(void* buffer, int bytes) const {
    if (this->mine().attached != nullptr || bytes < 0) return this->answer(nullptr, err_buffer);
    this->mine().attached = buffer;
    this->mine().attached_bytes = bytes;
    return success;
  }
  GPUHEAP_FN int buffer_detach(void** buffer, int* bytes) const {
    if (this->mine().attached == nullptr) return this->answer(nullptr, err_buffer);
    *buffer = this->mine().attached;
    *bytes = this->mine().attached_bytes;
    this->mine().attached = nullptr;
    return success;
  }

  // ---- reduction operations that the program defines

  GPUHEAP_FN int op_create(user_operation::function combine, int commutes, operation* made) const {
    auto* const op = static_cast<user_operation*>(this->obtain(sizeof(user_operation)));
    if (op == nullptr) return this->answer(nullptr, err_no_mem);
    *op = {combine, commutes != 0};
    *made = static_cast<operation>(reinterpret_cast<simt::uintptr_t>(op));
    return success;
  }
  GPUHEAP_FN int op_free(operation* op) const {
    if (op == nullptr || !is_users(*op)) return this->answer(nullptr, err_op);
    this->deallocate(operation_of(*op));
    *op = operation::null;
    return success;
  }

 private:
  using base::check_comm;

  // The position, in bytes, and the type of each rank's part in a buffer. even_parts: one count for all. listed_parts: a count and a
  // displacement in elements for each rank. typed_parts: also a type for each rank, and displacements in bytes.
  struct even_parts {
    int each;
    datatype element;
    [[nodiscard]] GPUHEAP_FN bool valid(int) const { return each >= 0; }
    [[nodiscard]] GPUHEAP_FN simt::size_t count(int) const { return static_cast<simt::size_t>(each); }
    [[nodiscard]] GPUHEAP_FN datatype type(int) const { return element; }
    [[nodiscard]] GPUHEAP_FN long long place(int rank) const { return static_cast<long long>(each) * rank * extent_of(element); }
  };
  struct listed_parts {
    int const* counts;
    int const* displacements;
    datatype element;
    [[nodiscard]] GPUHEAP_FN bool valid(int size) const { return displacements != nullptr && are_counts(counts, size); }
    [[nodiscard]] GPUHEAP_FN simt::size_t count(int rank) const { return static_cast<simt::size_t>(counts[rank]); }
    [[nodiscard]] GPUHEAP_FN datatype type(int) const { return element; }
    [[nodiscard]] GPUHEAP_FN long long place(int rank) const { return displacements[rank] * extent_of(element); }
  };
  struct typed_parts {
    int const* counts;
    int const* displacements;
    datatype const* types;
    [[nodiscard]] GPUHEAP_FN bool valid(int size) const { return displacements != nullptr && types != nullptr && are_counts(counts, size); }
    [[nodiscard]] GPUHEAP_FN simt::size_t count(int rank) const { return static_cast<simt::size_t>(counts[rank]); }
    [[nodiscard]] GPUHEAP_FN datatype type(int rank) const { return types[rank]; }
    [[nodiscard]] GPUHEAP_FN long long place(int rank) const { return displacements[rank]; }
  };
  [[nodiscard]] GPUHEAP_FN static bool are_counts(int const* counts, int size) {
    if (counts == nullptr) return false;
    for (int i = 0; i < size; ++i) {
      if (counts[i] < 0) return false;
    }
    return true;
  }
  // The bytes of data of a rank's part.
  template <class Parts>
  [[nodiscard]] GPUHEAP_FN static simt::size_t bytes_of_part(Parts const& parts, int rank) {
    return parts.count(rank) * bytes_of(parts.type(rank));
  }
  template <class Parts>
  [[nodiscard]] GPUHEAP_FN int check_parts(Parts const& parts, int size) const {
    if (!parts.valid(size)) return err_count;
    for (int i = 0; i < size; ++i) {
      if (!is_datatype(parts.type(i))) return err_type;
    }
    return success;
  }

  [[nodiscard]] GPUHEAP_FN int check_rooted(void const* buffer, int count, datatype type, int root, communicator const* comm) const {
    int const bad = this->check(buffer, count, type, comm);
    return bad != success ? bad : this->is_member(comm, root) ? success : err_root;
  }
  [[nodiscard]] GPUHEAP_FN int check_reduction(void const* buffer, int count, datatype type, operation op, int root,
                                               communicator const* comm) const {
    int const bad = check_rooted(buffer, count, type, root, comm);
    return bad != success ? bad : can_combine(op, type) ? success : err_op;
  }
  // The bytes of an element, with its gaps: reductions send and combine elements as they lie in memory.
  [[nodiscard]] GPUHEAP_FN static simt::size_t combined_bytes(datatype type) { return static_cast<simt::size_t>(extent_of(type)); }

  // Combines another rank's message with `own`. With `lower`, the other rank's values are the left operands.
  GPUHEAP_FN int get_combined(communicator const* comm, int from, int tag, void* own, int count, datatype type, operation op,
                              bool lower = false) const {
    message* const m = this->await_message({this->collective_context_of(comm), from, tag});
    simt::size_t const bytes = static_cast<simt::size_t>(count) * combined_bytes(type);
    bool const fits = m->bytes == bytes;
    if (fits && lower) {
      combine(op, type, m->data(), own, static_cast<simt::size_t>(count));
      detail::copy_bytes(own, m->data(), bytes);
    } else if (fits) {
      combine(op, type, own, m->data(), static_cast<simt::size_t>(count));
    }
    this->free_message(m);
    return fits ? success : err_truncate;
  }

  // Broadcasts the root's elements along a binomial tree. With ranks counted from the root, rank r receives from the rank whose number is r
  // with its lowest set bit cleared.
  GPUHEAP_FN int spread(void* buffer, simt::size_t count, datatype type, int root, communicator* comm) const {
    int const size = this->size_of(comm), tag = this->next_tag(comm);
    int const from_root = (comm->rank - root + size) % size;
    int error = success;
    int bit = 1;
    // Ends: at the lowest bit of from_root, or after log2 size passes.
    while (bit < size && (from_root & bit) == 0) bit *= 2;
    if (from_root != 0) error = this->get(comm, (from_root - bit + root) % size, tag, buffer, count * bytes_of(type), type);
    for (bit /= 2; bit > 0; bit /= 2) {
      if (from_root + bit < size) this->put(comm, (from_root + bit + root) % size, tag, buffer, count, type);
    }
    return error;
  }

  // Reduces along the same tree, from the leaves to the root. Each rank combines the values in the message that it sends upward.
  GPUHEAP_FN int collect_sum(void const* values, void* result, int count, datatype type, operation op, int root, communicator* comm) const {
    int const size = this->size_of(comm), tag = this->next_tag(comm);
    int const from_root = (comm->rank - root + size) % size;
    simt::size_t const bytes = static_cast<simt::size_t>(count) * combined_bytes(type);
    message* const up = from_root == 0 ? nullptr : this->make(comm, tag, bytes);
    void* const sum = up == nullptr ? result : static_cast<void*>(up->data());
    if (values != in_place()) detail::copy_bytes(sum, values, bytes);
    int error = success;
    int bit = 1;
    for (; bit < size && (from_root & bit) == 0; bit *= 2) {
      if (from_root + bit >= size) continue;
      int const bad = get_combined(comm, (from_root + bit + root) % size, tag, sum, count, type, op);
      if (bad != success) error = bad;
    }
    if (up != nullptr) detail::push(this->rank_at(comm, (from_root - bit + root) % size), up);
    return error;
  }

  // In each rank from `first` on, combines the rank's values with those of all ranks from `first` up to that rank.
  GPUHEAP_FN int combine_from(int first, void* result, int count, datatype type, operation op, communicator* comm) const {
    simt::size_t const bytes = static_cast<simt::size_t>(count) * combined_bytes(type);
    int const size = this->size_of(comm), tag = this->next_tag(comm);
    int error = success;
    // Before a pass, `result` combines the values of the last `distance` ranks up to this one.
    for (int distance = 1; distance < size && comm->rank >= first; distance *= 2) {
      if (comm->rank + distance < size) this->put(comm, comm->rank + distance, tag, result, bytes);
      if (comm->rank - first >= distance) {
        if (int const bad = get_combined(comm, comm->rank - distance, tag, result, count, type, op, true); bad != success) error = bad;
      }
    }
    return error;
  }

  // Gathers at rank 0, which then broadcasts the data of all parts.
  template <class Parts>
  GPUHEAP_FN int gather_to_all(void const* sent, int num_sent, datatype sent_type, void* received, communicator* comm, Parts parts) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    int const size = this->size_of(comm), own = comm->rank;
    if (int const bad = check_parts(parts, size); bad != success) return this->answer(comm, bad);
    auto* const all = static_cast<char*>(received);
    // With in_place(), this rank's part is already at its position in `received`, also at the root.
    bool const stays = sent == in_place();
    void const* const from = !stays ? sent : own == 0 ? in_place() : all + parts.place(own);
    int const count = stays ? static_cast<int>(parts.count(own)) : num_sent;
    int const bad = gather_parts(from, count, stays ? parts.type(own) : sent_type, received, 0, comm, parts);
    if (bad != success) return bad;
    simt::size_t bytes = 0;
    for (int i = 0; i < size; ++i) bytes += bytes_of_part(parts, i);
    auto* const data = static_cast<char*>(this->allocate(bytes + 1));
    auto const each_part = [&](auto&& copy) {
      simt::size_t at = 0;
      for (int i = 0; i < size; ++i) {
        copy(data + at, all + parts.place(i), i);
        at += bytes_of_part(parts, i);
      }
    };
    if (own == 0) each_part([&](char* to, char* part, int i) { detail::pack(to, part, parts.count(i), parts.type(i)); });
    int const error = spread(data, bytes, datatype::byte, 0, comm);
    if (own != 0)
      each_part([&](char* part_data, char* part, int i) { detail::unpack(part, part_data, bytes_of_part(parts, i), parts.type(i)); });
    this->deallocate(data);
    return this->answer(comm, error);
  }

  // Copies a part that stays in its rank from one buffer to the other.
  GPUHEAP_FN int keep_part(void const* from, simt::size_t count, datatype type, void* to, simt::size_t room, datatype to_type) const {
    simt::size_t const bytes = count * bytes_of(type), taken = bytes < room ? bytes : room;
    if (is_plain(type)) {
      detail::unpack(to, from, taken, to_type);
    } else if (bytes != 0) {
      void* const data = this->allocate(bytes);
      detail::pack(data, from, count, type);
      detail::unpack(to, data, taken, to_type);
      this->deallocate(data);
    }
    return bytes > room ? err_truncate : success;
  }

  // The root takes the messages in the order of their arrival; each message names its sender.
  template <class Parts>
  GPUHEAP_FN int gather_parts(void const* sent, int num_sent, datatype sent_type, void* received, int root, communicator* comm,
                              Parts parts) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    if (!this->is_member(comm, root)) return this->answer(comm, err_root);
    bool const stays = sent == in_place();
    if (stays && comm->rank != root) return this->answer(comm, err_buffer);
    if (int const bad = stays ? success : check_rooted(sent, num_sent, sent_type, root, comm); bad != success) {
      return this->answer(comm, bad);
    }
    simt::size_t const count = stays ? 0 : static_cast<simt::size_t>(num_sent);
    if (comm->rank != root) {
      this->put(comm, root, this->next_tag(comm), sent, count, sent_type);
      return success;
    }
    int const size = this->size_of(comm);
    if (int const bad = check_parts(parts, size); bad != success) return this->answer(comm, bad);
    int const tag = this->next_tag(comm);
    auto* const all = static_cast<char*>(received);
    int error = success;
    if (!stays) error = keep_part(sent, count, sent_type, all + parts.place(root), bytes_of_part(parts, root), parts.type(root));
    for (int i = 1; i < size; ++i) {
      message* const m = this->await_message({this->collective_context_of(comm), any_source, tag});
      int const from = m->source;
      int const bad = this->take(m, all + parts.place(from), bytes_of_part(parts, from), parts.type(from));
      if (bad != success) error = bad;
    }
    return this->answer(comm, error);
  }

  template <class Parts>
  GPUHEAP_FN int scatter_parts(void const* sent, void* received, int num_received, datatype received_type, int root, communicator* comm,
                               Parts parts) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    if (!this->is_member(comm, root)) return this->answer(comm, err_root);
    bool const stays = received == in_place();
    if (stays && comm->rank != root) return this->answer(comm, err_buffer);
    if (int const bad = stays ? success : check_rooted(received, num_received, received_type, root, comm); bad != success) {
      return this->answer(comm, bad);
    }
    simt::size_t const room = stays ? 0 : static_cast<simt::size_t>(num_received) * bytes_of(received_type);
    if (comm->rank != root) return this->answer(comm, this->get(comm, root, this->next_tag(comm), received, room, received_type));
    int const size = this->size_of(comm);
    if (int const bad = check_parts(parts, size); bad != success) return this->answer(comm, bad);
    int const tag = this->next_tag(comm);
    auto const* const all = static_cast<char const*>(sent);
    int error = success;
    for (int to = 0; to < size; ++to) {
      char const* const part = all + parts.place(to);
      if (to != root) {
        this->put(comm, to, tag, part, parts.count(to), parts.type(to));
      } else if (!stays) {
        error = keep_part(part, parts.count(to), parts.type(to), received, room, received_type);
      }
    }
    return this->answer(comm, error);
  }

  // Each rank makes one bundle of all its messages.
  template <class Parts>
  GPUHEAP_FN int exchange_parts(void const* sent, void* received, communicator* comm, Parts sent_parts, Parts parts) const {
    if (sent == in_place()) {
      sent_parts = parts;
      sent = received;
    }
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    int const size = this->size_of(comm), own = comm->rank, tag = this->next_tag(comm);
    if (int const bad = check_parts(sent_parts, size); bad != success) return this->answer(comm, bad);
    if (int const bad = check_parts(parts, size); bad != success) return this->answer(comm, bad);
    auto const* const from = static_cast<char const*>(sent);
    auto* const to = static_cast<char*>(received);
    if (size > 1) {
      simt::size_t total = sizeof(bundle);
      for (int i = 1; i < size; ++i) total += message::block_bytes(bytes_of_part(sent_parts, (own + i) % size));
      auto* const block = static_cast<char*>(this->allocate(total));
      reinterpret_cast<bundle*>(block)->left = static_cast<simt::uint32_t>(size - 1);
      simt::size_t at = sizeof(bundle);
      // Each rank begins with a different receiver.
      for (int i = 1; i < size; ++i) {
        int const receiver = (own + i) % size;
        simt::size_t const bytes = bytes_of_part(sent_parts, receiver);
        auto* const m = reinterpret_cast<message*>(block + at);
        *m = {nullptr, reinterpret_cast<bundle*>(block), bytes, this->collective_context_of(comm), own, tag, nullptr};
        detail::pack(m->data(), from + sent_parts.place(receiver), sent_parts.count(receiver), sent_parts.type(receiver));
        // The bundle lives until the last of its messages is received, so its next message may still be written.
        at += message::block_bytes(bytes);
        detail::push(this->rank_at(comm, receiver), m);
      }
    }
    int error = sent == received ? success
                                 : keep_part(from + sent_parts.place(own), sent_parts.count(own), sent_parts.type(own),
                                             to + parts.place(own), bytes_of_part(parts, own), parts.type(own));
    for (int i = 1; i < size; ++i) {
      message* const m = this->await_message({this->collective_context_of(comm), any_source, tag});
      int const source = m->source;
      int const bad = this->take(m, to + parts.place(source), bytes_of_part(parts, source), parts.type(source));
      if (bad != success) error = bad;
    }
    return this->answer(comm, error);
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi
