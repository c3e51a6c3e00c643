"""What each node of a cluster must have for a job: Rejoinder itself, the job's folders and its input."""

from __future__ import annotations

import functools
import importlib.metadata
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Needs:
    """What a job needs on each node.

    Attributes:
        version: of Rejoinder.
        current: the current folder: relative paths start there.
        tokens: files that were just written into the folders that all nodes share.
        files: absolute paths and sizes of the input files.
    """

    version: str
    current: str
    tokens: tuple[str, ...]
    files: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, tokens: Sequence[Path], files: Sequence[str | Path]) -> Self:
        """What this process has."""
        sizes = tuple((str(path.absolute()), path.stat().st_size) for path in map(Path, files))
        return cls(version_here(), str(Path.cwd()), tuple(map(str, tokens)), sizes)


def version_here() -> str:
    """The version of Rejoinder that is installed here."""
    return importlib.metadata.version("rejoinder")


def check_here(needs: Needs) -> str:
    """Look for everything on this node, and make the current folder the job's.

    Returns:
        What is wrong, as the rest of a sentence that begins with the node; empty if nothing is.
    """
    if (version := version_here()) != needs.version:
        return f"has rejoinder {version}, and {needs.version} is needed; install that on all nodes"
    try:
        os.chdir(needs.current)
    except OSError as error:
        reason = f"{error.strerror}; all nodes must have it, so start the command in a shared folder"
        return f"cannot enter the current folder {needs.current}: {reason}"
    for token in needs.tokens:
        if not Path(token).exists():
            return f"does not share the folder {Path(token).parent}; put the output on storage that all nodes see"
    for file, size in needs.files:
        if not Path(file).exists() or Path(file).stat().st_size != size:
            return f"does not see {file} as it is here; put the input on storage that all nodes see"
    return ""


known_here = functools.lru_cache(1)(check_here)
"""The same, looked for once in each process."""
