"""Each rule finds the breaches for which it is made, and reports nothing else."""

import rules


def lines(found):
    return [b.line for b in found]


def test_includes():
    up = '#include <gpuheap/heap.hpp>\n#include <gpuheap/simt/warp.hpp>\n#include <cuda/std/atomic>\n'
    assert lines(rules.includes_going_up("include/gpuheap/structures/x.hpp", up)) == [1]
    assert lines(rules.includes_going_up("include/gpuheap/heap.hpp", up)) == []
    sideways = "#include <gpuheap/memory/region.hpp>\n"
    assert lines(rules.includes_going_up("include/gpuheap/structures/x.hpp", sideways)) == [1]
    assert lines(rules.includes_going_up("include/gpuheap/allocator.hpp", sideways)) == []
    relative = '#include "../benchmarks/harness/case.hpp"\n'
    assert lines(rules.includes_going_up("src/x.cu", '#include "y.hpp"\n')) == []
    assert lines(rules.includes_going_up("tests/x.cpp", relative)) == []


def test_only_the_host_backend_knows_the_simulator():
    text = "#include <gpuheap_simulator/lane.hpp>\n"
    assert lines(rules.includes_going_up("include/gpuheap/heap.hpp", text)) == [1]
    assert lines(rules.includes_going_up("benchmarks/cases/x.hpp", text)) == [1]
    assert lines(rules.includes_going_up("include/gpuheap/simt/host/warp.hpp", text)) == []


def test_backend_ifs():
    text = "#if defined(__CUDACC__)\n#ifdef GPUHEAP_BACKEND_HOST\n#if GPUHEAP_HAS_HOST\n// #if __CUDA_ARCH__\nint x; // __CUDACC__\n"
    assert lines(rules.backend_tests("include/gpuheap/heap.hpp", text)) == [1, 2]
    assert lines(rules.backend_tests("include/gpuheap/simt/config.hpp", text)) == []
    assert len(rules.backend_tests("src/x.cu", "#if defined(A) || \\\n  defined(__CUDA_ARCH__)\n")) == 1


def test_loops_that_wait():
    text = """// Ends: n passes.
for (;;) {}
while (x) {}
do { y(); } while (z());  // Ends: once.
do {
  y();
} while (z(a, f(b)));
while (u) {  // Ends: at once.
}
// for the record: while "do"
auto s = "for while do";
// Ends: at once.
// A second line.
GPUHEAP_NO_UNROLL
for (; !done; done = z()) {}
for (; at.step < n; ++at.step) {}
for (unsigned served = 0; served < n && got != 0; served += got) {}
for (unsigned i = 0; i < n; ++i) {}
"""
    assert lines(rules.loops_without_end("include/gpuheap/x.hpp", text)) == [3, 5, 16, 17]


def test_loops_that_count():
    heads = [
        "auto x : y", "unsigned i = 0; i < f(n, 2); ++i", "; left != 0; left--", "unsigned i = 32; i != 0; i /= 2", "; i < n; i += 4",
        "; bits != 0 && !got; bits &= bits - 1", "unsigned j = 4; j-- != 0;",
    ]  # fmt: skip
    waits = [";;", "; !done; w.wait()", "; p != nullptr; p = p->next", "; i < n; j += 1", "; got != 0; done += got"]
    assert [head for head in heads if not rules.counts(rules.for_clauses(f"for ({head}) {{", 0))] == []
    assert [head for head in waits if rules.counts(rules.for_clauses(f"for ({head}) {{", 0))] == []
    text = "// Ends: n passes.\nfor (int i = 0; i < n; ++i) {}\nfor (auto x : y) {}  // Ends: once.\n// Ends: by z.\nwhile (z()) {}\n"
    assert lines(rules.counted_loops_with_end("x.hpp", text)) == [2, 3]


def test_documentation():
    good = (
        "// What it is.\n#pragma once\n\nnamespace a {\n\n// A thing.\nstruct x {\n  int y;\n\n  int z;\n};\n\n"
        "// Two of a kind.\ninline void f() {}\ninline void g() {}\n}\n"
    )
    assert rules.undocumented("include/gpuheap/x.hpp", good) == []
    bad = "#pragma once\nstruct y {};\n\n// A comment.\n\ninline void f() {}\n"
    assert lines(rules.undocumented("include/gpuheap/x.hpp", bad)) == [1, 2, 6]


def test_length_and_marks():
    assert rules.too_long("x.py", "\n" * 600) == [] and len(rules.too_long("x.py", "\n" * 601)) == 1
    assert lines(rules.unfinished("x.py", "fine\n# TO" "DO: later\n")) == [2]


def test_long_lines():
    code = "int x;" + " " * 130 + "// y z\n"
    literal = '    "' + "word " * 40 + '"\n'
    assert lines(rules.long_lines("x.cpp", "fine\n" + code + literal + "// http://" + "a" * 200 + "\n")) == [2]


def test_subjects():
    assert rules.subject_breaches("heap: count faults") == []
    assert rules.subject_breaches("tests, cmake: build less") == []
    assert len(rules.subject_breaches("Count faults")) == 1
    assert len(rules.subject_breaches("heap: count faults.")) == 1
    assert len(rules.subject_breaches("heap: " + "x" * 70)) == 1


def test_type_names():
    text = "struct good_name {};\ntemplate <class Key>\nclass BadName {};\n// struct InComment {};\n  enum class Worse { a };\nconcept Bad = true;\n"
    text += "struct CUelsewhere;\n"
    assert lines(rules.type_names("x.hpp", text)) == [3, 5, 6]


def test_retired_names():
    assert lines(rules.retired_names("x.hpp", "int house_rules;\nint houses;\n// the house\nint floor_of(int);\n")) == [1, 4]


def test_skips():
    text = """from tools import REASON
NOT_BUILT = "the tool: not built: build it"
pytest.skip("the tool: not built")
pytest.skip(NOT_BUILT)
pytest.skip(f"the tool: {error}")
mark = pytest.mark.skipif(True, reason=f"no {tool}: install it")
pytest.importorskip("a", reason="tests on a GPU: there is none")
pytest.importorskip("a")
pytest.skip(error)
pytest.skip(REASON)
"""
    assert lines(rules.skips_without_remedy("tests/x.py", text)) == [3, 6, 8, 9]
    cpp = 'if (a) GTEST_SKIP() << "no such instruction";\nGTEST_SKIP() << "wide words: no instruction: another processor";\n'
    assert lines(rules.skips_without_remedy("tests/x.cpp", cpp)) == [1]
    assert lines(rules.skips_without_remedy("CMakeLists.txt", 'message(STATUS "skipped: headers: no clang")\n')) == [1]
