"""The style rules, as functions from a file's path and text to the lines that break them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

CPP = {".hpp", ".cpp", ".cu", ".cuh", ".h", ".in"}
MAX_LINES = 600
MAX_COLUMNS = 140
MAX_SUBJECT = 72

# Names that the project no longer uses for itself, with the standard term that replaces each. `retired_names` looks for them in code, as
# whole words between underscores.
RETIRED: dict[str, str] = {
    "house": "lint, layers",
    "floor_of": "layer_of",
    "how_much": "query",
    "in_words": "format_bytes, describe",
    "last_words": "trap_report",
    "nulls": "failed_requests",
    "dependent": "consume",
    "handed_on": "relay",
    "handed_down": "relay",
    "handed_over": "consume_release",
    "transit_count": "relocation_count",
    "look_again": "read_end",
}

# The layer and the module of each folder or file. A file may include files of lower layers and of its own module. The longest prefix
# counts.
LAYERS: dict[str, tuple[int, str]] = {
    "simulator/": (1, "simulator"),
    "include/gpuheap/version.hpp": (0, "version"),
    "include/gpuheap/simt/": (2, "simt"),
    "include/gpuheap/structures/": (3, "structures"),
    "include/gpuheap/memory/": (3, "memory"),
    "include/gpuheap/allocator.hpp": (4, "allocator"),
    "include/gpuheap/allocator_members.hpp": (4, "allocator"),
    "include/gpuheap/allocators/": (4, "allocator"),
    "include/gpuheap/": (5, "heap"),
    "include/gpuheap.h": (5, "c"),
    "include/gpuheap_device.h": (5, "c"),
    "include/gpuheap/containers/": (6, "containers"),
    "include/gpuheap/mpi/": (6, "mpi"),
    "src/": (6, "src"),
    "capi/": (6, "capi"),
    "opencl/": (6, "opencl"),
    "tools/coalesce/": (6, "rewriter"),
    "benchmarks/": (7, "benchmarks"),
    "benchmarks/programs/": (7, "programs"),
    "tools/": (7, "tools"),
    "examples/": (8, "examples"),
    "tests/": (8, "tests"),
}


@dataclass(frozen=True)
class Breach:
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def place_of(path: str) -> tuple[int, str] | None:
    """The layer and the module of a repository path, or None for a path that belongs to no layer."""
    found = max((prefix for prefix in LAYERS if path.startswith(prefix)), key=len, default=None)
    return None if found is None else LAYERS[found]


def included_path(path: str, target: str, quoted: bool) -> str | None:
    """The repository path that `#include` of `target` in the file `path` means, or None for headers of others."""
    if target.startswith("gpuheap/") or target in ("gpuheap.h", "gpuheap_device.h"):
        return f"include/{target}"
    if target.startswith(("gpuheap_simulator/", "simulator/")):
        return f"simulator/{target.split('/', 1)[1]}"
    if target.startswith("gpuheap_opencl/"):
        return f"opencl/include/{target}"
    if quoted:  # relative to the file's own folder, or to the top-level folder that the file is in
        top = PurePosixPath(path).parts[0]
        return target if target.startswith(f"{top}/") else str(PurePosixPath(path).parent / target)
    return None


def includes_going_up(path: str, text: str) -> list[Breach]:
    here = place_of(path)
    if here is None:
        return []
    breaches = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        target = included_path(path, match[2], match[1] == '"')
        there = place_of(target) if target else None
        if there is None:
            continue
        if there[0] > here[0] or (there[0] == here[0] and there[1] != here[1]):
            breaches.append(Breach(path, number, f"layer {here[0]} ({here[1]}) includes {match[2]} of layer {there[0]} ({there[1]})"))
        knows_simulator = path.startswith(("simulator/", "include/gpuheap/simt/host/", "tests/simulator/"))
        if there[1] == "simulator" and not knows_simulator:
            breaches.append(Breach(path, number, f"{match[2]}: only include/gpuheap/simt/host/ knows the simulator"))
    return breaches


def backend_tests(path: str, text: str) -> list[Breach]:
    """Preprocessor lines that ask which backend or compiler pass this is: allowed in simt/ alone."""
    if path.startswith("include/gpuheap/simt/"):
        return []
    joined = re.sub(r"\\\n", " ", text)  # a condition may go on over lines; numbers are those of its last line at most
    asks = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|elifdef|elifndef)\b.*\b(__CUDA\w*|__NVCC__|__NVCOMPILER\w*|GPUHEAP_BACKEND_\w+)")
    return [
        Breach(path, n, f"backend #if outside simt/: {line.strip()}") for n, line in enumerate(joined.splitlines(), 1) if asks.match(line)
    ]


def without_comments_and_strings(text: str) -> str:
    """The text with comments, strings and character literals blanked; line breaks stay."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def for_clauses(code: str, start: int) -> list[str]:
    """The parts between the semicolons in the head of the `for` at `start`; one clause for a range."""
    clauses, depth = [""], 0
    for c in code[code.index("(", start) :]:
        depth += (c in "([{") - (c in ")]}")
        if depth == 0:
            break
        if c == ";" and depth == 1:
            clauses.append("")
        elif depth > 1 or c != "(":
            clauses[-1] += c
    return [clause.strip() for clause in clauses]


def counts(clauses: list[str]) -> bool:
    """Whether a `for` loop counts: it goes through a range, or its last clause moves a variable of its condition by a fixed amount."""
    if len(clauses) < 3:
        return True
    _, condition, step = clauses
    if re.fullmatch(r"\w+-- (!= 0|> 0)", condition) and not step:
        return True
    moved = re.findall(r"(?:\+\+|--)(\w+)\b(?!\.)", step) + re.findall(r"(?<![\w.])(\w+)(?:\+\+|--)", step)
    moved += [name for name, by in re.findall(r"(?<![\w.])(\w+) (?:[-+*/]|<<|>>)= (\w+)", step) if not re.search(rf"\b{by}\b", condition)]
    moved += re.findall(r"(?<![\w.])(\w+) &= \1 - 1", step)  # one bit after the other
    return any(re.search(rf"\b{name}\b", condition) for name in moved)


def loops_of(text: str) -> list[tuple[int, bool, str]]:
    """Each loop: the index of its line, whether it counts, and the comment on its line and directly above."""
    lines = text.splitlines()
    code = without_comments_and_strings(text)
    tails = {
        m.start(1) for m in re.finditer(r"\}\s*(while)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*;", code) if closes_do(code, m.start())
    }
    loops = []
    for match in re.finditer(r"\b(for|while|do)\b", code):
        index = code.count("\n", 0, match.start())
        if match.start() in tails or code.splitlines()[index].lstrip().startswith("#"):
            continue
        comment = lines[index]
        above = index - 1
        while above >= 0 and (lines[above].lstrip().startswith("//") or lines[above].strip() == "GPUHEAP_NO_UNROLL"):
            comment += lines[above]
            above -= 1
        loops.append((index, match[1] == "for" and counts(for_clauses(code, match.start())), comment))
    return loops


def loops_without_end(path: str, text: str) -> list[Breach]:
    """Loops that wait or retry, with no `// Ends:` on their line or in the comment directly above."""
    return [
        Breach(path, index + 1, f"loop without an `// Ends:` line: {text.splitlines()[index].strip()}")
        for index, is_counted, comment in loops_of(text)
        if not is_counted and "// Ends:" not in comment
    ]


def counted_loops_with_end(path: str, text: str) -> list[Breach]:
    """Loops that count, whose head says why they end, with an `// Ends:` all the same."""
    return [
        Breach(path, index + 1, f"a loop that counts needs no `// Ends:` line: {text.splitlines()[index].strip()}")
        for index, is_counted, comment in loops_of(text)
        if is_counted and "// Ends:" in comment
    ]


def closes_do(code: str, brace: int) -> bool:
    """Whether the closing brace at `brace` ends the body of a do loop."""
    depth = 0
    for position in range(brace, -1, -1):
        if code[position] == "}":
            depth += 1
        elif code[position] == "{":
            depth -= 1
            if depth == 0:
                return re.search(r"\bdo\s*$", code[:position]) is not None
    return False


def undocumented(path: str, text: str) -> list[Breach]:
    """A public header says first what it is, and each type and function of a namespace stands in a paragraph with a comment.

    But for those of `detail`. The class that a file is named after may leave that to the file's head, and the members of a small inline
    namespace to the comment above it.
    """
    breaches = []
    lines = text.splitlines()
    if not lines or not lines[0].startswith("// "):
        breaches.append(Breach(path, 1, "a header begins with a comment that says what it is"))
    if "#pragma once" not in lines:
        breaches.append(Breach(path, 1, "no #pragma once"))
    hidden = False
    documented = False
    in_body = False
    shared = False
    named_after = PurePosixPath(path).stem
    starts = re.compile(
        r"(template\b|class |struct |enum class |concept |inline |constexpr |\[\[nodiscard\]\]|GPUHEAP_FN|GPUHEAP_HD|GPUHEAP_COLD|"
        r"GPUHEAP_PRIMITIVE )"
    )
    for number, line in enumerate(lines, 1):
        if re.match(r"namespace (\w+::)*detail\b", line):
            hidden = True
        if line.startswith("}") and line.rstrip().endswith("detail"):
            hidden = False
        if line.startswith("//"):
            documented = True
        elif line.startswith("inline namespace"):
            shared = documented
        elif not line.strip():
            documented = documented and in_body or shared
        elif starts.match(line) and not hidden and not documented and not in_body:
            forward = re.fullmatch(r"(template <.*>|(class|struct) \w+;)", line) or re.match(r"(class|struct) \w+<", line)
            member = re.match(r"[^(]*\w::~?\w+\(", line)  # defined outside its class, where its comment is
            if not forward and not member and not re.match(rf"(class|struct)( alignas\(\w+\))? (basic_)?{named_after}\b", line):
                breaches.append(Breach(path, number, f"no comment above: {line.strip()[:100]}"))
        # Column 0 is where a definition's body closes; what is between belongs to it.
        if re.match(r"\S.*\{$", line) and not line.startswith(("namespace", "inline namespace")):
            in_body = True
        if line.startswith("}"):
            in_body = False
            shared = shared and not line.startswith("}  // namespace")
    return breaches


def too_long(path: str, text: str) -> list[Breach]:
    count = len(text.splitlines())
    return [Breach(path, count, f"{count} lines; a file is one idea in at most {MAX_LINES}")] if count > MAX_LINES else []


def long_lines(path: str, text: str) -> list[Breach]:
    """Lines over MAX_COLUMNS, but for those that the formatter cannot break: a string literal or an address alone on its line."""
    unbreakable = re.compile(r'^\s*(//\s*)?("[^"]*"|\S+)[,;)]*$|^\s*#\s*(error|include)\b')
    return [
        Breach(path, n, f"{len(line)} characters; a line has at most {MAX_COLUMNS}")
        for n, line in enumerate(text.splitlines(), 1)
        if len(line) > MAX_COLUMNS and not unbreakable.match(line)
    ]


def subject_breaches(subject: str) -> list[Breach]:
    """A commit's subject reads `area: what changed`, without a full stop, in at most MAX_SUBJECT characters."""
    breaches = []
    if len(subject) > MAX_SUBJECT:
        breaches.append(Breach("commit", 1, f"{len(subject)} characters; a subject has at most {MAX_SUBJECT}: {subject}"))
    if not re.match(r"[\w.,/ -]+: \S.*[^.]$", subject):
        breaches.append(Breach("commit", 1, f"a subject reads `area: what changed`: {subject}"))
    return breaches


def type_names(path: str, text: str) -> list[Breach]:
    """Types and concepts whose names are not snake_case. Template parameters, which a `,` or `>` follows, are CamelCase.

    A declaration without a body is left to the place of the body, which may be another library.
    """
    declares = re.compile(r"\s*(?:class|struct|union|enum class|enum|concept) (?:alignas\([^)]*\) )?(\w+)\b(?! = [\w:]+[,>]|;)")
    return [
        Breach(path, n, f"a type's name is snake_case: {match[1]}")
        for n, line in enumerate(without_comments_and_strings(text).splitlines(), 1)
        if (match := declares.match(line)) and re.search(r"[A-Z]", match[1])
    ]


def retired_names(path: str, text: str) -> list[Breach]:
    """Identifiers of code that carry a retired name."""
    words = re.compile(rf"(?:\b|_)({'|'.join(map(re.escape, RETIRED))})(?:\b|_)")
    code = without_comments_and_strings(text)
    return [
        Breach(path, n, f"`{match[1]}` is called {RETIRED[match[1]]}: {line.strip()[:100]}")
        for n, line in enumerate(code.splitlines(), 1)
        for match in words.finditer(line)
    ]


def unfinished(path: str, text: str) -> list[Breach]:
    mark = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    return [Breach(path, n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if mark.search(line)]


def skip_reasons(path: str, text: str) -> list[tuple[int, str]]:
    """The line and the reason of each skip, except reasons that are imported. A value in the reason reads `{}`."""
    if not path.endswith(".py"):
        skips = re.compile(r'GTEST_SKIP\(\) << "(.*)"|message\(STATUS "skipped: (.*)"\)')
        return [(n, match[1] or match[2]) for n, line in enumerate(text.splitlines(), 1) if (match := skips.search(line))]

    def words(node: ast.expr, constants: dict[str, ast.expr]) -> str:
        if isinstance(node, ast.Name):
            return words(constants[node.id], constants) if node.id in constants else "{}"
        if isinstance(node, ast.JoinedStr):
            return "".join(part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "{}" for part in node.values)
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "{}"

    tree = ast.parse(text)
    constants = {node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
    imported = {name.asname or name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("skip", "skipif", "importorskip"):
            given = [keyword.value for keyword in node.keywords if keyword.arg == "reason"] or (node.args[:1] if node.func.attr == "skip" else [])
            if not (given and isinstance(given[0], ast.Name) and given[0].id in imported):
                found.append((node.lineno, words(given[0], constants) if given else ""))
    return found


def skips_without_remedy(path: str, text: str) -> list[Breach]:
    """Skips whose reason is not `what is skipped: why: what to do`. A missing GPU needs no remedy; the text of an error has its own."""
    breaches = []
    for line, reason in skip_reasons(path, text):
        what, *rest = reason.split(": ")
        if not what or not rest or (len(rest) < 2 and "GPU" not in reason and not reason.endswith("{}")):
            breaches.append(Breach(path, line, f"a skip's reason reads `what is skipped: why: what to do`: {reason}"))
    return breaches
