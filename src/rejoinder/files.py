"""Files: written whole or not at all, and known by their content.

A full disk, a crash or Ctrl-C leaves nothing half-written, nor damages what stood there. A killed
process leaves at most a hidden `.NAME.*.part` beside the untouched NAME. That of a folder is
removed when it is written the next time; `remove_leftovers` removes those of files.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from rejoinder.errors import BusyError, InputError

DIGEST = "sha256"  # key under which JSON content holds its own digest
_WINDOWS = os.name == "nt"
# how often Windows is asked to replace a file that somebody reads, and seconds in between
_TRIES = 50
_PAUSE = 0.02
_POLL = 0.01  # seconds in between, in which a lock that another process has is asked for
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of folder that we write, and how it is recognised."""

    name: str  # with its article: "a model folder"
    marker: str  # the JSON file that identifies it
    ours: Callable[[Any], object]
    """Check of the marker's content; a LookupError, TypeError, AttributeError counts as false."""
    files: tuple[str, ...]  # patterns of all its files, relative to it
    signs: tuple[str, ...] = ()
    """Patterns of files that nobody else writes: with one of them the folder is ours though its
    marker is not JSON."""


@contextlib.contextmanager
def atomic_file(path: str | Path, *, durable: bool = True, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`.

    On success it replaces `path`, on any error it is removed. A symbolic link stays one: the file
    that it points to is replaced. A folder, a device or a name that is not UTF-8 is an InputError.
    With `durable` the content is on the disk before it takes its place, and so survives a power
    cut. One that is `private` is read by others only as `follow_umask` says.
    """
    _check_name(path)
    target = _real(path)
    if target.is_dir():
        raise InputError(f"{path} is a folder; name a file to write to")
    if target.exists() and not target.is_file():
        raise InputError(f"{path} is not a regular file; name a file to write to")
    target.parent.mkdir(parents=True, exist_ok=True)
    with _told_as(path):
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".part", dir=target.parent
        )
    os.close(handle)
    part = Path(name)
    with _tidied(part, path):
        yield part
        if durable:
            _sync(part)
        follow_umask(part, private=private)
        _replace(part, target)
        if durable:
            _sync_folder(target.parent)


@contextlib.contextmanager
def atomic_folder(
    path: str | Path, kind: Kind | None, *, overwrite: bool = False, durable: bool = True
) -> Iterator[Path]:
    """Yield a temporary folder beside `path`.

    On success it takes the place of `path`, on any error it is removed. `check_replaceable` decides
    what may be replaced, and one process at a time writes; a `kind` of None skips both, for a place
    within a folder that the caller has locked. Links and `durable` are as for `atomic_file`.
    """
    target = _real(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        contextlib.nullcontext()
        if kind is None
        else locked(lock_path(target), f"{path} is being written", path=path)
    ):
        if kind is not None:
            check_replaceable(path, kind, overwrite=overwrite)
            remove_leftovers(target.parent, target.name)
        with _told_as(path):
            name = tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        part = Path(name)
        with _tidied(part, path):
            yield part
            for file in part.rglob("*"):
                follow_umask(file)
                if durable and file.is_file():
                    _sync(file)
                elif durable:
                    _sync_folder(file)
            follow_umask(part)
            if durable:
                _sync_folder(part)
            _put(part, target)
            if durable:
                _sync_folder(target.parent)


def _check_name(path: str | Path) -> None:
    """Refuse a name that is not UTF-8, which some libraries could not open."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{str(path)!a} is not a name in UTF-8; name another file or folder to write to"
        ) from None


def check_regular_file(path: str | Path) -> None:
    """Refuse an input file that could be read without end; a pipe that a shell made is fine."""
    path = Path(path)
    mode = path.stat().st_mode
    shell = stat.S_ISFIFO(mode) and path.parts[:2] in (("/", "dev"), ("/", "proc"))
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or shell):
        kind = "a device"
        if stat.S_ISFIFO(mode):
            kind = "a named pipe"
        elif stat.S_ISSOCK(mode):
            kind = "a socket"
        raise InputError(
            f"{path} is {kind}; name a file, or pass its content on:"
            " cat FILE | rejoinder ... /dev/stdin"
        )


def check_replaceable(path: str | Path, kind: Kind, *, overwrite: bool) -> None:
    """Refuse to replace a path, unless `overwrite` and it is an earlier folder of this kind.

    It must hold only files of that kind.
    """
    _check_name(path)
    target = _real(path)
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError(f"{path} is a file; name a folder to write to")
    if any(target.iterdir()):
        if not is_ours(target, kind):
            _check_damaged(path, target, kind)
        if stranger := _stranger(target, kind.files):
            raise InputError(
                f"{path} holds {stranger}, which is not ours to replace;"
                " move that away, or name another folder"
            )
        if not overwrite:
            raise InputError(
                f"{path} is {kind.name} already;"
                " replace it with --overwrite, or name another folder"
            )
    # The whole folder is replaced. That would leave the shell in a deleted one, and a mounted one
    # cannot be.
    if os.path.ismount(target):
        raise InputError(f"{path} is mounted, so it cannot be replaced; name a folder inside it")
    if Path.cwd().is_relative_to(target):
        raise InputError(
            f"{path} holds the current folder, so it cannot be replaced; name a folder inside it"
        )


def is_ours(folder: Path, kind: Kind) -> bool:
    """Return whether a folder's marker says that it is of this kind."""
    try:
        return bool(kind.ours(parse_json((folder / kind.marker).read_text(encoding="utf-8"))))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


def _check_damaged(path: str | Path, folder: Path, kind: Kind) -> None:
    """Refuse a folder whose marker does not say that it is ours, unless a file of ours does."""
    marker = folder / kind.marker
    if not marker.is_file() or _is_json(marker):
        raise InputError(
            f"{path} exists and has no {kind.marker} that says it is {kind.name},"
            " so it is not ours to replace; name another folder"
        )
    if not any(file.is_file() for sign in kind.signs for file in folder.glob(sign)):
        raise InputError(
            f"{path} exists and its {kind.marker} is damaged, so nothing says that it is"
            f" {kind.name} of ours; move it away, or name another folder"
        )


def _is_json(path: Path) -> bool:
    try:
        parse_json(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return True


def check_shared(path: str | Path, what: str, names: Sequence[str]) -> None:
    """Refuse to write single files into a folder.

    It must be new, or hold only what matches `names`.
    """
    target = _real(path)
    if target.exists() and not target.is_dir():
        raise InputError(f"{path} is a file; name a folder to write to")
    known = (".*.part", ".*.lock", *names)  # what killed processes leave, too
    for entry in target.iterdir() if target.is_dir() else ():
        if not any(map(entry.match, known)):
            raise InputError(
                f"{path} holds {entry.name}, so it is not {what}; name another folder, or a new one"
            )


def _stranger(folder: Path, files: Sequence[str]) -> PurePath | None:
    """Return the first thing in a folder that is neither one of `files` nor a folder of them."""
    known = [PurePath(pattern) for pattern in files]
    folders = [parent for pattern_path in known for parent in pattern_path.parents if parent.name]
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        patterns = folders if path.is_dir() and not path.is_symlink() else known
        if not any(
            len(pattern.parts) == len(name.parts) and name.match(str(pattern))
            for pattern in patterns
        ):
            return name
    return None


def lock_path(path: str | Path) -> Path:
    """Return the lock file of a folder that is replaced as a whole."""
    target = _real(path)
    return target.with_name(f".{target.name}.lock")


@contextlib.contextmanager
def locked(
    lock: Path, busy: str, *, seconds: float | None = 0.0, path: str | Path | None = None
) -> Iterator[None]:
    """Hold a lock, which goes with the process.

    If another process or thread holds it for so many seconds (None: wait), `busy` is raised as a
    BusyError. Errors of the disk name `path`, which is locked.
    """
    from filelock import FileLock, Timeout

    held = FileLock(lock, timeout=-1 if seconds is None else seconds)
    try:
        with _told_as(lock if path is None else path):
            held.acquire(poll_interval=_POLL)
    except Timeout:
        raise BusyError(
            f"{busy} by another process, or another thread of this one;"
            " wait until that is done, or stop it"
        ) from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows removes no open file
            # while it is held: whoever waits for this file notices that it is gone, and makes a new
            # one
            lock.unlink()
        held.release()


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left half-written (of `name` alone).

    Put back a folder that was being replaced.
    """
    for kind in (".old", ".part"):
        for rest in folder.glob(f".*{kind}"):
            target = folder / rest.name[1:].rsplit(".", 2)[0]
            if name not in (None, target.name):
                continue
            if kind == ".old" and not target.exists():
                rest.rename(target)
            else:
                remove(rest)


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def discard(folder: Path) -> None:
    """Remove a whole folder at once: a kill leaves all of it, or a `.part`."""
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    with _tidied(part, folder):
        folder.rename(part / folder.name)


@contextlib.contextmanager
def name_path_on_enospc(path: str | Path) -> Iterator[None]:
    """Let an error of a full disk name `path`.

    A library may raise it with the system's words alone.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError):
            for number in _NO_ROOM:
                if os.strerror(number) in str(error):
                    raise OSError(number, os.strerror(number), str(path)) from error
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            error.filename = str(path)
        raise


def is_plain(name: str) -> bool:
    """Return whether a name from an untrusted source stays inside a folder."""
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name) is not None


def is_within(path: Path, folder: Path) -> bool:
    """Return whether a path leads, through whatever links, to something in a folder."""
    return _real(path).is_relative_to(_real(folder))


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; anything wrong with it, even nesting too deep for Python, is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def signed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON content with a digest of all of it; see `is_altered`."""
    plain = {key: value for key, value in content.items() if key != DIGEST}
    return {**plain, DIGEST: hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()}


def is_altered(content: Mapping[str, Any]) -> bool:
    """Return whether content that was `signed` has changed, or its digest is gone."""
    return content.get(DIGEST) != signed(content)[DIGEST]


def follow_umask(path: Path, *, private: bool = False) -> None:
    """Give a temporary file or folder, which is its owner's alone, the mode of new ones.

    One that is `private` stays its owner's, and its group's where this one may write new files: a
    umask of 002 or 007 says so, the usual 022 says nothing.
    """
    mask = os.umask(0)
    os.umask(mask)
    mode = 0o777 if path.is_dir() else 0o666
    if private:
        mode &= 0o700 if mask & 0o020 else 0o770
    path.chmod(mode & ~mask)


@contextlib.contextmanager
def _told_as(path: str | Path) -> Iterator[None]:
    """Let errors of the disk name a path as it was given."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


@contextlib.contextmanager
def _tidied(part: Path, path: str | Path) -> Iterator[None]:
    """Remove what is left of `part` at the end; let errors about it name `path` instead."""
    try:
        with name_path_on_enospc(path):
            yield
    except OSError as error:
        if str(part) in str(error.filename):
            error.filename = str(path)
        raise
    finally:
        with contextlib.suppress(OSError):
            remove(part)


def _replace(part: Path, target: Path) -> None:
    """Replace a file, and try again where Windows refuses because somebody reads it."""
    for _ in range(_TRIES if _WINDOWS else 0):
        with contextlib.suppress(PermissionError):
            part.replace(target)
            return
        time.sleep(_PAUSE)
    part.replace(target)


def _put(part: Path, path: Path) -> None:
    """Put the folder `part` in the place of `path`; what was there is then at `part`, or gone."""
    if not path.exists():
        part.rename(path)
        return
    if _exchange(part, path):
        return
    old = part.with_suffix(".old")
    try:
        path.rename(old)
        part.rename(path)
    finally:
        if old.exists() and not path.exists():  # an error or Ctrl-C came between the two
            old.rename(path)
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step; return False where the system cannot (not Linux)."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    return bool(rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def _sync(path: Path) -> None:
    # Windows flushes only what could be written
    with path.open("r+b" if _WINDOWS else "rb") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, so that a rename survives a power cut."""
    if _WINDOWS:  # which opens no folder
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot
            raise
    finally:
        os.close(handle)


def content_key(*parts: object) -> str:
    """Return a short name for content that depends on nothing but the parts."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:16]


def joined_digest(digests: Sequence[str]) -> str:
    """Return one digest of several; of one, that one."""
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()
    )
