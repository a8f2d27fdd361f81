"""What programs of other people have that the project's own had not: files that include files, headers without `inline`, objects in main, managed variables."""

from __future__ import annotations

from pathlib import Path

import pytest
from tool import run

KERNEL = "__global__ void k(int n) {\n  void* q = malloc(8);\n  free(q);\n}\n"
MAIN = "int main() {\n  return 0;\n}\n"
INCLUDE = "#include <gpuheap/coalesced.hpp>\n"


def rewritten(folder: Path, **files: str) -> dict[str, str]:
    """The files after the change, by name; `__` in the name stands for a dot."""
    names = [name.replace("__", ".") for name in files]
    for name, text in zip(names, files.values(), strict=True):
        (folder / name).write_text(text)
    ran = run("--no-toolkit", "--in-place", *[name for name in names if not name.endswith(".inc")], cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return {name: (folder / name).read_text() for name in names} | {"said": ran.stderr}


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ('extern "C" {\n#include "a.inc"\n}\n' + KERNEL + MAIN, ""),
        ('#include "a.inc"\n' + KERNEL + MAIN + '#include "a.inc"\n', '#include "a.inc"\n'),
        ('#include "a.inc"\nnamespace mine {\n#include "a.inc"\n}\n' + KERNEL + MAIN, '#include "a.inc"\n'),
        ("#define TWO(a) \\\n  a;   \\\n  a\n" + '#include "a.inc"\n' + KERNEL + MAIN, '#define TWO(a) \\\n  a;   \\\n  a\n#include "a.inc"\n'),
        ('#include "a.inc"\nchar const* source = R"(\n#include <x.h>\n)";\n' + KERNEL + MAIN, '#include "a.inc"\n'),
        ("__constant__ int t[] = {0,\n" + '#include "b.inc"\n};\n' + KERNEL + MAIN, ""),
    ],
    ids=['in extern "C"', "at the end", "in a namespace", "behind a macro of several lines", "in a text", "in an array"],
)
def test_the_header_stands_where_it_can(text: str, before: str, tmp_path: Path) -> None:
    (tmp_path / "a.inc").write_text("extern int something;\n")
    (tmp_path / "b.inc").write_text("1, 2\n")
    after = rewritten(tmp_path, prog__cu=text)["prog.cu"]
    assert after.startswith(before + INCLUDE) and after.count(INCLUDE) == 1


def test_a_source_that_another_one_includes(tmp_path: Path) -> None:
    """It is part of that one, and need not compile by itself. What it defines is not defined twice."""
    inner = "__device__ int* row(int n) { return (int*)malloc(n * sizeof(elem)); }\n"
    outer = 'typedef int elem;\n#include "inner.cu"\n__global__ void k(int* out) { int* p = row(4); *out = *p; free(p); }\n' + MAIN
    after = rewritten(tmp_path, inner__cu=inner, outer__cu=outer)
    assert "malloc(n * sizeof(elem), coalesce)" in after["inner.cu"] and "row(4, true)" in after["outer.cu"]


def test_a_header_that_defines_without_inline(tmp_path: Path) -> None:
    """Without relocatable device code each source is a device program of its own, and nvcc links them."""
    header = "#pragma once\n__device__ int count;\n__device__ int* row(int n) { return (int*)malloc(n * 4); }\n__global__ void k() { free(row(2)); }\n"
    first = '#include "row.cuh"\n__global__ void a(int* o) { int* p = row(3); *o = *p + count; free(p); }\n'
    second = '#include "row.cuh"\n__global__ void b(int* o) { if (threadIdx.x == 0) free(row(3)); *o = count; }\n' + MAIN
    after = rewritten(tmp_path, row__cuh=header, a__cu=first, b__cu=second)
    assert "row(3, true)" in after["a.cu"] and "free(row(3));" in after["b.cu"] and "row(2, true)" in after["row.cuh"]


@pytest.mark.parametrize(
    ("variable", "cleans"),
    [("scene s;", False), ("holder<scene> s;", False), ("if (k) { scene s[2]; }", False), ("plain s;", True), ("static scene* s;", True)],
)
def test_objects_of_main_outlive_a_clean_up(variable: str, cleans: bool, tmp_path: Path) -> None:
    """Their destructors may launch kernels that free what others have allocated."""
    classes = "struct scene { ~scene() { k<<<1, 1>>>(1); } };\ntemplate <class T> struct holder { T held; };\nstruct plain { int n; };\n"
    after = rewritten(tmp_path, prog__cu=KERNEL + classes + f"int main() {{\n  {variable}\n  return 0;\n}}\n")
    assert ("clean();" in after["prog.cu"]) == cleans and ("[I3]" in after["said"]) == (not cleans)
    assert "gpuheap::coalesced::init();" in after["prog.cu"]


def test_main_may_be_a_try_block(tmp_path: Path) -> None:
    after = rewritten(tmp_path, prog__cu=KERNEL + "int main() try {\n  return 0;\n} catch (...) {\n  return 1;\n}\n")
    assert "[I2]" not in after["said"] and after["prog.cu"].count("clean();") == 2 and "try {\n  gpuheap::coalesced::init();" in after["prog.cu"]


def test_managed_variables(tmp_path: Path) -> None:
    text = "__managed__ int sum;\n__global__ void k(int n) { int* p = (int*)malloc(8); sum = *p; free(p); if (n < sum) free(malloc(4)); }\n" + MAIN
    after = rewritten(tmp_path, prog__cu=text)["prog.cu"]
    assert "malloc(8, true)" in after and "malloc(4));" in after


def test_operators_of_the_program(tmp_path: Path) -> None:
    """A program with its own `new` and `delete` keeps both."""
    own = "__device__ void* operator new(size_t n);\n__device__ void operator delete(void* p) noexcept;\n"
    text = own + "__global__ void k(int* out) { int* p = new int(3); *out = *p; delete p; free(malloc(8)); }\n" + MAIN
    assert "int* p = new int(3); *out = *p; delete p;" in rewritten(tmp_path, prog__cu=text)["prog.cu"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("void* (*get)(size_t) = malloc; free(get(8));", "[E8] device code uses `malloc` other than by calling it"),
        ("void* p = __nv_aligned_device_malloc(64, 64); free(p);", "[E8] what __nv_aligned_device_malloc allocates"),
        ("void* p = operator new(8); operator delete(p, size_t(8));", "[E8] a release with a size cannot be rewritten"),
    ],
)
def test_what_would_mix_two_heaps_is_refused(lines: str, words: str, tmp_path: Path) -> None:
    text = f"__global__ void k() {{ {lines} free(malloc(8)); }}\n" + MAIN
    (tmp_path / "prog.cu").write_text(text)
    ran = run("--no-toolkit", "--in-place", "prog.cu", cwd=tmp_path)
    assert ran.returncode == 2 and words in ran.stderr
    assert (tmp_path / "prog.cu").read_text() == text


def test_the_reason_is_the_one_that_holds(tmp_path: Path) -> None:
    """A template that calls a function with a flag in one instance only; and a size in parentheses."""
    text = (
        "template <class D> struct base { __device__ int* get(int n) { return static_cast<D*>(this)->alloc(n); } };\n"
        "struct one : base<one> { __device__ int* alloc(int n) { return (int*)malloc(n); } };\n"
        "struct other : base<other> { __device__ int* alloc(int n) { return nullptr; } };\n"
        "__global__ void k(int n) { one a; other b; free(a.get(n)); free(b.get(n)); int* c = new (int); delete c; }\n" + MAIN
    )
    said = rewritten(tmp_path, prog__cu=text)["said"]
    assert "in another instance of the template it calls `other::alloc`, which takes no flag" in said
    assert "with the size `(int)`" in said


def test_constants_of_a_header_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "c.h").write_text("#ifndef C_H\n#define C_H\nstatic const double g = 9.81;\nstatic const int n = 3;\ndouble f(int i);\n#endif\n")
    (tmp_path / "f.c").write_text('#include "c.h"\ndouble f(int i) { return g * i + n; }\n')
    body = 'int main(int argc, char** argv) { MPI_Init(&argc, &argv); printf("%f %f\\n", f(n), g); MPI_Finalize(); return 0; }\n'
    (tmp_path / "main.c").write_text('#include <mpi.h>\n#include <stdio.h>\n#include "c.h"\n' + body)
    (tmp_path / "out").mkdir()
    ran = run("--mpi", "--quiet", "--output", "out", "main.c", "f.c", "c.h", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "constexpr static const double g = 9.81;\nconstexpr static const int n = 3;\n" in (tmp_path / "out" / "c.h").read_text()


def test_free_as_an_argument(tmp_path: Path) -> None:
    text = "#include <mpi.h>\n#include <stdlib.h>\nstatic void each(void* p, void (*f)(void*)) { f(p); }\n"
    text += "int main(int argc, char** argv) { MPI_Init(&argc, &argv); each(malloc(8), free); MPI_Finalize(); return 0; }\n"
    (tmp_path / "prog.c").write_text(text)
    (tmp_path / "out").mkdir()
    assert run("--mpi", "--quiet", "--output", "out", "prog.c", cwd=tmp_path).returncode == 0
    assert ", gpuheap::coalesced::free);" in (tmp_path / "out" / "prog.cu").read_text()
