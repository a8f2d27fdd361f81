"""Public programs, unchanged: how outputs are compared, what is told of a form, the page's tables; with small programs of the shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuheap.errors import UserError
from gpuheap.unchanged.__main__ import LIST, main
from gpuheap.unchanged.outputs import Left, difference, error_count, findings, heap_report, kernel_milliseconds, new_findings, take
from gpuheap.unchanged.programs import Program, read_programs, select
from gpuheap.unchanged.table import BEGIN, END, heap_words, memcheck_words, output_words, significant, tables, write_into

ENTRY = """
[[program]]
name = "{name}"
what = "it prints"
repository = "someone/something"
commit = "0123456"
path = "main.cu"
licence = "MIT"
allocates = "a block"
{more}
"""


def listed(path: Path, more: str = "", name: str = "one") -> Path:
    path.write_text(ENTRY.format(name=name, more=more))
    return path


def program(tmp_path: Path, more: str = "") -> Program:
    return read_programs(listed(tmp_path / "list.toml", more))[0]


def script(folder: Path, name: str, text: str) -> None:
    path = folder / "one" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run(tmp_path: Path, *options: str, more: str = "") -> dict:
    results = tmp_path / "results.json"
    words = [str(results), "--programs", str(tmp_path), "--list", str(listed(tmp_path / "list.toml", more)), "--runs", "2", *options]
    assert main(words) == 0
    return json.loads(results.read_text())["programs"]["one"]


def test_the_list_is_right():
    programs = read_programs(LIST)
    assert len([each for each in programs if not each.fails]) >= 10
    assert all(len(each.commit) == 40 for each in programs)


def test_output_is_compared_without_what_is_ignored(tmp_path):
    timed = program(tmp_path, "ignore = ['took [0-9]+ ms', '0x[0-9a-f]+']")
    first, second = take(timed, b"sum 7\ntook 12 ms\nat 0xab\n", tmp_path), take(timed, b"sum 7\ntook 9 ms\nat 0xc\n", tmp_path)
    assert difference(first, second) == ""
    assert difference(first, take(timed, b"sum 8\ntook 12 ms\nat 0xab\n", tmp_path)) == "output: line 1 is 'sum 8', not 'sum 7'"


def test_lines_may_come_in_any_order_only_where_the_list_says_so(tmp_path):
    one, other = b"block 1\nblock 2\n", b"block 2\nblock 1\n"
    strict, loose = program(tmp_path), program(tmp_path, "any_order = true")
    assert difference(take(strict, one, tmp_path), take(strict, other, tmp_path)) != ""
    assert difference(take(loose, one, tmp_path), take(loose, other, tmp_path)) == ""


def test_a_line_too_many_is_a_difference_in_any_order(tmp_path):
    loose = program(tmp_path, "any_order = true")
    assert difference(take(loose, b"a\nb\n", tmp_path), take(loose, b"b\na\nb\n", tmp_path)) == "output: 3 lines, not 2"


def test_near_numbers_are_equal_only_where_the_list_says_so(tmp_path):
    one, other = Left({"image": b"P3\n255 7 3\n"}), Left({"image": b"P3\n255 8 3\n"})
    assert difference(one, other) == "image: line 2 is '255 8 3', not '255 7 3'"
    assert difference(one, other, 1.0) == ""
    assert difference(one, Left({"image": b"P3\n255 9 3\n"}), 1.0) != ""
    assert difference(one, Left({"image": b"P6\n255 7 3\n"}), 1.0) != ""
    assert difference(one, Left({"image": b"P3\n255 7\n"}), 1.0) != ""
    script(tmp_path, "plain", "echo 7")
    script(tmp_path, "relinked", "echo 8")
    assert run(tmp_path, more="near = 1")["relinked"]["output"] == "equal within 1"


def test_files_are_compared_bit_by_bit():
    assert difference(Left({"image": b"\0\1"}), Left({"image": b"\0\1"})) == ""
    assert difference(Left({"image": b"\0\1"}), Left({"image": b"\0\2"})) == "image: line 1 is '??', not '??'"
    assert difference(Left({"image": b"\0"}), Left({"image": None})) == "image: the program wrote no such file"
    assert difference(Left({"image": b"a\n"}), Left({"image": b"a"})) == "image: 1 bytes, not 2"


def test_kernel_times_are_added_up(tmp_path):
    timed = program(tmp_path, "kernel_time = 'kernel ([0-9.]+) s'\nkernel_unit = 's'")
    assert kernel_milliseconds(timed, "kernel 0.5 s\nkernel 0.25 s\n") == 750
    assert kernel_milliseconds(timed, "nothing\n") is None
    assert kernel_milliseconds(timed, "kernel 1.2.3 s\n") is None


LOG = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at kernel()+0x10
=========     Access at 0x7 is out of bounds
=========
========= Invalid __global__ write of size 4 bytes
=========     at kernel()+0x20
========= ERROR SUMMARY: 2 errors
"""


def test_findings_are_the_headlines_of_a_finished_log():
    assert findings(LOG) == ["Invalid __global__ write of size 4 bytes"]
    assert findings("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n") == []
    assert findings("========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 4 bytes\n") is None
    assert new_findings(["a"], ["a", "b"]) == ["b"]
    assert [error_count(text) for text in (LOG, "========= ERROR SUMMARY: 1 error\n", "killed")] == [2, 1, None]


REPORT = """gpuheap: device 0: allocator gpuheap, heap of 128 MiB, at most 1.5 MiB of it held, 0 B now, metadata 2 MiB
gpuheap: device 0: 3 requests found no memory, the first asked for 64 B
"""


def test_the_heaps_report_says_that_the_program_was_served():
    assert heap_report("CUDA error\n") is None
    assert heap_report(REPORT) == {"bytes": "128 MiB", "held": "1.5 MiB", "failed": 3}
    assert heap_words({"heap": heap_report(REPORT)}) == "1.5 MiB, **3 requests found no memory**"
    assert heap_report("x: allocator cuda, heap of 1 GiB\nx: 1 request found no memory\n") == {"bytes": "1 GiB", "failed": 1}
    assert heap_words({"heap": None}) == "no report"


def test_a_served_program_is_asked_for_the_heaps_report(tmp_path):
    script(tmp_path, "plain", "echo sum 7")
    script(tmp_path, "relinked", 'echo sum 7; test -z "$GPUHEAP_STATS" || echo "heap of 1 GiB, at most 8 B of it held" >&2')
    entry = run(tmp_path)
    assert entry["relinked"]["heap"] == {"bytes": "1 GiB", "held": "8 B", "failed": 0}
    assert "heap" not in entry["plain"]


def test_a_served_program_that_prints_the_same_is_equal(tmp_path):
    script(tmp_path, "plain", 'echo "sum 7"; echo "kernel 2 ms" >&2')
    script(tmp_path, "relinked", 'echo "sum 7"; echo "kernel 1 ms" >&2')
    entry = run(tmp_path, more="kernel_time = 'kernel ([0-9.]+) ms'\ncheck = 'sum 7'")
    assert set(entry) == {"plain", "relinked"}
    assert [entry[form]["output"] for form in entry] == ["equal", "equal"]
    assert [entry[form]["kernel_ms"] for form in entry] == [2, 1]
    assert all(entry[form]["check"] and entry[form]["runs"] == 2 and entry[form]["seconds"] > 0 for form in entry)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("echo sum 8", "output: line 1 is 'sum 8', not 'sum 7'"),
        ("echo sum 7; exit 3", "exit code 3"),
        ("echo sum 7; kill -SEGV $$", "SIGSEGV"),
        ("sleep 60", "not finished in 1 s"),
    ],
)
def test_what_a_served_program_does_wrong_is_told(tmp_path, text, verdict):
    script(tmp_path, "plain", "echo sum 7")
    script(tmp_path, "relinked", text)
    began = time.monotonic()
    assert run(tmp_path, "--timeout", "1")["relinked"]["output"] == verdict
    assert time.monotonic() - began < 10  # what does not end is killed, and not run again


def test_a_program_whose_own_runs_differ_is_not_called_equal(tmp_path):
    script(tmp_path, "plain", "date +%N")
    script(tmp_path, "relinked", "echo 5")
    assert run(tmp_path)["relinked"]["output"] == "varies"


def test_a_failed_check_of_its_own_is_told(tmp_path):
    script(tmp_path, "plain", "echo right")
    script(tmp_path, "relinked", "echo wrong")
    assert output_words(run(tmp_path, more="check = 'right'")["relinked"]) == "**output: line 1 is 'wrong', not 'right'**, **own check failed**"


def test_the_runner_goes_before_the_plain_program(tmp_path):
    script(tmp_path, "plain", 'echo "$GPUHEAP_TEST_SERVED" > served; echo sum 7')
    entry = run(tmp_path, "--runner", "env GPUHEAP_TEST_SERVED=yes", "--forms", "plain,run", more='files = ["served"]')
    assert entry["run"]["output"] == "served: line 1 is 'yes', not ''"


def test_inputs_lie_beside_the_program_and_files_are_its_own(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "in.txt").write_text("7\n")
    script(tmp_path, "plain", "cat in.txt > out.txt; test ! -e left; touch left")
    assert run(tmp_path, more='inputs = ["in.txt"]\nfiles = ["out.txt"]')["plain"]["output"] == "equal"


def test_the_sanitizer_is_asked_of_every_form_and_only_what_is_new_counts(tmp_path):
    sanitizer = tmp_path / "sanitizer"
    sanitizer.write_text(
        '#!/bin/sh\nwhile [ "$1" != --log-file ]; do shift; done\nlog=$2; shift 2\n"$@"\n'
        'echo "========= Program hit A" > "$log"\ncase "$1" in *relinked) echo "========= Invalid write" >> "$log";; esac\n'
        'echo "========= ERROR SUMMARY: 1 error" >> "$log"\n'
    )
    sanitizer.chmod(0o755)
    script(tmp_path, "plain", "echo sum 7")
    script(tmp_path, "rdc", "echo sum 7")
    script(tmp_path, "relinked", "echo sum 7")
    entry = run(tmp_path, "--sanitizer", str(sanitizer))
    assert entry["rdc"]["memcheck"] == ["Program hit A"]
    assert entry["relinked"]["memcheck_new"] == ["Invalid write"]
    assert memcheck_words(entry["relinked"]) == "**Invalid write**"


def test_with_no_runs_only_the_sanitizer_is_asked(tmp_path):
    sanitizer = tmp_path / "sanitizer"
    sanitizer.write_text('#!/bin/sh\nwhile [ "$1" != --log-file ]; do shift; done\necho "========= ERROR SUMMARY: 0 errors" > "$2"\n')
    sanitizer.chmod(0o755)
    script(tmp_path, "plain", "echo sum 7")
    script(tmp_path, "relinked", "echo sum 7")
    (tmp_path / "results.json").write_text('{"programs": {"one": {"plain": {"output": "equal", "seconds": 2.0}}}}')
    entry = run(tmp_path, "--sanitizer", str(sanitizer), "--runs", "0")
    assert entry["plain"].items() >= {"output": "equal", "seconds": 2.0, "memcheck": []}.items()
    assert entry["relinked"].items() >= {"memcheck": [], "memcheck_new": []}.items() and "output" not in entry["relinked"]
    assert output_words(entry["relinked"]) == "-"


def test_where_memcheck_of_the_plain_program_does_not_finish_the_others_are_not_asked(tmp_path):
    sanitizer = tmp_path / "sanitizer"
    sanitizer.write_text("#!/bin/sh\nsleep 60\n")
    sanitizer.chmod(0o755)
    script(tmp_path, "plain", "echo sum 7")
    script(tmp_path, "relinked", "echo sum 7")
    began = time.monotonic()
    entry = run(tmp_path, "--sanitizer", str(sanitizer), "--timeout", "1")
    assert entry["plain"]["memcheck"] is None and entry["relinked"]["memcheck"] is None and "memcheck_new" not in entry["relinked"]
    assert time.monotonic() - began < 10


SANITIZER = """#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
log=$2; shift 2
"$@"
echo "========= Invalid write" > "$log"
echo "========= ERROR SUMMARY: 3 errors" >> "$log"
"""


def sanitizer_script(tmp_path: Path, text: str = SANITIZER) -> str:
    path = tmp_path / "sanitizer"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_only_the_wished_forms_are_sanitized_and_all_that_is_found_counts(tmp_path):
    script(tmp_path, "plain", "touch ../plain-ran")
    script(tmp_path, "relinked", "echo sum 7; exit 4")
    (tmp_path / "results.json").write_text('{"programs": {"one": {"plain": {"memcheck": null}}}}')
    logs, words = tmp_path / "logs", ("--runs", "0", "--sanitizer-forms", "relinked", "--sanitizer-part", "2 launches")
    entry = run(tmp_path, "--sanitizer", sanitizer_script(tmp_path, SANITIZER + "exit 4\n"), *words, "--sanitizer-logs", str(logs))
    assert entry["plain"] == {"memcheck": None} and set(entry) == {"plain", "relinked"}
    seconds = entry["relinked"].pop("memcheck_seconds")
    found = {"memcheck": ["Invalid write"], "memcheck_new": ["Invalid write"], "memcheck_exit": 4, "memcheck_errors": 3, "memcheck_part": "2 launches"}
    assert entry["relinked"] == found and seconds >= 0
    assert memcheck_words(entry["relinked"]) == "**Invalid write** (2 launches)"
    log = (logs / "one.relinked.log").read_text()
    assert "ERROR SUMMARY: 3 errors" in log and "sum 7" in log


def test_the_sanitizer_has_a_time_limit_of_its_own(tmp_path):
    script(tmp_path, "plain", "echo sum 7")
    entry = run(
        tmp_path, "--sanitizer", sanitizer_script(tmp_path, "#!/bin/sh\nsleep 2\n" + SANITIZER), "--timeout", "0.5", "--runs", "0", "--sanitizer-timeout", "30"
    )
    assert entry["plain"]["memcheck"] == ["Invalid write"]
    entry = run(tmp_path, "--sanitizer", sanitizer_script(tmp_path, "#!/bin/sh\nsleep 60\n"), "--runs", "0", "--sanitizer-timeout", "0.5")
    assert entry["plain"]["memcheck"] is None and entry["plain"]["memcheck_exit"] is None and "memcheck_errors" in entry["plain"]


def merged(tmp_path: Path, *all_results: dict) -> dict:
    results = tmp_path / "results.json"
    for number, each in enumerate(all_results):
        (tmp_path / f"{number}.json").write_text(json.dumps(each))
    words = [word for number in range(len(all_results)) for word in ("--merge", str(tmp_path / f"{number}.json"))]
    assert main([str(results), "--list", str(listed(tmp_path / "list.toml")), *words]) == 0
    return json.loads(results.read_text())


def of_one(**relinked: object) -> dict:
    return {"programs": {"one": {"relinked": relinked}}}


def test_merged_results_keep_times_and_take_findings(tmp_path):
    machine = {"GPU": "a GPU", "driver": "1"}
    timed = {"machine": machine, "programs": {"one": {"plain": {"seconds": 2.0}, "relinked": {"seconds": 1.0, "memcheck": None}}}}
    found = merged(tmp_path, timed, {"machine": machine, **of_one(memcheck=[], memcheck_new=[])})
    assert found == {"machine": machine, "programs": {"one": {"plain": {"seconds": 2.0}, "relinked": {"seconds": 1.0, "memcheck": [], "memcheck_new": []}}}}
    again = merged(tmp_path, {"machine": {"GPU": "a GPU", "driver": "2"}, **of_one(runs=5, output="equal")})
    assert again["machine"]["driver"] == "1 and 2"
    assert again["programs"]["one"]["relinked"] == {"runs": 5, "output": "equal", "memcheck": [], "memcheck_new": []}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_merged_findings_are_those_that_say_most(tmp_path, order):
    told = [of_one(memcheck=None), of_one(memcheck=[], memcheck_new=[], memcheck_part="2 launches"), of_one(memcheck=["a"], memcheck_new=["a"])]
    assert merged(tmp_path, *(told[index] for index in order))["programs"] == told[2]["programs"]
    assert merged(tmp_path, of_one(memcheck=None))["programs"] == told[2]["programs"]


def test_results_of_two_gpus_are_not_merged(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"machine": {"GPU": name, "driver": "1"}}))
    words = [str(tmp_path / "results.json"), "--list", str(listed(tmp_path / "list.toml"))]
    assert main([*words, "--merge", str(tmp_path / "a.json"), "--merge", str(tmp_path / "b.json")]) == 2
    assert "its GPU is b, that of the other results a: merge results of one GPU only" in capsys.readouterr().err
    assert not (tmp_path / "results.json").exists()


def test_results_of_other_programs_stay(tmp_path):
    (tmp_path / "results.json").write_text('{"programs": {"other": {"plain": {}}}}')
    script(tmp_path, "plain", "echo sum 7")
    run(tmp_path)
    assert set(json.loads((tmp_path / "results.json").read_text())["programs"]) == {"other", "one"}


def test_forms_that_are_not_measured_again_stay(tmp_path):
    script(tmp_path, "plain", "echo sum 7")
    script(tmp_path, "relinked", "echo sum 7")
    run(tmp_path)
    assert set(run(tmp_path, "--runner", "env", "--forms", "run")) == {"plain", "relinked", "run"}


def test_a_spent_budget_begins_nothing(tmp_path, capsys):
    script(tmp_path, "plain", "touch ../ran")
    words = [str(tmp_path / "results.json"), "--programs", str(tmp_path), "--list", str(listed(tmp_path / "list.toml")), "--budget", "-1"]
    assert main(words) == 0
    assert "no time was left for one" in capsys.readouterr().err
    assert not (tmp_path / "results.json").exists()


def test_the_page_gets_the_tables_between_its_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    programs = read_programs(listed(tmp_path / "list.toml"))
    results = {
        "machine": {"GPU": "a GPU"},
        "programs": {
            "one": {
                "plain": {"output": "equal", "seconds": 1.25, "kernel_ms": 1000.0, "memcheck": []},
                "relinked": {"output": "equal", "seconds": 0.5, "kernel_ms": 2.0, "heap": {"held": "8 B", "failed": 0}, "memcheck": [], "memcheck_new": []},
            }
        },
    }
    write_into(page, tables(programs, results))
    text = page.read_text()
    assert text.startswith(f"# Before\n\n{BEGIN}\nGPU: a GPU.\n") and text.endswith(f"{END}\n\nafter\n")
    assert "| one | 1.25 s (1,000 ms) | 0.5 s (2 ms) | 2.5 (500) |" in text
    assert "| one | equal | 8 B | nothing |" in text
    assert "[someone/something](https://github.com/someone/something/tree/0123456) `main.cu`" in text
    assert "old" not in text
    write_into(page, tables(programs, results))
    assert page.read_text() == text


def test_programs_that_cannot_be_measured_have_their_reason(tmp_path):
    text = tables(read_programs(listed(tmp_path / "list.toml", 'fails = "it needs a window"')), {})
    assert "| one | it prints | [someone/something](https://github.com/someone/something/tree/0123456) `main.cu` | it needs a window |" in text
    assert "| one | it prints | a block" not in text


def test_a_relinked_program_is_held_against_the_same_objects(tmp_path):
    programs = read_programs(listed(tmp_path / "list.toml"))
    times = {"plain": 8.0, "rdc": 4.0, "relinked": 1.0, "run": 1.0}
    entry = {form: {"output": "equal", "seconds": seconds} for form, seconds in times.items()}
    assert "| one | 8 s | 4 s | 1 s | 1 s | 4 | 8 |" in tables(programs, {"programs": {"one": entry}})
    del entry["rdc"]  # as of a program whose own build uses -rdc=true
    assert "| one | 8 s | 1 s | 1 s | 8 | 8 |" in tables(programs, {"programs": {"one": entry}})


def test_a_note_stands_below_what_was_measured(tmp_path):
    programs = read_programs(listed(tmp_path / "list.toml", 'note = "it races"'))
    assert "- one: it races\n" in tables(programs, {"programs": {"one": {"plain": {"output": "equal"}}}})
    assert "it races" not in tables(programs, {})


def test_a_page_without_markers_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    with pytest.raises(UserError, match="write both once"):
        write_into(page, "text")
    assert page.read_text() == "# Page\n"


def test_words_of_memcheck():
    assert memcheck_words({}) == "-"
    assert memcheck_words({"memcheck": None}) == "not finished"
    assert memcheck_words({"memcheck": []}) == "not finished on CUDA's malloc"
    assert memcheck_words({"memcheck": ["a"], "memcheck_new": []}) == "nothing new"
    assert memcheck_words({"memcheck": [], "memcheck_new": [], "memcheck_exit": 0, "memcheck_part": "a part"}) == "nothing (a part)"
    assert memcheck_words({"memcheck": [], "memcheck_new": [], "memcheck_exit": 99}) == "**no finding, but exit code 99**"


def test_numbers_have_three_digits():
    assert [significant(value) for value in (1234.5, 12.345, 0.12345, 0.00012345, 0.0)] == ["1,234", "12.3", "0.123", "0.000123", "0"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("kernel_time = 'no group'", "needs 1 group"),
        ("ignore = ['(']", "not a regular expression"),
        ("kernel_unit = 'h'", "there are s, ms, us"),
        ("near = 0", "near must be a positive number"),
        ("any_order = 'yes'", "must be true or false"),
        ("arguments = 'x'", "must be a list"),
        ("argument = ['x']", "did you mean 'arguments'"),
    ],
)
def test_a_wrong_list_is_told_in_one_line(tmp_path, more, message):
    with pytest.raises(UserError, match=message) as told:
        program(tmp_path, more)
    assert "\n" not in str(told.value)


def test_an_unknown_program_is_told(tmp_path):
    with pytest.raises(UserError, match="did you mean 'one'"):
        select(read_programs(listed(tmp_path / "list.toml")), ["on"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--programs", "{tmp}/none"], "is not a folder"),
        (["--programs", "{tmp}", "--forms", "plain,fast"], "--forms: 'fast' is not a form"),
        (["--programs", "{tmp}", "--sanitizer-forms", "fast"], "--sanitizer-forms: 'fast' is not a form"),
        (["--merge", "{tmp}/none.json"], "the results cannot be read"),
        (["--programs", "{tmp}", "--runs", "0"], "must run at least once"),
        (["--page", "{tmp}/page.md"], "the results cannot be read"),
    ],
)
def test_what_a_person_gets_wrong_is_told_in_one_line(tmp_path, capsys, words, message):
    said = [word.format(tmp=tmp_path) for word in words]
    assert main([str(tmp_path / "results.json"), "--list", str(listed(tmp_path / "list.toml")), *said]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and message in error


def test_a_missing_input_or_plain_program_is_told(tmp_path, capsys):
    script(tmp_path, "relinked", "echo sum 7")
    words = [str(tmp_path / "results.json"), "--programs", str(tmp_path), "--list", str(listed(tmp_path / "list.toml", 'inputs = ["in.txt"]'))]
    for made in ("plain", "in.txt"):
        assert main(words) == 2
        errors = capsys.readouterr().err.splitlines()
        assert errors[0].startswith("left out: one: ") and errors[0].endswith(f"{made} is not there")
        assert "has no complete program" in errors[1]
        script(tmp_path, "plain", "echo sum 7")


def test_a_plain_program_that_is_not_executable_is_told(tmp_path, capsys):
    script(tmp_path, "plain", "echo sum 7")
    (tmp_path / "one" / "plain").chmod(0o644)
    assert main([str(tmp_path / "results.json"), "--programs", str(tmp_path), "--list", str(listed(tmp_path / "list.toml"))]) == 2
    assert "plain is not executable: chmod +x " in capsys.readouterr().err


def test_names_of_files_hold_in_the_folder_that_programs_run_in(tmp_path, monkeypatch):
    script(tmp_path, "plain", "echo sum 7")
    script(tmp_path, "runner", 'test -d "$PYTHONPATH" && test -f "$GPUHEAP_RUN_LIBRARY" && "$@"')
    (tmp_path / "packages").mkdir()
    (tmp_path / "library.so").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "packages")
    monkeypatch.setenv("GPUHEAP_RUN_LIBRARY", "library.so")
    assert run(tmp_path, "--runner", "one/runner")["run"]["output"] == "equal"


def test_what_keeps_the_pipes_of_a_killed_program_is_not_waited_for(tmp_path):
    from gpuheap.unchanged.measure import execute

    script(tmp_path, "plain", "echo begun; setsid sleep 20 & wait")
    began = time.monotonic()
    ended = execute([str(tmp_path / "one" / "plain")], tmp_path, 0.5)
    assert ended.code is None and ended.stdout == b"begun\n" and time.monotonic() - began < 15


def test_a_request_to_end_ends_the_program_too(tmp_path):
    script(tmp_path, "plain", f"echo $$ > {tmp_path}/id; exec sleep 300")
    words = [str(tmp_path / "results.json"), "--programs", str(tmp_path), "--list", str(listed(tmp_path / "list.toml"))]
    variables = {**os.environ, "PYTHONPATH": str(LIST.parents[1] / "python")}
    started = subprocess.Popen([sys.executable, "-m", "gpuheap.unchanged", *words], env=variables, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "id").exists() or not (tmp_path / "id").read_text().strip():
        assert started.poll() is None
        time.sleep(0.05)
    started.terminate()
    assert "interrupted" in started.communicate(timeout=30)[1] and started.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "id").read_text()), 0)


def test_a_plain_program_that_fails_makes_nothing_equal(tmp_path):
    script(tmp_path, "plain", "echo no GPU; exit 35")
    script(tmp_path, "rdc", "echo no GPU; exit 35")
    script(tmp_path, "relinked", "echo no GPU")
    entry = run(tmp_path)
    assert [entry[form]["output"] for form in entry] == ["exit code 35", "exit code 35", "the plain program does not end well"]
    assert "seconds" not in entry["plain"]
    assert entry["plain"]["said"] == "no GPU"


def test_an_interrupted_program_leaves_no_process(tmp_path):
    script(tmp_path, "plain", "sleep 61 & echo $! > $GPUHEAP_TEST_PID; wait")
    from gpuheap.unchanged.measure import execute

    os.environ["GPUHEAP_TEST_PID"] = str(tmp_path / "pid")
    try:
        ended = execute([str(tmp_path / "one" / "plain")], tmp_path, 0.5)
    finally:
        del os.environ["GPUHEAP_TEST_PID"]
    assert ended.code is None
    pid = int((tmp_path / "pid").read_text())
    for _ in range(50):  # until init has taken it
        if not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"process {pid} is still there")
