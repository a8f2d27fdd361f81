"""Every code block of the documentation is compiled, parsed or read as what it says that it is."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from pages import ROOT, Block, all_blocks, blocks_of, translation_unit

from gpuheap.cli import app

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BLOCKS = all_blocks()
# Languages of blocks that only a person reads: output of commands, drawings, and differences.
READ_ONLY = {"", "text", "diff", "none"}
CHECKED = {"cpp", "c", "sh", "bash", "cmake", "toml", "json", "python"}
# Programs that another test compiles and runs as they stand on the page: add-an-allocator.md, and the files of examples/.
ELSEWHERE = {"docs/add-an-allocator.md"}
EXAMPLES = {path.read_text() for path in (ROOT / "examples").iterdir() if path.suffix in {".cu", ".cpp"}}


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


def named(blocks: list[Block]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("block", blocks, ids=[block.name for block in blocks])


def cpp_blocks() -> list[Block]:
    return [block for block in of("cpp") if block.page not in ELSEWHERE and block.text not in EXAMPLES and "opencl" not in block.page]


def compiled(command: list[str], source: str, name: str, folder: Path) -> str:
    """The compiler's messages about mistakes; "" if there are none."""
    (folder / name).write_text(source)
    done = subprocess.run([*command, str(folder / name)], cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_pages_have_only_languages_that_are_checked():
    known = CHECKED | READ_ONLY
    assert [f"{b.name}: {b.language}" for b in BLOCKS if b.language not in known and not b.language.startswith("{")] == []


def test_blocks_are_found_with_their_notes():
    text = "a\n<!-- before: struct x; -->\n<!-- within: void f() -->\n```cpp\nint y;\n```\n\n<!-- within: no -->\ntext\n```sh\nls\n```\n"
    first, second = blocks_of("p.md", text)
    assert (first.line, first.language, first.text, first.within, first.before) == (5, "cpp", "int y;\n", "void f()", "struct x;")
    assert (second.line, second.within) == (11, "")


def test_kernels_of_the_pages_compile(tmp_path):
    blocks = [block for block in cpp_blocks() if "__global__" in block.text]
    assert blocks
    if not shutil.which("nvcc"):
        pytest.skip("kernels of the documentation: no nvcc found: install the CUDA toolkit, 13.0 or newer")
    command = ["nvcc", "-std=c++20", "-arch=sm_90", "-Iinclude", "-ptx", "-Xcicc=-O0", "-o", str(tmp_path / "pages.ptx")]
    assert compiled(command, translation_unit(blocks), "pages.cu", tmp_path) == ""


def test_other_cpp_of_the_pages_compiles(tmp_path):
    blocks = [block for block in cpp_blocks() if "__global__" not in block.text]
    assert blocks
    command = ["g++", "-std=c++20", "-fsyntax-only", "-DGPUHEAP_BACKEND_HOST", "-Iinclude", "-Isimulator/include"]
    assert compiled(command, translation_unit(blocks), "pages.cpp", tmp_path) == ""


def test_a_mistake_in_a_page_is_found_with_its_line(tmp_path):
    wrong = blocks_of("docs/p.md", "\n\n<!-- within: void f(gpuheap::heap<>& heap) -->\n```cpp\nheap.chek();\n```\n")
    command = ["g++", "-std=c++20", "-fsyntax-only", "-DGPUHEAP_BACKEND_HOST", "-Iinclude", "-Isimulator/include"]
    assert "docs/p.md:5:" in compiled(command, translation_unit(wrong), "pages.cpp", tmp_path)


def test_c_of_the_pages_compiles(tmp_path):
    """Each block is a whole program."""
    programs = [block for block in of("c") if "opencl" not in block.page]
    assert programs
    command = ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-Iinclude"]
    for block in programs:
        assert compiled(command, f'#line {block.line} "{block.page}"\n{block.text}', "page.c", tmp_path) == ""


def test_opencl_of_the_pages_compiles(tmp_path):
    host = [block for block in of("cpp") if "opencl" in block.page]
    kernels = [block for block in of("c") if "opencl" in block.page]
    assert host and kernels
    folders = [folder for folder in (Path("/usr/include"), ROOT / "build/deps/usr/include") if (folder / "CL/cl.h").is_file()]
    if not folders:
        pytest.skip("OpenCL of the documentation: needs OpenCL's headers: sudo apt-get install ocl-icd-opencl-dev")
    source = translation_unit(host).replace("#include <gpuheap/gpuheap.hpp>\n", "")
    command = ["g++", "-std=c++20", "-fsyntax-only", "-DCL_TARGET_OPENCL_VERSION=300", "-Iopencl/include", "-idirafter", str(folders[0])]
    assert compiled(command, source, "pages.cpp", tmp_path) == ""
    if not shutil.which("clang"):
        pytest.skip("OpenCL C of the documentation: needs Clang: sudo apt-get install clang")
    source = (ROOT / "opencl/kma.cl").read_text() + "".join(block.text for block in kernels)
    command = ["clang", "-x", "cl", "-cl-std=CL1.2", "-fsyntax-only", "-Xclang", "-finclude-default-header", "-Iopencl"]
    assert compiled(command, source, "pages.cl", tmp_path) == ""


@named(of("sh", "bash"))
def test_shell(block):
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    mistakes = [f"{words}: {mistake}" for words in gpuheap_commands(block.text) if (mistake := mistake_in(words))]
    assert mistakes == []
    scripts = re.findall(r"(?:^|[;&] *)((?:\./|\.ci/|scripts/)[\w./-]+)", block.text, re.MULTILINE)
    ours = [name for name in scripts if (ROOT / name).parent.is_dir() and "/" in name.removeprefix("./") or name in {"./test", "./demo"}]
    assert [name for name in ours if not (ROOT / name).exists()] == []


def gpuheap_commands(text: str) -> list[list[str]]:
    """The arguments of each call of `gpuheap` in a block, placeholders in brackets left out."""
    calls = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set(";&|"):
                while words and re.fullmatch(r"\w+=.*", words[0]):
                    words.pop(0)
                if words and words[0] == "gpuheap":
                    calls.append([word for word in words[1:] if not word.startswith("[")])
                words = []
            else:
                words.append(word)
    return calls


def mistake_in(words: list[str]) -> str:
    """The answer of the command line to these words, if they are a mistake. Nothing is run; files need not exist."""
    command = typer.main.get_command(app)
    context = command.context_class(command, info_name="gpuheap", **command.context_settings)
    try:
        while hasattr(command, "resolve_command"):
            if not words or words[0].startswith("-"):
                break
            name, command, words = command.resolve_command(context, words)
            context = command.context_class(command, info_name=name, parent=context, **command.context_settings)
        if not context.ignore_unknown_options:
            command.make_parser(context).parse_args(list(words))
    except Exception as mistake:
        if not hasattr(mistake, "format_message"):
            raise
        return mistake.format_message()
    return ""


def test_mistakes_in_commands_are_found():
    assert gpuheap_commands("A=1 gpuheap list; gpuheap data get 144  # why\nnvcc x && gpuheap run ./p\n") == [["list"], ["data", "get", "144"], ["run", "./p"]]
    assert mistake_in(["list", "--table"]) == "" and mistake_in(["run", "--stats", "./p", "--own"]) == ""
    assert "lst" in mistake_in(["lst"]) and "--tabel" in mistake_in(["list", "--tabel"])


@named(of("cmake"))
def test_cmake(block, tmp_path):
    (tmp_path / "block.cmake").write_text(f"function(never_called)\n{block.text}\nendfunction()\n")
    done = subprocess.run(["cmake", "-P", str(tmp_path / "block.cmake")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@named(of("toml", "json", "python"))
def test_data(block):
    {"toml": tomllib.loads, "json": json.loads, "python": lambda text: compile(text, block.name, "exec")}[block.language](block.text)


def test_the_suite_of_the_page_on_suites_loads(tmp_path):
    """The blocks with [suite]: each is a whole file. Its points are those that the file names."""
    from gpuheap.formats.suites import load_suite

    suites = [block for block in of("toml") if block.text.startswith("[suite]")]
    assert suites
    for block in suites:
        (tmp_path / "quick.toml").write_text(block.text)
        assert load_suite(tmp_path / "quick.toml").cases["alloc_single"]["cuda"].bounds
