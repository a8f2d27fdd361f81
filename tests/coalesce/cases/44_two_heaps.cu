// Memory of one heap is never freed into the other: `new` and `delete` of a type are rewritten both, or none.
struct shape {
  int sides = 0;
  __device__ virtual ~shape() {}
};
struct alignas(64) line {
  int value[16];
};
struct text {
  int* letters = new int[4];  // pattern: untouched W8; flow: dynamic W1
  __device__ ~text() { delete[] letters; }
};
class counted {
  int uses = 1;
  __device__ ~counted() {}

 public:
  __device__ static counted* make() {
    return new counted;  // pattern: untouched W8; flow: untouched W8
  }
  __device__ void drop() {
    if (--uses == 0) delete this;  // note: W8
  }
};

// Instances of both heaps.
template <class T>
__device__ T* one() {
  return new T;  // pattern: untouched W8; flow: dynamic W8
}
template <class T>
__device__ void drop(T* p) {
  delete p;
}
template <class T>
struct row {
  T* items;
  __device__ explicit row(int n) : items(new T[n]) {}  // pattern: untouched W8; flow: dynamic W8
  __device__ ~row() { delete[] items; }
};

__device__ int first(int* p = (int*)malloc(4)) {  // pattern: dynamic W1; flow: dynamic W1
  int const value = *p;
  free(p);
  return value;
}
template <class Release>
__device__ void release(void* p, Release by) {
  by(p);
}

__global__ void kernel(int n, int* out) {
  line* l = new line;  // pattern: untouched W8; flow: untouched W8
  delete l;  // note: W8
  drop(one<shape>());
  drop(one<int>());
  drop(one<line>());
  row<int> numbers(n);
  row<text> texts(n);
  counted::make()->drop();
  *out = first();
  if (threadIdx.x == 0) *out += first();
  int* raw = static_cast<int*>(::operator new(16));  // pattern: none; flow: collective R1
  ::operator delete(raw);
  release(malloc(8), free);  // pattern: collective R1; flow: collective R1
}
