"""The steps of ./test and ./demo say how far they are, end what they started when they are interrupted, and tell mistakes in a line."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
STEP = ROOT / "scripts" / "step.py"
sys.path.insert(0, str(STEP.parent))

from step import progress  # noqa: E402


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("[1/538] Building CXX object a.o\n[12/538] Linking b\nwarning: none\n", "12 of 538"),
        ("    Start 3: a\n 3/480 Test  #3: a ...   Passed    0.01 sec\n    Start 4: b\n", "3 of 480"),
        ("[gw1] [ 72/900] PASSED tests/a.py::test_b \n", "72 of 900"),
        ("Collecting rich\n\x1b[32mDownloading rich-15\x1b[0m\n\n", "Downloading rich-15"),
        ("", "no output so far"),
    ],
)
def test_progress_is_the_last_count_or_the_last_line(tmp_path: Path, log: str, said: str) -> None:
    file = tmp_path / "log"
    file.write_text(log)
    assert progress(file) == said


def start(log: Path, *command: str, **variables: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if name != "GPUHEAP_SAID"}  # ./test, which may run this test, has set it
    environment = {**kept, "GPUHEAP_PROGRESS_S": "0.2", "GPUHEAP_STARTED": str(time.time()), **variables}
    return subprocess.Popen(
        [sys.executable, str(STEP), "counting", str(log), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def test_a_long_step_says_how_far_it_is_and_ends_as_its_command(tmp_path: Path) -> None:
    log = tmp_path / "log"
    out, errors = start(log, "bash", "-c", "echo '[3/7] a'; sleep 1; exit 5").communicate(timeout=30)
    assert "counting: 3 of 7" in out and errors == ""
    assert log.read_text() == "[3/7] a\n"
    quick = start(log, "bash", "-c", "exit 5")
    assert quick.communicate(timeout=30) == ("", "") and quick.returncode == 5
    killed = start(log, "bash", "-c", "kill -KILL $$")
    assert killed.communicate(timeout=30) == ("", "") and killed.returncode == 128 + signal.SIGKILL


def test_no_silence_is_longer_than_the_interval_where_short_steps_follow_one_another(tmp_path: Path) -> None:
    said, log = tmp_path / "said", tmp_path / "log"
    said.touch()
    told = []
    for _ in range(3):  # each is shorter than the interval
        step = start(log, "sleep", "1.1", GPUHEAP_PROGRESS_S="1.5", GPUHEAP_SAID=str(said))
        told.append(step.communicate(timeout=30)[0].count("counting: "))
    assert told[0] == 0 and sum(told) >= 1
    # A line of the script counts as one of a step does.
    script = f". '{ROOT}/scripts/setup.sh'; GPUHEAP_SAID='{said}'; say something"
    os.utime(said, (0, 0))
    assert subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout == "[  0s] something\n"
    assert time.time() - said.stat().st_mtime < 60


@pytest.mark.parametrize(("command", "option"), [("test", "--fast"), ("test", ""), ("demo", "")])
def test_how_long_it_takes_is_said_before_anything_is_done(tmp_path: Path, command: str, option: str) -> None:
    (tmp_path / "scripts").mkdir()
    for name in (command, "scripts/setup.sh"):
        shutil.copy(ROOT / name, tmp_path / name)
    build = tmp_path / "build" / "host"
    build.mkdir(parents=True)
    (build / "build.ninja").write_text("")
    (build / "CMakeCache.txt").write_text("GPUHEAP_BUILD_TESTS:BOOL=ON\n")
    # There is no compiler, so that the command ends before it installs anything.
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "dirname", "mkdir", "grep", "touch", "env"):
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    words = [tmp_path / command, *([option] if option else [])]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, env={"PATH": str(tmp_path / "bin")})
    assert ran.returncode == 2 and "no C++ compiler" in ran.stderr
    assert len(ran.stdout.splitlines()) == 1 and "minutes" in ran.stdout


def started_sleepers(folder: Path, number: int) -> list[psutil.Process]:
    """Those that wrote their ids into the folder."""
    deadline = time.monotonic() + 30
    while len(found := [file for file in folder.glob("*.id") if file.read_text().strip()]) < number:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return [psutil.Process(int(file.read_text())) for file in found]


def ended(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=15)[1]


# One in the command's session, one in a session of its own, and one that hears neither Ctrl-C nor a request to end.
FAMILY = (
    "(echo $BASHPID >{0}/a.id; exec sleep 300) & "
    "setsid bash -c 'echo $$ >{0}/b.id; exec sleep 300' & "
    "(trap \"\" INT TERM; echo $BASHPID >{0}/c.id; while true; do sleep 1; done) & wait"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_step_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    step = start(tmp_path / "log", "bash", "-c", FAMILY.format(tmp_path))
    family = started_sleepers(tmp_path, 3)
    step.send_signal(number)
    assert step.wait(timeout=30) == 130
    assert ended(family)
    assert step.communicate()[1] == ""


def test_an_interrupted_command_says_one_line(tmp_path: Path) -> None:
    script = f"set -euo pipefail; . '{ROOT}/scripts/setup.sh'; logged tested_step bash -c \"$1\"; echo not reached"
    command = subprocess.Popen(
        ["bash", "-c", script, "bash", FAMILY.format(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    family = started_sleepers(tmp_path, 3)
    os.killpg(command.pid, signal.SIGINT)  # as a terminal does
    out, errors = command.communicate(timeout=30)
    assert command.returncode == 130
    assert "not reached" not in out
    assert len(errors.splitlines()) == 1 and errors.startswith("interrupted after ")
    assert ended(family)


def test_what_began_beside_ends_with_an_interrupted_command(tmp_path: Path) -> None:
    script = f"set -euo pipefail; . '{ROOT}/scripts/setup.sh'; beside tested_beside bash -c \"$1\"; logged tested_step sleep 300; echo not reached"
    command = subprocess.Popen(
        ["bash", "-c", script, "bash", FAMILY.format(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    family = started_sleepers(tmp_path, 3)
    command.send_signal(signal.SIGTERM)  # to the command alone
    out, errors = command.communicate(timeout=60)
    assert command.returncode == 130 and "not reached" not in out and len(errors.splitlines()) == 1
    assert ended(family)


def test_what_began_beside_is_waited_for_once(tmp_path: Path) -> None:
    calls = "beside tested_beside bash -c 'sleep 1; exit 3'; ended tested_beside || echo $?; ended tested_beside; ended never; fail here"
    told = subprocess.run(["bash", "-c", f". '{ROOT}/scripts/setup.sh'; {calls}"], capture_output=True, text=True, timeout=60)
    assert told.returncode == 2 and told.stderr == "error: here\n"
    waits, code = told.stdout.splitlines()
    assert waits.endswith("waiting for tested_beside") and code == "3"


def words_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return []


def test_a_step_that_has_just_begun_is_interrupted_too(tmp_path: Path) -> None:
    script = f"set -euo pipefail; . '{ROOT}/scripts/setup.sh'; step begun '{tmp_path}/log' sleep 300; echo not reached"
    command = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 30
    # It ignores Ctrl-C until it has read its own modules.
    while not any("scripts/step.py" in words_of(each) for each in psutil.Process(command.pid).children()):
        assert time.monotonic() < deadline
    os.killpg(command.pid, signal.SIGINT)
    out, errors = command.communicate(timeout=30)
    assert (command.returncode, out) == (130, "") and errors.startswith("interrupted after ")


def test_a_step_whose_reader_leaves_ends_its_command(tmp_path: Path) -> None:
    step = start(tmp_path / "log", "bash", "-c", FAMILY.format(tmp_path))
    assert step.stdout is not None and step.stderr is not None
    family = started_sleepers(tmp_path, 3)
    step.stdout.close()
    assert step.wait(timeout=30) == 130
    assert ended(family)
    assert step.stderr.read() == ""


def test_nohup_lets_a_step_go_on(tmp_path: Path) -> None:
    step = subprocess.Popen(["nohup", sys.executable, str(STEP), "long", str(tmp_path / "log"), "bash", "-c", f"echo $$ >{tmp_path}/a.id; sleep 1; exit 5"])
    started_sleepers(tmp_path, 1)
    step.send_signal(signal.SIGHUP)
    assert step.wait(timeout=30) == 5


def test_a_persons_own_shell_keeps_its_traps_and_does_not_end() -> None:
    typed = f". '{ROOT}/scripts/setup.sh'\ntrap -p\nstep a - bash -c 'exit 130'; echo $?\nfail nothing; echo not reached\necho still here\n"
    told = subprocess.run(["bash", "--norc", "-i"], input=typed, capture_output=True, text=True, timeout=30, start_new_session=True)
    # The list also has signals that were ignored when the tests began; they are no traps of the script.
    lines = [line for line in told.stdout.splitlines() if not line.startswith("trap -- ''")]
    assert lines == ["130", "still here"] and "error: nothing" in told.stderr


def test_the_fast_way_is_refused_where_the_build_has_no_tests(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    for name in ("test", "scripts/setup.sh"):
        shutil.copy(ROOT / name, tmp_path / name)
    build = tmp_path / "build" / "host"
    build.mkdir(parents=True)
    (build / "build.ninja").write_text("")
    (build / "CMakeCache.txt").write_text("GPUHEAP_BUILD_TESTS:BOOL=OFF\n")
    refused = subprocess.run([tmp_path / "test", "--fast"], capture_output=True, text=True, timeout=60)
    assert (refused.returncode, refused.stdout) == (2, "") and "run ./test first" in refused.stderr


@pytest.mark.parametrize(("command", "says"), [("test", "minutes"), ("demo", "minutes"), ("scripts/bare_root.sh", "build/bare_root")])
def test_options_are_told_and_unknown_ones_are_refused_in_a_line(command: str, says: str) -> None:
    told = subprocess.run([ROOT / command, "--help"], capture_output=True, text=True, timeout=30)
    assert (told.returncode, told.stderr) == (0, "") and says in told.stdout
    refused = subprocess.run([ROOT / command, "--quick"], capture_output=True, text=True, timeout=30)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert len(refused.stderr.splitlines()) == 1 and "'--quick'" in refused.stderr


@pytest.mark.parametrize(
    ("file", "arguments"),
    [("demo", [""]), ("demo", ["", "x"]), ("scripts/measure.sh", ["."]), ("scripts/measure.sh", ["1.2.3"]), ("scripts/measure.sh", [""])],
)
def test_arguments_that_mean_nothing_start_nothing(tmp_path: Path, file: str, arguments: list[str]) -> None:
    copy = tmp_path / file  # without the rest of the checkout, so that nothing can be built
    copy.parent.mkdir(exist_ok=True)
    shutil.copy(ROOT / file, copy)
    ran = subprocess.run(["bash", str(copy), *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 2 and ran.stderr.startswith((f"./{file}: unknown option", f"{file}: '")) and len(ran.stderr.splitlines()) == 1, ran.stderr


def test_a_step_that_cannot_begin_is_told_in_a_line(tmp_path: Path) -> None:
    for log, command in ((tmp_path / "log", str(tmp_path / "none")), (tmp_path / "none" / "log", "true"), (tmp_path / "log", str(tmp_path))):
        begun = start(log, command)
        out, errors = begun.communicate(timeout=30)
        assert (out, begun.returncode, len(errors.splitlines())) == ("", 2, 1) and errors.startswith(f"counting: {tmp_path}"), errors


def test_a_broken_result_of_ctest_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "half.xml").write_text("<testsuite><testcase")
    for name in ("half.xml", "none.xml"):
        ran = subprocess.run([sys.executable, ROOT / "scripts" / "skipped_tests.py", tmp_path / name], capture_output=True, text=True)
        assert ran.returncode == 2 and ran.stderr.startswith(f"{tmp_path / name} is not readable") and len(ran.stderr.splitlines()) == 1, ran.stderr


def test_each_skip_is_told_once_and_gets_its_number_of_python_tests(tmp_path: Path) -> None:
    reasons = ("the tool: not built: build it (5", "the tool: old: build it (2", "a browser: none (1")
    (tmp_path / "pytest.log").write_text("".join(f"skipped: {reason} of the Python tests)\n" for reason in reasons))
    script = (
        f". '{ROOT}/scripts/setup.sh'; skip 'the tool: no header: install it'; skip 'the tool: of another step'; gpu_skipped+=('on a GPU: none'); "
        f"logs='{tmp_path}'; skipped_by_pytest; report_skipped; echo $num_skipped"
    )
    told = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == [
        "skipped: the tool: no header: install it (7 of the Python tests)",
        "skipped: on a GPU: none",
        "skipped: a browser: none (1 of the Python tests)",
        "1",
    ]


def test_each_skip_of_a_c_plus_plus_test_is_told_once(tmp_path: Path) -> None:
    """The output is that of GoogleTest, and the file that of CTest."""
    program = tmp_path / "program"
    text = "/a/b_test.cpp:7: Skipped\\nwide words: no instruction: use another\\n\\n[  SKIPPED ] A.B (0 ms)\\n"
    program.write_text(f"#!/bin/sh\nprintf '{text}'\n")
    program.chmod(0o755)
    lines = [f'add_test({name} "{program}")\nset_tests_properties({name} PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED")' for name in ("first", "second")]
    (tmp_path / "CTestTestfile.cmake").write_text("\n".join([*lines, 'add_test(third "true")']))
    ctest = shutil.which("ctest", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if ctest is None:
        pytest.skip("skips of C++ tests: no CTest: run ./test, which sets it up")
    subprocess.run([ctest, "--test-dir", tmp_path, "--output-junit", tmp_path / "junit.xml"], capture_output=True, check=True)
    script = f". '{ROOT}/scripts/setup.sh'; for n in 1 2; do skipped_by_ctest none; skipped_by_ctest '{tmp_path}/junit.xml'; done; report_skipped"
    told = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["skipped: wide words: no instruction: use another (2 of the C++ tests)"]
