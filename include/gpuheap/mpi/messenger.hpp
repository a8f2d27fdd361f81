// Point-to-point messages of one rank: send, receive, probe, and the handling of errors. Device code.
//
// A send copies the bytes into a block of the heap, pushes the block to the receiver's inbox and returns (an eager send). In each call that
// looks for messages, a rank takes all messages of its inbox, gives each to the oldest posted receive that matches, and keeps the others in
// order. So a rank receives the messages of another rank on one communicator in the order in which they were sent.
//
// Waiting: a rank reads its own inbox again and again, with a pause between two reads (simt::back_off). It holds no lock meanwhile. By
// independent thread scheduling (from compute capability 7.0 on), lanes of one warp may wait for each other as any threads may.
#pragma once

#include <gpuheap/mpi/datatypes.hpp>
#include <gpuheap/simt/atomic.hpp>
#include <gpuheap/simt/warp.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

// A view of one rank. Only that rank's thread may use it. Heap: a heap_ref of any allocator that frees individually.
template <class Heap>
class messenger {
 public:
  messenger() = default;
  GPUHEAP_FN messenger(world_state* world, unsigned rank, Heap const& heap) : world_{world}, mine_{world->ranks + rank}, heap_{heap} {}

  // The communicator of all ranks.
  [[nodiscard]] GPUHEAP_FN communicator* world() const { return &mine_->world; }
  [[nodiscard]] GPUHEAP_FN Heap const& heap() const { return heap_; }

  // Ends all ranks: this one now, each other one at its next call that waits or tests. The host gets `code` and this rank's number, from
  // the first of several aborts.
  [[noreturn]] GPUHEAP_FN void abort(int code) const { end_all(code, success); }

  // The same, for a rank that gets no memory from the heap while other ranks depend on it.
  [[noreturn]] GPUHEAP_FN void end_for_memory() const { end_all(err_no_mem, err_no_mem); }

  // Sets the effect of this rank's later errors in calls on `comm`. It is `fatal` at first.
  GPUHEAP_FN int comm_set_errhandler(communicator* comm, error_handler what) const {
    if (comm == nullptr) return answer(comm, err_comm);
    comm->errors = what;
    return success;
  }

  // Sends `count` elements to rank `to` (proc_null: to no rank). Returns without waiting for the receiver; the program may then use the
  // buffer again. err_no_mem: the heap has no memory for the message.
  GPUHEAP_FN int send(void const* buffer, int count, datatype type, int to, int tag, communicator* comm) const {
    return send_noted(buffer, count, type, to, tag, comm, nullptr);
  }
  // The same, and waits until the receiver has taken the message.
  GPUHEAP_FN int ssend(void const* buffer, int count, datatype type, int to, int tag, communicator* comm) const {
    simt::uint32_t received = to == proc_null ? 1 : 0;
    // The receiver's thread sets this word, so it must lie in global memory and not in this thread's stack frame.
    auto* const noted = static_cast<simt::uint32_t*>(obtain(sizeof(simt::uint32_t)));
    if (noted == nullptr) return answer(comm, err_no_mem);
    *noted = received;
    int const sent = send_noted(buffer, count, type, to, tag, comm, noted);
    simt::back_off pause;
    // Ends: when the receiver has taken the message, which is the program's promise; or when another rank aborts. acquire: pairs with the
    // release in free_message(), so this thread frees the word after the receiver's store. Blocking.
    GPUHEAP_NO_UNROLL
    while (sent == success && simt::global_ref<simt::uint32_t>{*noted}.load(simt::acquire) == 0) {
      make_progress();
      end_if_aborted();
      pause.wait();
    }
    deallocate(noted);
    return sent;
  }

  // Waits for a message of rank `from` (or any_source; proc_null: no message) with `tag` (or any_tag). For a message that is longer than
  // the buffer the result is err_truncate: the buffer gets the part that fits, and the status has its size. `result` may be nullptr.
  GPUHEAP_FN int recv(void* buffer, int count, datatype type, int from, int tag, communicator* comm, status* result) const {
    request one;
    if (int const bad = start(one, buffer, count, type, from, tag, comm); bad != success) return answer(comm, bad);
    await(one);
    if (result != nullptr) {
      int const before = result->MPI_ERROR;  // calls for one message leave this member alone (MPI 3.1, section 3.2.5)
      *result = one.result;
      result->MPI_ERROR = before;
    }
    return answer(comm, one.result.MPI_ERROR);
  }

  // As send(). The request is done from the start, since send() never waits.
  GPUHEAP_FN int isend(void const* buffer, int count, datatype type, int to, int tag, communicator* comm, request** made) const {
    if (made == nullptr) return answer(comm, err_request);
    *made = nullptr;
    int const sent = send(buffer, count, type, to, tag, comm);
    if (sent == success) *made = &mine_->sent;
    return sent;
  }

  // Begins a receive. The program must not use the buffer until wait() has ended the receive. The request is a block of the heap.
  GPUHEAP_FN int irecv(void* buffer, int count, datatype type, int from, int tag, communicator* comm, request** made) const {
    if (made == nullptr) return answer(comm, err_request);
    *made = nullptr;
    if (int const bad = check_receive(buffer, count, type, from, tag, comm); bad != success) return answer(comm, bad);
    auto* const r = static_cast<request*>(obtain(sizeof(request)));
    if (r == nullptr) return answer(comm, err_no_mem);
    if (is_derived(type)) ++layout_of(type)->users;
    begin(*r, buffer, count, type, from, tag, comm);
    *made = r;
    return success;
  }

  // Waits until the request is done, frees it and sets it to null. A null request counts as done. `result` may be nullptr.
  GPUHEAP_FN int wait(request** which, status* result) const {
    if (which == nullptr) return answer(nullptr, err_request);
    status ended = empty_status();
    error_handler errors = error_handler::fatal;
    int const error = finish(*which, ended, errors);
    if (result != nullptr) {
      int const before = result->MPI_ERROR;
      *result = ended;
      result->MPI_ERROR = before;
    }
    return errors == error_handler::fatal ? answer(nullptr, error) : error;
  }
  // The same for `count` requests. If any of them failed, the result is err_in_status, and each status has the error of its request.
  GPUHEAP_FN int waitall(int count, request** which, status* results) const {
    if (count < 0) return answer(nullptr, err_count);
    int failed = success;
    bool fatal = false;
    for (int i = 0; i < count; ++i) {
      status ended = empty_status();
      error_handler errors = error_handler::fatal;
      int const error = finish(which[i], ended, errors);
      ended.MPI_ERROR = error;
      if (results != nullptr) results[i] = ended;
      if (error != success) {
        failed = err_in_status;
        fatal = fatal || errors == error_handler::fatal;
      }
    }
    return fatal ? answer(nullptr, failed) : failed;
  }
  // Waits until one of the requests is done, and ends it as wait() does. `index` receives its index, or `undefined` if all requests are
  // null.
  GPUHEAP_FN int waitany(int count, request** which, int* index, status* result) const {
    simt::back_off pause;
    // Ends: when a request is done, which is the program's promise; or when another rank aborts. Blocking.
    GPUHEAP_NO_UNROLL
    while (true) {
      int done = 0;
      if (int const bad = testany(count, which, index, &done, result); bad != success || done != 0) return bad;
      pause.wait();
    }
  }
  // If one of the requests is done, ends it as wait() does. `done`: whether one was done, or all are null.
  GPUHEAP_FN int testany(int count, request** which, int* index, int* done, status* result) const {
    if (count < 0) return answer(nullptr, err_count);
    make_progress();
    end_if_aborted();
    bool any = false;
    for (int i = 0; i < count; ++i) {
      any = any || which[i] != nullptr;
      if (which[i] == nullptr || !which[i]->done) continue;
      *index = i;
      *done = 1;
      return wait(which + i, result);
    }
    *index = undefined;
    *done = !any;
    if (!any && result != nullptr) *result = empty_status();
    return success;
  }
  // Waits until at least one of the requests is done, and ends all that are. `num_done` receives their number, and `indices` their indices.
  GPUHEAP_FN int waitsome(int count, request** which, int* num_done, int* indices, status* results) const {
    int first = 0;
    status of_first = empty_status();
    if (int const bad = waitany(count, which, &first, &of_first); bad != success) return bad;
    *num_done = first == undefined ? undefined : 1;
    if (first == undefined) return success;
    indices[0] = first;
    if (results != nullptr) results[0] = of_first;
    for (int i = 0; i < count; ++i) {
      if (which[i] == nullptr || !which[i]->done) continue;
      indices[*num_done] = i;
      int const bad = wait(which + i, results == nullptr ? nullptr : results + *num_done);
      ++*num_done;
      if (bad != success) return bad;
    }
    return success;
  }
  // If all of the requests are done, ends them. `done`: whether they were.
  GPUHEAP_FN int testall(int count, request** which, int* done, status* results) const {
    make_progress();
    end_if_aborted();
    *done = 1;
    for (int i = 0; i < count; ++i) {
      if (which[i] != nullptr && !which[i]->done) *done = 0;
    }
    return *done != 0 ? waitall(count, which, results) : success;
  }

  // If the request is done, ends it as wait() does. `done`: whether it was.
  GPUHEAP_FN int test(request** which, int* done, status* result) const {
    if (which == nullptr || done == nullptr) return answer(nullptr, err_request);
    make_progress();
    end_if_aborted();
    *done = *which == nullptr || (*which)->done;
    return *done ? wait(which, result) : success;
  }

  // Sends one message and receives another. The send does not wait for the receive.
  GPUHEAP_FN int sendrecv(void const* sent, int num_sent, datatype sent_type, int to, int sent_tag, void* received, int num_received,
                          datatype received_type, int from, int received_tag, communicator* comm, status* result) const {
    if (int const bad = check_receive(received, num_received, received_type, from, received_tag, comm); bad != success) {
      return answer(comm, bad);
    }
    if (int const bad = send(sent, num_sent, sent_type, to, sent_tag, comm); bad != success) return bad;
    return recv(received, num_received, received_type, from, received_tag, comm, result);
  }

  // The same, with one buffer for both messages.
  GPUHEAP_FN int sendrecv_replace(void* buffer, int count, datatype type, int to, int sent_tag, int from, int received_tag,
                                  communicator* comm, status* result) const {
    return sendrecv(buffer, count, type, to, sent_tag, buffer, count, type, from, received_tag, comm, result);
  }

  // Waits until there is a message that recv() with these arguments would receive. The message stays where it is.
  GPUHEAP_FN int probe(int from, int tag, communicator* comm, status* result) const {
    if (int const bad = check_envelope(from, tag, comm); bad != success) return answer(comm, bad);
    simt::back_off pause;
    // Ends: when such a message has come, which is the program's promise; or when another rank aborts. Blocking.
    GPUHEAP_NO_UNROLL
    while (!find_early(from, tag, comm, result)) {
      end_if_aborted();
      pause.wait();
    }
    return success;
  }
  // `found`: whether there is now a message that recv() with these arguments would receive. The message stays where it is.
  GPUHEAP_FN int iprobe(int from, int tag, communicator* comm, int* found, status* result) const {
    if (int const bad = check_envelope(from, tag, comm); bad != success) return answer(comm, bad);
    end_if_aborted();
    *found = find_early(from, tag, comm, result);
    return success;
  }

 protected:
  [[nodiscard]] GPUHEAP_FN static simt::uint32_t context_of(communicator const* comm) { return 2 * comm->group->number; }
  [[nodiscard]] GPUHEAP_FN static simt::uint32_t collective_context_of(communicator const* comm) { return context_of(comm) + 1; }
  [[nodiscard]] GPUHEAP_FN static int size_of(communicator const* comm) { return static_cast<int>(comm->group->size); }
  [[nodiscard]] GPUHEAP_FN static bool is_member(communicator const* comm, int rank) { return rank >= 0 && rank < size_of(comm); }
  [[nodiscard]] GPUHEAP_FN rank_state& rank_at(communicator const* comm, int rank) const {
    return world_->ranks[comm->group->world_rank(rank)];
  }
  [[nodiscard]] GPUHEAP_FN world_state& shared() const { return *world_; }
  [[nodiscard]] GPUHEAP_FN rank_state& mine() const { return *mine_; }

  // Returns `error`, or ends all ranks if it is an error and the communicator's handler is fatal. Without a communicator an error is fatal.
  GPUHEAP_FN int answer(communicator const* comm, int error) const {
    if (error != success && (comm == nullptr || comm->errors == error_handler::fatal)) end_all(error, error);
    return error;
  }
  [[nodiscard]] GPUHEAP_FN int check(void const* buffer, int count, datatype type, communicator const* comm) const {
    if (!mine_->initialised || mine_->finalised) return err_other;
    if (comm == nullptr) return err_comm;
    if (count < 0) return err_count;
    if (!is_datatype(type)) return err_type;
    // A derived datatype may contain absolute addresses, and the buffer is then null.
    return buffer == nullptr && count != 0 && !is_derived(type) ? err_buffer : success;
  }

  // Both are out of line, so that a program contains the heap's code once and not in each of the many calls.
  [[nodiscard]] GPUHEAP_COLD void* obtain(simt::size_t bytes) const { return heap_.malloc(bytes); }
  GPUHEAP_COLD void deallocate(void* p) const { heap_.free(p); }

  // Removes one user of a datatype. The last one frees it.
  GPUHEAP_FN void release(type_layout* layout) const {
    if (--layout->users == 0) deallocate(layout);
  }

  // Makes a message of this rank without its contents. nullptr: the heap has no memory for it.
  [[nodiscard]] GPUHEAP_FN message* make_message(communicator const* comm, simt::uint32_t context, int tag, simt::size_t bytes) const {
    auto* const m = static_cast<message*>(obtain(message::block_bytes(bytes)));
    if (m != nullptr) *m = {nullptr, nullptr, bytes, context, comm->rank, tag, nullptr};
    return m;
  }
  GPUHEAP_FN void free_message(message* m) const {
    // release: pairs with the acquire in ssend().
    if (m->received != nullptr) simt::global_ref<simt::uint32_t>{*m->received}.store(1, simt::release);
    bundle* const block = m->within;
    if (block == nullptr) {
      deallocate(m);
      return;
    }
    // acq_rel: the reads of all receivers of the bundle happen before its free by the last one of them.
    if (simt::global_ref<simt::uint32_t>{block->left}.fetch_sub(1, simt::acq_rel) == 1) deallocate(block);
  }

  // Waits for a message and removes it from the kept messages. The caller frees it.
  [[nodiscard]] GPUHEAP_FN message* await_message(envelope const& wanted) const {
    simt::back_off pause;
    // Ends: when the message comes, which its sender sends in the same collective call; or when another rank aborts. Blocking.
    GPUHEAP_NO_UNROLL
    while (true) {
      make_progress();
      if (message* const m = take_early(wanted); m != nullptr) return m;
      end_if_aborted();
      pause.wait();
    }
  }

  GPUHEAP_FN void end_if_aborted() const {
    // relaxed: no other data depends on the word; the host reads the record after the kernel.
    if (simt::global_ref<simt::uint32_t>{world_->abort.raised}.load(simt::relaxed) != 0) simt::end_thread();
  }

  // Frees the messages for this rank that have come and were not received.
  GPUHEAP_FN void free_early_messages() const {
    make_progress();
    // Ends: one pass for each kept message.
    while (mine_->early_first != nullptr) {
      message* const m = mine_->early_first;
      mine_->early_first = m->next;
      free_message(m);
    }
    mine_->early_last = nullptr;
  }

 private:
  GPUHEAP_FN int send_noted(void const* buffer, int count, datatype type, int to, int tag, communicator* comm,
                            simt::uint32_t* received) const {
    if (int const bad = check(buffer, count, type, comm); bad != success) return answer(comm, bad);
    if (tag < 0) return answer(comm, err_tag);
    if (to == proc_null) return success;
    if (!is_member(comm, to)) return answer(comm, err_rank);
    message* const m = make_message(comm, context_of(comm), tag, static_cast<simt::size_t>(count) * bytes_of(type));
    if (m == nullptr) return answer(comm, err_no_mem);
    m->received = received;
    detail::pack(m->data(), buffer, static_cast<simt::size_t>(count), type);
    detail::push(rank_at(comm, to), m);
    return success;
  }

  [[nodiscard]] GPUHEAP_FN static status empty_status() { return {any_source, any_tag, success, 0}; }

  [[noreturn]] GPUHEAP_FN void end_all(int code, int error) const {
    abort_record& record = world_->abort;
    // relaxed, both: only the host reads the record, after the kernel.
    if (simt::global_ref<simt::uint32_t>{record.claimed}.exchange(1, simt::relaxed) == 0) {
      record.rank = static_cast<int>(mine_ - world_->ranks);
      record.code = code;
      record.error = error;
      simt::global_ref<simt::uint32_t>{record.raised}.store(1, simt::relaxed);
    }
    simt::end_thread();
  }

  [[nodiscard]] GPUHEAP_FN int check_envelope(int from, int tag, communicator const* comm) const {
    if (!mine_->initialised || mine_->finalised) return err_other;
    if (comm == nullptr) return err_comm;
    if (tag < 0 && tag != any_tag) return err_tag;
    return from == any_source || from == proc_null || is_member(comm, from) ? success : err_rank;
  }
  [[nodiscard]] GPUHEAP_FN int check_receive(void const* buffer, int count, datatype type, int from, int tag,
                                             communicator const* comm) const {
    int const bad = check(buffer, count, type, comm);
    return bad != success ? bad : check_envelope(from, tag, comm);
  }
  [[nodiscard]] GPUHEAP_FN int start(request& r, void* buffer, int count, datatype type, int from, int tag, communicator* comm) const {
    int const bad = check_receive(buffer, count, type, from, tag, comm);
    if (bad == success) begin(r, buffer, count, type, from, tag, comm);
    return bad;
  }

  // Begins a receive: takes a message that has come already, or posts the request.
  GPUHEAP_FN void begin(request& r, void* buffer, int count, datatype type, int from, int tag, communicator* comm) const {
    r = {nullptr,
         {context_of(comm), from, tag},
         buffer,
         type,
         static_cast<simt::size_t>(count) * bytes_of(type),
         empty_status(),
         comm->errors,
         false};
    if (from == proc_null) {
      r.result.MPI_SOURCE = proc_null;
      r.done = true;
      return;
    }
    if (message* const m = take_early(r.wanted); m != nullptr) {
      deliver(r, m);
      return;
    }
    (mine_->posted_last == nullptr ? mine_->posted_first : mine_->posted_last->next) = &r;
    mine_->posted_last = &r;
  }

  GPUHEAP_FN void await(request& r) const {
    simt::back_off pause;
    // Ends: when a message comes that matches the receive, which is the program's promise; or when another rank aborts. Blocking.
    GPUHEAP_NO_UNROLL
    while (!r.done) {
      make_progress();
      if (r.done) return;
      end_if_aborted();
      pause.wait();
    }
  }

  // Waits until the request is done, and frees it. Returns the error of its message.
  GPUHEAP_FN int finish(request*& which, status& ended, error_handler& errors) const {
    request* const r = which;
    if (r == nullptr) return success;
    which = nullptr;
    if (r == &mine_->sent) return success;
    await(*r);
    ended = r->result;
    errors = r->errors;
    if (is_derived(r->type)) release(layout_of(r->type));
    deallocate(r);
    return ended.MPI_ERROR;
  }

  // Copies the message into the request's buffer, and frees the message.
  GPUHEAP_FN void deliver(request& r, message* m) const {
    bool const fits = m->bytes <= r.capacity;
    simt::size_t const bytes = fits ? static_cast<simt::size_t>(m->bytes) : r.capacity;
    detail::unpack(r.buffer, m->data(), bytes, r.type);
    r.result = {m->source, m->tag, fits ? success : err_truncate, bytes};
    r.done = true;
    free_message(m);
  }

  // Takes all messages of the inbox. Gives each to the oldest posted receive that matches, or keeps it.
  GPUHEAP_COLD void make_progress() const {
    message* m = detail::take_inbox(*mine_);
    // Ends: one pass for each message taken.
    while (m != nullptr) {
      message* const next = m->next;
      m->next = nullptr;
      if (request* const r = take_posted(*m); r != nullptr) {
        deliver(*r, m);
      } else {
        (mine_->early_last == nullptr ? mine_->early_first : mine_->early_last->next) = m;
        mine_->early_last = m;
      }
      m = next;
    }
  }

  // Removes the oldest posted receive that matches the message, and returns it. nullptr: there is none.
  [[nodiscard]] GPUHEAP_FN request* take_posted(message const& m) const {
    request* before = nullptr;
    // Ends: at the end of the list at the latest.
    for (request* r = mine_->posted_first; r != nullptr; before = r, r = r->next) {
      if (!r->wanted.fits(m)) continue;
      (before == nullptr ? mine_->posted_first : before->next) = r->next;
      if (mine_->posted_last == r) mine_->posted_last = before;
      return r;
    }
    return nullptr;
  }
  // Removes the oldest kept message that matches, and returns it. nullptr: there is none.
  [[nodiscard]] GPUHEAP_FN message* take_early(envelope const& wanted) const {
    message* before = nullptr;
    // Ends: at the end of the list at the latest.
    for (message* m = mine_->early_first; m != nullptr; before = m, m = m->next) {
      if (!wanted.fits(*m)) continue;
      (before == nullptr ? mine_->early_first : before->next) = m->next;
      if (mine_->early_last == m) mine_->early_last = before;
      return m;
    }
    return nullptr;
  }
  [[nodiscard]] GPUHEAP_FN bool find_early(int from, int tag, communicator const* comm, status* result) const {
    status seen{proc_null, any_tag, success, 0};
    bool found = from == proc_null;
    if (!found) {
      make_progress();
      envelope const wanted{context_of(comm), from, tag};
      // Ends: at the end of the list at the latest.
      for (message* m = mine_->early_first; m != nullptr && !found; m = m->next) {
        if (!wanted.fits(*m)) continue;
        seen = {m->source, m->tag, success, static_cast<simt::size_t>(m->bytes)};
        found = true;
      }
    }
    if (found && result != nullptr) *result = seen;
    return found;
  }

  world_state* world_ = nullptr;
  rank_state* mine_ = nullptr;
  Heap heap_{};
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi
