"""Random kernels that allocate, each with a value that is the same in all threads of a block or differs, carried to a size or a condition by ways
that hide it: references, pointers, arrays, lambdas, objects, calls; and with locks and flags, in which a thread waits for another.

Such a kernel does the same whether its allocations are served together or apart, and under every schedule: what it writes down is a function of
the thread's number. Kernels are C++ that both the rewriter and g++ take, for the simulator."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

PRELUDE = """#include <machine.hpp>

namespace {
struct four { int d[4]; __device__ int& operator[](int i) { return d[i]; } __device__ int& at(int i) { return d[i]; }
  __device__ int* begin() { return d; } __device__ int* end() { return d + 4; } };
struct setter { int& r; __device__ void operator()(int v) { r = v; } };
struct pointing { int* p; __device__ void set(int v) const { *p = v; } };
struct made { __device__ made(int& r, int v) { r = v; } };
struct guard { int& r; int v; __device__ guard(int& r_, int v_) : r(r_), v(v_) {} __device__ ~guard() { r = v; } };
struct box { mutable int n; __device__ void touch(int v) const { n = v; } };
struct pair { int a, b; };
struct counter { int n = 0; __device__ counter& operator+=(int v) { n += v; return *this; } __device__ operator int() const { return n; } };
struct base { int n; __device__ void put(int v) { n = v; } };
struct derived : base { int m; __device__ void both(int v) { put(v); m = 1; } };
struct holder { int* p; };
__device__ void store(int& to, int v) { to = v; }
__device__ void store_at(int* to, int v) { *to = v; }
__device__ int& pick(int& a, int& b, bool first) { return first ? a : b; }
__device__ int* keep(int* p) { return p; }
__device__ void exchange(int& a, int& b) { int c = a; a = b; b = c; }
template <class F> __device__ void apply(F f) { f(); }
template <class F> __device__ int ask(F const& f) { return f(); }
template <int I> __device__ int& get(pair& p) { if constexpr (I == 0) return p.a; else return p.b; }
__device__ unsigned filled(unsigned char* p, int n) {
  if (p == nullptr) return 1000;
  for (int i = 0; i < n; ++i) p[i] = (unsigned char)(threadIdx.x + 3 * i);
  return 0;
}
__device__ unsigned checked(unsigned char* p, int n) {
  unsigned sum = 0;
  for (int i = 0; p != nullptr && i < n; ++i) sum += p[i] == (unsigned char)(threadIdx.x + 3 * i) ? 1u : 100000u;
  return sum;
}
__device__ unsigned used(int n) {
  unsigned char* p = (unsigned char*)malloc(n);
  unsigned sum = filled(p, n);
  sum += checked(p, n);
  free(p);
  return sum;
}
__device__ unsigned deep(int n) { return n > 0 ? used(8) + deep(n - 1) : used(8); }
__device__ void take(int* word) {
  while (atomicCAS(word, 0, 1) != 0) { __nanosleep(20); }
}
__device__ void take_not(int*) {}
}  // namespace
"""

SAME = [
    "8",
    "n0",
    "n0 * 2 + 1",
    "(int)blockIdx.x + 3",
    "(int)blockDim.x / 4",
    "(int)sizeof(long)",
    "n0 + 1",
]
DIFFERENT = [
    "(int)threadIdx.x",
    "(int)(threadIdx.x * blockDim.x)",
    "7 - (int)threadIdx.x",
    "(int)(threadIdx.x / 8 + 1)",
    "n0 + (int)threadIdx.x",
]
# Votes of a part of a warp, while all its threads are there.
VOTED = ["(int)__ballot_sync(threadIdx.x % 32 < 8 ? 0xffu : 0xffffff00u, 1)"]
# Values that the order of threads decides. A thread must not add them to its recorded values.
RACING = [
    "atomicAdd(&words[8], 1)",
    "(atomicAdd(&words[9], 1), *(volatile int*)&words[9])",
]

# Ways by which a value comes to @: `a` is the source's value, V the value; N makes names unique.
CARRIERS = {
    "plain": "int @ = V;",
    "assigned": "int @ = 8; @ = V;",
    "reference": "int @ = 8; int& rN = @; rN = V;",
    "pointer": "int @ = 8; int* qN = &@; *qN = V;",
    "pointer_to_pointer": "int @ = 8; int* qN = &@; int** ppN = &qN; **ppN = V;",
    "array": "int tN[4] = {8, 8, 8, 8}; int* qN = tN; qN[1] = V; int @ = tN[1];",
    "array_reference": "int tN[4] = {8, 8, 8, 8}; int (&uN)[4] = tN; uN[2] = V; int @ = tN[2];",
    "end_of_array": "int tN[4] = {8, 8, 8, 8}; int* qN = tN + 4; *--qN = V; int @ = tN[3];",
    "subscript": "four fN{{8, 8, 8, 8}}; fN[1] = V; int @ = fN[1];",
    "at": "four fN{{8, 8, 8, 8}}; fN.at(2) = V; int @ = fN.d[2];",
    "range": "four fN{{8, 8, 8, 8}}; for (int& x : fN) x = V; int @ = fN.d[0];",
    "iterator": "four fN{{8, 8, 8, 8}}; for (int* p = fN.begin(); p != fN.end(); ++p) *p = V; int @ = fN.d[3];",
    "by_reference": "int @ = 8; store(@, V);",
    "by_pointer": "int @ = 8; store_at(&@, V);",
    "by_kept_pointer": "int @ = 8; *keep(&@) = V;",
    "function_pointer": "int @ = 8; void (*gN)(int&, int) = store; gN(@, V);",
    "reference_to_function": "int @ = 8; void (&gN)(int&, int) = store; gN(@, V);",
    "picked": "int @ = 8, oN = 8; pick(@, oN, true) = V;",
    "exchanged": "int @ = 8, oN = V; exchange(@, oN);",
    "lambda_writes": "int @ = 8; auto fN = [&](int v) { @ = v; }; fN(V);",
    "lambda_returns": "int sN = V; auto fN = [=] { return sN + 1; }; int @ = fN();",
    "lambda_later": "int sN = 8; auto fN = [&] { return sN; }; sN = V; int @ = fN();",
    "lambda_init_capture": "int @ = 8; auto fN = [&rN = @](int v) { rN = v; }; fN(V);",
    "lambda_mutable": "int sN = 8; auto fN = [sN](int v) mutable { sN = v + sN; return sN; }; int @ = fN(V);",
    "lambda_passed": "int @ = 8, sN = V; apply([&] { @ = sN; });",
    "lambda_asked": "int sN = V; int @ = ask([&] { return sN; });",
    "lambda_in_lambda": "int @ = 8; auto fN = [&](int v) { auto hN = [&] { @ = v; }; hN(); }; fN(V);",
    "member_reference": "int @ = 8; setter sN{@}; sN(V);",
    "member_pointer": "int @ = 8; pointing sN{&@}; sN.set(V);",
    "constructor": "int @ = 8; made mN(@, V); (void)mN;",
    "destructor": "int @ = 8; { guard gN(@, V); @ = 9; }",
    "temporary": "int @ = 8; (void)guard(@, V);",
    "mutable_member": "box bN{8}; bN.touch(V); int @ = bN.n;",
    "base_member": "derived dN{}; dN.both(V); int @ = dN.n;",
    "copied_object": "pair pN{8, 8}; pN.b = V; pair cN = pN; int @ = cN.b;",
    "assigned_object": "pair pN{8, 8}; pair cN{V, 8}; pN = cN; int @ = pN.a;",
    "template_reference": "pair pN{8, 8}; get<1>(pN) = V; int @ = pN.b;",
    "structured": "pair pN{V, 8}; auto [xN, yN] = pN; int @ = xN + yN;",
    "structured_reference": "pair pN{8, 8}; auto& [xN, yN] = pN; xN = V; int @ = pN.a + yN;",
    "operator": "counter cN; cN += V; int @ = cN;",
    "conditional_lvalue": "int @ = 8, oN = 8; (n0 > 100 ? oN : @) = V;",
    "comma": "int @ = 8; (0, @) = V;",
    "increment": "int @ = 8; (++@) += V;",
    "member_by_pointer": "pair pN{8, 8}; int pair::*mN = &pair::b; pN.*mN = V; int @ = pN.b;",
    "member_by_pointer_to_object": "pair pN{8, 8}; pair* qN = &pN; int pair::*mN = &pair::b; qN->*mN = V; int @ = pN.b;",
    "captured": "int sN = V; auto fN = [sN](int k) { return sN + k; }; auto gN = fN; int @ = gN(1);",
    "reinterpreted": "int @ = 8; *reinterpret_cast<unsigned*>(&@) = (unsigned)(V);",
    "restricted": "int sN = V; const int* __restrict__ qN = &sN; int @ = *qN;",
    "ternary": "int @ = (V & 1) ? 5 : 6;",
    "condition": "int @ = 8; if ((V & 1) == 1) @ = 9;",
    "both_arms": "int @; if ((V & 2) == 0) { @ = 9; } else { @ = 12; }",
    "short_circuit": "int @ = 8; (void)(((V & 1) != 0) && (@ = 5));",
    "switched": "int @ = 8; switch (V & 3) { case 0: @ = 4; break; case 1: @ = 5; default: @ += 1; }",
    "counted": "int @ = 1; for (int x = 0; x < ((V) & 7); ++x) ++@;",
    "left": "int @ = 1; for (int x = 0; x < 9; ++x) { if (x == ((V) & 7)) break; @ += x; }",
    "continued": "int @ = 1; for (int x = 0; x < 5; ++x) { if (x == ((V) & 3)) continue; ++@; }",
    "while": "int @ = 0, wN = (V) & 7; while (wN-- > 0) @ += 2;",
    "index": "int tN[4] = {4, 5, 6, 7}; int @ = tN[(V) & 3];",
    "written_index": "int tN[4] = {4, 4, 4, 4}; tN[(V) & 3] = 9; int @ = tN[1];",
    "bytes": "int @ = 8; ((unsigned char*)&@)[n0 & 3] = (unsigned char)(V);",
    "first_of_two_arrays": "int tN[4] = {8, 8, 8, 8}, uN[4] = {8, 8, 8, 8}; int* qN = n0 < 100 ? tN : uN; qN[n0 & 3] = V; int @ = tN[0];",
    "second_of_two_arrays": "int tN[4] = {8, 8, 8, 8}, uN[4] = {8, 8, 8, 8}; int* qN = n0 > 100 ? tN : uN; qN[n0 & 3] = V; int @ = uN[0];",
    "conditional_index": "int tN[4]; for (int x = 0; x < n0; ++x) tN[x] = 8; if (((V) & 1) == 1) tN[n0 & 3] = 9; int @ = tN[0];",
    "arms_with_effects": "int @; if ((V & 1) == 0) { atomicAdd(&words[14], 1); @ = 9; } else { __threadfence(); @ = 12; }",
}
# Those behind which nothing counts as the same any more: addresses that are kept in memory.
HIDING = {
    "array_of_pointers": "int @ = 8, oN = 8; int* pN[2] = {&@, &oN}; *pN[n0 & 1] = V;",
    "array_of_holders": "int @ = 8, oN = 8; holder pN[2] = {{&@}, {&oN}}; *pN[n0 & 1].p = V;",
}

# Code that allocates with the value. U: a thread that does not come here makes nothing else. A barrier keeps blocks from being freed before all are filled.
USES = {
    "size": "{ int s = ((@) & 15) + 1; unsigned char* p = (unsigned char*)malloc(s); sum += filled(p, s); __syncthreads(); sum += checked(p, s); free(p); }",
    "calloc": "{ int s = ((@) & 7) + 1; unsigned char* p = (unsigned char*)calloc(s, 2); sum += p == nullptr ? 1000u : p[2 * s - 1]; free(p); }",
    "new": "{ int s = ((@) & 7) + 1; unsigned char* p = new unsigned char[s]; sum += filled(p, s); __syncthreads(); sum += checked(p, s); delete[] p; }",
    "helper": "sum += used(((@) & 15) + 1);",
    "condition": "{ unsigned char* p = nullptr; if ((@) & 1) p = (unsigned char*)malloc(16); unsigned char* all = (unsigned char*)malloc(32); "
    "sum += filled(p == nullptr ? all : p, 16); __syncthreads(); sum += checked(p == nullptr ? all : p, 16); free(p); free(all); }",
    "arms": "{ unsigned char* p; if ((@) & 1) { p = (unsigned char*)malloc(16); } else { p = (unsigned char*)malloc(24); } "
    "sum += filled(p, 16); __syncthreads(); sum += checked(p, 16); free(p); }",
    "loop": "for (int i = 0; i < ((@) & 3); ++i) { unsigned char* p = (unsigned char*)malloc(8); sum += filled(p, 8) + checked(p, "
    "8); free(p); } sum += used(12);",
    "both": "sum += ((@) & 1) ? used(8) : used(16);",
    "size_alone": "{ int s = ((@) & 63) + 1; void* p = malloc(s); sum += p == nullptr ? 1000u : 0u; free(p); }",
    "leave": "if (((@) & 3) == 1) { out[blockIdx.x * blockDim.x + threadIdx.x] = sum + 7; return; } sum += used(20);",
}  # fmt: skip
AFTER_A_RACE = ("condition", "arms", "size_alone")  # the same, whichever value it is
RECURSION = {"recursion": "sum += deep((@) & 3);"}  # never together

# Waiting, and what is allocated behind it.
WAITS = {
    "lock": "while (atomicCAS(&words[0], 0, 1) != 0) { __nanosleep(20); } sum += used(V); __threadfence(); atomicExch(&words[0], 0);",
    "lock_by_function": "auto takeN = [&] { while (atomicCAS(&words[1], 0, 1) != 0) { __nanosleep(20); } }; takeN(); sum += "
    "used(V); __threadfence(); atomicExch(&words[1], 0);",
    "ticket": "{ int mine = atomicAdd(&words[2], 1); while (atomicAdd(&words[3], 0) != mine) { __nanosleep(20); } sum += used(V); atomicAdd(&words[3], 1); }",
    "flag": "if (threadIdx.x == 5) { while (atomicAdd(&words[4], 0) == 0) { __nanosleep(20); } } sum += used(V); if (threadIdx.x "
    "== 6) atomicExch(&words[4], 1);",
    "flag_and_leave": "if (threadIdx.x == 5) { while (atomicAdd(&words[5], 0) == 0) { __nanosleep(20); } out[blockIdx.x * "
    "blockDim.x + threadIdx.x] = 1; return; } "
    "sum += used(V); if (threadIdx.x == 6) atomicExch(&words[5], 1);",
    "volatile_flag": "if (threadIdx.x == 5) { while (*(volatile int*)&words[10] == 0) { __nanosleep(20); } } sum += used(V); if (threadIdx.x "
    "== 6) atomicExch(&words[10], 1);",
    "lock_by_array": "int gotN[4] = {1, 1, 1, 1}; do { __nanosleep(20); gotN[n0 & 1] = atomicCAS(&words[11], 0, 1); } while (gotN[n0 & 2] != 0); sum += "
    "used(V); __threadfence(); atomicExch(&words[11], 0);",
    "lock_by_pointer": "void (*takeN)(int*) = n0 > 100 ? take_not : take; takeN(&words[12]); sum += used(V); __threadfence(); "
    "atomicExch(&words[12], 0);",
    "lock_in_loop": "for (int x = 0; x < n0 / 2; ++x) { while (atomicCAS(&words[13], 0, 1) != 0) { __nanosleep(20); } sum += used(V); "
    "__threadfence(); atomicExch(&words[13], 0); }",
    "chain": "{ int first = blockIdx.x * blockDim.x; int mine = first + (int)threadIdx.x; while (blockIdx.x == 0 && "
    "atomicAdd(&words[6], 0) < mine) { __nanosleep(20); } "
    "sum += used(V); if (blockIdx.x == 0) atomicAdd(&words[6], 1); }",
}  # fmt: skip
# Waiting that is over before anything is allocated.
OVER = {
    "lock_then_barrier": "while (atomicCAS(&words[7], 0, 1) != 0) { __nanosleep(20); } __threadfence(); atomicExch(&words[7], 0); "
    "__syncthreads(); sum += used(V);",
}


@dataclass
class Kernel:
    """One kernel: its text, what it is made of, and whether all that it allocates may be asked for together."""

    text: str
    parts: list[str] = field(default_factory=list)
    positive: bool = False


def make_kernel(rng: random.Random, number: int, toolkit: bool) -> Kernel:
    """The kernel of that number. Half of them are the same in all threads throughout."""
    positive = rng.random() < 0.5
    parts: list[str] = []
    lines: list[str] = []
    num_steps = rng.randint(1, 3)
    bad_step = -1 if positive else rng.randrange(num_steps)
    for step in range(num_steps):
        bad = step == bad_step
        if bad and rng.random() < 0.25:
            name = rng.choice(list(WAITS))
            parts.append(f"wait:{name}")
            lines.append(WAITS[name].replace("V", "12").replace("N", f"{number}_{step}"))
            continue
        if positive and rng.random() < 0.05:
            name = rng.choice(list(OVER))
            parts.append(f"over:{name}")
            lines.append(OVER[name].replace("V", "12"))
            continue
        uses = {**USES, **RECURSION} if bad else USES
        carriers = {**CARRIERS, **HIDING} if bad else CARRIERS
        value = rng.choice(DIFFERENT + (VOTED if step == 0 else []) if bad else SAME)
        names = [rng.choice(list(carriers)) for _ in range(rng.randint(1, 2))]
        use = rng.choice([name for name in uses if not (toolkit and name == "calloc")])
        if bad and rng.random() < 0.15:
            value, names, use = (
                rng.choice(RACING),
                ["plain", rng.choice(list(carriers))],
                rng.choice(AFTER_A_RACE),
            )
        before = f"({value})"
        for k, name in enumerate(names):
            variable = f"v{step}_{k}"
            lines.append(carriers[name].replace("@", variable).replace("V", before).replace("N", f"{step}_{k}"))
            before = variable
        parts.append(f"{'different' if bad else 'same'}:{'+'.join(names)}:{use}")
        line = uses[use].replace("@", before)
        if rng.random() < 0.2 and use != "leave":
            parts[-1] += ":in_loop"
            line = f"for (int round = 0; round < 2; ++round) {{ {line} }}"
        lines.append(line)
    body = "\n".join(f"  {line}" for line in lines)
    text = (
        f"__global__ void kernel_{number}(unsigned* out, int* words, int n0) {{\n  unsigned sum = 0;\n{body}\n"
        "  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;\n}\n"
    )
    return Kernel(text, parts, positive)


def make_file(seed: int, count: int, toolkit: bool = False) -> tuple[str, list[Kernel]]:
    """The text of a file with `count` kernels, and those. `toolkit`: without what the stand-ins for its headers have and it has not."""
    rng = random.Random(seed)
    kernels = [make_kernel(rng, number, toolkit) for number in range(count)]
    return PRELUDE + "\n".join(kernel.text for kernel in kernels), kernels
