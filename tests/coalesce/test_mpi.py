"""`--mpi`: C programs of MPI. What they become is kept in mpi/rewritten/, and CTest compares what it prints with what Open MPI prints; here, that the kept
text is what the tool makes, and what the tool says of programs that it cannot translate."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tool import HERE, ROOT, run

PROGRAMS = HERE / "mpi"
EXAMPLE = ROOT / "examples" / "mpi"
FILES = {
    "datatypes": ["datatypes.c"],
    "histogram": ["histogram.c"],
    "library": ["library.c"],
    "nbody": ["nbody.c"],
    "oddeven": ["oddeven.c", "sort_pieces.c", "pieces.h"],
    "spmv": ["spmv.c"],
    "transpose": ["transpose.c"],
    "worlds": ["worlds.c"],
}
PATCH = shutil.which("patch")  # not on every machine


def place_of(program: str) -> tuple[Path, Path]:
    """The folders of a program's C files, and of what they become."""
    return (EXAMPLE, EXAMPLE) if program == "nbody" else (PROGRAMS, PROGRAMS / "rewritten")


GOOD = """#include <mpi.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  double* x = malloc(8 * sizeof(double));
  free(x);
  MPI_Finalize();
  return 0;
}
"""


def body(lines: str, before: str = "") -> str:
    """A program whose main has these lines after MPI_Init."""
    return f"""#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
{before}
int main(int argc, char** argv) {{
  MPI_Init(&argc, &argv);
  {lines}
  MPI_Finalize();
  return 0;
}}
"""


def translated(tmp_path: Path, text: str, *arguments: str) -> str:
    """The text of a program that can be translated."""
    (tmp_path / "prog.c").write_text(text)
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    ran = run("--mpi", "--quiet", "--output", str(out), *arguments, "prog.c", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    return (out / "prog.cu").read_text()


@pytest.mark.parametrize("program", FILES)
def test_translated_programs_are_those_that_are_kept(program: str, tmp_path: Path) -> None:
    folder, rewritten = place_of(program)
    ran = run("--mpi", "--quiet", "--output", str(tmp_path), *FILES[program], cwd=folder)
    assert ran.returncode == 0, ran.stderr
    for made in sorted(tmp_path.iterdir()):
        kept = rewritten / made.name
        if os.environ.get("GPUHEAP_UPDATE_EXPECTED"):
            kept.write_text(made.read_text())
        assert made.read_text() == kept.read_text()


@pytest.mark.skipif(PATCH is None, reason="what the rewriter prints as a patch: no patch: sudo apt-get install patch")
@pytest.mark.parametrize("program", FILES)
def test_the_diff_makes_the_output(program: str, tmp_path: Path) -> None:
    """Patch makes of the C files what --output writes, but for the line that heads it."""
    for name in FILES[program]:
        (tmp_path / name).write_text((place_of(program)[0] / name).read_text())
    (tmp_path / "out").mkdir()
    assert run("--mpi", "--quiet", "--output", "out", *FILES[program], cwd=tmp_path).returncode == 0
    ran = run("--mpi", "--quiet", *FILES[program], cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    for part in ran.stdout.split("--- ")[1:]:
        name, made = part.split("\n")[0], part.split("\n")[1].removeprefix("+++ ")
        subprocess.run([PATCH, name], input="--- " + part, text=True, check=True, capture_output=True, cwd=tmp_path)
        assert (tmp_path / "out" / made).read_text().split("\n", 1)[1] == (tmp_path / name).read_text()


def test_the_page_of_the_example_shows_the_diff() -> None:
    page = ROOT / "docs" / "mpi-program.md"
    ran = run("--mpi", "--quiet", "nbody.c", cwd=EXAMPLE)
    assert ran.returncode == 0, ran.stderr
    before, _, rest = page.read_text().partition("```diff\n")
    shown, _, after = rest.partition("```\n")
    if os.environ.get("GPUHEAP_UPDATE_EXPECTED"):
        page.write_text(f"{before}```diff\n{ran.stdout}```\n{after}")
        shown = ran.stdout
    assert shown == ran.stdout


def test_the_page_counts_the_public_programs() -> None:
    """The table of docs/coalesce.md is that of the list."""
    with (HERE / "public_programs.csv").open() as listed:
        rows = list(csv.DictReader(listed))
    assert len({(row["repository"], row["path"]) for row in rows}) == len(rows)
    assert all(len(row["commit"]) == 40 and (row["reason"] != "") == (row["outcome"] != "same") for row in rows)
    page = (ROOT / "docs" / "coalesce.md").read_text()
    counts = Counter(row["outcome"] for row in rows)
    assert f"lists {len(rows)} public C programs" in page
    assert f"| the output is Open MPI's | {counts['same']} |" in page
    assert f"| another output: the program reads uninitialised memory | {counts['differs']} |" in page
    made = Counter(row["nvcc"] for row in rows if row["outcome"] != "refused")
    assert made.keys() <= {"", "PTX", "object"} and f"for the {made.total()} programs that translate" in page
    for what, number in (("an object", made["object"]), ("PTX", made["PTX"]), ("not tried", made[""])):
        assert f"| {what} | {number} |" in page
    for reason, number in Counter(row["reason"].partition(", and ")[0] for row in rows if row["outcome"] == "refused").items():
        assert f"| refused: {reason} | {number} |" in page


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int main( {\n", "bad.c:1:"),
        ("#include <missing.h>\n" + GOOD, "bad.c:1:10: error: [E1] 'missing.h' file not found"),
        (body("MPI_Win w;"), "bad.c:7:3: error: [M2] the device MPI has no `MPI_Win`: docs/mpi.md lists its calls"),
        (body("MPI_Win_free(NULL);"), "bad.c:7:3: error: [M2] the device MPI has no `MPI_Win_free`"),
        (body("int v = MPI_LOCK_SHARED; (void)v;"), "[M2] the device MPI has no `MPI_LOCK_SHARED`"),
        (GOOD.replace("int main(int argc, char** argv)", "int work(int argc, char** argv)"), "good.c: error: [M1] no main in the files given"),
        ("int main(void) { return 0; }\n", "bad.c: error: [M1] nothing in these files calls MPI_Init"),
        (GOOD.replace("char** argv", "char** argv, char** env"), "[M1] main takes argc and argv, and nothing else"),
        (body('FILE* f = fopen("a", "w"); (void)f;'), "bad.c:7:13: error: [M3] ranks on a GPU write no files"),
        (body('(void)system("ls");'), "bad.c:7:9: error: [M3] device code has no `system`: ranks on a GPU are not processes"),
        (body("_exit(1);", "#include <unistd.h>"), "[M3] device code has no `_exit`: end a rank by `return` from main or by `exit`"),
        (body("void* p = realloc(NULL, 4); free(p);"), "[M3] device code has no `realloc`: use malloc, memcpy and free"),
        (body("(void)remove(argv[1]);"), "bad.c:7:9: error: [M3] device code has no `remove`: the host reads files before the ranks begin"),
        (body("help();", "void help(void);"), "bad.c:7:3: error: [M3] the definition of `help` is in none of the files given: name its file too"),
        (body("int n = 0; printf(\"%d%n\", 1, &n);"), "[M3] the device's printf knows no %n"),
        (body("n = 1;", "extern int n;"), "bad.c:4:12: error: [M4] `n` is defined elsewhere, and a rank's variables belong to one file"),
        (body("n = 1;", "int n; int n = 2;"), "bad.c:4:5: error: [M4] `n` is declared more than once"),
        (body("n = 1;", "#define COUNTER int n\nCOUNTER;"), "[M4] a macro declares `n`: write it out"),
        (body("n = 1;", "static _Thread_local int n;"), "[M4] `n` is thread-local"),
        (body("struct s { int a; }; static struct s x; x.a = 1;"), "[M4] the type of `x` is declared in the function"),
        (
            body("NEXT(a); int n = 3; NEXT(b);", "static int n;\n#define NEXT(v) int v = n + 1; (void)v"),
            "[M4] this macro means a variable of the file in one place",
        ),
        (body("double a[argc][argc][2]; a[0][0][0] = 1;"), "bad.c:7:10: error: [M5] the lengths of `a` are known at run time only"),
        (body("double a[argc]; int n = sizeof a; a[0] = n;"), "bad.c:7:27: error: [M5] this size is known at run time only"),
        (
            body("double a[1000000]; a[0] = 1;"),
            "bad.c:7:10: error: [M5] the local variables of `main` take 8000000 bytes, `a` alone 8000000, and the stack of a GPU thread has 524288",
        ),
        (
            body("const int n = 1000; double a[n][n]; a[0][0] = 1;"),
            "bad.c:7:30: error: [M5] the local variables of `main` take 8000004 bytes, `a` alone 8000000",
        ),
        (
            body("f(argc);", "static void g(int r) { double b[40000]; b[r] = 1; }\nvoid f(int r) { double a[40000]; a[r] = 1; if (r) g(r); else f(r - 1); }"),
            "bad.c:6:5: error: [M5] the local variables of the functions that call one another, `main`, `f`, `g`, take 640000 bytes together, and",
        ),
        (body("", "int old(a) int a; { return a; }"), "bad.c:4:5: error: [M5] C++ does not have this old form of definition"),
        (body("", "#define F(x) int f##x(void) { return x; }\nF(1)"), "bad.c:5:1: error: [M5] a macro writes this function: write it out"),
        (body("long double x = 1; (void)x;"), "[M5] device code has no `long double`: use double"),
        (body("double _Complex x = 1; (void)x;"), "[M5] device code has no complex numbers of C"),
        (body("int* p = &(int){3}; *p = 1;"), "bad.c:7:13: error: [M5] in C++ this value is gone before its address is used"),
        (body("int a[4] = {[2] = 1}; (void)a;"), "bad.c:7:14: error: [M5] C++ allows designators for members only"),
        (body("struct { int a, b; } v = {.b = 1, .a = 2}; (void)v;"), "[M5] C++ allows designators for members only, in their order"),
        (body("goto end; int n = 1; (void)n; end:;"), "bad.c:7:3: error: [M5] as C++ this does not compile: cannot jump from this goto"),
        (body("", "int sum(int n, ...) { return n; }"), "bad.c:4:5: error: [M6] `sum` takes a variable number of arguments"),
    ],
)  # fmt: skip
def test_what_cannot_be_translated(text: str, words: str, tmp_path: Path) -> None:
    """Each with its place and what to do; nothing is written."""
    (tmp_path / "good.c").write_text("int unused;\n")
    (tmp_path / "bad.c").write_text(text)
    (tmp_path / "out").mkdir()
    ran = run("--mpi", "--output", "out", "good.c", "bad.c", cwd=tmp_path)
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert words in ran.stderr
    assert "nothing is written" in ran.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_errors_as_json(tmp_path: Path) -> None:
    (tmp_path / "prog.c").write_text(body("abs(system(NULL));"))
    ran = run("--mpi", "--json", "prog.c", cwd=tmp_path)
    assert ran.returncode == 2
    said = json.loads(ran.stdout)["diagnostics"]
    assert [(one["id"], one["file"], one["line"], one["column"]) for one in said] == [("M3", "prog.c", 7, 7)]


def test_decisions_are_told_in_places_of_the_c_file(tmp_path: Path) -> None:
    (tmp_path / "prog.c").write_text(body("int n = argc > 1 ? atoi(argv[1]) : 4; int* a = malloc(n * sizeof(int)); free(a);"))
    ran = run("--mpi", "--json", "prog.c", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    site = json.loads(ran.stdout)["sites"][0]
    assert (site["file"], site["line"], site["column"], site["decision"], site["size"]) == ("prog.c", 7, 50, "collective", "n * sizeof(int)")


@pytest.mark.parametrize(
    ("before", "lines", "decision"),
    [
        ("", "int n = 0; MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD); free(malloc(n));", "collective"),
        ("", "int n = rank; MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD); free(malloc(n));", "collective"),
        ("", "int m = rank, n; MPI_Allreduce(&m, &n, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); free(malloc(n));", "collective"),
        ("", "int n = rank; MPI_Bcast(&n, rank, MPI_INT, 0, MPI_COMM_WORLD); free(malloc(n));", "dynamic"),
        ("", "int n[2] = {rank, rank}; MPI_Bcast(n, 1, MPI_INT, 0, MPI_COMM_WORLD); free(malloc(n[1]));", "dynamic"),
        ("", "MPI_Comm c; MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &c); int n; MPI_Comm_size(c, &n); free(malloc(n));", "dynamic"),
        ("", "MPI_Comm c; MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &c); int n = 1; MPI_Bcast(&n, 1, MPI_INT, 0, c); free(malloc(n));", "dynamic"),
        ("", "MPI_Comm c; MPI_Comm_dup(MPI_COMM_WORLD, &c); int n; MPI_Comm_size(c, &n); free(malloc(n));", "collective"),
        ("", "int n = atoi(argv[1]); free(malloc(n));", "collective"),
        ("", "int n = atoi(argv[rank]); free(malloc(n));", "dynamic"),
        ("", "char t[4] = {0}, *p = t; MPI_Recv(t, 3, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); free(malloc(atoi(p)));", "dynamic"),
        ("static int n = 4;", "n += rank; free(malloc(n));", "dynamic"),
        ("", 'printf("%d\\n", rank); free(malloc(4));', "collective"),
        ("const int n = 4;", "free(malloc(n));", "collective"),
        # Ranks that wait for one another along a chain must not meet on the way.
        ("", "int n; MPI_Recv(&n, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); free(malloc(4));", "dynamic"),
        ("", "int n; if (rank) MPI_Recv(&n, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); free(malloc(4));", "dynamic"),
        ("", "int n; MPI_Recv(&n, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); MPI_Barrier(MPI_COMM_WORLD); free(malloc(4));", "collective"),
        ("static void next(void) { MPI_Probe(0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }", "next(); free(malloc(4));", "dynamic"),
        ("", "int n; MPI_Request r; MPI_Irecv(&n, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &r); MPI_Wait(&r, MPI_STATUS_IGNORE); free(malloc(4));", "dynamic"),
        ("", "for (int i = 0; i < 2; i++) { free(malloc(4)); MPI_Send(&i, 1, MPI_INT, 0, 0, MPI_COMM_WORLD); }", "collective"),
        ("", "int f = 0; MPI_Request r; MPI_Irecv(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &r); "
         "while (!f) MPI_Test(&r, &f, MPI_STATUS_IGNORE); free(malloc(4));", "dynamic"),
        ("", "int f = 0; do { MPI_Iprobe(0, 0, MPI_COMM_WORLD, &f, MPI_STATUS_IGNORE); } while (!f); free(malloc(4));", "dynamic"),
        ("static void a(int n) { if (n) MPI_Recv(&n, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); } static void b(int n) { (void)n; }",
         "void (*f)(int) = rank >= 0 ? a : b; f(rank); free(malloc(4));", "dynamic"),
        ("", "int a[4] = {8, 8, 8, 8}; int* q = a; q[1] = rank; free(malloc(a[1]));", "dynamic"),
        ("", "for (int i = 0; i < 2; i++) { free(malloc(4)); MPI_Recv(&i, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }", "dynamic"),
    ],
)  # fmt: skip
def test_sizes_that_calls_of_mpi_give(before: str, lines: str, decision: str, tmp_path: Path) -> None:
    (tmp_path / "prog.c").write_text(body("int rank; MPI_Comm_rank(MPI_COMM_WORLD, &rank); " + lines, before))
    ran = run("--mpi", "--json", "prog.c", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert [site["decision"] for site in json.loads(ran.stdout)["sites"]] == [decision]


@pytest.mark.parametrize(
    ("c", "cpp"),
    [
        ("int* p = malloc(4); free(p);", "int* p = (int*)gpuheap::coalesced::malloc(4, true);"),
        ("const char* a = \"x\"; char* b = \"y\"; (void)a; (void)b;", 'const char* a = "x"; char* b = (char*)"y";'),
        ("enum e { A, B } v = argc; (void)v;", "v = (enum e)argc;"),
        ("double d[2] = {argc, 1}; (void)d;", "double d[2] = {(double)argc, 1};"),
        ("float f = 2; f = sqrt(f);", "f = sqrt((double)f);"),
        ("int a = abs(2.5); (void)a;", "int a = abs((int)2.5);"),
        ("int new = 1, delete = new; (void)delete;", "int new_ = 1, delete_ = new_; (void)delete_;"),
        ("_Bool b = 1; register int i = b; (void)i;", "bool b = 1; int i = b;"),
        ('fprintf(stderr, "%zu\\n", sizeof(int)); fflush(stdout);', 'printf("%lu\\n", sizeof(int)); (void)0;'),
        ("struct s { int a; } v; v = (struct s){1}; (void)v;", "v = s{1};"),
    ],
)
def test_what_c_has_and_cpp_has_not(c: str, cpp: str, tmp_path: Path) -> None:
    assert cpp in translated(tmp_path, body(c, "#include <math.h>"))


def test_variables_that_live_as_long_as_the_program(tmp_path: Path) -> None:
    text = translated(tmp_path, body("b[0] += a; c = &a; e.x = tick(); struct point q = e; (void)q; (void)limit;", """static int a = 1, b[] = {1, 2};
int* c = &a;
static struct point { int x; } e;
static const double limit = 2;
static int tick(void) { static int t; return ++t; }"""))  # fmt: skip
    for line in (
        "struct a_of_prog { int a = 1, b[2] = {1, 2}; };",
        "struct c_of_prog { int* c = &gpuheap::mpi::own<a_of_prog>().a; };",
        "struct point { int x; };\nstruct e_of_prog { struct point e; };",
        "constexpr static const double limit = 2;",
        "struct tick_t_of_prog { int t; };\nGPUHEAP_FN static int tick(void) {",
        "return ++gpuheap::mpi::own<tick_t_of_prog>().t;",
        "using variables_of_prog = gpuheap::mpi::variables<a_of_prog, c_of_prog, e_of_prog, tick_t_of_prog>;",
    ):
        assert line in text


def test_options_of_the_made_main(tmp_path: Path) -> None:
    text = translated(tmp_path, GOOD, "--dynamic", "--heap-bytes", "1 << 20")
    assert "rank_program{}, [] { gpuheap::coalesced::init_dynamic(1 << 20); });" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--in-place", "prog.c"], "name a folder for them with --output DIR"),
        (["--no-init", "prog.c"], "--mpi writes main anew"),
        (["prog.cu"], "is no .c file: CUDA files need no --mpi"),
        (["absent.c"], "cannot read the file 'absent.c'"),
        (["--output", "absent", "prog.c"], "--output: there is no folder 'absent': make it first"),
    ],
)
def test_command_line(arguments: list[str], words: str, tmp_path: Path) -> None:
    (tmp_path / "prog.c").write_text(GOOD)
    (tmp_path / "prog.cu").write_text(GOOD)
    ran = run("--mpi", *arguments, cwd=tmp_path)
    assert ran.returncode == 2 and words in ran.stderr, ran.stderr


def test_headers(tmp_path: Path) -> None:
    """Both files include one, which is translated whether it is named or not; a variable in it belongs to neither."""
    (tmp_path / "out").mkdir()
    (tmp_path / "both.h").write_text("#pragma once\nint twice(int n);\ntypedef struct { int v; } pair;\n")
    (tmp_path / "a.c").write_text('#include "both.h"\n' + body("pair p = {twice(2)}; (void)p;"))
    (tmp_path / "b.c").write_text('#include "both.h"\nint twice(int n) { return 2 * n; }\n')
    ran = run("--mpi", "--output", "out", "a.c", "b.c", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = (tmp_path / "out" / "both.h").read_text()
    assert "GPUHEAP_FN int twice(int n);" in found and "#include" not in found
    ran = run("--mpi", "--output", ".", "a.c", "b.c", "both.h", cwd=tmp_path)
    assert ran.returncode == 2 and "both.h is one of the files given, which stay as they are" in ran.stderr
    assert not (tmp_path / "a.cu").exists()
    ran = run("--mpi", "--output", "out", "a.c", "b.c", "both.h", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "GPUHEAP_FN int twice(int n);" in (tmp_path / "out" / "both.h").read_text()
    # The words that mark the functions of both.h come before it, whether the file includes <mpi.h> or not.
    for file in ("a.cu", "b.cu"):
        made = (tmp_path / "out" / file).read_text()
        assert made.index("#include <gpuheap/mpi/program.hpp>") < made.index('#include "both.h"')
    (tmp_path / "both.h").write_text("#pragma once\nint twice(int n);\nstatic int n;\ntypedef struct { int v; } pair;\n")
    ran = run("--mpi", "--output", "out", "a.c", "b.c", "both.h", cwd=tmp_path)
    assert ran.returncode == 2 and "both.h:3:12: error: [M4] more than one of the files given includes this variable" in ran.stderr


def test_files_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "prog.c").write_text(GOOD)
    (tmp_path / "prog.cu").write_text("by hand\n")
    ran = run("--mpi", "--output", ".", "prog.c", cwd=tmp_path)
    assert ran.returncode == 2 and "prog.cu exists, and this command did not write it" in ran.stderr
    assert (tmp_path / "prog.cu").read_text() == "by hand\n"
    (tmp_path / "prog.cu").unlink()
    for _ in range(2):
        assert run("--mpi", "--output", ".", "prog.c", cwd=tmp_path).returncode == 0


def test_ten_thousand_lines(tmp_path: Path) -> None:
    """Within the 30 s that are promised."""
    parts = [f"""
static int count_{n};
struct item_{n} {{ double x; struct item_{n}* next; }};
static struct item_{n}* add_{n}(struct item_{n}* list, double x) {{
  struct item_{n}* made = malloc(sizeof *made);
  made->x = x;
  made->next = list;
  count_{n}++;
  return made;
}}
static double sum_{n}(int size) {{
  double* values = malloc(size * sizeof(double));
  double sum = 0;
  for (int i = 0; i < size; i++) {{
    values[i] = i;
    sum += sqrt(values[i]);
  }}
  struct item_{n}* list = add_{n}(NULL, sum);
  free(list);
  free(values);
  return sum;
}}""" for n in range(480)]  # fmt: skip
    text = body(" ".join(f"sum_{n}({n});" for n in range(480)), "#include <math.h>\n" + "".join(parts))
    assert text.count("\n") > 10_000
    assert "sum_479(479, true);" in translated(tmp_path, text)


@pytest.mark.parametrize(
    ("function", "end"),
    [
        ("int f(int r) { if (r < 0) return 1; printf(\"in %d\", r); }", "  return 0;\n}"),
        ("struct s { int a; }; struct s f(int r) { struct s v = {r}; if (r) return v; }", "  return s{};\n}"),
        ("char *f(int r) { while (r) r--; }", "  return NULL;\n}"),
        ("int f(int r) { if (r) return 1; else return 2; }", "return 2; }"),
        ("int f(int r) { for (;;) if (r--) return 1; }", "return 1; }"),
    ],
)
def test_the_end_of_a_function_without_a_return_stays_defined(function: str, end: str, tmp_path: Path) -> None:
    text = translated(tmp_path, body("f(argc);", function))
    begin = text.index("f(int r)")
    assert end in text[begin : text.index("rank_main", begin)]


def test_a_function_that_is_called_before_it_is_declared(tmp_path: Path) -> None:
    text = translated(tmp_path, body("printf(\"%d\", twice(later(argc)));") + "int twice(int n) { return 2 * n; }\nint later(int n)\n{ return twice(n); }\n")
    assert "GPUHEAP_FN int twice(int n);\nGPUHEAP_FN int later(int n);\nGPUHEAP_FN int rank_main(" in text


def test_texts_of_headers_live_as_long_as_the_tree(tmp_path: Path) -> None:
    """Calls in a header that both files include are rewritten where they stand: a tree that points at a text that is gone gives other places."""
    (tmp_path / "out").mkdir()
    (tmp_path / "both.h").write_text("#pragma once\n#include <stdlib.h>\nint *make(int n);\nstatic inline void drop(int *p) { free(p); }\n")
    (tmp_path / "a.c").write_text('#include "both.h"\n' + body("drop(make(2));"))
    (tmp_path / "b.c").write_text('#include "both.h"\nint *make(int n) { return malloc(n * sizeof(int)); }\n')
    ran = run("--mpi", "--output", "out", "a.c", "b.c", "both.h", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    made = (tmp_path / "out" / "both.h").read_text()
    assert "GPUHEAP_FN int *make(int n, bool coalesce = false);" in made and "drop(int *p) { gpuheap::coalesced::free(p); }" in made
