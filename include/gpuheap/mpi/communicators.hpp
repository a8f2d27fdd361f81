// MPI's calls for communicators, for groups of ranks, and for Cartesian grids of ranks, as members that one rank calls. Device code.
#pragma once

#include <gpuheap/mpi/type_makers.hpp>

namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi {

template <class Heap>
class communicators : public type_makers<Heap> {
 public:
  using type_makers<Heap>::type_makers;

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

  // Makes a communicator for each color. Its members are ordered by their keys, and by their ranks in `comm` where keys are equal. A rank
  // whose color is `undefined` gets no communicator: `made` is nullptr.
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
      for (int i = 1; i < size; ++i) {
        message* const m = this->await_message({this->collective_context_of(comm), any_source, tag});
        detail::copy_bytes(wishes + m->source, m->data(), sizeof(wish));
        this->free_message(m);
      }
      mine = found_groups(comm, wishes, size, tag);
      this->deallocate(wishes);
    }
    *made = nullptr;
    if (mine.group == nullptr) return success;
    *made = static_cast<communicator*>(allocate(sizeof(communicator)));
    **made = {mine.group, mine.rank, 0, comm->errors, nullptr};
    return success;
  }
  // Makes a communicator with the same members and grid. Its messages are kept apart from those of `comm`.
  GPUHEAP_FN int comm_dup(communicator* comm, communicator** made) const {
    int const bad = comm_split(comm, 0, 0, made);
    if (bad == success && comm->grid != nullptr) {
      (*made)->grid = static_cast<grid_state*>(allocate(sizeof(grid_state)));
      *(*made)->grid = *comm->grid;
    }
    return bad;
  }
  // Frees this rank's handle and sets it to null. Before the call, all messages on the communicator must have been received, and its
  // collective calls must have ended.
  GPUHEAP_FN int comm_free(communicator** comm) const {
    if (comm == nullptr || *comm == nullptr || *comm == this->world()) return this->answer(nullptr, err_comm);
    group_state* const group = (*comm)->group;
    // acq_rel: the accesses of all members come before the free by the last one.
    if (simt::global_ref<simt::uint32_t>{group->members_left}.fetch_sub(1, simt::acq_rel) == 1) this->deallocate(group);
    if ((*comm)->grid != nullptr) this->deallocate((*comm)->grid);
    this->deallocate(*comm);
    *comm = nullptr;
    return success;
  }
  // Compares two communicators. `result`: MPI_IDENT (0), MPI_CONGRUENT (1), MPI_SIMILAR (2) or MPI_UNEQUAL (3).
  GPUHEAP_FN int comm_compare(communicator* a, communicator* b, int* result) const {
    if (a == nullptr || b == nullptr) return this->answer(nullptr, err_comm);
    *result = a->group == b->group ? 0 : compare(*a->group, *b->group);
    if (a->group != b->group && *result == 0) *result = 1;
    return success;
  }

  // ---- groups

  // Makes a group of the members of a communicator.
  GPUHEAP_FN int comm_group(communicator* comm, rank_list** made) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    int const size = this->size_of(comm);
    rank_list* const list = make_list(size, made);
    if (list == nullptr) return this->answer(comm, err_no_mem);
    for (int i = 0; i < size; ++i) list->world_ranks()[i] = comm->group->world_rank(i);
    list->mine = comm->rank;
    return success;
  }
  GPUHEAP_FN int group_size(rank_list const* group, int* size) const {
    *size = group == nullptr ? 0 : group->size;
    return success;
  }
  GPUHEAP_FN int group_rank(rank_list const* group, int* rank) const {
    *rank = group == nullptr ? undefined : group->mine;
    return success;
  }
  // Makes a group of some members of `group`. With `in`: the members whose ranks are in `ranks`, in that order. Without `in`: all other
  // members, in the order of `group`.
  GPUHEAP_FN int group_some(rank_list const* group, int count, int const* ranks, bool in, rank_list** made) const {
    int const size = group == nullptr ? 0 : group->size;
    if (count < 0 || count > size) return this->answer(nullptr, err_arg);
    for (int i = 0; i < count; ++i) {
      if (ranks[i] < 0 || ranks[i] >= size) return this->answer(nullptr, err_rank);
    }
    rank_list* const list = make_list(in ? count : size - count, made);
    if (list == nullptr) return this->answer(nullptr, err_no_mem);
    int next = 0;
    for (int i = 0; i < (in ? count : size); ++i) {
      bool named = false;
      for (int k = 0; !in && k < count; ++k) named = named || ranks[k] == i;
      if (named) continue;
      list->world_ranks()[next++] = group->world_ranks()[in ? ranks[i] : i];
    }
    list->size = next;
    find_self(*list);
    return success;
  }
  // The same for ranks that are given as triples {first, last, step}.
  GPUHEAP_FN int group_ranges(rank_list const* group, int count, int const (*ranges)[3], bool in, rank_list** made) const {
    int const size = group == nullptr ? 0 : group->size;
    auto* const ranks = static_cast<int*>(allocate((static_cast<simt::size_t>(size) + 1) * sizeof(int)));
    int num_ranks = 0;
    bool right = count >= 0;
    for (int i = 0; right && i < count; ++i) {
      int const from = ranges[i][0], to = ranges[i][1], step = ranges[i][2];
      right = step != 0;
      // Ends: each pass advances by the step.
      for (int r = from; right && (step > 0 ? r <= to : r >= to); r += step) {
        right = num_ranks < size;
        if (right) ranks[num_ranks++] = r;
      }
    }
    int const bad = right ? group_some(group, num_ranks, ranks, in, made) : this->answer(nullptr, err_arg);
    this->deallocate(ranks);
    return bad;
  }
  enum class set { all_of_both, in_both, in_first_alone };
  // Makes the union of two groups (the first group, then the members of the second that are not in it), their intersection, or their
  // difference.
  GPUHEAP_FN int group_of_two(rank_list const* a, rank_list const* b, set which, rank_list** made) const {
    int const first = a == nullptr ? 0 : a->size, second = b == nullptr ? 0 : b->size;
    rank_list* const list = make_list(first + second, made);
    if (list == nullptr) return this->answer(nullptr, err_no_mem);
    int next = 0;
    for (int i = 0; i < first; ++i) {
      bool const shared = b != nullptr && place_in(*b, a->world_ranks()[i]) != undefined;
      if (which == set::all_of_both || shared == (which == set::in_both)) list->world_ranks()[next++] = a->world_ranks()[i];
    }
    for (int i = 0; which == set::all_of_both && i < second; ++i) {
      if (a == nullptr || place_in(*a, b->world_ranks()[i]) == undefined) list->world_ranks()[next++] = b->world_ranks()[i];
    }
    list->size = next;
    find_self(*list);
    return success;
  }
  // Translates ranks in the group `from` into ranks in the group `to`; `undefined` for a member that `to` lacks.
  GPUHEAP_FN int group_translate_ranks(rank_list const* from, int count, int const* ranks, rank_list const* to, int* found) const {
    for (int i = 0; i < count; ++i) {
      if (ranks[i] == proc_null) {
        found[i] = proc_null;
        continue;
      }
      if (from == nullptr || ranks[i] < 0 || ranks[i] >= from->size) return this->answer(nullptr, err_rank);
      found[i] = to == nullptr ? undefined : place_in(*to, from->world_ranks()[ranks[i]]);
    }
    return success;
  }
  GPUHEAP_FN int group_compare(rank_list const* a, rank_list const* b, int* result) const {
    int const first = a == nullptr ? 0 : a->size, second = b == nullptr ? 0 : b->size;
    bool same = first == second, similar = same;
    for (int i = 0; similar && i < first; ++i) {
      same = same && a->world_ranks()[i] == b->world_ranks()[i];
      similar = place_in(*b, a->world_ranks()[i]) != undefined;
    }
    *result = same ? 0 : similar ? 2 : 3;
    return success;
  }
  GPUHEAP_FN int group_free(rank_list** group) const {
    if (*group != nullptr) this->deallocate(*group);
    *group = nullptr;
    return success;
  }
  // Makes a communicator of the members of `group`. All members of `comm` call; those outside of the group get nullptr.
  GPUHEAP_FN int comm_create(communicator* comm, rank_list const* group, communicator** made) const {
    // Members may pass different groups in one call, if these share no rank. The first rank of a group serves as its color.
    bool const in = group != nullptr && group->mine != undefined;
    return comm_split(comm, in ? group->world_ranks()[0] : undefined, in ? group->mine : 0, made);
  }

  // The same, but only the members of `group` call, all with the same `tag`.
  GPUHEAP_FN int comm_create_group(communicator* comm, rank_list const* group, int tag, communicator** made) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    if (tag < 0) return this->answer(comm, err_tag);
    *made = nullptr;
    if (group == nullptr || group->mine == undefined) return success;
    // The high bit keeps this tag apart from those of collective calls, which count up from 0.
    int const own_tag = 0x40000000 | (tag & 0x3fffffff);
    membership mine{};
    if (group->mine != 0) {
      (void)get(comm, any_source, own_tag, &mine, sizeof mine);
    } else {
      mine.group = make_group(group->size);
      auto* const world_ranks = reinterpret_cast<int*>(mine.group + 1);
      for (int i = 0; i < group->size; ++i) world_ranks[i] = group->world_ranks()[i];
      for (int i = 1; i < group->size; ++i) {
        membership const theirs{mine.group, i};
        message* const m = make(comm, own_tag, sizeof theirs);
        detail::copy_bytes(m->data(), &theirs, sizeof theirs);
        detail::push(this->shared().ranks[world_ranks[i]], m);
      }
    }
    *made = static_cast<communicator*>(allocate(sizeof(communicator)));
    **made = {mine.group, mine.rank, 0, comm->errors, nullptr};
    return success;
  }

  // ---- grids

  // Makes a communicator of the first ranks of `comm`, as many as a grid of these sizes has places. Ranks follow one another along the last
  // dimension. Other ranks get nullptr.
  GPUHEAP_FN int cart_create(communicator* comm, int dimensions, int const* sizes, int const* periodic, communicator** made) const {
    if (int const bad = check_comm(comm); bad != success) return this->answer(comm, bad);
    if (dimensions < 0 || dimensions > grid_state::most_dimensions) return this->answer(comm, err_arg);
    int places = 1;
    for (int i = 0; i < dimensions; ++i) {
      if (sizes[i] <= 0) return this->answer(comm, err_arg);
      places *= sizes[i];
    }
    if (places > this->size_of(comm)) return this->answer(comm, err_arg);
    if (int const bad = comm_split(comm, comm->rank < places ? 0 : undefined, comm->rank, made); bad != success) return bad;
    if (*made == nullptr) return success;
    auto* const grid = static_cast<grid_state*>(allocate(sizeof(grid_state)));
    *grid = {};
    grid->dimensions = dimensions;
    for (int i = 0; i < dimensions; ++i) {
      grid->sizes[i] = sizes[i];
      grid->periodic[i] = periodic[i] != 0;
    }
    (*made)->grid = grid;
    return success;
  }
  // The coordinates of a rank in the grid, the first `most` of them.
  GPUHEAP_FN int cart_coords(communicator* comm, int rank, int most, int* place) const {
    if (int const bad = check_grid(comm); bad != success) return this->answer(comm, bad);
    if (!this->is_member(comm, rank)) return this->answer(comm, err_rank);
    for (int i = comm->grid->dimensions - 1; i >= 0; --i) {
      if (i < most) place[i] = rank % comm->grid->sizes[i];
      rank /= comm->grid->sizes[i];
    }
    return success;
  }
  // The rank at the coordinates `place`, which wrap around in periodic dimensions.
  GPUHEAP_FN int cart_rank(communicator* comm, int const* place, int* rank) const {
    if (int const bad = check_grid(comm); bad != success) return this->answer(comm, bad);
    int at = 0;
    for (int i = 0; i < comm->grid->dimensions; ++i) {
      int const size = comm->grid->sizes[i];
      int own = place[i];
      if (comm->grid->periodic[i] != 0) own = (own % size + size) % size;
      if (own < 0 || own >= size) return this->answer(comm, err_arg);
      at = at * size + own;
    }
    *rank = at;
    return success;
  }
  // The ranks that lie `by` places before and after this one in one dimension; proc_null for a place outside of the grid.
  GPUHEAP_FN int cart_shift(communicator* comm, int dimension, int by, int* before, int* behind) const {
    if (int const bad = check_grid(comm); bad != success) return this->answer(comm, bad);
    grid_state const& grid = *comm->grid;
    if (dimension < 0 || dimension >= grid.dimensions) return this->answer(comm, err_arg);
    int stride = 1;
    for (int i = dimension + 1; i < grid.dimensions; ++i) stride *= grid.sizes[i];
    int const size = grid.sizes[dimension], own = comm->rank / stride % size;
    auto const rank_at_place = [&](int place) -> int {
      if (grid.periodic[dimension] != 0) place = (place % size + size) % size;
      return place < 0 || place >= size ? proc_null : comm->rank + (place - own) * stride;
    };
    *before = rank_at_place(own - by);
    *behind = rank_at_place(own + by);
    return success;
  }
  GPUHEAP_FN int cart_get(communicator* comm, int most, int* sizes, int* periodic, int* place) const {
    if (int const bad = check_grid(comm); bad != success) return this->answer(comm, bad);
    for (int i = 0; i < comm->grid->dimensions && i < most; ++i) {
      sizes[i] = comm->grid->sizes[i];
      periodic[i] = comm->grid->periodic[i];
    }
    return cart_coords(comm, comm->rank, most, place);
  }
  GPUHEAP_FN int cartdim_get(communicator* comm, int* dimensions) const {
    if (int const bad = check_grid(comm); bad != success) return this->answer(comm, bad);
    *dimensions = comm->grid->dimensions;
    return success;
  }
  // Splits the grid into grids of the dimensions i with keeps[i] != 0, and makes a communicator for each.
  GPUHEAP_FN int cart_sub(communicator* comm, int const* keeps, communicator** made) const {
    if (int const bad = check_grid(comm); bad != success) return this->answer(comm, bad);
    grid_state const old = *comm->grid;
    grid_state kept{};
    int place[grid_state::most_dimensions];
    int color = 0, key = 0;
    (void)cart_coords(comm, comm->rank, grid_state::most_dimensions, place);
    for (int i = 0; i < old.dimensions; ++i) {
      (keeps[i] != 0 ? key : color) = (keeps[i] != 0 ? key : color) * old.sizes[i] + place[i];
      if (keeps[i] == 0) continue;
      kept.sizes[kept.dimensions] = old.sizes[i];
      kept.periodic[kept.dimensions++] = old.periodic[i];
    }
    if (int const bad = comm_split(comm, color, key, made); bad != success) return bad;
    (*made)->grid = static_cast<grid_state*>(allocate(sizeof(grid_state)));
    *(*made)->grid = kept;
    return success;
  }
  // Sets those of the `sizes` that are 0, so that the grid has `places` places. The sizes that it sets are as equal as possible, in falling
  // order.
  GPUHEAP_FN int dims_create(int places, int dimensions, int* sizes) const {
    int open = 0, rest = places;
    for (int i = 0; i < dimensions; ++i) {
      if (sizes[i] < 0 || (sizes[i] > 0 && rest % sizes[i] != 0)) return this->answer(nullptr, err_arg);
      if (sizes[i] > 0) rest /= sizes[i];
      open += sizes[i] == 0;
    }
    if (places < 1 || (open == 0 && rest != 1)) return this->answer(nullptr, err_arg);
    if (open > grid_state::most_dimensions) return this->answer(nullptr, err_arg);
    int found[grid_state::most_dimensions];
    for (int i = 0; i < open; ++i) found[i] = 1;
    // Multiplies the smallest size so far by each prime factor, the largest factor first.
    int factors[32];
    int num_factors = 0;
    for (int f = 2; f * f <= rest; ++f) {
      // Ends: each pass takes a factor out.
      for (; rest % f == 0; rest /= f) factors[num_factors++] = f;
    }
    if (rest > 1) factors[num_factors++] = rest;
    for (int k = num_factors; open > 0 && k > 0; --k) {
      int smallest = 0;
      for (int i = 1; i < open; ++i) smallest = found[i] < found[smallest] ? i : smallest;
      found[smallest] *= factors[k - 1];
    }
    for (int i = 0; i < dimensions; ++i) {
      if (sizes[i] != 0) continue;
      int largest = 0;
      for (int k = 1; k < open; ++k) largest = found[k] > found[largest] ? k : largest;
      sizes[i] = found[largest];
      found[largest] = 0;
    }
    return success;
  }

 protected:
  [[nodiscard]] GPUHEAP_FN int check_comm(communicator const* comm) const {
    if (!this->mine().initialised || this->mine().finalised) return err_other;
    return comm == nullptr ? err_comm : success;
  }
  // The tag of this rank's next collective call on `comm`. It is the same in all members.
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
  GPUHEAP_FN void put(communicator const* comm, int to, int tag, void const* from, simt::size_t count,
                      datatype type = datatype::byte) const {
    message* const m = make(comm, tag, count * bytes_of(type));
    detail::pack(m->data(), from, count, type);
    detail::push(this->rank_at(comm, to), m);
  }
  // Copies a message's elements into a buffer of `capacity` bytes of data, and frees the message.
  GPUHEAP_FN int take(message* m, void* to, simt::size_t capacity, datatype type = datatype::byte) const {
    bool const fits = m->bytes <= capacity;
    detail::unpack(to, m->data(), fits ? static_cast<simt::size_t>(m->bytes) : capacity, type);
    this->free_message(m);
    return fits ? success : err_truncate;
  }
  GPUHEAP_FN int get(communicator const* comm, int from, int tag, void* to, simt::size_t capacity, datatype type = datatype::byte) const {
    return take(this->await_message({this->collective_context_of(comm), from, tag}), to, capacity, type);
  }

 private:
  // `wish`: a rank's arguments of comm_split(). `membership`: its result.
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

  [[nodiscard]] GPUHEAP_FN int check_grid(communicator const* comm) const {
    int const bad = check_comm(comm);
    return bad != success ? bad : comm->grid == nullptr ? err_arg : success;
  }
  // Makes a list with room for `size` ranks. nullptr: the heap has no memory for it.
  [[nodiscard]] GPUHEAP_FN rank_list* make_list(int size, rank_list** made) const {
    auto* const list = static_cast<rank_list*>(this->obtain(sizeof(rank_list) + (static_cast<simt::size_t>(size) + 1) * sizeof(int)));
    if (list != nullptr) *list = {size, undefined};
    *made = list;
    return list;
  }
  [[nodiscard]] GPUHEAP_FN static int place_in(rank_list const& list, int world_rank) {
    for (int i = 0; i < list.size; ++i) {
      if (list.world_ranks()[i] == world_rank) return i;
    }
    return undefined;
  }
  GPUHEAP_FN void find_self(rank_list& list) const { list.mine = place_in(list, this->world()->rank); }
  // MPI_IDENT (0): the same members in the same order. MPI_SIMILAR (2): in another order. MPI_UNEQUAL (3): other members.
  [[nodiscard]] GPUHEAP_FN static int compare(group_state const& a, group_state const& b) {
    if (a.size != b.size) return 3;
    bool same = true;
    for (simt::uint32_t i = 0; i < a.size; ++i) {
      bool found = false;
      for (simt::uint32_t k = 0; k < b.size; ++k) found = found || b.world_rank(static_cast<int>(k)) == a.world_rank(static_cast<int>(i));
      if (!found) return 3;
      same = same && b.world_rank(static_cast<int>(i)) == a.world_rank(static_cast<int>(i));
    }
    return same ? 0 : 2;
  }

  // Makes a group of `size` members. The caller writes their ranks in the world into the array after it.
  [[nodiscard]] GPUHEAP_FN group_state* make_group(int size) const {
    auto const members = static_cast<simt::uint32_t>(size);
    auto* const group = static_cast<group_state*>(allocate(sizeof(group_state) + members * sizeof(int)));
    // relaxed: the number only has to be unique; the members get it by messages.
    simt::uint32_t const number = simt::global_ref<simt::uint32_t>{this->shared().num_groups}.fetch_add(1, simt::relaxed);
    *group = {members, number, reinterpret_cast<int*>(group + 1), 0, 0, members};
    return group;
  }
  // Divides the members into groups by their wishes, and sends each other member its group. Returns this rank's own.
  GPUHEAP_FN membership found_groups(communicator const* comm, wish* wishes, int size, int tag) const {
    sort(wishes, size);
    membership own{};
    // Ends: each pass advances to the first wish of the next color.
    for (int first = 0; first < size;) {
      int const color = wishes[first].color;
      int last = first;
      // Ends: at the last wish at the latest.
      while (last < size && wishes[last].color == color) ++last;
      group_state* group = nullptr;
      if (color != undefined) {
        group = make_group(last - first);
        auto* const world_ranks = reinterpret_cast<int*>(group + 1);
        for (int i = first; i < last; ++i) world_ranks[i - first] = comm->group->world_rank(wishes[i].rank);
      }
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
  // Shellsort, whose gap halves in each pass. It needs no further memory.
  GPUHEAP_FN static void sort(wish* wishes, int size) {
    for (int gap = size / 2; gap > 0; gap /= 2) {
      for (int i = gap; i < size; ++i) {
        wish const moving = wishes[i];
        int at = i;
        // Ends: each pass lowers `at` by the gap.
        for (; at >= gap && moving.before(wishes[at - gap]); at -= gap) wishes[at] = wishes[at - gap];
        wishes[at] = moving;
      }
    }
  }
};

}  // namespace gpuheap::inline GPUHEAP_BACKEND_NAMESPACE::mpi
