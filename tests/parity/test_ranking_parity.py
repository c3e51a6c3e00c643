"""Ranks, recall and MRR against a loop that follows the definition word by word."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.evaluation.ranking import evaluate, ranks
from tests.evaluation.fakes import Rule, number, numbered_examples


def naive_rank(scores: list[float], label: int) -> int:
    """Walk over the others; whoever cannot be shown to be worse stands before the right one."""
    before = 0
    for place, score in enumerate(scores):
        if place == label:
            continue
        worse = not math.isnan(score) and not math.isnan(scores[label]) and score < scores[label]
        before += not worse
    return before + 1


VALUES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.25, math.inf, -math.inf, math.nan])


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 7).flatmap(lambda m: st.lists(st.lists(VALUES, min_size=m, max_size=m), min_size=1)), st.data())
def test_ranks(rows, data):
    labels = [data.draw(st.integers(0, len(row) - 1)) for row in rows]
    found = ranks(np.array(rows, dtype=np.float32), np.array(labels))
    assert found.tolist() == [naive_rank(row, label) for row, label in zip(rows, labels, strict=True)]


def test_a_whole_evaluation():
    table = np.random.default_rng(5).integers(0, 8, (90, 90)).astype(float)
    ranker = Rule(lambda message, candidate: table[number(message), number(candidate)])
    result = evaluate(ranker, numbered_examples(90), candidates=20, seed=11)

    hits = {1: 0, 2: 0, 3: 0, 5: 0, 10: 0}
    reciprocal = 0.0
    ((contexts, lists),) = ranker.calls
    for context, texts in zip(contexts, lists, strict=True):
        asked = number(context[-1])
        numbers = [number(text) for text in texts]
        rank = naive_rank([table[asked, other] for other in numbers], numbers.index(asked))
        reciprocal += 1 / rank
        for k in hits:
            hits[k] += rank <= k
    assert len(contexts) == 80
    assert {k: estimate.value for k, estimate in result.recall.items()} == {k: hits[k] / 80 for k in hits}
    assert math.isclose(result.mrr.value, reciprocal / 80)
