"""Names of the files and segments of an index."""

from __future__ import annotations

import itertools
from collections.abc import Callable

CALIBRATION = "calibration.json"
FAISS_FILE = "approximate-*.faiss"
HEAD_FILE = "head-*.safetensors"


def free_name(name: str, is_taken: Callable[[str], bool]) -> str:
    """Return a name, or the first with a number behind, that is not taken."""
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(1)))
    return next(candidate for candidate in names if not is_taken(candidate))
