"""The training examples that a baseline learns from before it is evaluated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rejoinder.baselines.fitting import FIT_EXAMPLES
from rejoinder.errors import InputError
from rejoinder.evaluation.sampling import sample

if TYPE_CHECKING:
    from rejoinder.corpora.example import Example, Split


def training_examples(
    path: str | Path,
    evaluated: Split | None = None,
    *,
    limit: int = FIT_EXAMPLES,
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> list[Example]:
    """Examples of a data set's training split, drawn at random.

    Args:
        path: a data folder, or a file of which `evaluated` names a part.
        evaluated: the split that is going to be ranked; None: of a folder the test split.
        limit: most examples.
        seed: of the draw.
        progress: called with the number of examples just read.

    Raises:
        InputError: there is no training split, or what is ranked would be learned from.
    """
    from rejoinder.corpora.example import read_examples

    path = Path(path)
    if evaluated == "train":
        raise InputError("what learns from the training split is not ranked on it; take --split valid or test")
    if evaluated is None and path.is_file():
        raise InputError(
            f"{path} is ranked whole, so nothing of it is left to learn from; rank a part of it (--split test), give a "
            "data folder with a train part, or name other training data with --fit-on"
        )
    try:
        found = sample(read_examples(path, "train"), limit, seed, progress=progress)
    except InputError as error:
        raise InputError(f"no training examples to learn from (--fit-on DATA names other ones): {error}") from error
    if not found:
        raise InputError(f"{path} has no training example to learn from; name other training data with --fit-on")
    return found
