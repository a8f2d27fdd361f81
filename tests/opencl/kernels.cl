// Kernels of the tests. kma.cl and kma_containers.cl stand before this text. Work-item i has block i.

__kernel void malloc_each(__global kma_heap* heap, __global const ulong* sizes, __global ulong* blocks) {
  size_t i = get_global_id(0);
  blocks[i] = kma_malloc(heap, sizes[i]);
}
__kernel void usable_each(__global kma_heap* heap, __global const ulong* blocks, __global ulong* sizes) {
  size_t i = get_global_id(0);
  sizes[i] = kma_usable_size(heap, blocks[i]);
}
// Block (i * stride + 1) % count is freed by work-item i.
__kernel void free_each(__global kma_heap* heap, __global const ulong* blocks, __global int* answers, uint stride) {
  size_t b = (get_global_id(0) * stride + 1) % get_global_size(0);
  answers[b] = kma_free(heap, blocks[b]);
}
// Work-items 2k and 2k + 1 both free block k.
__kernel void free_in_pairs(__global kma_heap* heap, __global const ulong* blocks, __global int* answers) {
  size_t i = get_global_id(0);
  answers[i] = kma_free(heap, blocks[i / 2]);
}

static uint pattern(ulong key, ulong at) {
  ulong x = (key * 0x9e3779b97f4a7c15ul + at) * 0xbf58476d1ce4e5b9ul;
  return (uint)(x >> 32);
}
// Of large blocks the first and last 64 words, and one in 61 of the rest.
static ulong next_word(ulong w, ulong words) { return words <= 512 || w + 1 < 64 || w + 65 >= words ? w + 1 : min(w + 61, words - 64); }
static void fill(__global void* p, ulong bytes, ulong key) {
  __global uint* words = (__global uint*)p;
  __global uchar* tail = (__global uchar*)p;
  ulong w, b;
  for (w = 0; w < bytes / 4; w = next_word(w, bytes / 4)) words[w] = pattern(key, w);
  for (b = bytes / 4 * 4; b < bytes; ++b) tail[b] = (uchar)pattern(key, b);
}
static uint wrong_words(__global const void* p, ulong bytes, ulong key) {
  __global const uint* words = (__global const uint*)p;
  __global const uchar* tail = (__global const uchar*)p;
  uint wrong = 0;
  ulong w, b;
  for (w = 0; w < bytes / 4; w = next_word(w, bytes / 4)) wrong += words[w] != pattern(key, w);
  for (b = bytes / 4 * 4; b < bytes; ++b) wrong += tail[b] != (uchar)pattern(key, b);
  return wrong;
}
__kernel void fill_each(__global kma_heap* heap, __global const ulong* sizes, __global const ulong* blocks) {
  size_t i = get_global_id(0);
  if (blocks[i] != 0) fill(kma_at(heap, blocks[i]), sizes[i], i);
}
__kernel void verify_each(__global kma_heap* heap, __global const ulong* sizes, __global const ulong* blocks, __global uint* wrong) {
  size_t i = get_global_id(0);
  if (blocks[i] != 0 && wrong_words(kma_at(heap, blocks[i]), sizes[i], i) != 0) atomic_inc(wrong);
}

static uint next_random(ulong* state, uint limit) {
  *state = *state * 6364136223846793005ul + 1442695040888963407ul;
  return (uint)((*state >> 33) % limit);
}
// Work-items keep up to three blocks each, of sizes that change, and look whether their contents do.
__kernel void churn(__global kma_heap* heap, uint rounds, uint largest, __global uint* wrong, __global uint* refused) {
  ulong random = get_global_id(0) * 7919 + 13, key = get_global_id(0) * 3;
  ulong held[3] = {0, 0, 0};
  uint sizes[3] = {0, 0, 0};
  uint round;
  for (round = 0; round < rounds + 3; ++round) {
    uint slot = round < rounds ? next_random(&random, 3) : round - rounds;
    if (held[slot] != 0) {
      if (wrong_words(kma_at(heap, held[slot]), sizes[slot], key + slot) != 0) atomic_inc(wrong);
      if (kma_free(heap, held[slot]) != KMA_DONE) atomic_inc(wrong);
    }
    held[slot] = 0;
    if (round >= rounds) continue;
    sizes[slot] = 1 + next_random(&random, next_random(&random, 4) == 0 ? largest : 200);
    held[slot] = kma_malloc(heap, sizes[slot]);
    if (held[slot] == 0) atomic_inc(refused);
    if (held[slot] != 0) fill(kma_at(heap, held[slot]), sizes[slot], key + slot);
  }
}

// Blocks change hands through mailboxes, and are freed by whoever gets them. A mailbox holds a block / 16. The first words of a block say
// what is in it.
static void open_letter(__global kma_heap* heap, uint letter, __global uint* wrong) {
  __global uint* words;
  uint bytes;
  if (letter == 0) return;
  KMA_FENCE();  // what the sender wrote
  words = (__global uint*)kma_at(heap, (ulong)letter * 16);
  bytes = words[1];
  if (bytes > 300 || wrong_words(words + 2, bytes, words[0]) != 0) atomic_inc(wrong);
  if (kma_free(heap, (ulong)letter * 16) != KMA_DONE) atomic_inc(wrong);
}
__kernel void exchange_letters(__global kma_heap* heap, __global uint* mailboxes, uint num_mailboxes, uint rounds, __global uint* wrong,
                               __global uint* refused) {
  ulong random = get_global_id(0) * 104729 + 7;
  uint round;
  for (round = 0; round < rounds; ++round) {
    uint bytes = next_random(&random, 300), key = (uint)get_global_id(0) * 64 + round;
    ulong block = kma_malloc(heap, bytes + 8);
    if (block == 0) {
      atomic_inc(refused);
    } else {
      __global uint* words = (__global uint*)kma_at(heap, block);
      words[0] = key;
      words[1] = bytes;
      fill(words + 2, bytes, key);
    }
    KMA_FENCE();  // what was written, before the letter is there
    open_letter(heap, atomic_xchg(&mailboxes[next_random(&random, num_mailboxes)], (uint)(block / 16)), wrong);
  }
}
__kernel void empty_mailboxes(__global kma_heap* heap, __global uint* mailboxes, __global uint* wrong) {
  open_letter(heap, mailboxes[get_global_id(0)], wrong);
}

// Each work-item appends entries of two words, which say whose they are.
__kernel void append_entries(__global kma_heap* heap, __global kma_list* list, uint rounds, __global uint* refused) {
  uint round;
  for (round = 0; round < rounds; ++round) {
    uint at = kma_list_add(heap, list, 8);
    if (at == KMA_NONE) {
      atomic_inc(refused);
    } else {
      __global uint* entry = (__global uint*)kma_list_at(heap, list, at, 8);
      entry[0] = (uint)get_global_id(0);
      entry[1] = round;
    }
  }
}
// Work-item i counts entry i.
__kernel void count_entries(__global kma_heap* heap, __global kma_list* list, uint rounds, __global uint* counts) {
  __global uint* entry = (__global uint*)kma_list_at(heap, list, (uint)get_global_id(0), 8);
  if (get_global_id(0) < kma_list_size(list)) atomic_inc(&counts[entry[0] * rounds + entry[1]]);
}
__kernel void clear_list(__global kma_heap* heap, __global kma_list* list) { kma_list_clear(heap, list); }

__kernel void init_queue(__global kma_heap* heap, __global kma_queue* queue) { kma_queue_init(queue, (uint)get_global_id(0)); }
__kernel void clear_queue(__global kma_heap* heap, __global kma_queue* queue) { kma_queue_clear(heap, queue, (uint)get_global_id(0)); }
// Each work-item pushes values of its own and pops some; each value that is popped is counted.
static void pop_one(__global kma_heap* heap, __global kma_queue* queue, __global uint* counts, __global uint* wrong) {
  ulong value;
  if (!kma_queue_pop(heap, queue, &value)) return;
  if (value >> 32 != (value & 0xffffffffu)) {
    atomic_inc(wrong);
  } else {
    atomic_inc(&counts[(uint)value]);
  }
}
__kernel void push_and_pop(__global kma_heap* heap, __global kma_queue* queue, uint rounds, __global uint* counts, __global uint* refused,
                           __global uint* wrong) {
  uint round;
  for (round = 0; round < rounds; ++round) {
    ulong mine = (ulong)get_global_id(0) * rounds + round;
    if (!kma_queue_push(heap, queue, mine << 32 | mine)) atomic_inc(refused);
    if (round % 3 != 0) pop_one(heap, queue, counts, wrong);
  }
}
__kernel void pop_rest(__global kma_heap* heap, __global kma_queue* queue, __global uint* counts, __global uint* wrong) {
  while (kma_queue_size(queue) != 0) pop_one(heap, queue, counts, wrong);
}
