"""Reads and writes files. Each failure becomes a UserError of one line. A file is replaced as a whole or stays as it was."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from gpuheap.errors import UserError

LARGEST_TEXT_BYTES = 1 << 30  # more than any file of gpuheap has; a device such as /dev/zero never ends
_BESIDE = ".gpuheap-"  # the prefix of a file that is written beside another file, and then replaces it

_ADVICE = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.ELOOP: "remove the symbolic link that leads back to itself",
    errno.EFBIG: "raise the limit of file sizes, which ulimit -f shows",
    errno.EMFILE: "raise the limit of open files, which ulimit -n shows",
    errno.ENOMEM: "free some memory",
}


def words_of(error: OSError) -> str:
    """The system's message, with the name of the file if the system gave one."""
    named = f"{error.filename}: " if isinstance(error.filename, (str, Path)) else ""
    return f"{named}{_why(error)}{_what_to_do(error, '')}"


def refusal(path: Path | str, doing: str, error: OSError, remedy: str = "") -> UserError:
    """The error for a file that cannot be used. `doing`: read, written, ... `remedy`: advice in addition to that for the kind of error."""
    return UserError(f"{path} cannot be {doing}: {_why(error)}{_what_to_do(error, remedy)}")


def _why(error: OSError) -> str:
    words = error.strerror or str(error) or type(error).__name__
    return words[:1].lower() + words[1:]


def _what_to_do(error: OSError, remedy: str) -> str:
    advice = ", or ".join(words for words in (_ADVICE.get(error.errno or 0, ""), remedy) if words)
    return f": {advice}" if advice else ""


@contextmanager
def naming(path: Path | str, doing: str, remedy: str = "") -> Iterator[None]:
    """Turns an OSError in the `with` statement into a refusal of `path`."""
    try:
        yield
    except OSError as error:
        raise refusal(path, doing, error, remedy) from None


def check_file(path: Path, option: str, what: str) -> None:
    """Raises UserError if an option does not name a readable file. `what`: the expected kind of file."""
    with naming(f"{option}: '{path}'", "read"):
        if not path.exists():
            raise UserError(f"{option}: there is no file '{path}': expected {what}")
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "a device or a pipe"
            raise UserError(f"{option}: '{path}' is {kind}: expected {what}")
        path.open("rb").close()


def check_folder(folder: Path, option: str) -> None:
    """Raises UserError if an option does not name a folder. The option is for folders of tables."""
    if not folder.is_dir():
        if folder.exists():
            raise UserError(f"{option}: '{folder}' is a file: name a folder that gpuheap bench has written")
        raise UserError(f"{option}: there is no folder '{folder}': name one that gpuheap bench has written")


def check_beginning(path: Path, option: str, what: str, beginning: bytes) -> None:
    """Raises UserError if a file does not begin with `beginning`, in upper or lower case. `what`: the expected kind of file."""
    with naming(f"{option}: '{path}'", "read"), path.open("rb") as file:
        found = file.read(len(beginning))
    if found.lower() != beginning.lower():
        raise UserError(f"{option}: '{path}' does not begin with '{beginning.decode()}': expected {what}")


def check_no_input(path: Path, option: str, inputs: Iterable[Path]) -> None:
    """Raises UserError if an option names, as the file to write, one that the command reads."""
    try:
        written = path.stat()
    except OSError:
        return  # a file that does not exist is no input; another error is reported when the file is written
    for each in inputs:
        with suppress(OSError):
            if os.path.samestat(written, each.stat()):
                raise UserError(f"{option}: '{path}' is read by this command, which would replace it: name another file")


def read_text(path: Path) -> str:
    """The content of a text file in UTF-8, with Unix line ends. Raises UserError if the file cannot be read, or is not such text."""
    with naming(path, "read"), path.open("rb") as file:
        content = file.read(LARGEST_TEXT_BYTES + 1)
    if len(content) > LARGEST_TEXT_BYTES:
        raise UserError(f"{path} is larger than {LARGEST_TEXT_BYTES >> 30} GiB: expected a text file")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not a text file in UTF-8 (the byte {content[error.start]:#04x})") from None
    return text.replace("\r\n", "\n")


def read_json(path: Path, what: str, remedy: str) -> dict[str, Any]:
    """Reads a JSON object. Raises UserError. `what`: the expected content. `remedy`: what to do about an unreadable file."""
    try:
        text = read_text(path)
    except UserError as error:
        raise UserError(f"{error}: {remedy}") from None
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not readable as JSON ({error}): {remedy}") from None
    if not isinstance(said, dict):
        raise UserError(f"{path}: expected {what}, an object of JSON: {remedy}")
    return said


def make_folder(folder: Path, remedy: str = "") -> Path:
    """Makes a folder, and its missing parents. Raises UserError."""
    with naming(folder, "made", remedy):
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file, and a folder is needed" + (f": {remedy}" if remedy else ""))
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def replace_file(path: Path, content: bytes | str, remedy: str = "") -> None:
    """Writes a file so that readers see the old or the new content, never a part of it. If it raises UserError, the old content stays."""
    replace_files({path: content}, remedy)


def replace_files(contents: Mapping[Path, bytes | str], remedy: str = "") -> None:
    """Writes several files: none is replaced before the new contents of all are on the disk."""
    staged: list[_Staged] = []
    try:
        for path, content in contents.items():
            with naming(path, "written", remedy):
                staged.append(_Staged(path))
                staged[-1].file.write(content.encode(errors="backslashreplace") if isinstance(content, str) else content)
                staged[-1].close()
        for each in staged:
            with naming(each.path, "written", remedy):
                each.commit()
    finally:
        for each in staged:
            each.discard()


@contextmanager
def replacement(path: Path, remedy: str = "") -> Iterator[BinaryIO]:
    """A file that replaces `path` when the `with` statement ends without an exception."""
    with naming(path, "written", remedy):
        staged = _Staged(path)
    try:
        with naming(path, "written", remedy):
            yield staged.file
            staged.close()
            staged.commit()
    finally:
        staged.discard()


class _Staged:
    """New content of a file, written beside it until commit(). A symbolic link stays, and its target is replaced. A device or a pipe is written directly."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._target = Path(os.path.realpath(path))
        self._beside: Path | None = None
        found: os.stat_result | None = None
        with suppress(FileNotFoundError):
            found = path.stat()
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if found is not None and not stat.S_ISREG(found.st_mode):
            self.file: BinaryIO = path.open("wb")
            return
        self._target.parent.mkdir(parents=True, exist_ok=True)
        beside = self._target.with_name(f"{_BESIDE}{os.getpid()}-{secrets.token_hex(4)}.new")
        self.file = open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb")  # noqa: SIM115
        self._beside = beside
        if found is None:
            return
        if not os.access(self._target, os.W_OK):
            self.discard()
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with suppress(OSError):
            os.fchmod(self.file.fileno(), stat.S_IMODE(found.st_mode))
            os.fchown(self.file.fileno(), found.st_uid, found.st_gid)

    def close(self) -> None:
        """Closes the file. All of the content is on the disk afterwards."""
        self.file.flush()
        if self._beside is not None:
            os.fsync(self.file.fileno())
        self.file.close()

    def commit(self) -> None:
        if self._beside is not None:
            os.replace(self._beside, self._target)
            self._beside = None

    def discard(self) -> None:
        # Closing the file writes the rest of the buffer, and fails if the disk is full.
        with suppress(OSError):
            self.file.close()
        if self._beside is not None:
            self._beside.unlink(missing_ok=True)


def append(path: Path, content: bytes, remedy: str = "") -> None:
    """Appends in one write, so that readers see all of the content or none. If the write fails, the file gets its old length. Raises UserError."""
    with naming(path, "written", remedy):
        new = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        before = os.fstat(descriptor).st_size
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
        except BaseException:
            with suppress(OSError):  # the first error is the one to report
                os.ftruncate(descriptor, before)
            if new:
                path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    """Writes all of the content, in several writes if one takes only a part of it, as on a disk that is almost full."""
    written = 0
    # Ends: each pass writes at least a byte, or raises OSError.
    while written < len(content):
        written += os.write(descriptor, content[written:])


def remove_leftovers(folder: Path) -> None:
    """Removes files that a killed process left half-written. No other process may write in this folder."""
    for path in folder.glob(f"{_BESIDE}*.new"):
        with suppress(OSError):
            path.unlink()
