"""What the examples' kernels compute, where a CPU can run it. Needs no GPU."""

from __future__ import annotations

import ast
import csv
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "python"


def texts_of(example: str) -> dict[str, str]:
    """The texts that an example names: its CUDA sources."""
    named = {}
    for line in ast.parse((FOLDER / f"{example}.py").read_text()).body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) and isinstance(line.value, ast.Constant):
            named[line.targets[0].id] = str(line.value.value)
    return named


def test_fields_are_those_that_pythons_csv_reads(tmp_path: Path) -> None:
    source = tmp_path / "fields.cpp"
    source.write_text(
        "#include <cstdio>\n#include <iostream>\n#include <string>\n#define __device__\n"
        + texts_of("csv_fields_cupy")["READER"]
        + """
int main() {
  for (std::string line; std::getline(std::cin, line);) {
    reader in{line.data(), line.data() + line.size()};
    int fields = 0;
    while (!in.last) {
      std::putchar(fields++ == 0 ? '[' : '|');
      in.field();
      for (int c; (c = in.next()) >= 0;) std::putchar(c);
    }
    std::puts("]");
  }
}
"""
    )
    subprocess.run(["g++", "-std=c++20", "-Wall", "-Werror", source, "-o", tmp_path / "fields"], check=True)
    lines = ["a,b,c", ",", "a,", ",,x", "one", '"a, b",c', '"she said ""no""",""', '""""', '"",""', 'x,"y"', '"",', "a b,  c", '"""a""b"""']
    ran = subprocess.run([tmp_path / "fields"], input="\n".join(lines), capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [f"[{'|'.join(fields)}]" for fields in csv.reader(lines)]
