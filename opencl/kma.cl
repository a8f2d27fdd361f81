// KMA in OpenCL C 1.2: the generic manager, a heap inside a buffer for kernels to allocate from.
//   R. Spliet, L. Howes, B. R. Gaster, A. L. Varbanescu, "KMA: A Dynamic Memory Manager for OpenCL", GPGPU-7, 2014.
//
//   ulong kma_malloc(__global kma_heap* heap, ulong bytes)   where the block begins in the heap, a multiple of 16; 0: nothing fits, or no
//   bytes int kma_free(__global kma_heap* heap, ulong block)       KMA_DONE, KMA_NULL (block is 0), or what was refused: KMA_FOREIGN,
//   KMA_DOUBLE_FREE ulong kma_usable_size(__global kma_heap* heap, ulong block)   0 where nothing begins
//   __global void* kma_at(__global kma_heap* heap, ulong block)   its address in this kernel; another kernel may see the buffer elsewhere
//
// Any work-item may call, alone, at any time. opencl/include/gpuheap_opencl/kma_heap.hpp makes the heap. Put this text before the program's
// own.
//
// The layout and the algorithm are those of include/gpuheap/allocators/kma.hpp, for a machine of which less is known:
//   - No work-item waits for another, as nothing promises that another of its group runs on. A search that found nothing, while others were
//     moving superblocks, looks at every superblock's word, which says what it is a thread that moves it. Claims of runs that foil each
//     other are made again.
//   - So the queue, in which a reader may have to wait for a writer, is a set of bits (see the room sets there).
//   - Atomics of 32 bits are all it takes. They order nothing in OpenCL 1.2: fences stand where order is needed.
//   - Each work-item asks for itself: a group's requests cannot be joined without a barrier, which all of it would have to reach.
//   - A request may be refused while another work-item has claimed superblocks for a run of more than one that it gives back.
//
// Progress: lock-free. A compare-exchange that fails lost to another work-item's success.

#ifndef KMA_SUPERBLOCK_LOG2
#define KMA_SUPERBLOCK_LOG2 12
#endif
#ifndef KMA_SMALLEST_LOG2
#define KMA_SMALLEST_LOG2 4
#endif
#ifndef KMA_HEADS
#define KMA_HEADS 16
#endif
#define KMA_CLASSES (KMA_SUPERBLOCK_LOG2 - KMA_SMALLEST_LOG2 + 1)
#define KMA_BLOCKS (1u << (KMA_CLASSES - 1))  // of a superblock, at most
#define KMA_WORDS ((KMA_BLOCKS + 31) / 32)    // of bits of a superblock
#define KMA_NONE 0xffffffffu

// A superblock's word: blocks in use, and class + 1 or one of these.
#define KMA_FILL_BITS 12
#define KMA_FILL(word) ((word) & ((1u << KMA_FILL_BITS) - 1))
#define KMA_KIND(word) ((word) >> KMA_FILL_BITS)
#define KMA_WORD(kind, fill) ((uint)(kind) << KMA_FILL_BITS | (uint)(fill))
#define KMA_RUN_HEAD 1000u  // its length is in its first word of bits
#define KMA_RUN_TAIL 1001u

#define KMA_DONE 0
#define KMA_NULL 1
#define KMA_FOREIGN 2
#define KMA_DOUBLE_FREE 3

#ifndef KMA_LOAD
#define KMA_LOAD(at) (*(at))
#endif
// Both acquire and release, for the whole device.
#ifndef KMA_FENCE
#if defined(__OPENCL_C_VERSION__) && __OPENCL_C_VERSION__ >= 300
#define KMA_FENCE() atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device)
#else
#define KMA_FENCE() mem_fence(CLK_GLOBAL_MEM_FENCE)
#endif
#endif

// The heap's head. `..._at`: bytes from here to a part.
typedef struct {
  uint num_superblocks, num_heads;  // num_heads: of each class
  uint num_leaves, num_mids;        // words of a set
  ulong words_at, bits_at, sets_at, superblocks_at;
  uint moves_begun, moves_ended;
  uint run_hint;                       // runs are looked for below this superblock first
  uint runs_foiled;                    // claims of runs that were in vain. Wraps
  uint heads[KMA_CLASSES][KMA_HEADS];  // superblocks that blocks are handed out of now
} kma_heap;

typedef __global kma_heap* kma_heap_ptr;
typedef __global volatile uint* kma_word_ptr;

// A set of superblocks: a bit for each, and one for each word of these that may not be 0. Set 0: the free ones. Set c + 1: those of class c
// that are partly in use.
typedef struct {
  kma_word_ptr leaves;
  kma_word_ptr mids;
} kma_set;

static kma_word_ptr kma_words(kma_heap_ptr heap) { return (kma_word_ptr)((__global char*)heap + heap->words_at); }
static kma_word_ptr kma_bits(kma_heap_ptr heap, uint s) {
  return (kma_word_ptr)((__global char*)heap + heap->bits_at) + (ulong)s * KMA_WORDS;
}
static kma_word_ptr kma_head(kma_heap_ptr heap, uint c, uint h) { return (kma_word_ptr)&heap->heads[c][h]; }
static kma_set kma_set_of(kma_heap_ptr heap, uint number) {
  kma_set set;
  set.leaves = (kma_word_ptr)((__global char*)heap + heap->sets_at) + (ulong)number * (heap->num_leaves + heap->num_mids);
  set.mids = set.leaves + heap->num_leaves;
  return set;
}
static __global void* kma_at(kma_heap_ptr heap, ulong block) { return (__global char*)heap + block; }

static uint kma_lowest_bit(uint x) { return 31u - (uint)clz(x & (0u - x)); }
static uint kma_capacity(uint c) { return KMA_BLOCKS >> c; }
static uint kma_class_for(uint bytes) { return bytes <= (1u << KMA_SMALLEST_LOG2) ? 0u : 32u - (uint)clz(bytes - 1u) - KMA_SMALLEST_LOG2; }
static int kma_has_room(uint word, uint c) { return KMA_KIND(word) == c + 1 && KMA_FILL(word) != 0 && KMA_FILL(word) < kma_capacity(c); }

// ---- moves: while one is under way, a superblock may be nowhere

static void kma_begin_move(kma_heap_ptr heap) {
  atomic_inc((kma_word_ptr)&heap->moves_begun);
  KMA_FENCE();  // who finds that something has left its place sees that it is being moved
}
static void kma_end_move(kma_heap_ptr heap) {
  KMA_FENCE();  // it is in its new place
  atomic_inc((kma_word_ptr)&heap->moves_ended);
}

// ---- sets

static void kma_add(kma_set set, uint s) {
  uint leaf = s / 32;
  KMA_FENCE();  // what the caller has done and seen of the superblock
  atomic_or(&set.leaves[leaf], 1u << (s % 32));
  KMA_FENCE();  // the leaf before its mid
  atomic_or(&set.mids[leaf / 32], 1u << (leaf % 32));
}
// Drops the mid's bit of a leaf that was seen empty, unless it no longer is. A move: others may miss the leaf meanwhile.
static void kma_tidy(kma_set set, uint leaf) {
  uint bit = 1u << (leaf % 32);
  atomic_and(&set.mids[leaf / 32], ~bit);
  KMA_FENCE();  // if an add's bit was there, so is what it added to the leaf
  if (KMA_LOAD(&set.leaves[leaf]) != 0) atomic_or(&set.mids[leaf / 32], bit);
}
// Takes s out; 0: it was not there. Part of a move.
static int kma_take(kma_set set, uint s) {
  uint bit = 1u << (s % 32);
  uint before = atomic_and(&set.leaves[s / 32], ~bit);
  if ((before & bit) == 0) return 0;
  KMA_FENCE();  // what the one who added it had done and seen
  if (before == bit) kma_tidy(set, s / 32);
  return 1;
}
// The first superblock from `from` on that seems to be there, below `behind`; otherwise `behind`.
static uint kma_find(kma_heap_ptr heap, kma_set set, uint from, uint behind) {
  uint leaf = from / 32, num_leaves = (behind + 31) / 32;
  uint bits = from < behind ? KMA_LOAD(&set.leaves[leaf]) & (~0u << (from % 32)) : 0;
  // Ends: `leaf` rises.
  while (bits == 0) {
    uint mid_bits;
    if (++leaf >= num_leaves) return behind;
    mid_bits = KMA_LOAD(&set.mids[leaf / 32]) & (~0u << (leaf % 32));
    if (mid_bits == 0) {
      leaf = leaf / 32 * 32 + 31;
      continue;
    }
    leaf = leaf / 32 * 32 + kma_lowest_bit(mid_bits);
    if (leaf >= num_leaves) return behind;
    bits = KMA_LOAD(&set.leaves[leaf]);
    if (bits == 0) {
      kma_begin_move(heap);
      kma_tidy(set, leaf);
      kma_end_move(heap);
    }
  }
  leaf = leaf * 32 + kma_lowest_bit(bits);
  return leaf < behind ? leaf : behind;
}

// ---- a superblock's word

// Counts in once more for class c, if superblock s still is of it, has a block left, and is free (`was_free`) or not. `start`: how many
// there were.
static int kma_reserve(kma_heap_ptr heap, uint s, uint c, int was_free, uint* start) {
  kma_word_ptr word = kma_words(heap) + s;
  uint seen = KMA_LOAD(word);
  // Ends: a pass that goes on lost the word to another work-item's change.
  while (KMA_KIND(seen) == c + 1 && KMA_FILL(seen) < kma_capacity(c) && (KMA_FILL(seen) == 0) == was_free) {
    uint now = atomic_cmpxchg(word, seen, seen + 1);
    if (now == seen) {
      KMA_FENCE();  // comes after all who gave blocks back
      *start = KMA_FILL(seen);
      return 1;
    }
    seen = now;
  }
  return 0;
}
// Takes superblock s into use as `kind`, if it is free.
static int kma_open(kma_heap_ptr heap, uint s, uint kind) {
  kma_word_ptr word = kma_words(heap) + s;
  uint seen = KMA_LOAD(word);
  // Ends: as above.
  while (KMA_FILL(seen) == 0) {
    uint now = atomic_cmpxchg(word, seen, KMA_WORD(kind, 1));
    if (now == seen) {
      KMA_FENCE();
      return 1;
    }
    seen = now;
  }
  return 0;
}

// Superblock s was taken from where it could be found: it goes where it can be found again.
static void kma_list_if_room(kma_heap_ptr heap, uint s) {
  uint word = KMA_LOAD(kma_words(heap) + s), kind = KMA_KIND(word);
  if (kind != 0 && kind < KMA_CLASSES && kma_has_room(word, kind - 1)) kma_add(kma_set_of(heap, kind), s);
}
// Superblock s, of which one more than `start` blocks are in use, becomes a head. Part of a move.
static void kma_make_head(kma_heap_ptr heap, uint s, uint c, uint h, uint start) {
  uint old;
  if (start + 1 >= kma_capacity(c)) return;
  KMA_FENCE();
  old = atomic_xchg(kma_head(heap, c, h), s);
  KMA_FENCE();
  if (old != KMA_NONE && old != s) kma_list_if_room(heap, old);
}

// ---- the search for a superblock with a block of class c left: its number, with the block reserved, or KMA_NONE

static uint kma_from_head(kma_heap_ptr heap, uint c, uint h, uint* start) {
  uint s = KMA_LOAD(kma_head(heap, c, h)), word;
  int done;
  if (s == KMA_NONE) return KMA_NONE;
  word = KMA_LOAD(kma_words(heap) + s);
  if (KMA_KIND(word) != c + 1 || KMA_FILL(word) >= kma_capacity(c)) return KMA_NONE;
  if (KMA_FILL(word) != 0) return kma_reserve(heap, s, c, 0, start) ? s : KMA_NONE;
  kma_begin_move(heap);
  done = kma_reserve(heap, s, c, 1, start);
  if (done) kma_make_head(heap, s, c, h, *start);
  kma_end_move(heap);
  return done ? s : KMA_NONE;
}
static uint kma_from_room_set(kma_heap_ptr heap, uint c, uint h, uint* start) {
  kma_set set;
  uint s = KMA_NONE, s_in_hand;
  if (c == KMA_CLASSES - 1) return KMA_NONE;  // never partly in use
  set = kma_set_of(heap, c + 1);
  s_in_hand = kma_find(heap, set, 0, heap->num_superblocks);
  // Ends: s_in_hand rises.
  while (s == KMA_NONE && s_in_hand < heap->num_superblocks) {
    kma_begin_move(heap);
    if (kma_take(set, s_in_hand)) {
      if (kma_reserve(heap, s_in_hand, c, 0, start)) {
        s = s_in_hand;
        kma_make_head(heap, s, c, h, *start);
      } else {
        kma_list_if_room(heap, s_in_hand);
      }
    }
    kma_end_move(heap);
    if (s == KMA_NONE) s_in_hand = kma_find(heap, set, s_in_hand + 1, heap->num_superblocks);
  }
  return s;
}
static uint kma_from_free_set(kma_heap_ptr heap, uint c, uint h, uint* start) {
  kma_set set = kma_set_of(heap, 0);
  uint head_before = KMA_LOAD(kma_head(heap, c, h)), s = KMA_NONE, s_in_hand, pass;
  // Each head begins elsewhere.
  uint from = (uint)((ulong)heap->num_superblocks * h / heap->num_heads), behind = heap->num_superblocks;
  for (pass = 0; pass != 2; ++pass) {
    s_in_hand = kma_find(heap, set, from, behind);
    // Ends: s_in_hand rises.
    while (s == KMA_NONE && s_in_hand < behind) {
      kma_begin_move(heap);
      if (kma_take(set, s_in_hand)) {
        uint head_now = KMA_LOAD(kma_head(heap, c, h));
        if (head_now != head_before && head_now != KMA_NONE && kma_has_room(KMA_LOAD(kma_words(heap) + head_now), c)) {
          // Another thread has brought one meanwhile: two are not needed.
          kma_add(set, s_in_hand);
          s = kma_from_head(heap, c, h, start);
          head_before = head_now;
        } else if (kma_open(heap, s_in_hand, c + 1)) {
          s = s_in_hand;
          *start = 0;
          kma_make_head(heap, s, c, h, 0);
        }
      }
      kma_end_move(heap);
      if (s == KMA_NONE) s_in_hand = kma_find(heap, set, s_in_hand + 1, behind);
    }
    if (s != KMA_NONE) return s;
    behind = from;
    from = 0;
  }
  return KMA_NONE;
}
// Every superblock's word.
static uint kma_from_anywhere(kma_heap_ptr heap, uint c, uint h, uint* start) {
  uint s;
  for (s = 0; s != heap->num_superblocks; ++s) {
    uint word = KMA_LOAD(kma_words(heap) + s);
    // Ends: a pass that goes on lost the word to another work-item's change.
    while (KMA_FILL(word) == 0 || kma_has_room(word, c)) {
      int opened = 0;
      if (KMA_FILL(word) != 0) {
        if (kma_reserve(heap, s, c, 0, start)) return s;
      } else {
        kma_begin_move(heap);
        opened = kma_open(heap, s, c + 1);
        *start = 0;
        if (opened) kma_make_head(heap, s, c, h, 0);
        kma_end_move(heap);
      }
      if (opened) return s;
      // The latest: a load might still say what the exchange has found not to be so.
      word = atomic_or(kma_words(heap) + s, 0u);
    }
  }
  return KMA_NONE;
}
static uint kma_search(kma_heap_ptr heap, uint c, uint h, uint* start) {
  uint ended = KMA_LOAD((kma_word_ptr)&heap->moves_ended), begun, s, other;
  KMA_FENCE();  // those that have ended are done
  begun = KMA_LOAD((kma_word_ptr)&heap->moves_begun);
  s = kma_from_head(heap, c, h, start);
  if (s == KMA_NONE) s = kma_from_room_set(heap, c, h, start);
  if (s == KMA_NONE) s = kma_from_free_set(heap, c, h, start);
  for (other = 0; s == KMA_NONE && other != heap->num_heads; ++other) s = kma_from_head(heap, c, other, start);
  if (s != KMA_NONE) return s;
  KMA_FENCE();
  // None was under way, and none has begun: what was found is how it was.
  if (ended == begun && KMA_LOAD((kma_word_ptr)&heap->moves_begun) == begun) return KMA_NONE;
  return kma_from_anywhere(heap, c, h, start);
}

// ---- blocks of a superblock

// Takes a block of superblock s, from `start` on and around. The caller has a reservation.
static uint kma_take_block(kma_heap_ptr heap, uint s, uint c, uint start) {
  kma_word_ptr bits = kma_bits(heap, s);
  uint capacity = kma_capacity(c), block = start;
  // Ends: the reservation means that a bit is clear for the caller at any time. A thread that goes around in vain saw others take and give
  // back.
  for (;;) {
    uint first = block / 32 * 32, bit = 1u << (block % 32), clear;
    uint before = atomic_or(&bits[block / 32], bit);
    if ((before & bit) == 0) {
      KMA_FENCE();  // comes after the block's last owner
      return block;
    }
    clear = ~before & (~0u << (block % 32));
    if (capacity - first < 32) clear &= (1u << (capacity - first)) - 1;
    block = clear != 0 ? first + kma_lowest_bit(clear) : first + 32 < capacity ? first + 32 : 0;
  }
}

// ---- runs of superblocks

static void kma_give_superblocks(kma_heap_ptr heap, uint first, uint n) {
  uint s;
  KMA_FENCE();
  for (s = first; s != first + n; ++s) {
    atomic_xchg(kma_words(heap) + s, 0u);
    kma_add(kma_set_of(heap, 0), s);
  }
}
// Drops superblocks that are this work-item's from the set of the free ones. Part of a move.
static void kma_drop(kma_heap_ptr heap, uint first, uint n) {
  kma_set set = kma_set_of(heap, 0);
  uint s = first;
  // Ends: one pass per word of the set.
  while (s != first + n) {
    uint count = 32 - s % 32, left = first + n - s, mask, before;
    if (count > left) count = left;
    mask = (count == 32 ? ~0u : (1u << count) - 1) << (s % 32);
    before = atomic_and(&set.leaves[s / 32], ~mask);
    KMA_FENCE();
    if (before != 0 && (before & ~mask) == 0) kma_tidy(set, s / 32);
    s += count;
  }
}
// Claims n superblocks from `first` on, upward; returns the first that is not free, and has none then, or first + n. Of several that foil
// each other the one at the highest place is foiled by none of them.
static uint kma_claim(kma_heap_ptr heap, uint first, uint n) {
  uint s = first;
  kma_begin_move(heap);
  // Ends: n passes.
  while (s != first + n && kma_open(heap, s, KMA_RUN_TAIL)) ++s;
  if (s == first + n) kma_drop(heap, first, n);
  if (s != first + n) kma_give_superblocks(heap, first, s - first);
  kma_end_move(heap);
  KMA_FENCE();  // they look free to a thread that sees the count
  if (s != first + n) atomic_inc((kma_word_ptr)&heap->runs_foiled);
  return s;
}
// The highest run of n free superblocks inside lowest .. behind - 1, claimed, or KMA_NONE.
static uint kma_take_run_between(kma_heap_ptr heap, uint n, uint lowest, uint behind) {
  // Ends: `behind` falls.
  while (behind >= n && behind - n >= lowest) {
    uint first = behind - n, s = first;
    // Ends: n passes.
    while (s != behind && KMA_FILL(KMA_LOAD(kma_words(heap) + s)) == 0) ++s;
    if (s == behind) s = kma_claim(heap, first, n);
    if (s == behind) return first;
    // s is in use: no window with it is free.
    behind = s;
  }
  return KMA_NONE;
}
static ulong kma_malloc_run(kma_heap_ptr heap, ulong bytes) {
  ulong superblocks = ((bytes - 1) >> KMA_SUPERBLOCK_LOG2) + 1;
  uint n = (uint)superblocks, first, foiled, hint;
  if (superblocks > heap->num_superblocks) return 0;
  // Ends: a pass that goes on saw a claim foiled. What foiled it is a superblock that another work-item has got: for good, or for a claim
  // at a higher place, the highest of which is foiled by none of them.
  do {
    foiled = KMA_LOAD((kma_word_ptr)&heap->runs_foiled);
    KMA_FENCE();  // what was given back then looks free
    hint = KMA_LOAD((kma_word_ptr)&heap->run_hint);
    if (hint > heap->num_superblocks) hint = heap->num_superblocks;
    first = kma_take_run_between(heap, n, 0, hint);
    // Those that reach beyond.
    if (first == KMA_NONE) first = kma_take_run_between(heap, n, hint < n ? 0 : hint - n + 1, heap->num_superblocks);
    KMA_FENCE();
  } while (first == KMA_NONE && KMA_LOAD((kma_word_ptr)&heap->runs_foiled) != foiled);
  if (first == KMA_NONE) return 0;
  atomic_xchg((kma_word_ptr)&heap->run_hint, first);
  atomic_xchg(kma_bits(heap, first), n);
  atomic_xchg(kma_words(heap) + first, KMA_WORD(KMA_RUN_HEAD, 1));
  return heap->superblocks_at + ((ulong)first << KMA_SUPERBLOCK_LOG2);
}
static int kma_free_run(kma_heap_ptr heap, uint s) {
  uint n;
  if (atomic_cmpxchg(kma_words(heap) + s, KMA_WORD(KMA_RUN_HEAD, 1), KMA_WORD(KMA_RUN_TAIL, 1)) != KMA_WORD(KMA_RUN_HEAD, 1)) {
    return KMA_DOUBLE_FREE;
  }
  n = atomic_xchg(kma_bits(heap, s), 0u);
  kma_give_superblocks(heap, s, n);
  atomic_max((kma_word_ptr)&heap->run_hint, s + n);
  return KMA_DONE;
}

// ---- what kernels call

static ulong kma_malloc(kma_heap_ptr heap, ulong bytes) {
  uint c, h, s, start;
  if (bytes == 0) return 0;
  if (bytes > (1u << KMA_SUPERBLOCK_LOG2)) return kma_malloc_run(heap, bytes);
  c = kma_class_for((uint)bytes);
  h = (uint)get_group_id(0) % heap->num_heads;
  s = kma_search(heap, c, h, &start);
  if (s == KMA_NONE) return 0;
  return heap->superblocks_at + ((ulong)s << KMA_SUPERBLOCK_LOG2) + ((ulong)kma_take_block(heap, s, c, start) << (c + KMA_SMALLEST_LOG2));
}

// The superblock in which `block` lies, or KMA_NONE. `word`: what it is. `number`: the block's, KMA_NONE if none begins there.
static uint kma_locate(kma_heap_ptr heap, ulong block, uint* word, uint* number) {
  ulong offset = block - heap->superblocks_at;
  uint s = (uint)(offset >> KMA_SUPERBLOCK_LOG2), within = (uint)offset & ((1u << KMA_SUPERBLOCK_LOG2) - 1), kind;
  if (block < heap->superblocks_at || offset >> KMA_SUPERBLOCK_LOG2 >= heap->num_superblocks) return KMA_NONE;
  *word = KMA_LOAD(kma_words(heap) + s);
  kind = KMA_KIND(*word);
  *number = KMA_NONE;
  if (kind == KMA_RUN_HEAD && within == 0) *number = 0;
  if (kind != 0 && kind <= KMA_CLASSES && within % (1u << (kind - 1 + KMA_SMALLEST_LOG2)) == 0)
    *number = within >> (kind - 1 + KMA_SMALLEST_LOG2);
  return s;
}

static int kma_free(kma_heap_ptr heap, ulong block) {
  uint word = 0, number = KMA_NONE, s, c, fill;
  if (block == 0) return KMA_NULL;
  s = kma_locate(heap, block, &word, &number);
  if (s == KMA_NONE || number == KMA_NONE) return KMA_FOREIGN;
  if (KMA_FILL(word) == 0) return KMA_DOUBLE_FREE;
  KMA_FENCE();  // what the owner did with the block
  if (KMA_KIND(word) == KMA_RUN_HEAD) return kma_free_run(heap, s);
  c = KMA_KIND(word) - 1;
  // First the bit: it must be clear before the count lets others look for it. The answer tells that it is.
  if ((atomic_and(kma_bits(heap, s) + number / 32, ~(1u << (number % 32))) >> (number % 32) & 1) == 0) return KMA_DOUBLE_FREE;
  KMA_FENCE();
  fill = KMA_FILL(atomic_dec(kma_words(heap) + s));
  if (fill == 1) {
    if (c != KMA_CLASSES - 1) {
      kma_set room = kma_set_of(heap, c + 1);
      // It is of no use in the room set.
      if ((KMA_LOAD(&room.leaves[s / 32]) >> (s % 32) & 1) != 0) {
        kma_begin_move(heap);
        if (kma_take(room, s)) kma_list_if_room(heap, s);
        kma_end_move(heap);
      }
    }
    kma_add(kma_set_of(heap, 0), s);
  } else if (fill == kma_capacity(c)) {
    kma_add(kma_set_of(heap, c + 1), s);
  }
  return KMA_DONE;
}

static ulong kma_usable_size(kma_heap_ptr heap, ulong block) {
  uint word = 0, number = KMA_NONE, s = kma_locate(heap, block, &word, &number);
  if (s == KMA_NONE || number == KMA_NONE || KMA_FILL(word) == 0) return 0;
  if (KMA_KIND(word) == KMA_RUN_HEAD) return (ulong)KMA_LOAD(kma_bits(heap, s)) << KMA_SUPERBLOCK_LOG2;
  return 1u << (KMA_KIND(word) - 1 + KMA_SMALLEST_LOG2);
}
