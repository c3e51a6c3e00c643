"""A part of a data set that stands for all of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rejoinder.corpora.example import Example


def sample(
    examples: Iterable[Example], limit: int | None, seed: int = 0, *, progress: Callable[[int], object] | None = None
) -> list[Example]:
    """At most `limit` examples (None: all), each equally likely, without holding more than that in memory.

    The first ones of a data set will not do: they come from few dialogues and often from one source.
    Source: Vitter, "Random Sampling with a Reservoir" (1985), algorithm R.

    Args:
        examples: read once, to the end.
        limit: how many to keep.
        seed: of the draw.
        progress: called with the number of examples just read, every thousand.
    """
    rng = random.Random(seed)
    kept: list[Example] = []
    read = 0
    for read, example in enumerate(examples, start=1):
        if limit is None or read <= limit:
            kept.append(example)
        elif (slot := rng.randrange(read)) < limit:
            kept[slot] = example
        if progress is not None and read % 1000 == 0:
            progress(1000)
    if progress is not None:
        progress(read % 1000)
    return kept
