"""Files are replaced whole or stay as they were, and what stands in the way is one line."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY, WITHOUT_RIGHTS

from gpuheap.errors import UserError
from gpuheap.files import append, check_file, check_no_input, make_folder, read_json, read_text, remove_leftovers, replace_file, replace_files, replacement


def limited(code: str, *arguments: Path, largest_file: int | None = None, ordinary: bool = False) -> str:
    """Runs Python code that sees `paths`, in a process that may write so many bytes to a file. What it raised, or "done"."""
    lines = ["import sys", "from pathlib import Path", "from gpuheap.errors import UserError", "from gpuheap.files import *"]
    lines += ["paths = [Path(a) for a in sys.argv[1:]]", "try:", f"  {code}", "except UserError as error: print(error)", "else: print('done')"]

    def before() -> None:
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    command = [*(WITHOUT_RIGHTS if ordinary else ()), sys.executable, "-c", "\n".join(lines), *map(str, arguments)]
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, preexec_fn=before)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for target in ("there/old", "there/new"):
        (tmp_path / "link").symlink_to(target)
        if target.endswith("old"):
            (tmp_path / target).write_text("old")
        replace_file(tmp_path / "link", "content")
        assert (tmp_path / "link").is_symlink() and (tmp_path / target).read_text() == "content"
        (tmp_path / "link").unlink()
    assert names(tmp_path / "there") == ["new", "old"]


def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UserError, match="loop cannot be written: too many levels of symbolic links"):
        replace_file(tmp_path / "loop", "content")
    assert names(tmp_path) == ["loop"]


def test_a_file_that_is_read_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("content")
    (tmp_path / "link").symlink_to("in")
    for path in (tmp_path / "in", tmp_path / "link", tmp_path / "." / "in"):
        with pytest.raises(UserError, match="--output: '.*' is read by this command, which would replace it: name another file"):
            check_no_input(path, "--output", [tmp_path / "none", tmp_path / "in"])
    check_no_input(tmp_path / "new", "--output", [tmp_path / "in", tmp_path / "new"])


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    replace_file(Path("/dev/null"), "content")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    (tmp_path / "link").symlink_to("/dev/full")
    for path in (Path("/dev/full"), tmp_path / "link"):
        with pytest.raises(UserError, match=f"{path} cannot be written: no space left on device: free some space, or name another one$"):
            replace_file(path, "content", "name another one")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode) and (tmp_path / "link").is_symlink()


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    replace_file(tmp_path / "pipe", b"content")
    reader.join(20)
    assert got == [b"content"] and stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written: it is a folder"):
        replace_file(tmp_path, "content")
    (tmp_path / "file").write_text("old")
    with pytest.raises(UserError, match="file/x cannot be written: not a directory"):
        replace_file(tmp_path / "file" / "x", "content")
    with pytest.raises(UserError, match="file is a file, and a folder is needed: go elsewhere"):
        make_folder(tmp_path / "file", "go elsewhere")
    assert (tmp_path / "file").read_text() == "old"


def test_the_mode_of_a_file_stays_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "old").chmod(0o640)
    replace_file(tmp_path / "old", "new")
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "new", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_what_may_not_be_written_stays(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "old").chmod(0o444)
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "old").write_text("old")
    (tmp_path / "closed").chmod(0o555)
    words = "cannot be written: permission denied: go elsewhere"
    for path in (tmp_path / "old", tmp_path / "closed" / "old", tmp_path / "closed" / "new", tmp_path / "closed" / "deep" / "new"):
        said = limited("replace_file(paths[0], 'content', 'go elsewhere')", path, ordinary=True)
        assert said.endswith(words), said
        assert said.startswith(str(path))
    assert limited("make_folder(paths[0])", tmp_path / "closed" / "x", ordinary=True) == f"{tmp_path}/closed/x cannot be made: permission denied"
    assert names(tmp_path) == ["closed", "old"] and names(tmp_path / "closed") == ["old"]
    assert (tmp_path / "old").read_text() == (tmp_path / "closed" / "old").read_text() == "old"


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    said = limited("replace_file(paths[0], 'x' * 100000)", tmp_path / "old", largest_file=50000)
    assert "old cannot be written: file too large" in said
    assert names(tmp_path) == ["old"] and (tmp_path / "old").read_text() == "old"


def test_of_several_files_none_is_replaced_before_all_are_written(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_text("old")
    said = limited("replace_files({path: 'x' * 10 ** (number + 2) for number, path in enumerate(paths)})", *paths, largest_file=5000)
    assert "c cannot be written" in said
    assert [path.read_text() for path in paths] == ["old"] * 3 and names(tmp_path) == ["a", "b", "c"]
    replace_files({path: path.name for path in paths})
    assert [path.read_text() for path in paths] == ["a", "b", "c"]


def test_what_is_appended_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old\n")
    for path in (tmp_path / "old", tmp_path / "new"):
        assert "cannot be written: file too large" in limited("append(paths[0], b'x' * 9000)", path, largest_file=8192)
    assert names(tmp_path) == ["old"] and (tmp_path / "old").read_text() == "old\n"
    append(tmp_path / "old", b"more\n")
    assert (tmp_path / "old").read_text() == "old\nmore\n"


def test_what_is_told_is_why_it_could_not_be_written() -> None:
    with pytest.raises(UserError, match="/dev/full cannot be written: no space left on device: free some space"):
        append(Path("/dev/full"), b"more")


def test_an_exception_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    with pytest.raises(KeyboardInterrupt), replacement(tmp_path / "old") as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert names(tmp_path) == ["old"] and (tmp_path / "old").read_text() == "old"


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file.new").write_text("mine")
    ready = "with replacement(paths[0]) as file: print('ready', flush=True); import time; time.sleep(60)"
    code = f"import sys; from pathlib import Path; from gpuheap.files import *; paths = [Path(sys.argv[1])]\n{ready}"
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "file")], env=variables, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(names(tmp_path)) == 2
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["file.new"]


def test_text_is_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\r\ntwo\n")
    assert read_text(path) == "one\ntwo\n"
    path.write_bytes(b"one\ntwo \xfc\n")
    with pytest.raises(UserError, match=r"file:2: not a text file in UTF-8 \(the byte 0xfc\)"):
        read_text(path)
    for other, words in ((tmp_path, "is a directory"), (tmp_path / "no", "no such file or directory"), (path / "x", "not a directory")):
        with pytest.raises(UserError, match=f"cannot be read: {words}"):
            read_text(other)


def test_a_file_without_an_end_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuheap.files.LARGEST_TEXT_BYTES", 1 << 16)
    with pytest.raises(UserError, match="/dev/zero is larger than"):
        read_text(Path("/dev/zero"))


@pytest.mark.parametrize("text", ["", "{", "[" * 100000, "\0", "NaN"])
def test_what_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(UserError, match="file: .*: delete it$"):
        read_json(tmp_path / "file", "facts", "delete it")


def test_an_option_that_names_no_file(tmp_path: Path) -> None:
    cases = {tmp_path / "no": "there is no file '.*no'", tmp_path: "'.*' is a folder", Path("/dev/null"): "'/dev/null' is a device or a pipe"}
    for path, words in cases.items():
        with pytest.raises(UserError, match=f"--graph: {words}: expected a graph"):
            check_file(path, "--graph", "a graph")
    (tmp_path / "closed").write_text("")
    (tmp_path / "closed").chmod(0)
    said = limited("check_file(paths[0], '--graph', 'a graph')", tmp_path / "closed", ordinary=True)
    assert said == f"--graph: '{tmp_path}/closed' cannot be read: permission denied"
