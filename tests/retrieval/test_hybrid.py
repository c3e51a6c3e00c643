"""Words and meaning: the sums of brute force, whatever was added, deleted or filtered."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Candidate, Example
from rejoinder.encoders.words.keywords import BM25, Hybrid
from rejoinder.encoders.words.word_index import Postings, WordIndex
from rejoinder.errors import InputError
from rejoinder.retrieval import hybrid, index_words
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import MAX_HYBRID_WEIGHT, SearchOptions
from rejoinder.retrieval.cascade import Cascade
from tests.retrieval.conftest import HashEncoder
from tests.retrieval.test_cascade import ByLength

TEXTS = st.lists(st.sampled_from(["red", "green", "blue", "a", "the", "?"]), min_size=1, max_size=5).map(" ".join)


def textbook(query, texts, k1=1.5, b=0.75):
    """BM25 of each text, with Lucene's idf."""
    documents = [words_of(text) for text in texts]
    mean = np.mean([len(each) for each in documents]) or 1

    def score(document):
        total = 0.0
        for word in words_of(query):
            df = sum(word in each for each in documents)
            tf = document.count(word)
            idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
            total += idf * tf / (tf + k1 * (1 - b + b * len(document) / mean))
        return total

    return [score(document) for document in documents]


def words_of(text):
    return [word for word in text.split() if word != "?"]


@settings(max_examples=40)
@given(
    st.lists(st.lists(TEXTS, min_size=1, max_size=12), min_size=1, max_size=3), st.sets(st.integers(0, 35)),
    st.lists(TEXTS, min_size=1, max_size=3), st.integers(1, 9), st.sampled_from([0.01, 0.1, 3.0]),
    st.sampled_from([1, 64]), st.booleans(),
)  # fmt: skip
def test_sums_are_those_of_brute_force(tmp_path_factory, parts, gone, inputs, k, weight, at_least, compact):
    """Counted over all replies that are there; a filter leaves the counts as they are."""
    index = Index.build(HashEncoder(), [], tmp_path_factory.mktemp("hybrid") / "index")
    index.search([["red"]], hybrid=1.0)
    for part in parts:
        index.add(Candidate(text, {"red": "red" in text}) for text in part)
    index.delete(position for position in gone if position < index.manifest.end)
    if compact:
        index.compact()
    there = dict(index)
    # of one sentence each, since a message of several is searched for by these
    chats = [["Hi", text.replace("? ", "").replace(" ?", "")] for text in inputs]
    for where in (None, {"red": True}):
        if where and not there:
            continue
        wanted = []
        for chat in chats:
            cosines = {reply.position: reply.score for reply in index.search([chat], 99, distinct=False)[0]}
            matches = textbook(chat[-1], [each.text for each in there.values()]) if there else []
            sums = {at: cosines[at] + weight * match for at, match in zip(there, matches, strict=True)}
            passing = [at for at, each in there.items() if where is None or each.payload["red"]]
            best = sorted(passing, key=lambda at: (-round(sums[at], 9), at))[:k]
            wanted.append([(at, pytest.approx(sums[at], abs=1e-9)) for at in best])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hybrid, "MIN_CANDIDATES", at_least)
            found = index.search(chats, k, where=where, hybrid=weight, distinct=False)
        got = [sorted(((r.position, r.score) for r in some), key=lambda e: (-round(e[1], 9), e[0])) for some in found]
        assert got == wanted


def test_more_is_looked_at_only_until_nothing_else_can_be_better(tmp_path, monkeypatch):
    index = Index.build(HashEncoder(), [f"reply {i} about {i % 9}" for i in range(500)], tmp_path / "index")
    asked = []
    real = hybrid.exact_scores
    monkeypatch.setattr(hybrid, "exact_scores", lambda context, rows: asked.append(len(rows)) or real(context, rows))
    [found] = index.search([["tell me about reply 321"]], 3, hybrid=0.2, distinct=False)
    assert found[0].text == "reply 321 about 6"
    assert sum(asked) < 300
    assert found == index.search([["tell me about reply 321"]], 500, hybrid=0.2, distinct=False)[0][:3]


def test_all_that_a_search_can_do_goes_with_it(tmp_path):
    index = Index.build(HashEncoder(), ["Red!", "red", "green", "blue red", "so red it is"], tmp_path / "index")
    [found] = index.search([["red it is"]], 5, hybrid=10.0, distinct=True)
    assert [reply.text for reply in found][:1] == ["so red it is"]
    assert len(found) == 4
    [least] = index.search([["red it is"]], 5, found[1].score, hybrid=10.0, distinct=True)
    assert least == found[:2]
    [others] = index.search([["so red it is", "Hm", "red it is"]], 5, hybrid=10.0, no_repeat=True)
    assert "so red it is" not in {reply.text for reply in others}
    slow = ByLength()
    assert len(Cascade(index, slow, rerank=2).search([["red it is"]], 2, hybrid=10.0)[0]) == 2
    assert "so red it is" in slow.asked[0]
    assert len(index.search([["red"]], 3, hybrid=1.0, diversity=0.3)[0]) == 3
    assert all(math.isfinite(reply.score) for reply in index.search([["red"]], 5, hybrid=MAX_HYBRID_WEIGHT)[0])
    for wrong in (-1, math.nan, "much", 2 * MAX_HYBRID_WEIGHT, 1e307):
        with pytest.raises(InputError, match="hybrid is"):
            index.search([["red"]], hybrid=wrong)
    with pytest.raises(InputError, match="1 contexts but 0 inputs"):
        index.search_vectors(index.encoder.encode_contexts([["red"]]), SearchOptions(hybrid=1.0))


@given(st.lists(TEXTS, min_size=1, max_size=12), TEXTS)
def test_one_query_at_a_time_scores_as_all_at_once(texts, query):
    [wanted] = BM25().score([[query]], [list(dict.fromkeys(texts))])
    distinct = list(dict.fromkeys(texts))
    index = WordIndex.of(distinct)
    assert index.scores(query) == pytest.approx(wanted, rel=1e-6)
    half = len(distinct) // 2
    gone = np.arange(half, len(distinct) + 1) == len(distinct)
    parts = [(Postings(distinct[:half]), None), (Postings([*distinct[half:], query]), gone)]
    assert WordIndex(parts).scores(query) == pytest.approx([*wanted, 0], rel=1e-6)


class Meaning:
    """Knows the right one of half of the contexts only."""

    def score(self, contexts, candidates):
        right = [[text.split()[0] == context[-1].split()[0] for text in list_] for context, list_ in
                 zip(contexts, candidates, strict=True)]  # fmt: skip
        return np.array(right, np.float32) * np.array([[int(c[-1].split()[0]) % 100 < 50] for c in contexts])


def test_the_weight_is_the_best_on_the_examples():
    examples = [Example(context=(f"{i} tell me of word{i}",), response=f"{i} it is word{i} that") for i in range(200)]
    ranker = Hybrid(Meaning())
    with pytest.raises(Exception, match="has not learned"):
        ranker.score([["a"]], [["a"]])
    learned = ranker.fit(examples)
    assert (learned["examples"], learned["recall_at_1"], learned["recall_at_1_without_words"]) == (200, 1.0, 0.5)
    assert learned["weight"] == 0.005
    [scores] = ranker.score([["7 word7"]], [["7 word7", "no"]])
    assert scores[0] > 1 > scores[1] == 0
    with pytest.raises(InputError, match="hybrid learns from training examples: 99 given"):
        ranker.fit(examples[:99])


def test_a_change_reads_the_words_of_new_replies_alone(tmp_path, monkeypatch):
    index = Index.build(HashEncoder(), [f"red {number}" for number in range(50)], tmp_path / "index")
    index.search([["red 3"]], 1, hybrid=1.0)
    read = []
    monkeypatch.setattr(index_words, "Postings", lambda texts: Postings(read.append(text) or text for text in texts))
    index.add(["green"])
    index.delete([3])
    [[best]] = index.search([["green"]], 1, hybrid=1.0)
    assert (best.text, read) == ("green", ["green"])
