"""Encodings of labelled texts, as a plot shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.encoders.protocol import DualEncoder, Ranker
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import InputError
from rejoinder.progress import Advance, silent

AT_ONCE = 512  # texts between two steps of the progress bar


def choose_categories(rows: Sequence[tuple[str, str]], wanted: Sequence[str]) -> list[str]:
    """Return the categories to draw: a number of those with the most texts, or named ones."""
    counts = Counter(category for _, category in rows)
    if len(wanted) == 1 and wanted[0].isdecimal():
        if int(wanted[0]) < 2:
            raise InputError(f"--categories {wanted[0]}: a picture needs 2 or more")
        return [category for category, _ in counts.most_common(int(wanted[0]))]
    if unknown := [category for category in wanted if category not in counts]:
        raise InputError(f"there is no category '{unknown[0]}'; there are {', '.join(counts)}")
    return list(dict.fromkeys(wanted))


def encode_texts(
    name: str, ranker: Ranker, texts: Sequence[str], *, fitted: bool, advance: Advance = silent
) -> FloatArray:
    """Encode texts, each as a conversation of one message: (n, d).

    Of a fitted ranker they are responses: MAP changes only these.
    """
    if not isinstance(ranker, DualEncoder):
        raise InputError(
            f"{name} gives scores and no vectors, so there is nothing to draw;"
            " name a model that encodes"
        )
    pieces = []
    for start in range(0, len(texts), AT_ONCE):
        piece = texts[start : start + AT_ONCE]
        vectors = (
            ranker.encode_responses(piece)
            if fitted
            else ranker.encode_contexts([[text] for text in piece])
        )
        if isinstance(vectors, ContextVectors):
            raise InputError(
                f"{name} gives a conversation several vectors; name a model that gives one"
            )
        pieces.append(vectors)
        advance(len(piece))
    return np.concatenate(pieces)
