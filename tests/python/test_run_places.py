"""Programs whose calls of malloc and free carry the numbers of their places, linked as `gpuheap run` links them."""

from __future__ import annotations

import hashlib
import re
import struct
import time

import pytest
from served_steps import PROGRAM, Bench, Compile, is_whole, needs_the_tool

pytestmark = needs_the_tool


def number_of_place(text: str) -> int:
    digest = hashlib.sha256(len(text).to_bytes(8, "little") + text.encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 2) + 1


@pytest.mark.parametrize("options", [[], ["-lineinfo"], ["-G"], ["-rdc=true"], ["-DWIDE", "-lineinfo"]], ids=["plain", "lines", "debug", "rdc", "wide"])
def test_an_allocator_that_takes_places_is_called_with_them(bench: Bench, compiled: Compile, options: list[str]) -> None:
    program = compiled(PROGRAM, "-arch=sm_90", *options)
    line = {word: 1 + next(i for i, text in enumerate(PROGRAM.splitlines()) if word in text) for word in ("malloc(", "free(", "new node", "new wide")}
    functions = {"malloc(": "make", "free(": "drop", "new node": "hidden(node**)", **({"new wide": "wides"} if "-DWIDE" in options else {})}
    has_lines = bool({"-lineinfo", "-G"} & set(options))
    texts = [(f"at {program.stem}.cu:{line[word]} " if has_lines else "") + f"in {name}" for word, name in functions.items()]
    numbers = [number_of_place(text) for text in texts]
    steps = ("context", f"library={program}", "launch=make")
    for links in (1, 0):  # the second process finds the code in the cache
        ran = bench.served(*steps, PROVIDER_PLACES=",".join(str(number) for number in [*numbers, 1]), GPUHEAP_RUN_CACHE=str(bench.folder / "kept"))
        assert len(bench.log("^link$")) == links
        assert (ran.stdout, ran.returncode) == ("done\n", 0)
        told = [re.sub(r"^gpuheap: device 0 \(.*?\): ", "", text) for text in ran.stderr.splitlines()]
        assert told == [*texts, "no such place", f"{len(texts) + 1} misuses of the heap's blocks found"]
    assert is_whole(bench.symbols() | dict.fromkeys(("gpuheap_malloc", "gpuheap_free"), ("DEF", "FUNC")))  # without places nothing calls these
    called = ["gpuheap_malloc_at", "gpuheap_free_at", *(["gpuheap_aligned_malloc_at"] if "-DWIDE" in options else [])]
    assert all(bench.symbols()[name] == ("DEF", "FUNC") for name in called)
    code = (bench.folder / "code" / "1.cubin").read_bytes()
    for number in numbers:
        assert {half in code for half in struct.unpack("4s4s", number.to_bytes(8, "little"))} == {True}


# ptxas must take what is made of all forms of a call.
CALLS = """.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b64 r) malloc (.param .b64 p);
.extern .func free (.param .b64 p);
.file 1 "C:\\dir\\"
.visible .func (.param .b64 free) labels(.param .b64 malloc) {
  .reg .b64 %rd<9>;
  ld.param.b64 %rd1, [malloc];
  bra free_it;
  free_it: st.param.b64 [free], %rd1;
  ret;
}
.visible .entry make(.param .b64 free) {
  .extern .func (.param .b64 r) malloc (.param .b64 p);
  .reg .b64 %rd<9>;
  .reg .pred %p<3>;
  .loc 1 3 1
  ld.param.b64 %rd1, [free];
  setp.eq.u64 %p1, %rd1, 0;
  @%p1 call (%rd2), malloc, (%rd1);
  .loc 1 4 1
  call.uni (%rd3), malloc, (8);
  { .param .b64 a; .param .b64 r; st.param.b64 [a], %rd2; call.uni (r), malloc, (a); ld.param.b64 %rd4, [r]; }
  st.global.u64 [%rd1], %rd4;
  ret;
}
.visible .entry drop() {
  .reg .b64 free, malloc;
  mov.b64 free, 5;
  .loc 1 7 1
  add.u64 malloc, free, 1;
  st.global.u64 [malloc], free;
  ret;
}
.visible .entry last() { call free, (0); ret; }
"""
OTHER_ARGUMENTS = """.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .align 8 .b8 r[8]) malloc (.param .align 8 .b8 p[8]);
.visible .entry make() { .param .align 8 .b8 a[8]; .param .align 8 .b8 r[8]; st.param.b64 [a], 8; call.uni (r), malloc, (a); ret; }
"""


@pytest.mark.parametrize(
    ("text", "called"),
    [(CALLS, {"gpuheap_malloc_at", "gpuheap_free_at"}), (OTHER_ARGUMENTS, {"gpuheap_malloc"})],
    ids=["forms", "other arguments"],
)
def test_every_form_of_a_call_is_linked_with_places(bench: Bench, text: str, called: set[str]) -> None:
    file = bench.folder / "calls.ptx"
    file.write_text(text)
    ran = bench.served("context", f"module={file}", "launch=make", PROVIDER_PLACES="1")
    assert (ran.stdout, ran.returncode) == ("done\n", 0)
    assert [line for line in ran.stderr.splitlines() if "keeps CUDA's malloc" in line] == []
    symbols = bench.symbols()
    assert called <= {name for name, (state, _) in symbols.items() if state == "DEF"}
    assert not {"malloc", "free"} & set(symbols)


def test_many_places_take_little_time(bench: Bench) -> None:
    one = "{ .param .b64 a; .param .b64 r; st.param.b64 [a], 8; call.uni (r), malloc, (a); }\n"
    calls = "".join(f".loc 1 {line} 1\n{one}" for line in range(1, 21))
    kernels = "".join(f".visible .entry k{i}() {{\n{calls}ret;\n}}\n" for i in range(100))
    file = bench.folder / "many.ptx"
    file.write_text(CALLS.split(".file")[0] + '.file 1 "many.cu"\n' + kernels)
    seconds = []
    for places in ({}, {"PROVIDER_PLACES": "1"}):
        begin = time.monotonic()
        bench.served("context", f"module={file}", "launch=k0", **places)
        seconds.append(time.monotonic() - begin)
    assert bench.symbols()["gpuheap_malloc_at"] == ("DEF", "FUNC")
    assert seconds[1] < 3 * seconds[0] + 2
