// KMA's upper layer in OpenCL C 1.2: a list and a queue, in pages that they take from the heap. Put this text behind kma.cl's.
//   R. Spliet, L. Howes, B. R. Gaster, A. L. Varbanescu, "KMA: A Dynamic Memory Manager for OpenCL", GPGPU-7, 2014.
//
//   uint kma_list_add(heap, list, bytes)                 appends an entry of so many bytes; its number, or KMA_NONE: the heap has no page
//   __global void* kma_list_at(heap, list, i, bytes)     where entry i is, for as long as the list is not cleared
//   uint kma_list_size(list)                             entries
//   void kma_list_clear(heap, list)                      all pages go back: one work-item, while no other uses the list
//
//   int kma_queue_push(heap, queue, value)               0: the heap has no page, or KMA_QUEUE_FRAMES pages are in use
//   int kma_queue_pop(heap, queue, ulong* value)         0: nothing is there
//   uint kma_queue_size(queue)                           entries, while none comes or goes
//   void kma_queue_init(queue, i)                        for each i < KMA_QUEUE_FRAMES once, before the kernels that use the queue
//   void kma_queue_clear(heap, queue, i)                 the same for a queue that has been used: its pages go back
//
// A list of zeros is empty. `bytes` is the same in all calls for a list. Lists and queues lie in buffers of the program's own.
//
// As in kma.cl no work-item waits for another. Work-items that miss the same page take one each, and all but the first
// give it back; until then the heap lacks these pages. An entry
// that is being pushed hides those behind it from pops until it is there: a pop that meets it finds the queue empty. In the library's
// paged_list and paged_queue, threads wait in both cases.
//
//   list     | size | page 0 | page 1 | ... |          page k has KMA_LIST_FIRST << k entries; 0: not yet there
//   queue    | tail | head | frame 0 {turn, page} | frame 1 | ... |
//   page     | taken | unused x 3 | cells {low, high, full} |     of a queue; KMA_QUEUE_ENTRIES of them
//   turn     of a frame: the number q of the page that it is for, q % KMA_QUEUE_FRAMES. Ticket t lies in page t / KMA_QUEUE_ENTRIES
//
// Pages are named by block / 16: a word, for heaps of up to 64 GiB. A page that would lie beyond is refused.
//
// Different from the paper: a list's pages grow, and a queue's pages go back as soon as they are used up.

#define KMA_LIST_FIRST_LOG2 6
#define KMA_LIST_FIRST (1u << KMA_LIST_FIRST_LOG2)
#define KMA_LIST_PAGES 25
#ifndef KMA_QUEUE_FRAMES
#define KMA_QUEUE_FRAMES 256u  // a power of two
#endif
// A quarter of a page is left: the number is a power of two, as tickets wrap.
#define KMA_QUEUE_ENTRIES_LOG2 (KMA_SUPERBLOCK_LOG2 - 4)
#define KMA_QUEUE_ENTRIES (1u << KMA_QUEUE_ENTRIES_LOG2)
#define KMA_QUEUE_TURNS (0xffffffffu >> KMA_QUEUE_ENTRIES_LOG2)  // numbers of pages wrap, too

typedef struct {
  uint size;
  uint pages[KMA_LIST_PAGES];
} kma_list;
typedef struct {
  uint tail, head;
  uint frames[KMA_QUEUE_FRAMES][2];
} kma_queue;
typedef __global kma_list* kma_list_ptr;
typedef __global kma_queue* kma_queue_ptr;

// A block of so many bytes that a word can name, as that word; 0: there is none.
static uint kma_take_page(kma_heap_ptr heap, ulong bytes) {
  ulong block = kma_malloc(heap, bytes);
  if (block >> 36 != 0) {
    kma_free(heap, block);
    block = 0;
  }
  return (uint)(block / 16);
}
static void kma_give_page(kma_heap_ptr heap, uint page) { kma_free(heap, (ulong)page * 16); }
// Puts a page into a place that seemed to have none. Another work-item's may be there first; then the own goes back.
static void kma_enter_page(kma_heap_ptr heap, kma_word_ptr place, uint page) {
  KMA_FENCE();  // the page's first contents
  if (atomic_cmpxchg(place, 0u, page) != 0) kma_give_page(heap, page);
}

// ---- the list

static uint kma_list_page_of(uint i) { return 31u - (uint)clz((i >> KMA_LIST_FIRST_LOG2) + 1u); }
static uint kma_list_size(kma_list_ptr list) { return KMA_LOAD((kma_word_ptr)&list->size); }
static __global void* kma_list_at(kma_heap_ptr heap, kma_list_ptr list, uint i, uint bytes) {
  uint k = kma_list_page_of(i), page = KMA_LOAD((kma_word_ptr)&list->pages[k]);
  KMA_FENCE();  // what the one who took it had seen of the heap
  return (__global char*)kma_at(heap, (ulong)page * 16) + (ulong)(i + KMA_LIST_FIRST - (KMA_LIST_FIRST << k)) * bytes;
}
static uint kma_list_add(kma_heap_ptr heap, kma_list_ptr list, uint bytes) {
  kma_word_ptr size = (kma_word_ptr)&list->size;
  uint seen = KMA_LOAD(size), before;
  // Ends: a pass that goes on lost the size to another work-item's entry, or has seen a page come. Lock-free.
  while (1) {
    uint k = kma_list_page_of(seen);
    kma_word_ptr place = (kma_word_ptr)&list->pages[k];
    if (k >= KMA_LIST_PAGES) return KMA_NONE;
    if (KMA_LOAD(place) == 0) {
      uint page = kma_take_page(heap, ((ulong)KMA_LIST_FIRST << k) * bytes);
      if (page == 0 && KMA_LOAD(place) == 0) return KMA_NONE;
      if (page != 0) kma_enter_page(heap, place, page);
    }
    KMA_FENCE();  // the page before the size that leads there
    before = atomic_cmpxchg(size, seen, seen + 1);
    if (before == seen) return seen;
    seen = before;
  }
}
static void kma_list_clear(kma_heap_ptr heap, kma_list_ptr list) {
  uint k;
  for (k = 0; k != KMA_LIST_PAGES; ++k) kma_give_page(heap, atomic_xchg((kma_word_ptr)&list->pages[k], 0u));
  atomic_xchg((kma_word_ptr)&list->size, 0u);
}

// ---- the queue

static kma_word_ptr kma_queue_frame(kma_queue_ptr queue, uint q) { return (kma_word_ptr)&queue->frames[q % KMA_QUEUE_FRAMES][0]; }
static kma_word_ptr kma_queue_page(kma_heap_ptr heap, uint page) { return (kma_word_ptr)kma_at(heap, (ulong)page * 16); }
static kma_word_ptr kma_queue_cell(kma_heap_ptr heap, uint page, uint ticket) {
  return kma_queue_page(heap, page) + 4 + 3 * (ticket % KMA_QUEUE_ENTRIES);
}
static void kma_queue_init(kma_queue_ptr queue, uint i) {
  atomic_xchg(kma_queue_frame(queue, i), i);
  atomic_xchg(kma_queue_frame(queue, i) + 1, 0u);
  if (i != 0) return;
  atomic_xchg((kma_word_ptr)&queue->tail, 0u);
  atomic_xchg((kma_word_ptr)&queue->head, 0u);
}
static void kma_queue_clear(kma_heap_ptr heap, kma_queue_ptr queue, uint i) {
  kma_give_page(heap, KMA_LOAD(kma_queue_frame(queue, i) + 1));
  kma_queue_init(queue, i);
}
static uint kma_queue_size(kma_queue_ptr queue) { return KMA_LOAD((kma_word_ptr)&queue->tail) - KMA_LOAD((kma_word_ptr)&queue->head); }

static int kma_queue_push(kma_heap_ptr heap, kma_queue_ptr queue, ulong value) {
  kma_word_ptr tail = (kma_word_ptr)&queue->tail, cell, frame;
  uint seen = KMA_LOAD(tail), before, page, q, i;
  // Ends: a pass that goes on saw the tail move by another work-item's push, or a page come. Lock-free.
  while (1) {
    KMA_FENCE();  // the frame is at least as new as the tail
    q = seen >> KMA_QUEUE_ENTRIES_LOG2;
    frame = kma_queue_frame(queue, q);
    if (KMA_LOAD(frame) != q) {
      // Its page of a lap before is still in use, or the tail is old.
      KMA_FENCE();  // the tail is at least as new as the turn
      before = KMA_LOAD(tail);
      if (before == seen) return 0;
      seen = before;
      continue;
    }
    KMA_FENCE();  // the page of the lap before is gone
    page = KMA_LOAD(frame + 1);
    if (page == 0) {
      page = kma_take_page(heap, 1u << KMA_SUPERBLOCK_LOG2);
      if (page == 0 && KMA_LOAD(frame + 1) == 0) {
        KMA_FENCE();  // the tail is at least as new as the frame
        before = KMA_LOAD(tail);
        if (before == seen) return 0;
        seen = before;
        continue;
      }
      if (page != 0) {
        atomic_xchg(kma_queue_page(heap, page), 0u);
        for (i = 0; i != KMA_QUEUE_ENTRIES; ++i) atomic_xchg(kma_queue_cell(heap, page, i) + 2, 0u);
        kma_enter_page(heap, frame + 1, page);
      }
      continue;
    }
    KMA_FENCE();  // the page before the tail that leads there
    // Until this entry is popped, the page of a tail that has not moved stays.
    before = atomic_cmpxchg(tail, seen, seen + 1);
    if (before == seen) break;
    seen = before;
  }
  cell = kma_queue_cell(heap, page, seen);
  atomic_xchg(cell, (uint)value);
  atomic_xchg(cell + 1, (uint)(value >> 32));
  KMA_FENCE();  // what the caller did, and the value
  atomic_xchg(cell + 2, 1u);
  return 1;
}

static int kma_queue_pop(kma_heap_ptr heap, kma_queue_ptr queue, ulong* value) {
  kma_word_ptr head = (kma_word_ptr)&queue->head, cell, frame;
  uint seen = KMA_LOAD(head), before, page, q;
  // Ends: a pass that goes on saw the head move by another work-item's pop. Lock-free.
  while (1) {
    int there = 0;
    KMA_FENCE();  // the tail is at least as new as the head
    q = seen >> KMA_QUEUE_ENTRIES_LOG2;
    frame = kma_queue_frame(queue, q);
    page = 0;
    if (KMA_LOAD((kma_word_ptr)&queue->tail) != seen) {
      KMA_FENCE();  // the page that it leads to
      page = KMA_LOAD(frame + 1);
      // Of an old head the page may be gone. Its words are memory of the heap all the same, and the head tells below.
      if (page != 0) there = KMA_LOAD(kma_queue_cell(heap, page, seen) + 2) != 0;
      KMA_FENCE();  // what its push did
    }
    if (there) {
      before = atomic_cmpxchg(head, seen, seen + 1);
      if (before == seen) break;
    } else {
      before = KMA_LOAD(head);
      if (before == seen) return 0;
    }
    seen = before;
  }
  cell = kma_queue_cell(heap, page, seen);
  *value = (ulong)KMA_LOAD(cell) | (ulong)KMA_LOAD(cell + 1) << 32;
  KMA_FENCE();  // the cell has been read
  if (atomic_inc(kma_queue_page(heap, page)) + 1 == KMA_QUEUE_ENTRIES) {
    KMA_FENCE();  // all cells have been read
    atomic_xchg(frame + 1, 0u);
    kma_give_page(heap, page);
    KMA_FENCE();  // the frame has no page
    atomic_xchg(frame, (q + KMA_QUEUE_FRAMES) & KMA_QUEUE_TURNS);
  }
  return 1;
}
