"""Replies that are known by titles and examples: one vector each, so a search stays a product."""

import hashlib
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.arrays import unit_rows
from rejoinder.corpora.keys import words_of
from rejoinder.corpora.schema import Candidate
from rejoinder.curation.editing import Editor
from rejoinder.curation.learning import learn
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.errors import InputError
from rejoinder.retrieval.encoding import held_out, regression, scoring
from rejoinder.retrieval.encoding.head import fit_replies
from rejoinder.retrieval.calibration import CalibratedIndex, why_uncalibrated
from rejoinder.retrieval.index import Index
from rejoinder.stores.address import store_of
from rejoinder.retrieval.options import ANY_SCORE
from rejoinder.retrieval.encoding.held_out import hold_out
from rejoinder.retrieval.encoding.views import Views
from rejoinder.retrieval.cascade import Cascade
from tests.logs import log_of
from tests.retrieval.conftest import HashEncoder

SIZE = 48
TOPICS = {
    "We open at nine and close at six.": ("hours", "when do you open", "opening times please"),
    "Your parcel is on its way to you.": ("delivery", "where is my order", "track my package"),
    "You can return it within a month.": ("returns", "i want my money back", "send it back"),
    "Please reset it by the link we sent.": ("password", "i cannot log in", "forgot my password"),
}


class WordEncoder(HashEncoder):
    """Texts that share words have vectors that are near each other."""

    def __init__(self, seed="first", size=SIZE):
        super().__init__(seed, size, name=f"words-{seed}")

    def encode_responses(self, responses):
        rows = [sum(map(self._word, words_of(text)), start=np.zeros(self.size)) for text in responses]
        return unit_rows(np.array(rows, dtype=np.float32).reshape(-1, self.size))

    def _word(self, word):
        raw = hashlib.shake_128((self.seed + word).encode()).digest(2 * self.size)
        return np.frombuffer(raw, dtype="<i2") / 2**15


def faq(questions=slice(1, 2)):
    return [
        Candidate(text, {"id": known[0]}, known[0], tuple((example,) for example in known[questions]))
        for text, known in TOPICS.items()
    ]


@pytest.fixture
def encoder():
    return WordEncoder()


@pytest.fixture
def index(tmp_path, encoder):
    return Index.build(encoder, faq(), tmp_path / "index")


def test_a_reply_is_found_by_the_question_that_it_answers(index, encoder, tmp_path):
    texts = list(TOPICS)
    for number, (_, example, _) in enumerate(TOPICS.values()):
        [[best]] = index.search([[example.title()]], k=1)
        assert best.position == number
        assert (best.title, best.examples) == (faq()[number].title, ((example,),))
    [[best]] = index.search([["password"]], k=1)
    assert best.text == texts[3], "a title counts as an example"
    plain = Index.build(encoder, texts, tmp_path / "plain")
    assert plain.search([["forgot my password"]], k=1)[0][0].text != texts[3]


def test_without_titles_and_examples_an_index_is_what_it_was(encoder, tmp_path):
    plain = Index.build(encoder, list(TOPICS), tmp_path / "plain")
    assert plain.manifest.head is None
    assert plain.manifest.examples == 0
    assert {path.name for path in plain.folder.glob("segment-*/*")} == {
        "replies.jsonl", "offsets.i64", "vectors.f32"
    }  # fmt: skip
    np.testing.assert_allclose(plain.vectors(range(4)), encoder.encode_responses(list(TOPICS)), atol=1e-7)


def answers():
    """Thirty texts of 32 words in four sentences: half of the words are in all of them."""
    common = [f"common{number}" for number in range(16)]
    own = [[f"topic{topic}word{number}" for number in range(16)] for topic in range(30)]
    parts = [zip(np.roll(common, topic), words, strict=True) for topic, words in enumerate(own)]
    texts = [[word for pair in pairs for word in pair] for pairs in parts]
    return [
        ". ".join(" ".join(words[start : start + 8]) for start in range(0, 32, 8)) for words in texts
    ], own


def test_long_replies_are_found_by_their_sentences_too(tmp_path):
    encoder = WordEncoder(size=128)
    texts, own = answers()
    index = Index.build(encoder, texts, tmp_path / "index")
    assert (index.manifest.examples, index.manifest.head.held_out) == (0, 0)
    asked = [[f"common3 common9 common15 {words[1]} {words[2]} common6"] for words in own]
    by_text = (encoder.encode_contexts(asked) @ encoder.encode_responses(texts).T).argmax(axis=1)
    found = [best.position for [best] in index.search(asked, k=1, minimum_score=ANY_SCORE)]
    rights = np.arange(len(texts))
    assert (found == rights).sum() > (by_text == rights).sum() > 15
    [[best]] = index.search([asked[0]], k=1, why=True)
    assert best.why.view == "text"
    [replies] = index.search([["nothing of the kind"]], k=len(texts))
    assert len(replies) == len(texts), "no message is refused"


def test_the_first_examples_of_long_replies_are_fitted_at_once(encoder, tmp_path):
    texts, _ = answers()
    index = Index.build(encoder, texts, tmp_path / "index")
    index.add(faq())
    whole = Index.build(encoder, [*texts, *faq()], tmp_path / "whole")
    rows = range(len(whole))
    np.testing.assert_allclose(index.vectors(rows), whole.vectors(rows), atol=1e-5)
    assert index.manifest.head == whole.manifest.head


def test_what_counts_of_replies_is_decided_by_a_build_and_by_learning(encoder, tmp_path, monkeypatch):
    texts, _ = answers()
    index = Index.build(encoder, list(TOPICS), tmp_path / "index")
    index.add(texts)
    assert index.manifest.head is None
    learn(index, log_of(index))
    whole = Index.build(encoder, [*TOPICS, *texts], tmp_path / "whole")
    rows = range(len(whole))
    np.testing.assert_allclose(index.vectors(rows), whole.vectors(rows), atol=1e-5)
    index.edit({0: replace(dict(index)[0], text="Closed.")})
    assert index.manifest.head is not None
    index.delete(range(4, len(whole)))
    learn(index, log_of(index))
    assert index.manifest.head is None
    monkeypatch.setattr("rejoinder.retrieval.encoding.head.MOST_ANSWERS", len(texts) - 1)
    assert Index.build(encoder, texts, tmp_path / "many").manifest.head is None


class Remembering(WordEncoder):
    """An encoder that counts its copies with a cache."""

    copies = 0

    def with_cache(self):
        self.copies += 1
        return self


def test_changes_share_what_was_encoded(tmp_path):
    encoder = Remembering()
    index = Index.build(encoder, faq(), tmp_path / "index")
    for text in ("We open at ten.", "We open at noon."):
        index.edit({0: replace(dict(index)[0], text=text)})
    Editor(index, log_of(index)).add_examples({1: [["has it been sent"]]})
    assert encoder.copies == 1
    whole = Index.build(WordEncoder(), dict(index).values(), tmp_path / "whole")
    np.testing.assert_allclose(index.vectors(range(4)), whole.vectors(range(4)), atol=1e-5)


def test_titles_and_examples_stay_with_their_replies(index, encoder, tmp_path):
    more = Candidate("Hello!", {}, "", (("hi there", "hello", "how are you"),))
    assert list(index.add(["Bye.", more])) == [4, 5]
    index.delete([1])
    expected = {0: faq()[0], 2: faq()[2], 3: faq()[3], 4: Candidate("Bye."), 5: more}
    for each in (index, Index.open(index.store, encoder)):
        assert dict(each) == expected
    index.compact()
    assert dict(Index.open(index.store, encoder)) == expected
    assert index.manifest.examples == 7
    other = WordEncoder("second")
    assert dict(index.reencode(other, tmp_path / "other")) == expected


@settings(max_examples=20)
@given(st.data())
def test_a_search_is_the_product_with_each_replys_vector(tmp_path_factory, data):
    encoder = WordEncoder()
    # of so few examples there is no density, which changes the scores of a message
    index = Index.build(encoder, faq(), tmp_path_factory.mktemp("x") / "index")
    words = st.sampled_from([word for known in TOPICS.values() for text in known for word in text.split()])
    some = st.lists(words, min_size=1, max_size=4).map(" ".join)
    for text, examples in data.draw(st.lists(st.tuples(some, st.lists(some, max_size=2)), max_size=3)):
        index.add([Candidate(text, {"id": "new"}, "", tuple((each,) for each in examples))])
    if data.draw(st.booleans()):
        index.delete([data.draw(st.integers(0, index.manifest.end - 1))])
    if data.draw(st.booleans()):
        index.compact()
    index = Index.open(index.store, encoder)
    contexts = [[data.draw(some)] for _ in range(3)]
    where = data.draw(st.none() | st.just({"id": ["hours", "new"]}))
    passing = [at for at, reply in index if where is None or reply.payload["id"] in where["id"]]
    scores = encoder.encode_contexts(contexts) @ index.vectors(passing).T
    found = index.search(contexts, k=3, minimum_score=ANY_SCORE, where=where) if passing else []
    for row, replies in zip(scores, found, strict=False):
        assert [reply.score for reply in replies] == pytest.approx(sorted(row, reverse=True)[:3], abs=1e-5)
        assert all(reply.score == pytest.approx(row[passing.index(reply.position)], abs=1e-5) for reply in replies)


def test_titles_alone_leave_texts_their_weight(encoder, tmp_path):
    index = Index.build(encoder, faq(slice(0, 0)), tmp_path / "index")
    assert index.manifest.head.text_weight == scoring.TEXT_WEIGHT_OF_TITLES
    assert index.search([["returns"]], k=1)[0][0].position == 2
    assert index.search([["your parcel is on its way"]], k=1)[0][0].position == 1


def test_examples_that_are_added_later_count(encoder, tmp_path):
    index = Index.build(encoder, ["Bye.", *TOPICS], tmp_path / "index")
    assert index.manifest.head is None
    index.add([Candidate("It costs ten euros.", {}, "", (("how much is shipping",),))])
    assert index.manifest.head is not None, "the first example fits a head to all replies"
    [[best]] = index.search([["how much is shipping"]], k=1)
    assert best.position == 5
    index.add([Candidate("We pay your tram.", {}, "", (("do you refund tickets",),))])
    [[best]] = index.search([["do you refund tickets"]], k=1)
    assert best.position == 6


def test_messages_that_belong_to_no_reply_find_none(index):
    assert index.search([["Can you make me a sandwich?"]]) == [[]]
    [replies] = index.search([["Can you make me a sandwich?"]], minimum_score=ANY_SCORE)
    assert len(replies) == 4
    [replies] = index.search([["Can you make me a sandwich?"]], minimum_score=-5.0)
    assert len(replies) == 4, "a minimum that is given holds"


def test_every_result_says_why(index):
    [[best]] = index.search([["when do you open today"]], k=1, why=True)
    assert (best.why.view, best.why.like) == ("example", ("when do you open",))
    assert 0.5 < best.why.similarity < 1
    assert best.to_json()["why"]["like"] == ("when do you open",)
    [[best]] = index.search([["returns"]], k=1, why=True)
    assert (best.why.view, best.why.like) == ("title", ("returns",))
    assert best.to_json()["title"] == "returns"
    assert index.search([["returns"]], k=1)[0][0].why is None


def test_the_nearest_example_is_named_whatever_the_score(index):
    [[best]] = index.search([["where is everything my friend"]], k=1, why=True, minimum_score=ANY_SCORE)
    assert (best.why.view, best.why.like) == ("example", ("where is my order",))


def test_the_text_is_compared_as_it_was_encoded(encoder, tmp_path):
    index = Index.build(encoder, ["<p>Dear {{name}},</p><p>we <b>open</b> at nine</p>"], tmp_path / "index")
    [[best]] = index.search([["we open at nine"]], k=1, why=True)
    assert best.why.similarity == pytest.approx(best.score, abs=1e-6)


def test_examples_are_added_once(index):
    twice = Candidate("It is free.", {}, "", (("what does it cost",),) * 3)
    index.add([twice])
    assert dict(index)[4].examples == (("what does it cost",),)
    [change] = Editor(index, log_of(index)).add_examples(
        {4: [["how much"], ["how much"], ["what does it cost"]]}
    )
    assert change.new_examples == 1
    assert dict(index)[4].examples == (("what does it cost",), ("how much",))


def test_a_reply_of_many_examples_does_not_set_the_threshold_for_all(encoder, tmp_path):
    chatty = Candidate("Yes.", {}, "", tuple((f"same words here {row}",) for row in range(90)))
    index = Index.build(encoder, [chatty, *many(10)], tmp_path / "index")
    assert index.manifest.head.minimum_score <= 0


def test_a_reply_without_examples_is_found_by_its_text(encoder, tmp_path):
    plain = Index.build(encoder, list(TOPICS), tmp_path / "plain")
    [[best]] = plain.search([["your parcel"]], k=1, why=True)
    assert (best.why.view, best.why.like) == ("text", (best.text,))
    assert best.why.similarity == pytest.approx(best.score, abs=1e-6)


def test_a_slow_ranker_keeps_what_was_found_by_examples(index):
    class Backwards:
        def score(self, _contexts, candidates):
            return np.array([[-float(i) for i, _ in enumerate(texts)] for texts in candidates])

    [[best, *_]] = Cascade(index, Backwards(), rerank=4).search([["where is my order"]], k=2, why=True)
    assert best.why.like == ("where is my order",)


def test_near_copies_are_told_by_their_texts(encoder, tmp_path):
    twice = [Candidate("We open at nine.", {}, "", ((text,),)) for text in ("opening hours", "when do you open")]
    index = Index.build(encoder, [*twice, "We are closed today."], tmp_path / "index")
    [replies] = index.search([["when do you open"]], minimum_score=ANY_SCORE, distinct=True)
    assert [reply.position for reply in replies] == [1, 2]
    [diverse] = index.search([["when do you open"]], k=2, minimum_score=ANY_SCORE, diversity=0.9)
    assert [reply.position for reply in diverse] == [1, 2]


def test_replies_that_an_index_has_twice_are_fitted_as_one(encoder, tmp_path):
    once = Index.build(encoder, faq(slice(1, None)), tmp_path / "once")
    twice = Index.build(encoder, [*faq(slice(1, None)), *faq(slice(1, None))], tmp_path / "twice")
    count = len(once)
    np.testing.assert_array_equal(twice.vectors(range(count)), once.vectors(range(count)))
    np.testing.assert_array_equal(twice.vectors(range(count, 2 * count)), once.vectors(range(count)))
    assert twice.manifest.head.minimum_score == once.manifest.head.minimum_score


def test_with_another_reply_of_the_same_text_an_example_found_its_reply(encoder, monkeypatch):
    """Questions that two replies of one text share are found, whichever of the two is first."""
    monkeypatch.setattr(held_out, "LEAST_HELD_OUT", 5)
    asked = tuple((f"opening hours {day}",) for day in ("monday", "friday", "sunday"))
    replies = [
        Candidate("We open at nine.", {}, "", (*asked, ("when do you open",))),
        Candidate("We open at nine.", {}, "", asked),
        Candidate("Parcels take a week.", {}, "", (("where is my parcel",), ("my parcel is late",))),
    ]
    responses = encoder.encode_responses([reply.text for reply in replies])
    _, _, measured = fit_replies(encoder, replies, responses, plain=True)
    own = measured.is_own
    assert own.sum() == 9
    assert (measured.owners[own] != 1).all()
    assert measured.right[own & (measured.owners == 0)].any()


def test_a_model_of_several_vectors_scores_by_texts_alone(tmp_path):
    class Several(WordEncoder):
        def encode_contexts(self, contexts):
            return ContextVectors(super().encode_contexts(contexts)[:, None].repeat(2, axis=1))

    index = Index.build(Several(), faq(), tmp_path / "index")
    assert index.manifest.head is None
    assert dict(index)[0] == faq()[0]
    assert index.search([["your parcel"]], k=1)[0][0].position == 1


@pytest.mark.parametrize("harm", ["missing", "cut", "altered"])
def test_a_damaged_head_is_refused(index, encoder, harm):
    path = index.folder / index.manifest.head.file
    content = path.read_bytes()
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(content[:-1] if harm == "cut" else content[:-1] + b"\x00")
    with pytest.raises(InputError, match=r"head-.*build the index again"):
        Index.open(index.store, encoder, verify=True)
    before = store_of(index.store).read_manifest()
    with pytest.raises(InputError, match=r"head-.*build the index again"):
        index.add(["Another reply."])
    assert store_of(index.store).read_manifest() == before


def test_equal_replies_make_equal_indexes(encoder, tmp_path):
    one, two = (Index.build(encoder, faq(), tmp_path / name) for name in "ab")
    assert one.fingerprint == two.fingerprint


def many(count=30, each=6):
    """Return replies whose examples share words of their own, and some that two replies have."""
    generator = np.random.default_rng(5)
    return [
        Candidate(f"reply {row}", {}, "", tuple(
            (" ".join([f"topic{row}", *(f"word{generator.integers(40)}" for _ in range(4))]),) for _ in range(each)
        ))
        for row in range(count)
    ]  # fmt: skip


def test_an_index_is_calibrated_by_the_examples_that_were_left_out(encoder, tmp_path):
    index = Index.build(encoder, many(), tmp_path / "index")
    assert index.manifest.head.held_out == 180
    assert 0.2 < index.manifest.head.right < 0.99
    sure, unsure = CalibratedIndex(index).answer([["topic3 word7"], ["Where is the museum?"]], 0.0)
    assert sure.confidence > unsure.confidence
    assert sure.replies[0].text == "reply 3"
    [none] = CalibratedIndex(index).answer([["Where is the museum?"]], 0.9)
    assert none.replies == []
    assert why_uncalibrated(index) is None
    index.add(["Another reply."])
    assert "is of other replies than it has now; calibrate again: rejoinder" in why_uncalibrated(index)
    with pytest.raises(InputError, match=r"rejoinder learn .* takes its own examples; or rejoinder calibrate"):
        CalibratedIndex(index)
    earlier = CalibratedIndex(index, after_changes=True)
    assert earlier.outdated == why_uncalibrated(index)
    assert earlier.answer([["topic3 word7"]], 0.0)[0].confidence == sure.confidence
    index.fit()
    assert CalibratedIndex(index, after_changes=True).outdated is None


def test_examples_may_be_questions_and_lists_as_in_json(tmp_path):
    given = ["when do you open", ["Hi!", "where are you"], ("Hi!", "where are you")]
    index = Index.build(WordEncoder(), [Candidate("At nine.", examples=given)], tmp_path / "index")
    [(_, reply)] = index
    assert reply.examples == (("when do you open",), ("Hi!", "where are you"))


def test_few_examples_calibrate_nothing(index):
    with pytest.raises(InputError, match="is not calibrated"):
        CalibratedIndex(index)


# --- The head -------------------------------------------------------------------------------------


def views(count=12, each=6, seed=0):
    """Return examples around random centres, and a background."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(count, SIZE))
    rows = centres.repeat(each, axis=0) + generator.normal(size=(count * each, SIZE))
    owners = np.arange(count).repeat(each)
    background = unit_rows(generator.normal(size=(50, SIZE)).astype(np.float32))
    made = Views(unit_rows(rows.astype(np.float32)), owners, np.ones(len(rows), np.float32))
    return made, background


def test_whitening_makes_the_second_moment_the_identity(monkeypatch):
    monkeypatch.setattr(scoring, "RIDGE", 0.0)
    made, _ = views()
    whitened = made.vectors @ scoring.whitening_matrix(made.vectors, made.weights)
    np.testing.assert_allclose(whitened.T @ whitened / len(whitened), np.eye(SIZE), atol=1e-3)


def test_the_regression_is_at_its_minimum(monkeypatch):
    """Parity: the gradient that PyTorch derives from the loss as it is written down vanishes there."""
    monkeypatch.setattr(regression, "STEPS", 500)
    monkeypatch.setattr(regression, "LEAST_GAIN", 0.0)
    made, _ = views()
    start = scoring._means(made.vectors, made.owners, made.weights, 12)
    u = torch.tensor(regression.regress(made.vectors, made.owners, made.weights, start), requires_grad=True)
    logits = regression.SCALE * torch.from_numpy(made.vectors) @ u.T
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(made.owners), reduction="sum")
    penalty = (regression.SCALE * (u - torch.from_numpy(start))).square().sum() / (2 * regression.VARIANCE)
    (loss + penalty).backward()
    assert u.grad.abs().max() < 1e-2
    assert (u - torch.from_numpy(start)).abs().max() > 0.05, "it has moved"


def test_replies_are_fitted_to_their_examples_without_pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    made, background = views()
    head, weights, _ = scoring.fit(made, background, 12)
    best = (made.vectors @ head.vectors(weights, np.zeros_like(weights)).T).argmax(axis=1)
    assert (best == made.owners).all()


def test_a_regression_that_cannot_improve_stays():
    """Of one class every gradient is 0: no step is taken, and none divides by 0."""
    rows = unit_rows(np.random.default_rng(0).normal(size=(4, SIZE)).astype(np.float32))
    start = rows[:1]
    fitted = regression.regress(rows, np.zeros(4, np.int64), np.ones(4, np.float32), start, start)
    np.testing.assert_array_equal(fitted, start)


def test_many_rows_are_taken_some_at_a_time(monkeypatch):
    made, background = views()
    head, weights, _ = scoring.fit(made, background, 12)
    monkeypatch.setattr(regression, "_PRODUCTS_AT_ONCE", 40)
    head_2, weights_2, _ = scoring.fit(made, background, 12)
    np.testing.assert_allclose(weights, weights_2, atol=1e-4)
    np.testing.assert_allclose(head.none, head_2.none, atol=1e-4)


def test_above_a_size_the_discriminant_is_left_as_it_is(monkeypatch):
    made, background = views()
    monkeypatch.setattr(scoring, "MOST_PRODUCTS", 10)
    head, weights, _ = scoring.fit(made, background, 12)
    np.testing.assert_array_equal(weights, head.discriminants(made, 12))


def test_held_out_examples_are_scored_by_a_head_without_them(monkeypatch):
    monkeypatch.setattr(held_out, "TEXT_WEIGHTS", (0.5,))
    made, background = views()
    responses = unit_rows(np.random.default_rng(1).normal(size=(12, SIZE)).astype(np.float32))
    held = hold_out(made, background, responses)
    assert held.is_own.sum() == len(made.owners), "each example was left out once"
    out = np.array([(number % 6 + number // 6) % 5 == 0 for number in range(72)])
    head, weights, _ = scoring.fit(made.without(out), background[np.arange(50) % 5 != 0], 12)
    vectors = replace(head, text_weight=0.5).vectors(weights, responses)
    scores = made.vectors[out] @ vectors.T
    np.testing.assert_allclose(held.best[: out.sum()], scores.max(axis=1), atol=1e-5)
    np.testing.assert_array_equal(held.right[: out.sum()], scores.argmax(axis=1) == made.owners[out])
    low = np.quantile(held.best[held.is_own], 0.05)
    assert held.minimum_score == pytest.approx(min(low, 0.0), abs=0.05)


def test_a_fit_goes_on_from_the_one_that_left_examples_out(monkeypatch):
    evaluations, losses = [], []
    minimise = regression.minimise

    def counted(evaluate, start, steps):
        points = []

        def evaluate_and_count(point):
            points.append(point)
            return evaluate(point)

        fitted = minimise(evaluate_and_count, start, steps)
        evaluations.append(len(points))
        losses.append(evaluate(fitted).loss)
        return fitted

    monkeypatch.setattr(regression, "minimise", counted)
    made, background = views()
    held = hold_out(made, background, np.zeros((12, SIZE), np.float32))
    scoring.fit(made, background, 12, held.moves)
    assert evaluations[-1] < min(evaluations[:-1])
    monkeypatch.setattr(regression, "STEPS", 500)
    monkeypatch.setattr(regression, "LEAST_GAIN", 0.0)
    scoring.fit(made, background, 12)
    assert losses[-1] <= losses[-2] < 1.02 * losses[-1]


def test_the_curvature_is_the_mean_of_the_diagonal_of_the_hessian(monkeypatch):
    """Parity: the second derivatives that PyTorch derives from the loss as it is written down."""
    evaluations = []

    def stay(evaluate, start, _):
        evaluations.append(evaluate(start))
        return start

    monkeypatch.setattr(regression, "minimise", stay)
    made, _ = views(count=4)
    shares = np.linspace(0.5, 1.5, len(made.owners), dtype=np.float32)
    start = scoring._means(made.vectors, made.owners, shares, 4)
    point = regression.regress(made.vectors, made.owners, shares, start)

    def loss(u):
        logits = regression.SCALE * torch.from_numpy(made.vectors) @ u.T
        rows = torch.nn.functional.cross_entropy(logits, torch.from_numpy(made.owners), reduction="none")
        penalty = (regression.SCALE * (u - torch.from_numpy(start))).square().sum() / (2 * regression.VARIANCE)
        return (torch.from_numpy(shares) * rows).sum() + penalty

    hessian = torch.autograd.functional.hessian(loss, torch.from_numpy(point))
    diagonal = hessian.reshape(point.size, point.size).diagonal().reshape(point.shape)
    (evaluation,) = evaluations
    assert evaluation.loss == pytest.approx(loss(torch.from_numpy(point)).item(), rel=1e-5)
    np.testing.assert_allclose(evaluation.curvature[:, 0], diagonal.mean(dim=1), rtol=1e-3)


def test_no_step_is_taken_that_promises_little(monkeypatch):
    """Of a quadratic loss the first step reaches nearly everything."""
    target = np.random.default_rng(2).normal(size=(3, SIZE)).astype(np.float32)
    points = []

    def evaluate(point):
        points.append(point)
        difference = point - target
        loss = 100 + float(np.square(difference).sum())
        return regression.LocalLoss(loss, 2 * difference, np.full((3, 1), 2.1, np.float32))

    start = np.float32(1.1) * target
    regression.minimise(evaluate, start, 50)
    assert len(points) == 2, "the start, and a step"
    monkeypatch.setattr(regression, "LEAST_GAIN", 0.0)
    best = regression.minimise(evaluate, start, 50)
    np.testing.assert_allclose(best, target, atol=1e-3)


def test_too_few_examples_are_not_left_out():
    made, background = views(count=3, each=4)
    assert hold_out(made, background, np.zeros((3, SIZE), np.float32)) is None
    lone = Views(made.vectors, np.arange(12), made.weights)
    assert hold_out(lone, background, np.zeros((12, SIZE), np.float32)) is None
