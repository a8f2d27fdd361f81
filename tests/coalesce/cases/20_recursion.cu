struct tree {
  tree* child[2];
};
__device__ tree* grow(int depth) {
  tree* t = (tree*)malloc(sizeof(tree));  // pattern: dynamic W10; flow: dynamic W10
  t->child[0] = depth > 0 ? grow(depth - 1) : nullptr;
  t->child[1] = nullptr;
  return t;
}
__global__ void kernel(tree** out) {
  out[threadIdx.x] = grow(threadIdx.x % 4);
}
