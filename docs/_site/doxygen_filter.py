"""Doxygen's input filter: what it reads in place of a header of include/gpuheap.

Comments of the headers begin with `//` and stand above what they describe; Doxygen reads `///`. The first comment of a header is about the
file. A line of dashes begins a section of a class, which Doxygen need not know. The words of the machine layer before functions, and its
inline namespace, are left out, as no program writes them.

usage: doxygen_filter.py FILE
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

WORDS = re.compile(r"\b(GPUHEAP_FN|GPUHEAP_HD|GPUHEAP_COLD|GPUHEAP_PRIMITIVE|GPUHEAP_NO_UNROLL)\b ?")


def filtered(text: str) -> str:
    lines = []
    in_head = True
    for line in text.splitlines():
        bare = line.strip()
        if in_head and not bare.startswith("//"):
            in_head = False
        if in_head:
            lines.append(re.sub(r"^//", "/// @file\n///" if not lines else "///", line))
        elif bare.startswith("// ----"):
            lines.append("")
        elif bare.startswith("//") and not bare.startswith("///"):
            lines.append(line.replace("//", "///", 1))
        else:
            declaration = re.match(r"(\s+[\w:<>,*& \[\]=.{}()~'-]+;)\s+// (.*)$", line)
            lines.append(f"{declaration[1]}  ///< {declaration[2]}" if declaration else line)
    # Words with two underscores around them would be bold.
    lines = [re.sub(r"(?<![`\w])(__\w+__)(?!`)", r"`\1`", line) if "///" in line else line for line in lines]
    text = "\n".join(lines) + "\n"
    text = text.replace("::inline GPUHEAP_BACKEND_NAMESPACE", "").replace("inline namespace GPUHEAP_BACKEND_NAMESPACE", "namespace gpuheap_backend")
    # Doxygen takes the shift in a default argument for the end of the template's head.
    text = re.sub(r"= simt::size_t\{1\} << (\d+)>", lambda found: f"= {1 << int(found[1])}>", text)
    return WORDS.sub("", text)


if __name__ == "__main__":
    sys.stdout.write(filtered(Path(sys.argv[1]).read_text()))
