// Makes a heap's bytes, from behind its head up to the superblocks, those of an unused heap: all superblocks are in the set of the free
// ones. Any number of work-items.
__kernel void kma_init(__global uint* words, ulong behind_head, ulong behind_heads, ulong free_set, ulong end, uint num_superblocks,
                       uint num_leaves) {
  ulong leaves_end = free_set + num_leaves, mids_end = leaves_end + (num_leaves + 31) / 32;
  ulong i;
  for (i = behind_head + get_global_id(0); i < end; i += get_global_size(0)) {
    // What the word has a bit for, and how many of them there are.
    ulong first = i < leaves_end ? (i - free_set) * 32 : (i - leaves_end) * 32, count = i < leaves_end ? num_superblocks : num_leaves;
    uint word = 0;
    if (i >= free_set && i < mids_end) word = count - first < 32 ? (1u << (uint)(count - first)) - 1 : 0xffffffffu;
    if (i < behind_heads) word = 0xffffffffu;  // no superblock
    words[i] = word;
  }
}
