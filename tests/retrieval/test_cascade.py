"""A fast search and a slow ranker in a row: the slow one decides, among what the fast one found."""

import numpy as np
import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.protocol import Ranker
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.cascade import Cascade

TEXTS = ["a cat", "a dog and a cat", "a dog", "the weather", "a cat and a cat and a fish"]


class ByLength:
    """Scores a reply by its length; remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def score(self, contexts, candidates):  # noqa: ARG002
        self.asked.extend(list(texts) for texts in candidates)
        return np.array([[len(text) for text in texts] for texts in candidates], dtype=np.float32)


@pytest.fixture
def index(tmp_path, encoder):
    return Index.build(encoder, [Candidate(text, {"id": i}) for i, text in enumerate(TEXTS)], tmp_path / "index")


def test_the_slow_ranker_orders_what_the_fast_one_found(index):
    slow = ByLength()
    assert isinstance(slow, Ranker)
    contexts = [["a cat"], ["a dog"]]
    fast = index.search(contexts, k=3)
    found = Cascade(index, slow, rerank=3).search(contexts, k=2)
    assert slow.asked == [[reply.text for reply in replies] for replies in fast]
    for replies, candidates in zip(found, fast, strict=True):
        wanted = sorted((reply.text for reply in candidates), key=len, reverse=True)[:2]
        assert [reply.text for reply in replies] == wanted
        assert [reply.score for reply in replies] == [len(text) for text in wanted]
        assert [(TEXTS[reply.position], reply.payload) for reply in replies] == [
            (reply.text, {"id": reply.position}) for reply in replies
        ]


def test_equal_scores_keep_the_order_of_the_first_search(index):
    class Same(ByLength):
        def score(self, contexts, candidates):
            return 0 * super().score(contexts, candidates)

    first = [reply.position for reply in index.search([["a fish"]], k=5)[0]]
    assert [reply.position for reply in Cascade(index, Same()).search([["a fish"]], k=5)[0]] == first


@pytest.mark.parametrize("kind", [np.uint8, np.uint64, np.int8, np.float16])
def test_scores_of_any_type_of_numbers_are_ordered(index, kind):
    class Kind(ByLength):
        def score(self, contexts, candidates):
            shape = super().score(contexts, candidates).shape
            return np.broadcast_to(np.arange(shape[1]), shape).astype(kind)

    first = [reply.position for reply in index.search([["a fish"]], k=5)[0]]
    [found] = Cascade(index, Kind()).search([["a fish"]], k=5)
    assert [reply.position for reply in found] == first[::-1]
    assert [reply.score for reply in found] == [4, 3, 2, 1, 0]


def test_rerank_is_an_option_of_a_search_too(index):
    slow = ByLength()
    [found] = Cascade(index, slow, rerank=3).search([["a cat"]], k=2, rerank=5)
    assert (len(slow.asked[0]), found[0].text) == (5, max(TEXTS, key=len))
    with pytest.raises(InputError, match="an index alone has no slow ranker"):
        index.search([["a cat"]], k=1, rerank=2)


def test_nothing_to_rank(tmp_path, encoder):
    empty = Index.build(encoder, [], tmp_path / "empty")
    assert Cascade(empty, ByLength()).search([["hello"]], k=3) == [[]]
    assert Cascade(empty, ByLength()).search([], k=3) == []


def test_wrong_numbers_are_refused(index):
    with pytest.raises(InputError, match="rerank is 0"):
        Cascade(index, ByLength(), rerank=0)
    with pytest.raises(InputError, match="k is 6; 5 replies"):
        Cascade(index, ByLength(), rerank=5).search([["hello"]], k=6)
    with pytest.raises(InputError, match="1 to 50"):
        Cascade(index, ByLength()).search([["hello"]], k=0)


@pytest.mark.parametrize("spoil", [lambda scores: scores * np.nan, lambda scores: scores[:, 1:]])
def test_a_ranker_without_scores_is_refused(index, spoil):
    class Spoilt(ByLength):
        def score(self, contexts, candidates):
            return spoil(super().score(contexts, candidates))

    with pytest.raises(InputError, match="no score"):
        Cascade(index, Spoilt()).search([["hello"]], k=1)
