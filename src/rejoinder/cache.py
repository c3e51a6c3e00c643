"""Files in the user's cache folder, computed once on a machine; a missing one is made again.

`platformdirs` names the folder. Nothing that a user wrote is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from platformdirs import user_cache_path

from rejoinder.arrays import FloatArray
from rejoinder.files import atomic_file


def cache_folder() -> Path:
    """Return the folder, which need not be there."""
    return user_cache_path("rejoinder", appauthor=False)


def cached_vectors(name: str, compute: Callable[[], FloatArray]) -> FloatArray:
    """Return vectors (n, d) that a file of the cache holds in float16; `compute` makes them.

    A folder that cannot be written, on a machine that serves only, costs the computation again.
    """
    path = cache_folder() / f"{name}.npy"
    try:
        return read_vectors(path)
    except (OSError, ValueError, EOFError):  # missing, or not whole
        vectors = compute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as part:
            write_vectors(part, vectors)
    except OSError:
        return vectors
    return vectors.astype(np.float16).astype(np.float32)  # the same as from the file


def read_vectors(path: Path) -> FloatArray:
    """Read vectors that `write_vectors` has written."""
    with path.open("rb") as file:
        stored: npt.NDArray[np.float16] = np.load(file, allow_pickle=False)
    return stored.astype(np.float32)


def write_vectors(path: Path, vectors: FloatArray) -> None:
    """Write vectors in float16."""
    with path.open("wb") as file:
        np.save(file, vectors.astype(np.float16), allow_pickle=False)


def cache_size() -> tuple[int, int]:
    """Return the number of files in the cache, and their bytes."""
    files = [path for path in cache_folder().glob("*.npy") if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files)


def empty_cache() -> int:
    """Remove all files of the cache; return their number."""
    files = list(cache_folder().glob("*.npy"))
    for path in files:
        path.unlink(missing_ok=True)
    return len(files)
