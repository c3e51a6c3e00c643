"""From float32 rows the search gives the answers of brute force to the last bit."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.encoders.vectors import ContextVectors
from rejoinder.stores import scan as module
from rejoinder.stores.scan import Rows, all_scores, exact_scores, search
from rejoinder.stores.writing import longest_of


def attended(rows, contexts, present=None):
    """The usual formulation, in float64: softmax, the attended vector, its product with the candidate."""
    logits = np.einsum("nd,qmd->qnm", rows.astype(np.float64), contexts.astype(np.float64))
    if present is not None:
        logits = np.where(present[:, None, :], logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    there = contexts if present is None else np.where(present[..., None], contexts, 0)
    vectors = np.einsum("qnm,qmd->qnd", weights, there.astype(np.float64))
    return np.einsum("qnd,nd->qn", vectors, rows.astype(np.float64))


def brute_force(rows, alive, contexts, k, minimum):
    """All scores, sorted; nothing clever."""
    answers = []
    for context in contexts:
        scores = exact_scores(context, rows)
        good = [i for i in range(len(rows)) if alive[i] and scores[i] >= minimum]
        order = sorted(good, key=lambda i: (-scores[i], i))[:k]
        answers.append((order, [float(scores[i]) for i in order]))
    return answers


def found_by_search(segments, contexts, k, minimum=-np.inf):
    return [(positions.tolist(), scores.tolist()) for positions, scores in search(segments, contexts, k, minimum)]


def segments_of(rows, alive=None, cuts=()):
    alive = np.ones(len(rows), bool) if alive is None else alive
    bounds = [0, *[cut for cut in sorted(set(cuts)) if 0 < cut < len(rows)], len(rows)]
    return [
        Rows.of(a, rows[a:b], None if alive[a:b].all() else ~alive[a:b], longest_of(rows))
        for a, b in itertools.pairwise(bounds)
    ]


def unit(rows):
    return (rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-30)).astype(np.float32)


@st.composite
def collections(draw):
    """Rows with ties, near ties and zero vectors, in one to three segments, some deleted; contexts near some."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, size = draw(st.integers(1, 60)), draw(st.sampled_from([1, 2, 3, 16, 65]))
    kinds = draw(st.sampled_from([1, 3, 60]))  # how many different rows there are: few of them, many ties
    table = rng.standard_normal((kinds, size))
    table[rng.random(kinds) < 0.15] = 0
    rows = table[rng.integers(0, kinds, count)]
    nearly = rng.random(count) < 0.3
    rows[nearly] += 1e-5 * rng.standard_normal((int(nearly.sum()), size)) * (rows[nearly] != 0)
    scale = draw(st.sampled_from([0, 0.3, 1.0, 4.0]))
    rows = (scale * rows).astype(np.float32) if scale else unit(rows)
    width = draw(st.sampled_from([1, 1, 2, 6]))
    vectors = rows[rng.integers(0, count, (4, width))] + 0.1 * rng.standard_normal((4, width, size))
    vectors[rng.random(4) < 0.2] = 0
    vectors[0, 0] = rows[0]
    present = rng.random((4, width)) < 0.7
    present[:, -1] = True
    alive = rng.random(count) >= draw(st.sampled_from([0.0, 0.3, 1.0]))
    cuts = draw(st.lists(st.integers(0, count), max_size=2))
    return rows, alive, list(ContextVectors(vectors.astype(np.float32), present)), cuts


@settings(max_examples=200)
@given(
    collections(), st.integers(1, 70), st.sampled_from([-np.inf, 0.0, 0.5, 0.99, 20.0]),
    st.sampled_from([1, 7, 1 << 13]), st.sampled_from([0, 20, 1 << 20]), st.booleans(),
)  # fmt: skip
def test_search_equals_brute_force(collection, k, minimum, block, pending, with_torch):
    rows, alive, contexts, cuts = collection
    rows.flags.writeable = False  # as those of a segment
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_torch_loaded", lambda: with_torch)
        patch.setattr(module, "ROWS_OF_A_PROGRAM", 4)
        patch.setattr(module, "ROWS_AT_ONCE", block)
        patch.setattr(module, "ROWS_AT_LEAST", 1)
        patch.setattr(module, "PENDING_AT_MOST", pending)
        patch.setattr(module, "VECTORS_AT_ONCE", 5)
        patch.setattr(module, "CONTEXTS_AT_ONCE", 3)
        found = found_by_search(segments_of(rows, alive, cuts), contexts, k, minimum)
    assert found == brute_force(rows, alive, contexts, k, minimum)


@pytest.mark.parametrize("width", [1, 5])
def test_a_crowd_of_near_ties_is_ranked_exactly(width):
    """Scores closer together than float32 products tell apart."""
    rng = np.random.default_rng(0)
    center = rng.standard_normal(64)
    rows = unit(center + 1e-6 * rng.standard_normal((3000, 64)))
    contexts = [unit(center + 0.1 * rng.standard_normal((width, 64)))]
    found = found_by_search(segments_of(rows, cuts=[1000]), contexts, 10)
    assert found == brute_force(rows, np.ones(3000, bool), contexts, 10, -np.inf)


def test_the_best_of_many_are_those_of_the_attended_vector():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((9000, 96)).astype(np.float32)
    for width in (1, 16):
        contexts = rng.standard_normal((3, width, 96)).astype(np.float32)
        found = search(segments_of(rows, cuts=[3000]), list(contexts), 10)
        for scores, (positions, best) in zip(attended(rows, contexts), found, strict=True):
            assert positions.tolist() == np.argsort(-scores)[:10].tolist()
            assert best == pytest.approx(np.sort(scores)[::-1][:10], rel=1e-9)


@pytest.mark.filterwarnings("error")
def test_rows_that_are_mapped_read_only_are_multiplied_without_a_warning(tmp_path):
    rng = np.random.default_rng(0)
    rows, context = (rng.standard_normal((n, 24)).astype(np.float32) for n in (300, 6))
    rows.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float32, "r").reshape(300, 24)
    assert (all_scores(mapped, [context]) == all_scores(rows, [context])).all()


def test_the_score_of_a_pair_does_not_depend_on_what_is_scored_beside_it():
    rng = np.random.default_rng(0)
    for size, width in itertools.product((1, 7, 128, 513), (1, 3, 16)):
        context, rows = rng.standard_normal((width, size)), rng.standard_normal((33, size)).astype(np.float32)
        together = exact_scores(context, rows)
        assert together.tolist() == [exact_scores(context, rows[i : i + 1])[0] for i in range(33)]
        assert together.tolist() == exact_scores(context, np.concatenate([rows[5:], rows])[3:])[-33:].tolist()


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32), count=st.integers(1, 30), size=st.sampled_from([1, 2, 3, 17, 64]),
    width=st.integers(1, 9), scale=st.sampled_from([0.1, 1.0, 8.0]), block=st.sampled_from([1, 5, 1 << 13]),
    together=st.sampled_from([1, 10, 2048]), with_torch=st.booleans(),
)  # fmt: skip
def test_scores_equal_those_of_the_attended_vector(seed, count, size, width, scale, block, together, with_torch):
    rng = np.random.default_rng(seed)
    rows = (scale * rng.standard_normal((count, size))).astype(np.float32)
    rows[rng.random(count) < 0.1] = 0
    contexts = (scale * rng.standard_normal((3, width, size))).astype(np.float32)
    present = rng.random((3, width)) < 0.6
    present[:, rng.integers(width)] = True
    spoilt = np.where(present[..., None], contexts, np.float32(np.nan))  # what is missing does not count
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_torch_loaded", lambda: with_torch)
        patch.setattr(module, "ROWS_OF_A_PROGRAM", 4)
        patch.setattr(module, "ROWS_AT_ONCE", block)
        patch.setattr(module, "ROWS_AT_LEAST", 1)
        patch.setattr(module, "VECTORS_AT_ONCE", together)
        all_there = all_scores(rows, list(contexts))
        some_there = all_scores(rows, list(ContextVectors(spoilt, present)))
    tolerance = 1e-5 * (1 + scale**2 * size)
    assert all_there == pytest.approx(attended(rows, contexts), rel=1e-4, abs=tolerance)
    assert some_there == pytest.approx(attended(rows, contexts, present), rel=1e-4, abs=tolerance)
    assert exact_scores(contexts[0], rows) == pytest.approx(attended(rows, contexts)[0], rel=1e-9, abs=1e-9)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 10), st.integers(1, 3), st.booleans())
def test_floors_of_groups_leave_nothing_out(seed, k, queries, has_ties):
    """So many rows that floors come from the best of groups; the best ones may stand in one group."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(module.GROUPS * module.LEAST_GROUP * k, 2 * module.GROUPS * module.LEAST_GROUP * k))
    rows = rng.standard_normal((count, 4)).astype(np.float32)
    if has_ties:
        rows = rows[rng.integers(0, 8 * k, count)]
    if rng.random() < 0.5:
        rows = rows[np.argsort(rows[:, 0])]
    alive = rng.random(count) < rng.choice([0.05, 0.5, 1.0])
    contexts = [unit(rng.standard_normal((1, 4))) for _ in range(queries - 1)] + [np.eye(1, 4, dtype=np.float32)]
    cuts = rng.integers(0, count, int(rng.integers(0, 3))).tolist()
    assert found_by_search(segments_of(rows, alive, cuts), contexts, k) == brute_force(rows, alive, contexts, k, -np.inf)
