"""Messages that are nobody's: word overlap in a score, lone examples, and other languages."""

import json
from dataclasses import replace

import numpy as np
import pytest

import rejoinder
from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.calibration import CalibratedIndex
from rejoinder.retrieval.encoding import scoring
from rejoinder.retrieval.encoding.confidence import Calibration
from rejoinder.retrieval.index import Index
from rejoinder.stores.folder.store import MANIFEST
from rejoinder.retrieval.options import ANY_SCORE, SearchOptions
from rejoinder.retrieval.encoding.familiarity import WORD_WEIGHT
from rejoinder.retrieval.encoding.held_out import hold_out
from rejoinder.retrieval.encoding.views import Views
from rejoinder.text.overlap import word_overlap, word_set
from tests.retrieval.test_examples import TOPICS, WordEncoder, faq
from tests.retrieval.test_examples import views as made_views


def test_rare_words_count_more_than_frequent_ones():
    known = word_set("Where is my parcel?")
    assert word_overlap("where is it", known) < word_overlap("parcel it", known)
    assert word_overlap("WHERE is my Parcel", known) == pytest.approx(1)
    assert word_overlap("???", known) == 0


def test_the_words_of_the_best_reply_shift_all_scores_and_keep_their_order(tmp_path):
    index = Index.build(WordEncoder(), faq(), tmp_path / "index")
    question = next(iter(TOPICS.values()))[1]
    weight = WORD_WEIGHT
    head = replace(index.manifest.head, word_weight=weight)
    index.store.write_manifest(replace(index.manifest, head=head))
    index = Index.open(index.store, WordEncoder())
    assert json.loads((index.folder / MANIFEST).read_text())["format"] == 5
    [words] = index.search([[question]], 5, ANY_SCORE)
    vectors = index.encoder.encode_contexts([[question]])
    [plain] = index.search_vectors(vectors, SearchOptions(k=5, minimum_score=ANY_SCORE))
    assert [reply.text for reply in words] == [reply.text for reply in plain]
    changes = {round(one.score - other.score, 5) for one, other in zip(words, plain, strict=True)}
    assert len(changes) == 1
    assert changes.pop() == pytest.approx(weight * 0.6, abs=1e-4), "all its words are known"


def test_replies_with_one_example_each_have_a_minimum_score_of_their_own():
    made, background = made_views()
    lone = Views(made.vectors, np.arange(72), made.weights)
    responses = np.zeros((72, made.vectors.shape[1]), np.float32)
    assert hold_out(lone, background, responses) is None
    held_out = hold_out(lone, background, responses, lone=True)
    assert held_out.is_own.sum() == 72
    assert held_out.minimum_score != scoring.MINIMUM_SCORE


def test_another_language_finds_nothing_whatever_score_is_asked_for(tmp_path):
    replies = [
        Candidate(
            "Parcels take three days.",
            examples=(("when will my parcel come",), ("where is my order",)),
        ),
        Candidate(
            "Send it back within 30 days.",
            examples=(("I want to return it",), ("can I send it back",)),
        ),
    ]
    index = Index.build(rejoinder.load("bi-small"), replies, tmp_path / "index")
    message = ["¿Dónde está mi parcel order?", "Wo ist meine Bestellung?"]
    assert index.search([[text] for text in message]) == [[], []]
    assert index.notes([[text] for text in message]) == [{"language": "unknown"}] * 2
    assert index.search([[text] for text in message], 1, -2.0) == [[], []]
    ranked = index.search([[text] for text in message], 2, ANY_SCORE)
    assert [len(replies) for replies in ranked] == [2, 2], "whoever asks for all of them gets them"
    Calibration(
        index=index.fingerprint,
        model=index.encoder.fingerprint,
        history=None,
        score_weight=4.0,
        gap_weight=0.0,
        intercept=0.0,
    ).save(index.store)
    [own, *others] = CalibratedIndex(index).answer([["where is my order"], *([text] for text in message)], 0.05)
    assert own.replies
    assert [answer.replies for answer in others] == [[], []], "nor whatever confidence"
    assert index.notes([["where is my order"], ["wheres my ordr"]]) == [
        {},
        {"corrected": {"ordr": "order"}},
    ]
