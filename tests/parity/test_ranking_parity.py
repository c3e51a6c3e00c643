"""Ranks, recall and MRR against a loop that follows the definition word by word."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.evaluation.ranking import ranks

VALUES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.25, math.inf, -math.inf, math.nan])


def naive_rank(scores, label):
    """Whoever cannot be shown to be worse stands before the right one; with a NaN on either side nobody can be."""
    return 1 + sum(
        not score < scores[label] for place, score in enumerate(scores) if place != label
    )


@settings(max_examples=200)
@given(
    st.integers(1, 7).flatmap(
        lambda m: st.lists(st.lists(VALUES, min_size=m, max_size=m), min_size=1)
    ),
    st.data(),
)
def test_ranks(rows, data):
    labels = [data.draw(st.integers(0, len(row) - 1)) for row in rows]
    found = ranks(np.array(rows, dtype=np.float32), np.array(labels))
    assert found.tolist() == [
        naive_rank(row, label) for row, label in zip(rows, labels, strict=True)
    ]
