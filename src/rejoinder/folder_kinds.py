"""Kinds of folders that we write, how they are recognised, and which may be replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias

from rejoinder.errors import InputError
from rejoinder.json_parsing import parse_json
from rejoinder.paths import check_name, real_path

_State: TypeAlias = Literal["ours", "other", "damaged"]


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


def check_replaceable(path: str | Path, kind: Kind, *, overwrite: bool) -> None:
    """Refuse to replace a path, unless `overwrite` and it is an earlier folder of this kind.

    It must hold only files of that kind.
    """
    check_name(path)
    target = real_path(path)
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError(f"{path} is a file; name a folder to write to")
    if any(target.iterdir()):
        if (state := _read_marker(target, kind)) != "ours":
            _check_damaged(path, target, kind, state)
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
    return _read_marker(folder, kind) == "ours"


def _read_marker(folder: Path, kind: Kind) -> _State:
    """Return what a folder's marker says; one that cannot be read is another program's."""
    try:
        text = (folder / kind.marker).read_bytes()
    except OSError:
        return "other"
    try:
        content = parse_json(text.decode("utf-8"))
    except ValueError:
        return "damaged"
    try:
        return "ours" if kind.ours(content) else "other"
    except (ValueError, LookupError, TypeError, AttributeError):
        return "other"


def _check_damaged(path: str | Path, folder: Path, kind: Kind, state: _State) -> None:
    """Refuse a folder whose marker does not say that it is ours, unless a file of ours does."""
    if state == "other":
        raise InputError(
            f"{path} exists and has no {kind.marker} that says it is {kind.name},"
            " so it is not ours to replace; name another folder"
        )
    if not any(file.is_file() for sign in kind.signs for file in folder.glob(sign)):
        raise InputError(
            f"{path} exists and its {kind.marker} is damaged, so nothing says that it is"
            f" {kind.name} of ours; move it away, or name another folder"
        )


def check_shared(path: str | Path, what: str, names: Sequence[str]) -> None:
    """Refuse to write single files into a folder.

    It must be new, or hold only what matches `names`.
    """
    target = real_path(path)
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
