// Values that are written through something else than their name: the program that comes out is asked, too.
struct four {
  int d[4];
  __device__ int& operator[](int i) { return d[i]; }
  __device__ int* begin() { return d; }
  __device__ int* end() { return d + 4; }
};
struct setter {
  int& r;
  __device__ void operator()(int v) { r = v; }
};
struct made {
  __device__ made(int& r, int v) { r = v; }
};
struct guard {
  int& r;
  __device__ ~guard() { r = threadIdx.x; }
};
struct box {
  mutable int n;
  __device__ void touch() const { n = threadIdx.x; }
};
__device__ int& pick(int& a, int& b, bool first) { return first ? a : b; }
__device__ void store(int& to, int v) { to = v; }
__global__ void differ(int n, void** out) {
  int const mine = threadIdx.x;
  int a = 8;
  int& of_a = a;
  of_a = mine;
  out[0] = malloc(a);  // pattern: dynamic W4; flow: dynamic W4
  int b[4] = {8, 8, 8, 8};
  int* in_b = b;
  in_b[1] = mine;
  out[1] = malloc(b[1]);  // pattern: dynamic W4; flow: dynamic W4
  four c{{8, 8, 8, 8}};
  c[2] = mine;
  out[2] = malloc(c[2]);  // pattern: dynamic W4; flow: dynamic W4
  four d{{8, 8, 8, 8}};
  for (int* p = d.begin(); p != d.end(); ++p) *p = mine;
  out[3] = malloc(d.d[0]);  // pattern: dynamic W4; flow: dynamic W4
  int e = 8;
  setter set{e};
  set(mine);
  out[4] = malloc(e);  // pattern: dynamic W4; flow: dynamic W4
  int f = 8;
  made done(f, mine);
  out[5] = malloc(f);  // pattern: dynamic W4; flow: dynamic W4
  int g = 8;
  { guard at_end{g}; }
  out[6] = malloc(g);  // pattern: dynamic W4; flow: dynamic W4
  box h{8};
  h.touch();
  out[7] = malloc(h.n);  // pattern: dynamic W4; flow: dynamic W4
  int i = 8, j = 8;
  (n > 0 ? i : j) = mine;
  out[8] = malloc(i);  // pattern: dynamic W4; flow: dynamic W4
  pick(i, j, false) = mine;
  out[9] = malloc(j);  // pattern: dynamic W4; flow: dynamic W4
  int k = 8;
  auto into_k = [&to = k](int v) { to = v; };
  into_k(mine);
  out[10] = malloc(k);  // pattern: dynamic W4; flow: dynamic W4
  auto odd = [=] { return mine & 1; };
  if (odd()) out[11] = malloc(8);  // pattern: dynamic W1; flow: dynamic W1
  void (*how)(int&, int) = store;
  int l = 8;
  how(l, mine);
  out[12] = malloc(l);  // pattern: dynamic W4; flow: dynamic W4
  int const* __restrict__ to_mine = &mine;
  out[13] = malloc(*to_mine);  // pattern: dynamic W4; flow: dynamic W4
  int m = 8;
  *reinterpret_cast<unsigned*>(&m) = mine;
  out[14] = malloc(m);  // pattern: dynamic W4; flow: dynamic W4
}
__global__ void agree(int n, void** out) {
  int a = 8;
  int& of_a = a;
  of_a = n;
  out[0] = malloc(a);  // pattern: dynamic W4; flow: collective R1
  four c{{8, 8, 8, 8}};
  c[2] = n;
  out[1] = malloc(c.d[2]);  // pattern: dynamic W4; flow: collective R1
  int e = 8;
  setter set{e};
  set(n);
  out[2] = malloc(e);  // pattern: dynamic W4; flow: collective R1
  int k = 8;
  auto into_k = [&](int v) { k = v; };
  into_k(n);
  out[3] = malloc(k);  // pattern: dynamic W4; flow: collective R1
  auto more = [=] { return n + 1; };
  if (more() > 4) out[4] = malloc(8);  // pattern: dynamic W1; flow: collective R1
}
